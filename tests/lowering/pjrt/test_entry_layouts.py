"""Layouts of entry parameters and results: lowering, compilation, and correct values.

The layouts that XLA chose are read from the compiled HLO text, and the order of elements in memory
from the bytes of the buffers.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout as JaxLayout
from support import assert_identical
from tables import each_row

import builder as xb
import lowering
from builder.types import primitive_type as pt
from lowering.errors import ArgumentError, CompileError, LoweringError
from lowering.jaxlib_api import hlo_conversion
from tests.foreign_arrays import DlpackOnly

RNG = np.random.default_rng(0)
SIZES = (2, 3, 5, 4)

TYPES = [
    *(pt.pred, pt.s2, pt.u4, pt.s4, pt.s8, pt.u16, pt.s32, pt.u64, pt.s64),
    *(pt.f4e2m1fn, pt.f8e5m2, pt.bf16, pt.f16, pt.f32, pt.f64, pt.c64, pt.c128),
]


def orders(rank: int) -> list[tuple[int, ...]]:
    return list(itertools.permutations(range(rank)))


def random_array(element: xb.PrimitiveType, sizes: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return random integers, which are exact in every type."""
    least = -2 if element.is_signed else 0
    return RNG.integers(least, 2, size=tuple(sizes)).astype(element.dtype)


def put_by_jax(
    array: np.ndarray[Any, Any], minor_to_major: Sequence[int] | None = None
) -> jax.Array:
    """Copy an array to the CPU in a layout, using jax instead of `lowering`."""
    where: Any = jax.sharding.SingleDeviceSharding(lowering.device("cpu"))
    if minor_to_major is not None:
        # jax compiles a program for each type and order.
        where = Format(JaxLayout(major_to_minor=tuple(reversed(minor_to_major))), where)
    with jax.enable_x64(True):
        put: jax.Array = jax.device_put(array, where)
    return put


def in_memory(array: jax.Array) -> bytes:
    """Return the bytes of the buffer of a jax.Array."""
    size = array.size * array.dtype.itemsize
    return bytes((ctypes.c_uint8 * size).from_address(array.unsafe_buffer_pointer()))


def entry_layout(run: lowering.Executable | lowering.ReplicatedExecutable) -> str:
    """Return the entry layouts that XLA compiled, as it prints them."""
    head = run.hlo_text().split("\n")[0]
    match = re.search(r"entry_computation_layout=\{(\(.*?)\}(?:, [a-z_]+=|$)", head)
    assert match is not None
    return re.sub(r"/\*.*?\*/", "", match[1])


def negated(parameter: str, result: str, name: str = "negated") -> xb.XlaComputation:
    b = xb.XlaBuilder(name)
    return b.build(xb.neg(b.parameter(parameter, "x")), result=result)


# Orders


@pytest.mark.slow
@pytest.mark.parametrize("rank", range(5))
def test_every_order_of_a_parameter_and_of_a_result(rank: int) -> None:
    """One program has a parameter and a result for every order."""
    shape = xb.array_shape(xb.f32, SIZES[:rank])
    taken = orders(rank)
    given = orders(rank) if rank < 4 else [*orders(4)[::5], (0, 1, 2, 3)]
    b = xb.XlaBuilder("orders")
    parameters = [b.parameter(shape.with_layout(order)) for order in taken]
    pairs = list(itertools.product(range(len(taken)), given))
    root = xb.tuple(*[xb.neg(parameters[number]) for number, _ in pairs])
    run = lowering.compile(b.build(root, result=[shape.with_layout(g) for _, g in pairs]), "cpu")
    arrays = [RNG.normal(size=shape.dimensions).astype(np.float32) for _ in taken]
    ways: list[Callable[[Any], Any]] = [np.asarray, lambda a: np.asarray(a, order="F")]
    if rank < 4:
        ways += [put_by_jax, lambda a: put_by_jax(a, taken[0])]
    ways += [lambda a, o=order: put_by_jax(a, o) for order in taken[1:2]]
    for way in ways:
        results = run(*map(way, arrays))
        for (number, order), result in zip(pairs, results, strict=True):
            expected = -arrays[number]
            assert_identical(np.asarray(result), expected)
            in_order = expected.transpose(tuple(reversed(order)))
            assert in_memory(result) == np.ascontiguousarray(in_order).tobytes()


@each_row("order", orders(3))
def test_xla_compiles_the_requested_layouts(order: tuple[int, ...]) -> None:
    text = "{" + ",".join(map(str, order)) + "}"
    run = lowering.compile(negated(f"f32[2,3,5]{text}", f"f32[2,3,5]{text}"), "cpu")
    assert entry_layout(run) == f"(f32[2,3,5]{text})->f32[2,3,5]{text}"


