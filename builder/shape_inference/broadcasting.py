"""Broadcasting: which shapes fit together, said once for every op.

Three kinds, and no others: a scalar fits any array; an operand of lower rank is placed into the
higher one by explicit `broadcast_dimensions`; and a dimension of size 1 fits any size. Ranks are
never raised implicitly.

Broadcasting (the document).
"""

from __future__ import annotations

from builder.check import Check
from builder.types.shape import UNBOUNDED, ArrayShape

__all__ = ["broadcast_sizes"]

Sizes = tuple[tuple[int, ...], tuple[bool, ...]]
"""Sizes, and which of them are dynamic."""


def broadcast_sizes(
    check: Check, lhs: ArrayShape, rhs: ArrayShape, broadcast_dimensions: tuple[int, ...] | None
) -> Sizes:
    """The sizes of an elementwise result of two arrays.

    Args:
        check: the op and its operands, for messages; operands "lhs" and "rhs" are these two.
        lhs, rhs: array shapes; element types are not looked at.
        broadcast_dimensions: for each dimension of the lower-rank operand the dimension of the
            other that it is; None or empty when ranks are equal or one is a scalar.

    Raises:
        ShapeInferenceError: the shapes do not fit together.
    """
    dimensions = broadcast_dimensions or ()
    if lhs.rank == rhs.rank:
        if dimensions and dimensions != tuple(range(lhs.rank)):
            check.fail(
                f"broadcast_dimensions of operands of equal rank must be absent or "
                f"{list(range(lhs.rank))}, got {list(dimensions)}",
                fix="leave broadcast_dimensions out; to permute dimensions use xb.transpose",
            )
        if lhs.dimensions == rhs.dimensions:
            pairs = zip(lhs.dynamic_dimensions, rhs.dynamic_dimensions, strict=True)
            return lhs.dimensions, tuple(a or b for a, b in pairs)
        return _degenerate(check, rhs, lhs.dimensions, lhs.dynamic_dimensions)
    if not lhs.rank or not rhs.rank:
        if dimensions:
            check.fail(
                f"a scalar is broadcast without broadcast_dimensions, got {list(dimensions)}",
                fix="leave broadcast_dimensions out",
            )
        array = lhs if lhs.rank else rhs
        return array.dimensions, array.dynamic_dimensions
    lower, higher, name = (lhs, rhs, "lhs") if lhs.rank < rhs.rank else (rhs, lhs, "rhs")
    if broadcast_dimensions is None or not dimensions:
        check.fail(
            "operands of different rank need broadcast_dimensions",
            fix=_suggestion(lower, higher, name),
        )
    sizes, dynamic = _in_dim(check, lower, higher, name, dimensions)
    return _degenerate(check, higher, sizes, dynamic)


def _suggestion(lower: ArrayShape, higher: ArrayShape, name: str) -> str:
    """A fix that names the dimensions when they can be guessed from the sizes."""
    other = "rhs" if name == "lhs" else "lhs"
    places: list[int] = []
    position = higher.rank
    for size in reversed(lower.dimensions):
        position -= 1
        while position >= 0 and higher.dimensions[position] != size:
            position -= 1
        if position < 0:
            return (
                f"say for each dimension of {name} which dimension of {other} it is; "
                f"the sizes do not fit as they are"
            )
        places.insert(0, position)
    return (
        f"say for each dimension of {name} which dimension of {other} it is, "
        f"for instance broadcast_dimensions={places}"
    )


