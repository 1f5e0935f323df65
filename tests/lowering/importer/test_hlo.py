"""`from_hlo` imports HLO text and protocol buffers; `hlo_text` returns XLA's optimized program."""

from __future__ import annotations

import pathlib
import re

import jax
import numpy as np
import pytest
from support import assert_identical, flat, small_numbers
from tables import each_row

import builder as xb
import lowering
from builder.hlo_text.printer import MAX_TUPLE_NESTING
from builder.types.shape import leaves
from examples import recorded_by_example
from lowering import LoweringError, ModuleFileError
from lowering.jaxlib_api import hlo_conversion
from lowering.jaxlib_api.mlir import UnreadableModuleError


def test_text_that_jaxlib_does_not_convert():
    b = xb.XlaBuilder("upper")
    text = str(b.build(xb.mulhi(b.parameter(xb.s32[2]), b.parameter(xb.s32[2]))))
    with pytest.raises(lowering.LoweringError, match="StableHLO can't express the HLO"):
        lowering.from_hlo(text)


SHARDED = """HloModule sharded, frontend_attributes={MESHES}

ENTRY main {
  x = f32[2,4] parameter(0), frontend_attributes={xla.sdy.sharding="SHARDING",stage="1"}
  ROOT y = f32[2,4] add(x, x)
}
"""
SHARDY = '#sdy.sharding<@mesh, [{\\"data\\"}, {}]>'
SHARDY_MESHES = 'xla.sdy.meshes="{mesh = #sdy.mesh<[\\"data\\"=2]>}"'


@pytest.mark.usefixtures("read_here")
def test_shardings_of_shardy():
    text = SHARDED.replace("MESHES", SHARDY_MESHES).replace("SHARDING", SHARDY)
    computation = lowering.from_hlo(text)
    (x,) = computation.parameters
    assert x.sharding == '#sdy.sharding<@mesh, [{"data"}, {}]>'
    assert dict(x.frontend_attributes) == {"stage": "1"}
    # XLA parses the printed text as it parses the original.
    headers = [
        re.search(r"xla.sdy.meshes=.*", hlo_conversion.parsed_hlo_text(one))
        for one in (text, str(computation))
    ]
    assert headers[0] is not None
    assert headers[1] is not None
    assert headers[0][0] == headers[1][0]
    assert SHARDY in hlo_conversion.parsed_hlo_text(str(computation))
    run = lowering.compile(computation, "cpu", num_partitions=2)
    assert run.parameter_shardings["x"].shard_shape((2, 4)) == (1, 4)


@pytest.mark.usefixtures("read_here")
@each_row(
    "meshes, sharding, reason",
    [
        ("", SHARDY, "unknown mesh: @mesh"),
        (SHARDY_MESHES, SHARDY.replace("@mesh", "@other"), "unknown mesh: @other"),
        (SHARDY_MESHES, "#sdy.sharding<@mesh, [[>", "unbalanced"),
    ],
)
def test_invalid_shardings_of_shardy(meshes, sharding, reason):
    text = SHARDED.replace("MESHES", meshes).replace("SHARDING", sharding)
    with pytest.raises(LoweringError, match=reason):
        lowering.from_hlo(text)


@pytest.mark.usefixtures("read_here")
def test_ops_imported_as_other_ops_compute_the_same():
    b = xb.XlaBuilder("spread")
    x = b.parameter(xb.f32[3, 1])
    spread = lowering.from_hlo(str(b.build(xb.broadcast_in_dim(x, [2, 3, 4], [1, 2]))))
    values = np.array([[1], [2], [3]], np.float32)
    expected = np.broadcast_to(values, (2, 3, 4))
    assert_identical(np.asarray(lowering.compile(spread)(values)), expected)

    b = xb.XlaBuilder("exchange")
    x = b.parameter(xb.f32[2, 4])
    computation = lowering.from_hlo(str(b.build(xb.all_to_all(x, 1, 0, 2))))
    stacked = np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    actual = lowering.compile(computation, "cpu", num_replicas=2)(stacked)
    for number, one in enumerate(actual):
        half = stacked[:, :, 2 * number : 2 * number + 2].reshape(4, 2)
        assert_identical(np.asarray(one), half)


