"""The annotations of operations, arguments, results and modules.

MLIR allows any operation to carry attributes of any dialect. Shardings and frontend attributes,
which XLA supports on all operations, become metadata of the op. Other attributes are preserved as
MLIR text, and lowered to it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jaxlib.mlir import ir

from builder.attributes.annotations import NO_ATTRIBUTES, NO_MESHES, Annotations, AttributeTexts
from builder.graph.xla_op import XlaOp, with_metadata
from builder.sharding.text import is_shardy, join_leaf_texts, leaf_texts
from builder.types.shape import ArrayShape, ProgramShape, Shape, leaves
from lowering.errors import LoweringError
from lowering.importer.tables import Tables
from lowering.mlir.attributes import ALIASING, ARGUMENT_NAME, DONOR, REPLICATION
from lowering.mlir.operations import argument_attributes, attribute_text, entry_text, symbol_name
from lowering.pjrt.entry_layouts import LAYOUT_MODE
from lowering.sharding.texts import GSPMD, SHARDINGS, SHARDY
from lowering.stablehlo.platforms import PLATFORMS

_FRONTEND: Final = "mhlo.frontend_attributes"

_READ: Final = {
    "stablehlo.custom_call": frozenset(("mhlo.attributes", "mhlo.backend_config", "mhlo.version"))
}
"""The attributes of other dialects that the importer of an operation reads, by operation name."""


def foreign_names(operation: ir.Operation, name: str, tables: Tables) -> tuple[str, ...]:
    """Return the names of an operation's attributes that its dialect does not define."""
    key = name, tuple(operation.attributes)
    names = tables.foreign.get(key)
    if names is None:
        names = tables.foreign[key] = _foreign(operation, *key)
    return names


