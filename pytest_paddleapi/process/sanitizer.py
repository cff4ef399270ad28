"""The program that a case process runs under when it is to be watched, and how to start it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT_EXIT_CODE", "Sanitizer"]

#: What the sanitizer is asked to exit with where it found anything.
DEFAULT_EXIT_CODE = 86


@dataclass(frozen=True)
class Sanitizer:
    """``compute-sanitizer``, or a program that takes its options and prints as it does.

    ``command`` is the program and the options that the user gave it; ``exit_code`` is what it exits with where it
    found anything.
    """

    command: tuple[str, ...]
    exit_code: int = DEFAULT_EXIT_CODE

    @property
    def words(self) -> tuple[str, ...]:
        """What stands before the command of the watched program; what the user gave himself is left as it is."""
        words = list(self.command)
        if not self._has("--target-processes"):
            words += ["--target-processes", "all"]
        if not self._has("--error-exitcode"):
            words.append(f"--error-exitcode={self.exit_code}")
        return tuple(words)

    def _has(self, option: str) -> bool:
        return any(word == option or word.startswith(f"{option}=") for word in self.command[1:])
