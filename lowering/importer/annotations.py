"""What operations, arguments, results and modules say besides what they compute.

MLIR lets any operation carry attributes of any dialect. Those that XLA knows for all operations are
an op's sharding and frontend attributes; the others are kept as the text that they have in MLIR,
and are lowered to it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any, Final

from jaxlib.mlir import ir

from builder.attributes.annotations import NO_ATTRIBUTES, NO_MESHES, Annotations, AttributeTexts
from builder.graph.xla_op import XlaOp, with_metadata
from builder.sharding.text import is_shardy, join_leaf_texts, leaf_texts
from builder.types.shape import ArrayShape, ProgramShape, Shape, leaves
from lowering.errors import LoweringError
from lowering.importer.tables import Tables
from lowering.mlir.attributes import ARGUMENT_NAME
from lowering.mlir.donations import ALIASING, DONOR
from lowering.mlir.types import attribute_text
from lowering.pjrt.entry_layouts import LAYOUT_MODE
from lowering.sharding.attributes import GSPMD, SHARDINGS, SHARDY

__all__ = [
    "annotate",
    "annotations_of",
    "argument_attributes",
    "foreign_names",
    "of_all_leaves",
]

_FRONTEND: Final = "mhlo.frontend_attributes"

_READ: Final = {
    "stablehlo.custom_call": frozenset(("mhlo.attributes", "mhlo.backend_config", "mhlo.version"))
}
"""Attributes of other dialects that importers read."""


def foreign_names(operation: ir.Operation, name: str, tables: Tables) -> tuple[str, ...]:
    """The names of an operation's attributes that are not its own, by which other programs speak
    to each other."""
    key = name, tuple(operation.attributes)
    found = tables.foreign.get(key)
    if found is None:
        found = tables.foreign[key] = _foreign(operation, *key)
    return found


def _foreign(operation: ir.Operation, kind: str, names: tuple[str, ...]) -> tuple[str, ...]:
    classes: tuple[Any, ...] = type(operation.opview).__mro__
    if classes[0] is ir.OpView:  # Python has no class for it, and so no list of its attributes
        return tuple(name for name in names if "." in name)
    own = set(_READ.get(kind, ()))
    for one in classes[: classes.index(ir.OpView)]:
        own |= vars(one).keys()
    return tuple(name for name in names if name not in own)


def annotate(
    op: XlaOp,
    attributes: ir.OpAttributeMap | ir.DictAttr | Mapping[str, ir.Attribute],
    names: Iterable[str],
    tables: Tables,
) -> None:
    """Notes on an op what attributes of these names say.

    Raises:
        LoweringError: they are two shardings.
    """
    changes: dict[str, Any] = {}
    others: dict[str, str] = {}
    for name in names:
        try:
            attribute = attributes[name]
        except TypeError:  # complex elements, which MLIR's Python has no class for
            continue
        if name in SHARDINGS:
            if "sharding" in changes:
                raise LoweringError(f"it has two shardings, {' and '.join(SHARDINGS)}")
            changes["sharding"] = _sharding_text(attribute)
        elif name == _FRONTEND and _are_texts(attribute):
            changes["frontend_attributes"] = tables.value(attribute)
        else:
            others[name] = str(attribute)
    if others:
        changes["others"] = others
    if changes:
        op.metadata = with_metadata(op.metadata, **changes)


def _sharding_text(attribute: ir.Attribute | str) -> str:
    """GSPMD's is text, Shardy's an attribute; of one value it is that of the value."""
    text = attribute if isinstance(attribute, str) else attribute_text(attribute) or str(attribute)
    each = leaf_texts(text, 1) if is_shardy(text) else [text]
    return each[0] if len(each) == 1 else text


def of_all_leaves(said: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What is said of the arrays of a tuple, as it is said of the tuple; None where it can't be.

    Args:
        said: of each array the attributes that an op can carry.
    """
    first = dict(said[0])
    if len(said) == 1:
        return first
    shardings = [[one[name] for name in SHARDINGS if name in one] for one in said]
    others = [{n: one[n] for n in one if n not in SHARDINGS} for one in said]
    if any(one != others[0] for one in others):
        return None
    if not any(shardings):
        return first
    texts = [_sharding_text(each[0]) for each in shardings if len(each) == 1]
    if len(texts) < len(said) or len({is_shardy(text) for text in texts}) > 1:
        return None
    name = SHARDY if is_shardy(texts[0]) else GSPMD
    return {**others[0], name: join_leaf_texts(texts)}


