"""Checks of the operations of a loaded module that MLIR does not make.

A recorded op has element types that its definition accepts. MLIR verifies the operations of a file,
but StableHLO and CHLO admit further types for some operations, on which XLA's compiler aborts or
fails without naming the operation. `check_loaded_module` applies the definitions of the ops to the
operations of a module. Of a few operations, listed in `_CHECKS`, MLIR does not verify the sizes;
nor does it verify the operands of custom calls that XLA's compiler itself implements.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from jaxlib.mlir import ir

from builder.inspection.rendering import bytes_text
from builder.ops.elementwise.comparison import comparable
from builder.schema import SCHEMAS, ElementTypes
from builder.schema.definition import ANY, FLOATING, comparison_type
from builder.types import primitive_type as pt
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import ArrayShape
from lowering.errors import CompileError
from lowering.legalize.artifacts import is_restored
from lowering.legalize.registry import REWRITES, Target
from lowering.mlir.operations import (
    REFERRING,
    attribute_text,
    functions_in,
    operations_in,
    operations_where,
    place_of,
    referenced_functions,
    symbol_name,
)
from lowering.mlir.types import array_shape_of_type
from lowering.pjrt.failures import host_memory
from lowering.sharding.texts import FRONTEND


def check_signature(target: Target, operation: ir.Operation, call_target: str | None) -> None:
    """Raise CompileError for a custom call of XLA with operands or results that it can't have."""
    known = _SIGNATURES.get(call_target or "")
    if known is None or known.applies(operation):
        return
    operands, results = (
        ", ".join(str(value.type) for value in values) or "none"
        for values in (operation.operands, operation.results)
    )
    raise CompileError(
        f"custom_call of {call_target!r}"
        f"{place_of(operation)} must have {known.rule}, because XLA's compiler "
        "implements this target",
        got=f"operands {operands}, results {results}",
        context=("compile", target.name),
        fix=known.fix,
        op="custom_call",
    )


def _is_like_first(operation: ir.Operation) -> bool:
    """Whether the only result has the element type and the sizes or bounds of the first operand."""
    if not len(operation.operands) or len(operation.results) != 1:
        return False
    operand, result = operation.operands[0], operation.results[0]
    before, after = array_shape_of_type(operand.type), array_shape_of_type(result.type)
    if before is None or after is None:
        return bool(operand.type == result.type)
    return before.element_type is after.element_type and before.dimensions == after.dimensions


def _is_like_operand(operation: ir.Operation) -> bool:
    return len(operation.operands) == 1 and _is_like_first(operation)


def _converts_sizes(operation: ir.Operation) -> bool:
    if (len(operation.operands), len(operation.results)) != (1, 1):
        return False
    before, after = (
        array_shape_of_type(operation.operands[0].type),
        array_shape_of_type(operation.results[0].type),
    )
    if before is None or after is None:
        return False
    return before.element_type is after.element_type and before.rank == after.rank


def _has_sharding(operation: ir.Operation) -> bool:
    attributes = operation.attributes.get(FRONTEND)
    is_sharded = isinstance(attributes, ir.DictAttr) and "xla.sdy.sharding" in attributes
    return is_sharded and _is_like_operand(operation)


def _is_top_k(operation: ir.Operation) -> bool:
    if (len(operation.operands), len(operation.results)) != (1, 2):
        return False
    operand = array_shape_of_type(operation.operands[0].type)
    values, indices = (array_shape_of_type(result.type) for result in operation.results)
    if operand is None or values is None or indices is None or operand.rank not in (1, 2):
        return False
    types = (operand.element_type, values.element_type, indices.element_type)
    return (
        types == (pt.f32, pt.f32, pt.s32)
        and values.dimensions == indices.dimensions
        and values.rank == operand.rank
        and values.dimensions[:-1] == operand.dimensions[:-1]
        and values.dimensions[-1] <= operand.dimensions[-1]
    )


class _Signature(NamedTuple):
    """What a target of XLA requires: a condition, its text for messages, and a fix."""

    applies: Callable[[ir.Operation], bool]
    rule: str
    fix: str = "correct the types of the call, or call another target"


_SAME: Final = _Signature(_is_like_operand, "one operand, and one result of its type")
_CONVERSION: Final = _Signature(
    _converts_sizes, "one operand, and one result of its element type and number of dimensions"
)

