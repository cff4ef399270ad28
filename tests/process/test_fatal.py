"""What error texts, exit codes and signals mean. The texts are what Paddle 3.3, Torch and NumPy really print."""

from __future__ import annotations

import signal

import pytest

from pytest_paddleapi.process.fatal import (
    FATAL_EXIT_CODE,
    Death,
    classify,
    is_device_lost,
    is_memory_shortage,
    is_unsupported,
    verdict_for_death,
)
from pytest_paddleapi.process.messages import Stage, Verdict

OUT_OF_MEMORY = [
    "MemoryError: (ResourceExhausted) Fail to alloc memory of 1073741824 size, error code is 12.\n  [Hint: Expected",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried",
    "_ArrayMemoryError: Unable to allocate 1.00 GiB for an array with shape (268435456,) and data type float32",
    "MemoryError: ",
    "RuntimeError: std::bad_alloc",
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "MemoryError: (ResourceExhausted) \n\nOut of memory error on GPU 0. Cannot allocate 4.000000GB memory on GPU 0",
    "ImportError: _bounded_integers.cpython-311-x86_64-linux-gnu.so: cannot map zero-fill pages",
    "RuntimeError: libmklml_intel.so: failed to map segment from shared object",
]
CUDA = [
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "OSError: (External) CUDA error(700), an illegal memory access was encountered.",
    "RuntimeError: CUDA error: invalid configuration argument",
    "OSError: (External) CUDA error(400), invalid resource handle.",
    "double free: memory corruption",
]
UNSUPPORTED = [
    "(NotFound) The kernel with key (CPU, Undefined(AnyLayout), float16) of kernel `abs` is not registered. Selected",
    "(NotFound) The kernel `block_multihead_attention` is not registered.\n  [Hint: Expected iter != kernels_.end()",
    "(Unimplemented) The kernel of (abs) for input tensors is unimplemented, please check the type of input tensors.",
    "(Unavailable) Do not support margin_cross_entropy for cpu kernel now. (at /paddle/paddle/phi/kernels/cpu/m.cc:36)",
    "(Unimplemented) Softmax mask fuse op only supports GPU now.",
    "The data type of input must be one of ['float32', 'float64'], but got paddle.float16",
    "The data type of input Variable must be 'float32' or 'float64'",
    "module 'paddle.base.libpaddle.eager.ops.legacy' has no attribute 'fused_feedforward'",
    "Flag FLAGS_cudnn_deterministic cannot get its value through this function.",
    "(PermissionDenied) Cannot use CUDAPinnedPlace in CPU only version, Please recompile or reinstall Paddle with CUDA",
    "ValueError: No available device found.",
]
ORDINARY = [
    "() InvalidArgumentError: Integer division by zero encountered in (floor/trunc) divide. Please check the input",
    "(InvalidArgument) Leaf Var () that doesn't stop gradient can't use inplace strategy.",
    "(InvalidArgument) Input is not invertible.\n  [Hint: Expected min_abs_pivot > static_cast<T>(0)",
    "(InvalidArgument) The 'shape' in ReshapeOp is invalid. X'size must be equal to the capacity of it. But received",
    "(InvalidArgument) Broadcast dimension mismatch. Operands could not be broadcast together with the shape of X",
    "(InvalidArgument) In operator matmul, the [2] dimension of Input(X) must be equal to the [0] dimension of Input",
    "<built-in function roll> returned a result with an exception set",
    "Input must be sparse, but got dense",
    "(InvalidArgument) A negative axis is not supported. (at /paddle/paddle/phi/kernels/cpu/some_kernel.cc:12)",
]


@pytest.mark.parametrize("text", OUT_OF_MEMORY)
@pytest.mark.parametrize("stage", Stage)
def test_a_failed_allocation_is_oom_whatever_else_the_text_says(text: str, stage: Stage) -> None:
    found = classify(text, stage)
    assert found is not None
    assert (found.verdict, found.fatal) == (Verdict.OOM, False)


@pytest.mark.parametrize("text", CUDA)
@pytest.mark.parametrize(
    ("stage", "verdict"),
    [
        (Stage.INPUTS, Verdict.CONFIG_INPUT),
        (Stage.REFERENCE, Verdict.TORCH_ERROR),
        (Stage.PADDLE, Verdict.PADDLE_CUDA),
        (Stage.COMPARISON, Verdict.PADDLE_CUDA),
    ],
)
def test_a_lost_device_is_fatal_and_charged_by_stage(text: str, stage: Stage, verdict: Verdict) -> None:
    found = classify(text, stage)
    assert found is not None
    assert (found.verdict, found.fatal) == (verdict, True)


