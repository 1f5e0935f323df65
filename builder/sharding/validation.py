"""Shardings as users say them, held against the shapes of what they are said of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from builder.attributes.annotations import Annotations
from builder.errors import BuilderError, OperandError, ShapeInferenceError, XlaError, brief
from builder.sharding.mesh import Mesh, MeshSharding
from builder.sharding.text import join_leaf_texts
from builder.sharding.tiling import Tiling, parse_tiling, parse_tilings
from builder.support.signatures import per_signature
from builder.types.shape import ArrayShape, Shape, TupleShape, leaves

if TYPE_CHECKING:
    from builder.graph.xla_builder import XlaBuilder

__all__ = [
    "Misfit",
    "ShardingLike",
    "ShardingTree",
    "block_sharding",
    "check_sharding_type",
    "fitting_sharding",
    "name_meshes",
    "register_sharding",
    "register_sharding_form",
    "shardings_on_leaves",
    "tiling_of_whole",
]

ShardingLike = str | MeshSharding
"""A tiling in GSPMD's text form, or a sharding by the names of a mesh's axes."""

ShardingTree = ShardingLike | Sequence["ShardingTree"] | None
"""One sharding for all arrays of a value, or one for each element of a tuple, nested as it is."""

GSPMD: Final = "GSPMD's tilings"
SHARDY: Final = "shardings by the axes of a mesh"


class Misfit(NamedTuple):
    """Why a sharding is none of a value.

    Attributes:
        rule: the rule that is broken, and what was got.
        fix: what to do.
    """

    rule: str
    fix: str


_FIX_TEXT: Final = (
    "fix: for instance '{replicated}', '{devices=[2,1]<=[2]}' or mesh.sharding('x', None)"
)
_FIX_TILING: Final = (
    "write as many numbers of tiles as there are dimensions, 1 for those that are not cut; devices "
    "that have the same are a last one with last_tile_dim_replicate"
)
_FIX_MESH: Final = "leave out entries, or say it of an array of more dimensions"
_FIX_MESHES: Final = "import programs that are to be one with one mesh"
_FIX_MESH_NAMES: Final = "give one of them a name of its own: xb.Mesh({...}, name='other')"
_FIX_TUPLE: Final = "say it of the elements, one by one"


def check_sharding_type(op: str, given: Any, name: str = "sharding") -> ShardingLike:
    """`given`, which must be a sharding by the axes of a mesh, or the text of a tiling.

    Args:
        op, name: for messages: which op, which of its arguments.
        given: what a user passed.

    Raises:
        OperandError: something else.
        ShapeTextError: a text that says no tiling; says at which position.
    """
    if isinstance(given, MeshSharding):
        return given
    if not isinstance(given, str):
        fix = _FIX_TEXT
        if isinstance(given, Mesh):
            fix = "fix: say which of its axes cut which dimension: mesh.sharding('x', None)"
        elif hasattr(given, "spec") and hasattr(given, "mesh"):  # jax's, of which nothing is known
            fix = "fix: xb.Mesh(sharding.mesh.shape).sharding(*sharding.spec)"
        raise OperandError(
            f"{op}: {name} must be the text of a tiling or an xb.MeshSharding, "
            f"got {brief(given)}\n{fix}",
            op=op,
        )
    if given.startswith("#sdy."):
        raise OperandError(
            f"{op}: {name} must be the text of a tiling or an xb.MeshSharding, got Shardy's text "
            f"{brief(given)}\n"
            f"fix: xb.Mesh({{...}}).sharding(...), which knows the mesh that the text names",
            op=op,
        )
    try:
        parse_tilings(given)
    except XlaError as error:
        told = error.in_argument(op, name)
        told.args = (f"{op}: {str(told).removeprefix(f'{op}: {name}: ')}\n{_FIX_TEXT}",)
        raise told from None
    return given


def fitting_sharding(op: str, name: str, shape: Shape, sharding: ShardingLike) -> str:
    """The text of a sharding of a value of this shape, which it must fit.

    Raises:
        ShapeInferenceError: it does not fit.
    """
    found = _on_shape(sharding, shape, True)
    if isinstance(found, Misfit):
        raise _misfitting(op, name, shape, found)
    assert found is not None  # nothing is left out that is said of a value itself
    return found


def _misfitting(op: str, name: str, shape: Shape, why: Misfit) -> ShapeInferenceError:
    return ShapeInferenceError(f"{op}: {why.rule}\nfix: {why.fix}", op=op, shapes={name: shape})


def block_sharding(sharding: ShardingLike, shape: Shape) -> str | Misfit | None:
    """The text of the sharding that an op gets which is recorded in the block of a sharding.

    Scalars and tokens, which are not cut, get none where it cuts up arrays.
    """
    return _on_shape(sharding, shape, False)


@per_signature
def _on_shape(sharding: ShardingLike, shape: Shape, is_said_of_it: bool) -> str | Misfit | None:
    said = parse_tilings(sharding) if isinstance(sharding, str) else sharding
    if not isinstance(shape, TupleShape):
        if isinstance(said, tuple):
            return Misfit(
                f"the sharding of an array is not that of a tuple, got {sharding} for {shape}",
                "write one for the array, such as {replicated}",
            )
        return _on_leaf(said, shape, is_said_of_it)
    parts = [*leaves(shape)]
    if isinstance(said, tuple):
        if len(said) != len(parts):
            return Misfit(
                f"the sharding of a tuple must have one for each array in it: {len(parts)}, got "
                f"{len(said)}, in {sharding}, for {shape}",
                "write one for all of them, such as {replicated}, or one for each",
            )
        each: Sequence[Tiling | MeshSharding] = said
    else:
        each = [said] * len(parts)
    texts: list[str] = []
    for one, leaf in zip(each, parts, strict=True):
        found = _on_leaf(one, leaf, is_said_of_it)
        if isinstance(found, Misfit):
            return found._replace(fix=_FIX_TUPLE)
        # What is not cut in a tuple that is: it has to be said in a tuple.
        texts.append(_whole(one) if found is None else found)
    return join_leaf_texts(texts)


def _whole(sharding: Tiling | MeshSharding) -> str:
    """What is said of a scalar, or a token, in a tuple whose arrays are cut up."""
    if isinstance(sharding, MeshSharding):
        return str(MeshSharding(sharding.mesh))
    return "{replicated}"


def _on_leaf(
    sharding: Tiling | MeshSharding, leaf: Shape, is_said_of_it: bool
) -> str | Misfit | None:
    if isinstance(leaf, ArrayShape):
        rule, rank = sharding.misfit(leaf), leaf.rank
    else:
        rule, rank = _misfit_of_token(sharding), 0
    if rule is not None:
        if not is_said_of_it and not rank:
            return None
        return Misfit(rule, _FIX_TILING if isinstance(sharding, Tiling) else _FIX_MESH)
    return sharding.text if isinstance(sharding, Tiling) else str(sharding.at_rank(rank))


def _misfit_of_token(sharding: Tiling | MeshSharding) -> str | None:
    is_cut = sharding.dimensions if isinstance(sharding, MeshSharding) else sharding.tiles
    return f"a token is not cut up, got {sharding}" if is_cut else None


def shardings_on_leaves(
    op: str, name: str, shape: Shape, given: Any
) -> tuple[list[str | None], list[ShardingLike]]:
    """Of each array of a value its sharding, as a user said them.

    Args:
        op, name: for messages: which op, which of its arguments.
        shape: the shape of the value.
        given: one sharding for all of it, or for a tuple a sequence of as many as there are
            elements, each of them one, such a sequence, or None for nothing said.

    Returns:
        The texts, and what was said.

    Raises:
        OperandError, ShapeTextError, ShapeInferenceError: it is not that, or does not fit.
    """
    texts: list[str | None] = []
    said: list[ShardingLike] = []
    waiting: list[tuple[Shape, Any]] = [(shape, given)]
    while waiting:
        part, one = waiting.pop()
        count = part.leaf_count if isinstance(part, TupleShape) else 1
        if one is None:
            texts += [None] * count
        elif isinstance(one, (list, tuple)):
            if not isinstance(part, TupleShape) or len(part.elements) != len(one):
                raise ShapeInferenceError(
                    f"{op}: {name} must have one sharding, or None, for each element of the tuple, "
                    f"got {len(one)} for {part}",
                    op=op,
                    shapes={name: part},
                )
            waiting += reversed(list(zip(part.elements, one, strict=True)))
        else:
            sharding = check_sharding_type(op, one, name)
            said.append(sharding)
            for leaf in leaves(part):
                texts.append(fitting_sharding(op, name, leaf, sharding))
    return texts, said


def tiling_of_whole(op: str, full: ArrayShape, given: Any) -> Tiling:
    """The tiling of an array whose parts a program works on by itself.

    Args:
        op: for messages.
        full: the shape of the whole array.
        given: what a user passed as its sharding.

    Raises:
        OperandError, ShapeTextError: it is no sharding.
        ShapeInferenceError: it does not fit, or does not say how the array is cut up.
    """
    sharding = check_sharding_type(op, given)
    text = fitting_sharding(op, "full_shape", full, sharding)
    if not isinstance(sharding, str):
        text = sharding.at_rank(full.rank).tiling
    tiling = parse_tiling(text)
    if tiling.kind not in ("tiled", "replicated") or "manual" in tiling.subgroups:
        raise ShapeInferenceError(
            f"{op}: sharding must say how the whole array is cut up: {{replicated}} or tiles, "
            f"got {text}\nfix: '{{devices=[2,1]<=[2]}}', or mesh.sharding('x', None)",
            op=op,
            shapes={"full_shape": full},
        )
    return tiling


def register_sharding(builder: XlaBuilder, op: str, sharding: ShardingLike) -> None:
    """Notes in whose words the shardings of a program are said, and the mesh that they name.

    Raises:
        BuilderError: others are said in the other words; the program has another mesh of the name.
    """
    if isinstance(sharding, str):
        register_sharding_form(builder, op, GSPMD, brief(sharding), "mesh.sharding(...)")
    else:
        fix = f"{_spelled(sharding)}.tiling"
        register_sharding_form(builder, op, SHARDY, str(sharding), fix)
        name_meshes(builder, op, {sharding.mesh.name: {"mesh": str(sharding.mesh)}})


def register_sharding_form(builder: XlaBuilder, op: str, form: str, got: str, instead: str) -> None:
    """Notes in whose words the shardings of a program are said.

    XLA partitions a program by the ones or by the others, and says nothing of those that it does
    not look at: an argument that was to be cut up is whole on each device, or XLA fails at an
    operation that is none of the program's.

    Args:
        builder: the builder; the program is that of the outermost one.
        op: for messages.
        form: whose words.
        got, instead: for messages: what is said, and how it would be said in the other words.

    Raises:
        BuilderError: others are said in the other words.
    """
    outer = builder
    while outer.parent is not None:
        outer = outer.parent
    if outer.sharding_form and outer.sharding_form != form:
        raise BuilderError(
            f"{op}: a program says how arrays are cut up by tilings, to GSPMD, or by the axes of a "
            f"mesh, to Shardy, and not both, got {got} in {outer.name!r}, which has "
            f"{outer.sharding_form}\n"
            f"fix: say {instead} here, or the others in the words of this one",
            op=op,
        )
    outer.sharding_form = form


def _spelled(sharding: ShardingLike) -> str:
    entries = sharding.dimensions if isinstance(sharding, MeshSharding) else ()
    said = [repr(one[0] if len(one) == 1 else one or None) for one in entries]
    return f"mesh.sharding({', '.join(said)})"


def name_meshes(builder: XlaBuilder, op: str, meshes: Any, of: str = "") -> None:
    """Tells a builder of meshes that the shardings of its ops name.

    Args:
        builder: the builder.
        op: for messages.
        meshes: the meshes by name, as `Annotations` has them.
        of: for messages: what names them.

    Raises:
        BuilderError: it has another mesh of the same name.
    """
    said = builder.annotations or Annotations()
    both = dict(said.meshes)
    for name, mesh in meshes.items():
        if both.setdefault(name, mesh) != mesh:
            whose = f"{of!r} names another mesh" if of else "there is another mesh"
            where = "than" if of else "in"
            raise BuilderError(
                f"{op}: {whose} {name!r} {where} builder {builder.name!r}, got\n"
                f"  {both[name]['mesh']}\n  {mesh['mesh']}{f', in {of!r}' if of else ''}\n"
                f"fix: {_FIX_MESHES if of else _FIX_MESH_NAMES}",
                op=op,
            )
    if len(both) != len(said.meshes):
        builder.annotations = said._replace(meshes=both)
