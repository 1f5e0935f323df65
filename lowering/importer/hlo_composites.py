"""Composites with several results in HLO, which jaxlib's converter does not support.

The converter gives such a composite one result, though its decomposition has several. So the
instructions become plain calls before the conversion, and composites again after it.
"""

from __future__ import annotations

import re
from typing import Any, Final

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
