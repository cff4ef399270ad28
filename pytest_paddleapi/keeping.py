"""What a session keeps of its cases in the results folder, and which cases it leaves out because of what is there.

The controller decides that once, when the session starts. A worker is told; it never reads the folder, which may be on
another machine and which changes while it starts.
"""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import re
import shlex
import socket
import time
import zlib
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from . import __version__
from .config.manifest import Case, Manifest
from .items import CaseItem
from .options.golden import without_secrets
from .options.model import RunOptions
from .options.repeating import decisive
from .results.errors import ResultsDamagedError, ResultsError, ResultsLockedError
from .results.folder import ResultsFolder
from .results.reading import ResultsReader
from .results.rows import MEASURED, Attempt, Environment
from .results.schema import FILE_NAME
from .results.store import ResultsStore
from .results.verdicts import Verdict
from .sharding import Sharding

__all__ = ["Keeping"]

#: So many live sessions may share the default folder's name.
_MOST_SIBLINGS = 100
#: Fields of the case options that change no verdict. Any other one does, so that a new option is on the safe side.
_NOT_DECIDING = frozenset(
    {"mode", "threads", "record_tolerance", "device", "torch_device", "second_device", "second_torch_device", "dump"}
)
#: Properties with a column of their own, or that follow from the session.
_KNOWN = frozenset({"verdict", "api", "config", "mode", "device", "attempts", *MEASURED})
#: Where there are no workers.
_ONLY_SLOT = "main"
_LEFT_OUT = "paddleapi_left_out"
_MANIFEST = "paddleapi_manifest"