@pytest.mark.usefixtures("read_here")
def test_a_python_function_is_not_in_text():
    (computation,) = recorded_by_example("python_call")[:1]
    with pytest.raises(
        LoweringError, match="the custom call needs the Python function sort, and files contain no"
    ):
        lowering.from_hlo(str(computation))


# Optimized HLO


def network() -> xb.XlaComputation:
    b = xb.XlaBuilder("network")
    x = b.parameter(xb.f32[4, 6, 6, 2], "images")
    w = b.parameter(xb.f32[3, 3, 2, 3], "kernel")
    y = xb.conv_with_general_dimensions(x, w, [1, 1], xb.Padding.SAME, "b01f_01io->b01f")
    y = xb.max(y, 0.0)
    pooled = xb.reduce(y, 0.0, xb.add, dimensions=[1, 2])
    order = xb.sort([xb.reshape(pooled, [12])])
    return b.build(xb.tuple(xb.transpose(pooled, [1, 0]) * 2.0, xb.tuple(order, xb.sqrt(order))))


def loop() -> xb.XlaComputation:
    @xb.computation(xb.s32[()], xb.f32[3])
    def powers(n, x):
        def go_on(state):
            return state[0] < n

        def step(state):
            return state[0] + 1, state[1] * x

        start = x.builder.constant(0, xb.s32)
        return xb.while_(go_on, step, (start, x))[1]

    return powers


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize("make", [network, loop])
def test_optimized_hlo_computes_the_same(make):
    computation = make()
    program = lowering.compile(computation)
    again = lowering.from_hlo(program.hlo_text())
    # A compiled program has no nested tuples in its result.
    results = [list(leaves(c.program_shape.result)) for c in (computation, again)]
    assert results[0] == results[1]
    assert again.program_shape.parameter_names == computation.program_shape.parameter_names
    arguments = [small_numbers(p.shape.element_type, p.shape.dimensions) for p in again.parameters]
    first, second = (flat(lowering.compile(c)(*arguments)) for c in (computation, again))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-6)


def test_hlo_text_is_optimized():
    @xb.computation(xb.f32[16])
    def wave(x):
        return xb.exp(xb.sin(x)) + xb.cos(x)

    text = lowering.compile(wave).hlo_text()
    assert text.startswith("HloModule wave, is_scheduled=true")
    entry = text[text.index("\nENTRY ") :]
    # The four operations are fused into one loop.
    assert len(re.findall(r"fusion\(", entry)) == 1
    assert " sine(" in text
    assert " sine(" not in entry
    assert hlo_conversion.parsed_hlo_text(text).startswith("HloModule wave")

    on_two = lowering.compile(wave, "cpu", num_replicas=2).hlo_text()
    assert "replica_count=2" in on_two.partition("\n")[0]
    assert hlo_conversion.parsed_hlo_text(on_two).startswith("HloModule wave")


