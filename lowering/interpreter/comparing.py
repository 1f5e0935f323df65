"""compare: compare a device with StableHLO's reference interpreter, op by op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np

from builder.errors import OperandError, brief
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.types import primitive_type as pt
from builder.types.shape import Shape, TokenShape, leaves
from lowering.importer import to_computation
from lowering.interpreter import tolerances
from lowering.interpreter.comparison import Comparison, Difference
from lowering.interpreter.evaluating import (
    checked_timeout,
    flat_arguments,
    nested_value,
    program_of,
    run,
)
from lowering.interpreter.instrumentation import extract, with_results
from lowering.interpreter.interpreter_support import is_unsupported
from lowering.interpreter.ulps import distances, in_units_of
from lowering.mlir.flattening import leaf_paths
from lowering.pjrt.devices import DeviceLike, device_argument
from lowering.running.compiling import compile
from lowering.stablehlo.sources import ModuleSource

Array = np.ndarray[Any, Any]
Values = dict[XlaOp, Any]

_MAX_GROUP: Final = 256
"""The number of ops in one program for the device, which computes each op independently."""

_NOT_COMPUTED: Final = frozenset(("parameter", "constant", "tuple", "get_tuple_element"))
"""Opcodes whose values are not computed."""


def compare(
    computation: XlaComputation | ModuleSource,
    /,
    *args: Any,
    device: DeviceLike = None,
    ulps: float | Mapping[str, float] | None = None,
    from_reference: bool = True,
    device_computation: XlaComputation | None = None,
    timeout: float | None = None,
    **by_name: Any,
) -> Comparison:
    """Compare a device with StableHLO's reference interpreter, op by op.

    First the program runs on the device, and its result is compared with the interpreter's. Then
    the value of every op is compared, in one of two ways:

    - `from_reference=True`: on the device, each op gets the operands that the interpreter computed.
      An error is attributed to the op that causes it, not to its users; the first op that differs
      computes a value that differs from the specification. Errors that only occur when XLA fuses
      ops appear in the result only.
    - `from_reference=False`: the program runs on the device with the values of all its ops as
      additional results. Rounding errors accumulate. XLA fuses less than in the original program,
      since the values have to be available.

    Two numbers are equal if they differ by at most the tolerance of the op, in units in the last
    place (ulps) of their type: see docs/operations.md, and `lowering.legalize.accuracy`. The
    tolerance is 0 for integers, booleans and ops that move elements; small for arithmetic and
    functions; and for sums as large as the number of terms, in units of the largest term. Complex
    numbers are compared by the magnitude of their difference, in ulps of the larger part, because
    the smaller part may have few correct digits. All NaNs are equal, and so are the two zeros; a
    complex number with a NaN is equal to an infinite one. Devices may flush subnormal numbers:
    where the tolerance is not 0 they count as zero, and elements that elementwise arithmetic
    computes from them are not compared. For an op that applies computations (a loop, a call) only
    the value is compared, with the combined tolerances of its ops.

    Accumulated rounding errors, in a result and without `from_reference`, are counted in ulps of
    the largest element of the array, and the tolerances are added up along the longest path to the
    op.

    For ops that the interpreter does not support (random numbers, cholesky, custom calls), the
    device's value is used on both sides and not compared; nor is the result of a program that
    generates random numbers.

    Args:
        computation: an XlaComputation, or what `lowering.load` accepts.
        args: the arguments, as for a compiled computation.
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device.
        ulps: the tolerance for all ops instead of the table's, or for some ops, by opcode.
        from_reference: the way of comparing; see above.
        device_computation: the computation to run on the device instead. It must have ops of the
            same shapes at the same numbers, like the result of a `replace` that changes the ops one
            by one.
        timeout: the time limit of each run of the interpreter, in seconds; None for no limit.
        by_name: arguments by the names of their parameters, except for parameters with the name of
            an argument above.

    Returns:
        A Comparison, which prints as a few lines.

    Raises:
        ArgumentError: the arguments do not match the parameters.
        ExecutionError: the interpreter, or the program on the device, failed.
        LoweringError: StableHLO cannot express the computation, or the file cannot be imported.
        CompileError: XLA cannot compile it for the device.
        DeviceError: there is no such device.
        ModuleFileError: the file cannot be read.
        OperandError: `computation` is neither a computation nor what `lowering.load` accepts;
            `ulps` is not a tolerance; or `device_computation` has other ops.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.s32[3], xb.s32[3])
        ... def model(x, y):
        ...     return (x + y) * x
        >>> x = np.int32([1, 2, 3])
        >>> print(lowering.compare(model, x, x, device="cpu"))
        model on cpu:0 and on StableHLO's reference interpreter:
          all 2 arrays are within their tolerance, given equal operands
          largest difference: op 2 add s32[3]: equal
          result: equal
        >>> def wrong(op, operands):
        ...     return operands[0] - operands[1] if op.opcode == "add" else None
        >>> found = lowering.compare(
        ...     model, x, x, device="cpu", device_computation=model.replace(wrong)
        ... )
        >>> found.agrees, found.first.op.opcode, found.first.ulps, found.first.index
        (False, 'add', 6.0, (2,))
    """
    program = program_of("compare", computation)
    reference = program if isinstance(program, XlaComputation) else to_computation(program)
    seconds = checked_timeout("compare", timeout)
    _check_ulps(ulps)
    subject = _checked_variant(reference, device_computation)
    target = device_argument("compare", device)
    flat = flat_arguments(reference, args, by_name)
    arguments = _nested(reference, flat)
    device_result = compile(subject, target)(*arguments)
    reference_values, left_out = _reference_values(reference, flat, target, seconds)
    device_values = (
        _separate_values(subject, reference_values, target)
        if from_reference
        else _program_values(subject, arguments, target)
    )
    accumulated = tolerances.accumulated(reference, target.platform)
    missing = set(left_out)  # by identity: == records an op
    ops = []
    for op in reference.ops:
        if op.opcode in _NOT_COMPUTED or op in missing or op.id not in device_values:
            continue
        default = tolerances.of_op(op, target.platform) if from_reference else accumulated[op.id]
        tolerance = _tolerance(ulps, op.opcode, default)
        # Accumulated errors may exceed small elements, which are sums of larger canceling ones.
        operands = [reference_values[o] for o in op.operands] if from_reference else None
        ops += _differences(op, device_values[op.id], reference_values[op], tolerance, operands)
    root = reference.root
    tolerance = _tolerance(ulps, None, accumulated[root.id])
    results = _differences(root, device_result, reference_values[root], tolerance, None)
    if any(op.opcode == "rng" for op in left_out):
        results = []  # each run has different random numbers
    return Comparison(
        reference.name,
        f"{target.platform}:{target.id}",
        from_reference,
        tuple(results),
        tuple(ops),
        tuple(left_out),
    )


def _tolerance(ulps: Any, opcode: str | None, default: float) -> float:
    """Return the tolerance of an op, or of the result if `opcode` is None."""
    if isinstance(ulps, Mapping):
        return float(ulps.get(opcode, default))
    return default if ulps is None else float(ulps)


def _check_ulps(ulps: Any) -> None:
    if ulps is None:
        return
    for value in ulps.values() if isinstance(ulps, Mapping) else [ulps]:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise OperandError(
                "compare: ulps must be a number that is at least 0, or a mapping from opcodes to "
                f"such numbers, got {brief(ulps)}",
                op="compare",
            )


def _checked_variant(reference: XlaComputation, variant: Any) -> XlaComputation:
    """Return the computation to run on the device.

    Raises:
        OperandError: its ops do not correspond to those of the reference.
    """

    def refuse(message: str) -> OperandError:
        return OperandError(f"compare: {message}", op="compare")

    if variant is None:
        return reference
    if not isinstance(variant, XlaComputation):
        raise refuse(f"device_computation must be an XlaComputation, got {brief(variant)}")
    if len(variant.ops) != len(reference.ops):
        raise refuse(
            f"device_computation must have as many ops as the computation, {len(reference.ops)}, "
            f"got {len(variant.ops)}"
        )
    for expected, op in zip(reference.ops, variant.ops, strict=True):
        same_parameter = (expected.opcode == "parameter") == (op.opcode == "parameter")
        if expected.shape != op.shape or not same_parameter:
            raise refuse(
                f"op {expected.id} of device_computation must have the shape of the "
                f"computation's {expected.opcode}, {expected.shape}, got {op.opcode} of {op.shape}"
            )
    if variant.root.id != reference.root.id:
        raise refuse(
            f"the root of device_computation must be op {reference.root.id}, got {variant.root.id}"
        )
    return variant


def _nested(computation: XlaComputation, flat: Sequence[Array]) -> list[Any]:
    """Nest arrays as arguments for the parameters."""
    remaining = iter(flat)
    return [
        nested_value(shape, lambda _: next(remaining))
        for shape in computation.program_shape.parameters
    ]


def _arrays(value: Any) -> list[Array]:
    """Return the arrays of a value, tuples flattened, without tokens."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(value)]