_SIGNATURES: Final = {
    **dict.fromkeys(
        ("Sharding", "LayoutConstraint", "annotate_device_placement", "MoveToHost", "MoveToDevice"),
        _SAME,
    ),
    **dict.fromkeys(("SPMDFullToShardShape", "SPMDShardToFullShape"), _CONVERSION),
    "xla.sdy.FuncResultSharding": _Signature(
        _has_sharding, f"the frontend attribute xla.sdy.sharding, {_SAME.rule}"
    ),
    "SetBound": _Signature(_is_like_first, "one result of the first operand's type"),
    "SliceToDynamic": _Signature(
        lambda _: False,
        "been made by XLA's compiler, not by a program",
        "use xb.set_dimension_size for an array of bounded size",
    ),
    "TopK": _Signature(
        _is_top_k,
        "an operand f32[n] or f32[m,n], and results of f32 and s32 with at most n columns",
        "use xb.top_k, or chlo.top_k in a module",
    ),
}


_BROADCASTING: Final = "chlo.broadcast_"
"""The prefix of the CHLO operations that broadcast the operands of an operation of StableHLO."""

_EXPANDED: Final = ElementTypes(
    "f16, bf16, f32 or f64", frozenset((pt.f16, pt.bf16, pt.f32, pt.f64))
)

_WITHOUT_SCHEMA: Final = {
    "chlo.bessel_i1e": _EXPANDED,
    "chlo.erfc": _EXPANDED,
    # MLIR verifies the element types of next_after and polygamma, but not of these forms.
    f"{_BROADCASTING}next_after": FLOATING,
    f"{_BROADCASTING}polygamma": FLOATING,
}
"""Operations without an op, which XLA expands when it reads the module, and the element types for
which it has an expansion."""

_COMPARISON_ATTRIBUTES: Final = ("comparison_direction", "compare_type")
_CASE: Final = re.compile(r"#\w+<\w+ (\w+)>")
"""Matches an attribute such as #stablehlo<comparison_direction LT>; the group is the case."""


class _Fault(NamedTuple):
    """The rule that an operation breaks, and what to write instead."""

    rule: str
    fix: str


def check_loaded_module(module: ir.Operation, name: str, platform: str) -> None:
    """Raise CompileError for an operation that its op's definition does not accept.

    Args:
        module: the operation of a verified module that was loaded; its functions and regions are
            checked too.
        name: the computation's name, for messages.
        platform: the platform. Rewrites for it may define operations for further element types.
    """
    accepted = accepted_types(platform)
    faults: dict[tuple[Any, ...], _Fault | None] = {}

    def fault_of(operation: ir.Operation) -> _Fault | None:
        if operation.name == "stablehlo.constant":
            of_type = operation.results[0].type
            if (of_type,) not in faults:
                faults[of_type,] = _fault_of_constant(of_type)
            return faults[of_type,]
        types = accepted.get(operation.name)
        if types is None:
            return None
        # The other operands have the same element type, or are indices, sizes or preds: MLIR
        # verifies this.
        signature: tuple[Any, ...] = (types.text, operation.operands[0].type)
        check = _CHECKS.get(operation.name)
        if check is not None:
            attributes = map(operation.attributes.get, check.attributes)
            values = [*operation.operands, *operation.results]
            signature += operation.name, *attributes, *(value.type for value in values)
            signature += tuple(operation.operands[number] for number in check.operands)
        if signature not in faults:
            shape = array_shape_of_type(operation.operands[0].type)
            fault = None  # of a type that XLA does not have
            if shape is not None:
                fault = _fault(shape.element_type, types)
                if fault is None and check is not None:
                    fault = check.fault(operation, shape)
            faults[signature] = fault
        return faults[signature]

    unused = _unused_functions(module)
    refused = [
        operation
        for function in functions_in(module)
        if symbol_name(function) not in unused
        for operation in operations_where(function, lambda each: fault_of(each) is not None)
    ]
    for operation in refused[:1]:
        rule, fix = fault_of(operation) or ("", "")
        op = operation.name.partition(".")[2]
        values = list(operation.operands) or list(operation.results)
        operands = ", ".join(str(array_shape_of_type(value.type)) for value in values)
        raise CompileError(
            f"{op}{place_of(operation)} {rule}",
            got=operands,
            context=("compile", name),
            fix=fix,
            op=op,
        )


def _unused_functions(module: ir.Operation) -> set[str]:
    """Return the functions to which only composites refer that are replaced by operations.

    That of `chlo.top_k`, which StableHLO's serializer writes, compares complex numbers.
    """
    unused, used = set[str](), set[str]()
    for operation in operations_in(module, REFERRING):
        is_unused = operation.name == "stablehlo.composite" and is_restored(operation)
        (unused if is_unused else used).update(referenced_functions(operation))
    return unused - used