@pytest.mark.usefixtures("read_here")
def test_hlo_text_has_constants_in_full_and_any_number_of_results():
    numbers = np.arange(40, dtype=np.float32)
    b = xb.XlaBuilder("many")
    x = b.parameter(xb.f32[40], "x")
    squares = b.constant(numbers * numbers)
    made = b.build(xb.tuple(*(x * squares + float(i) for i in range(7))))  # XLA numbers the sixth
    program = lowering.compile(made)
    again = lowering.compile(lowering.from_hlo(program.hlo_text()))
    for i, result in enumerate(again(numbers)):
        np.testing.assert_array_equal(np.asarray(result), numbers**3 + np.float32(i))

    short = program.hlo_text(large_constants=False)
    assert " constant({...})" in short
    with pytest.raises(lowering.ModuleFileError, match="elements of a constant are omitted"):
        lowering.from_hlo(short)
    with pytest.raises(xb.ShapeInferenceError, match="large_constants must be True or False"):
        program.hlo_text(large_constants=5)


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize("as_proto", [False, True])
def test_donors_are_preserved(as_proto):
    b = xb.XlaBuilder("donors")
    x, pair = b.parameter(xb.f32[2], "x"), b.parameter("(s32[3], (f32[4], f32[2]))", "pair")
    b.add_buffer_donor(0)
    b.add_buffer_donor(1, [1, 0])
    b.setup_alias([], 1, [1, 1])
    made = b.build(x + pair[1][1])
    written = made.to_hlo_text()
    source = hlo_conversion.hlo_proto(written) if as_proto else written
    again = lowering.from_hlo(source)
    assert again.donors == made.donors
    assert again.aliases == made.aliases

    nowhere = written.replace("(1, {1, 0})", "(1, {1, 7})").replace("(1, {1,0})", "(1, {1,7})")
    assert nowhere != written
    wrong = hlo_conversion.hlo_proto(nowhere) if as_proto else nowhere
    with pytest.raises(
        lowering.ModuleFileError, match=r"not HLO: .*argument or result that does not exist"
    ):
        lowering.from_hlo(wrong)


# Texts


def text(body: str, head: str = "HloModule m", called: str = "") -> str:
    return f"{head}\n{called}\nENTRY main {{\n{body}\n}}\n"


FUSED = """
fused (p: f32[2,3]) -> f32[3,2] {
  p = f32[2,3]{1,0} parameter(0)
  t = f32[3,2]{1,0} transpose(p), dimensions={1,0}
  ROOT n = f32[3,2]{1,0} negate(t), metadata={op_name="jit(f)/neg" source_file="a.py" source_line=7}
}
"""
SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
NEGATED = "negated { p = f32[2,3] parameter(0) ROOT n = f32[2,3] negate(p) }"

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)

COMPUTED = {
    "fusion": (
        text(
            "x = f32[2,3] parameter(0)\nROOT f = f32[3,2] fusion(x), kind=kLoop, calls=fused",
            called=FUSED,
        ),
        -X.T,
    ),
    "copy": (text("x = f32[2,3] parameter(0)\nROOT c = f32[2,3]{0,1} copy(x)"), X),
    "bitcast of sizes": (
        text("x = f32[2,3] parameter(0)\nROOT c = f32[3,1,2]{2,1,0} bitcast(x)"),
        X.reshape(3, 1, 2),
    ),
    "bitcast of orders": (
        text("x = f32[2,3] parameter(0)\nROOT c = f32[3,2]{0,1} bitcast(x)"),
        X.T,
    ),
    "bitcast of both": (
        text("x = f32[2,3] parameter(0)\ny = f32[2,3]{0,1} copy(x)\nROOT c = f32[6]{0} bitcast(y)"),
        X.T.reshape(6),
    ),
    "bitcast of types": (
        text("x = f32[2,3] parameter(0)\nROOT c = s32[6] bitcast(x)"),
        X.view(np.int32).reshape(6),
    ),
    "async start and done": (
        text(
            "x = f32[2,3] parameter(0)\n"
            "s = ((f32[2,3]), f32[2,3], s32[]) async-start(x), calls=negated\n"
            "u = ((f32[2,3]), f32[2,3], s32[]) async-update(s)\n"
            "ROOT d = f32[2,3] async-done(u)",
            called=NEGATED,
        ),
        -X,
    ),
    "copy start and done": (
        text(
            "x = f32[2,3] parameter(0)\n"
            "s = (f32[2,3], f32[2,3], u32[]) copy-start(x)\n"
            "ROOT d = f32[2,3] copy-done(s)"
        ),
        X,
    ),
    "collective start and done": (
        text(
            "x = f32[2,3] parameter(0)\n"
            "s = f32[2,3] all-reduce-start(x), replica_groups={{0}}, to_apply=sum\n"
            "ROOT d = f32[2,3] all-reduce-done(s)",
            called=SUM,
        ),
        X,
    ),
    "erf": (
        text("x = f32[2,3] parameter(0)\nz = f32[2,3] subtract(x, x)\nROOT e = f32[2,3] erf(z)"),
        X * 0,
    ),
    "without a head": ("ENTRY e { x = f32[2,3] parameter(0) ROOT n = f32[2,3] negate(x) }", -X),
}