def test_xla_compiles_the_requested_layouts_in_tuples() -> None:
    b = xb.XlaBuilder("nested")
    x = b.parameter("(f32[2,3]{0,1}, (s32[], f64[3,2]))", "x")
    y = b.parameter("u8[4,5]{0,1}", "y")
    inner = xb.get_tuple_element(x, 1)
    root = xb.tuple(y, xb.tuple(xb.get_tuple_element(x, 0), xb.get_tuple_element(inner, 1)))
    run = lowering.compile(b.build(root, result="(u8[4,5], (f32[2,3]{0,1}, f64[3,2]{0,1}))"), "cpu")
    assert entry_layout(run) == (
        "(f32[2,3]{0,1}, s32[], f64[3,2]{1,0}, u8[4,5]{0,1})"
        "->(u8[4,5]{1,0}, f32[2,3]{0,1}, f64[3,2]{0,1})"
    )
    arrays = [
        random_array(pt.f32, (2, 3)),
        random_array(pt.f64, (3, 2)),
        random_array(pt.u8, (4, 5)),
    ]
    got = run((arrays[0], (7, arrays[1])), arrays[2])
    assert_identical(np.asarray(got[0]), arrays[2])
    assert_identical(np.asarray(got[1][0]), arrays[0])
    assert_identical(np.asarray(got[1][1]), arrays[1])


def test_column_major_is_fortran_order() -> None:
    x = RNG.normal(size=(7, 5)).astype(np.float32)
    result = lowering.compile(negated("f32[7,5]", "f32[7,5]{0,1}"), "cpu")(x)
    assert in_memory(result) == np.asfortranarray(-x).tobytes(order="A")
    assert np.from_dlpack(result).strides == (4, 28)
    # A parameter that is returned unchanged shows its layout.
    b = xb.XlaBuilder("same")
    same = lowering.compile(b.build(b.parameter("f32[7,5]{0,1}"), result="f32[7,5]{0,1}"), "cpu")
    for given in (x, np.asfortranarray(x), put_by_jax(x), put_by_jax(x, (0, 1))):
        assert in_memory(same(given)) == np.asfortranarray(x).tobytes(order="A")


@pytest.mark.parametrize("sizes", [(0, 3), (1, 4), (4, 1), (1, 1), (513, 1025)])
def test_empty_and_large_arrays(sizes: tuple[int, int]) -> None:
    text = f"f32[{sizes[0]},{sizes[1]}]"
    run = lowering.compile(negated(f"{text}{{0,1}}", f"{text}{{0,1}}"), "cpu")
    x = RNG.normal(size=sizes).astype(np.float32)
    for given in (x, put_by_jax(x), put_by_jax(x, (0, 1)), run(x)):
        assert_identical(np.asarray(run(given)), -np.asarray(given))


def test_every_type() -> None:
    """One program has parameters and results of all types, column-major and row-major."""
    b = xb.XlaBuilder("types")
    columns = [xb.array_shape(t, (3, 5), layout=[0, 1]) for t in TYPES]
    rows = [xb.array_shape(t, (3, 5), layout=[1, 0]) for t in TYPES]
    values = [b.parameter(shape) for shape in (*columns, *rows)]
    run = lowering.compile(b.build(xb.tuple(*values), result=[*rows, *columns]), "cpu")
    arrays = [random_array(t, (3, 5)) for t in TYPES]
    once = [np.asarray, put_by_jax, lambda a: put_by_jax(a, (0, 1))]
    for way in once:
        given = [*map(way, arrays)]
        results = run(*given, *given)
        for result, array in zip(results, [*arrays, *arrays], strict=True):
            assert_identical(np.asarray(result), array)
        # Results are valid arguments.
        for result, array in zip(run(*results), [*arrays, *arrays], strict=True):
            assert_identical(np.asarray(result), array)


def test_arguments_of_all_kinds() -> None:
    run = lowering.compile(negated("f64[4,6]{0,1}", "f64[4,6]"), "cpu")
    x = RNG.normal(size=(4, 6))
    wide = np.zeros((8, 12))
    wide[::2, ::2] = x
    read_only = x.copy()
    read_only.flags.writeable = False
    one = jax.sharding.Mesh(np.array([lowering.device("cpu")]), ("one",))
    with jax.enable_x64(True):
        on_mesh = jax.device_put(x, jax.sharding.NamedSharding(one, jax.sharding.PartitionSpec()))
        made = jax.jit(lambda a: a + 0.0)(put_by_jax(x, (0, 1)))
    given = [
        *(x, np.asfortranarray(x), x.T.copy().T, wide[::2, ::2], read_only, x.astype(">f8")),
        *(DlpackOnly(x), DlpackOnly(np.asfortranarray(x)), DlpackOnly(put_by_jax(x, (0, 1)))),
        *(put_by_jax(x), put_by_jax(x, (0, 1)), lowering.device_put(x, "cpu"), on_mesh, made),
    ]
    for one_of_them in given:
        assert_identical(np.asarray(run(one_of_them)), -x)
        assert_identical(np.asarray(run(x=one_of_them)), -x)


def test_arguments_are_not_changed() -> None:
    run = lowering.compile(negated("f32[2,3]{0,1}", "f32[2,3]{0,1}"), "cpu")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    on_device = put_by_jax(x)
    results = [run(x), run(on_device)]
    x[0, 0] = 100
    for result in results:
        assert np.asarray(result)[0, 0] == 0
    assert not on_device.is_deleted()
    assert np.asarray(on_device)[0, 1] == 1


