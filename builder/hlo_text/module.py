"""The text of a whole module."""

from __future__ import annotations

from builder.attributes.annotations import meshes
from builder.graph.computation import XlaComputation
from builder.hlo_text.printer import ModuleNames, Printer
from builder.hlo_text.syntax import identifier, quoted, with_layout
from builder.schema.kinds import braces

__all__ = ["module_text"]


def module_text(computation: XlaComputation, *, metadata: bool = False) -> str:
    """The text of a module whose entry is `computation`; see `XlaComputation.to_hlo_text`."""
    module = ModuleNames(computation, metadata)
    shape = computation.program_shape
    inputs = ", ".join(with_layout(p) for p in shape.parameters)
    layout = f"{{({inputs})->{with_layout(shape.result)}}}"
    head = (
        f"HloModule {identifier(computation.name)}{_donations(computation)}, "
        f"entry_computation_layout={layout}{_meshes(computation)}\n"
    )
    texts = []
    for one in (*computation.called_computations(), computation):
        printer = Printer(one, module)
        text = printer.text()
        # What a computation applies stands before it.
        texts.append(f"ENTRY {text}" if one is computation else text)
    return "\n".join([head, *texts])


def _donations(computation: XlaComputation) -> str:
    """Whose memory the program takes over."""
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
    """The meshes that shardings name: in HLO Shardy's words are frontend attributes."""
    found = meshes(computation)
    if not found:
        return ""
    said = ", ".join(f"{name} = {mesh['mesh']}" for name, mesh in found.items())
    return f", frontend_attributes={{xla.sdy.meshes={quoted(f'{{{said}}}')}}}"
