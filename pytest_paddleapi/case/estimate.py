"""The peak of device memory of a case, from a run of its reference without memory.

What Paddle needs
-----------------

With all sizes in bytes, at the config's dtypes:

    arguments = inputs + copies
    forward   = the reference's forward peak + expanded outputs + temporary
    backward  = the reference's backward peak + expanded outputs + views among the gradients
                + output gradients + temporary
    Paddle    = arguments + max(forward, backward)

* ``inputs``: every tensor of the call is on the device from the first moment to the last, since gradients are asked
  for at the end. ``copies``: where a call changes its arguments, Paddle gets clones of the leaves.
* The reference's forward peak is its results and temporaries; what its autograd saves for the backward run is alive at
  the end of it. Paddle computes the same mathematics and saves the same kinds of tensors.
* ``expanded outputs``: Torch returns a view of a small storage where Paddle fills a tensor (``expand``). They stay
  until the backward run has ended, so they are in both terms. Plain views (``reshape``, ``transpose``, slices) are
  views in Paddle too.
* The reference's backward peak has the saved tensors that are not freed yet, the outputs (held until the end), the
  output gradients (all of them are brought to the device before the run), the gradients (all of them are held until
  the last is there) and the temporaries of the run.
* ``views among the gradients``: Torch gives an output gradient on as an input's (addition, ``expand`` from a sum)
  where Paddle fills a tensor; but not where all outputs are plain views.
* ``output gradients``, beside those in the reference's peak: Paddle's engine works on a copy of what it is fed
  (measured with Paddle 3.3: 5 times the tensor for ``abs``; operators whose backward run works in place, ``exp`` and
  the like, turn the copy into the gradient).
* ``temporary``: one as large as the largest tensor, for what a kernel takes and its mathematics does not show: a plain
  number made a whole tensor (``x < 1``), half precision computed in float32, a layout changed, the columns of a
  convolution, a strided result made contiguous before it goes to the host.

What both sides need
--------------------

Where Torch too computes on the device, its side is over, with its results on the host and its memory given back, when
Paddle's begins. So the worst moment is the worse of the two:

    together = max(Torch, Paddle)
    Torch    = arguments + max(the reference's forward peak, the reference's backward peak)

Only where the frameworks keep what they have freed for the next case (``caches_kept``, with ``--paddleapi-gpu-mode``)
do the two peaks add up, because neither can use the other's cache. Results are then compared on Torch's device, and its
side is at least

    comparison = 2 * (outputs + gradients) + 8 * largest

with the eight temporaries that :mod:`.compare.elementwise` may have of one pair at once, each twice as wide where the
config's dtypes have fewer than 32 bits. Automatic mixed precision adds copies of 16 bits of inputs and outputs. With
``--paddleapi-test-cpu`` Paddle takes nothing of the device.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import Enum

import torch

from ..config import Call, parse_call
from ..config.device_sizes import COMPARED_THERE, guess_device_bytes, guess_held_bytes, is_surely_small
from ..config.second_device import second_device_bytes
from ..process.messages import CaseOptions
from .binding import bind
from .callables import paddle_signature
from .compare.registry import find_comparator
from .fake_run import Peaks, fake_run
from .inputs.makers import ordinary
from .inputs.registry import find_inputs
from .prepared import PreparedCase, _seed
from .reference.registry import Reference, find_reference, load_rules

#: Seconds for one estimate. A typical one takes 10 ms; rules that loop over boxes or time steps take far longer, and
#: a guess now is worth more to a queue than a number later.
TIME_LIMIT = 1.0


#: Temporaries of one comparison that may be alive at once.
_COMPARED = 8


class Way(str, Enum):
    """How an estimate was found."""

    OPERATOR = "operator"
    SHAPES = "shapes"
    LEARNED = "learned"


@dataclass(frozen=True)
class Estimate:
    """Bytes of device memory of one case; see the module for the terms.

    For ``shapes`` and ``learned`` only :attr:`paddle`, :attr:`torch`, :attr:`held` and :attr:`largest` are known, the
    parts are 0.
    """

    way: Way
    paddle: int
    torch: int
    inputs: int = 0
    outputs: int = 0
    cotangents: int = 0
    gradients: int = 0
    #: The reference's peaks beyond its inputs.
    forward_extra: int = 0
    backward_extra: int = 0
    #: What one run of one framework leaves (outputs, changed arguments, gradients), and the largest tensor of it.
    held: int = 0
    largest: int = 0
    #: Why the reference was not followed.
    why: str = ""

    def device_bytes(self, *, torch_on_device: bool, caches_kept: bool = False) -> int:
        """What the case holds on the device at its worst moment."""
        if not torch_on_device:
            return self.paddle
        return self.paddle + self.torch if caches_kept else max(self.paddle, self.torch)


def estimate(call: Call, options: CaseOptions, *, quick: bool = True, limit: float = TIME_LIMIT) -> Estimate:
    """The estimate of ``call`` under ``options``, for every config; it takes about ``limit`` seconds at most.

    With ``quick`` the reference of a case that cannot outgrow the smallest lease is not looked at.
    """
    backward = options.test_backward
    if quick and is_surely_small(call, backward=backward):
        return _from_shapes(call, options, "it is surely small")
    try:
        case = _case(call, options)
        if not isinstance(case.reference, Reference):
            return _from_shapes(call, options, "there is no reference")
        seed = _seed(call, options)
        peaks = fake_run(case, seed, find_inputs(call.api), ordinary, time.perf_counter() + limit)
        return _from_peaks(peaks, call, options)
    except Exception as exc:  # rules raise anything, for calls that will fail and for want of values
        return _from_shapes(call, options, f"{type(exc).__name__}: {str(exc)[:200]}")


def _case(call: Call, options: CaseOptions) -> PreparedCase:
    """As :func:`~.prepared.prepare` makes it, without values."""
    found = find_reference(call.api)
    binding = bind(call, found.signature if isinstance(found, Reference) else None)
    if isinstance(found, Reference) and binding.positions and binding.positions[0] == "arg0":
        binding = bind(call, paddle_signature(call.api))
    return PreparedCase(call, options, found, find_comparator(call.api), binding, {}, ())


def _from_shapes(call: Call, options: CaseOptions, why: str) -> Estimate:
    size = guess_device_bytes(call, backward=options.test_backward)
    torch_size = size * (COMPARED_THERE if options.gpu_mode else 1)
    held, largest = guess_held_bytes(call)
    return Estimate(
        Way.SHAPES,
        _paddle_side(size, options),
        _torch_side(torch_size, options),
        held=held,
        largest=largest,
        why=why,
    )


def _from_peaks(peaks: Peaks, call: Call, options: CaseOptions) -> Estimate:
    arguments = peaks.inputs + peaks.copies
    # Copies of 16 bits of what autocast finds in 32, which its cache keeps until the end of the forward run.
    casts = (peaks.inputs + peaks.outputs_dense) // 2 if options.amp else 0
    gradient_views = 0 if peaks.only_views else max(0, peaks.gradients_dense - peaks.gradients_own)
    forward = peaks.forward + peaks.outputs_expanded
    backward = peaks.backward + peaks.outputs_expanded + gradient_views + peaks.cotangents if peaks.backward else 0
    computing = arguments + max(peaks.forward, peaks.backward) + casts
    reference = max(computing, _comparison(peaks, call)) if options.gpu_mode else computing
    return Estimate(
        way=Way.OPERATOR,
        paddle=_paddle_side(arguments + max(forward, backward) + peaks.largest + casts, options),
        torch=_torch_side(reference, options),
        inputs=peaks.inputs,
        outputs=peaks.outputs_dense,
        cotangents=peaks.cotangents,
        gradients=peaks.gradients_dense,
        forward_extra=peaks.forward,
        backward_extra=peaks.backward,
        # Paddle defines gradients where Torch sees that the result does not depend on the input.
        held=peaks.outputs_dense + peaks.copies + (peaks.inputs if peaks.backward else 0),
        largest=peaks.largest,
    )


def _paddle_side(size: int, options: CaseOptions) -> int:
    return 0 if options.test_cpu else size


def _torch_side(size: int, options: CaseOptions) -> int:
    return size if options.mode.computes_in_torch else 0


def _comparison(peaks: Peaks, call: Call) -> int:
    """Both sides' results, and what comparing the largest of them takes (see the module)."""
    narrow = any(spec.nbytes < 4 * max(1, math.prod(spec.shape)) for spec in call.tensors())
    largest = peaks.largest * (2 if narrow else 1)
    return 2 * (peaks.outputs_dense + peaks.gradients_dense) + _COMPARED * largest


class CaseEstimator:
    """What the estimating process makes: answers configs under fixed options."""

    def __init__(self, options: CaseOptions, *, torch_on_device: bool, caches_kept: bool) -> None:
        self.options = options
        self.torch_on_device = torch_on_device
        self.caches_kept = caches_kept
        torch.set_num_threads(1)
        load_rules()
        # The first run imports what Torch loads on first use: seconds, which no config should be charged with.
        estimate(parse_call(_FIRST), options, quick=False, limit=60.0)

    def __call__(self, config: str) -> tuple[int, str]:
        """Bytes, and how they were found."""
        call, mode = parse_call(config), self.options.mode
        found = estimate(call, self.options)
        size = found.device_bytes(torch_on_device=self.torch_on_device, caches_kept=self.caches_kept)
        if mode.pairs:
            second = second_device_bytes(
                call, found.held, found.largest, runs=mode.runs, torch_there=self.torch_on_device
            )
            size = max(size, second)
        return size, found.way.value


_FIRST = 'paddle.nn.functional.softmax(Tensor([64, 1024],"float32"))'
