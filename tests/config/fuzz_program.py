"""Parses mutated lines under an audit hook; run by test_parse_safety.py: ``fuzz_program.py SEED COUNT < source lines``.

Prints one JSON object: what the hook saw, which lines raised anything but a ConfigSyntaxError, and the slowest one.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import json
import sys
import time
from pathlib import Path

from pytest_paddleapi.config import ConfigSyntaxError, parse_call, print_call
from pytest_paddleapi.config.canonical import canonical_text, usual_spelling


def load_language() -> object:
    spec = importlib.util.spec_from_file_location("language", Path(__file__).parent / "language.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    lines = list(load_language().mutated_lines(seed, count))  # type: ignore[attr-defined]
    str(ConfigSyntaxError("é\0", 0, "warm up"))
    seen: list[str] = []
    crashes: list[str] = []
    state = {"parsing": False}

    def hook(event: str, args: tuple[object, ...]) -> None:
        if state["parsing"] and event not in {"compile", "object.__getattr__", "sys._getframe"}:
            seen.append(f"{event}{args!r}"[:200])

    compile_flags: set[int] = set()
    real_compile = compile

    def checked_compile(source: object, filename: object, mode: str, flags: int = 0, **rest: object) -> object:
        compile_flags.add(flags)
        return real_compile(source, filename, mode, flags, **rest)  # type: ignore[call-overload]

    # A collection in the middle would show what finalizers of other packages do.
    gc.disable()
    # ast.parse calls the builtin; its flags tell a tree from code that could run.
    ast.compile = checked_compile  # type: ignore[attr-defined]
    sys.addaudithook(hook)
    valid, slowest, slow_line = 0, 0.0, ""
    for line in lines:
        start = time.process_time()
        state["parsing"] = True
        try:
            call = parse_call(line)
            canonical = print_call(call)
            canonical_text(line)
            valid += 1
        except ConfigSyntaxError as exc:
            canonical = None
            str(exc)
        except BaseException as exc:
            canonical = None
            crashes.append(f"{type(exc).__name__}: {exc}: {line!r}"[:300])
        state["parsing"] = False
        taken = time.process_time() - start
        if taken > slowest:
            slowest, slow_line = taken, line[:200]
        usual = usual_spelling(line.strip())
        if usual is not None and usual != canonical:
            crashes.append(f"two canonical texts of {line!r}: {usual!r} and {canonical!r}")
    print(
        json.dumps(
            {
                "lines": len(lines),
                "valid": valid,
                "events": seen[:20],
                "crashes": crashes[:20],
                "slowest": slowest,
                "slow_line": slow_line.encode("unicode_escape").decode(),
                "only_trees": all(flags & ast.PyCF_ONLY_AST for flags in compile_flags) and bool(compile_flags),
            }
        )
    )


if __name__ == "__main__":
    main()