@pytest.mark.parametrize("text", ORDINARY + UNSUPPORTED)
def test_any_other_error_is_neither(text: str) -> None:
    assert classify(text, Stage.PADDLE) is None


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_a_missing_kernel_is_unsupported(text: str) -> None:
    assert is_unsupported(text)


@pytest.mark.parametrize("text", ORDINARY)
def test_a_refused_value_is_not_unsupported(text: str) -> None:
    assert not is_unsupported(text)


def test_texts_that_only_sometimes_mean_memory_count_under_a_limit_only() -> None:
    text = "could not execute a primitive"
    assert is_memory_shortage(text, limited=True)
    assert not is_memory_shortage(text)


def status_of(number: int = 0, code: int = 0) -> int:
    """A wait status as the kernel makes it."""
    return number or code << 8


@pytest.mark.parametrize(
    ("stage", "verdict"),
    [
        (Stage.STARTING, Verdict.CONFIG_INPUT),
        (Stage.INPUTS, Verdict.CONFIG_INPUT),
        (Stage.REFERENCE, Verdict.TORCH_ERROR),
        (Stage.PADDLE, Verdict.PADDLE_CRASH),
        (Stage.COMPARISON, Verdict.PADDLE_CRASH),
    ],
)
@pytest.mark.parametrize(
    ("status", "how"), [(status_of(11), "SIGSEGV"), (status_of(8), "SIGFPE"), (status_of(code=3), "code 3")]
)
def test_a_death_is_charged_to_its_stage(stage: Stage, verdict: Verdict, status: int, how: str) -> None:
    got, text = verdict_for_death(stage, Death(status))
    assert got is verdict
    assert how in text
    assert f"stage: {stage.value}" in text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("stage", Stage)
def test_a_signal_from_outside_is_an_external_kill_in_every_stage(number: int, stage: Stage) -> None:
    verdict, text = verdict_for_death(stage, Death(status_of(number)))
    assert verdict is Verdict.EXTERNAL_KILL
    assert signal.Signals(number).name in text


def test_an_exit_with_the_code_of_a_signal_is_no_signal() -> None:
    verdict, text = verdict_for_death(Stage.PADDLE, Death(status_of(code=9)))
    assert verdict is Verdict.PADDLE_CRASH
    assert "exited with code 9" in text


def test_a_fatal_exit_whose_report_is_missing_is_a_lost_device() -> None:
    verdict, text = verdict_for_death(Stage.PADDLE, Death(status_of(code=FATAL_EXIT_CODE)))
    assert verdict is Verdict.PADDLE_CUDA
    assert "lost device" in text


BAD_ALLOC = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
NO_THREAD = "\nlibgomp: Thread creation failed: Resource temporarily unavailable\n"


@pytest.mark.parametrize("output", [BAD_ALLOC, NO_THREAD])
def test_a_death_for_want_of_memory_under_a_lease_is_deferred(output: str) -> None:
    verdict, text = verdict_for_death(Stage.PADDLE, Death(status_of(6)), output=output, limited=True)
    assert verdict is Verdict.DEFERRED
    assert "SIGABRT" in text


def test_a_death_for_want_of_memory_with_all_memory_is_a_crash_that_says_so() -> None:
    verdict, text = verdict_for_death(Stage.PADDLE, Death(status_of(6)), output=BAD_ALLOC)
    assert verdict is Verdict.PADDLE_CRASH
    assert "memory" in text


@pytest.mark.parametrize(
    "text",
    [
        "OSError: (External) CUDA error(46), all CUDA-capable devices are busy or unavailable.",
        "cudaErrorDevicesUnavailable",
        "RuntimeError: CUDA error 45",
    ],
)
def test_a_lost_device_is_told_at_start(text: str) -> None:
    assert is_device_lost(text)


def test_another_start_failure_is_no_lost_device() -> None:
    assert not is_device_lost("ImportError: libcudart.so.12: cannot open shared object file")


def test_a_signal_without_a_name_has_a_number() -> None:
    assert str(Death(status_of(40))) == "was killed by an unnamed signal (signal 40)"
