"""What came of the cases."""
