"""The plugin's state of one pytest session, in the controller, in a worker, or in the only process."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from _pytest.runner import collect_one_node

from . import junit
from .config.manifest import COMMAND_LINE, Case, Manifest
from .devices.model import DeviceReadingError
from .display import header_lines, memory_text, say
from .dumping import make_folder
from .estimates import Estimates
from .fleet import Fleet, Placement
from .gpu_admission import AdmissionRules, LedgerError
from .hosts import INPUT, Hosts, host_of, neighbours, remote_groups
from .interrupts import REASON, Interrupts
from .item_runner import ItemRunner, config_of, is_case
from .items import CaseItem, CommandLineConfigs, ConfigFile
from .options.golden import words_without_secrets
from .options.model import RunOptions
from .options.modes import MODES
from .options.running import running_notes
from .options.workers import worker_count
from .outcomes import VERY_QUIET, Outcomes
from .process.errors import SlotKilledError
from .reporting import describe_worker_crash, oversize_report
from .results.verdicts import Verdict
from .scheduling.admission import LedgerAdmission
from .scheduling.dispatching import Dispatch, Ended
from .scheduling.engine import Engine
from .scheduling.hosts_admission import HostsAdmission
from .scheduling.local import SLOT, run_items
from .scheduling.queue import CaseQueue
from .scheduling.xdist_controller import CaseScheduling
from .stalls import RunWatch


class PaddleApiSession:
    """Options, the manifest, and (where cases run) the slot.

    ``placement`` is what the slot of this process runs on; ``fleet`` has the devices of the session, where this is
    no worker.
    """

    def __init__(
        self,
        config: pytest.Config,
        options: RunOptions,
        manifest: Manifest,
        placement: Placement,
        fleet: Fleet | None = None,
    ) -> None:
        self.config = config
        self.options = options
        self.manifest = manifest
        self.placement = placement
        self.fleet = fleet
        remote = INPUT in getattr(config, "workerinput", ())
        self.runner = ItemRunner(options, placement, self._rules(), label=self._label, remote=remote)
        self.scheduler: CaseScheduling | None = None
        self.stop_text: str | None = None
        models = (device.model for group in fleet.groups.values() for device in group) if fleet is not None else ()
        self.outcomes = Outcomes(
            config,
            options,
            manifest,
            placement,
            models,
            controls=fleet is not None,
            estimates=lambda: self.estimates,
        )
        self.interrupts = Interrupts(self._stop_xdist)
        self.watch = RunWatch(
            options.timeout, options.stall_timeout, ledger=options.ledger, device=placement.kind, kill=self._kill_slots
        )
        self._holds_configs = lru_cache(self._is_config_file)
        self._hosts = Hosts(fleet) if fleet is not None else None
        self._admission: LedgerAdmission | None = None
        self._engine: Engine | None = None

    @property
    def is_worker(self) -> bool:
        """This is a worker of xdist."""
        return hasattr(self.config, "workerinput")

    @property
    def runs_cases_here(self) -> bool:
        """Cases run in (a child of) this process, not in workers of it."""
        if self.config.option.collectonly:
            return False
        return self.is_worker or not self.config.pluginmanager.hasplugin("dsession")

    # Collection -----------------------------------------------------------------------------

    def collector_for(self, path: Path, parent: pytest.Collector) -> ConfigFile | None:
        """The collector of a config file; None for any other file."""
        if path.resolve() not in self.manifest.by_file:
            return None
        root = self.config.rootpath
        # Absolute outside the root: pytest would leave the path out of the id, and ``--lf`` not find it.
        nodeid = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        return ConfigFile.from_parent(parent, path=path, nodeid=nodeid)

    def add_command_line_items(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Append the configs that the command line gave, unless they are there."""
        if self.manifest.by_file.get(COMMAND_LINE):
            parent = CommandLineConfigs.from_parent(session, name=COMMAND_LINE, nodeid=COMMAND_LINE)
            report = collect_one_node(parent)
            # So that the terminal counts them, as it does what pytest itself collects.
            self.config.hook.pytest_collectreport(report=report)
            items.extend(item for item in report.result if isinstance(item, CaseItem))

    # Life -----------------------------------------------------------------------------------

    def look_at_store(self) -> None:
        """Look at the store of golden results, once, before anything runs.

        Raises:
            pytest.UsageError: it cannot be used.
        """
        if not self.is_worker and not self.config.option.collectonly and self.fleet is not None:
            models = (device.model for group in self.fleet.groups.values() for device in group)
            self.outcomes.golden.start(self.placement.kind, models, self.outcomes.keeping.versions())

    def warm_slot(self) -> None:
        """Begin to start the case process while pytest collects."""
        self.runner.slot.warm()

    def close(self) -> None:
        """End the case process and give every lease back."""
        self.interrupts.restore()
        self.watch.finished()
        self.runner.close()
        if self._admission is not None:
            self._admission.close()
            self._admission = None
        if self.scheduler is not None:
            self.scheduler.close()
        if "estimates" in self.__dict__:
            self.estimates.close()
        self.outcomes.keeping.close()

    # Scheduling -----------------------------------------------------------------------------

    def make_engine(self, names: Sequence[str], cases: list[int], *, largest_first: bool = False) -> Engine:
        """An engine over ``cases``, positions in ``names`` (node ids); by size, or in their order."""
        assert self.fleet is not None
        try:
            self._admission = HostsAdmission(
                self.fleet.groups,
                remote=remote_groups(specs := self._specs()),
                local=not specs or any(not host_of(spec) for spec in specs),
                workers=self.fleet.workers_per_group(worker_count(self.config)),
                folder=self.options.ledger,
                rules=self._rules(),
                label=self._label,
            )
        except LedgerError as exc:
            raise pytest.UsageError(f"--paddleapi-ledger: {exc}") from None
        except DeviceReadingError as exc:
            raise pytest.UsageError(f"--paddleapi-device: {exc}") from None
        self._engine = Engine(
            queue=CaseQueue(cases),
            admission=self._admission,
            estimate=lambda position: self._estimate(names[position]),
            label=lambda position: names[position],
            largest_first=largest_first,
        )
        return self._engine

    @property
    def _label(self) -> str:
        """What the ledger calls this session: the words of its command line."""
        return words_without_secrets(" ".join(map(str, self.config.invocation_params.args)), self.options.case.golden)

    def _specs(self) -> Sequence[Any]:
        """Where xdist starts its workers; nothing without it."""
        dsession = self.config.pluginmanager.getplugin("dsession")
        return dsession.nodemanager.specs if dsession is not None else ()

    def _begin_progress(self, nodeids: Iterable[str]) -> None:
        if self.outcomes.progress is not None:
            cases = [case.canonical for nodeid in nodeids if (case := self._case(nodeid)) is not None]
            self.outcomes.progress.begin(cases, time.monotonic())

    def _tell_progress(self) -> None:
        """Write the line that is due. Called in the main thread, between tests."""
        if self.outcomes.progress is None or self.config.option.verbose <= VERY_QUIET or self.fleet is None:
            return
        groups = self.fleet.groups
        if line := self.outcomes.progress.line(time.monotonic(), lambda: memory_text(groups)):
            say(self.config, f"paddleapi: {line}")

    def _make_shared_engine(self, names: Sequence[str], cases: list[int]) -> Engine:
        self._begin_progress(names[position] for position in cases)
        # Where devices are on other hosts, what fits there is not known here.
        remote = any(host_of(spec) for spec in self._specs())
        largest_first = self._rules().largest_first and not remote and not says_what_goes_first(self.config.option)
        return self.make_engine(names, cases, largest_first=largest_first)

    def _rules(self) -> AdmissionRules:
        rules = self.options.numbers.admission(self.placement.kind, keeps_cache=self.options.case.gpu_mode)
        return replace(rules, pressure_seconds=self.options.pressure_timeout or math.inf)

    @cached_property
    def estimates(self) -> Estimates:
        """What each case may take of its devices."""
        cache = getattr(self.config, "cache", None)
        learned = None
        if cache is not None:
            with suppress(OSError):  # a root folder that may not be written: nothing is learned then
                learned = cache.mkdir("paddleapi") / "peaks.sqlite"
        return Estimates(
            self.options.case,
            self.placement.kind,
            torch_on_device=self.placement.torch[0] != "cpu",
            learned=learned,
        )

    def _estimate(self, nodeid: str) -> int | None:
        case = self._case(nodeid)
        return 0 if case is None or case.error is not None else self.estimates.of(case.canonical)

    def make_scheduler(self) -> CaseScheduling:
        """The scheduler of this session's workers."""
        assert self._hosts is not None
        self.scheduler = CaseScheduling(
            self.config,
            self._hosts,
            make_engine=self._make_shared_engine,
            is_case=lambda nodeid: self._case(nodeid) is not None,
            refuse=self.refuse,
            look=self._look,
        )
        return self.scheduler

    def prepare_worker(self, node: Any) -> None:
        """What a worker must know of the controller."""
        assert self.fleet is not None and self._hosts is not None
        node.workerinput["paddleapi_controller"] = os.getpid()
        node.workerinput["paddleapi_neighbours"] = neighbours(node.gateway.spec, node.nodemanager.specs)
        self.outcomes.keeping.tell(node.workerinput)
        if host := host_of(node.gateway.spec):
            place = self._hosts.place_remote(node.gateway.id, host)
            node.workerinput[INPUT] = msgspec.to_builtins(place)
            return
        engine = self.scheduler.engine if self.scheduler is not None else None
        placement = self.fleet.place(node.gateway.id, engine.quarantined if engine is not None else ())
        node.workerinput["paddleapi_placement"] = msgspec.to_builtins(placement)

    def run_loop(self, session: pytest.Session) -> bool | None:
        """pytest's main loop; None where it is not ours to run."""
        if not self.is_worker:
            self.interrupts.install()
            self.watch.start()
        if not self.runs_cases_here:
            return None
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return None  # pytest's own loop says what is wrong
        self.runner.slot.alone = len(session.items) == 1
        if self.is_worker:
            self.runner.serve(session)
        else:
            self._run_locally(session)
        return True

    def _kill_slots(self, reason: str) -> None:
        """Nothing moves: kill whatever runs cases. Called from another thread."""
        if self.scheduler is not None:
            self.scheduler.kill()
        self.runner.slot.kill(reason)

    def _look(self, engine: Engine) -> str:
        self.watch.look(engine)
        self._tell_progress()
        return self.watch.reason

    def _stop_xdist(self, reason: str) -> None:
        """Let DSession shut its workers down: each ends what it runs, and reports it."""
        dsession = self.config.pluginmanager.getplugin("dsession")
        if dsession is not None:
            dsession.shouldstop = reason

    def _run_locally(self, session: pytest.Session) -> None:
        items = session.items
        self._make_dump_folder(items)
        names = [item.nodeid for item in items]
        engine = self.make_engine(names, [])
        self._begin_progress(item.nodeid for item in items if is_case(item))
        self.runner.slot.confirm = self._unconfirmed

        def ordinary(position: int) -> None:
            self.watch.rest()
            protocol(position)

        def protocol(position: int) -> None:
            following = items[position + 1] if position + 1 < len(items) else None
            self.config.hook.pytest_runtest_protocol(item=items[position], nextitem=following)

        def run_case(dispatch: Dispatch) -> Ended:
            self.runner.expect(dispatch)
            chosen: list[Dispatch] = []

            def choose() -> str:
                following = engine.follow_up(SLOT, time.monotonic())
                chosen.extend([following] if following else [])
                return config_of(items[chosen[0].case]) if chosen else ""

            self.runner.following = choose
            protocol(dispatch.case)
            return self.runner.take_ended()

        try:
            run_items(
                items,
                engine,
                is_case=is_case,
                run_ordinary=ordinary,
                run_case=run_case,
                refuse=lambda position, need: self.refuse(names[position], need),
                should_stop=lambda: bool(session.shouldfail or session.shouldstop or self.interrupts.came),
                suspend=self.runner.slot.suspend,
                look=self._look,
            )
        except SlotKilledError as exc:
            engine.stop_reason = str(exc)
            engine.drop_slot(SLOT, time.monotonic())
        finally:
            self.watch.finished()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop or self.interrupts.came:
            raise session.Interrupted(session.shouldstop or REASON)
        if engine.stop_reason:
            self.stop_text = self._stop_text(engine, names)
            raise session.Failed(engine.stop_reason)

    def _make_dump_folder(self, items: Sequence[pytest.Item]) -> None:
        if self.options.dump is None:
            return
        count = sum(map(is_case, items))
        if count != 1:
            raise pytest.UsageError(
                f"--paddleapi-dump keeps one case, and {count} would run: choose one by its node id, or with -k or "
                "--paddleapi-config"
            )
        make_folder(self.options.dump)

    def _stop_text(self, engine: Engine, names: Sequence[str]) -> str:
        waiting = [names[case] for case in engine.queue.pending()]
        shown = "".join(f"\n  {name}" for name in waiting[:20])
        more = f"\n  ... and {len(waiting) - 20} more" if len(waiting) > 20 else ""
        return f"{engine.stop_reason}\n{len(waiting)} cases were not run:{shown}{more}"

    # Reports --------------------------------------------------------------------------------

    def before_report(self, report: pytest.TestReport) -> None:
        """Keep a verdict before anybody is shown it."""
        if getattr(report, "paddleapi", None) is not None and not self.is_worker:
            case = self._case(report.nodeid)
            if case is not None:
                self.outcomes.keeping.record(case, report)

    def after_report(self, report: pytest.TestReport) -> None:
        """Count a report, tell the scheduler, and mend JUnit XML."""
        data = getattr(report, "paddleapi", None)
        if data is None or self.is_worker:
            return
        if junit.is_rerun(report):
            self.outcomes.tally.reruns += 1
        else:
            case = self._case(report.nodeid)
            if case is not None:
                self.outcomes.add(case, report, Verdict(data["verdict"]))
                self._learn(case, Verdict(data["verdict"]), report)
        if self.scheduler is not None:
            self.scheduler.note_report(report)
        junit.complete(self.config, report)

    def _learn(self, case: Case, verdict: Verdict, report: pytest.TestReport) -> None:
        """Keep the peak of a case that has done all that it does. One that was cut short may need more next time."""
        if verdict is not Verdict.PASS:
            return
        peaks = [value for name, value in report.user_properties if name == "peak_bytes" and isinstance(value, int)]
        self.estimates.learn(case.canonical, max(peaks, default=0))

    def header(self) -> list[str]:
        """The lines under pytest's own."""
        running = running_notes(self.options.case, self.placement.kind)
        notes = (*running, *self._device_notes(), *self.outcomes.golden.header(), *self.outcomes.keeping.header())
        mode = MODES[self.options.mode].option
        return header_lines(mode, self._where(), self.manifest, self.outcomes.keeping.counted(), notes)

    def _device_notes(self) -> Iterable[str]:
        if self.fleet is None:
            return ()
        devices = self.fleet.notes(verbose=self.config.option.verbose > 0)
        workers = worker_count(self.config)
        return (*devices, *self.outcomes.performance.header(workers, len(self.fleet.groups), self.placement.kind))

    def _where(self) -> str:
        return self.fleet.header(worker_count(self.config)) if self.fleet is not None else self.placement.group

    def summary(self, terminal: Any) -> None:
        """Verdicts by count, the worst APIs, what was written, and why the run stopped early (that alone with -qq)."""
        if self.is_worker:
            return
        engine = self.scheduler.engine if self.scheduler is not None else self._engine
        self.outcomes.summary(terminal, engine.quarantined if engine is not None else {})
        if self.stop_text:
            terminal.section("Paddle API run stopped early")
            terminal.line(self.stop_text)
        if self.options.shrink and not self.interrupts.came:
            self.runner.slot.suspend()
            self.outcomes.shrink(terminal)

    def finish(self, session: pytest.Session) -> None:
        """Take over the scheduler's reason to stop, as a failed run; rewrite the baseline; end the sanitizer."""
        self.watch.finished()
        if self.options.sanitizer is not None:
            self.outcomes.finish_worker(self.runner.slot.finish())
        if not self.is_worker and not self.config.option.collectonly:
            self.outcomes.known.update()
            self.outcomes.golden.finish()
        self._finish_scheduler(session)
        self.outcomes.finish(int(session.exitstatus))

    def _finish_scheduler(self, session: pytest.Session) -> None:
        scheduler = self.scheduler
        if scheduler is None:
            return
        scheduler.close()
        if scheduler.stop_reason:
            if scheduler.engine is None or scheduler.collection is None:
                self.stop_text = scheduler.stop_reason
            else:
                self.stop_text = self._stop_text(scheduler.engine, scheduler.collection)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def describe_crash(self, nodeid: str, report: pytest.TestReport) -> None:
        """Make the report of a case that took its worker down twice one of ours."""
        case = self._case(nodeid)
        if case is None:
            return
        describe_worker_crash(report, case, self.options.mode, self.placement.group)
        dsession = self.config.pluginmanager.getplugin("dsession")
        # DSession counts failures towards -x only for reports that a worker sent.
        dsession._handlefailures(report)

    def _case(self, nodeid: str) -> Case | None:
        file, _, name = nodeid.partition("::")
        return self.manifest.find(name) if self._holds_configs(file) else None

    def _is_config_file(self, file: str) -> bool:
        # Any suffix will do for a file that --paddleapi-configs names.
        return not file.endswith(".py") or (self.config.rootpath / file).resolve() in self.manifest.by_file

    def _unconfirmed(self, pid: int) -> str:
        """Why the lease of the only slot does not fit any more, now that its process is ready."""
        assert self._admission is not None
        if self._admission.confirm(SLOT, pid):
            return ""
        return self._admission.trouble or "somebody else took the memory meanwhile"

    def refuse(self, nodeid: str, need: int) -> None:
        """Report a case that fits on no device: it never runs."""
        case = self._case(nodeid)
        assert case is not None
        text = (
            f"oversize: it is estimated to need {need / 2**30:.1f} GiB with its reserve, more than the "
            f"{self._capacity() / 2**30:.1f} GiB that {self._giver()} to one case"
        )
        estimate = self.estimates.now(case.canonical)
        report = oversize_report(nodeid, case, text, self.options.mode, self.placement.kind, estimate)
        self.config.hook.pytest_runtest_logreport(report=report)

    def _giver(self) -> str:
        limited = self.options.memory_limit is not None
        return "--paddleapi-memory-limit allows" if limited else "this host can ever give"

    def _capacity(self) -> int:
        return self._admission.capacity if self._admission is not None else 0


def says_what_goes_first(option: Any) -> bool:
    """The user has given an option of pytest's by which some tests go before others."""
    return any(getattr(option, name, False) for name in ("stepwise", "failedfirst", "newfirst"))