def test_results_are_ordinary_arrays() -> None:
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    result = lowering.compile(negated("f32[3,4]", "f32[3,4]{0,1}"), "cpu")(x)
    assert isinstance(result, jax.Array)
    assert_identical(np.asarray(jax.jit(lambda a: a * 2)(result)), -x * 2)
    assert_identical(np.asarray(result[1:, ::2]), -x[1:, ::2])
    assert_identical(np.asarray(jnp.transpose(result)), -x.T)
    assert_identical(np.asarray(result + put_by_jax(x)), np.zeros_like(x))
    assert result.tolist() == (-x).tolist()
    plain = lowering.compile(negated("f32[3,4]", "f32[3,4]"), "cpu")
    assert_identical(np.asarray(plain(result)), x)
    assert_identical(np.asarray(lowering.device_put(result, "cpu")), -x)


def test_calls_from_a_function_that_jax_traces() -> None:
    run = lowering.compile(negated("f32[2,3]{0,1}", "f32[2,3]{0,1}"), "cpu")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    @jax.jit
    def traced(y: jax.Array) -> jax.Array:
        return y - run(x)

    assert_identical(np.asarray(traced(x)), x + x)


def test_tokens_beside_layouts() -> None:
    b = xb.XlaBuilder("token")
    token = b.parameter(xb.TOKEN_SHAPE, "token")
    x = b.parameter("s4[2,3]{0,1}", "x")
    y = b.parameter("f32[2,3]", "y")
    run = lowering.compile(
        b.build(xb.tuple(x, token, y), result="(s4[2,3], token[], f32[2,3]{0,1})"), "cpu"
    )
    small, other = random_array(pt.s4, (2, 3)), random_array(pt.f32, (2, 3))
    for way in (np.asarray, put_by_jax, lambda a: put_by_jax(a, (0, 1))):
        got = run(None, way(small), way(other))
        assert_identical(np.asarray(got[0]), small)
        assert got[1] is None
        assert_identical(np.asarray(got[2]), other)


def test_bounded_sizes_beside_layouts() -> None:
    b = xb.XlaBuilder("bounded")
    x = b.parameter("f32[<=4,3]{0,1}", "x")
    run = lowering.compile(b.build(xb.neg(x), result="f32[<=4,3]{0,1}"), "cpu")
    for rows in (1, 3, 4):
        array = RNG.normal(size=(rows, 3)).astype(np.float32)
        for way in (np.asarray, put_by_jax, lambda a: put_by_jax(a, (0, 1))):
            assert_identical(np.asarray(run(way(array))), -array)


def test_a_layout_that_xla_chooses() -> None:
    """XLA may choose another layout than the default one for a transposed array."""
    for modes in itertools.product(("auto", "{0,1}", "default"), ("auto", "{0,1}", "{1,0}")):
        module = lowering.load_bytes(
            f'func.func @main(%x: tensor<20x30xf32> {{mhlo.layout_mode = "{modes[0]}"}})'
            f' -> (tensor<30x20xf32> {{mhlo.layout_mode = "{modes[1]}"}}) {{'
            " %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<20x30xf32>) -> "
            "tensor<30x20xf32> return %0 : tensor<30x20xf32> }"
        )
        x = RNG.normal(size=(20, 30)).astype(np.float32)
        run = lowering.compile(module, "cpu")
        for given in (x, put_by_jax(x), put_by_jax(x, (0, 1))):
            assert_identical(np.asarray(run(given)), x.T)


# Several devices


@pytest.mark.parametrize("where", [{"num_replicas": 2}, {"num_partitions": 2}])
def test_several_devices(where: dict[str, int]) -> None:
    b = xb.XlaBuilder("replicated")
    x = b.parameter("(f64[2,3]{0,1}, s32[])", "x")
    y = b.parameter("s4[3,2]{0,1}", "y")
    root = xb.tuple(xb.neg(xb.get_tuple_element(x, 0)), y)
    module = b.build(root, result="(f64[2,3]{0,1}, s4[3,2])")
    run = lowering.compile(module, "cpu", **where)
    assert isinstance(run, lowering.ReplicatedExecutable)
    assert entry_layout(run).startswith("(f64[2,3]{0,1}, s32[], s4[3,2]{0,1:E(4)})->(f64[2,3]{0,1}")
    rows = RNG.normal(size=(2, 2, 3))
    small = random_array(pt.s4, (2, 3, 2))
    devices = run.devices
    with jax.enable_x64(True):
        placed = [jax.device_put(row, d) for row, d in zip(rows, devices, strict=True)]
    for given in (rows, list(rows), [np.asfortranarray(row) for row in rows], placed):
        results = run([(one, np.int32(1)) for one in given], small)
        for result, row, low in zip(results, rows, small, strict=True):
            assert_identical(np.asarray(result[0]), -row)
            assert_identical(np.asarray(result[1]), low)
            assert in_memory(result[0]) == np.asfortranarray(-row).tobytes(order="A")
        # Results are valid arguments.
        again = run([(one[0], np.int32(1)) for one in results], [one[1] for one in results])
        for result, row in zip(again, rows, strict=True):
            assert_identical(np.asarray(result[0]), row)


# Unsupported layouts


