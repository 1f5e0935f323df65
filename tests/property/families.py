"""Strategies for calls of further families: windows, indexing, linear algebra, collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st
from property import strategies as basic
from property.strategies import (
    Call,
    Draw,
    almost,
    arrays,
    braces,
    computation_of,
    nudged,
    resized,
    scalar,
    scalar_computation,
    sizes,
    with_type,
)

import builder as xb
from builder.types.shape import intern_array

__all__ = ["FAMILIES"]

NUMERIC: Final = st.sampled_from([xb.s32, xb.f32, xb.f64])
FLOATING: Final = st.sampled_from([xb.f32, xb.f64, xb.bf16])


def times(values: Sequence[Any]) -> str:
    return "x".join(map(str, values))


# Windows.


@st.composite
def windows(draw: Draw, rank: int) -> dict[str, list[Any]]:
    """Draw a window by its attributes in HLO; one list may have a wrong value or length."""
    small = st.integers(1, 3)
    pads = st.integers(0, 2) if draw(st.integers(0, 2)) else st.integers(-1, 2)
    window: dict[str, list[Any]] = {
        "size": [draw(small) for _ in range(rank)],
        "stride": [draw(small) for _ in range(rank)],
        "pad": [(draw(pads), draw(pads)) for _ in range(rank)],
        "lhs_dilate": [draw(st.integers(1, 2)) for _ in range(rank)],
        "rhs_dilate": [draw(st.integers(1, 2)) for _ in range(rank)],
    }
    if draw(st.integers(0, 5)) == 0:
        name = draw(st.sampled_from(["size", "stride", "lhs_dilate", "rhs_dilate"]))
        window[name] = draw(nudged(window[name]))
    return window


def window_text(window: dict[str, list[Any]]) -> str:
    pads = [f"{low}_{high}" for low, high in window["pad"]]
    parts = {**window, "pad": pads}
    text = " ".join(f"{name}={times(values)}" for name, values in parts.items() if values)
    return f"window={{{text}}}"


@st.composite
def reduce_window(draw: Draw) -> Call:
    t = draw(NUMERIC)
    shape = draw(arrays(st.just(t), min_rank=1))
    window = draw(windows(shape.rank))
    shapes = draw(almost([shape, scalar(t)]))
    add = computation_of(xb.add, t)
    line = f"reduce-window(%p0, %p1), {window_text(window)}, to_apply=%add_computation"

    def apply(x: xb.XlaOp, v: xb.XlaOp) -> xb.XlaOp:
        return xb.reduce_window_with_general_padding(
            x,
            v,
            add,
            window["size"],
            window["stride"],
            window["lhs_dilate"],
            window["rhs_dilate"],
            window["pad"],
        )

    computations = [scalar_computation("add", t)]
    return Call("reduce_window_with_general_padding", shapes, apply, line, computations)


@st.composite
def select_and_scatter(draw: Draw) -> Call:
    t = draw(NUMERIC)
    shape = draw(arrays(st.just(t), min_rank=1))
    window = draw(windows(shape.rank))
    window["lhs_dilate"] = window["rhs_dilate"] = [1] * shape.rank
    source = [
        (size + low + high - width) // stride + 1 if size + low + high >= width else 0
        for size, (low, high), width, stride in zip(
            shape.dimensions, window["pad"], window["size"], window["stride"], strict=False
        )
    ]
    shapes = draw(almost([shape, resized(shape, [max(s, 0) for s in source]), scalar(t)]))
    b = xb.XlaBuilder("select")
    select = b.build(xb.ge(b.parameter(scalar(t)), b.parameter(scalar(t))))
    add = computation_of(xb.add, t)
    undilated = {name: window[name] for name in ("size", "stride", "pad")}
    line = f"select-and-scatter(%p0, %p1, %p2), {window_text(undilated)}, "
    line += "select=%select, scatter=%add_computation"
    text = "%select {\n" + "".join(f"  %x{i} = {t}[] parameter({i})\n" for i in (0, 1))
    text += "  ROOT %r = pred[] compare(%x0, %x1), direction=GE\n}"

    def apply(x: xb.XlaOp, source: xb.XlaOp, v: xb.XlaOp) -> xb.XlaOp:
        return xb.select_and_scatter_with_general_padding(
            x, select, window["size"], window["stride"], window["pad"], source, v, add
        )

    computations = [text, scalar_computation("add", t)]
    return Call("select_and_scatter_with_general_padding", shapes, apply, line, computations)


@st.composite
def sort(draw: Draw) -> Call:
    first = draw(arrays(NUMERIC))
    shapes = [first, with_type(first, draw(NUMERIC))][: draw(st.integers(1, 2))]
    place = draw(st.integers(-1, first.rank))
    number = place if place >= 0 else first.rank - 1
    types = [s.element_type for s in shapes]
    b = xb.XlaBuilder("less")
    ops = [b.parameter(scalar(t)) for t in types for _ in range(2)]
    less = b.build(xb.lt(ops[0], ops[1]))
    text = "".join(
        f"  %x{i} = {t}[] parameter({i})\n" for i, t in enumerate(t for t in types for _ in (0, 1))
    )
    text = f"%less {{\n{text}  ROOT %r = pred[] compare(%x0, %x1), direction=LT\n}}"
    operands = draw(almost(shapes))
    names = ", ".join(f"%p{i}" for i in range(len(operands)))
    line = f"sort({names}), dimensions={{{number}}}, to_apply=%less"
    return Call("sort", operands, lambda *xs: xb.sort(xs, less, place), line, [text])


@st.composite
def top_k(draw: Draw) -> Call:
    shape = draw(arrays(FLOATING, min_rank=1))
    k = draw(st.integers(-1, shape.dimensions[-1] + 1))
    return Call("top_k", [shape], lambda x: xb.top_k(x, k), f"topk(%p0), k={k}, largest=true")


@st.composite
def convolution(draw: Draw) -> Call:
    spatial = draw(st.integers(0, 2))
    window = draw(windows(spatial))
    t = draw(st.sampled_from([xb.f32, xb.s32, xb.c64]))
    groups = draw(st.integers(1, 2))
    batch_groups = draw(st.sampled_from([1, 1, 2])) if groups == 1 else 1
    input_features = draw(st.integers(1, 2))
    batch = draw(st.integers(1, 2)) * batch_groups
    output_features = draw(st.integers(1, 2)) * groups * batch_groups
    lhs_sizes = [batch, input_features * groups, *draw(st.lists(sizes, min_size=2, max_size=2))]
    rhs_sizes = [output_features, input_features, *window["size"]]
    operands, labels = [], []
    for chosen, letters in ((lhs_sizes[: spatial + 2], "bf01"), (rhs_sizes, "oi01")):
        order = draw(st.permutations(range(spatial + 2)))
        operands.append(intern_array(t, tuple(chosen[i] for i in order if i < len(chosen))))
        labels.append("".join(letters[i] for i in order))
    out = "".join("bf01"[i] for i in draw(st.permutations(range(spatial + 2))))
    text = f"{labels[0]}_{labels[1]}->{out}"
    shapes = draw(almost(operands))
    line = "convolution(%p0, %p1), "
    line += f"{window_text(window)}, " if spatial else ""
    line += f"dim_labels={text}, feature_group_count={groups}, batch_group_count={batch_groups}"

    def apply(x: xb.XlaOp, kernel: xb.XlaOp) -> xb.XlaOp:
        return xb.conv_general_dilated(
            x,
            kernel,
            window["stride"],
            window["pad"],
            window["lhs_dilate"],
            window["rhs_dilate"],
            xb.ConvolutionDimensionNumbers.of(text),
            groups,
            batch_groups,
        )

    # HLO has the kernel's sizes in the window as well; calls in which they differ have no line.
    kernel = shapes[1]
    agrees = isinstance(kernel, xb.ArrayShape) and kernel.dimensions == operands[1].dimensions
    has_line = agrees and all(len(v) == spatial for v in window.values())
    return Call("conv_general_dilated", shapes, apply, line if has_line else None)


# Indexing.


@st.composite
def dynamic_slice(draw: Draw) -> Call:
    shape = draw(arrays(NUMERIC))
    cut = draw(nudged([draw(st.integers(0, size)) for size in shape.dimensions]))
    index = scalar(draw(st.sampled_from([xb.s32, xb.u8])))
    indices = [index] * draw(st.sampled_from([shape.rank] * 4 + [shape.rank + 1]))
    if draw(st.booleans()):
        shapes = draw(almost([shape, *indices]))
        return Call("dynamic_slice", shapes, lambda x, *at: xb.dynamic_slice(x, list(at), cut))
    update = resized(shape, [max(0, c) for c in cut])
    shapes = draw(almost([shape, update, *indices]))

    def apply(x: xb.XlaOp, u: xb.XlaOp, *at: xb.XlaOp) -> xb.XlaOp:
        return xb.dynamic_update_slice(x, u, list(at))

    return Call("dynamic_update_slice", shapes, apply)


@st.composite
def gather(draw: Draw) -> Call:
    """Draw a gather, or a scatter with the corresponding dimension numbers."""
    t = draw(NUMERIC)
    operand = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(1, 3)))]
    rank = len(operand)
    order = draw(st.permutations(range(rank)))
    batching = sorted(order[: draw(st.sampled_from([0, 0, 1]))])
    rest = [d for d in range(rank) if d not in batching]
    collapsed = [d for d in rest if draw(st.booleans())]
    cut = [
        1 if d in batching + collapsed else draw(st.integers(0, operand[d])) for d in range(rank)
    ]
    mapped = draw(st.lists(st.sampled_from(rest), unique=True)) if rest else []
    lookups = [operand[d] for d in batching] + draw(st.lists(sizes, max_size=2))
    place = draw(st.integers(0, len(lookups)))
    indices = [*lookups[:place], len(mapped), *lookups[place:]]
    index_batching = [i if i < place else i + 1 for i in range(len(batching))]
    windows = [cut[d] for d in rest if d not in collapsed]
    total = len(lookups) + len(windows)
    offsets = sorted(draw(st.permutations(range(total)))[: len(windows)])
    numbers = [
        draw(nudged(n)) if draw(st.integers(0, 4)) == 0 else n
        for n in (offsets, collapsed, mapped, batching, index_batching)
    ]
    offset_dims, collapsed_dims, index_map, operand_batching, indices_batching = numbers
    indices_shape = intern_array(draw(st.sampled_from([xb.s32, xb.u8])), tuple(indices))
    names = [
        ("offset_dims", offset_dims),
        ("collapsed_slice_dims", collapsed_dims),
        ("start_index_map", index_map),
        ("operand_batching_dims", operand_batching),
        ("start_indices_batching_dims", indices_batching),
    ]
    if draw(st.booleans()):
        slices = draw(nudged(cut))
        text = ", ".join(f"{name}={braces(values)}" for name, values in names)
        line = f"gather(%p0, %p1), {text}, index_vector_dim={place}, slice_sizes={braces(slices)}"
        gathering = xb.GatherDimensionNumbers(
            offset_dims, collapsed_dims, index_map, place, operand_batching, indices_batching
        )
        shapes = draw(almost([intern_array(t, tuple(operand)), indices_shape]))
        return Call("gather", shapes, lambda x, i: xb.gather(x, i, gathering, slices), line)
    out, window, lookup = [], list(windows), list(lookups)
    for d in range(total):
        out.append(window.pop(0) if d in offsets else lookup.pop(0))
    hlo = [
        *("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"),
        *("input_batching_dims", "scatter_indices_batching_dims"),
    ]
    text = ", ".join(f"{n}={braces(v)}" for n, (_, v) in zip(hlo, names, strict=True))
    line = f"scatter(%p0, %p1, %p2), {text}, index_vector_dim={place}, to_apply=%add_computation"
    scattering = xb.ScatterDimensionNumbers(
        offset_dims, collapsed_dims, index_map, place, operand_batching, indices_batching
    )
    add = computation_of(xb.add, t)
    shapes = draw(
        almost([intern_array(t, tuple(operand)), indices_shape, intern_array(t, tuple(out))])
    )

    def apply(x: xb.XlaOp, i: xb.XlaOp, u: xb.XlaOp) -> xb.XlaOp:
        return xb.scatter(x, i, u, add, scattering)

    return Call("scatter", shapes, apply, line, [scalar_computation("add", t)])


# Linear algebra and normalization.


@st.composite
def linalg(draw: Draw) -> Call:
    t = draw(st.sampled_from([xb.f32, xb.f64, xb.c64, xb.f32, xb.s32]))
    batch = draw(st.lists(sizes, max_size=2))
    m, k = draw(sizes), draw(sizes)
    name = draw(st.sampled_from(["cholesky", "triangular_solve", "fft"]))
    square = intern_array(t, (*batch, m, m))
    if name == "cholesky":
        lower = draw(st.booleans())
        line = f"cholesky(%p0), lower={str(lower).lower()}"
        return Call(name, draw(almost([square])), lambda a: xb.cholesky(a, lower), line)
    if name == "triangular_solve":
        left = draw(st.booleans())
        b = intern_array(t, (*batch, m, k) if left else (*batch, k, m))
        line = f"triangular-solve(%p0, %p1), left_side={str(left).lower()}, lower=true, "
        line += "transpose_a=NO_TRANSPOSE"

        def apply(a: xb.XlaOp, b: xb.XlaOp) -> xb.XlaOp:
            return xb.triangular_solve(a, b, left, True, False, "NO_TRANSPOSE")

        return Call(name, draw(almost([square, b])), apply, line)
    kind = draw(st.sampled_from(["FFT", "IFFT", "RFFT", "IRFFT"]))
    element_type = xb.f32 if kind == "RFFT" else xb.c64
    shape = draw(arrays(st.just(element_type), min_rank=1))
    count = draw(st.integers(1, min(3, shape.rank)))
    length = list(shape.dimensions[-count:])
    if kind == "IRFFT":
        length[-1] = max(0, (length[-1] - 1) * 2)
    length = draw(nudged(length))
    line = f"fft(%p0), fft_type={kind}, fft_length={braces(length)}"
    return Call(name, draw(almost([shape])), lambda x: xb.fft(x, kind, length), line)


@st.composite
def normalization(draw: Draw) -> Call:
    shape = draw(arrays(FLOATING, min_rank=1))
    feature = draw(st.integers(0, shape.rank - 1))
    # The vectors are bounded if the feature dimension is bounded.
    bounded = (shape.dynamic_dimensions[feature],)
    vector = intern_array(shape.element_type, (shape.dimensions[feature],), bounded)
    name = draw(st.sampled_from(["training", "inference", "grad"]))
    count = {"training": 2, "inference": 4, "grad": 3}[name]
    operands = [shape, *[vector] * count, *([shape] if name == "grad" else [])]
    number = feature + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
    shapes = draw(almost(operands))
    names = ", ".join(f"%p{i}" for i in range(len(shapes)))
    line = f"batch-norm-{name}({names}), epsilon=0.5, feature_index={number}"
    function = getattr(xb, f"batch_norm_{name}")
    return Call(f"batch_norm_{name}", shapes, lambda *xs: function(*xs, 0.5, number), line)


@st.composite
def random(draw: Draw) -> Call:
    """Draw a generator of random numbers. XLA's parser does not infer their shapes."""
    if draw(st.booleans()):
        key = intern_array(xb.u64, (draw(st.sampled_from([2, 2, 3])),))
        shape = resized(draw(arrays()), draw(st.lists(sizes, max_size=2)))
        algorithm = draw(st.sampled_from(["RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX"]))
        shapes = draw(almost([key]))
        name = "rng_bit_generator"
        return Call(name, shapes, lambda k: xb.rng_bit_generator(algorithm, k, shape))
    t = draw(FLOATING)
    shape = intern_array(t, tuple(draw(st.lists(sizes, max_size=2))))
    shapes = draw(almost([scalar(t), scalar(t)]))
    name = draw(st.sampled_from(["rng_normal", "rng_uniform"]))
    function = getattr(xb, name)
    return Call(name, shapes, lambda a, b: function(a, b, shape))


