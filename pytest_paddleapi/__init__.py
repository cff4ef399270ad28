"""pytest-paddleapi: run captured Paddle API calls as pytest items, against Torch."""

__version__ = "0.1.0"