def _in_dim(
    check: Check, lower: ArrayShape, higher: ArrayShape, name: str, dimensions: tuple[int, ...]
) -> Sizes:
    """The higher-rank sizes with those of the lower-rank operand put in their places."""
    other = "rhs" if name == "lhs" else "lhs"
    if len(dimensions) != lower.rank:
        check.fail(
            f"broadcast_dimensions must have one entry for each dimension of {name}, the operand "
            f"of lower rank: {lower.rank}, got {len(dimensions)}: {list(dimensions)}",
            fix=_suggestion(lower, higher, name),
        )
    previous = -1
    for place in dimensions:
        if not 0 <= place < higher.rank:
            check.fail(
                f"broadcast_dimensions must be dimensions of {other}, 0 to {higher.rank - 1}, "
                f"got {place} in {list(dimensions)}",
                dimension=place,
                fix=_suggestion(lower, higher, name),
            )
        if place <= previous:
            check.fail(
                f"broadcast_dimensions must be strictly increasing, got {list(dimensions)}",
                dimension=place,
                fix="transpose the operand of lower rank first",
            )
        previous = place
    sizes = list(higher.dimensions)
    dynamic = list(higher.dynamic_dimensions)
    for index, place in enumerate(dimensions):
        small, large = lower.dimensions[index], higher.dimensions[place]
        small_dynamic, large_dynamic = (
            lower.dynamic_dimensions[index],
            higher.dynamic_dimensions[place],
        )
        if small != large and 1 not in (small, large) and UNBOUNDED not in (small, large):
            check.fail(
                f"broadcast_dimensions: dimension {index} of {name} has size "
                f"{lower.dimension_text(index)}, dimension {place} of {other} has size "
                f"{higher.dimension_text(place)}; they must be equal, or one of them 1",
                dimension=index,
                fix=_suggestion(lower, higher, name),
            )
        if small_dynamic != large_dynamic and not (
            small == large
            or (small == 1 and not small_dynamic)
            or (large == 1 and not large_dynamic)
            or UNBOUNDED in (small, large)
        ):
            check.fail(
                f"broadcast_dimensions: dimension {index} of {name} has size "
                f"{lower.dimension_text(index)}, dimension {place} of {other} has size "
                f"{higher.dimension_text(place)}; only a static 1 is broadcast to a dynamic size",
                dimension=index,
            )
        sizes[place] = small
        dynamic[place] = small_dynamic
    return tuple(sizes), tuple(dynamic)


def _degenerate(
    check: Check, higher: ArrayShape, sizes: tuple[int, ...], dynamic: tuple[bool, ...]
) -> Sizes:
    """`sizes` (of the operand that was placed) and those of `higher` where size 1 fits all.

    Where both sizes are 1, the result is dynamic if `higher` is: the placed 1 gives way, as in XLA.
    """
    out: list[int] = []
    out_dynamic: list[bool] = []
    for index, (a, b) in enumerate(zip(sizes, higher.dimensions, strict=True)):
        a_dynamic, b_dynamic = dynamic[index], higher.dynamic_dimensions[index]
        if a == b:
            out.append(a)
            out_dynamic.append(b_dynamic or (a_dynamic and a != 1))
            continue
        if UNBOUNDED in (a, b):
            out.append(_with_unbounded(a, b, a_dynamic, b_dynamic))
            out_dynamic.append(out[-1] == UNBOUNDED or (a_dynamic and b_dynamic))
            continue
        if a == 1 or b == 1:
            if a_dynamic if a == 1 else b_dynamic:
                check.fail(
                    f"dimension {index}: a dynamic size <=1 can't be broadcast, "
                    f"got <=1 and {b if a == 1 else a}",
                    dimension=index,
                )
            out.append(b if a == 1 else a)
        else:
            texts = [_size(a, a_dynamic), _size(b, b_dynamic)]
            check.fail(
                f"dimension {index} has sizes {texts[0]} and {texts[1]}; "
                f"they must be equal, or one of them 1",
                dimension=index,
            )
        out_dynamic.append(a_dynamic or b_dynamic)
    return tuple(out), tuple(out_dynamic)


def _with_unbounded(a: int, b: int, a_dynamic: bool, b_dynamic: bool) -> int:
    """An unbounded size beside another: a size above 1 or a bound is what it must turn out."""
    other, other_dynamic = (b, b_dynamic) if a == UNBOUNDED else (a, a_dynamic)
    return UNBOUNDED if other == 1 and not other_dynamic else other


def _size(size: int, dynamic: bool) -> str:
    return f"<={size}" if dynamic else str(size)
