"""A case as one script that needs Paddle, Torch and NumPy only."""
