"""The kinds of device that cases run on: how each is found, named, hidden and measured."""
