"""compare: a device against StableHLO's reference interpreter, op by op."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    program_of,
    run,
)
from lowering.interpreter.instrumentation import part, with_results
from lowering.interpreter.interpreter_support import lacks
from lowering.interpreter.ulps import distances, in_units_of
from lowering.mlir.flattening import leaf_paths
from lowering.pjrt.devices import DeviceLike, device as find_device
from lowering.pjrt.nesting import result_packer
from lowering.running.compiling import compile
from lowering.stablehlo.module import StablehloModule

__all__ = ["compare"]

Array = np.ndarray[Any, Any]
Values = dict[XlaOp, Any]

_MOST_TOGETHER: Final = 256
"""How many ops are compiled for the device in one program, when each is by itself."""

_GIVEN: Final = frozenset(("parameter", "constant", "tuple", "get_tuple_element"))
"""Opcodes whose values are not calculated."""


def compare(
    computation: StablehloModule | XlaComputation | str | os.PathLike[str],
    /,
    *args: Any,
    device: DeviceLike = None,
    ulps: float | Mapping[str, float] | None = None,
    from_reference: bool = True,
    device_computation: XlaComputation | None = None,
    timeout: float | None = None,
    **by_name: Any,
) -> Comparison:
    """Compares a device with StableHLO's reference interpreter, op by op.

    First the program as it is runs on the device: its result is compared with the interpreter's.
    Then so is the value of every op, in one of two ways:

    - `from_reference=True`: each op takes, on the device, the operands that the interpreter got for
      it. So an error is blamed on the op that makes it, not on those that its error reaches; the
      first op that parts is one that computes something else than the specification says. What
      becomes wrong only where XLA fuses ops is not seen in this way, but in the result.
    - `from_reference=False`: the program runs on the device with the values of all its ops as
      further results. Rounding adds up on the way. XLA fuses less than in the program as it is,
      since the values have to be there.

    Two numbers are the same if they are at most so many units in the last place (ulps) of their
    type apart as `lowering.interpreter.tolerances` says for the op: none for integers, booleans and
    ops that move elements; a few for arithmetic and functions; as many as terms are added up for
    sums, in units of the largest term. NaNs are equal whatever their bits, and so are the two
    zeros. As devices flush them, numbers below the smallest normal one of their type count as zero
    where the tolerance is not 0, and what arithmetic makes of such operands, element by element, is
    not compared. Of an op that applies computations (a loop, a call) the value is compared as a
    whole, within the tolerances of its ops together.

    Rounding that has added up, in a result and without `from_reference`, is counted in ulps of the
    largest element of the array, and the tolerances are added up along the longest way to the op.

    Of ops that the interpreter lacks (random numbers, cholesky, custom calls) the device's value is
    taken on both sides, and not compared; nor is the result of a program that draws random numbers.

    Args:
        computation: an XlaComputation, a StablehloModule, or the path of a file that holds one.
        args: the arguments, as a compiled computation takes them.
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device.
        ulps: the tolerance for all ops in place of those of the table, or for some, by opcode.
        from_reference: the way of comparing: see above.
        device_computation: what the device is to run in place of the computation: one that has ops
            of the same shapes at the same numbers, such as `replace` gives that changes the ops
            one by one.
        timeout: for how many seconds each run of the interpreter may take; None for as long as it
            takes.
        by_name: arguments by the names of their parameters, but for those that are called as one
            of the above.

    Returns:
        A Comparison, which prints as a few lines.

    Raises:
        ArgumentError: the arguments are not those that the computation takes.
        ExecutionError: the interpreter, or the program on the device, failed.
        LoweringError: it can't be said in StableHLO, or the file not be imported.
        CompileError: XLA can't compile it for the device.
        DeviceError: there is no such device.
        ModuleFileError: the file can't be read.
        OperandError: neither a computation nor a module nor a path; `ulps` is no tolerance;
            `device_computation` has other ops.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.s32[3], xb.s32[3])
        ... def model(x, y):
        ...     return (x + y) * x
        >>> x = np.int32([1, 2, 3])
        >>> print(lowering.compare(model, x, x, device="cpu"))
        model on cpu:0 and on StableHLO's reference interpreter:
          all 2 arrays are within their tolerance, given equal operands
          farthest apart: op 2 add s32[3]: the same
          result: the same
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
    said = _checked_ulps(ulps)
    subject = _checked_variant(reference, device_computation)
    target = find_device(device)
    flat = flat_arguments(reference, args, by_name)
    arguments = _nested(reference, flat)
    whole = compile(subject, target)(*arguments)
    wanted, left_out = _reference_values(reference, flat, target, seconds)
    found = (
        _one_by_one(subject, wanted, target)
        if from_reference
        else _all_together(subject, arguments, target)
    )
    budgets = tolerances.ways(reference)
    missing = set(left_out)  # by identity: == records an op
    ops = []
    for op in reference.ops:
        if op.opcode in _GIVEN or op in missing or op.id not in found:
            continue
        allowed = tolerances.of_op(op) if from_reference else budgets[op.id]
        # (Where errors have added up, single elements may be small because greater ones cancelled.)
        operands = [wanted[one] for one in op.operands] if from_reference else None
        ops += _differences(op, found[op.id], wanted[op], said(op, allowed), operands)
    root = reference.root
    # Random numbers are others at each run, and so is what is made of them.
    is_random = any(op.opcode == "rng" for op in left_out)
    results = _differences(root, whole, wanted[root], said(None, budgets[root.id]), None)
    if is_random:
        results = []
    return Comparison(
        reference.name,
        f"{target.platform}:{target.id}",
        from_reference,
        tuple(results),
        tuple(ops),
        tuple(left_out),
    )


