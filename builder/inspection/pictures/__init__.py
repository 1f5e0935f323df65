"""Pictures of computations as graphs.

`outline` groups the ops, `svg` places and renders them, `graph_formats` has the other formats.
`model_explorer` writes the ops for Google's Model Explorer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from builder.checking import integer
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.inspection.parts import Fold, Heading, Part, SvgPicture
from builder.inspection.pictures.graph_formats import dot_of
from builder.inspection.pictures.outline import Group, outline_of, scope_of
from builder.inspection.pictures.svg import computation_svg, shown_computations
from builder.inspection.table import count_text
from builder.layout.drawing.rendering import save_as
from builder.support.display import Displayed
from builder.support.names import did_you_mean

LIMIT: Final = 120

_SMALL: Final = 40
_MAX_FOLDED: Final = 2500
_MAX_DEPTH: Final = 8


class GraphPicture(Displayed):
    """A picture of a computation as a graph, returned by `XlaComputation.draw`.

    A notebook shows the outline, and below it a picture of each group of ops and of each applied
    computation, which a click unfolds.

    Attributes:
        computation: the computation.
        limit: the number of nodes up to which `svg` draws groups open.
    """

    def __init__(self, computation: XlaComputation, root: Group, limit: int) -> None:
        self.computation = computation
        self.limit = limit
        self._root = root

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        return computation_svg(self.computation, self._root, self.limit, with_background=True)

    def dot(self) -> str:
        """Return the graph in the DOT language of Graphviz, with all ops as nodes.

        Scopes and applied computations are clusters.

        Example:
            >>> import builder as xb
            >>> @xb.computation(xb.f32[2])
            ... def double(x):
            ...     return x + x
            >>> double.draw().dot().count(" -> ")
            2
        """
        return dot_of(self.computation)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file: SVG for the suffix .svg, DOT for .dot or .gv.

        The suffix .json is for Model Explorer; see `XlaComputation.to_model_explorer`.

        An existing file is replaced atomically.

        Raises:
            OperandError: `path` is not a str or path object, has a different suffix, or can't be
                written.
        """
        writers = {
            ".svg": lambda: self.svg() + "\n",
            ".dot": self.dot,
            ".gv": self.dot,
            ".json": self.computation.to_model_explorer,
        }
        save_as(path, writers)

    def __repr__(self) -> str:
        return f"<GraphPicture of {self.computation.name!r}, {count_text(self._root.count)}>"

    def _parts(self) -> Iterator[Part]:
        title = Heading("Graph", self._root.name, count_text(self._root.count))
        yield title
        yield from _folded(self.computation, self._root)


def _folded(computation: XlaComputation, root: Group) -> Iterator[Part]:
    """Iterate over the picture of a computation and folds of what the picture does not show."""
    is_small = root.count <= _SMALL and not any(op.called_computations for op in root.ops())
    if is_small:
        yield SvgPicture(
            computation_svg(computation, root, _SMALL, with_background=False), pans=True
        )
        return
    folds = _Folds()
    yield from folds.level(computation, root, 0)
    if folds.omitted:
        yield (
            f"{folds.omitted:,} more groups and computations have no picture here; "
            "draw(scope=...) draws one scope"
        )


class _Folds:
    """Draws a computation level by level, up to a number of nodes in all pictures.

    Attributes:
        omitted: the number of groups and computations without a picture.
    """

    def __init__(self) -> None:
        self.omitted = 0
        self._drawn: set[XlaComputation] = set()
        self._nodes = 0

    def level(self, computation: XlaComputation, group: Group, depth: int) -> Iterator[Part]:
        """Iterate over the picture of a group with closed groups, and a fold for each of them."""
        self._nodes += len(group.children)
        # Only this level: the limit leaves no nodes for closed groups.
        yield SvgPicture(computation_svg(computation, group, 0, with_background=False), pans=True)
        for child in group.children:
            if isinstance(child, Group):
                if self._may_draw(child, depth):
                    summary = f"{child.name}: {count_text(child.count)}"
                    yield Fold(summary, list(self.level(computation, child, depth + 1)))
            else:
                yield from self._applied(child, depth)

    def _applied(self, op: XlaOp, depth: int) -> Iterator[Part]:
        for role, applied in shown_computations(op) if op.attributes else ():
            if applied in self._drawn:
                continue
            self._drawn.add(applied)
            outline = outline_of(applied)
            if self._may_draw(outline, depth):
                summary = (
                    f"%{op.id} {op.opcode}, {role} {applied.name}: {count_text(outline.count)}"
                )
                yield Fold(summary, list(self.level(applied, outline, depth + 1)))

    def _may_draw(self, group: Group, depth: int) -> bool:
        may = depth < _MAX_DEPTH and self._nodes + len(group.children) <= _MAX_FOLDED
        self.omitted += not may
        return may


def picture_of(
    computation: XlaComputation, *, scope: str | None = None, limit: int = LIMIT
) -> GraphPicture:
    """Return a picture of a computation; see `XlaComputation.draw`."""
    nodes = integer("draw", "limit", limit)
    if nodes < 0:
        rule = "limit must not be negative"
        fix = "write limit=0 to draw all groups closed"
        raise error_of(ShapeInferenceError, "draw", rule, fix, got=nodes)
    if scope is None:
        return GraphPicture(computation, outline_of(computation), nodes)
    if not isinstance(scope, str):
        raise error_of(OperandError, "draw", "scope must be a string", got=brief(scope))
    group = scope_of(computation, scope)
    if group is None:
        scopes = {
            op.name.rpartition("/")[0] for op in computation.ops if op.name and "/" in op.name
        }
        fix = did_you_mean(scope, {name: repr(name) for name in sorted(scopes)}, 0.5)
        if not fix and scopes:
            fix = f"pass one of {brief(sorted(scopes))}"
        rule = f"scope must be a scope of {computation.name!r}"
        raise error_of(OperandError, "draw", rule, fix, got=brief(scope))
    return GraphPicture(computation, group, nodes)