def _foreign(operation: ir.Operation, name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    classes: tuple[Any, ...] = type(operation.opview).__mro__
    if classes[0] is ir.OpView:  # jaxlib has no class with its attributes
        return tuple(name for name in names if "." in name)
    defined = set(_READ.get(name, ()))
    for view in classes[: classes.index(ir.OpView)]:
        defined |= vars(view).keys()
    return tuple(name for name in names if name not in defined)


def annotate(
    op: XlaOp,
    attributes: ir.OpAttributeMap | ir.DictAttr | Mapping[str, ir.Attribute],
    names: Iterable[str],
    tables: Tables,
) -> None:
    """Set the metadata of an op from the attributes in `names`.

    Raises:
        LoweringError: `names` has two shardings: a GSPMD and a Shardy one.
    """
    changes: dict[str, Any] = {}
    others: dict[str, str] = {}
    for name in names:
        try:
            attribute = attributes[name]
        except TypeError:  # MLIR's Python has no class for complex elements
            continue
        if name in SHARDINGS:
            if "sharding" in changes:
                raise LoweringError("only one sharding is supported", got=" and ".join(SHARDINGS))
            changes["sharding"] = _sharding_text(attribute)
        elif name == _FRONTEND and _has_only_texts(attribute):
            changes["frontend_attributes"] = tables.value(attribute)
        else:
            others[name] = str(attribute)
    if others:
        changes["others"] = others
    if changes:
        op.metadata = with_metadata(op.metadata, **changes)


def _sharding_text(attribute: ir.Attribute | str) -> str:
    """Return the text of a GSPMD or Shardy sharding; for a list of one sharding, that sharding."""
    text = attribute if isinstance(attribute, str) else attribute_text(attribute) or str(attribute)
    texts = leaf_texts(text, 1) if is_shardy(text) else [text]
    return texts[0] if len(texts) == 1 else text


def of_all_leaves(leaf_attributes: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Combine the attributes of leaves into attributes of a tuple op.

    Return None if the metadata of one op can't represent the attributes of all leaves.

    Args:
        leaf_attributes: for each leaf, the attributes that the metadata of an op can represent.
    """
    first = dict(leaf_attributes[0])
    count = len(leaf_attributes)
    if count == 1:
        return first
    others = [
        {name: value for name, value in attributes.items() if name not in SHARDINGS}
        for attributes in leaf_attributes
    ]
    if any(attributes != others[0] for attributes in others):
        return None
    shardings = [attributes.keys() & SHARDINGS for attributes in leaf_attributes]
    if not any(shardings):
        return first
    texts = list(filter(None, map(_only_sharding, leaf_attributes)))
    if len(texts) < count or len(set(map(is_shardy, texts))) > 1:
        return None
    name = SHARDY if is_shardy(texts[0]) else GSPMD
    return {**others[0], name: join_leaf_texts(texts)}


def _only_sharding(attributes: Mapping[str, Any]) -> str | None:
    """Return the only sharding among the attributes; None if there is no sharding, or two."""
    shardings = [attributes[name] for name in SHARDINGS if name in attributes]
    return _sharding_text(shardings[0]) if len(shardings) == 1 else None


def _has_only_texts(attribute: ir.Attribute) -> bool:
    return isinstance(attribute, ir.DictAttr) and all(
        entry_text(attribute, attribute[i].name) is not None for i in range(len(attribute))
    )


_OF_NOTHING: Final = frozenset[str]()
_OF_MODULES: Final = frozenset(("sym_name",))
_OF_FUNCTIONS: Final = frozenset(
    ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")
)
_OF_ARGUMENTS: Final = frozenset((ARGUMENT_NAME, ALIASING, DONOR))


def replicated_leaves(leaf_attributes: Sequence[Mapping[str, Any]]) -> tuple[bool, ...]:
    """Return for each leaf of a parameter whether its attributes mark it as replicated."""
    return tuple(map(_is_replicated, leaf_attributes))


def _is_replicated(attributes: Mapping[str, Any]) -> bool:
    return REPLICATION in attributes and str(attributes[REPLICATION]) == "[true]"


def _texts(attributes: Any, known: frozenset[str]) -> AttributeTexts:
    """Return the attributes as text, except those in `known` and those that `lower` writes."""
    names = [n for n in attributes if n not in known and not _is_written(n)]
    return {name: str(attributes[name]) for name in names} or NO_ATTRIBUTES


def _is_written(name: str) -> bool:
    """Return whether `lower` writes the attribute for any computation that needs it."""
    return name.startswith("xlabuilder.") and name != PLATFORMS


def _leaf_texts(
    attributes: Mapping[str, Any], leaf: Shape, in_metadata: frozenset[str]
) -> AttributeTexts:
    """Return the attributes of an argument or a result as text, except those in `in_metadata`."""
    if _OF_ARGUMENTS.issuperset(attributes):  # the frequent case
        return NO_ATTRIBUTES
    known = _OF_ARGUMENTS | in_metadata
    if _is_replicated(attributes):
        known = known | {REPLICATION}
    if isinstance(leaf, ArrayShape) and leaf.layout is not None:
        known = known | {LAYOUT_MODE}  # the shape has the layout
    return _texts(attributes, known)


def annotations_of(
    function: ir.Operation,
    shape: ProgramShape,
    attributes: Sequence[Mapping[str, Any]],
    in_metadata: list[frozenset[str]],
    module: ir.Module | None = None,
    nesting: Any = None,
) -> Annotations | None:
    """Return the annotations of a function that are not in the metadata of its ops, or None.

    Args:
        function: the function.
        shape: the parameters and the result of the function.
        attributes: the attributes of each argument.
        in_metadata: for each argument, the names of attributes in its parameter's metadata.
        module: the module, if the function is @main.
        nesting: the nesting of the arguments and results, if it is known.
    """
    inputs = [leaf for parameter in shape.parameters for leaf in leaves(parameter)]
    parameters = tuple(map(_leaf_texts, attributes, inputs, in_metadata))
    outputs = list(leaves(shape.result))
    of_results = argument_attributes(function, "res_attrs", "to_computation")
    shardings = tuple(map(_only_sharding, of_results))
    known = [frozenset(() if sharding is None else SHARDINGS) for sharding in shardings]
    results = tuple(map(_leaf_texts, of_results, outputs, known))
    meshes: dict[str, AttributeTexts] = {}
    if module is not None:
        for view in module.body.operations:
            operation = view.operation
            if operation.name == "sdy.mesh":
                meshes[symbol_name(operation)] = _texts(operation.attributes, _OF_MODULES)
    of_module: Any = {} if module is None else module.operation.attributes
    (block,) = function.regions[0].blocks
    annotations = Annotations(
        module=_texts(of_module, _OF_MODULES),
        function=_texts(function.attributes, _OF_FUNCTIONS),
        parameters=parameters if any(parameters) else (),
        results=results if any(results) else (),
        meshes=meshes or NO_MESHES,
        result_shardings=shardings if any(shardings) else (),
        terminator=_of_terminator(block.operations[len(block.operations) - 1].operation),
        nesting=nesting,
    )
    return annotations if any(annotations) else None


def annotations_of_region(terminator: ir.Operation) -> Annotations | None:
    """Return the annotations of the computation of a region, or None."""
    attributes = _of_terminator(terminator)
    return Annotations(terminator=attributes) if attributes else None


def _of_terminator(operation: ir.Operation) -> AttributeTexts:
    return _texts(operation.attributes, _OF_NOTHING) if len(operation.attributes) else NO_ATTRIBUTES
