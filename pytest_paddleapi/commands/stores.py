"""Arguments of the commands that read a folder of results."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_folder", "add_session"]


def add_folder(parser: argparse.ArgumentParser) -> None:
    """``DIR``, as ``folder``."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="as given to pytest's --paddleapi-results")


def add_session(parser: argparse.ArgumentParser) -> None:
    """``--session``: ``latest`` or ``all``."""
    parser.add_argument(
        "--session",
        choices=("latest", "all"),
        default="all",
        help="all (default): the last attempt of each case, whenever that was; latest: of the last session alone",
    )
