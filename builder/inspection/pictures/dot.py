"""The graph of a computation in the DOT language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from builder.graph.computation import XlaComputation
from builder.inspection.attribute_text import abbreviated
from builder.inspection.pictures.outline import Group, outline_of
from builder.inspection.pictures.svg import colour_of
from builder.inspection.rendering import printable


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
