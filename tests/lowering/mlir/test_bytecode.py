"""The bytecode writer, tested by parsing its output with MLIR."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from jaxlib.mlir import ir
from support import small_numbers
from tables import each_row

import builder as xb
import lowering
from lowering.mlir.attributes import DenseElements, dictionary, encodable, i64_array, quoted
from lowering.mlir.bytecode import BytecodeWriter, number_of, reference, references
from lowering.mlir.modules import shared_context
from lowering.mlir.types import mlir_type
from lowering.stablehlo.emitter import Emitter

EDGES = [n for size in (7, 14, 21, 28, 35, 42, 49) for n in (2**size - 1, 2**size, 2**size + 1)]


@each_row("number", [0, 1, 2, 100, *EDGES])
def test_reference(number: int) -> None:
    encoded = reference(number)
    # The format: the number of trailing zeros is the number of bytes that follow, of 7 bits each.
    assert len(encoded) == max(1, -(-number.bit_length() // 7))
    trailing_zeros = (encoded[0] & -encoded[0]).bit_length() - 1
    assert trailing_zeros == len(encoded) - 1
    assert number_of(encoded) == number
    assert next(references(number)) == encoded


@each_row("start", [0, 120, 2**14 - 3, 2**21 - 3])
def test_references(start: int) -> None:
    actual = list(itertools.islice(references(start), 20_000))
    assert actual == [reference(number) for number in range(start, start + 20_000)]


def test_the_largest_number() -> None:
    assert reference(2**64 - 1) == bytes((0, *([255] * 8)))


def read(writer: BytecodeWriter, attributes: bytes, location: bytes) -> ir.Operation:
    """Parse a module with these attributes and this location."""
    name = writer.operation_name("builtin.module")
    flags = bytes((0x11,))
    one_block_of_nothing = [reference(1 << 1), reference(1), reference(0), reference(0)]
    code = writer.module([name, flags, location, attributes, *one_block_of_nothing])
    return ir.Module.parse(code, shared_context()).operation


@each_row("line", [1, 127, 128, 2**14, 2**21 - 1, 2**31 - 1])
def test_locations(line: int) -> None:
    writer = BytecodeWriter()
    place = writer.file_location('a "b"\\\n.py', line, 7)
    named = writer.name_location("ö", place)
    operation = read(writer, writer.dictionary({"x.a": "unit"}), named)
    expected = ir.Location.file('a "b"\\\n.py', line, 7, shared_context())
    assert operation.location == ir.Location.name("ö", expected, shared_context())


TEXTS = ["", "plain", 'q"uote', "back\\slash", "new\nline", "\0\x7f", "ünï", "日本", "\\22", "%#@"]


@each_row("text", TEXTS)
def test_strings(text: str) -> None:
    writer = BytecodeWriter()
    attributes = {"x.a": quoted(text), "x.b": dictionary({text: quoted(text)} if text else {})}
    operation = read(writer, writer.dictionary(attributes), writer.unknown_location())
    expected = ir.StringAttr.get(text, shared_context())
    assert operation.attributes["x.a"] == expected
    inside = {text: expected} if text else {}
    assert operation.attributes["x.b"] == ir.DictAttr.get(inside, shared_context())


def test_text_with_surrogates() -> None:
    assert encodable("a\ud800b") == "a?b"
    assert quoted("a\ud800b") == '"a?b"'


@each_row("values", [(), (0,), (-1, 2**63 - 1, -(2**63))])
def test_lists(values: tuple[int, ...]) -> None:
    writer = BytecodeWriter()
    attributes = writer.dictionary({"x.a": i64_array(values)})
    operation = read(writer, attributes, writer.unknown_location())
    assert operation.attributes["x.a"] == ir.DenseI64ArrayAttr.get(values, shared_context())


def test_equal_values_share_an_entry() -> None:
    writer = BytecodeWriter()
    assert writer.attribute("unit") == writer.attribute("unit") != writer.attribute("true")
    assert writer.type("i1") == writer.type("i1") != writer.type("i2")
    assert writer.text("a") == writer.text("a") != writer.text("b")
    assert writer.operation_name("a.b") == writer.operation_name("a.b")


SHAPES = [(), (1,), (7,), (8,), (9,), (3, 5), (1000,), (2, 1, 4)]


@each_row("element_type", xb.types.primitive_type.ALL)
def test_elements(element_type: xb.PrimitiveType) -> None:
    """The attribute equals that of MLIR's Python bindings."""
    for dimensions in SHAPES:
        shape = element_type[dimensions]
        array = np.ascontiguousarray(small_numbers(element_type, dimensions))
        writer = BytecodeWriter()
        attributes = writer.dictionary({"x.a": DenseElements(array, shape)})
        assert writer.constant_bytes == array.nbytes
        operation = read(writer, attributes, writer.unknown_location())
        kind = mlir_type(shape, shared_context())
        with shared_context():
            expected = ir.DenseElementsAttr.get(array, type=kind)
        # As text, since the bindings do not have a Python class for all of these.
        assert f"x.a = {expected}}}" in operation.get_asm(), dimensions