NO_ORDER = "request only a dimension order, {order}, or no layout"
REFUSED = {
    "tiles": ("f32[3,5]{1,0:T(2,2)}", "arrays on this device have no tiles"),
    "tiles in tiles": ("f32[3,5]{0,1:T(8,128)(2,1)}", "arrays on this device have no tiles"),
    "tiles that combine": ("f32[3,5]{1,0:T(*,4)}", "arrays on this device have no tiles"),
    "a tiled vector": ("f32[7]{0:T(1024)}", "arrays on this device have no tiles"),
    "a tiled scalar": ("f32[]{:T(128)}", "arrays on this device have no tiles"),
    "huge tiles": (f"f32[3,5]{{1,0:T({2**40},2)}}", "arrays on this device have no tiles"),
    "aligned": ("f32[3,5]{1,0:L(4)}", "arrays on this device have no padding at their end"),
    "memory": (
        "f32[3,5]{1,0:S(1)}",
        "arguments and results must be in the device's main memory, S(0)",
    ),
    "memory of the host": ("f32[3,5]{0,1:S(5)}", "arguments and results must be in the device's"),
    "wide elements": ("f32[3,5]{0,1:E(64)}", "XLA changes it to {0,1}"),
    "wide small elements": ("s4[3,5]{0,1:E(8)}", "XLA changes it to {0,1:E(4)}"),
}


@each_row("place", ["parameter x", "the result"])
@each_row("name", REFUSED)
def test_layouts_that_a_cpu_does_not_support(name: str, place: str) -> None:
    text, reason = REFUSED[name]
    shape = xb.parse_shape(text)
    assert isinstance(shape, xb.ArrayShape)
    plain = str(shape.with_layout(None))
    computation = negated(*((text, plain) if place == "parameter x" else (plain, text)))
    module = lowering.lower(computation)  # a TPU's layout is valid in text
    assert f'mhlo.layout_mode = "{shape.layout}"' in module.text
    with pytest.raises(CompileError) as caught:
        lowering.compile(module, "cpu")
    message, _, fix = str(caught.value).partition("\nfix: ")
    assert message.startswith(f"compile: {place} of negated can't be {shape} on cpu: {reason}")
    assert fix.startswith("request only a dimension order")
    assert caught.value.shapes[place].with_layout(None) is shape.with_layout(None)


def test_messages_name_the_position_in_a_tuple() -> None:
    b = xb.XlaBuilder("f")
    x = b.parameter("(s32[], (f32[2,3]{1,0:T(2,2)}))", "x")
    with pytest.raises(CompileError, match=r"compile: parameter x\[1\]\[0\] of f can't be f32"):
        lowering.compile(b.build(x), "cpu")
    b = xb.XlaBuilder("f")
    x = b.parameter(xb.f32[2, 3], "x")
    root = b.build(xb.tuple(x, x), result="(f32[2,3], f32[2,3]{1,0:T(2,2)})")
    with pytest.raises(CompileError, match=r"compile: the result\[1\] of f can't be f32"):
        lowering.compile(root, "cpu", num_replicas=2)


def test_default_element_sizes() -> None:
    for text in ("f32[2,3]{0,1:E(32)}", "s4[2,3]{0,1:E(4)}", "f64[2,3]{1,0:E(64)}"):
        run = lowering.compile(negated(text, text), "cpu")
        shape = xb.parse_shape(text)
        assert isinstance(shape, xb.ArrayShape)
        x = random_array(shape.element_type, (2, 3))
        assert np.asarray(run(x)).tolist() == (-x).tolist()


def test_element_sizes_are_refused_beside_tokens() -> None:
    """jaxlib 0.10 does not report the layouts that XLA chose."""
    for text in ("s4[2,3]{0,1:E(8)}", "f32[2,3]{0,1:E(64)}"):
        b = xb.XlaBuilder("token")
        token, x = b.parameter(xb.TOKEN_SHAPE), b.parameter(text)
        with pytest.raises(
            CompileError, match=r"can't be .* on cpu: (XLA changes it to|jaxlib does not)"
        ):
            lowering.compile(b.build(xb.tuple(token, x)), "cpu")


# Modules that other programs wrote. XLA would abort on some of them.


def foreign(mode: str, where: str) -> lowering.StablehloModule:
    attribute = f"{{mhlo.layout_mode = {mode}}}"
    parameter, result = (attribute, "") if where == "parameter arg0" else ("", attribute)
    return lowering.load_bytes(
        f"func.func @main(%a: tensor<2x3xf32> {parameter}) -> (tensor<2x3xf32> {result})"
        " { return %a : tensor<2x3xf32> }"
    )


FOREIGN = {
    '"{1,0:T(-2,2)}"': "the size of a tile",
    '"{1,0:T(0,2)}"': "the size of a tile can't be zero",
    '"{1,0:L(0)}"': "tail_padding_alignment_in_elements must be an integer from 1",
    '"{1,0:T(2,2,2)}"': "a tile can't have more dimensions",
    '"{1,0:T(*,2)}"': "arrays on this device have no tiles",
    '"{1,0:E(4)}"': "",
    '"{1,0:pad(3,5)}"': "on cpu: a layout in a program can't have padded dimensions",
    '"{1,0:D(D,C)}"': "D (level types of dimensions) is not supported",
    '"{1,0:SC(0:1)}"': "SC (split configurations) is not supported",
    '"{0}"': "{0} orders 1 dimension, f32[2,3] has 2",
    '"{2,1,0}"': "{2,1,0} orders 3 dimensions, f32[2,3] has 2",
    '"{0,0}"': "minor_to_major must be a permutation",
    '"{0,1}x"': "",
    '"auto "': "expected '{'",
    '""': "expected '{'",
    "1 : i32": "mhlo.layout_mode must be the layout of an array",
}