def _are_texts(attribute: ir.Attribute) -> bool:
    if not isinstance(attribute, ir.DictAttr):
        return False
    names = [attribute[i].name for i in range(len(attribute))]
    return all(attribute_text(attribute[name]) is not None for name in names)


def argument_attributes(function: ir.Operation, key: str, count: int) -> list[Mapping[str, Any]]:
    """What is said of each argument ("arg_attrs") or result ("res_attrs") of a function."""
    if key not in function.attributes:
        return [{}] * count
    found: list[Mapping[str, Any]] = []
    for one in ir.ArrayAttr(function.attributes[key]):
        said = ir.DictAttr(one)
        names = [said[i].name for i in range(len(said))]
        try:
            found.append({name: said[name] for name in names})
        except (KeyError, TypeError):  # names out of order; what Python has no class for
            name = attribute_text(function.attributes["sym_name"])
            raise LoweringError(
                f"to_computation: func.func: {key} of @{name} can't be read: {one}",
                op="func.func",
            ) from None
    return found


_OF_MODULES: Final = frozenset(("sym_name",))
_OF_FUNCTIONS: Final = frozenset(
    ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")
)
_OF_ARGUMENTS: Final = frozenset((ARGUMENT_NAME, ALIASING, DONOR))


def _texts(attributes: Any, known: frozenset[str]) -> AttributeTexts:
    """Attributes as text, but for those that are known, and our own."""
    names = [n for n in attributes if n not in known and not n.startswith("xlabuilder.")]
    return {name: str(attributes[name]) for name in names} or NO_ATTRIBUTES


def _leaf_texts(
    attributes: Mapping[str, Any], leaf: Shape, with_metadata: frozenset[str]
) -> AttributeTexts:
    """What stays to be said of an argument or a result, of which some is noted already."""
    if _OF_ARGUMENTS.issuperset(attributes):  # as of nearly all, in a fifth of the time
        return NO_ATTRIBUTES
    known = _OF_ARGUMENTS | with_metadata
    if isinstance(leaf, ArrayShape) and leaf.layout is not None:
        known = known | {LAYOUT_MODE}  # the shape says it
    return _texts(attributes, known)


def _only_sharding(said: Mapping[str, Any]) -> str | None:
    """The sharding among the attributes of a result; None if there is none, or there are two."""
    found = [said[name] for name in SHARDINGS if name in said]
    return _sharding_text(found[0]) if len(found) == 1 else None


def annotations_of(
    function: ir.Operation,
    shape: ProgramShape,
    said: Sequence[Mapping[str, Any]],
    noted_already: list[frozenset[str]],
    module: ir.Module | None = None,
) -> Annotations | None:
    """What a function says that belongs to none of its ops; of @main also what its module says.

    Args:
        function: the function.
        shape: its parameters and its result.
        said: the attributes of its arguments.
        noted_already: for each argument the attributes that its parameter carries.
        module: the module, if this is its @main.
    """
    inputs = [leaf for one in shape.parameters for leaf in leaves(one)]
    parameters = list(starmap(_leaf_texts, zip(said, inputs, noted_already, strict=True)))
    outputs = list(leaves(shape.result))
    of_results = argument_attributes(function, "res_attrs", len(outputs))
    shardings = tuple(map(_only_sharding, of_results))
    with_metadata = [frozenset(() if sharding is None else SHARDINGS) for sharding in shardings]
    results = list(starmap(_leaf_texts, zip(of_results, outputs, with_metadata, strict=True)))
    meshes: dict[str, AttributeTexts] = {}
    if module is not None:
        for view in module.body.operations:
            operation = view.operation
            if operation.name == "sdy.mesh":
                name = attribute_text(operation.attributes["sym_name"]) or ""
                meshes[name] = _texts(operation.attributes, _OF_MODULES)
    found = Annotations(
        module=NO_ATTRIBUTES
        if module is None
        else _texts(module.operation.attributes, _OF_MODULES),
        function=_texts(function.attributes, _OF_FUNCTIONS),
        parameters=tuple(parameters) if any(parameters) else (),
        results=tuple(results) if any(results) else (),
        meshes=meshes or NO_MESHES,
        result_shardings=shardings if any(shardings) else (),
    )
    return found if any(found) else None