# The values of the interpreter


def _reference_values(
    computation: XlaComputation,
    arguments: Sequence[Array],
    target: jax.Device,
    timeout: float | None,
) -> tuple[Values, list[XlaOp]]:
    """Return the value of each op, and the unsupported ops, whose values are the device's.

    Raises:
        ExecutionError: the interpreter failed, or does not support an op with side effects.
    """
    unsupported = [op for op in computation.ops if is_unsupported(op)]
    if not unsupported:
        instrumented = with_results(computation, computation.ops)
        _, *results = run(instrumented, arguments, timeout=timeout)
        return dict(zip(computation.ops, results, strict=True)), []
    nested = _nested(computation, arguments)
    values: Values = {
        parameter: nested[parameter.attributes["number"]] for parameter in computation.parameters
    }
    skipped = set(unsupported)
    pending = [op for op in computation.ops if op not in values]
    while pending:
        # All ops that depend on no pending unsupported op run on the interpreter together.
        ready: dict[XlaOp, None] = {}
        for op in pending:
            if op not in skipped and all(o in values or o in ready for o in op.operands):
                ready[op] = None
        values.update(_interpreted(computation.name, list(ready), values, timeout))
        for op in pending:
            if op in skipped and all(o in values for o in op.operands):
                inputs = _operands([op])
                single = extract(op.opcode, inputs, [op], [op])
                results = compile(single, target)(*(values[o] for o in inputs))
                (values[op],) = jax.tree.map(np.asarray, results)
        pending = [op for op in pending if op not in values]
    return values, unsupported


