"""Change HLO that jaxlib's converter does not support, before it reads the HLO.

The converter gives a composite one result, though its decomposition may have several. So such
instructions become plain calls before the conversion, and composites again after it.

In HLO text, groups along mesh axes are ``replica_groups=mesh['a'=2,'b'=2], device_ids=(0,2,1,3)
{'a'}``. The converter ignores `device_ids`, so its module would have wrong groups.

The converter makes locations of the names and source lines in the metadata. It drops types, and the
source lines of instructions without a name in their metadata.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir

from lowering.mlir.operations import attribute_text, dictionary, operations_in
from lowering.reading.protocol_buffers import (
    encoded_field,
    encoded_number,
    fields_of,
    numbers_in,
    replaced,
)
from lowering.reading.text_limits import exceeded_limit
from lowering.sharding.participants import AxisPart, groups_along

COMPOSITE: Final = re.compile(rb"\bis_composite=true\b")
"""Finds composites in HLO text."""

_INSTRUCTIONS: Final = (3, 2)
"""The fields HloModuleProto.computations and HloComputationProto.instructions."""
_SHAPE: Final = 3
"""The field HloInstructionProto.shape."""
_IS_COMPOSITE: Final = encoded_number(89 << 3)
"""The tag of the field HloInstructionProto.is_composite."""
_ELEMENT_TYPE: Final = 2
"""The field ShapeProto.element_type."""
_TUPLE: Final = 13
"""The element type of tuples."""


def without_tuple_composites(module: bytes) -> bytes:
    """Return an HloModuleProto in which composites with a tuple as result are plain calls.

    A damaged message is returned unchanged, because XLA refuses it.
    """
    if _IS_COMPOSITE + b"\1" not in module:
        return module
    try:
        return replaced(memoryview(module), _INSTRUCTIONS, _plain)
    except IndexError:
        return module


def _plain(instruction: memoryview) -> bytes:
    content = bytes(instruction)
    if _IS_COMPOSITE + b"\1" in content:
        fields = fields_of(instruction)
        shape = fields_of(fields[_SHAPE][-1]) if _SHAPE in fields else {}
        if _TUPLE in numbers_in(shape.get(_ELEMENT_TYPE, ())):
            content += _IS_COMPOSITE + b"\0"  # readers use the last value of a field
    return encoded_field(_INSTRUCTIONS[-1], content)


_FRONTEND: Final = "mhlo.frontend_attributes"


def restore_composites(module: ir.Module) -> None:
    """Replace calls by composites, in place, if their frontend attributes describe a composite."""
    for call in operations_in(module.operation, ("func.call",)):
        attributes = _composite_attributes(call)
        if attributes is None:
            continue
        composite = ir.Operation.create(
            "stablehlo.composite",
            [result.type for result in call.results],
            list(call.operands),
            attributes,
            loc=call.location,
            ip=ir.InsertionPoint(call),
        )
        for result, value in zip(call.results, composite.results, strict=True):
            result.replace_all_uses_with(value)
        call.erase()


def _composite_attributes(call: ir.Operation) -> dict[str, ir.Attribute] | None:
    """The attributes of the composite that a call replaced; None if it replaced none."""
    given = {name: call.attributes[name] for name in call.attributes}
    frontend = dictionary(given.pop(_FRONTEND)) if _FRONTEND in given else {}
    name, version, inner = (
        attribute_text(frontend.pop(f"composite.{key}", None))
        for key in ("name", "version", "attributes")
    )
    if name is None or not (version or "0").isdecimal() or exceeded_limit(inner or ""):
        return None
    context: Any = call.context
    handler = context.attach_diagnostic_handler(lambda _: True)  # print nothing
    try:
        given["composite_attributes"] = ir.Attribute.parse(inner or "{}", call.context)
        given["version"] = ir.Attribute.parse(f"{version or 0} : i32", call.context)
    except (ir.MLIRError, ValueError):
        return None
    finally:
        handler.detach()
    given["name"] = ir.StringAttr.get(name, call.context)
    given["decomposition"] = given.pop("callee")
    if frontend:
        given[_FRONTEND] = ir.DictAttr.get(frontend, call.context)
    return given if isinstance(given["composite_attributes"], ir.DictAttr) else None


_COMPUTATIONS: Final = 3
"""The number of the field HloModuleProto.computations."""
_GROUPED: Final = 2
"""The number of the field HloComputationProto.instructions."""
_LISTED_GROUPS: Final = 87
"""The number of the field HloInstructionProto.collective_device_list."""
_GROUPS_ALONG_AXES: Final = 93
"""The number of the field HloInstructionProto.mesh_axes_replica_group_list."""

_TAG: Final = encoded_field(_GROUPS_ALONG_AXES, b"")[:-1]


def with_listed_groups(module: bytes) -> bytes:
    """Return an HloModuleProto with replica groups along mesh axes replaced by lists of groups.

    A damaged message is returned unchanged, because XLA refuses it.
    """
    if _TAG not in module:
        return module
    path = (_COMPUTATIONS, _GROUPED, _GROUPS_ALONG_AXES)
    try:
        return replaced(memoryview(module), path, _listed)
    except (IndexError, KeyError, ValueError):
        return module


def _listed(value: memoryview) -> bytes:
    """Encode a MeshAxesReplicaGroupListProto as the field `_LISTED_GROUPS`, a list of groups."""
    fields = fields_of(value)
    mesh = fields_of(fields[1][0])
    sizes = [_number(fields_of(axis), 2) for axis in mesh.get(1, ())]
    parts = [_part(axis) for axis in fields.get(2, ())]
    groups = groups_along(sizes, parts, _device_ids(mesh, math.prod(sizes)))
    message = b"".join(
        encoded_field(1, encoded_field(1, b"".join(map(encoded_number, group)))) for group in groups
    )
    return encoded_field(_LISTED_GROUPS, message)


def _number(fields: dict[int, list[memoryview]], number: int) -> int:
    """Return the integer value of the field `number`; 0 for an absent field."""
    return numbers_in(fields[number])[-1] if number in fields else 0


def _part(value: memoryview) -> AxisPart:
    """Return the part of a mesh axis that an AxisRefProto describes."""
    fields = fields_of(value)
    axis = _number(fields, 1)
    if 2 not in fields:
        return AxisPart(axis)
    part = fields_of(fields[2][0])
    return AxisPart(axis, _number(part, 1), _number(part, 2))


def _device_ids(mesh: dict[int, list[memoryview]], count: int) -> list[int]:
    """Return the device ids of a mesh in order: those listed, or a transposed range(count)."""
    if 3 not in mesh:
        return numbers_in(mesh.get(2, ()))
    order = fields_of(mesh[3][0])
    sizes, permutation = numbers_in(order[1]), numbers_in(order[2])
    devices: list[int] = np.arange(count).reshape(sizes).transpose(permutation).ravel().tolist()
    return devices


TYPE_END: Final = ":\x1f"
"""The end of the type in the names that `with_complete_names` writes."""

INCOMPLETE: Final = re.compile(rb"\bop_type=|\bmetadata=\{\s*source_file=")
"""Finds metadata in HLO text that `with_complete_names` changes."""
"""The fields HloModuleProto.computations and HloComputationProto.instructions."""
_NAME: Final = 1
"""The field HloInstructionProto.name."""
_METADATA: Final = 7
"""The field HloInstructionProto.metadata."""
_OP_TYPE, _OP_NAME, _SOURCE_FILE = 1, 2, 3
"""Fields of OpMetadata."""

# The tag of the metadata, its size, and the tag of its first field: the type or the file. The
# pattern may occur in other fields too.
_MAY_BE_INCOMPLETE: Final = re.compile(rb":[\x80-\xff]{0,4}[\x00-\x7f][\n\x1a]")


def with_complete_names(module: bytes) -> bytes:
    r"""Return an HloModuleProto with names in the metadata that has types or source files.

    The name of an instruction with a type is ``TYPE:\x1fNAME``. The default name is that of the
    instruction. A damaged message is returned unchanged, because XLA refuses it.
    """
    if _MAY_BE_INCOMPLETE.search(module) is None:
        return module
    try:
        return replaced(memoryview(module), _INSTRUCTIONS, _named)
    except IndexError:
        return module


def _named(instruction: memoryview) -> bytes:
    """Encode an HloInstructionProto as a field of its computation, with a complete name."""
    fields = fields_of(instruction)
    content = bytes(instruction)
    metadata = fields_of(fields[_METADATA][-1]) if _METADATA in fields else {}
    if _OP_TYPE in metadata or (_SOURCE_FILE in metadata and _OP_NAME not in metadata):
        names = metadata.get(_OP_NAME) or fields.get(_NAME) or [memoryview(b"")]
        name = bytes(names[-1])
        if _OP_TYPE in metadata:
            name = bytes(metadata[_OP_TYPE][-1]) + TYPE_END.encode() + name
        # Readers merge the messages of a field, and use the last text of a field.
        content += encoded_field(_METADATA, encoded_field(_OP_NAME, name))
    return encoded_field(_INSTRUCTIONS[-1], content)
