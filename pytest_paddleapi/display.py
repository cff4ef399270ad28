"""The header and the summary of a session, as lines."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Iterable, Iterator

from .config.manifest import COMMAND_LINE, Manifest

__all__ = ["header_lines", "summary_lines"]


def header_lines(mode: str, where: str, manifest: Manifest, left_out: Iterable[str], notes: Iterable[str]) -> list[str]:
    """What runs, on what, from where; ``left_out`` says what else than duplicates and other text is left out."""
    files = sum(1 for file in manifest.by_file if file is not COMMAND_LINE)
    places = [_count(files, "file")] if files else []
    places += ["the command line"] if COMMAND_LINE in manifest.by_file else []
    counts = f"{_count(len(manifest.cases), 'config')} from {' and '.join(places)}"
    passed = [_count(manifest.duplicates, "duplicate")] if manifest.duplicates else []
    passed += [f"{_count(manifest.skipped, 'line')} without a config"] if manifest.skipped else []
    passed += left_out
    versions = ", ".join(f"{name} {_version(name)}" for name in ("paddlepaddle", "torch"))
    return [
        f"paddleapi: {mode} {where}, {versions}",
        f"paddleapi: {counts}{', left out: ' + ', '.join(passed) if passed else ''}",
        *(f"paddleapi: {note}" for note in notes),
    ]


def summary_lines(verdicts: Counter[str], reruns: int, manifest: Manifest) -> Iterator[str]:
    """Verdicts by count, and what in the files was no config."""
    for verdict, count in verdicts.most_common():
        yield f"{count:8}  {verdict}"
    if reruns:
        yield f"{reruns:8}  reruns"
    if manifest.skipped:
        yield f"{manifest.skipped:8}  lines were no config, such as {manifest.skipped_samples[0]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed as a package)"