def _interpreted(name: str, ops: Sequence[XlaOp], values: Values, timeout: float | None) -> Values:
    """Run some ops on the interpreter, with the values of their operands."""
    if not ops:
        return {}
    inputs = _operands(ops)
    flat = [array for op in inputs for array in _arrays(values[op])]
    return dict(zip(ops, run(extract(name, inputs, ops, ops), flat, timeout=timeout), strict=True))


def _operands(ops: Sequence[XlaOp]) -> list[XlaOp]:
    """Return the operands of some ops that are not among these."""
    inner = set(ops)
    return list(dict.fromkeys(o for op in ops for o in op.operands if o not in inner))


# The values of the device


def _program_values(
    computation: XlaComputation, arguments: Sequence[Any], target: jax.Device
) -> dict[int, Any]:
    """Return the values of all ops of a program, by their numbers."""
    instrumented = with_results(computation, computation.ops)
    _, *values = compile(instrumented, target)(*arguments)
    return dict(enumerate(values))


def _separate_values(
    subject: XlaComputation, reference_values: Values, target: jax.Device
) -> dict[int, Any]:
    """Return the value of each op, given the interpreter's operands, by the ops' numbers."""
    operands = {subject.ops[op.id]: value for op, value in reference_values.items()}
    selected = [
        op
        for op in subject.ops
        if op.opcode not in _NOT_COMPUTED
        and not is_unsupported(op)
        and not any(_has_token(each.shape) for each in (op, *op.operands))
    ]
    values: dict[int, Any] = {}
    for begin in range(0, len(selected), _MAX_GROUP):
        group = selected[begin : begin + _MAX_GROUP]
        # Constants remain constants, because XLA compiles ops with constant operands differently.
        constants = _constants(group)
        inputs = list(dict.fromkeys(o for op in group for o in op.operands if o not in constants))
        ops = sorted({*group, *constants}, key=lambda op: op.id)
        separate = extract(subject.name, inputs, ops, group, separate=True)
        results = compile(separate, target)(*(operands[op] for op in inputs))
        values.update(zip((op.id for op in group), results, strict=True))
    return values


