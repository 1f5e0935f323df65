"""HLO text as printed. tests/lowering/ops/test_hlo_text.py parses it with XLA."""

from __future__ import annotations

import re
import time
import warnings
from typing import Any

import numpy as np
import pytest
from tables import each_row

import builder as xb
from builder.hlo_text.printer import identifier
from builder.support.names import UniqueNames
from builder.types.constant import literal_text


def lines_of(root: xb.XlaOp) -> list[str]:
    """Return the instructions of the entry computation with the root `root`."""
    text = str(root.builder.build(root))
    return [line.strip() for line in text[text.index("\nENTRY ") :].splitlines()[2:-1]]


def names_in(text: str) -> list[str]:
    return re.findall(r"^ +(?:ROOT )?%(\S+) =", text, re.MULTILINE)


# Names.


@each_row(
    "name, written",
    [
        ("x", "x"),
        ("__x", "x__x"),
        ("é日本", "x___"),
        ("__", "x__"),
        ("1st", "_1st"),
        ("a b", "a_b"),
        ("-a", "_-a"),
        (".", "_."),
        ("f32", "f32_"),
        ("nan", "nan_"),
        ("ROOT", "ROOT_"),
        ("\ud800", "_"),
    ],
)
def test_names_are_valid_for_the_lexer(name: str, written: str) -> None:
    b = xb.XlaBuilder(name)
    b.parameter(xb.f32[()], name)
    text = str(b.build())
    assert text.startswith(f"HloModule {written}, ")
    assert f"ENTRY %{written} ({written}: f32[])" in text
    assert names_in(text) == [written]


def test_a_parameter_may_have_the_name_of_an_instruction() -> None:
    b = xb.XlaBuilder("names")
    for name in ("constant.4", "constant.4.value", "broadcast.6.squeezed", "add.5"):
        b.parameter(xb.f32[2, 1], name)
    filled = b.constant(np.full((2, 1), 7, np.float32))
    wide = xb.broadcast_in_dim(filled + filled, [2, 3], [0, 1])
    names = names_in(str(b.build(wide)))
    assert len(set(names)) == len(names)
    assert names == [
        *("constant.4", "constant.4.value", "broadcast.6.squeezed", "add.5"),
        *("constant.4.1.value", "constant.4.1", "add.5.1"),
        *("broadcast.6.squeezed.1", "broadcast.6"),
    ]


def test_a_name_that_is_not_a_string() -> None:
    b = xb.XlaBuilder("names")
    x = b.parameter(xb.f32[()], "x")
    with pytest.raises(xb.OperandError, match="name: the name of an op must be a string or None"):
        x.name = 3  # type: ignore[assignment]
    assert x.name == "x"


def test_unique_names() -> None:
    names = UniqueNames(["main", "add.1"])
    assert [names.claim(n) for n in ("add", "add", "main", "add.1", "add", "main")] == [
        *("add", "add.2", "main.1", "add.1.1", "add.3", "main.2")
    ]
    assert UniqueNames(["x"], separator="_").claim("x") == "x_1"


def test_the_cost_of_a_name_does_not_grow() -> None:
    """Claim one name 100,000 times; searching from 1 for each claim would be quadratic."""
    names = UniqueNames()
    start = time.perf_counter()
    assert len({names.claim("f") for _ in range(100_000)}) == 100_000
    assert time.perf_counter() - start < 10


def test_many_computations_of_one_name() -> None:
    b = xb.XlaBuilder("<lambda>")
    x = b.parameter(xb.f32[()], "x")
    for factor in (2.0, 3.0, 4.0):
        x = xb.call(lambda v, factor=factor: v * factor, x)
    text = str(b.build(x))
    heads = re.findall(r"^(?:ENTRY )?%(\S+) \(", text, re.MULTILINE)
    assert len(set(heads)) == len(heads) == 4
    assert re.findall(r"to_apply=%(\S+)", text) == heads[:3]


# Annotations.


def test_keys_of_frontend_attributes() -> None:
    b = xb.XlaBuilder("keys")
    x = b.parameter(xb.f32[()], "x")
    with b.frontend_attributes({"a": "1", "_b.c-d": "2", "f32": "3"}):
        y = x + x
    assert lines_of(y)[-1].endswith(', frontend_attributes={a="1",_b.c-d="2",f32="3"}')


