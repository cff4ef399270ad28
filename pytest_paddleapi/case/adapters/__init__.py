"""Calls whose arguments a config cannot write, or whose results are no tensors, on Paddle's side."""
