"""Pictures of what ops do with the elements of their operands.

`elements` defines elements as symbols, the modules of families compute them from an op's
attributes, `rendering` arranges them in grids, and renders the grids as SVG and as text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from builder.checking import integer
from builder.errors import OperandError, ShapeInferenceError, brief, error_of
from builder.graph.calls import explained
from builder.graph.xla_op import XlaOp
from builder.inspection.explaining import (
    collectives,
    rearranging,
    reduction as reduction,  # registers its functions
)
from builder.inspection.explaining.elements import (
    RULES,
    Context,
    Numbers,
    checked_values,
)
from builder.inspection.explaining.rendering import Scene, scene_of, svg_of, text_of
from builder.inspection.parts import Heading, Part, SvgPicture
from builder.layout.drawing.rendering import save_as
from builder.schema import SCHEMAS, Trait
from builder.support.display import Displayed
from builder.types.shape import ArrayShape, Shape, leaves

MAX_ELEMENTS: Final = 600
"""The maximum number of elements in a picture, those of operands and results together."""


class Explanation(Displayed):
    """A picture of what an op does with the elements of its operands, returned by `xb.explain`.

    A notebook shows it, ``print`` prints it as text.

    Attributes:
        op: the op.
    """

    def __init__(self, op: XlaOp, scene: Scene) -> None:
        self.op = op
        self._scene = scene

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        return svg_of(self._scene, with_background=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file: SVG for the suffix .svg, text for .txt.

        An existing file is replaced atomically.

        Raises:
            OperandError: `path` is not a str or path object, has a different suffix, or can't be
                written.
        """
        save_as(path, {".svg": lambda: self.svg() + "\n", ".txt": lambda: f"{self}\n"})

    def sources(
        self, index: Sequence[int] = (), result: int = 0
    ) -> list[list[tuple[int, tuple[int, ...]]]]:
        """Return the elements that an element of the result is computed from.

        Args:
            index: the index of the element in the result.
            result: the number of the result, for ops with several results and for collectives.

        Returns:
            The terms that are joined, for instance added. Each is a list of the elements that are
            multiplied, as pairs of the number of an operand in the picture and an index.

        Raises:
            OperandError: the op has no such result, or the result no such element.

        Example:
            >>> import builder as xb
            >>> b = xb.XlaBuilder()
            >>> xb.explain(b.iota(xb.s32[3])[::-1] @ b.iota(xb.s32[3])).sources()
            [[(0, (0,)), (1, (0,))], [(0, (1,)), (1, (1,))], [(0, (2,)), (1, (2,))]]
        """
        return self._scene.sources(result, tuple(index))

    def __str__(self) -> str:
        return text_of(self._scene)

    def __repr__(self) -> str:
        return f"<Explanation of {self.op!r}>"

    def _parts(self) -> Iterator[Part]:
        yield Heading(self.op.opcode, "", "")
        yield SvgPicture(svg_of(self._scene, with_background=False), str(self))


