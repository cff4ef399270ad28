"""What came of a session's cases, counted: by verdict, and by API."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

__all__ = ["Tally"]

#: APIs that the summary names.
_NAMED = 10


class Tally:
    """Final verdicts and reruns of one session."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.reruns = 0
        self._cases: Counter[str] = Counter()
        self._failures: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def __bool__(self) -> bool:
        return bool(self.verdicts or self.reruns)

    def add(self, api: str, verdict: str, *, failed: bool) -> None:
        """A final verdict; ``failed`` is what it is to pytest, errors included and expected failures not."""
        self.verdicts[verdict] += 1
        self._cases[api] += 1
        if failed:
            self._failures[api][verdict] += 1

    def lines(self) -> Iterator[str]:
        """Verdicts by count, then reruns."""
        for verdict, count in self.verdicts.most_common():
            yield f"{count:8}  {verdict}"
        if self.reruns:
            yield f"{self.reruns:8}  reruns"

    def worst(self) -> Iterator[str]:
        """The APIs with the most failures, the most first."""
        if not self._failures:
            return
        ranked = sorted(self._failures, key=lambda api: (-self._failures[api].total(), api))
        yield "APIs with the most failures:" if len(ranked) > 1 else "the API with failures:"
        for api in ranked[:_NAMED]:
            verdicts = self._failures[api]
            shown = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
            yield f"{verdicts.total():8}  of {self._cases[api]}  {api} ({shown})"
        if len(ranked) > _NAMED:
            yield f"          ... and {len(ranked) - _NAMED} more"