def test_a_computation_applied_repeatedly_is_emitted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emitted = []
    emit_ops = Emitter.emit_ops

    def counting(self: Emitter, computation: xb.XlaComputation, arguments: object) -> object:
        emitted.append(computation)
        return emit_ops(self, computation, arguments)

    monkeypatch.setattr(Emitter, "emit_ops", counting)
    b = xb.XlaBuilder("often")
    x = b.parameter(xb.f32[4, 3], "x")
    total = b.constant(0.0, xb.f32)
    for number in range(300):
        row = xb.slice(x, [number % 4, 0], [number % 4 + 1, 3], [1, 1])
        total = total + xb.reduce(row, 0.0, xb.add, dimensions=[0, 1])
    module = lowering.lower(b.build(total))
    assert len(emitted) == 2
    assert module.text.count("applies stablehlo.add") == 300
    value = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert lowering.compile(module, "cpu")(value) == 75 * value.sum()


def test_equal_regions_at_different_depths() -> None:
    """Their values have different numbers, so their bytes differ."""
    b = xb.XlaBuilder("depths")
    x = b.parameter(xb.f32[5], "x")

    def body(state: xb.XlaOp) -> xb.XlaOp:
        return state + xb.reduce(x, 0.0, xb.add, dimensions=[0])

    outside = xb.reduce(x, 0.0, xb.add, dimensions=[0])
    looped = xb.while_(lambda s: s < 100.0, body, outside)
    run = lowering.compile(b.build(looped + outside), "cpu")
    assert run(np.arange(5, dtype=np.float32)) == 110.0


def test_regions_use_values_of_all_enclosing_regions() -> None:
    """A branch in a loop in a branch uses values of each enclosing region."""
    b = xb.XlaBuilder("far")
    p, x = b.parameter(xb.pred[()], "p"), b.parameter(xb.s32[()], "x")
    y = x * 2

    def loop(start: xb.XlaOp) -> xb.XlaOp:
        z = start + y

        def body(state: xb.XlaOp) -> xb.XlaOp:
            return state + xb.conditional(p, z, lambda v: v + x, y, lambda v: v + z)

        return xb.while_(lambda s: s < 1000, body, z)

    computation = b.build(xb.conditional(p, x, loop, y, loop))

    def reference_value(p: bool, x: int) -> int:
        y = 2 * x
        z = (x if p else y) + y
        state = z
        while state < 1000:
            state += z + x if p else y + z
        return state

    run = lowering.compile(computation, "cpu")
    for flag, number in itertools.product((True, False), (1, 7, 300)):
        got = run(np.bool_(flag), np.int32(number))
        assert got == reference_value(flag, number)


@pytest.mark.slow
def test_nested_large_regions() -> None:
    """Two regions are of the same computation, after a reducer, with other ops around them."""
    b = xb.XlaBuilder("inmost")
    value = b.parameter(xb.f32[2])
    for _ in range(8000):
        value = xb.neg(value)
    inner = b.build(value)
    for level in range(4):
        b = xb.XlaBuilder(f"level{level}")
        value = b.parameter(xb.f32[2])
        chosen = xb.conditional(b.constant(level % 2 == 0), value + 1, inner, value, inner)
        inner = b.build(chosen * 2 + value)
    b = xb.XlaBuilder("main")
    x = b.parameter(xb.f32[2], "x")
    total = xb.reduce(x, 0.0, xb.add, [0])
    y = xb.conditional(b.constant(True), x, inner, b.constant([0, 0], xb.f32), inner)
    text = lowering.lower(b.build(xb.tuple(y, total))).text
    assert text.count("stablehlo.negate") == 8000 * 2**5
    assert text.count("stablehlo.multiply") == 2 + 4 + 8 + 16


@pytest.mark.parametrize("is_named", [True, False])
def test_large_constants_with_metadata_are_not_in_the_bytecode(is_named: bool) -> None:
    array = np.random.default_rng(5).standard_normal(5000)
    b = xb.XlaBuilder("weights")
    with b.sharding(None if is_named else "{replicated}"):
        weights = b.constant(array)
    if is_named:
        weights.name = "weights"
    computation = b.build(weights)
    emitter = Emitter({})
    code = emitter.module("weights", [emitter.function({}, computation, [])], {}, {})
    assert len(code) < 1000
    assert [len(large) for large in emitter.large_constants] == [1]
    module = lowering.lower(computation)
    assert module.to_text(locations=True).count("weights" if is_named else "{replicated}") >= 1
    np.testing.assert_array_equal(lowering.compile(module, "cpu")(), array)