@explained
def explain(
    op: XlaOp, *, values: Mapping[str, Any] | None = None, replicas: int | None = None
) -> Explanation:
    """Return a picture of an op: from which operand elements each result element is computed.

    The picture has a grid for each operand and each result. Elements have numbers in row-major
    order, with a letter for the operand. Equal colours are equal elements, or elements of the
    operand that are reduced to the element of the result with their colour. Where an element takes
    part in several results, as in a dot product, one element of the result is outlined with its
    sources, and the others show theirs under the mouse.

    Available for broadcast_in_dim, concatenate, pad, reshape, rev, slice, transpose, dynamic_slice,
    dynamic_update_slice, gather, scatter, reduce, reduce_window, select_and_scatter, sort,
    dot_general, conv_general_dilated, and for collectives, whose picture has the operand and the
    result of each replica.

    Args:
        op: the op. Its operands and its result may have at most 600 elements together.
        values: the values of operands that determine which elements are moved, by the operand's
            name in the picture: start indices, scatter indices, the operands of sort, the operand
            of select_and_scatter. Operands that are neither constants nor listed here get example
            values.
        replicas: the number of replicas of a collective whose groups do not determine it.

    Returns:
        An `Explanation`, which a notebook shows, with the methods `svg`, `save` and `sources`.

    Raises:
        OperandError: `op` is not an XlaOp, or `values` do not fit the operands.
        ShapeInferenceError: the op has no picture, or is too large for one, or `replicas` does not
            fit the op.

    Example:
        >>> import builder as xb
        >>> b = xb.XlaBuilder()
        >>> x = b.parameter(xb.f32[2, 3])
        >>> print(xb.explain(xb.transpose(x, [1, 0])))
        transpose
        <BLANKLINE>
        operand  f32[2,3]
             0   1   2
          0  a0  a1  a2
          1  a3  a4  a5
        <BLANKLINE>
        result  f32[3,2]
             0   1
          0  a0  a3
          1  a1  a4
          2  a2  a5
    """
    if not isinstance(op, XlaOp):
        rule = "op must be an XlaOp"
        raise error_of(OperandError, "explain", rule, "pass the result of an op", got=brief(op))
    rule_of_op = RULES.get(op.opcode)
    if rule_of_op is None:
        rule = f"there is no picture of {op.opcode}"
        fix = f"explain one of the ops {', '.join(sorted(RULES))}"
        raise error_of(ShapeInferenceError, "explain", rule, fix)
    given = checked_values(op, values)
    groups: tuple[tuple[int, ...], ...] = ((0,),)
    is_collective = Trait.COLLECTIVE in SCHEMAS[op.opcode].traits
    if is_collective:
        count = None if replicas is None else integer("explain", "replicas", replicas)
        groups = collectives.groups_of(op, count, MAX_ELEMENTS)
    elif replicas is not None:
        rule = "replicas is for collectives"
        raise error_of(
            ShapeInferenceError,
            "explain",
            rule,
            "omit replicas",
            got=f"{brief(replicas)} for {op.opcode}",
        )
    before = rearranging.transpose_before(op)
    operands = op.operands if before is None else before.operands
    participants = max(map(max, groups)) + 1
    _check_drawable(op, [*(operand.shape for operand in operands), op.shape], participants)
    context = Context(op, _numbered(operands, participants), given, groups=groups)
    outcome = rule_of_op(context)
    return Explanation(op, scene_of(context, operands, outcome, is_collective))


def _check_drawable(op: XlaOp, shapes: Sequence[Shape], participants: int) -> None:
    """Raise unless the arrays have static sizes, some elements, and not too many for a picture.

    Args:
        op: the op, for messages.
        shapes: the shapes of the operands, which are arrays, and that of the result, which may be a
            tuple.
        participants: the number of participants, each with arrays of these shapes.
    """
    arrays = [*shapes[:-1], *leaves(shapes[-1])]
    if not all(isinstance(array, ArrayShape) and array.is_static for array in arrays):
        rule = f"the arrays of {op.opcode} must have static sizes"
        raise error_of(
            ShapeInferenceError,
            "explain",
            rule,
            "explain it with static shapes",
            got=", ".join(map(str, shapes)),
        )
    sizes = [prod(array.dimensions) for array in arrays if isinstance(array, ArrayShape)]
    total = sum(sizes) * participants
    if total > MAX_ELEMENTS:
        shown = ", ".join(map(str, shapes))
        rule = f"a picture has at most {MAX_ELEMENTS} elements"
        fix = f"explain {op.opcode} on smaller shapes, recorded in another builder"
        raise error_of(ShapeInferenceError, "explain", rule, fix, got=f"{total:,} ({shown})")
    if not sum(sizes[:-1]) and not sizes[-1]:
        raise error_of(ShapeInferenceError, "explain", f"{op.opcode} has no elements here")


def _numbered(operands: Sequence[XlaOp], participants: int) -> list[list[Numbers]]:
    """Return numbers for the elements of each operand of each participant."""
    first = 0
    numbers: list[list[Numbers]] = []
    for _ in range(participants):
        arrays = []
        for operand in operands:
            sizes: tuple[int, ...] = operand.shape.dimensions  # type: ignore[union-attr]  # checked
            count = prod(sizes)
            arrays.append(np.arange(first, first + count, dtype=np.int64).reshape(sizes))
            first += count
        numbers.append(arrays)
    return numbers