def _checked_ulps(ulps: Any) -> Any:
    """A function from an op, or None for the result, and its tolerance to the one that is asked."""
    said = ulps if isinstance(ulps, Mapping) else {}
    for one in [*said.values()] if isinstance(ulps, Mapping) else [] if ulps is None else [ulps]:
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not one >= 0:
            raise OperandError(
                f"compare: ulps must be a number that is at least 0, or such numbers by opcode, "
                f"got {brief(ulps)}",
                op="compare",
            )

    def asked(op: XlaOp | None, allowed: float) -> float:
        if ulps is None or isinstance(ulps, Mapping):
            return float(said.get(op.opcode, allowed)) if op is not None else allowed
        return float(ulps)

    return asked


def _checked_variant(reference: XlaComputation, variant: Any) -> XlaComputation:
    """What the device is to run.

    Raises:
        OperandError: its ops are not one for one those of the reference.
    """
    if variant is None:
        return reference
    if not isinstance(variant, XlaComputation):
        raise OperandError(
            f"compare: device_computation must be an XlaComputation, got {brief(variant)}",
            op="compare",
        )
    if len(variant.ops) != len(reference.ops):
        raise OperandError(
            f"compare: device_computation must have as many ops as the computation, "
            f"{len(reference.ops)}, got {len(variant.ops)}",
            op="compare",
        )
    for mine, theirs in zip(reference.ops, variant.ops, strict=True):
        same_parameter = (mine.opcode == "parameter") == (theirs.opcode == "parameter")
        if mine.shape != theirs.shape or not same_parameter:
            raise OperandError(
                f"compare: op {mine.id} of device_computation must be {mine.shape}, as "
                f"{mine.opcode} in the computation is, got {theirs.opcode} of {theirs.shape}",
                op="compare",
            )
    if variant.root.id != reference.root.id:
        raise OperandError(
            f"compare: the root of device_computation must be op {reference.root.id}, got "
            f"{variant.root.id}",
            op="compare",
        )
    return variant


def _nested(computation: XlaComputation, flat: Sequence[Array]) -> list[Any]:
    """The arguments, nested as the parameters are, from their arrays."""
    remaining = iter(flat)
    return [_packed(shape, remaining) for shape in computation.program_shape.parameters]