def test_large_constants_in_functions_and_regions() -> None:
    """In the main function, in a called one, and in regions; one array in several ops."""
    random = np.random.default_rng(3)
    arrays = [random.standard_normal((50, 40)).astype(np.float32) for _ in range(4)]
    first, second, third, fourth = arrays
    first.flags.writeable = False
    function = xb.XlaBuilder("called")
    p = function.parameter(xb.f32[50, 40])
    called = function.build(xb.sub(p, function.constant(second)))
    b = xb.XlaBuilder("large")
    x, n = b.parameter(xb.f32[50, 40], "x"), b.parameter(xb.s32[()], "n")
    y = x + b.constant(first)
    with b.frontend_attributes({"kind": "weights"}):
        weights = b.constant(third)
    y = xb.call(called, y * b.constant(first) + weights)

    def body(state: xb.XlaOp) -> tuple[xb.XlaOp, xb.XlaOp]:
        count, value = state
        return count + 1, value * value.builder.constant(fourth) + value.builder.constant(first)

    _, y = xb.while_(lambda s: s[0] < n, body, [b.constant(0, xb.s32), y])
    module = lowering.lower(b.build(y))
    assert module.text.count("stablehlo.constant") == 8
    assert module.text.count('mhlo.frontend_attributes = {kind = "weights"}') == 1
    value = random.standard_normal((50, 40)).astype(np.float32)
    expected = (value + first) * first + third - second
    for _ in range(3):
        expected = expected * fourth + first
    got = lowering.compile(module, "cpu")(value, np.int32(3))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_constants_recorded_by_one_line() -> None:
    """They share a template, and each has its own elements, in the main block and in a region."""
    arrays = []
    for size in (6, 300, 3000):  # small; without a copy; set after parsing
        counted = np.arange(size, dtype=np.float32)
        from_negative_zero = counted.copy()
        from_negative_zero[0] = -0.0
        fixed = counted + 1
        fixed.flags.writeable = False
        repeated = np.broadcast_to(np.float32(size), size)
        arrays += [counted, from_negative_zero, counted[::-1], fixed, repeated, fixed, fixed[:]]
        arrays += [np.zeros(size, np.float32), -np.zeros(size, np.float32)]
    arrays += [np.zeros(0, np.float32), np.broadcast_to(np.float32(2), 0)]
    numbers = [(0.0, xb.f32), (-0.0, xb.f32), (1, xb.f32), (1, xb.s32), (True, xb.pred)] * 2

    def recorded(b: xb.XlaBuilder) -> xb.XlaOp:
        actual = [b.constant(array) for array in arrays]
        return xb.tuple(*actual, *[b.constant(*number) for number in numbers])

    b = xb.XlaBuilder("constants")
    pred = b.parameter(xb.pred[()], "pred")
    inside = xb.conditional(
        pred, pred, lambda x: recorded(x.builder), pred, lambda x: recorded(x.builder)
    )
    got = lowering.compile(b.build(xb.tuple(recorded(b), inside)), "cpu")(np.True_)
    expected = [*arrays, *[np.array(value, t.dtype) for value, t in numbers]]
    for actual in got:
        for one, array in zip(actual, expected, strict=True):
            assert one.dtype == array.dtype
            assert one.shape == array.shape
            assert np.asarray(one).tobytes() == array.tobytes()


@each_row("element_type", xb.types.primitive_type.ALL)
def test_large_constants_of_every_type(element_type: xb.PrimitiveType) -> None:
    """The attribute equals that of MLIR's Python bindings."""
    array = np.ascontiguousarray(small_numbers(element_type, (70, 61)))
    b = xb.XlaBuilder("large")
    module = lowering.lower(b.build(b.constant(array)))
    block = module.module.body.operations[0].regions[0].blocks[0]
    with module.module.context:
        kind = mlir_type(element_type[70, 61], module.module.context)
        expected = ir.DenseElementsAttr.get(array, type=kind)
    assert f"dense<{str(expected).removeprefix('dense<')}" in str(block.operations[0])


def test_names_of_similar_ops() -> None:
    """Two ops recorded by one line, with equal heads, have their own names."""
    b = xb.XlaBuilder("named")
    x = b.parameter(xb.f32[3], "x")
    sums = [xb.reduce(x, 0.0, xb.add, dimensions=[0]) for _ in range(2)]
    products = [xb.mul(x, x) for _ in range(2)]
    for number, ops in enumerate((sums, products)):
        ops[1].name = f"second{number}"
    text = lowering.lower(b.build(xb.tuple(*sums, *products))).to_text(locations=True)
    assert text.count('loc("second0"(') == text.count('loc("second1"(') == 1
