"""The text of a whole module."""

from __future__ import annotations

from builder.computation import XlaComputation
from builder.hlo_text.printer import ModuleNames, Printer
from builder.hlo_text.words import identifier, with_layout

__all__ = ["module_text"]


def module_text(computation: XlaComputation, *, metadata: bool = False) -> str:
    """The text of a module whose entry is `computation`; see `XlaComputation.to_hlo_text`."""
    module = ModuleNames(computation, metadata)
    shape = computation.program_shape
    inputs = ", ".join(with_layout(p) for p in shape.parameters)
    layout = f"{{({inputs})->{with_layout(shape.result)}}}"
    head = f"HloModule {identifier(computation.name)}, entry_computation_layout={layout}\n"
    texts = []
    for one in (*computation.called_computations(), computation):
        printer = Printer(one, module)
        text = printer.text()
        # What a computation applies stands before it.
        texts += [*printer.own, f"ENTRY {text}" if one is computation else text]
    return "\n".join([head, *module.combiners.values(), *texts])
