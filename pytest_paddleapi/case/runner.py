"""The entry into ``case/``: one request in, one result out, whatever the case does."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import msgspec
import paddle
import torch

from ..config import ConfigSyntaxError, parse_call
from ..process import fatal
from ..process.messages import CaseOptions, CaseResult, Mode, RunCase, Stage, Verdict
from ..process.wire import unpack_call
from .device_memory import DeviceMeter, paddle_counter
from .dump import Dump
from .holding import give_back_cache
from .inputs.registry import InputError
from .modes.accuracy import run_accuracy
from .modes.accuracy_stable import run_accuracy_stable
from .modes.base import Judgement, ModeRunner
from .modes.custom_device import run_custom_device
from .modes.golden import open_golden, run_golden
from .modes.paddle_only import run_paddle_only
from .modes.performance import run_paddle_performance, run_paddle_torch_performance, run_torch_performance
from .modes.static_graph import run_paddle_cinn
from .prepared import prepare
from .results import error_text

_MODES: dict[Mode, ModeRunner] = {
    Mode.ACCURACY: run_accuracy,
    Mode.ACCURACY_STABLE: run_accuracy_stable,
    Mode.ACCURACY_DUAL_GPU: run_accuracy,
    Mode.ACCURACY_STABLE_DUAL_GPU: run_accuracy_stable,
    Mode.PADDLE_ONLY: run_paddle_only,
    Mode.PADDLE_CINN: run_paddle_cinn,
    Mode.PADDLE_CUSTOM_DEVICE: run_custom_device,
    Mode.PADDLE_PERFORMANCE: run_paddle_performance,
    Mode.TORCH_PERFORMANCE: run_torch_performance,
    Mode.PADDLE_TORCH_PERFORMANCE: run_paddle_torch_performance,
    Mode.CUSTOM_DEVICE_VS_GPU: run_golden,
}


_WARM_UP = (
    'paddle.matmul(Tensor([2, 3],"float32"), Tensor([3, 2],"float32"))',
    'paddle.nn.functional.relu(Tensor([2, 3],"float32"))',
    'paddle.nn.functional.conv2d(Tensor([1, 1, 4, 4],"float32"), Tensor([1, 1, 3, 3],"float32"))',
)


def _restore(options: CaseOptions) -> None:
    """Undo what a case may have changed for those that come after it in this process."""
    if not paddle.in_dynamic_mode():
        paddle.disable_static()
    if not paddle.is_grad_enabled():
        paddle.set_grad_enabled(True)
    if paddle.get_default_dtype() != "float32":
        paddle.set_default_dtype("float32")
    torch.set_grad_enabled(True)
    give_back_cache(options)
    if options.mode.is_performance and options.device != "cpu":
        paddle.device.empty_cache()  # where calls are timed Paddle keeps what it has taken during the case


def _prepare_device(options: CaseOptions) -> None:
    """Choose the devices of both frameworks and touch them, so that what they take for themselves is there
    before the first case is measured.

    Raises:
        Exception: whatever a framework says of a device that it cannot use.
    """
    if options.second_device:
        # Prepared first: the last one that is set is the one that Paddle computes on.
        paddle.set_device(options.second_device)
        paddle.ones([1]).numpy()
        paddle_counter(options.second_device)  # found while it is the present one
    if options.second_torch_device != "cpu":
        torch.ones(1, device=options.second_torch_device).cpu()
    # Also the CPU: Paddle's own choice would be an accelerator, where there is one.
    paddle.set_device(options.device)
    if options.device != "cpu":
        paddle.ones([1]).numpy()
        paddle_counter(options.device)
    if options.torch_device != "cpu":
        torch.set_default_device(options.torch_device)
        torch.ones(1).cpu()


class CaseRunner:
    """Runs cases under fixed options; lives as long as its process."""

    def __init__(self, options: CaseOptions) -> None:
        self.options = options
        self.mode = _MODES[options.mode]
        if options.threads:
            torch.set_num_threads(options.threads)
        _prepare_device(options)
        self._meter = DeviceMeter(options)
        if options.golden is not None:
            # Its library loads now, so that no case pays for it.
            open_golden(options.golden)

    @staticmethod
    def warm_up() -> None:
        """Load every rule and run a few small cases, so that forked processes share what these import.

        Both frameworks import much of themselves on first use. Nothing here is large enough to start a
        thread, and a process that is forked must have none.
        """
        from .adapters.registry import load_rules as load_adapters
        from .compare.registry import load_rules as load_comparators
        from .inputs.registry import load_rules as load_inputs
        from .reference.registry import load_rules as load_references

        load_references()
        load_inputs()
        load_comparators()
        load_adapters()
        # Where there is an accelerator Paddle would take it, and a context on it survives no fork.
        paddle.set_device("cpu")
        # Deaths are reported by signal: Paddle's handlers would print a stack first, and one of ours has it.
        paddle.disable_signal_handler()
        runner = CaseRunner(CaseOptions(threads=1))
        for config in _WARM_UP:
            runner.run(RunCase(0, config), lambda stage: None)

    def synchronize(self) -> None:
        """Wait until the devices have done all that was asked of them; raises what went wrong there."""
        if self.options.device != "cpu":
            paddle.device.synchronize(self.options.device)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def run(self, request: RunCase, enter: Callable[[Stage], None]) -> CaseResult:
        """The result of one case; faults of the case are verdicts, never exceptions."""
        start = time.perf_counter()
        self._meter.begin()
        judgement = self._judge(request, enter)
        measured = judgement.measured
        if measured.peak_bytes is None:
            measured = msgspec.structs.replace(measured, peak_bytes=self._meter.peak_bytes())
        _restore(self.options)
        return CaseResult(
            token=request.token,
            verdict=judgement.verdict,
            text=judgement.text,
            measured=measured,
            seconds=time.perf_counter() - start,
            fatal=judgement.fatal,
        )

    def _judge(self, request: RunCase, enter: Callable[[Stage], None]) -> Judgement:
        try:
            call = unpack_call(request.packed) if request.packed else parse_call(request.config)
        except ConfigSyntaxError as exc:
            return Judgement(Verdict.CONFIG_PARSE, str(exc))
        enter(Stage.INPUTS)
        try:
            case = prepare(call, self.options)
        except InputError as exc:
            return Judgement(Verdict.CONFIG_INPUT, str(exc))
        except Exception as exc:  # a fault of an input rule must not take the process down
            text = error_text(exc)
            memory = fatal.classify(f"{type(exc).__name__}: {exc}", Stage.INPUTS)
            verdict = memory.verdict if memory else Verdict.CONFIG_INPUT
            return Judgement(verdict, f"the inputs could not be made: {text}")
        if not self.options.dump:
            return self.mode(case, enter)
        with Dump(self.options.dump, call, self.options) as dump:
            dump.inputs(case.values)
            judgement = self.mode(replace(case, record=dump), enter)
        if not dump.trouble:
            return judgement
        notes = (*judgement.measured.notes, f"the dump is not complete: {dump.trouble}")
        return replace(judgement, measured=msgspec.structs.replace(judgement.measured, notes=notes))
