"""Print a computation, and the computations that it applies, as an HLO module."""

from __future__ import annotations

from typing import Final

from builder.attributes.annotations import meshes
from builder.errors import ShapeInferenceError, error_of
from builder.graph.computation import XlaComputation
from builder.hlo_text.printer import ModuleNames, Printer, identifier
from builder.schema.syntax import braces, quoted, with_layout
from builder.types.shape import TupleShape

MAX_TUPLE_NESTING: Final = 96
"""The maximum nesting depth of tuples in XLA's protocol buffers, and thus in its HLO parser."""


def module_text(computation: XlaComputation, *, metadata: bool = False) -> str:
    """Return a computation as the text of an HLO module; see `XlaComputation.to_hlo_text`."""
    for called in (computation, *computation.called_computations()):
        _check_nesting(called)
    module = ModuleNames(computation, metadata)
    shape = computation.program_shape
    inputs = ", ".join(with_layout(p) for p in shape.parameters)
    layout = f"{{({inputs})->{with_layout(shape.result)}}}"
    head = (
        f"HloModule {identifier(computation.name)}{_donations(computation)}, "
        f"entry_computation_layout={layout}{_meshes(computation)}\n"
    )
    # Callees precede callers.
    texts = [Printer(called, module).text() for called in computation.called_computations()]
    return "\n".join([head, *texts, f"ENTRY {Printer(computation, module).text()}"])


def _check_nesting(computation: XlaComputation) -> None:
    """Raise an error if a tuple is nested too deep for XLA's HLO parser.

    This also limits the length of the text, in which each nested tuple repeats its elements.
    """
    for op in computation.ops:
        shape = op.shape
        if isinstance(shape, TupleShape) and shape.nesting > MAX_TUPLE_NESTING:
            place = "" if op.source is None else f" recorded at {op.source}"
            rule = f"tuples in HLO may nest at most {MAX_TUPLE_NESTING} deep, got {shape.nesting}"
            fix = "use flatter tuples, or StableHLO (lowering.lower), which has no tuples"
            shapes = {"op": shape}
            text = f"{rule}: %{op.id} {op.opcode}{place}"
            raise error_of(ShapeInferenceError, "to_hlo_text", text, fix, shapes=shapes)


def _donations(computation: XlaComputation) -> str:
    """Return the module attributes for aliased and donated parameters."""
    text = ""
    if computation.aliases:
        pairs = [
            f"{braces(a.output_index)}: ({a.param_number}, {braces(a.param_index)}, may-alias)"
            for a in computation.aliases
        ]
        text += f", input_output_alias={{ {', '.join(pairs)} }}"
    if computation.donors:
        places = [f"({d.param_number}, {braces(d.param_index)})" for d in computation.donors]
        text += f", buffer_donor={{ {', '.join(places)} }}"
    return text


def _meshes(computation: XlaComputation) -> str:
    """Return the frontend attribute that defines Shardy's meshes; "" if there are no meshes."""
    by_name = meshes(computation)
    if not by_name:
        return ""
    text = ", ".join(f"{name} = {mesh['mesh']}" for name, mesh in by_name.items())
    return f", frontend_attributes={{xla.sdy.meshes={quoted(f'{{{text}}}')}}}"
