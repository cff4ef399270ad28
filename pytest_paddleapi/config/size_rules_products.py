"""How large the results of a call are: products, convolution, sampling, attention. See :mod:`.size_rules`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .shapes import Arguments, Shape, axis_of, broadcast, integer, integers, product, shape_value
from .size_rules import Elements, rule

# Products -------------------------------------------------------------------------------------


@rule("matmul", "mm", "bmm", "mv", "dot", "fused_matmul_bias", "addmm", "baddbmm")
def _matmul(a: Arguments) -> Elements:
    shapes = [shape for shape in a.shapes() if shape]
    if len(shapes) < 2:
        return None
    # addmm and baddbmm have the tensor that is added first; a bias comes last.
    first = 1 if len(shapes) == 3 and len(shapes[2]) > 1 else 0
    x, y = shapes[first], shapes[first + 1]
    rows, columns = x[-2:-1], y[-1:] if len(y) > 1 else ()
    if a.get(2, "transpose_x") is True and len(x) > 1:
        rows = x[-1:]
    if a.get(3, "transpose_y") is True and len(y) > 1:
        columns = y[-2:-1]
    return product([*broadcast([x[:-2], y[:-2]]), *rows, *columns])


@rule("linear", "fused_linear", "fused_linear_activation")
def _linear(a: Arguments) -> Elements:
    x, weight = a.shape(0, "x"), a.shape(1, "weight", "y")
    return product([*x[:-1], *weight[-1:]]) if x and weight else None


@rule("outer", "kron")
def _all_pairs(a: Arguments) -> Elements:
    return product(dim for shape in a.shapes() for dim in shape)


@rule("inner")
def _inner(a: Arguments) -> Elements:
    shapes = a.shapes()
    return product(dim for shape in shapes for dim in shape[:-1]) if len(shapes) == 2 else None


@rule("tensordot")
def _tensordot(a: Arguments) -> Elements:
    x, y = a.shape(0, "x"), a.shape(1, "y")
    if x is None or y is None:
        return None
    axes = a.get(2, "axes")
    if axes is None or isinstance(axes, int):
        count = min(max(integer(axes, 2), 0), len(x), len(y))
        return product([*x[: len(x) - count], *y[count:]])
    pairs = list(axes) if isinstance(axes, (list, tuple)) else []
    left, right = (pairs[0], pairs[-1]) if pairs and isinstance(pairs[0], (list, tuple)) else (pairs, pairs)
    return product([*_without(x, left), *_without(y, right)])


def _without(shape: Shape, axes: Any) -> list[int]:
    chosen = list(axes) if isinstance(axes, (list, tuple)) else [axes]
    gone = {axis_of(shape, axis) for axis in chosen if isinstance(axis, int)}
    return [dim for place, dim in enumerate(shape) if place not in gone]


@rule("einsum")
def _einsum(a: Arguments) -> Elements:
    equation = a.get(0, "equation")
    if not isinstance(equation, str):
        return None
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    dims: dict[str, int] = {}
    rest: list[Shape] = []
    for term, shape in zip(inputs.split(","), a.shapes()):
        before, dots, after = term.partition("...")
        dims_of = dict(zip(before, shape))
        if dots:
            dims_of |= dict(zip(reversed(after), reversed(shape)))
            rest.append(shape[len(before) : len(shape) - len(after)])
        for label, dim in dims_of.items():
            dims[label] = max(dim, dims.get(label, 1)) if dim else 0
    if not arrow:
        letters = Counter(inputs.replace("...", "").replace(",", ""))
        output = "..." + "".join(label for label, count in letters.items() if count == 1)
    labels = output.replace("...", "")
    shared = broadcast(rest) if "..." in output else ()
    results = product([*shared, *(dims.get(label, 1) for label in labels)])
    # Pairwise contraction of three and more operands can pass through anything up to all labels.
    wide = product([*broadcast(rest), *dims.values()]) if inputs.count(",") > 1 else 0
    return results, min(wide, 4 * max([results, *(product(shape) for shape in a.shapes())]))


@rule("cdist")
def _cdist(a: Arguments) -> Elements:
    x, y = a.shape(0, "x"), a.shape(1, "y")
    if not x or not y or len(x) < 2 or len(y) < 2:
        return None
    batch = broadcast([x[:-2], y[:-2]])
    pairs = product([*batch, x[-2], y[-2]])
    # Without the way over a matrix product the differences are written out.
    return pairs, product([pairs, x[-1]])


@rule("pdist")
def _pdist(a: Arguments) -> Elements:
    x = a.shape(0, "x")
    if x is None or len(x) != 2:
        return None
    pairs = product([x[0], x[0]]) // 2
    return pairs, product([pairs, x[1], 2])


@rule("cov", "corrcoef", "jacobian", "hessian")
def _pairs_of_rows(a: Arguments) -> Elements:
    shapes = a.shapes()
    return product([shapes[0][0], shapes[-1][0]]) if shapes and shapes[0] and shapes[-1] else None


@rule("vander")
def _vander(a: Arguments) -> Elements:
    shape = a.shape(0, "x")
    return None if shape is None else product([*shape, a.integer(1, "n", default=product(shape))])


@rule("svd", "svd_lowrank", "pca_lowrank", "qr")
def _square_factors(a: Arguments) -> Elements:
    shape = a.shape(0, "x", "A")
    if shape is None or len(shape) < 2:
        return None
    batch, rows, columns = shape[:-2], shape[-2], shape[-1]
    full = a.get(1, "full_matrices") is True or a.get(1, "mode") == "complete"
    small = min(rows, columns)
    sides = rows * rows + columns * columns if full else (rows + columns) * small
    return product([*batch, sides]), product(shape)


# Convolution and sampling ---------------------------------------------------------------------


@rule("conv1d", "conv2d", "conv3d")
def _conv(a: Arguments) -> Elements:
    x, weight = a.shape(0, "x"), a.shape(1, "weight")
    if x is None or weight is None or len(x) < 3 or len(weight) < 3:
        return None
    spatial, kernel = _spatial(a, x), weight[2:]
    strides = integers(a.get(3, "stride"), len(spatial), 1)
    paddings = _paddings(a.get(4, "padding"), len(spatial), kernel)
    positions = product(
        max(1, (dim + pad) // max(1, stride)) if dim else 0 for dim, pad, stride in zip(spatial, paddings, strides)
    )
    # The columns of one image: each position of the result with all that the kernel sees there.
    return product([x[0], weight[0], positions]), product([weight[1], *kernel, positions])


@rule("conv1d_transpose", "conv2d_transpose", "conv3d_transpose")
def _conv_transpose(a: Arguments) -> Elements:
    x, weight = a.shape(0, "x"), a.shape(1, "weight")
    if x is None or weight is None or len(x) < 3 or len(weight) < 3:
        return None
    spatial, kernel = _spatial(a, x), weight[2:]
    strides = integers(a.get(3, "stride"), len(spatial), 1)
    groups = max(1, integer(a.named.get("groups"), 1))
    dilations = integers(a.named.get("dilation"), len(spatial), 1)
    grown = product(
        dim * max(1, stride) + abs(dilation) * size if dim else 0
        for dim, stride, dilation, size in zip(spatial, strides, dilations, kernel)
    )
    channels = weight[1] * groups
    return product([x[0], channels, grown]), product([weight[1], *kernel, *spatial])


def _spatial(a: Arguments, x: Shape) -> Shape:
    return x[1:-1] if a.channels_last() else x[2:]


def _paddings(value: Any, count: int, kernel: Shape) -> list[int]:
    """What is added to each dimension in all, at most."""
    if isinstance(value, str):
        return list(kernel[:count])
    flat = (
        [item for part in value for item in (part if isinstance(part, (list, tuple)) else [part])]
        if isinstance(value, (list, tuple))
        else [value]
    )
    most = max([0, *(integer(item, 0) for item in flat)])
    return [2 * most] * count


@rule("unfold")
def _unfold(a: Arguments) -> Elements:
    x = a.shape(0, "x")
    if x is None:
        return None
    if len(x) != 4:
        # Tensor.unfold: windows of one axis, at most one an element.
        return product([*x, a.integer(2, "size", default=1)])
    return product([*x, *integers(a.get(1, "kernel_sizes"), 2, 1)])


@rule("affine_grid")
def _affine_grid(a: Arguments) -> Elements:
    shape = shape_value(a.get(1, "out_shape"))
    return None if not shape else product([shape[0], *shape[2:], 3])


@rule("grid_sample")
def _grid_sample(a: Arguments) -> Elements:
    x, grid = a.shape(0, "x"), a.shape(1, "grid")
    return product([*x[:2], *grid[1:-1]]) if x and grid else None


@rule("roi_align", "roi_pool", "psroi_pool")
def _regions(a: Arguments) -> Elements:
    x, boxes = a.shape(0, "x"), a.shape(1, "boxes")
    if not x or not boxes or len(x) < 2:
        return None
    return product([boxes[0], x[1], *integers(a.get(3, "output_size"), 2, 1)])


def attention(a: Arguments) -> Elements:
    """Scores of each head, twice: before and after the softmax."""
    shapes = [shape for shape in a.shapes() if len(shape) >= 3]
    if not shapes:
        return None
    query, key = shapes[0], shapes[min(1, len(shapes) - 1)]
    results = product(query)
    if len(query) == 4 and len(key) == 4:
        heads_last = product([query[0], query[2], query[1], key[1]])
        heads_first = product([query[0], query[1], query[2], key[2]])
        return results, 2 * max(heads_last, heads_first)
    # [batch, length, width]; the heads stand in the weight, or are 16 as in most models.
    heads = key[1] if len(key) == 4 else 16
    return results, 2 * product([query[0], heads, query[1], query[1]])