def _constants(ops: Sequence[XlaOp]) -> set[XlaOp]:
    """Return the operands of some ops that are constants or broadcast constants."""
    constants: set[XlaOp] = set()
    for op in ops:
        for operand in op.operands:
            chain = [operand]
            while chain[-1].opcode in ("broadcast_in_dim", "reshape"):
                chain.append(chain[-1].operands[0])
            if chain[-1].opcode == "constant":
                constants.update(chain)
    return constants


def _has_token(shape: Shape) -> bool:
    return any(isinstance(leaf, TokenShape) for leaf in leaves(shape))


# Differences


def _differences(
    op: XlaOp,
    device_value: Any,
    reference_value: Any,
    tolerance: float,
    operands: list[Any] | None,
) -> list[Difference]:
    """Return the difference of each array of a value.

    Args:
        op: the op of the value.
        device_value, reference_value: the values.
        tolerance: the tolerance for floating-point elements.
        operands: the operands of the op; None for values with accumulated errors.
    """
    shapes = leaves(op.shape)
    paths = [p for p, s in zip(leaf_paths(op.shape), shapes, strict=True) if s.is_array]
    differences = []
    terms = _arrays(operands)
    pairs = zip(paths, _arrays(device_value), _arrays(reference_value), strict=True)
    for path, actual, expected in pairs:
        element_type = pt.from_dtype(expected.dtype)
        is_number = element_type.is_floating or element_type.is_complex
        allowed = tolerance if is_number else 0.0
        unit = 0.0
        if allowed and operands is None:
            unit = tolerances.largest([expected])
        elif allowed and tolerances.is_sum(op):
            unit = tolerances.largest_term(op, terms, expected)
        if operands is not None and tolerances.may_flush(op):
            actual = np.where(_from_subnormal(terms, expected.shape), expected, actual)
        differences.append(_difference(op, path, actual, expected, allowed, unit))
    return differences


def _from_subnormal(operands: list[Array], sizes: tuple[int, ...]) -> Array:
    """Return which elements are computed from a number that devices may flush to zero."""
    mask = np.zeros(sizes, bool)
    for operand in operands:
        element_type = pt.from_dtype(operand.dtype)
        if operand.shape != sizes or not (element_type.is_floating or element_type.is_complex):
            continue
        with np.errstate(all="ignore"):
            wide = np.complex128 if element_type.is_complex else np.float64
            magnitude = np.abs(operand.astype(wide))
        mask |= (magnitude > 0) & (magnitude <= tolerances.smallest_normal(element_type))
    return mask


def _difference(
    op: XlaOp, path: str, actual: Array, expected: Array, tolerance: float, unit: float
) -> Difference:
    shape = f"{pt.from_dtype(expected.dtype)}[{','.join(map(str, expected.shape))}]"
    a, b = (_flushed(actual), _flushed(expected)) if tolerance else (actual, expected)
    ulps = in_units_of(a, b, unit) if tolerance else distances(a, b)
    if not ulps.size or not ulps.max():
        return Difference(op, path, shape, ulps.size, 0.0, tolerance, 0, None, "", "")
    index = np.unravel_index(int(ulps.argmax()), ulps.shape)
    return Difference(
        op,
        path,
        shape,
        ulps.size,
        float(ulps[index]),
        tolerance,
        int((ulps > tolerance).sum()),
        tuple(int(i) for i in index),
        str(actual[index]),
        str(expected[index]),
    )


def _flushed(values: Array) -> Array:
    """Replace subnormal numbers by zero."""
    element_type = pt.from_dtype(values.dtype)
    if element_type.is_complex:
        flushed = np.empty_like(values)
        flushed.real, flushed.imag = _flushed(values.real), _flushed(values.imag)
        return flushed
    with np.errstate(all="ignore"):
        small = np.abs(values.astype(np.float64)) < tolerances.smallest_normal(element_type)
    return np.where(small, values.dtype.type(0), values) if small.any() else values
