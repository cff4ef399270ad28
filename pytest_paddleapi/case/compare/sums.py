"""Results that are sums of many products: exact to the size of the whole, not of what cancels."""

from __future__ import annotations

import torch

from .comparison import Comparison
from .registry import comparator
from .tolerance import Tolerance

WHY = "a sum is exact to the size of its terms, not of what is left of them"


def sum_tolerance(c: Comparison, expected: torch.Tensor) -> Tolerance:
    """The ordinary tolerance; absolute differences may reach rtol times the root mean square of ``expected``.

    An element of a product is a sum of ``n`` terms with a rounding error that grows with the terms (Higham,
    Accuracy and Stability of Numerical Algorithms, section 3.1). Where the terms cancel, the element is much
    smaller than its neighbours, but its error is not.
    """
    tolerance = c.tolerance(expected.dtype)
    if expected.numel() == 0 or not (expected.is_floating_point() or expected.is_complex()):
        return tolerance
    wide = expected.detach().to(torch.complex128 if expected.is_complex() else torch.float64).abs()
    size = wide[torch.isfinite(wide)].square().mean().sqrt().item() if torch.isfinite(wide).any() else 0.0
    return tolerance.at_least(tolerance.rtol * size, tolerance.rtol, WHY)


def compare_sums(c: Comparison) -> None:
    """Outputs and gradients element by element, with :func:`sum_tolerance`."""
    if c.same_structure():
        for index, (actual, expected) in enumerate(zip(c.actual_leaves(), c.expected_leaves())):
            wide = isinstance(expected, torch.Tensor)
            c.pair(f"output {index}", actual, expected, sum_tolerance(c, expected) if wide else None)
            c.count(outputs=1)
    compare_gradient_sums(c)


def compare_gradient_sums(c: Comparison) -> None:
    """Gradients element by element, with :func:`sum_tolerance`."""
    for name, actual, expected in c.gradient_pairs():
        c.pair(f"gradient of {name}", actual, expected, sum_tolerance(c, expected))
        c.count(gradients=1)


_SUMS = (
    "paddle.matmul",
    "paddle.linalg.matmul",
    "paddle.mm",
    "paddle.Tensor.__matmul__",
    "paddle.Tensor.__rmatmul__",
    "paddle.bmm",
    "paddle.mv",
    "paddle.dot",
    "paddle.vecdot",
    "paddle.linalg.vecdot",
    "paddle.inner",
    "paddle.addmm",
    "paddle.baddbmm",
    "paddle.linalg.multi_dot",
    "paddle.einsum",
    "paddle.tensordot",
    "paddle.linalg.fp8_fp8_half_gemm_fused",
    "paddle.linalg.det",
    "paddle.linalg.slogdet",
    "paddle.linalg.inv",
    "paddle.inverse",
    "paddle.linalg.solve",
    "paddle.linalg.lu_solve",
    "paddle.linalg.triangular_solve",
    "paddle.linalg.cholesky_solve",
    "paddle.linalg.cholesky_inverse",
    "paddle.linalg.matrix_power",
    "paddle.linalg.matrix_exp",
    "paddle.linalg.householder_product",
    "paddle.linalg.ormqr",
    "paddle.linalg.cond",
    "paddle.linalg.cov",
    "paddle.linalg.corrcoef",
    *(f"paddle.geometric.{name}" for name in ("segment_sum", "segment_mean", "send_u_recv", "send_ue_recv")),
    *(f"paddle.sparse.{name}" for name in ("matmul", "mv", "addmm", "masked_matmul", "sum")),
    *(f"paddle.sparse.nn.functional.{name}" for name in ("conv2d", "conv3d", "attention")),
    *(f"paddle.sparse.nn.functional.subm_{name}" for name in ("conv2d", "conv3d", "conv2d_igemm", "conv3d_igemm")),
    "paddle.signal.overlap_add",
    "paddle.signal.stft",
    "paddle.signal.istft",
    *(
        f"paddle.fft.{name}{axes}"
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for axes in ("", "2", "n")
    ),
)

comparator(*_SUMS, meaning="element by element, relative to the size of the whole")(compare_sums)