@each_row("key", ["", "a b", "a=b", "é", "1a", ".a", "-a", 'a"', "a\n", "a,b"])
def test_keys_that_hlo_cannot_express(key: str) -> None:
    b = xb.XlaBuilder("keys")
    x = b.parameter(xb.f32[()], "x")
    with (
        pytest.raises(xb.OperandError, match="frontend_attributes: keys must consist of") as caught,
        b.frontend_attributes({key: "1"}),
    ):
        pass
    assert repr(key) in str(caught.value)
    assert (x + x).frontend_attributes is None


@each_row("attributes", [None, "a", [("a", "b")], {"a": 1}, {1: "a"}])
def test_frontend_attributes_map_strings_to_strings(attributes: Any) -> None:
    b = xb.XlaBuilder("keys")
    with (
        pytest.raises(xb.OperandError, match="attributes must map strings to strings"),
        b.frontend_attributes(attributes),
    ):
        pass


def test_strings_are_escaped() -> None:
    b = xb.XlaBuilder("strings")
    with b.frontend_attributes({"a": 'q" b\\ n\n t\t z\0 é \ud800'}):
        b.parameter(xb.f32[()], "x")
    assert r'frontend_attributes={a="q\" b\\ n\n t\011 z\000 é ?"}' in str(b.build())


@each_row(
    "sharding",
    [
        *("{replicated}", "{maximal device=0}", "{devices=[2,1]<=[2]}"),
        *("{manual}", "{devices=[2,1]0,1 metadata={op_name='a'}}"),
    ],
)
def test_shardings(sharding: str) -> None:
    b = xb.XlaBuilder("sharding")
    x = b.parameter(xb.f32[8, 2], "x")
    with b.sharding(sharding):
        y = x + x
        with b.sharding(None):
            z = y + y
    assert (x.sharding, y.sharding, z.sharding) == (None, sharding, None)
    _, first, second = lines_of(z)
    assert first.endswith(f", sharding={sharding}")
    assert "sharding" not in second


@each_row(
    "sharding", ["junk", 3, "", "{", "}", "{a}b", "a{b}", "{a}, x={b}", "}{", "{{a}", ["{a}"]]
)
def test_not_a_sharding(sharding: Any) -> None:
    b = xb.XlaBuilder("sharding")
    message, error = "sharding: tiling text: expected ", xb.ShapeTextError
    if not isinstance(sharding, str):
        message = "sharding: sharding must be the text of a tiling or an xb.MeshSharding, got "
        message, error = message + repr(sharding), xb.OperandError
    with pytest.raises(error, match=re.escape(message)) as caught, b.sharding(sharding):
        pass
    assert "fix: write for instance '{replicated}', '{devices=[2,1]<=[2]}'" in str(caught.value)


# Constants.


def test_texts_of_numbers() -> None:
    array = np.array([0, -0.0, 1, -2.5, 1e300, 5e-324, np.inf, -np.inf, np.nan, -np.nan])
    text = "{0, -0.0, 1, -2.5, 1e+300, 5e-324, inf, -inf, nan, -nan}"
    assert literal_text(array, xb.f64) == text
    assert literal_text(np.array(2**64 - 1, np.uint64), xb.u64) == "18446744073709551615"
    assert literal_text(np.zeros((2, 0), bool), xb.pred) == "{{}, {}}"
    assert literal_text(np.zeros((2, 3, 0), bool), xb.pred) == "{{{}, {}, {}}, {{}, {}, {}}}"
    assert literal_text(np.zeros((2, 0, 3), bool), xb.pred) == "{{}, {}}"
    assert literal_text(np.zeros((0, 2), bool), xb.pred) == "{}"
    assert literal_text(np.array([[True], [False]]), xb.pred) == "{{true}, {false}}"


