"""The StableHLO version of a portable artifact: what each introduced, what a module needs.

The tables repeat the version log of VHLO, the dialect of portable artifacts. A table has the first
version that expresses an element type, an operation, or a form of an operation without a change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from builder.errors import brief, error_of
from builder.graph import registry
from builder.schema import SCHEMAS, Trait
from lowering.errors import VersionError, recorded_at
from lowering.jaxlib_api import versions
from lowering.jaxlib_api.versions import current_version, jaxlib_version
from lowering.mlir.attributes import ARGUMENT_NAME
from lowering.mlir.operations import entry_text, functions_in, operations_in, operations_where
from lowering.reading.bytecode_tables import Entry, number_at, operation_names, table_entries

FLOOR: Final = "1.0.0"
"""The oldest version that is written by default.

From this version on, StableHLO guarantees that readers of the next five years accept a file. The
releases of jaxlib, TensorFlow and IREE since May 2024 read it.
"""

ELEMENT_TYPES: Final = {
    "f8E4M3FNUZ": "0.10.0",
    "f8E5M2FNUZ": "0.10.0",
    "f8E4M3B11FNUZ": "0.11.0",
    "i2": "1.2.0",
    "ui2": "1.2.0",
    "f8E4M3": "1.7.0",
    "f8E3M4": "1.7.0",
    "f4E2M1FN": "1.8.0",
    "f6E2M3FN": "1.8.0",
    "f6E3M2FN": "1.8.0",
    "f8E8M0FNU": "1.8.0",
}
"""The version of each element type that StableHLO 0.9.0 does not have."""

OPERATIONS: Final = {
    "stablehlo.collective_broadcast": "0.16.0",
    "stablehlo.composite": "0.19.0",
    "stablehlo.tan": "1.4.0",
    "stablehlo.async_start": "1.15.0",
    "stablehlo.async_done": "1.15.0",
    "stablehlo.collective_reduce": "1.19.0",
}
"""The version of each operation that StableHLO 0.9.0 does not have."""

COMPOSITE: Final = "the operation composite"
"""The subject of the need of composites, which `composites="inline"` removes."""

_EXPANDED: Final = {
    f"chlo.{name}"
    for name in (
        *("atan", "bessel_i1e", "conj", "digamma", "erf_inv", "is_inf", "is_neg_inf", "is_pos_inf"),
        *("lgamma", "next_after", "polygamma", "square", "zeta"),
        *(("erfc",) if tuple(map(int, jaxlib_version().split(".")[:2])) < (0, 12) else ()),
    )
}
"""The CHLO operations that jaxlib writes as other operations. The others become composites."""


_REWRITTEN: Final = {"chlo.tan": "1.4.0"}
"""The first version of each operation that earlier versions express by other operations."""


_FUTURE: Final = "!stablehlo.future<"


class Form(NamedTuple):
    """A form of operations that later versions introduced.

    Attributes:
        version: the first version with this form.
        names: the operations, without the dialect.
        feature: what the form has, for messages.
        applies: returns whether an operation has this form.
        has_new_entry: whether the form needs a type or an attribute that `_has_new_entries` finds.
    """

    version: str
    names: tuple[str, ...]
    feature: str
    applies: Callable[[ir.Operation], bool]
    has_new_entry: bool = False


def _has(name: str) -> Callable[[ir.Operation], bool]:
    return lambda operation: name in operation.attributes


def _text_has(attribute: str, *texts: str) -> Callable[[ir.Operation], bool]:
    """Return a condition: an attribute whose text contains all of `texts`."""

    def applies(operation: ir.Operation) -> bool:
        if attribute not in operation.attributes:
            return False
        text = str(operation.attributes[attribute])
        return all(part in text for part in texts)

    return applies


def _has_operands(prefix: str) -> Callable[[ir.Operation], bool]:
    """Return a condition: an operand of a type that starts with `prefix`."""
    return lambda operation: any(str(v.type).startswith(prefix) for v in operation.operands)


def _has_accuracy(operation: ir.Operation) -> bool:
    """Whether an operation requests an accuracy other than the default."""
    return "result_accuracy" in operation.attributes and "DEFAULT" not in str(
        operation.attributes["result_accuracy"]
    )


def _has_dictionary(operation: ir.Operation) -> bool:
    return "backend_config" in operation.attributes and isinstance(
        operation.attributes["backend_config"], ir.DictAttr
    )


def _has_buffers(operation: ir.Operation) -> bool:
    values = (*operation.operands, *operation.results)
    return any(isinstance(value.type, ir.MemRefType) for value in values)


def _has_several_results(operation: ir.Operation) -> bool:
    return len(operation.results) > 1


def _batches_gather(operation: ir.Operation) -> bool:
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    return bool(numbers.operand_batching_dims)


def _batches_scatter(operation: ir.Operation) -> bool:
    numbers = stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
    return bool(numbers.input_batching_dims)


def _element_type(value: Any) -> str:
    value_type = value.type
    return str(value_type.element_type) if isinstance(value_type, ir.ShapedType) else ""


def _has_other_region_types(operation: ir.Operation) -> bool:
    """Whether the first region computes in another element type than that of the operand."""
    arguments = operation.regions[0].blocks[0].arguments
    return len(arguments) > 0 and _element_type(arguments[0]) != _element_type(
        operation.operands[0]
    )


def _has_mixed_operands(operation: ir.Operation) -> bool:
    return len({_element_type(value) for value in list(operation.operands)[:2]}) > 1


_ON_ELEMENTS: Final = Trait.ON_ELEMENTS | Trait.COLLECTIVE
_PROMOTING: Final = tuple(
    schema.stablehlo.partition(".")[2]
    for schema in SCHEMAS.values()
    if schema.computations and schema.traits & _ON_ELEMENTS
)
"""The operations with a computation of scalars, whose element type may be that of the result."""


def _with_attribute(name: str) -> list[str]:
    """Return the operations with an attribute, without the dialect."""
    schemas = (s for s in SCHEMAS.values() if name in [a.name for a in s.value_attributes])
    return sorted({schema.stablehlo.partition(".")[2] for schema in schemas})


_ACCURATE: Final = tuple(n for n in _with_attribute("result_accuracy") if n != "exponential")
_WITH_GROUPS: Final = (*_with_attribute("replica_groups"), "collective_reduce")
_ACCURACY: Final = "the attribute result_accuracy"

FORMS: Final = (
    Form("0.17.0", _PROMOTING, "a region of another element type", _has_other_region_types),
    Form("1.1.0", ("gather", "dynamic_gather"), "batching dimensions", _batches_gather),
    Form("1.1.0", ("scatter",), "batching dimensions", _batches_scatter),
    Form("1.3.0", ("custom_call",), "a dictionary as backend_config", _has_dictionary),
    Form(
        "1.5.0",
        ("all_gather", "all_reduce", "all_to_all"),
        "several operands",
        _has_several_results,
    ),
    Form("1.6.0", ("dot_general",), "the attribute algorithm", _has("algorithm"), True),
    Form("1.9.0", ("exponential",), _ACCURACY, _has_accuracy, True),
    Form("1.10.0", _ACCURATE, _ACCURACY, _has_accuracy, True),
    Form(
        "1.12.0",
        ("send", "recv"),
        "the attribute source_target_pairs",
        _text_has("source_target_pairs", "dense<"),
    ),
    Form("1.13.0", ("custom_call",), "buffers", _has_buffers),
    Form("1.14.0", ("composite",), "regions", lambda operation: len(operation.regions) > 0),
    Form(
        "1.16.0",
        _WITH_GROUPS,
        "replica groups of a mesh",
        _text_has("replica_groups", "mesh"),
        True,
    ),
    Form("1.17.0", ("custom_call",), "futures", _has_operands(_FUTURE)),
    Form(
        "1.18.0",
        ("custom_call",),
        "the attribute result_tilings",
        _text_has("result_tilings", "dense<"),
    ),
    Form("1.20.0", ("collective_broadcast",), "a dynamic root", _has("has_dynamic_root")),
    Form(
        "1.20.0",
        ("convolution", "dynamic_conv"),
        "operands of two element types",
        _has_mixed_operands,
        True,
    ),
    Form(
        "1.21.0",
        ("dot_general",),
        "an algorithm for f8E4M3FN",
        _text_has("algorithm", "lhs_precision_type = f8E4M3FN", "rhs_precision_type = f8E4M3FN"),
        True,
    ),
)
"""The forms that StableHLO 0.9.0 does not have, oldest first."""


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, which compare as versions do."""
    return tuple(map(int, version.split(".")))