def _packed(shape: Shape, remaining: Iterator[Any]) -> Any:
    values = [None if isinstance(leaf, TokenShape) else next(remaining) for leaf in leaves(shape)]
    return result_packer(shape)(values)


def _arrays(value: Any) -> list[Array]:
    """The arrays of a value, tuples opened, tokens left out."""
    if isinstance(value, tuple):
        return [array for one in value for array in _arrays(one)]
    return [] if value is None else [np.asarray(value)]


# The interpreter's values


def _reference_values(
    computation: XlaComputation,
    arguments: Sequence[Array],
    target: jax.Device,
    timeout: float | None,
) -> tuple[Values, list[XlaOp]]:
    """The interpreter's value of each op; and the ops that it lacks, whose values are the device's.

    Raises:
        ExecutionError: the interpreter failed, or lacks an op with side effects.
    """
    lacking = [op for op in computation.ops if lacks(op)]
    if not lacking:
        asked = with_results(computation, computation.ops)
        _, *values = run(asked, arguments, timeout=timeout)
        return dict(zip(computation.ops, values, strict=True)), []
    known: Values = {}
    given = _nested(computation, arguments)
    for parameter in computation.parameters:
        known[parameter] = given[parameter.attributes["number"]]
    missing = set(lacking)
    waiting = [op for op in computation.ops if op not in known]
    while waiting:
        ready, later = _ready(waiting, known, missing)
        known.update(_interpreted(computation.name, ready, known, timeout))
        now = [op for op in later if op in missing and all(o in known for o in op.operands)]
        for op in now:
            alone = part(op.opcode, _needed([op]), [op], [op])
            (known[op],) = compile(alone, target)(*(known[o] for o in _needed([op])))
            known[op] = _on_host(known[op])
        waiting = [op for op in later if op not in known]
    return known, lacking


def _ready(
    waiting: Iterable[XlaOp], known: Values, missing: set[XlaOp]
) -> tuple[list[XlaOp], list[XlaOp]]:
    """The ops that need none that the interpreter lacks, and the others."""
    ready: dict[XlaOp, None] = {}
    later = []
    for op in waiting:
        if op not in missing and all(o in known or o in ready for o in op.operands):
            ready[op] = None
        else:
            later.append(op)
    return list(ready), later


def _interpreted(name: str, ops: Sequence[XlaOp], known: Values, timeout: float | None) -> Values:
    if not ops:
        return {}
    inputs = _needed(ops)
    asked = part(name, inputs, ops, ops)
    flat = [array for one in inputs for array in _arrays(known[one])]
    return dict(zip(ops, run(asked, flat, timeout=timeout), strict=True))


def _needed(ops: Sequence[XlaOp]) -> list[XlaOp]:
    """The operands of some ops that are not among these."""
    inside = set(ops)
    return list(dict.fromkeys(o for op in ops for o in op.operands if o not in inside))


def _on_host(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_on_host, value))
    return None if value is None else np.asarray(value)


# The device's values


def _all_together(
    computation: XlaComputation, arguments: Sequence[Any], target: jax.Device
) -> dict[int, Any]:
    """The values of the ops of the program as a whole, by their numbers."""
    asked = with_results(computation, computation.ops)
    _, *values = compile(asked, target)(*arguments)
    return dict(enumerate(values))


def _one_by_one(subject: XlaComputation, wanted: Values, target: jax.Device) -> dict[int, Any]:
    """The value of each op by itself, given the interpreter's operands; by their numbers."""
    values = {subject.ops[op.id]: value for op, value in wanted.items()}
    chosen = [
        op
        for op in subject.ops
        if op.opcode not in _GIVEN
        and not lacks(op)
        and not any(_has_token(one.shape) for one in (op, *op.operands))
    ]
    found: dict[int, Any] = {}
    for begin in range(0, len(chosen), _MOST_TOGETHER):
        group = chosen[begin : begin + _MOST_TOGETHER]
        # Constants stay constants, as in the program: XLA says the ops that take them otherwise.
        constants = _constants(group)
        inputs = list(dict.fromkeys(o for op in group for o in op.operands if o not in constants))
        ops = sorted({*group, *constants}, key=lambda op: op.id)
        alone = part(subject.name, inputs, ops, group, apart=True)
        results = compile(alone, target)(*(values[op] for op in inputs))
        found.update(zip((op.id for op in group), results, strict=True))
    return found


