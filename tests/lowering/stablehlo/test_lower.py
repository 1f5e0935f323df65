"""lowering.lower: determinism, locations, annotations, large programs."""

from __future__ import annotations

import contextlib
import gc
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from jaxlib.mlir import ir
from support import run, same_program, stablehlo_of_text
from tables import each_row

import builder as xb
import lowering
from builder.schema import SCHEMAS
from lowering.jaxlib_api import hlo_conversion
from lowering.mlir.modules import shared_context

FILE = Path(__file__).name


def line_here() -> int:
    """Return the line number of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def model() -> xb.XlaComputation:
    """A computation with calls, loops, branches, constants and tuples."""
    b = xb.XlaBuilder("model")
    x, n = b.parameter(xb.f32[4, 4], "x"), b.parameter("(s32[], (pred[]))", "state")
    w = b.constant(np.arange(16, dtype=np.float32).reshape(4, 4) / 7)
    y = xb.tanh(x @ w)
    total = xb.reduce(y, 0, xb.add, [0, 1])
    looped = xb.while_(lambda s: s[0] < 5, lambda s: (s[0] + 1, xb.mul(s[1], total)), [n[0], y])
    chosen = xb.conditional(n[1][0], looped, lambda s: s[1], looped, lambda s: -s[1])
    return b.build(xb.tuple(xb.call(lambda v: w @ v + v, chosen), n))


# Determinism


def test_lowering_is_deterministic() -> None:
    computation = model()
    first, second = lowering.lower(computation), lowering.lower(computation)
    assert first.bytecode == second.bytecode
    assert first.to_text(locations=True) == second.to_text(locations=True)
    assert first.artifact() == second.artifact()


def test_equal_computations_give_equal_bytes() -> None:
    first, second = (lowering.lower(model()) for _ in range(2))
    assert first.bytecode == second.bytecode
    assert str(model()) == str(model())


def test_lowering_does_not_depend_on_other_modules() -> None:
    before = lowering.lower(model()).bytecode
    b = xb.XlaBuilder("other")
    lowering.lower(b.build(xb.exp(b.parameter(xb.f64[7, 7]))))
    assert lowering.lower(model()).bytecode == before


def test_the_module_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    lowering.lower(model()).verify()
    # A wrong rule is reported as a bug of the library.
    monkeypatch.setattr(SCHEMAS["add"], "stablehlo", "stablehlo.and")
    b = xb.XlaBuilder("wrong")
    x = b.parameter(xb.f32[2])
    with pytest.raises(lowering.LoweringError, match=r"'wrong' does not verify: 'stablehlo\.and'"):
        lowering.lower(b.build(x + x))


def test_an_op_without_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    b = xb.XlaBuilder("lacking")
    x = b.parameter(xb.f32[2])
    computation = b.build(xb.tanh(x))
    monkeypatch.delitem(SCHEMAS, "tanh")
    with pytest.raises(lowering.LoweringError, match="tanh: no lowering rule") as caught:
        lowering.lower(computation)
    assert caught.value.op == "tanh"


@each_row("value", [None, "HloModule m", 3])
def test_values_that_are_not_computations_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="lower: expected an XlaComputation, got "):
        lowering.lower(value)


def test_a_reusable_function_is_refused() -> None:
    function = xb.computation(lambda x: x)
    with pytest.raises(TypeError, match=r"fix: pass function\.computation\(shape"):
        lowering.lower(function)
    with pytest.raises(TypeError, match=r"fix: pass function\.computation\(shape"):
        lowering.compile(function)


def test_an_op_is_refused() -> None:
    x = xb.XlaBuilder().parameter(xb.f32[2])
    with pytest.raises(TypeError, match=r"fix: build a computation first: op\.builder\.build"):
        lowering.lower(x)


# Names and locations


def test_source_lines_are_locations() -> None:
    b = xb.XlaBuilder("places")
    x = b.parameter(xb.f32[2], "x")
    y = x + x
    line = line_here() - 1
    z = xb.exp(y)
    module = lowering.lower(b.build(xb.call(lambda v: v * v, z)))
    text = module.to_text(locations=True)
    assert FILE not in module.text
    places = {int(n) for n in re.findall(rf'{re.escape(FILE)}":(\d+):\d+', text)}
    # The parameter, the sum, the exponential, and the call with the ops of its function.
    assert {line - 1, line, line + 2, line + 3} <= places
    assert re.search(rf'stablehlo\.add [^\n]*loc\(("[^"]*{FILE}":{line}:|#loc)', text)


def test_names_of_ops_and_parameters() -> None:
    b = xb.XlaBuilder("names")
    x = b.parameter(xb.f32[2], "weight w")
    pair = b.parameter("(s32[], (f32[2]))", "pair")
    total = x + pair[1][0]
    total.name = "the sum"
    module = lowering.lower(b.build(total))
    assert 'xlabuilder.name = "weight w"' in module.text
    assert 'xlabuilder.name = "pair[0]"' in module.text
    assert 'xlabuilder.name = "pair[1][0]"' in module.text
    assert module.program_shape.parameter_names == ("weight w", "pair")
    located = module.to_text(locations=True)
    assert '"the sum"(' in located
    assert '"weight w"(' in located
    # XLA uses them as names of its instructions.
    hlo = hlo_conversion.stablehlo_to_hlo_text(module.bytecode)
    assert "the_sum" in hlo
    assert "weight_w" in hlo


NAMES = [
    *("a b", "größe", "日本", "f32", "pred", "tuple", "token", " ", "1st", "%x", "x.1", "x-1"),
    *(
        "HloModule",
        "ROOT",
        "ENTRY",
        "maximal",
        "replicated",
        "manual",
        "unknown",
        "shard_as",
        "parameter",
        "add",
        "constant.0",
        'quo"te',
        "back\\slash",
        "new\nline",
    ),
    *("nan", "inf", "true", "false", "x" * 300, "a/b", "{}", "=", "a,b", "x_", "x"),
]


def test_unusual_names_in_mlir_and_hlo_text() -> None:
    b = xb.XlaBuilder("größe f32")
    parameters = [b.parameter(xb.s32[()], name) for name in NAMES]
    total = b.constant(0, xb.s32)
    for index, (parameter, name) in enumerate(zip(parameters, NAMES, strict=True)):
        total = total + parameter * (index + 1)
        total.name = name
    computation = b.build(total)
    assert computation.program_shape.parameter_names == tuple(NAMES)
    got = run(computation, *map(np.int32, range(len(NAMES))))
    assert got == sum(i * (i + 1) for i in range(len(NAMES)))
    # Also with metadata, which has quoted names and files.
    assert hlo_conversion.hlo_text_to_stablehlo(computation.to_hlo_text(metadata=True))
    loaded = lowering.load_bytes(lowering.lower(computation).bytecode)
    assert loaded.program_shape == computation.program_shape
    assert loaded.program_shape.parameter_names == tuple(NAMES)


@each_row(
    "last", ["", "f32[2]", "(f32[2], s32[])", "f32[2,2]{0,1}", "{replicated}", "weight", "donated"]
)
def test_arguments_with_only_a_name(last: str) -> None:
    """Their attributes are equal whether or not another parameter has more attributes."""
    b = xb.XlaBuilder("arguments")
    x = [b.parameter(xb.f32[2], name) for name in NAMES]
    with (
        b.sharding("{replicated}" if last == "{replicated}" else None),
        b.frontend_attributes({"kind": "weight"} if last == "weight" else {}),
    ):
        if last:
            b.parameter(last if "f32" in last else "f32[2]", "last")
    if last == "donated":
        b.add_buffer_donor(len(NAMES))
    module = lowering.lower(b.build(x[0] + x[1]))
    (function,) = module.module.body.operations
    arguments = list(function.regions[0].blocks[0].arguments)
    dictionaries = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
    for name, argument, actual in zip(NAMES, arguments, dictionaries, strict=False):
        with module.module.context:
            text = ir.StringAttr.get(name)
            assert actual == ir.DictAttr.get({"xlabuilder.name": text})
        assert re.fullmatch(
            rf'loc\({re.escape(str(text))}\(".*{FILE}":\d+:.*\)\)', str(argument.location)
        )
    has_more = last not in ("", "f32[2]", "(f32[2], s32[])")
    assert (len(ir.DictAttr(dictionaries[-1])) > 1) == has_more


def test_no_arguments() -> None:
    b = xb.XlaBuilder("nothing")
    module = lowering.lower(b.build(b.constant(1, xb.s32)))
    assert "arg_attrs" not in module.module.body.operations[0].attributes


def call_of(name: str, x: xb.XlaOp) -> xb.XlaOp:
    """Record a call of a function of this name, which returns 2 x + 1."""
    inner = xb.XlaBuilder(name)
    added = inner.build(inner.parameter(xb.s32[()], "x") + 1)
    return xb.call(added, xb.call(lambda v: v * 2, x))


@each_row("name", NAMES)
def test_unusual_names_of_computations(name: str) -> None:
    b = xb.XlaBuilder(name)
    computation = b.build(call_of(name, b.parameter(xb.s32[()], "x")))
    assert same_program(lowering.lower(computation).bytecode, stablehlo_of_text(computation))


def test_functions_of_unusual_names_run() -> None:
    b = xb.XlaBuilder("calls")
    x = b.parameter(xb.s32[()], "x")
    results = run(b.build(xb.tuple(*[call_of(name, x) for name in NAMES])), np.int32(5))
    assert [int(result) for result in results] == [11] * len(NAMES)


def test_ops_that_share_a_name() -> None:
    b = xb.XlaBuilder("same")
    x = b.parameter(xb.s32[()], "x")
    for _ in range(3):
        x = x + 1
        x.name = "x"
    assert run(b.build(x), np.int32(0)) == 3


# Frontend attributes and shardings


def test_frontend_attributes_of_reductions_at_one_line() -> None:
    """The encodings of ops with attributes are not those of later ops without."""
    b = xb.XlaBuilder("reductions")
    x = b.parameter(xb.f32[4], "x")
    totals = []
    for values in (None, {"stage": "1"}, None, {"stage": "2"}, None):
        with b.frontend_attributes(values) if values else contextlib.nullcontext():
            totals.append(xb.reduce(x, 0.0, xb.add, [0]))
    text = lowering.lower(b.build(xb.tuple(totals))).text
    # Those of a reduction and of the constant for its init value.
    assert [text.count(f'stage = "{number}"') for number in (1, 2)] == [2, 2]
    assert text.count("mhlo.frontend_attributes") == 4


def test_frontend_attributes_reach_the_module_and_the_text() -> None:
    b = xb.XlaBuilder("attributes")
    with b.frontend_attributes({"stage": "1", "odd": 'a "b", {c}'}):
        x = b.parameter(xb.f32[2], "x")
        y = x + x
    z = xb.exp(y)
    computation = b.build(z)
    module = lowering.lower(computation)
    assert module.text.count("mhlo.frontend_attributes") == 2
    assert "stablehlo.exponential %0 : tensor" in module.text
    assert 'stage="1"' in str(computation)
    for text in (
        hlo_conversion.stablehlo_to_hlo_text(module.bytecode),
        hlo_conversion.stablehlo_to_hlo_text(
            hlo_conversion.hlo_text_to_stablehlo(str(computation))
        ),
    ):
        (line,) = (line for line in text.splitlines() if " add(" in line)
        assert 'stage="1"' in line
        (line,) = (line for line in text.splitlines() if " exponential(" in line)
        assert "frontend_attributes" not in line
        assert "parameter(0)" in text
    run(computation, np.ones(2, np.float32))


def test_shardings_reach_the_module_and_the_text() -> None:
    b = xb.XlaBuilder("sharding")
    with b.sharding("{replicated}"):
        x = b.parameter(xb.f32[8, 2], "x")
    with b.sharding("{devices=[2,1]<=[2]}"):
        y = xb.exp(x)
    computation = b.build(xb.neg(y))
    module = lowering.lower(computation)
    assert '{mhlo.sharding = "{replicated}", xlabuilder.name = "x"}' in module.text
    assert 'mhlo.sharding = "{devices=[2,1]<=[2]}"' in module.text
    for text in (
        hlo_conversion.stablehlo_to_hlo_text(module.bytecode),
        hlo_conversion.stablehlo_to_hlo_text(
            hlo_conversion.hlo_text_to_stablehlo(str(computation))
        ),
    ):
        assert re.search(r"parameter\(0\), sharding=\{replicated\}", text)
        assert re.search(r" exponential\(.*\), sharding=\{devices=\[2,1\]<=\[2\]\}", text)
        assert "sharding" not in next(t for t in text.splitlines() if " negate(" in t)


def test_annotations_of_tuples_are_not_added_to_other_ops() -> None:
    """Tuples and their elements do not become operations."""
    b = xb.XlaBuilder("own")
    x = b.parameter(xb.s32[2], "x")
    with b.frontend_attributes({"of": "loop"}):
        looped = xb.while_(lambda s: xb.reduce(s[0], 0, xb.add, [0]) < 9, lambda s: s, [x, x])
    with b.frontend_attributes({"of": "element"}):
        pair = xb.tuple(looped[0], looped[1])
        one = pair[0]
    with b.frontend_attributes({"of": "several"}):
        several = xb.reduce([one, x], [0, 0], lambda a, b, c, d: (a + c, b + d), [0])
        nothing = xb.optimization_barrier(b.empty_tuple())
    text = lowering.lower(b.build(xb.tuple(several, nothing))).text
    assert 'of = "element"' not in text
    while_line = next(t for t in text.splitlines() if "stablehlo.while" in t)
    following = text[text.index(while_line) :]
    assert 'of = "loop"' in following.partition("stablehlo.return")[0]
    assert re.search(r'stablehlo\.reduce(.|\n)*of = "several"', text)


# Large programs


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def with_constant(size: int, value: float) -> xb.XlaComputation:
    b = xb.XlaBuilder("constant")
    array = np.arange(size, dtype=np.float64)
    array[0] = value
    return b.build(b.constant(array))


def test_large_constants_get_a_separate_context() -> None:
    shared = shared_context()
    small = lowering.lower(with_constant(100, 1))
    assert small.module.context == shared
    one, other = (lowering.lower(with_constant(1 << 18, v)) for v in (2, 3))
    assert one.module.context != shared
    assert one.module.context != other.module.context


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts pages as Linux does")
def test_large_constants_are_freed_with_the_module() -> None:
    computation = with_constant(100 * 2**17, 7)  # 100 MB
    gc.collect()
    before = resident_bytes()
    module = lowering.lower(computation)
    while_there = resident_bytes() - before
    del module
    gc.collect()
    after = resident_bytes() - before
    assert while_there > 90e6
    assert after < 30e6


def chain(length: int) -> xb.XlaComputation:
    b = xb.XlaBuilder("chain")
    x = b.parameter(xb.f32[2], "x")
    for _ in range(length):
        x = x + x
    return b.build(x)


def test_a_long_chain_of_ops() -> None:
    """Neither lowering nor printing is recursive."""
    computation = chain(100_000)
    module = lowering.lower(computation)
    (main,) = module.module.body.operations
    assert len(list(main.regions[0].blocks[0].operations)) == 100_001
    assert str(computation).count(" add(") == 100_000


@pytest.mark.slow
def test_xla_reads_a_long_chain() -> None:
    computation = chain(20_000)
    for module in (
        lowering.lower(computation).bytecode,
        hlo_conversion.hlo_text_to_stablehlo(str(computation)),
    ):
        assert hlo_conversion.stablehlo_to_hlo_text(module).count(" add(") == 20_000


def test_a_wide_tuple() -> None:
    b = xb.XlaBuilder("wide")
    x = b.parameter(xb.s32[()], "x")
    computation = b.build(xb.tuple(*(x + i for i in range(1000))))
    got = run(computation, np.int32(1))
    assert [int(v) for v in got] == list(range(1, 1001))


# Every op


def test_every_opcode_has_an_operation_and_an_hlo_form() -> None:
    """The HLO text of each op is tested with XLA's parser in test_every_op.py."""
    for name, info in xb.OPERATIONS.items():
        operation = SCHEMAS[info.opcode].stablehlo
        assert re.fullmatch(r"(stablehlo|chlo|mhlo|func)\.\w+", operation), name
        assert re.fullmatch("[a-z0-9-]+", SCHEMAS[info.opcode].hlo), name
