"""Torch equivalents of Paddle calls, one module per family of APIs."""
