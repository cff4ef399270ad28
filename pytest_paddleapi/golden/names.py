"""The names of what a store holds.

Layout::

    v1/store.json                   the mark of a store, with its format
    v1/manifests/TIME-ID.json       one an upload: versions, devices, options, counts
    v1/ab/abcdef....golden          one a case, by the SHA-256 of what decides its results
"""

from __future__ import annotations

import hashlib
import json

import msgspec

from ..process.messages import CaseOptions

__all__ = ["MARK", "deciding_options", "manifest_name", "object_name"]

_FOLDER = "v1"
MARK = f"{_FOLDER}/store.json"
#: Fields of the case options that change nothing of what Paddle computes from the config: where it computes, and how
#: its results are compared. Any other one does, so that a new option is on the safe side.
_NOT_DECIDING = frozenset(
    {"mode", "seed", "tolerance", "record_tolerance", "threads", "device", "torch_device", "golden"}
    | {"second_device", "second_torch_device", "dump", "sanitize"}
)


def deciding_options(options: CaseOptions) -> dict[str, object]:
    """The options, beside the seed, that results depend on, where they are not at their defaults.

    Defaults are left out so that an option that is added one day renames no object of those who do not use it.
    """
    defaults = msgspec.to_builtins(CaseOptions())
    given = msgspec.to_builtins(options)
    return {name: value for name, value in given.items() if name not in _NOT_DECIDING and value != defaults[name]}


def object_name(config: str, options: CaseOptions) -> str:
    """The name of a case's object; ``config`` is the canonical text."""
    decides = {"config": config, "seed": options.seed, "options": deciding_options(options)}
    # ASCII: a config may hold a lone surrogate, which no encoding takes.
    text = json.dumps(decides, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return f"{_FOLDER}/{digest[:2]}/{digest}.golden"


def manifest_name(time: str, identity: str) -> str:
    """The name of an upload's manifest; ``time`` is UTC and sorts, such as ``20260131T120000Z``."""
    return f"{_FOLDER}/manifests/{time}-{identity}.json"
