"""Name the leaves of a program's shapes, and pack results into tuples."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from builder.types.shape import ArrayShape, ProgramShape, Shape, TokenShape, TupleShape, leaves
from lowering.mlir.types import leaf_paths

NamedLeaf = tuple[str, ArrayShape | TokenShape]


def named_leaves(name: str, shape: Shape) -> list[NamedLeaf]:
    """Return the path and the shape of each leaf: "x[0]" and "x[1]" for a tuple named "x"."""
    paths = (f"{name}{path}" for path in leaf_paths(shape))
    return list(zip(paths, leaves(shape), strict=True))


def program_leaves(shape: ProgramShape) -> tuple[list[NamedLeaf], list[NamedLeaf]]:
    """Return the leaves of the parameters, and the leaves of the result.

    The paths are for messages: "parameter x[0]", "the result[1]".
    """
    parameters = [
        leaf
        for name, parameter in zip(shape.parameter_names, shape.parameters, strict=True)
        for leaf in named_leaves(f"parameter {name}", parameter)
    ]
    return parameters, named_leaves("the result", shape.result)


_TAKE: Final = -1
_HIDE: Final = -2


def result_packer(shape: Shape) -> Callable[[list[Any]], Any]:
    """Return a function that packs a flat list of results into tuples nested like `shape`.

    The function returns None in place of each token.
    """
    if isinstance(shape, ArrayShape):
        return itemgetter(0)
    if isinstance(shape, TupleShape) and all(isinstance(e, ArrayShape) for e in shape.elements):
        return tuple
    # Postfix order: an array, a token, or a tuple of the last `count` values.
    steps: list[int] = []
    stack: list[Shape | int] = [shape]
    while stack:
        top = stack.pop()
        if isinstance(top, int):
            steps.append(top)
        elif isinstance(top, TupleShape):
            stack.append(len(top.elements))
            stack.extend(reversed(top.elements))
        else:
            steps.append(_TAKE if isinstance(top, ArrayShape) else _HIDE)

    def pack(results: list[Any]) -> Any:
        remaining = iter(results)
        done: list[Any] = []
        for step in steps:
            if step < 0:
                result = next(remaining)
                done.append(result if step == _TAKE else None)
            else:
                start = len(done) - step
                done[start:] = [tuple(done[start:])]
        return done[0]

    return pack
