"""Output gradients for results that are not unique.

The columns of singular vectors, eigenvectors and QR factors may each be multiplied by any number of
modulus one (for real ones: by a sign), and eigenvalues of a general matrix have no order. A gradient of
a function of such a result means something only if the function does not see that freedom. So instead of
a fixed output gradient, each side is fed the gradient of ``sum(w * |y|**2) / 2`` at its own ``y``, which
is ``w * y``; ``w`` is real and the same for both. It does not depend on the signs, and where the order is
free as well, ``w`` is constant along the last axis.
"""

from __future__ import annotations

import torch

#: Each element may carry a phase of its own.
PHASES = "phases"
#: The last axis may be permuted as well.
ORDER = "order"


def gauge_cotangent(kind: str | None, value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """What to feed for an output ``value``: ``weight`` as it is, or its invariant form for a gauge ``kind``."""
    if kind is None:
        return weight
    real = weight.real if weight.is_complex() else weight
    if kind == ORDER and real.dim() and real.shape[-1]:
        real = real[..., :1].expand_as(real)
    return real.to(value.dtype) * value.detach()
