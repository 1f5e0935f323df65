"""Validate the shardings that users pass against the shapes of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from builder.attributes.annotations import ONE_MESH, ONE_SHARDING_FORM, Annotations
from builder.errors import (
    BuilderError,
    OperandError,
    ShapeInferenceError,
    XlaError,
    brief,
    error_of,
)
from builder.sharding.mesh import Mesh, MeshSharding
from builder.sharding.text import is_shardy, join_leaf_texts
from builder.sharding.tiling import Tiling, parse_tiling, parse_tilings
from builder.support.caches import per_signature
from builder.types.shape import ArrayShape, Shape, TupleShape, leaves

if TYPE_CHECKING:
    from builder.graph.xla_builder import XlaBuilder


ShardingLike = str | MeshSharding
"""A tiling in GSPMD's text form, or a sharding along the axes of a mesh."""

ShardingTree = ShardingLike | Sequence["ShardingTree"] | None
"""A sharding for all arrays of a value, a sequence with an entry per tuple element, or None."""

GSPMD: Final = "GSPMD's tilings"
SHARDY: Final = "shardings by the axes of a mesh"


class ShardingFault(NamedTuple):
    """The reason why a value can't have a sharding.

    Attributes:
        rule: the broken rule, and the values that break it.
        fix: what the user can write instead.
    """

    rule: str
    fix: str


_FIX_TEXT: Final = (
    "write for instance '{replicated}', '{devices=[2,1]<=[2]}' or mesh.sharding('x', None)"
)
_FIX_TILING: Final = (
    "write one number of tiles for each dimension, 1 for an unsharded dimension; for replication, "
    "add a last dimension and last_tile_dim_replicate"
)
_FIX_MESH: Final = "omit entries, or shard an array of more dimensions"
_FIX_TUPLE: Final = "shard the elements of the tuple one by one"


def check_sharding_type(op: str, value: Any, name: str = "sharding") -> ShardingLike:
    """Check that an argument is a `MeshSharding` or the text of a tiling.

    Args:
        op, name: the op and the argument, for messages.
        value: what the user passed.

    Raises:
        OperandError: `value` has another type.
        ShapeTextError: the text is malformed; the error has the position.
    """
    if isinstance(value, MeshSharding):
        return value
    rule = f"{name} must be the text of a tiling or an xb.MeshSharding"
    if not isinstance(value, str):
        fix = _FIX_TEXT
        if isinstance(value, Mesh):
            fix = "assign the axes of the mesh to dimensions: mesh.sharding('x', None)"
        elif _are_axes(value):
            fix = f"write xb.Mesh({{...}}).sharding({', '.join(map(repr, value))})"
        elif hasattr(value, "spec") and hasattr(value, "mesh"):  # jax's NamedSharding
            fix = "write xb.Mesh(sharding.mesh.shape).sharding(*sharding.spec)"
        raise error_of(OperandError, op, rule, fix, argument=name, got=brief(value))
    if is_shardy(value):
        fix = "write xb.Mesh({...}).sharding(...), which includes the mesh"
        got = f"Shardy's text {brief(value)}"
        raise error_of(OperandError, op, rule, fix, argument=name, got=got)
    try:
        parse_tilings(value)
    except XlaError as error:
        error.fix = error.fix or _FIX_TEXT
        raise error._in_call(op) from None
    return value


def _are_axes(value: Any) -> bool:
    """Return whether a value lists axes of a mesh, such as ("data", None) or a PartitionSpec."""
    if not isinstance(value, (list, tuple)) and type(value).__name__ not in ("PartitionSpec", "P"):
        return False
    axes = [axis for axis in value if axis is not None]
    return bool(axes) and all(map(_is_axis, axes))


def _is_axis(axis: Any) -> bool:
    if isinstance(axis, tuple):
        return all(map(_is_axis, axis))
    return isinstance(axis, str) and not axis.startswith("{")


def sharding_text(op: str, name: str, shape: Shape, sharding: ShardingLike) -> str:
    """Return the text of `sharding` for a value of this shape, with an entry for each array.

    Raises:
        ShapeInferenceError: the sharding does not fit the shape.
    """
    text = _on_shape(sharding, shape, True)
    if isinstance(text, ShardingFault):
        raise error_of(ShapeInferenceError, op, text.rule, text.fix, shapes={name: shape})
    assert text is not None  # only a `sharding` block skips scalars
    return text