@each_row("where", ["parameter arg0", "the result"])
@each_row("mode", FOREIGN)
def test_layouts_of_foreign_modules(mode: str, where: str) -> None:
    module = foreign(mode, where)  # can be read
    with pytest.raises(CompileError) as caught:
        lowering.compile(module, "cpu")
    message = str(caught.value)
    assert message.startswith(f"compile: {where} of main can't be f32[2,3]")
    assert FOREIGN[mode] in message
    assert "\nfix: " in message


def test_a_layout_of_a_token() -> None:
    module = lowering.load_bytes(
        'func.func @main(%a: !stablehlo.token {mhlo.layout_mode = "{}"}) -> !stablehlo.token'
        " { return %a : !stablehlo.token }"
    )
    with pytest.raises(CompileError, match=r"parameter arg0 of main can't be token\[\] in layout"):
        lowering.compile(module, "cpu")


def test_layouts_of_loaded_modules_are_read() -> None:
    for mode in (
        "{0,1}",
        " { 0 , 1 } ",
        "{0,1:T(2,2)}",
        "{1,0:T(8,128)(2,1)E(64)S(1)}",
        "{0,1:L(4)}",
    ):
        module = foreign(f'"{mode}"', "the result")
        expected = xb.f32[2, 3].with_layout(xb.parse_layout(mode))
        assert module.program_shape.result is expected


def test_layouts_that_disagree_with_the_nesting() -> None:
    b = xb.XlaBuilder("f")
    text = lowering.lower(b.build(b.parameter("(f32[2,3]{0,1})", "x"))).text
    wrong = text.replace('layout_mode = "{0,1}"', 'layout_mode = "{1,0}"')
    assert wrong != text
    with pytest.raises(
        lowering.ModuleFileError, match=r"xlabuilder.parameters does not match @main"
    ):
        lowering.load_bytes(wrong)


# Files


@pytest.mark.parametrize("suffix", [".mlir", ".mlirbc", ".stablehlo"])
def test_layouts_survive_files(suffix: str, tmp_path: Path) -> None:
    b = xb.XlaBuilder("pair")
    x = b.parameter("(f32[2,3]{0,1}, s32[])", "x")
    y = b.parameter("f32[2,3]{0,1}", "y")
    total = xb.get_tuple_element(x, 0) + y
    computation = b.build(xb.tuple(total, y), result="(f32[2,3]{0,1}, f32[2,3])")
    path = tmp_path / f"pair{suffix}"
    lowering.lower(computation).save(path)
    module = lowering.load(path)
    assert module.program_shape == computation.program_shape
    assert str(module.program_shape.result) == "(f32[2,3]{0,1}, f32[2,3])"
    run = lowering.compile(module, "cpu")
    array = RNG.normal(size=(2, 3)).astype(np.float32)
    got = run((array, 1), array)
    assert in_memory(got[0]) == np.asfortranarray(array + array).tobytes(order="A")
    assert_identical(np.asarray(got[1]), array)


def test_tiled_layouts_survive_files(tmp_path: Path) -> None:
    text = "bf16[300,500]{1,0:T(8,128)(2,1)S(1)}"
    computation = negated(text, text)
    for suffix in (".mlir", ".mlirbc", ".stablehlo"):
        path = tmp_path / f"tiled{suffix}"
        lowering.lower(computation).save(path)
        assert lowering.load(path).program_shape == computation.program_shape


def test_the_same_computation_gives_the_same_bytes() -> None:
    texts = ("f32[2,3]{0,1}", "f32[2,3]{1,0:T(2,2)}")
    modules = [lowering.lower(negated(*texts)) for _ in range(2)]
    assert modules[0].bytecode == modules[1].bytecode
    assert modules[0].text == modules[1].text


def test_default_layouts_have_no_attribute() -> None:
    b = xb.XlaBuilder("plain")
    module = lowering.lower(b.build(b.parameter("f32[2,3]", "x") + 1.0, result="f32[2,3]"))
    assert "layout" not in module.text


# The HLO text


@each_row(
    "text",
    [
        "f32[3,5]{0,1}",
        "f32[3,5]{1,0:T(2,2)}",
        "f32[3,5]{1,0:T(*,4)}",
        "bf16[300,500]{1,0:T(8,128)(2,1)L(4)E(16)S(1)}",
        "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
        "f32[7]{0:T(1024)}",
        "f32[]{:T(128)}",
    ],
)
def test_xla_reads_the_layouts_in_the_text(text: str) -> None:
    """XLA's parser prints the same layouts again."""
    head = hlo_conversion.parsed_hlo_text(str(negated(text, text))).splitlines()[0]
    assert f"entry_computation_layout={{({text})->{text}}}" in head


# Layouts of ops; StableHLO can express only their dimension order


def transfer(kind: xb.ChannelType) -> xb.ChannelHandle:
    return xb.ChannelHandle(1, kind)