@each_row(
    "element_type, bits, text",
    [
        (xb.f32, 0x7FC00000, "nan"),
        (xb.f32, 0xFFC00000, "-nan"),
        (xb.f32, 0x7F800001, "nan(0x1)"),
        (xb.f32, 0xFFFFFFFF, "-nan(0x7fffff)"),
        (xb.f64, 0x7FF0000000000001, "nan(0x1)"),
        (xb.f16, 0x7C01, "nan(0x1)"),
        (xb.bf16, 0x7F81, "nan(0x1)"),
        (xb.bf16, 0xFFC0, "-nan"),
        (xb.f8e3m4, 0x71, "nan(0x1)"),
        (xb.f8e4m3, 0xFF, "-nan(0x7)"),
        (xb.f8e5m2, 0x7E, "nan"),
        (xb.f8e5m2, 0xFD, "-nan(0x1)"),
        (xb.f8e4m3fn, 0x7F, "nan"),
        (xb.f8e4m3fn, 0xFF, "-nan"),
        (xb.f8e8m0fnu, 0xFF, "nan"),
    ],
)
def test_texts_of_nans(element_type: xb.PrimitiveType, bits: int, text: str) -> None:
    """Including signalling NaNs, without a NumPy warning, which would be an error here."""
    raw = np.array(bits, f"u{element_type.byte_width}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert literal_text(raw.view(element_type.dtype), element_type) == text


def test_complex_constants_with_nan() -> None:
    b = xb.XlaBuilder("complex")
    z = b.constant(np.array([complex(np.nan, 1), complex(2, np.nan)], np.complex64))
    assert lines_of(z) == [
        "%constant.0.real = f32[2]{0} constant({nan, 2})",
        "%constant.0.imag = f32[2]{0} constant({1, nan})",
        "ROOT %constant.0 = c64[2]{0} complex(%constant.0.real, %constant.0.imag)",
    ]
    b = xb.XlaBuilder("complex")
    z = b.constant(np.array(complex(-0.0, np.inf)))
    assert lines_of(z) == ["ROOT %constant.0 = c128[] constant((-0.0, inf))"]


# One instruction for each op.


def opcodes(root: xb.XlaOp) -> list[str]:
    return [re.sub(r".* = (\([^=]*\)|\S+) ([a-z-]+)\(.*", r"\2", line) for line in lines_of(root)]


def only(function: Any, *shapes: str) -> list[str]:
    """Return the opcodes that a function records, without parameters."""
    b = xb.XlaBuilder("words")
    words = opcodes(function(*(b.parameter(s) for s in shapes)))
    assert words[: len(shapes)] == ["parameter"] * len(shapes)
    return words[len(shapes) :]


ONE_EACH: dict[str, tuple[Any, ...]] = {
    "acos": (xb.acos, "f8e5m2[2]"),
    "erf": (xb.erf, "f8e4m3fn[2]"),
    "popcnt": (xb.population_count, "s4[2]"),
    "add": (xb.add, "pred[2]", "pred[2]"),
    "power": (xb.pow, "s8[2]", "s8[2]"),
    "divide": (xb.div, "s32[2]", "s32[2]"),
    "mulhi": (xb.mulhi, "s64[2]", "s64[2]"),
    "convert": (lambda x: xb.convert(x, xb.f32), "c64[2]"),
    "bitcast-convert": (lambda x: xb.bitcast_convert_type(x, xb.pred), "u8[2]"),
    "stochastic-convert": (
        lambda x, r: xb.stochastic_convert_type(x, r, xb.s8),
        "f8e3m4[2]",
        "u8[2]",
    ),
    "concatenate": (lambda *x: xb.concat_in_dim(x, 0), "s2[2]", "s2[2]"),
    "dot": (lambda x, y: xb.dot(x, y, preferred_element_type=xb.s32), "s4[2]", "s4[2]"),
    "slice": (lambda x: xb.slice(x, [0], [2], [2**62]), "f32[2]"),
    "constant": (lambda: xb.XlaBuilder("c").constant(np.array([-0.0, 1, 2])),),
}


@each_row("opcode", ONE_EACH)
def test_ops_with_xla_defects_are_printed_unchanged(opcode: str) -> None:
    function, *shapes = ONE_EACH[opcode]
    assert only(function, *shapes) == [opcode]


@each_row(
    "name, expected",
    [
        *[("_x", "_x"), ("x.1-y", "x.1-y"), ("1x", "_1x"), ("-", "_-"), ("", "_")],
        *[("x y", "x_y"), ("__x", "x__x"), ("f32", "f32_")],
    ],
)
def test_identifiers(name: str, expected: str) -> None:
    """They begin with a letter or one underscore, and are no words of HLO text."""
    assert identifier(name) == expected