class Keeping:
    """The results of one session, in the controller or the only process; in a worker only what is left out.

    ``kind`` and ``devices`` are the kind of the session's devices and their models.
    """

    def __init__(
        self, config: pytest.Config, options: RunOptions, manifest: Manifest, kind: str, devices: Iterable[str]
    ) -> None:
        self._config = config
        self._options = options
        self._manifest = manifest
        self._kind = kind
        self._devices = tuple(devices)
        self._store: ResultsStore | None = None
        #: Other shards' cases, and all that are left out.
        self._elsewhere: frozenset[int] = frozenset()
        self._left_out: frozenset[int] = frozenset()
        self._sharding: Sharding | None = None
        #: What the header says of the folder.
        self._note = ""

    def versions(self) -> dict[str, str]:
        """Of the installed frameworks."""
        environment = self._environment()
        return {"paddle": environment.paddle, "torch": environment.torch}

    def start(self) -> None:
        """Open the folder, begin the session in it, and decide what is left out. Called before anything is collected.

        Raises:
            pytest.UsageError: the folder that was asked for cannot be used, or --paddleapi-resume or
                --paddleapi-retest has nothing to go by.
        """
        workerinput: Mapping[str, Any] | None = getattr(self._config, "workerinput", None)
        try:
            if workerinput is not None:
                self._left_out = _told(workerinput, self._manifest)
            else:
                self._divide()
                if self._config.option.collectonly:
                    self._only_look()
                else:
                    self._open()
        except ResultsError as exc:
            raise pytest.UsageError(f"--paddleapi-results: {exc}") from None
        if self._left_out:
            # Registered this late, it is the outermost wrapper: --lf, --sw and -k have chosen before.
            self._config.pluginmanager.register(_LeavesOut(self._left_out), "paddleapi-left-out")

    def tell(self, workerinput: dict[str, Any]) -> None:
        """Hand a worker what it must leave out."""
        if self._left_out:
            bits = bytearray(len(self._manifest.cases) // 8 + 1)
            for index in self._left_out:
                bits[index // 8] |= 1 << index % 8
            workerinput[_LEFT_OUT] = zlib.compress(bytes(bits))
            workerinput[_MANIFEST] = _digest(self._manifest)

    def record(self, case: Case, report: pytest.TestReport) -> None:
        """Keep an attempt; called before anybody is shown its verdict."""
        if self._store is not None:
            self._store.record(_attempt(case, report))

    def finish(self, exit_status: int) -> None:
        """The session ends with this exit status."""
        if self._store is not None:
            self._store.finish(exit_status)

    def close(self) -> None:
        """Let the next session into the folder."""
        if self._store is not None:
            self._store.close()
            self._store = None

    @property
    def keeps(self) -> bool:
        """This process writes results: it is no worker, and cases are not only collected."""
        return not hasattr(self._config, "workerinput") and not self._config.option.collectonly

    @property
    def place(self) -> tuple[Path, int] | None:
        """The folder, and this session's number in it; None where nothing is kept."""
        store = self._store
        return None if store is None or store.session is None else (store.folder.path, store.session)

    def recorded_seconds(self) -> Mapping[str, float]:
        """What cases of this mode took before, by canonical config, in this folder or the record of the shards."""
        costs, seconds = self._options.shard_costs, dict[str, float]()
        folders: list[tuple[Path, int | None]] = [(costs, None)] if isinstance(costs, Path) else []
        folders += [(self._store.folder.path, self._store.session)] if self._store is not None else []
        for folder, own in folders:
            with suppress(ResultsError), ResultsReader(folder) as reader:  # it only serves to guess
                seconds.update(reader.seconds(self._options.mode.value, without=own))
        return seconds

    def left_out(self) -> list[Case]:
        """The cases that are not run, for what the results folder says or because they are other shards'."""
        return [self._manifest.cases[index] for index in sorted(self._left_out)]

    def counted(self) -> list[str]:
        """What the header's line of configs says of those that are left out."""
        counts = [f"in other shards {len(self._elsewhere)}"] if self._elsewhere else []
        if decided := len(self._left_out) - len(self._elsewhere):
            counts.append(f"{'resumed' if self._options.resume else 'not to be retested'} {decided}")
        return counts

    def header(self) -> list[str]:
        """What the header says of the shard and of the folder."""
        shard = [self._sharding.note()] if self._sharding is not None else []
        return [*shard, self._note] if self._note else shard

    def lines(self) -> Iterator[str]:
        """What the summary says."""
        store = self._store
        if store is None:
            return
        yield f"results: {store.path} ({store.written} attempts)"
        if store.missing:
            yield (
                f"WARNING: {store.missing} attempts are missing there ({store.trouble}); everything before them is "
                "kept, and --paddleapi-resume will run those cases again"
            )
        elif store.trouble:
            yield f"WARNING: the end of this session could not be noted there ({store.trouble})"
        if store.replaced:
            yield "WARNING: somebody removed or replaced that file while the session ran: its results are lost"

    # ----------------------------------------------------------------------------------------

    @property
    def _chooses(self) -> bool:
        return self._options.resume or bool(self._options.retest)

    def _divide(self) -> None:
        """Leave out what is other shards'."""
        options = self._options
        if options.shard is None:
            return
        own = options.results
        if own is None and isinstance(options.shard_costs, Path):
            with suppress(ResultsError):  # no cache, so no folder either
                own = self._default_path()
        self._sharding = Sharding(
            options.shard, options.shard_costs, self._manifest, mode=options.mode.value, results=own
        )
        self._elsewhere = self._left_out = self._sharding.elsewhere

    def _open(self) -> None:
        """Raises ResultsError where the user's wish cannot be met; without a wish, the header says what is wrong."""
        explicit = self._options.results is not None
        try:
            folder = ResultsFolder(self._options.results) if self._options.results else self._default_folder()
            store = ResultsStore(folder, set_aside=not self._chooses)
        except ResultsDamagedError as exc:
            why = f"{exc.why}; without --paddleapi-resume and --paddleapi-retest it is set aside and a new one begun"
            raise ResultsError(exc.folder, why) from None
        except ResultsError as exc:
            if explicit or self._chooses:
                raise
            self._note = f"no results are kept: {exc}"
            return
        try:
            environment = self._environment()
            if self._chooses:
                self._left_out = self._decided(*store.last_verdicts(environment.conditions))
            store.begin(environment)
        except ResultsError as exc:
            store.close()
            if explicit or self._chooses:
                raise
            self._note = f"no results are kept: {exc}"
            return
        self._store = store
        aside = f" (its file was damaged: set aside as {store.set_aside})" if store.set_aside else ""
        self._note = f"results in {_short(folder.path, self._config)}{aside}{self._note}"

    def _default_folder(self) -> ResultsFolder:
        """The folder below pytest's cache, or a numbered sibling where another live session has it."""
        path = self._default_path()
        try:
            return ResultsFolder(path, own=True)
        except ResultsLockedError:
            if self._chooses:
                raise  # it would go by other results than the user means
        for number in range(2, _MOST_SIBLINGS):
            sibling = path.with_name(f"{path.name}-{number}")
            try:
                folder = ResultsFolder(sibling, own=True)
            except ResultsLockedError:
                continue
            self._note = f", because another live session has {path.name}"
            return folder
        raise ResultsError(
            path, f"{_MOST_SIBLINGS} live sessions use it and its siblings; give --paddleapi-results=DIR"
        )

    def _default_path(self) -> Path:
        cache = getattr(self._config, "cache", None)
        if cache is None:
            raise ResultsError("without pytest's cache", "there is no default folder; give --paddleapi-results=DIR")
        try:
            return Path(cache.mkdir("paddleapi")) / "results"
        except OSError as exc:
            raise ResultsError(cache._cachedir, f"{exc.strerror}; give --paddleapi-results=DIR") from None

    def _only_look(self) -> None:
        """For ``--collect-only``: what would be left out, without taking the folder from anybody."""
        if self._chooses:
            folder = self._options.results or self._default_path()
            if not (folder / FILE_NAME).exists():
                self._left_out = self._decided({}, {})
                return
            with ResultsReader(folder) as reader:
                self._left_out = self._decided(*reader.last_verdicts(self._environment().conditions))

    def _decided(self, last: Mapping[str, str], final: Mapping[str, str]) -> frozenset[int]:
        """Which cases are left out, given each one's last verdict and its last final one."""
        again = {verdict.value for verdict in self._options.retest}

        def is_left_out(canonical: str) -> bool:
            if final.get(canonical) in again or last.get(canonical) in again:
                return False
            return canonical in final if self._options.resume else True

        cases = enumerate(self._manifest.cases)
        return self._elsewhere.union(index for index, case in cases if is_left_out(case.canonical))

    def _environment(self) -> Environment:
        options = msgspec.to_builtins(without_secrets(self._options.case))
        return Environment(
            mode=self._options.mode.value,
            device_kind=self._kind,
            devices=self._devices,
            host=socket.gethostname(),
            paddle=_framework_version("paddle", "version/__init__.py", ("full_version", "commit")),
            torch=_framework_version("torch", "version.py", ("__version__", "git_version")),
            plugin=__version__,
            pytest=pytest.__version__,
            python=platform.python_version(),
            options={name: value for name, value in options.items() if name not in _NOT_DECIDING},
            command=shlex.join(["pytest", *decisive(self._config, self._options)]),
        )


class _LeavesOut:
    """Deselects cases by their place in the manifest."""

    def __init__(self, indices: Collection[int]) -> None:
        self._indices = indices

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, Any, Any]:
        """After everybody else has chosen: what is left out is left out, whatever they want."""
        result = yield
        gone = [item for item in items if isinstance(item, CaseItem) and item.index in self._indices]
        if gone:
            left = set(map(id, gone))
            config.hook.pytest_deselected(items=gone)
            items[:] = [item for item in items if id(item) not in left]
        return result


def _told(workerinput: Mapping[str, Any], manifest: Manifest) -> frozenset[int]:
    packed = workerinput.get(_LEFT_OUT)
    if packed is None:
        return frozenset()
    if workerinput[_MANIFEST] != _digest(manifest):
        raise pytest.UsageError("a config file changed while the workers started: run the command again")
    bits = zlib.decompress(packed)
    return frozenset(index for index in range(len(manifest.cases)) if bits[index // 8] >> index % 8 & 1)


def _digest(manifest: Manifest) -> str:
    whole = hashlib.sha256()
    for case in manifest.cases:
        whole.update(case.canonical.encode("utf-8", "surrogatepass") + b"\n")
    return whole.hexdigest()


def _attempt(case: Case, report: pytest.TestReport) -> Attempt:
    properties: dict[str, Any] = dict(report.user_properties)
    data: Mapping[str, Any] = getattr(report, "paddleapi", {})
    ran = bool(data.get("token"))
    return Attempt(
        canonical=case.canonical,
        config=case.printable_text,
        api=case.api,
        verdict=Verdict(properties["verdict"]),
        outcome=_outcome(report),
        number=int(properties["attempts"]),
        started=report.start if ran else None,
        ended=time.time(),
        slot=getattr(report, "worker_id", _ONLY_SLOT) if ran else None,
        lease_bytes=data.get("lease_bytes"),
        file=case.file,
        line=case.line,
        device=properties.get("device"),
        measured={name: properties[name] for name in MEASURED if name in properties},
        extra={name: value for name, value in properties.items() if name not in _KNOWN},
        failure=_text(report),
        stdout=report.capstdout,
        stderr=report.capstderr,
    )


def _outcome(report: Any) -> str:
    """pytest's word for it: passed, failed, skipped, error, xfailed, xpassed or rerun."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.outcome == "failed" and report.when != "call":
        return "error"
    return str(report.outcome)


def _text(report: pytest.TestReport) -> str:
    """What the report says of a case that did not pass."""
    if report.longrepr is None:
        return ""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    return str(report.longrepr)  # not longreprtext, which begins with the worker's name


def _framework_version(module: str, file: str, names: tuple[str, ...]) -> str:
    """Version and commit of an installed framework from its own file, without an import; builds between releases
    share a version. Text without the values says that it could not be told."""
    spec = importlib.util.find_spec(module)
    try:
        text = (Path(spec.origin or "").parent / file).read_text(encoding="utf-8") if spec is not None else ""
    except OSError:
        text = ""
    found = [re.search(rf"^{name}\s*=\s*['\"](.*)['\"]", text, re.MULTILINE) for name in names]
    return " ".join(match.group(1)[:40] for match in found if match is not None) or "unknown"


def _short(path: Path, config: pytest.Config) -> str:
    root = config.rootpath
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