@pytest.mark.usefixtures("read_here")
@each_row("case", COMPUTED)
def test_instructions_without_a_stablehlo_operation(case):
    source, expected = COMPUTED[case]
    computation = lowering.from_hlo(source)
    assert computation.program_shape.parameter_names == ("x",)
    assert_identical(np.asarray(lowering.compile(computation)(X)), np.ascontiguousarray(expected))


@pytest.mark.usefixtures("read_here")
def test_names_and_source_lines_are_preserved():
    computation = lowering.from_hlo(COMPUTED["fusion"][0])
    assert computation.root.opcode == "call"
    assert computation.root.name == "f"
    (fused,) = computation.called_computations()
    assert [op.opcode for op in fused.ops] == ["parameter", "transpose", "negate"]
    assert fused.root.name == "jit(f)/neg"
    assert (fused.root.source.file, fused.root.source.line) == ("a.py", 7)


@pytest.mark.usefixtures("read_here")
def test_names_of_parameters():
    # XLA numbers the second `x`; jax's parameters have the name of the argument as metadata.
    source = text(
        "x = f32[] parameter(0)\n"
        'Arg_1.2 = f32[] parameter(1), metadata={op_name="weight"}\n'
        "t = () parameter(2)\n"
        "ROOT c = f32[] call(x, Arg_1.2), to_apply=added",
        called="added { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }",
    )
    computation = lowering.from_hlo(source)
    assert computation.program_shape.parameter_names == ("x", "weight", "t")


@pytest.mark.usefixtures("read_here")
def test_the_entry_is_preserved():
    head = (
        "HloModule m, input_output_alias={ {0,1}: (0, {1,0}, may-alias) }, "
        "entry_computation_layout={((f32[2,3]{1,0}, (s32[], bf16[8,128]{0,1})))->"
        "((bf16[8,128]{1,0:T(8,128)}, s32[]), f32[2,3]{1,0})}"
    )
    source = text(
        "x = (f32[2,3]{1,0}, (s32[], bf16[8,128]{0,1})) parameter(0)\n"
        "a = f32[2,3]{1,0} get-tuple-element(x), index=0\n"
        "b = (s32[], bf16[8,128]{0,1}) get-tuple-element(x), index=1\n"
        "c = s32[] get-tuple-element(b), index=0\n"
        "d = bf16[8,128]{0,1} get-tuple-element(b), index=1\n"
        "e = bf16[8,128]{1,0:T(8,128)} copy(d)\n"
        "t = (bf16[8,128]{1,0:T(8,128)}, s32[]) tuple(e, c)\n"
        "ROOT r = ((bf16[8,128]{1,0:T(8,128)}, s32[]), f32[2,3]{1,0}) tuple(t, a)",
        head,
    )
    computation = lowering.from_hlo(source)
    assert str(computation.program_shape.parameters[0]) == "(f32[2,3], (s32[], bf16[8,128]{0,1}))"
    assert str(computation.program_shape.result) == "((bf16[8,128]{1,0:T(8,128)}, s32[]), f32[2,3])"
    assert computation.aliases == (((0, 1), 0, (1, 0)),)
    assert str(computation).partition("\n")[0] == head