# Collectives, dynamic sizes, and the host.


@st.composite
def collectives(draw: Draw) -> Call:
    """Draw a collective. XLA's parser does not infer their shapes."""
    shape = draw(arrays(st.sampled_from([xb.f32, xb.s32])))
    static = resized(shape, shape.dimensions)
    count = draw(st.sampled_from([1, 2, 2, 4]))
    groups = [list(range(count))]
    place = draw(st.integers(0, max(static.rank, 1)))
    add = computation_of(xb.add, shape.element_type)
    names = "all_reduce all_gather reduce_scatter all_to_all collective_permute"
    name = draw(st.sampled_from([*names.split(), "collective_broadcast"]))
    pairs = draw(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), max_size=3))
    calls = {
        "all_reduce": lambda x: xb.all_reduce(x, add, groups),
        "all_gather": lambda x: xb.all_gather(x, place, count, groups),
        "reduce_scatter": lambda x: xb.reduce_scatter(x, add, place, count, groups),
        "all_to_all": lambda x: xb.all_to_all(x, place, draw_concat, count, groups),
        "collective_permute": lambda x: xb.collective_permute(x, pairs),
        "collective_broadcast": lambda x: xb.collective_broadcast(x, groups),
    }
    draw_concat = draw(st.integers(0, max(static.rank, 1)))
    return Call(name, [static], calls[name])