class Need(NamedTuple):
    """What an operation has that StableHLO 0.9.0 can't express.

    Attributes:
        version: the first version that can.
        subject: what it is, for messages: "the operation tan".
    """

    version: str
    subject: str


def operation_needs(operation: ir.Operation) -> Iterator[Need]:
    """Yield what an operation has that StableHLO 0.9.0 can't express, types excepted."""
    name = operation.name
    dialect, _, short = name.partition(".")
    if name in OPERATIONS:
        yield Need(OPERATIONS[name], f"the operation {short}")
    elif dialect == "chlo" and name not in _EXPANDED:
        yield Need(OPERATIONS["stablehlo.composite"], COMPOSITE)
    if dialect == "stablehlo":
        for form in _FORMS_OF.get(short, ()):
            if form.applies(operation):
                yield Need(form.version, f"{form.feature} of the operation {short}")


def type_need(value_type: ir.Type) -> Need | None:
    """Return the need of a value's type; None if StableHLO 0.9.0 has the type."""
    if isinstance(value_type, ir.ShapedType):
        text = str(value_type.element_type)
        if text in ELEMENT_TYPES:
            return Need(ELEMENT_TYPES[text], f"the element type {text}")
    elif str(value_type).startswith(_FUTURE):
        return Need(OPERATIONS["stablehlo.async_start"], "the type future")
    return None