def _fault_of_constant(of_type: ir.Type) -> _Fault | None:
    # A file has one element of a constant whose elements are equal; XLA stores each of them, and
    # aborts if it can't.
    shape = array_shape_of_type(of_type)
    if shape is None or not shape.is_static or shape.byte_size <= host_memory():
        return None
    return _Fault(
        f"must fit in the {bytes_text(int(host_memory()))} of memory of this machine",
        "write a scalar constant, and broadcast it with stablehlo.broadcast_in_dim",
    )


@cache
def accepted_types(platform: str) -> dict[str, ElementTypes]:
    """Return the element types of the first operand by operation name, where they are limited."""
    accepted = dict.fromkeys(_CHECKS, ANY) | _WITHOUT_SCHEMA
    for schema in SCHEMAS.values():
        first = next(iter(schema.operands.split()), "").removeprefix("*")
        types = schema.element_types.get(first, ANY)
        names = (schema.stablehlo, *schema.synonyms, f"{_BROADCASTING}{schema.opcode}")
        if types is not ANY:
            accepted.update(dict.fromkeys(names, types))
    for rewrite in REWRITES:
        if rewrite.adds is not None and platform in rewrite.platforms:
            for name in rewrite.names:
                types = accepted[name]
                more = ElementTypes(
                    f"{types.text} or {rewrite.adds.text}", types.types | rewrite.adds.types
                )
                broadcasting = name.replace("stablehlo.", _BROADCASTING)
                accepted[name] = accepted[broadcasting] = more
    return accepted


def _fault(element_type: PrimitiveType, types: ElementTypes) -> _Fault | None:
    if element_type in types.types:
        return None
    fix = f"convert the operands to a type that is {types.text}"
    if element_type.is_complex:
        fix = "compute with the real and the imaginary parts of the operands"
    return _Fault(f"must have operands of {types.text} type", fix)


def _fault_of_comparison(operation: ir.Operation, operand: ArrayShape) -> _Fault | None:
    element_type = operand.element_type
    direction, compare_type = (
        _CASE.sub(r"\1", str(operation.attributes.get(name))) for name in _COMPARISON_ATTRIBUTES
    )
    fault = _fault(element_type, comparable(direction))
    if fault is not None:
        return _Fault(f"in the direction {direction} {fault.rule}", fault.fix)
    # StableHLO compare (C3)
    kinds = (comparison_type(element_type, total_order=is_total) for is_total in (False, True))
    valid = list(dict.fromkeys(kinds))
    if compare_type in (*valid, "None"):
        return None
    return _Fault(
        f"must have the comparison type {' or '.join(valid)}, not {compare_type}",
        f"write {valid[0]}, or omit the comparison type",
    )


def _fault_of_bitcast(operation: ir.Operation, operand: ArrayShape) -> _Fault | None:
    result = array_shape_of_type(operation.results[0].type)
    if result is None or result.element_type.bits != operand.element_type.bits:
        return None
    # StableHLO bitcast_convert (C1). MLIR does not compare the ranks, and XLA computes a result
    # with the sizes of the operand.
    if result.rank == operand.rank:
        return None
    rule = (
        f"must have a result of {operand.rank} dimensions, like its operand, because both element "
        f"types have {result.element_type.bits} bits, not {result}"
    )
    return _Fault(rule, "reshape the operand, or correct the type of the result")


def _fault_of_top_k(operation: ir.Operation, _: ArrayShape) -> _Fault | None:
    # To MLIR, the least number means an unknown size, which is compatible with any size.
    k = ir.IntegerAttr(operation.attributes["k"]).value
    if k >= 0:
        return None
    return _Fault(f"must have a k that is not negative, not {k}", "correct the attribute k")