def _constants(ops: Sequence[XlaOp]) -> set[XlaOp]:
    """The operands of some ops that are constants, or constants spread out; and what they need."""
    found: set[XlaOp] = set()
    for op in ops:
        for operand in op.operands:
            chain = [operand]
            while chain[-1].opcode in ("broadcast_in_dim", "reshape"):
                chain.append(chain[-1].operands[0])
            if chain[-1].opcode == "constant":
                found.update(chain)
    return found


def _has_token(shape: Shape) -> bool:
    return any(isinstance(leaf, TokenShape) for leaf in leaves(shape))


# Differences


def _differences(
    op: XlaOp, device_value: Any, wanted: Any, tolerance: float, operands: list[Any] | None
) -> list[Difference]:
    """The differences of the arrays of a value.

    Args:
        operands: those of the op; None for the result of a program.
    """
    shapes = list(leaves(op.shape))
    paths = [p for p, s in zip(leaf_paths(op.shape), shapes, strict=True) if s.is_array]
    found = []
    terms = [array for one in operands or () for array in _arrays(one)]
    for path, ours, theirs in zip(paths, _arrays(device_value), _arrays(wanted), strict=True):
        element_type = pt.from_dtype(theirs.dtype)
        is_number = element_type.is_floating or element_type.is_complex
        allowed = tolerance if is_number else 0.0
        size = 0.0
        if allowed and operands is None:
            size = tolerances.largest([theirs])
        elif allowed and tolerances.is_sum(op):
            size = tolerances.largest_term(op, terms, theirs)
        if operands is not None and tolerances.may_flush(op):
            # (A copy, as the result may be the device's.)
            ours = np.where(_tiny(terms, theirs.shape), theirs, ours)
        found.append(_difference(op, path, ours, theirs, allowed, size))
    return found


def _tiny(operands: list[Array], sizes: tuple[int, ...]) -> Array:
    """Which elements are made of a number that devices take for zero."""
    found = np.zeros(sizes, bool)
    for one in operands:
        element_type = pt.from_dtype(one.dtype)
        if one.shape != sizes or not element_type.is_floating:
            continue
        with np.errstate(all="ignore"):
            magnitude = np.abs(one.astype(np.float64))
        found |= (magnitude > 0) & (magnitude <= tolerances.smallest_normal(element_type))
    return found


def _difference(
    op: XlaOp, path: str, ours: Array, theirs: Array, tolerance: float, size: float
) -> Difference:
    shape = f"{pt.from_dtype(theirs.dtype)}[{','.join(map(str, theirs.shape))}]"
    a, b = (_flushed(ours), _flushed(theirs)) if tolerance else (ours, theirs)
    apart = in_units_of(a, b, size) if size else distances(a, b)
    if not apart.size or not apart.max():
        return Difference(op, path, shape, apart.size, 0.0, tolerance, 0, None, "", "")
    index = np.unravel_index(int(apart.argmax()), apart.shape)
    return Difference(
        op,
        path,
        shape,
        apart.size,
        float(apart[index]),
        tolerance,
        int((apart > tolerance).sum()),
        tuple(int(i) for i in index),
        str(ours[index]),
        str(theirs[index]),
    )


def _flushed(values: Array) -> Array:
    """The values with those below the smallest normal number of their type as zero."""
    element_type = pt.from_dtype(values.dtype)
    if element_type.is_complex:
        found = np.empty_like(values)
        found.real, found.imag = _flushed(values.real), _flushed(values.imag)
        return found
    least = tolerances.smallest_normal(element_type)
    with np.errstate(all="ignore"):
        small = np.abs(values.astype(np.float64)) < least
    return np.where(small, values.dtype.type(0), values) if small.any() else values