@st.composite
def dynamic(draw: Draw) -> Call:
    shape = draw(arrays(NUMERIC))
    place = draw(st.integers(-1, shape.rank))
    if draw(st.booleans()):
        line = f"get-dimension-size(%p0), dimensions={{{place}}}"
        return Call("get_dimension_size", [shape], lambda x: xb.get_dimension_size(x, place), line)
    shapes = draw(almost([shape, scalar(xb.s32)]))
    line = f"set-dimension-size(%p0, %p1), dimensions={{{place}}}"
    return Call("set_dimension_size", shapes, lambda x, n: xb.set_dimension_size(x, n, place), line)


@st.composite
def host(draw: Draw) -> Call:
    shape = draw(arrays())
    static = resized(shape, shape.dimensions)
    how = draw(st.sampled_from(["after_all", "custom_call", "outfeed_with_token"]))
    tokens = [xb.TOKEN_SHAPE] * draw(st.integers(1, 3))
    if how == "after_all":
        operands = [*tokens, static] if draw(st.integers(0, 3)) == 0 else tokens
        names = ", ".join(f"%p{i}" for i in range(len(operands)))
        return Call(how, list(operands), lambda *ts: xb.after_all(*ts), f"after-all({names})")
    if how == "custom_call":
        target = draw(st.sampled_from(["target", "a.b", "$target"]))
        return Call(how, [static], lambda x: xb.custom_call(target, [x], static))
    return Call(how, [static, xb.TOKEN_SHAPE], lambda x, t: xb.outfeed_with_token(x, t))


FAMILIES: Final[dict[str, st.SearchStrategy[Call]]] = {
    **basic.FAMILIES,
    "contraction": st.one_of(basic.dot_general(), convolution()),
    "reduction": st.one_of(basic.reduce(), reduce_window(), select_and_scatter(), sort(), top_k()),
    "indexing": st.one_of(dynamic_slice(), gather()),
    "linalg": linalg(),
    "normalization": normalization(),
    "random": random(),
    "collectives": collectives(),
    "dynamic": dynamic(),
    "host": host(),
}
"""Strategies for the calls of each family of operations."""
