"""The guess of host memory: results of calls that are larger than their inputs, and an answer for every call."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_paddleapi.config import Call, parse_call
from pytest_paddleapi.config.shapes import MOST, Arguments, broadcast, integers, product
from pytest_paddleapi.config.size_rules import RULES
from pytest_paddleapi.config.sizes import FORWARD_ONLY, WITH_GRADIENTS, estimate_host_bytes, plain_name, result_sizes

from .language import CALLS, VALUES, examples, varied_lines


def results(text: str) -> tuple[int, int]:
    """Elements of the results and of the buffers; (-1, 0) without a rule."""
    call = parse_call(text)
    arguments = Arguments(call)
    found, buffers = result_sizes(call.api, arguments, default=-arguments.width())
    return found // arguments.width(), buffers // arguments.width()


#: Every tensor is float32; T[2,3] stands for one.
RESULTS = [
    ("paddle.add(T[4,1], T[3])", 12),
    ("paddle.Tensor.__radd__(T[4,1], 2.0)", 4),
    ("paddle.Tensor.multiply_(T[4,5], T[5])", 20),
    ("paddle.where(T[4,1], T[3], T[2,1,1])", 24),
    ("paddle.maximum(T[0,1], T[3])", 0),
    ("paddle.broadcast_tensors(list[T[4,1], T[3]])", 24),
    ("paddle.expand(T[4,1], list[5,-1,3])", 60),
    ("paddle.broadcast_to(T[3], shape=tuple(2,3))", 6),
    ("paddle.Tensor.expand_as(T[3], T[7,3])", 21),
    ("paddle.tile(T[4,1], list[2,3])", 24),
    ("paddle.tile(T[4], 3)", 12),
    ("paddle.repeat_interleave(T[4,5], 3, 1)", 60),
    ("paddle.nn.functional.one_hot(T[4,5], num_classes=7)", 140),
    ("paddle.nn.functional.sequence_mask(T[4], maxlen=9)", 36),
    ("paddle.nn.functional.pad(T[1,2,3], list[1,1])", 10),
    ("paddle.nn.functional.pad(T[1,3,4,2], list[1,1,2,0], data_format=\"NHWC\")", 1 * 5 * 6 * 2),
    ("paddle.nn.functional.pad(T[2,3], list[0,1,2,2])", 21),
    ("paddle.nn.functional.pad(T[1,2,3], 1)", 10),
    ("paddle.nn.functional.interpolate(T[1,2,3,4], size=list[6,8])", 96),
    ("paddle.nn.functional.interpolate(T[1,3,4,2], scale_factor=2.0, data_format=\"NHWC\")", 96),
    ("paddle.zeros(list[4,5])", 20),
    ("paddle.full(shape=list[4,5], fill_value=1)", 20),
    ("paddle.ones(7)", 7),
    ("paddle.eye(4, 5)", 20),
    ("paddle.eye(4)", 16),
    ("paddle.tril_indices(4, 5, 0)", 40),
    ("paddle.linspace(0, 1, 50)", 50),
    ("paddle.arange(10)", 10),
    ("paddle.arange(1, 10, 2)", 5),
    ("paddle.arange(10, 0, -3.0)", 4),
    ("paddle.arange(0, 1, 0)", -1),
    ("paddle.randint(0, 9, list[4,5])", 20),
    ("paddle.matmul(T[7,4,5], T[5,6])", 7 * 24),
    ("paddle.matmul(T[5,4], T[6,5], True, True)", 24),
    ("paddle.matmul(x=T[4,5], y=T[6,5], transpose_y=True)", 24),
    ("paddle.mv(T[4,5], T[5])", 4),
    ("paddle.Tensor.__matmul__(T[5], T[5,6])", 6),
    ("paddle.addmm(T[4,6], T[4,5], T[5,6])", 24),
    ("paddle.nn.functional.linear(T[3,4,5], T[5,6], T[6])", 72),
    ("paddle.outer(T[4], T[5])", 20),
    ("paddle.kron(T[4,2], T[5,3])", 120),
    ("paddle.inner(T[4,2], T[5,2])", 20),
    ("paddle.tensordot(T[4,2,3], T[3,2,5], 1)", 8 * 10),
    ("paddle.tensordot(T[4,2,3], T[3,2,5], list[list[1,2],list[1,0]])", 20),
    ("paddle.tensordot(T[4,2,3], T[5,2,3], list[1,2])", 20),
    ("paddle.einsum(\"ij,jk->ik\", T[4,5], T[5,6])", 24),
    ("paddle.einsum(\"ij,jk\", T[4,5], T[5,6])", 24),
    ("paddle.einsum(\"...ij,...jk->...ik\", T[7,4,5], T[5,6])", 7 * 24),
    ("paddle.einsum(\"i,j->ij\", T[4], T[5])", 20),
    ("paddle.cdist(T[4,3], T[5,3])", 20),
    ("paddle.vander(T[4], 5)", 20),
    ("paddle.vander(T[4])", 16),
    ("paddle.linalg.svd(T[4,2], True)", 20),
    ("paddle.meshgrid(T[4], T[5])", 40),
    ("paddle.meshgrid(list[T[4], T[5], T[2]])", 120),
    ("paddle.cartesian_prod(list[T[4], T[5]])", 40),
    ("paddle.combinations(T[5], 2)", 20),
    ("paddle.combinations(T[5], 2, True)", 30),
    ("paddle.diag(T[4], 1)", 25),
    ("paddle.diag(T[4,5])", 20),
    ("paddle.diag_embed(T[2,4])", 32),
    ("paddle.block_diag(list[T[2,3], T[4,5]])", 48),
    ("paddle.scatter_nd(T[4,1], T[4,5], list[9,5])", 45),
    ("paddle.nn.functional.embedding(T[4,5], weight=T[9,6])", 120),
    ("paddle.gather(T[4,5], T[7], 1)", 28),
    ("paddle.take_along_axis(T[4,5], T[1,7], 1)", 28),
    ("paddle.take(T[4,5], T[2,3])", 6),
    ("paddle.gather_nd(T[4,5,6], T[7,2])", 42),
    ("paddle.nn.functional.conv2d(T[2,3,8,8], T[5,3,3,3], padding=1)", 2 * 5 * 100),
    ("paddle.nn.functional.conv2d(T[2,8,8,3], T[5,3,3,3], stride=2, data_format=\"NHWC\")", 2 * 5 * 16),
    ("paddle.nn.functional.conv2d_transpose(T[2,3,4,4], T[3,5,2,2], stride=2)", 2 * 5 * 100),
    ("paddle.nn.functional.unfold(T[2,3,8,8], list[3,3])", 2 * 3 * 64 * 9),
    ("paddle.nn.functional.grid_sample(T[2,3,4,4], T[2,9,9,2])", 2 * 3 * 81),
    ("paddle.vision.ops.roi_align(T[1,3,9,9], T[4,4], T[1], 7)", 4 * 3 * 49),
    ("paddle.nn.functional.scaled_dot_product_attention(T[2,8,4,16], T[2,8,4,16], T[2,8,4,16])", 2 * 8 * 4 * 16),
    ("paddle.exp(T[4,5])", -1),
]  # fmt: skip


def spelt(text: str) -> str:
    """``T[2,3]`` written out."""
    head, *rest = text.split("T[")
    parts = [head]
    for piece in rest:
        dims, _, after = piece.partition("]")
        parts.append(f'Tensor([{dims}],"float32"){after}')
    return "".join(parts)


@pytest.mark.parametrize(("text", "elements"), RESULTS, ids=[text for text, _ in RESULTS])
def test_the_elements_of_a_result_are_known(text: str, elements: int) -> None:
    assert results(spelt(text))[0] == elements


@pytest.mark.parametrize(
    ("text", "buffers"),
    [
        ("paddle.cdist(T[4,3], T[5,3])", 60),
        ("paddle.nn.functional.conv2d(T[2,3,8,8], T[5,3,3,3])", 3 * 9 * 64),
        ("paddle.nn.functional.scaled_dot_product_attention(T[2,8,4,16], T[2,9,4,16], T[2,9,4,16])", 2 * 2 * 4 * 8 * 9),
        ("paddle.incubate.nn.functional.fused_dot_product_attention(T[2,4,8,16], T[2,4,9,16])", 2 * 2 * 4 * 72),
    ],
)  # fmt: skip
def test_the_buffers_of_a_computation_are_known(text: str, buffers: int) -> None:
    assert results(spelt(text))[1] == buffers


def test_an_elementwise_call_counts_inputs_results_and_the_comparison() -> None:
    call = parse_call('paddle.exp(Tensor([1000],"float32"))')
    factors = WITH_GRADIENTS
    assert estimate_host_bytes(call) == 4000 * (factors.inputs + factors.results + factors.comparison)


def test_narrow_floats_count_as_the_float32_that_they_are_computed_in() -> None:
    half, single = (parse_call(f'paddle.exp(Tensor([1000],"{dtype}"))') for dtype in ("float16", "float32"))
    assert estimate_host_bytes(half) == estimate_host_bytes(single)


def test_what_has_no_gradient_counts_less() -> None:
    integers_, floats = (parse_call(f'paddle.abs(Tensor([1000],"{dtype}"))') for dtype in ("int32", "float32"))
    factors = FORWARD_ONLY
    assert estimate_host_bytes(integers_) == 4000 * (factors.inputs + factors.results + factors.comparison)
    assert estimate_host_bytes(integers_) < estimate_host_bytes(floats)


def test_a_created_tensor_has_the_dtype_that_is_asked_for() -> None:
    sizes = [
        estimate_host_bytes(parse_call(f"paddle.zeros(list[1000], dtype={dtype})"))
        for dtype in ('"bool"', "Dtype(bfloat16)", "VarType(float32)", "type(numpy.float64)")
    ]
    assert sizes == [sizes[0], 2 * sizes[0], 4 * sizes[0], 8 * sizes[0]]


def test_a_call_without_tensors_and_without_a_rule_needs_nothing() -> None:
    assert estimate_host_bytes(parse_call("paddle.device.synchronize()")) == 0


def test_an_empty_call_needs_nothing() -> None:
    assert estimate_host_bytes(parse_call('paddle.add(Tensor([0, 3],"float32"), Tensor([3],"float32"))')) < 400


@pytest.mark.parametrize(
    ("api", "name"),
    [
        ("paddle.add", "add"),
        ("paddle.Tensor.add_", "add"),
        ("paddle.Tensor.__add__", "add"),
        ("paddle.Tensor.__radd__", "add"),
        ("paddle.Tensor.__rshift__", "rshift"),
        ("paddle.Tensor.__rrshift__", "rshift"),
        ("paddle.Tensor.__rmatmul__", "matmul"),
        ("paddle.Tensor.__getitem__", "getitem"),
        ("paddle.nn.functional.conv2d", "conv2d"),
    ],
)
def test_one_rule_serves_a_function_its_method_and_its_operators(api: str, name: str) -> None:
    assert plain_name(api) == name


@pytest.mark.parametrize("line", varied_lines(), ids=range(len(varied_lines())))
def test_every_captured_call_has_an_estimate_of_at_least_its_inputs(line: str) -> None:
    call = parse_call(line)
    assert estimate_host_bytes(call) >= sum(spec.nbytes for spec in call.tensors())


RULE_CALLS = st.builds(
    Call,
    st.sampled_from(sorted({*RULES, "some_attention", "exp"})).map("paddle.{}".format),
    st.lists(VALUES, max_size=5).map(tuple),
    st.dictionaries(
        st.sampled_from(
            [
                *("x", "y", "weight", "shape", "axis", "axes", "num", "n", "r", "k", "size", "scale_factor", "padding"),
                *("data_format", "stride", "pad", "groups", "dilation", "dtype", "index", "repeats", "offset", "step"),
                *("start", "end", "equation", "full_matrices", "output_size", "kernel_sizes", "num_classes", "mode"),
            ]
        ),
        VALUES,
        max_size=4,
    ).map(lambda named: tuple(named.items())),
)


@given(st.one_of(RULE_CALLS, CALLS))
@examples(300)
def test_any_call_at_all_has_an_estimate(call: Call) -> None:
    assert estimate_host_bytes(call) >= 0


@pytest.mark.parametrize(
    "text",
    [
        "paddle.zeros(list[{big},{big},{big}])",
        'paddle.kron(Tensor([{big}, {big}],"float64"), Tensor([{big}, {big}],"float64"))',
        'paddle.combinations(Tensor([{big}],"float32"), {big})',
        'paddle.vander(Tensor([{big}],"float32"), {big})',
        "paddle.arange(-1e308, 1e308, 1e-308)",
        "paddle.arange(0, inf, nan)",
        'paddle.repeat_interleave(Tensor([{big}],"float32"), {big})',
        'paddle.nn.functional.interpolate(Tensor([1, 1, {big}],"float32"), scale_factor=1e308)',
        'paddle.meshgrid({many})',
        'paddle.cartesian_prod(list[{many}])',
        'paddle.add(Tensor([{dims}],"float32"), Tensor([{dims}],"float32"))',
        'paddle.einsum("{letters}->", Tensor([{dims}],"float32"))',
    ],
)  # fmt: skip
def test_a_call_beyond_any_machine_has_an_estimate_at_once(text: str) -> None:
    big = 2**62
    many = ",".join([f'Tensor([{big}],"int64")'] * 5000)
    letters = "".join(chr(0x4E00 + i) for i in range(8_000))
    filled = (
        text.replace("{big}", str(big))
        .replace("{many}", many)
        .replace("{dims}", ", ".join([str(big)] * 8_000))
        .replace("{letters}", letters)
    )
    call = parse_call(filled)
    start = time.process_time()
    estimate = estimate_host_bytes(call)
    assert time.process_time() - start < 0.5
    assert 0 <= estimate < MOST**2


def test_products_stop_at_what_fits_nowhere() -> None:
    assert product([2, 3, 4]) == 24
    assert product([]) == 1
    assert product([2**70, 2**70]) == MOST
    assert product([2**70, 2**70, 0]) == 0
    assert product([3, -1]) == 0


def test_shapes_broadcast_from_the_right() -> None:
    assert broadcast([(4, 1), (3,)]) == (4, 3)
    assert broadcast([(0, 1), (3,)]) == (0, 3)
    assert broadcast([()]) == ()
    assert broadcast([]) == ()
    assert broadcast([(4,), (5,)]) == (5,)


def test_integers_repeat_the_last_one() -> None:
    assert integers(3, 2, 1) == [3, 3]
    assert integers([1, 2], 3, 1) == [1, 2, 2]
    assert integers([], 2, 7) == [7, 7]
    assert integers("same", 2, 7) == [7, 7]