OPS: dict[str, tuple[str, Callable[[xb.XlaBuilder, xb.XlaOp, str], Any]]] = {
    "infeed": ("infeed", lambda b, x, text: b.infeed(text)),
    "outfeed": ("outfeed", lambda b, x, text: xb.outfeed(x, text)),
    "recv": ("recv", lambda b, x, text: b.recv(text, 1)),
    "send to the host": (
        "send",
        lambda b, x, text: xb.send_to_host(
            x, b.create_token(), text, transfer(xb.ChannelType.DEVICE_TO_HOST)
        ),
    ),
    "an operand of a custom call": (
        "custom_call",
        lambda b, x, text: xb.custom_call("f", x, "f32[]", operand_shapes_with_layout=[text]),
    ),
    "the result of a custom call": (
        "custom_call",
        lambda b, x, text: xb.custom_call("f", x, f"({text}, {text})"),
    ),
    "all_reduce": (
        "all_reduce",
        lambda b, x, text: xb.all_reduce(x, xb.add, shape_with_layout=text),
    ),
    "all_gather": (
        "all_gather",
        lambda b, x, text: xb.all_gather(x, 0, 2, layout=text.removeprefix("f32[2,4]")),
    ),
    "reduce_scatter": (
        "reduce_scatter",
        lambda b, x, text: xb.reduce_scatter(x, xb.add, 0, 2, layout=text.removeprefix("f32[2,4]")),
    ),
    "all_to_all": (
        "all_to_all",
        lambda b, x, text: xb.all_to_all(x, 0, 0, 2, layout=text.removeprefix("f32[2,4]")),
    ),
    "all_to_all_tuple": (
        "all_to_all_tuple",
        lambda b, x, text: xb.all_to_all_tuple([x, x], layout=text.removeprefix("f32[2,4]")),
    ),
}


@each_row("place", OPS)
def test_layouts_of_ops(place: str) -> None:
    opcode, record = OPS[place]
    for layout in ("{0,1:T(2,2)}", "{0,1:S(1)}", "{0,1:E(64)}", "{0,1:L(4)}", "{0,1}"):
        b = xb.XlaBuilder("op")
        x = b.parameter("f32[2,4]", "x")
        record(b, x, f"f32[2,4]{layout}")
        computation = b.build()
        text = str(computation)
        assert layout in text
        # XLA's parser infers the shape of a send from the operand.
        assert opcode == "send" or layout in hlo_conversion.parsed_hlo_text(text)
        if layout == "{0,1}":
            lowering.lower(computation)
            continue
        with pytest.raises(LoweringError) as caught:
            lowering.lower(computation)
        message = str(caught.value)
        assert message.startswith(f"lower: {opcode}, recorded at {__file__}:")
        assert f"an order of dimensions, got layout {layout}" in message
        assert "\nfix: pass the order alone, {0,1}; HLO text has" in message


# Operands and results of custom calls are row-major, independently of the entry layouts


PLACES = list(itertools.product((None, (0, 1)), repeat=2))

Floats = ctypes.POINTER(ctypes.c_float)


@ctypes.CFUNCTYPE(None, Floats, ctypes.POINTER(Floats))
def doubled(out: Any, operands: Any) -> None:
    for i in range(6):
        out[i] = 2 * operands[0][i]


@ctypes.CFUNCTYPE(None, ctypes.POINTER(Floats), ctypes.POINTER(Floats))
def doubled_in_tuple(out: Any, operands: Any) -> None:
    for results in out[0], out[1]:
        for i in range(6):
            results[i] = 2 * operands[0][i]


@ctypes.CFUNCTYPE(None, ctypes.POINTER(Floats), ctypes.POINTER(Floats))
def doubled_in_tuple_of_one(out: Any, operands: Any) -> None:
    for i in range(6):
        out[0][i] = 2 * operands[0][i]


@ctypes.CFUNCTYPE(None, Floats, ctypes.c_void_p)
def counted(out: Any, operands: Any) -> None:
    for i in range(6):
        out[i] = i


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
def nothing(out: Any, operands: Any) -> None:
    pass


for _name in ("doubled", "doubled_in_tuple", "doubled_in_tuple_of_one", "counted", "nothing"):
    lowering.register_custom_call_target(f"test_layouts.{_name}", globals()[_name])


def twice(array: Any) -> Any:
    return np.asarray(array) * 2


F32 = xb.f32[2, 3]

