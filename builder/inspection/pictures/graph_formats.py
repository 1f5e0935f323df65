"""The graph of a computation in Graphviz's DOT, and as JSON for Google's Model Explorer.

The JSON has the form of the classes in `model_explorer.graph_builder` of the package
ai-edge-model-explorer, version 0.1: a graph collection.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.pictures.outline import Group, outline_of, scopes_of
from builder.inspection.pictures.svg import colour_of
from builder.inspection.rendering import printable
from builder.inspection.table import AttributePrinter, abbreviated, sections_of, source_hover


def dot_of(computation: XlaComputation) -> str:
    """Return the computation, and those that its ops apply, as clusters of a digraph."""
    computations = [computation, *computation.called_computations()[::-1]]
    numbers = {each: number for number, each in enumerate(computations)}
    lines = [
        f"digraph {_quoted(computation.name)} {{",
        '  node [shape=box, style="filled,rounded", fontname=monospace, fontsize=10];',
        "  edge [fontname=monospace, fontsize=8];",
        "  compound=true;",
    ]
    clusters = _Clusters()
    for each, number in numbers.items():
        outline = outline_of(each)
        lines += clusters.cluster(outline, f"c{number}", "  ", root=each)
        for op in each.ops:
            name = f"c{number}_{op.id}"
            for operand in op.operands:
                label = _quoted(abbreviated(str(operand.shape)))
                lines.append(f"  c{number}_{operand.id} -> {name} [label={label}];")
            for applied in op.called_computations:
                target = f"c{numbers[applied]}_{applied.root.id}"
                lines.append(f"  {name} -> {target} [style=dashed, arrowhead=none];")
    return "\n".join([*lines, "}"]) + "\n"


class _Clusters:
    """Writes clusters with unique names."""

    def __init__(self) -> None:
        self._count = 0

    def cluster(
        self, group: Group, prefix: str, indent: str, root: XlaComputation
    ) -> Iterator[str]:
        """Iterate over the lines of a group's cluster."""
        self._count += 1
        yield f"{indent}subgraph cluster_{self._count} {{"
        yield f"{indent}  label={_quoted(group.name)};"
        for child in group.children:
            if isinstance(child, Group):
                yield from self.cluster(child, prefix, f"{indent}  ", root)
            else:
                text = f"%{child.id} {child.opcode}"
                if child.name is not None:
                    text += f"\n{child.name}"
                bold = ", penwidth=2" if child is root.root else ""
                attributes = f'label={_quoted(text)}, fillcolor="{colour_of(child.opcode)}"{bold}'
                yield f"{indent}  {prefix}_{child.id} [{attributes}];"
        yield f"{indent}}}"


def _quoted(text: str) -> str:
    lines = [printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'


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
