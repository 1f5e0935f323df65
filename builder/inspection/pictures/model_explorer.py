"""The graph of a computation as JSON for Google's Model Explorer.

The format is that of the classes in `model_explorer.graph_builder` of the package
ai-edge-model-explorer, version 0.1: a graph collection.
"""

from __future__ import annotations

import json
from typing import Any

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.attribute_text import AttributePrinter
from builder.inspection.pictures.outline import scopes_of
from builder.inspection.pictures.svg import colour_of
from builder.inspection.rendering import printable
from builder.inspection.table import sections_of, source_hover


def model_explorer_of(computation: XlaComputation) -> str:
    """Return a computation, and those that its ops apply, as JSON for Model Explorer."""
    computations = [computation, *computation.called_computations()[::-1]]
    sections = sections_of(computation, nested=True)
    names = {each: section.name for each, section in zip(computations, sections, strict=True)}
    graphs = [
        {
            "id": names[each],
            "nodes": [
                _node(op, path, each, names, section.printer)
                for op, path in zip(each.ops, scopes_of(each), strict=True)
            ],
        }
        for each, section in zip(computations, sections, strict=True)
    ]
    return json.dumps({"label": printable(computation.name), "graphs": graphs})


def _node(
    op: XlaOp,
    path: tuple[str, ...],
    computation: XlaComputation,
    names: dict[XlaComputation, str],
    printer: AttributePrinter,
) -> dict[str, Any]:
    source = source_hover(op).partition("\n")[0]
    texts = {
        "name": op.name or "",
        "attributes": printer.attributes(op),
        "source": source,
        "root": "true" if op is computation.root else "",
    }
    return {
        "id": str(op.id),
        "label": op.opcode,
        # A "/" separates the parts of a namespace.
        "namespace": "/".join(printable(part) for part in path),
        "subgraphIds": [names[applied] for applied in op.called_computations],
        "attrs": [{"key": key, "value": printable(text)} for key, text in texts.items() if text],
        "incomingEdges": [
            {
                "sourceNodeId": str(operand.id),
                "sourceNodeOutputId": "0",
                "targetNodeInputId": str(number),
            }
            for number, operand in enumerate(op.operands)
        ],
        "outputsMetadata": [{"id": "0", "attrs": [{"key": "shape", "value": str(op.shape)}]}],
        "style": {"backgroundColor": colour_of(op.opcode)},
    }