FUNCTIONS: dict[str, Callable[[xb.XlaOp], xb.XlaOp]] = {
    "python_call": lambda x: xb.python_call(twice, x, F32),
    "python_call of two results": lambda x: xb.get_tuple_element(
        xb.python_call(lambda a: (twice(a).T, twice(a)), x, (xb.f32[3, 2], F32)), 1
    ),
    "python_call of a python_call": lambda x: xb.python_call(
        lambda a: np.asarray(a) + a, xb.python_call(twice, x * 0.5, F32), F32
    ),
    "custom_call": lambda x: xb.custom_call("test_layouts.doubled", x, F32),
    "custom_call of two results": lambda x: xb.get_tuple_element(
        xb.custom_call("test_layouts.doubled_in_tuple", x, (F32, F32)), 1
    ),
    "custom_call of a tuple of one": lambda x: xb.get_tuple_element(
        xb.custom_call("test_layouts.doubled_in_tuple_of_one", x, (F32,)), 0
    ),
    "custom_call of a python_call": lambda x: xb.custom_call(
        "test_layouts.doubled", xb.python_call(lambda a: np.asarray(a), x, F32), F32
    ),
    "custom_call before one in columns": lambda x: xb.custom_call(
        "test_layouts.doubled",
        xb.custom_call("test_layouts.doubled", x * 0.5, F32),
        "f32[2,3]{0,1}",
        operand_shapes_with_layout=["f32[2,3]{0,1}"],
    ),
    "transposed": lambda x: xb.transpose(
        xb.python_call(lambda a: twice(a).T, x, xb.f32[3, 2]), [1, 0]
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_in_programs_of_layouts(name: str) -> None:
    x = RNG.normal(size=(2, 3)).astype(np.float32)
    for parameter_order, result_order in PLACES:
        b = xb.XlaBuilder("calls")
        root = FUNCTIONS[name](b.parameter(F32.with_layout(parameter_order), "x"))
        run = lowering.compile(b.build(root, result=F32.with_layout(result_order)), "cpu")
        for argument in (x, put_by_jax(x), put_by_jax(x, (0, 1))):
            assert_identical(np.asarray(run(argument)), x * 2)


def test_functions_without_operands() -> None:
    b = xb.XlaBuilder("calls")
    b.custom_call("test_layouts.counted", F32)
    got = lowering.compile(b.build(result="f32[2,3]{0,1}"), "cpu")()
    assert np.asarray(got).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_functions_on_several_devices() -> None:
    rows = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    for parameter_order, result_order in PLACES:
        b = xb.XlaBuilder("calls")
        x = b.parameter(F32.with_layout(parameter_order), "x")
        root = xb.python_call(twice, x, F32)
        run = lowering.compile(
            b.build(root, result=F32.with_layout(result_order)), "cpu", num_replicas=4
        )
        assert isinstance(run, lowering.ReplicatedExecutable)
        for result, row in zip(run(rows), rows, strict=True):
            assert_identical(np.asarray(result), row * 2)


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_infeed_and_outfeed_in_programs_of_layouts(num_replicas: int) -> None:
    x, y = (RNG.normal(size=(2, 3)).astype(np.float32) for _ in range(2))
    for parameter_order, result_order in PLACES:
        b = xb.XlaBuilder("feeds")
        fed = xb.infeed_with_token(b.create_token(), F32)
        value, token = xb.get_tuple_element(fed, 0), xb.get_tuple_element(fed, 1)
        xb.outfeed_with_token(b.parameter(F32.with_layout(parameter_order)), token, F32)
        computation = b.build(
            xb.tuple(value, token), result=(F32.with_layout(result_order), xb.TOKEN_SHAPE)
        )
        run = lowering.compile(computation, "cpu", num_replicas=num_replicas)
        devices = [run.device] if isinstance(run, lowering.Executable) else run.devices
        for device in devices:
            lowering.transfer_to_infeed(x, device)
        results = [run(y)] if isinstance(run, lowering.Executable) else run([y] * num_replicas)
        for device, result in zip(devices, results, strict=True):
            assert_identical(np.asarray(result[0]), x)
            assert_identical(np.asarray(lowering.transfer_from_outfeed(F32, device)), y)


def test_functions_of_foreign_modules() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name, result in (
        ("doubled", "tensor<2x3xf32>"),
        ("doubled_in_tuple_of_one", "tuple<tensor<2x3xf32>>"),
    ):
        last = "%0"
        more = ""
        if result.startswith("tuple"):
            last = "%1"
            more = f"%1 = stablehlo.get_tuple_element %0[0] : ({result}) -> tensor<2x3xf32>\n"
        module = lowering.load_bytes(
            "func.func @main(%x: tensor<2x3xf32>) -> "
            '(tensor<2x3xf32> {mhlo.layout_mode = "{0,1}"}) {\n'
            f"%0 = stablehlo.custom_call @test_layouts.{name}(%x) : (tensor<2x3xf32>) -> {result}\n"
            f"{more}return {last} : tensor<2x3xf32>\n}}"
        )
        assert_identical(np.asarray(lowering.compile(module, "cpu")(x)), x * 2)


@each_row("name", ["Sharding", "SPMDFullToShardShape", "annotate_device_placement"])
def test_annotation_custom_calls_get_no_layouts(name: str) -> None:
    b = xb.XlaBuilder("words")
    root = xb.custom_call(name, b.parameter("f32[2,3]{0,1}", "x"), F32)
    computation = b.build(root, result="f32[2,3]{0,1}")
    assert "operand_layouts" not in lowering.lower(computation).text
    x = RNG.normal(size=(2, 3)).astype(np.float32)
    assert_identical(np.asarray(lowering.compile(computation, "cpu")(x)), x)


# Operations that XLA implements by library calls


LIBRARY: dict[str, Callable[[xb.XlaOp], xb.XlaOp]] = {
    "sort": lambda x: xb.sort([x], dimension=0),
    "top_k": lambda x: xb.get_tuple_element(xb.top_k(x, 4), 0),
    "fft": lambda x: xb.real(xb.fft(xb.convert(x, xb.c64), "FFT", [4])),
    "cholesky": lambda x: xb.cholesky(x, lower=True),
    "triangular_solve": lambda x: xb.triangular_solve(
        x, x, left_side=True, lower=True, unit_diagonal=False, transpose_a="NO_TRANSPOSE"
    ),
    "dot": lambda x: xb.dot(x, xb.transpose(x, [1, 0])),
    "reduce_window": lambda x: xb.reduce_window(x, 0.0, xb.add, [2, 1], [1, 1], "SAME"),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_library_calls_in_programs_of_layouts(name: str) -> None:
    """The entry layouts do not change the results."""
    values = RNG.normal(size=(4, 4))
    x = (values @ values.T + 4 * np.eye(4)).astype(np.float32)
    results = []
    for parameter_order, result_order in PLACES:
        b = xb.XlaBuilder(name)
        root = LIBRARY[name](b.parameter(xb.f32[4, 4].with_layout(parameter_order), "x"))
        run = lowering.compile(b.build(root, result=xb.f32[4, 4].with_layout(result_order)), "cpu")
        results.append(np.asarray(run(x)))
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=1e-5, atol=1e-5)


# Empty arrays: XLA crashes if it changes their layout


def test_empty_arrays_in_two_orders() -> None:
    for sizes in ((0, 3), (3, 0), (0, 2, 3), (2, 0, 3), (2, 3, 0)):
        empty = xb.array_shape(xb.f32, sizes)
        b = xb.XlaBuilder("nothing")
        given = [empty.with_layout(order) for order in orders(len(sizes))]
        x = b.parameter(given[-1], "x")
        computation = b.build(xb.tuple(*[x] * len(given)), result=given)
        module = lowering.lower(computation)
        # A saved module preserves the requested layouts.
        assert lowering.load_bytes(module.bytecode).program_shape == computation.program_shape
        array = np.zeros(sizes, np.float32)
        for one in (module, lowering.load_bytes(module.bytecode)):
            run = lowering.compile(one, "cpu")
            for argument in (array, put_by_jax(array), put_by_jax(array, range(len(sizes)))):
                assert [np.asarray(r).shape for r in run(argument)] == [sizes] * len(given)


def test_unsupported_layouts_of_empty_arrays() -> None:
    for text in ("f32[0,3]{1,0:T(2,2)}", "f32[0,3]{0,1:S(1)}"):
        with pytest.raises(CompileError, match="compile: parameter x of negated can't be f32"):
            lowering.compile(negated(text, "f32[0,3]"), "cpu")


def test_functions_of_empty_arrays_in_two_orders() -> None:
    for sizes in ((0, 3), (3, 0), (2, 0, 4)):
        b = xb.XlaBuilder("nothing")
        empty = xb.array_shape(xb.f32, sizes)
        rows, columns = (
            empty.with_layout(range(len(sizes))[::-1]),
            empty.with_layout(range(len(sizes))),
        )
        x = b.parameter(empty, "x")
        call = "test_layouts.nothing"
        y = xb.custom_call(call, [x, x], columns, operand_shapes_with_layout=[rows, columns])
        z = xb.custom_call(call, [y, x], rows, operand_shapes_with_layout=[rows, columns])
        root = xb.tuple(y, z, xb.custom_call(call, [y, z], empty, has_side_effect=True))
        for result in lowering.compile(b.build(root), "cpu")(np.zeros(sizes, np.float32)):
            assert np.asarray(result).shape == sizes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    """Parameters and results in random orders, including empty arrays."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(0, 4, size=rng.integers(1, 5)))
    shape = xb.array_shape(xb.f32, sizes)

    def order() -> tuple[int, ...]:
        return tuple(int(n) for n in rng.permutation(len(sizes)))

    ways: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
        (lambda x: x, lambda a: a),
        (xb.neg, lambda a: -a),
        (lambda x: xb.python_call(twice, x, shape), lambda a: a * 2),
    ]
    b = xb.XlaBuilder("random")
    parameters = [b.parameter(shape.with_layout(order())) for _ in range(rng.integers(1, 4))]
    arrays = [rng.normal(size=sizes).astype(np.float32) for _ in parameters]
    picked = rng.integers((len(parameters), len(ways)), size=(rng.integers(1, 6), 2))
    root = xb.tuple(*[ways[way][0](parameters[number]) for number, way in picked])
    run = lowering.compile(b.build(root, result=[shape.with_layout(order()) for _ in picked]))
    for given in (arrays, [put_by_jax(array, order()) for array in arrays]):
        for result, (number, way) in zip(run(*given), picked, strict=True):
            assert_identical(np.asarray(result), ways[way][1](arrays[number]))


# Arrays in tiled layouts


def test_a_tiled_array_is_refused() -> None:
    x = RNG.normal(size=(4, 4)).astype(np.float32)
    layout = JaxLayout(major_to_minor=(0, 1), tiling=((2, 2),))
    tiled = jax.device_put(
        x, Format(layout, jax.sharding.SingleDeviceSharding(lowering.device("cpu")))
    )
    for text in ("f32[4,4]", "f32[4,4]{0,1}"):
        run = lowering.compile(negated(text, text), "cpu")
        with pytest.raises(ArgumentError) as caught:
            run(tiled)
        expected = "{1,0}" if text == "f32[4,4]" else "{0,1}"
        assert str(caught.value) == (
            f"negated: argument 0 (x) must be in layout {expected}, "
            "got an array in layout {1,0:T(2,2)}\n"
            "fix: pass numpy.asarray(array), or lowering.device_put(array, device)"
        )