def block_sharding(sharding: ShardingLike, shape: Shape) -> str | ShardingFault | None:
    """Return the sharding text of an op in a `builder.sharding` block, or the broken rule.

    Return None for a scalar or a token that can't have the sharding of the block.
    """
    return _on_shape(sharding, shape, False)


@per_signature
def _on_shape(sharding: ShardingLike, shape: Shape, must_fit: bool) -> str | ShardingFault | None:
    parsed = parse_tilings(sharding) if isinstance(sharding, str) else sharding
    if not isinstance(shape, TupleShape):
        if isinstance(parsed, tuple):
            return ShardingFault(
                f"an array can't have the sharding of a tuple, got {sharding} for {shape}",
                "write the sharding of one array, such as {replicated}",
            )
        return _on_leaf(parsed, shape, must_fit)
    parts = [*leaves(shape)]
    each = parsed if isinstance(parsed, tuple) else [parsed] * len(parts)
    if len(each) != len(parts):
        return ShardingFault(
            f"the sharding of a tuple must have one entry for each array: {len(parts)}, got "
            f"{len(each)}, in {sharding}, for {shape}",
            "write one sharding for all arrays, such as {replicated}, or one for each array",
        )
    texts: list[str] = []
    for leaf_sharding, leaf in zip(each, parts, strict=True):
        text = _on_leaf(leaf_sharding, leaf, must_fit)
        if isinstance(text, ShardingFault):
            return text._replace(fix=_FIX_TUPLE)
        # An unsharded scalar or token still needs an entry in the tuple.
        texts.append(_replicated(leaf_sharding) if text is None else text)
    return join_leaf_texts(texts)


def _replicated(sharding: Tiling | MeshSharding) -> str:
    """Return the text of a replicated sharding in the dialect of `sharding`."""
    if isinstance(sharding, Tiling):
        return "{replicated}"
    return str(MeshSharding(sharding.mesh))


def _on_leaf(
    sharding: Tiling | MeshSharding, leaf: Shape, must_fit: bool
) -> str | ShardingFault | None:
    rank = leaf.rank if isinstance(leaf, ArrayShape) else 0
    if isinstance(leaf, ArrayShape):
        rule = sharding.misfit(leaf)
    else:
        got = sharding.text if isinstance(sharding, Tiling) else sharding
        rule = f"a token can't be sharded, got {got}" if sharding.tiles else None
    if rule is None:
        return sharding.text if isinstance(sharding, Tiling) else str(sharding.at_rank(rank))
    if not must_fit and not rank:
        return None
    return ShardingFault(rule, _FIX_TILING if isinstance(sharding, Tiling) else _FIX_MESH)


def leaf_shardings(
    op: str, name: str, shape: Shape, value: Any
) -> tuple[list[str | None], list[ShardingLike]]:
    """Return the sharding of each array of a value.

    Args:
        op, name: the op and the argument, for messages.
        shape: the shape of the value.
        value: a sharding for all arrays, None for no sharding, or for a tuple a sequence with one
            such value for each element.

    Returns:
        The text for each array (None for no sharding), and the shardings that were passed.

    Raises:
        OperandError, ShapeTextError, ShapeInferenceError: `value` has another form, or a sharding
            does not fit.
    """
    texts: list[str | None] = []
    shardings: list[ShardingLike] = []
    pending: list[tuple[Shape, Any]] = [(shape, value)]
    while pending:
        part, entry = pending.pop()
        if entry is None:
            texts += [None for _ in leaves(part)]
        elif isinstance(entry, (list, tuple)):
            if _are_axes(entry) and not isinstance(part, TupleShape):
                check_sharding_type(op, entry, name)
            if not isinstance(part, TupleShape) or len(part.elements) != len(entry):
                rule = f"a sequence in {name} must have an entry for each element of a tuple"
                fix = "pass one sharding"
                if isinstance(part, TupleShape):
                    fix += " for all elements, or a sequence with one for each element"
                raise error_of(
                    ShapeInferenceError,
                    op,
                    rule,
                    fix,
                    got=f"{len(entry)} for {part}",
                    shapes={name: part},
                )
            pending += reversed(list(zip(part.elements, entry, strict=True)))
        else:
            sharding = check_sharding_type(op, entry, name)
            shardings.append(sharding)
            texts += [sharding_text(op, name, leaf, sharding) for leaf in leaves(part)]
    return texts, shardings


