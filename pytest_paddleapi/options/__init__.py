"""What the command line asks for: the options that pytest registers, and how they are read and checked.

Nothing is imported here: of a session without Paddle API cases only ``declared`` and ``active`` are loaded.
"""
