"""Rules that make valid values for the tensors of a call, one module per family of APIs."""