def full_array_tiling(op: str, full: ArrayShape, value: Any) -> Tiling:
    """Return the tiling of an array whose shards a program processes in manual mode.

    Args:
        op: the op, for messages.
        full: the shape of the array.
        value: the sharding that the user passed.

    Raises:
        OperandError, ShapeTextError: `value` is not a sharding.
        ShapeInferenceError: the sharding does not fit, or is neither replicated nor tiled.
    """
    sharding = check_sharding_type(op, value)
    text = sharding_text(op, "full_shape", full, sharding)
    if not isinstance(sharding, str):
        text = sharding.at_rank(full.rank).tiling
    tiling = parse_tiling(text)
    if tiling.kind not in ("tiled", "replicated") or "manual" in tiling.subgroups:
        rule = "sharding must be {replicated} or tiles of the full array"
        fix = "write '{devices=[2,1]<=[2]}' or mesh.sharding('x', None)"
        raise error_of(ShapeInferenceError, op, rule, fix, got=text, shapes={"full_shape": full})
    return tiling


def register_sharding(builder: XlaBuilder, op: str, sharding: ShardingLike) -> None:
    """Record the dialect of a sharding in the program, and the mesh of a `MeshSharding`.

    Raises:
        BuilderError: the program has shardings in the other dialect, or a different mesh of the
            same name.
    """
    if isinstance(sharding, str):
        register_sharding_dialect(builder, op, GSPMD, brief(sharding), "mesh.sharding(...) here")
        return
    entries = [axes[0] if len(axes) == 1 else axes or None for axes in sharding.dimensions]
    tiling = f"mesh.sharding({', '.join(map(repr, entries))}).tiling here"
    register_sharding_dialect(builder, op, SHARDY, str(sharding), tiling)
    register_meshes(builder, op, {sharding.mesh.name: {"mesh": str(sharding.mesh)}})


def register_sharding_dialect(
    builder: XlaBuilder, op: str, dialect: str, got: str, instead: str
) -> None:
    """Record the sharding dialect of a program.

    XLA partitions a program by the shardings of one dialect. It ignores shardings of the other
    dialect, which leaves arguments unsharded, or reports an operation that the user did not write.

    Args:
        builder: the builder; the dialect is recorded in its outermost builder.
        op: the op, for messages.
        dialect: `GSPMD` or `SHARDY`.
        got: the sharding, for messages.
        instead: the sharding to write in the other dialect, and where, for messages.

    Raises:
        BuilderError: the program has shardings in the other dialect.
    """
    outer = builder
    while outer._parent is not None:
        outer = outer._parent
    if outer._sharding_form and outer._sharding_form != dialect:
        rule = f"{ONE_SHARDING_FORM}"
        fix = f"write {instead}, or write the program's other shardings as {dialect}"
        raise error_of(
            BuilderError,
            op,
            rule,
            fix,
            got=f"{got} in {outer.name!r}, which has {outer._sharding_form}",
        )
    outer._sharding_form = dialect


def register_meshes(
    builder: XlaBuilder, op: str, meshes: Mapping[str, Mapping[str, Any]], source: str = ""
) -> None:
    """Add meshes to the annotations of a builder.

    Args:
        builder: the builder.
        op: the op, for messages.
        meshes: the meshes by name, as in `Annotations`.
        source: the name of the program that contains `meshes`, for messages; "" for none.

    Raises:
        BuilderError: the builder has a different mesh of the same name.
    """
    annotations = builder.annotations or Annotations()
    merged = dict(annotations.meshes)
    for name, mesh in meshes.items():
        if merged.setdefault(name, mesh) != mesh:
            of_source = f" of {source!r}" if source else ""
            raise BuilderError(
                f"mesh {name!r}{of_source} must equal the mesh in builder {builder.name!r}",
                got=f"\n  {merged[name]['mesh']}\n  {mesh['mesh']}",
                fix=ONE_MESH,
                op=op,
            )
    if len(merged) != len(annotations.meshes):
        builder.annotations = annotations._replace(meshes=merged)