@pytest.mark.usefixtures("read_here")
def test_a_result_of_many_arrays():
    # XLA numbers every fifth element of tuples: /*index=5*/.
    c = xb.computation(xb.tuple_shape([xb.f32[n] for n in range(12)]))(lambda x: x)
    text = lowering.compile(c).hlo_text()
    assert "/*index=5*/" in text
    again = lowering.from_hlo(text)
    assert again.program_shape.result == c.program_shape.result


@pytest.mark.usefixtures("read_here")
def test_a_text_with_large_constants():
    values = np.arange(5000, dtype=np.float32)
    b = xb.XlaBuilder("table")
    computation = lowering.from_hlo(str(b.build(b.parameter(xb.f32[5000]) + b.constant(values))))
    assert_identical(computation.ops[1].attributes["value"], values)


# Protocol buffers


@pytest.fixture(scope="module")
def proto():
    def f(x, y):
        return jax.numpy.tanh(x) @ y

    one = jax.ShapeDtypeStruct((2, 2), np.float32)
    return jax.jit(f).lower(one, one).compiler_ir("hlo").as_serialized_hlo_module_proto()


def in_hlo_proto(module: bytes) -> bytes:
    """Return the bytes of an HloProto, whose first field is the module."""
    size, length = bytearray(), len(module)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    size.append(length)
    # The buffer assignment, as in XLA's dumps, and unknown fields, which are skipped.
    return b"\x0a" + size + module + b"\x1a\x02\x08\x01" + b"\x49" + bytes(8) + b"\x55" + bytes(4)


@pytest.mark.usefixtures("read_here")
def test_protocol_buffers(proto, tmp_path):
    path = tmp_path / "module.pb"
    path.write_bytes(in_hlo_proto(proto))
    x = np.array([[0, 1], [2, 3]], np.float32)
    for source in (proto, bytearray(in_hlo_proto(proto)), path):
        computation = lowering.from_hlo(source)
        assert computation.name == "jit_f"
        assert computation.program_shape.parameter_names == ("x", "y")
        actual = lowering.compile(computation)(x, np.eye(2, dtype=np.float32))
        np.testing.assert_allclose(np.asarray(actual), np.tanh(x), rtol=1e-6)


# Refused sources


def refusal(source, **facts) -> str:
    with pytest.raises(ModuleFileError) as caught:
        lowering.from_hlo(source)
    for name, value in facts.items():
        assert getattr(caught.value, name) == value
    return str(caught.value)


@pytest.mark.usefixtures("read_here")
def test_refused_texts():
    assert refusal("  \n") == "the HLO: is empty\nfix: save the HLO again"
    unknown = text("x = f32[2] parameter(0)\nROOT y = f32[2] frobnicate(x)")
    assert (
        refusal(unknown, line=5, column=17)
        == "the HLO: line 5, column 17: not HLO: expects opcode but sees: frobnicate, "
        "error: Unknown opcode: frobnicate"
    )
    assert refusal("hello\n").startswith("the HLO: line 2, column 1: not HLO: expects '='")
    left_out = text("ROOT x = f32[2000] constant({...})")
    assert refusal(left_out, line=4, column=20).startswith(
        "the HLO: line 4, column 20: the elements of a constant are omitted\nfix: print them"
    )
    assert "line 5, column 34: not HLO: computation does not exist: g" in refusal(
        text("x = f32[] parameter(0)\nROOT y = f32[] call(x), to_apply=g")
    )
    added = "x = f32[2,3] parameter(0)\nROOT y = f32[2,3] add(x, x)"
    for wrong in ("(f32[2,3]{1,1})->f32[2,3]{1,0}", "(f32[2,3]{1,0})->f32[2,3]{1,1}"):
        head = f"HloModule m, entry_computation_layout={{{wrong}}}"
        assert refusal(text(added, head)) == (
            "the HLO: not HLO: in the signature of the entry computation, layout: minor_to_major "
            "must be a permutation of the dimensions 0 to 1, got {1,1}"
        )
    assert "byte 3 (0xff) is not UTF-8" in refusal(b"Hlo\xff")
    assert "byte 9 is zero" in refusal(b"HloModule\0m")
    is_stablehlo = "the HLO: is StableHLO, not HLO\nfix: call lowering.to_computation"
    assert refusal("module @m {\n}") == is_stablehlo
    assert refusal(b"ML\xefR\x0d") == is_stablehlo


