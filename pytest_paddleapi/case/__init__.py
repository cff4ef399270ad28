"""What runs inside the case process, and is imported nowhere else.

May import :mod:`pytest_paddleapi.config` and :mod:`pytest_paddleapi.process.messages`.
"""