_FORMS_OF: Final = {
    name: tuple(form for form in FORMS if name in form.names)
    for name in sorted({name for form in FORMS for name in form.names})
}
"""The forms of each operation."""


def _is_new(version: str) -> bool:
    return numbers_of(version) > numbers_of(FLOOR)


_NEW_OPERATIONS: Final = {
    name: version for name, version in (OPERATIONS | _REWRITTEN).items() if _is_new(version)
}
_EXAMINED: Final = {
    f"stablehlo.{name}"
    for form in FORMS
    if _is_new(form.version) and not form.has_new_entry
    for name in form.names
}
"""The operations that may have a form after `FLOOR`, whatever their types and attributes."""


def lowest_version(module: ir.Module, code: bytes) -> str:
    """Return the first version, not below `FLOOR`, that can express a module without a change.

    The names, types and attributes in the tables of the bytecode show whether `FLOOR` has all of
    them. Only operations for which they leave it open are examined.

    Args:
        module: a verified module.
        code: its bytecode.
    """
    names = operation_names(code)
    has_new_entries = names is None or _has_new_entries(code)
    found = {FLOOR, *(_NEW_OPERATIONS[name] for name in _NEW_OPERATIONS.keys() & (names or ()))}
    types: set[ir.Type] = set()

    def visit(operation: ir.Operation) -> bool:
        name = operation.name
        if has_new_entries or name in _EXAMINED:
            if name in _REWRITTEN:
                found.add(_REWRITTEN[name])
            found.update(need.version for need in operation_needs(operation))
        if has_new_entries:
            types.update(value.type for value in (*entry_arguments(operation), *operation.results))
        return False

    if has_new_entries or not _EXAMINED.isdisjoint(names or ()):
        operations_where(module, visit)
    found.update(need.version for need in map(type_need, types) if need is not None)
    return min(max(found, key=numbers_of), current_version(), key=numbers_of)


def entry_arguments(operation: ir.Operation) -> Sequence[Any]:
    """Return the arguments of a function, which are defined by no operation; none for others."""
    is_function = operation.name == "func.func"
    return operation.regions[0].blocks[0].arguments if is_function else ()


_LAST_OLD_ATTRIBUTE: Final = 14
_LAST_OLD_TYPE: Final = 20
"""The last codes in bytecode of StableHLO's attributes and of the builtin types that `FLOOR` has.

Element types of 8 bits and less, integers excepted, have later codes.
"""

_INTEGER: Final = 0
"""The code in bytecode of integer types."""


def _has_new_entries(code: bytes) -> bool:
    """Return whether bytecode may have types or attributes that `FLOOR` does not have."""
    entries = table_entries(code)
    return entries is None or any(map(_may_be_new, entries))


def _may_be_new(entry: Entry) -> bool:
    if entry.code is None:
        return entry.dialect in (b"stablehlo", b"builtin")
    if entry.dialect == b"stablehlo":
        return entry.code > (0 if entry.is_type else _LAST_OLD_ATTRIBUTE)
    if entry.code == _INTEGER and entry.is_type:
        width_and_sign, _ = number_at(entry.content, 1, len(entry.content))
        return width_and_sign >> 2 == 2
    return entry.is_type and entry.code > _LAST_OLD_TYPE