@pytest.mark.usefixtures("read_here")
def test_instructions_without_an_op():
    source = text("ROOT s = u64[2] rng-get-and-update-state(), delta=1")
    with pytest.raises(
        LoweringError, match="get_and_update_state: there is no op for this operation"
    ) as caught:
        lowering.from_hlo(source)
    assert caught.value.op == "mhlo.xla.rng_get_and_update_state"
    with pytest.raises(LoweringError, match="from_hlo: StableHLO can't express the HLO: "):
        lowering.from_hlo(text("x = f32[2] parameter(0)\nROOT s = f32[2] add-dependency(x, x)"))


def test_sources_that_are_not_hlo(tmp_path):
    for source in (7, lowering.lower(loop())):
        with pytest.raises(xb.OperandError, match="source must be HLO text, bytes, a path"):
            lowering.from_hlo(source)
    path = tmp_path / "a.hlo"
    assert "no such file or directory" in refusal(path, path=str(path))
    assert "no such file or directory" in refusal(str(path), path=str(path))


def test_hlo_that_crashes_the_converter(tmp_path):
    # These use the helper process, as always outside of these tests.
    path = pathlib.Path(tmp_path, "aborts.hlo")
    path.write_text(text("ROOT x = f32[2] rng(), distribution=rng_uniform"))
    message = refusal(path, path=str(path))
    assert message == f"{path}: XLA's converter to StableHLO aborts on this HLO"
    damaged = in_hlo_proto(b"\x0a\x01m\x12\x01e\x1a\x7f")
    assert refusal(damaged).startswith("the HLO: not HLO: ")
    assert lowering.from_hlo(COMPUTED["copy"][0]).root.opcode == "parameter"


@pytest.mark.parametrize("depth", [97, 100_000])
def test_tuples_nested_deeper_than_xla_reads(tmp_path, depth):
    shape = f"{'(' * depth}f32[2]{')' * depth}"
    path = pathlib.Path(tmp_path, "deep.hlo")
    path.write_text(f"HloModule m\n\nENTRY main (p: {shape}) -> {shape} {{\n}}\n")
    message = refusal(path, path=str(path), line=3, column=15 + 97)
    assert message.partition("column 112: ")[2] == (
        f"the parentheses of HLO may nest at most 97 deep, got {depth + 1}\n"
        "fix: use fewer levels of nested tuples, with more elements in each"
    )


@pytest.mark.parametrize("depth", [MAX_TUPLE_NESTING, MAX_TUPLE_NESTING + 1])
def test_tuples_nested_as_deep_as_xla_reads(depth):
    b = xb.XlaBuilder("deep")
    y = b.parameter(xb.f32[2], "x")
    for _ in range(depth):
        y = xb.tuple(y)
    computation = b.build(y)
    shape = f"{'(' * depth}f32[2]{{0}}{')' * depth}"
    source = f"HloModule m\nENTRY main {{\n  ROOT x = {shape} parameter(0)\n}}\n".encode()
    if depth <= MAX_TUPLE_NESTING:
        assert hlo_conversion.hlo_program(source)
        assert lowering.from_hlo(str(computation)).program_shape.result is y.shape
        return
    with pytest.raises(UnreadableModuleError):
        hlo_conversion.hlo_program(source)
    with pytest.raises(xb.ShapeInferenceError) as caught:
        computation.to_hlo_text()
    assert str(caught.value).startswith(
        "to_hlo_text: tuples in HLO may nest at most 96 deep, got 97: %97 tuple recorded at "
    )
    assert caught.value.shapes == {"op": y.shape}
