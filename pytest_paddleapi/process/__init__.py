"""The case process and its supervisor."""