_LABELS: Final = re.compile(r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*")


def _fault_of_einsum(operation: ir.Operation, _: ArrayShape) -> _Fault | None:
    config = attribute_text(operation.attributes["einsum_config"]) or ""
    fix = "correct the attribute einsum_config"
    inputs, arrow, output = config.replace(" ", "").partition("->")
    labels_of = [*inputs.split(","), output]
    values = [*operation.operands, *operation.results]
    is_complete = arrow and len(labels_of) == len(values)
    if not is_complete or not all(map(_LABELS.fullmatch, labels_of)):
        return _Fault(f"must have an einsum_config such as ab,bc->ac, not {config[:200]!r}", fix)
    sizes: dict[str, int] = {}
    for labels, value in zip(labels_of, values, strict=True):
        array = array_shape_of_type(value.type)
        if array is None or "." in labels:
            continue
        if array.rank != len(labels):
            return _Fault(f"must have {len(labels)} dimensions where its config is {labels}", fix)
        for label, size in zip(labels, array.dimensions, strict=True):
            if sizes.setdefault(label, size) != size:
                rule = f"must have equal sizes for the label {label} of {config}"
                return _Fault(f"{rule}, not {sizes[label]} and {size}", fix)
    return None


def _fault_of_slice(operation: ir.Operation, operand: ArrayShape) -> _Fault | None:
    result = array_shape_of_type(operation.results[0].type)
    if result is None or not (result.is_static and operand.is_static):
        return None
    sizes = zip(result.dimensions, operand.dimensions, strict=False)
    if result.rank == operand.rank and all(size <= whole for size, whole in sizes):
        return None
    return _Fault(
        f"must have a result with the dimensions of its operand, and not larger, not {result}",
        "correct the type of the result",
    )


def _fault_of_dimension_size(operation: ir.Operation, _: ArrayShape) -> _Fault | None:
    result = array_shape_of_type(operation.results[0].type)
    dimension = ir.IntegerAttr(operation.attributes["dimension"]).value
    if result is None or result.dynamic_dimensions[dimension]:
        return None
    size, number = result.dimensions[dimension], operation.operands[1]
    is_constant = isinstance(number, ir.OpResult) and number.owner.name == "stablehlo.constant"
    if is_constant and int(np.asarray(number.owner.attributes["value"])) == size:
        return None
    return _Fault(
        f"must have a bounded size in its result, unless the size is the constant {size}, not "
        f"{result}",
        f"write tensor<?x..., #stablehlo.bounds<{size}>> for the result",
    )


def _fault_of_index_select(operation: ir.Operation, operand: ArrayShape) -> _Fault | None:
    index, result = (
        array_shape_of_type(value.type) for value in (operation.operands[1], operation.results[0])
    )
    if index is None or result is None:
        return _Fault("must have arrays of XLA's element types", "correct the types")
    if not index.element_type.is_integral:
        rule = f"must have an index of integer type, not {index.element_type}"
        return _Fault(rule, "convert the index with stablehlo.convert")
    dimension, batch = (
        ir.IntegerAttr(operation.attributes[name]).value for name in ("dim", "batch_dims")
    )
    if not (0 <= batch <= dimension < operand.rank and batch <= index.rank):
        rule = (
            "must have 0 <= batch_dims <= dim, dim less than the rank of the operand, and "
            f"batch_dims at most the rank of the index, not batch_dims {batch} and dim {dimension}"
        )
        return _Fault(rule, "correct the attributes dim and batch_dims")
    if result.element_type is not operand.element_type:
        rule = f"must have a result of type {operand.element_type}, not {result.element_type}"
        return _Fault(rule, "correct the type of the result")
    if not (operand.is_static and index.is_static and result.is_static):
        return None
    sizes, indices = operand.dimensions, index.dimensions
    if sizes[:batch] != indices[:batch]:
        rule = f"must have equal sizes in the first {batch} dimensions of operand and index"
        return _Fault(rule, "correct the attribute batch_dims, or the sizes")
    expected = (*sizes[:dimension], *indices[batch:], *sizes[dimension + 1 :])
    if result.dimensions != expected:
        rule = f"must have a result of sizes {list(expected)}, not {result}"
        return _Fault(rule, "correct the type of the result")
    return None


class _Check(NamedTuple):
    """What MLIR does not verify of an operation.

    Attributes:
        fault: returns the rule that an operation breaks, given the shape of its first operand.
        attributes: the attributes on which this depends, beside the types.
        operands: the positions of the operands whose constants it depends on.
    """

    fault: Callable[[ir.Operation, ArrayShape], _Fault | None]
    attributes: tuple[str, ...] = ()
    operands: tuple[int, ...] = ()


_CHECKS: Final = {
    "stablehlo.compare": _Check(_fault_of_comparison, _COMPARISON_ATTRIBUTES),
    f"{_BROADCASTING}compare": _Check(_fault_of_comparison, _COMPARISON_ATTRIBUTES),
    "stablehlo.bitcast_convert": _Check(_fault_of_bitcast),
    "stablehlo.einsum": _Check(_fault_of_einsum, ("einsum_config",)),
    "stablehlo.real_dynamic_slice": _Check(_fault_of_slice),
    "stablehlo.set_dimension_size": _Check(_fault_of_dimension_size, ("dimension",), (1,)),
    "stablehlo.torch_index_select": _Check(_fault_of_index_select, ("dim", "batch_dims")),
    "chlo.top_k": _Check(_fault_of_top_k, ("k",)),
}
