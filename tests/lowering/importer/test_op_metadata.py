"""The name, type and source line of ops, in modules and in HLO, written, read, and read by XLA."""

from __future__ import annotations

import re
from typing import Any

import pytest
from jaxlib.mlir import ir
from tables import each_row

import builder as xb
import lowering
from lowering.importer.hlo_repairs import with_complete_names
from lowering.importer.tables import Tables
from lowering.jaxlib_api import hlo_conversion, mlir
from lowering.jaxlib_api.native import jax_extension, xla_client

pytestmark = pytest.mark.usefixtures("read_here")

NAMES: list[tuple[str | None, str | None]] = [
    (None, None),
    (None, "Softmax"),
    ("attention/softmax", None),
    ("attention/softmax", "Softmax"),
    ("a:", None),
    ("a:", "T"),
    ("a", "T:"),
    ('"quoted", (é)\n', 'T"\\'),
    ("fused[a]", "T(b"),
]


def recorded(name: str | None, op_type: str | None) -> xb.XlaComputation:
    b = xb.XlaBuilder("annotated")
    x = b.parameter(xb.f32[2], "x")
    with b.op_metadata(source_file="dir/model.abc", source_line=12):
        y = xb.neg(x)
    z = xb.exp(y)
    for op in (y, z):
        op.name, op.op_type = name, op_type
    return b.build(z)


def metadata(op: xb.XlaOp) -> tuple[Any, ...]:
    return op.name, op.op_type, str(op.source)


def xla_metadata(text: str) -> list[str]:
    """Return the metadata of the two instructions after the parameter, as XLA prints it."""
    lines = [line for line in text.splitlines() if re.search(r" (?:negate|exponential)\(", line)]
    return [line.partition("metadata=")[2] for line in lines]


def hlo_text(module: lowering.StablehloModule) -> str:
    """Return a module as HLO text with metadata, by XLA."""
    convert = jax_extension.mlir.mlir_module_to_xla_computation
    proto = convert(module.bytecode, False, False).as_serialized_hlo_module_proto()
    text: str = xla_client.XlaComputation(proto).get_hlo_module().to_string()
    return text


@each_row("name, op_type", NAMES)
def test_a_module_keeps_the_metadata(name: str | None, op_type: str | None) -> None:
    computation = recorded(name, op_type)
    module = lowering.lower(computation)
    expected = [metadata(op) for op in computation.ops[1:]]
    assert expected[0] == (name, op_type, "dir/model.abc:12")
    for source in (module, module.to_text(locations=True)):
        again = lowering.to_computation(lowering.load(source))
        assert [metadata(op) for op in again.ops[1:]] == expected


@each_row("as_proto", [False, True])
@each_row("name, op_type", NAMES)
def test_hlo_keeps_the_metadata(name: str | None, op_type: str | None, as_proto: bool) -> None:
    computation = recorded(name, op_type)
    text = computation.to_hlo_text(metadata=True)
    again = lowering.from_hlo(hlo_conversion.hlo_proto(text) if as_proto else text)
    for number, op in enumerate(computation.ops[1:], 1):
        # Without a name in its metadata, an instruction has its own name.
        default = f"{('negate', 'exponential')[number - 1]}.{number}"
        assert metadata(again.ops[number]) == (name or default, *metadata(op)[1:])


@each_row("name, op_type", NAMES)
def test_xla_prints_the_metadata_of_hlo_text(name: str | None, op_type: str | None) -> None:
    text = recorded(name, op_type).to_hlo_text(metadata=True)
    parsed = xla_metadata(hlo_conversion.parsed_hlo_text(text))
    assert parsed == [each.replace("é", r"\303\251") for each in xla_metadata(text)]
    assert parsed[0].endswith('source_file="dir/model.abc" source_line=12}')
    assert ("op_type=" in parsed[0]) is (op_type is not None)


def test_xla_reads_the_metadata_of_a_module() -> None:
    module = lowering.lower(recorded("attention/softmax", "Softmax"))
    text = hlo_text(module)
    (first, second) = xla_metadata(text)
    assert first.startswith('{op_type="Softmax" op_name="attention/softmax" ')
    assert second.startswith('{op_type="Softmax" op_name="attention/softmax" ')
    assert '"dir/model.abc"' in text
    assert "line=12" in text
    typed = hlo_text(lowering.lower(recorded(None, "T")))
    assert all(each.startswith('{op_type="T" ') for each in xla_metadata(typed))
    assert "op_name" not in typed.replace('op_name="x"', "")


@each_row(
    "location, expected",
    [
        ('"T:"("n"("f.py":3:4))', ("n", "T")),
        ('"T:"("n")', ("n", "T")),
        ('"T:"(""("f.py":3:4))', (None, "T")),
        ('fused["T:", "n"("f.py":3:4)]', ("n", "T")),
        ('fused["T:", "n", "f.py":3:4]', ("n", "T")),
        ('fused["n", "f.py":3:4]', ("n", None)),
        ('"T:"("n:"("f.py":3:4))', ("n:", "T")),
        # No information is lost: lowered again, the location is the same.
        ('"T:"("f.py":3:4)', ("T:", None)),
        ('"T:"', ("T:", None)),
        ('fused["T:", "f.py":3:4]', ("T:", None)),
        ('"f.py":3:4', (None, None)),
        ('callsite("f"("f.py":3:4) at "g.py":5:6)', (None, None)),
    ],
)
def test_locations(location: str, expected: tuple[str | None, str | None]) -> None:
    """The forms of JAX, TensorFlow, and XLA's converter."""
    module = ir.Module.parse(f"module {{}} loc({location})", mlir.new_context())
    place = Tables().place(module.operation.location)
    assert (place.name, place.op_type) == expected


def test_parameters_keep_their_types() -> None:
    b = xb.XlaBuilder("typed")
    with b.op_metadata(op_type="Input", source_file="model.abc", source_line=3):
        x = b.parameter(xb.f32[2], "x")
    inner = xb.XlaBuilder("inner")
    with inner.op_metadata(op_type="Argument"):
        p = inner.parameter(xb.f32[2], "p")
    computation = b.build(xb.call(inner.build(-p), x))
    for again in (
        lowering.to_computation(lowering.lower(computation)),
        lowering.from_hlo(computation.to_hlo_text(metadata=True)),
    ):
        (parameter,) = again.parameters
        assert metadata(parameter) == ("x", "Input", "model.abc:3")
        (called,) = again.called_computations()
        assert metadata(called.parameters[0])[:2] == ("p", "Argument")


def test_hlo_without_types_is_not_changed() -> None:
    proto = hlo_conversion.hlo_proto(recorded("a:", None).to_hlo_text(metadata=True))
    assert with_complete_names(proto) == proto
    typed = hlo_conversion.hlo_proto(recorded("a", "T").to_hlo_text(metadata=True))
    assert with_complete_names(typed) != typed
    assert with_complete_names(typed[:-1]) == typed[:-1]  # damaged
