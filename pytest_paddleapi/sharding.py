"""``--paddleapi-shard=K/N``: which cases of a run are this session's, where N sessions share them.

Sessions of one run do not speak with each other, so each must come to the same division by itself. It therefore depends
on nothing but the canonical configs, N, and a record that the user says they all have (``--paddleapi-shard-costs``).

Without a record a case's shard follows from a hash of its config: no other line of any file can move it. With a record
the cases in it are placed by what they cost there, dearest first, each in the shard with the least so far; that follows
from the record alone, so again no line can move another one, and what the record does not know goes by its hash.
Only by ``sizes``, where the lines themselves are the record, may a new line move others.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from .config.manifest import Manifest
from .results.errors import ResultsError
from .results.reading import ResultsReader

__all__ = ["BY_SIZE", "Shard", "Sharding", "guess_seconds", "place", "read_shard", "shard_by_hash"]

FLAG = "--paddleapi-shard"
COSTS_FLAG = "--paddleapi-shard-costs"
#: The value of ``--paddleapi-shard-costs`` that takes the configs' own sizes.
BY_SIZE = "sizes"
#: Enough for every farm; a larger number is a mistake, such as a job's id in the place of the number of tasks.
MOST_SHARDS = 100_000
#: Seconds that any case costs, and seconds by element of its inputs: values, both frameworks forward and backward, the
#: comparison. On two shared cores `paddle.abs` took 0.012 s of 16 float32 and 5.5 s of 16 million, with all around it.
#: Only their ratio matters.
OVERHEAD_SECONDS = 0.01
SECONDS_PER_ELEMENT = 3.3e-7
#: No guess goes beyond it: one case with absurd dimensions must not have a shard to itself.
MOST_SECONDS = 1800.0
#: Case texts differ in lists and scalars too, but what costs is in their tensors.
_DIMENSIONS = re.compile(r"\bTensor\(\[([0-9, ]*)\]")


@dataclass(frozen=True)
class Shard:
    """Number ``index`` of ``count`` shards, from 1."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def read_shard(text: str | None) -> Shard | None:
    """The value of ``--paddleapi-shard``.

    Raises:
        pytest.UsageError: it is not of the form K/N with 1 <= K <= N.
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text)
    if found is None:
        raise pytest.UsageError(f"{FLAG}={text}: write K/N, such as 2/8 for the second of eight shards")
    index, count = int(found.group(1)), int(found.group(2))
    if not 1 <= count <= MOST_SHARDS:
        raise pytest.UsageError(f"{FLAG}={text}: there can be 1 to {MOST_SHARDS} shards, not {count}")
    if index == 0:
        raise pytest.UsageError(f"{FLAG}={text}: shards are counted from 1, so the first one is 1/{count}")
    if index > count:
        raise pytest.UsageError(f"{FLAG}={text}: there is no shard {index} of {count}")
    return Shard(index, count)


def shard_by_hash(canonical: str, count: int) -> int:
    """The shard, from 1, of a config that no record knows: the same on every machine, whatever stands beside it."""
    digest = hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") * count >> 64) + 1


def place(costs: Mapping[str, float], count: int) -> dict[str, int]:
    """The shard, from 1, of each config of a record: dearest first, into the shard that has least so far.

    The dearest shard costs at most 4/3 of what the best division would cost (Graham's bound for this rule, 1969).
    """
    loads = [(0.0, shard) for shard in range(1, count + 1)]
    placed = {}
    for canonical, cost in sorted(costs.items(), key=lambda entry: (-entry[1], _order(entry[0]))):
        load, shard = loads[0]
        heapq.heapreplace(loads, (load + cost + OVERHEAD_SECONDS, shard))
        placed[canonical] = shard
    return placed


def guess_seconds(canonical: str) -> float:
    """What a case may cost, from the sizes of its tensors alone; for want of a record."""
    elements = 0
    for dimensions in _DIMENSIONS.findall(canonical):
        elements += _elements(dimensions)
    return min(OVERHEAD_SECONDS + elements * SECONDS_PER_ELEMENT, MOST_SECONDS)


class Sharding:
    """The division of one manifest.

    ``costs`` is the value of ``--paddleapi-shard-costs``: None, :data:`BY_SIZE`, or a folder of results; ``results``
    the folder that this session writes to, where it is known.

    Raises:
        pytest.UsageError: the record cannot be read, says nothing of this mode, or is not the same for all shards.
    """

    def __init__(
        self, shard: Shard, costs: str | Path | None, manifest: Manifest, *, mode: str, results: Path | None = None
    ) -> None:
        self.shard = shard
        self._by = "by a hash of each config"
        placed = self._placed(costs, manifest, mode, results)
        self._shards = [
            placed.get(case.canonical) or shard_by_hash(case.canonical, shard.count) for case in manifest.cases
        ]
        #: Places in the manifest of the cases that are other shards'.
        self.elsewhere = frozenset(index for index, of in enumerate(self._shards) if of != shard.index)

    def note(self) -> str:
        """What the header says."""
        own = len(self._shards) - len(self.elsewhere)
        return f"shard {self.shard}: {own} of {len(self._shards)} cases, {self._by}"

    def _placed(
        self, costs: str | Path | None, manifest: Manifest, mode: str, results: Path | None
    ) -> Mapping[str, int]:
        if costs is None:
            return {}
        if costs == BY_SIZE:
            self._by = "by the sizes of the configs"
            return place({case.canonical: guess_seconds(case.canonical) for case in manifest.cases}, self.shard.count)
        record = Path(costs)
        if results is not None and os.path.realpath(results) == os.path.realpath(record):
            raise pytest.UsageError(
                f"{COSTS_FLAG}={record} is also the folder that this session writes to, so the other shards would go "
                "by another record: give a copy, or results of an earlier run"
            )
        recorded = _recorded(record, mode)
        known = sum(case.canonical in recorded for case in manifest.cases)
        self._by = f"{known} of these {len(manifest.cases)} by their times in {record}, the others by a hash"
        if known == len(manifest.cases):
            self._by = f"by their times in {record}"
        return place(recorded, self.shard.count)


def _recorded(folder: Path, mode: str) -> Mapping[str, float]:
    try:
        with ResultsReader(folder) as reader:
            seconds = reader.seconds(mode)
    except ResultsError as exc:
        raise pytest.UsageError(f"{COSTS_FLAG}: {exc}") from None
    if not seconds:
        raise pytest.UsageError(f"{COSTS_FLAG}={folder}: no case of the mode {mode!r} has a time there")
    return seconds


def _order(canonical: str) -> bytes:
    """Ties must be broken in the same way everywhere, and not by the alphabet, which has one API's cases together."""
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@lru_cache(maxsize=4096)
def _elements(dimensions: str) -> int:
    product = 1
    for dimension in dimensions.split(","):
        product *= int(dimension) if dimension.strip() else 1
    return product