_WEEKS: Final = {"4w": 4, "12w": 12}


def checked_version(op: str, version: Any) -> str | None:
    """Return a supported StableHLO version as three numbers without leading zeros.

    Args:
        op: the function that the user called, for messages.
        version: three numbers, such as "1.9.0"; "minimum" or "current"; "4w" or "12w"; or None,
            which is returned.

    Raises:
        VersionError: `version` is none of these.
    """
    newest, oldest = versions.current_version(), versions.minimum_version()
    if version is None:
        return None
    names = {"current": newest, "minimum": oldest}
    if isinstance(version, str) and version in names:
        return names[version]
    if isinstance(version, str) and version in _WEEKS:
        return versions.compatible_version(_WEEKS[version])
    fix = f"pass a version from {oldest} to {newest}, 'minimum', '12w', '4w' or 'current'"
    pattern = r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}"
    if not isinstance(version, str) or not re.fullmatch(pattern, version):
        rule = "version must be three numbers such as '1.9.0'"
        raise error_of(VersionError, op, rule, fix, got=brief(version), version=version)
    numbers = numbers_of(version)
    if not numbers_of(oldest) <= numbers <= numbers_of(newest):
        is_newer = numbers > numbers_of(newest)
        reason = "newer than the installed jaxlib can write" if is_newer else "too old"
        raise error_of(VersionError, op, f"StableHLO {version} is {reason}", fix, version=version)
    return ".".join(map(str, numbers))


def version_error(module: ir.Module, name: str, version: str, report: str) -> VersionError:
    """Return the error for a module that a StableHLO version can't express.

    Args:
        module, name: the module and its name.
        version: the version that can't express the module.
        report: MLIR's report.
    """
    needs = [
        (need, needed_by)
        for need, needed_by in _needs(module)
        if numbers_of(need.version) > numbers_of(version)
    ]
    if not needs:
        match = re.search(r"failed to legalize operation '(?:vhlo\.)?([\w.]+)'", report)
        subject = f"the operation {match[1]} of {name}" if match else name
        rule = f"StableHLO {version} can't express {subject}"
        return error_of(VersionError, "artifact", rule, version=version, detail=report)
    need, needed_by = needs[0]
    rule = (
        f"StableHLO {version} can't express {need.subject} of {name} (needed by {needed_by()}; "
        f"available from {need.version})"
    )
    available = max((need.version for need, _ in needs), key=numbers_of)
    fix = f"write version {available} or newer, up to {versions.current_version()}"
    if any(need.subject == COMPOSITE for need, _ in needs):
        fix += "; composites='inline' writes the program without composites"
    return error_of(VersionError, "artifact", rule, fix, version=version, detail=report)


def _needs(module: ir.Module) -> Iterator[tuple[Need, Callable[[], str]]]:
    """Yield what StableHLO 0.9.0 can't express: parameters of @main, then operations.

    With each, yield a function that returns the name of the parameter or the op.
    """
    need_of_type = cache(type_need)
    for function in functions_in(module.operation, "main"):
        attributes = function.attributes
        listed = ir.ArrayAttr(attributes["arg_attrs"]) if "arg_attrs" in attributes else ()
        named = [entry_text(ir.DictAttr(entry), ARGUMENT_NAME) for entry in listed]
        for number, value in enumerate(entry_arguments(function)):
            if (need := need_of_type(value.type)) is not None:
                name = (named and named[number]) or f"arg{number}"
                yield need, partial("parameter {}".format, name)
    for operation in operations_in(module.operation):
        needs = [*operation_needs(operation), *(need_of_type(r.type) for r in operation.results)]
        for need in needs:
            if need is not None:
                yield need, partial(_recorded_op, operation)


def _recorded_op(operation: ir.Operation) -> str:
    """Return the public name and the source line of the op that an operation was lowered from."""
    opcode = next((s.opcode for s in SCHEMAS.values() if s.stablehlo == operation.name), None)
    names = [info.name for info in registry.OPERATIONS.values() if info.opcode == opcode]
    name = opcode if opcode in names or not names else names[0]
    return f"{name or operation.name}{recorded_at(operation.location).rstrip(',')}"
