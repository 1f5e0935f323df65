"""compare: compare a device with StableHLO's reference interpreter, op by op."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, overload

import jax
import numpy as np

from builder.checking import flag
from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp, is_constant, is_parameter
from builder.inspection.parts import Column, Heading, Part, TextTable
from builder.inspection.table import count_text
from builder.schema import Trait, opcodes_with
from builder.support.arguments import is_function
from builder.support.display import Displayed
from builder.types import primitive_type as pt
from builder.types.shape import Shape, TokenShape, leaves
from lowering.errors import DeviceError
from lowering.importer import to_computation
from lowering.interpreter import tolerances
from lowering.interpreter.corresponding import Correspondence, corresponding
from lowering.interpreter.double_precision import in_double
from lowering.interpreter.evaluating import (
    checked_timeout,
    flat_arguments,
    nested_value,
    program_of,
    run,
)
from lowering.interpreter.instrumentation import extract, with_results
from lowering.interpreter.interpreter_support import is_unsupported
from lowering.interpreter.tolerances import distances, in_units_of
from lowering.mlir.types import leaf_paths
from lowering.pjrt.devices import DeviceLike, device_argument
from lowering.running.compiling import compile
from lowering.stablehlo.lower import lower
from lowering.stablehlo.sources import ModuleSource


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between an array on the device and in the reference interpreter.

    Attributes:
        op: the op with this value.
        path: the array's index in a tuple, such as `[0][1]`; empty if the value is an array.
        shape: the array's shape, as text.
        elements: the number of elements.
        ulps: the largest distance between an element on the device and in the interpreter, in units
            in the last place of the element type. For integers and booleans the distance is the
            difference; for computed complex numbers, the magnitude of the difference. The distance
            between a NaN and a finite number is infinite.
        tolerance: the largest distance of elements that count as equal.
        beyond: the number of elements whose distance exceeds the tolerance.
        index: the index of the elements with the largest distance; None if all are equal.
        device_value, reference_value: the elements at `index`, as text; empty if all are equal.
    """

    op: XlaOp
    path: str
    shape: str
    elements: int
    ulps: float
    tolerance: float
    beyond: int
    index: tuple[int, ...] | None
    device_value: str
    reference_value: str

    @property
    def agrees(self) -> bool:
        """Whether all elements are within the tolerance."""
        return self.beyond == 0

    @property
    def source(self) -> str | None:
        """The source line of the op, "file:line"; None if unknown."""
        return None if self.op.source is None else str(self.op.source)

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as a dict for JSON; an infinite distance is the text "inf"."""
        return {
            "op": self.op.id,
            "opcode": self.op.opcode,
            "name": self.op.name,
            "path": self.path,
            "shape": self.shape,
            "elements": self.elements,
            "ulps": self.ulps if math.isfinite(self.ulps) else "inf",
            "tolerance": self.tolerance,
            "beyond": self.beyond,
            "agrees": self.agrees,
            "index": None if self.index is None else list(self.index),
            "device": self.device_value or None,
            "reference": self.reference_value or None,
            "source": self.source,
        }

    def __str__(self) -> str:
        name = f" {self.op.name!r}" if self.op.name else ""
        array = f"op {self.op.id} {self.op.opcode}{name}{self.path} {self.shape}"
        if self.index is None:
            return f"{array}: equal"
        index = ", ".join(map(str, self.index))
        text = (
            f"{array}: {ulps_text(self.ulps)} ulps apart at [{index}] (tolerance "
            f"{ulps_text(self.tolerance)}): {self.device_value} on the device, "
            f"{self.reference_value} in the reference"
        )
        if self.beyond:
            text += f"; {self.beyond} of {self.elements} elements are beyond the tolerance"
        return text + (f"; recorded at {self.source}" if self.source else "")


@dataclass(frozen=True, slots=True)
class Comparison(Displayed):
    """The result of `lowering.compare`.

    `str(comparison)` is a summary for people; `as_dict()` returns the data for programs.

    Attributes:
        name: the computation's name.
        reference: what the device is compared with, as text.
        device: the compared device, as text.
        from_reference: whether each op on the device had the interpreter's operands.
        results: a `Difference` for each array of the program's result, equal or not.
        ops: a `Difference` for each array in the value of an op, equal or not, in the order of
            recording. Parameters, constants, tuples and get_tuple_elements are omitted.
        left_out: the ops that the interpreter does not support, or that f64 leaves out. They are
            not compared.
    """

    name: str
    reference: str
    device: str
    from_reference: bool
    results: tuple[Difference, ...]
    ops: tuple[Difference, ...]
    left_out: tuple[XlaOp, ...]

    @property
    def first(self) -> Difference | None:
        """The first entry of `ops` that exceeds its tolerance; None if all ops agree."""
        return next((each for each in self.ops if not each.agrees), None)

    @property
    def agrees(self) -> bool:
        """Whether all ops, and the result of the program, are within the tolerances."""
        return all(each.agrees for each in (*self.ops, *self.results))

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as a dict for JSON."""
        first = self.first
        return {
            "name": self.name,
            "reference": self.reference,
            "device": self.device,
            "from_reference": self.from_reference,
            "agrees": self.agrees,
            "first": None if first is None else first.as_dict(),
            "results": [each.as_dict() for each in self.results],
            "ops": [each.as_dict() for each in self.ops],
            "left_out": [{"op": op.id, "opcode": op.opcode} for op in self.left_out],
        }

    def _of_ops(self) -> str:
        """Return how many of the arrays in `ops` agree, as text."""
        arrays = count_text(len(self.ops), "array")
        beyond = sum(not each.agrees for each in self.ops)
        if beyond:
            are = "is beyond its" if beyond == 1 else "are beyond their"
            return f"{beyond:,} of {arrays} {are} tolerance"
        if not self.ops:
            return "no arrays of ops were compared"
        is_one = len(self.ops) == 1
        found = "within its tolerance" if is_one else "within their tolerance"
        if not any(each.ulps for each in self.ops):
            found = "equal"
        return f"{arrays} is {found}" if is_one else f"all {arrays} are {found}"

    @property
    def _lacks(self) -> str:
        if "interpreter" in self.reference:
            return "the interpreter does not support these"
        return "the reference may compute others"

    def _verdict(self) -> str:
        if not self.agrees and self.first is None:
            return "a result is beyond its tolerance"
        return self._of_ops()

    def _parts(self) -> list[Part]:
        beyond = [each for each in self.ops if not each.agrees]
        worst = sorted(self.ops, key=lambda difference: -difference.ulps)
        # In the order of recording, because the first op that differs is often the cause.
        shown = beyond[:_SHOWN] if beyond else worst[:1]
        rows = [["", *_cells(each)] for each in shown]
        rows += [[f"result{each.path}", *_cells(each)] for each in self.results]
        more = len(beyond) - len(shown) if beyond else 0
        notes = [f"{count_text(more, 'more array')} beyond the tolerance"] if more else []
        if self.left_out:
            notes.append(f"not compared: {len(self.left_out)} ops, which the reference lacks")
        reference = f"{self.device} and {self.reference}: {self._verdict()}"
        return [
            Heading("Comparison", self.name, reference),
            TextTable("", _COLUMNS, rows, "\n".join(notes)),
        ]

    def __repr__(self) -> str:
        return f"<Comparison {self.name!r} on {self.device}: {self._verdict()}>"

    def __str__(self) -> str:
        first = self.first
        lines = [f"{self.name} on {self.device} and on {self.reference}:"]
        if first is not None:
            how = "given equal operands" if self.from_reference else "in the order of recording"
            lines += [
                f"  the first op that differs from the reference, {how}:",
                f"    {first}",
                f"  {self._verdict()}",
            ]
        else:
            how = ", given equal operands" if self.from_reference else ""
            lines.append(f"  {self._of_ops()}{how}")
            worst = max(self.ops, key=lambda difference: difference.ulps, default=None)
            if worst is not None and worst.ulps:
                lines.append(f"  largest difference: {worst}")
        for difference in self.results:
            lines.append(f"  result{difference.path}: {_result_text(difference)}")
        if first is None and not self.agrees:
            lines.append(
                "  each op agrees by itself; lowering.minimize finds the ops that differ together, "
                "with lowering.faults.differs(device, ulps=..., reference=...)"
            )
        if self.left_out:
            listed = ", ".join(f"op {op.id} {op.opcode}" for op in self.left_out[:5])
            more = "" if len(self.left_out) <= 5 else f" and {len(self.left_out) - 5} more"
            lines.append(f"  not compared, since {self._lacks}: {listed}{more}")
        return "\n".join(lines)


_SHOWN: Final = 20

_DOUBLE: Final = "f64 on the CPU"

_COLUMNS: Final = (
    Column(""),
    Column("op", no_wrap=True, style="cyan"),
    Column("shape", style="green"),
    Column("ulps", is_number=True),
    Column("tolerance", is_number=True),
    Column("index", no_wrap=True),
    Column("on the device"),
    Column("reference"),
    Column("beyond", is_number=True),
    Column("source"),
)


def _cells(difference: Difference) -> list[str]:
    op, index = difference.op, difference.index
    name = "" if op.name is None else f" {op.name!r}"
    return [
        f"%{op.id}{name} {op.opcode}{difference.path}",
        difference.shape,
        ulps_text(difference.ulps),
        ulps_text(difference.tolerance),
        "" if index is None else f"[{', '.join(map(str, index))}]",
        difference.device_value,
        difference.reference_value,
        f"{difference.beyond:,} of {difference.elements:,}" if difference.beyond else "",
        (difference.source or "").replace("\\", "/").rpartition("/")[2],
    ]


def _result_text(result: Difference) -> str:
    if result.index is None:
        return "equal"
    verdict = "within" if result.agrees else "beyond"
    return (
        f"up to {ulps_text(result.ulps)} ulps apart, {verdict} the tolerance "
        f"{ulps_text(result.tolerance)}: "
        f"{result.device_value} on the device, {result.reference_value} in the reference"
    )


def ulps_text(ulps: float) -> str:
    """Format a number of ulps, such as "2.5" or "infinitely many"."""
    if not math.isfinite(ulps):
        return "infinitely many"
    if 0 < ulps < 10:  # for sums it may be a fraction
        return f"{ulps:.2g}"
    return f"{ulps:.0f}" if ulps < 1e7 else f"{ulps:.2e}"


Array = np.ndarray[Any, Any]
Values = dict[XlaOp, Any]

_MAX_GROUP: Final = 256
"""The maximum number of ops in a program that computes each op from given operands."""

_NOT_COMPUTED: Final = opcodes_with(Trait.STRUCTURE) | {"constant"}
"""Opcodes whose values are not compared, because the device computes nothing for them."""


@overload
def compare(
    computation: XlaComputation | ModuleSource,
    /,
    *args: Any,
    device: DeviceLike = None,
    ulps: float | Mapping[str, float] | None = None,
    from_reference: bool = True,
    reference: str | jax.Device | Mapping[str, Any] = "interpreter",
    device_computation: XlaComputation | None = None,
    timeout: float | None = None,
    **by_name: Any,
) -> Comparison: ...


@overload
def compare(
    computation: XlaComputation | ModuleSource,
    /,
    *args: Any,
    device: DeviceLike = None,
    ulps: float | Mapping[str, float] | None = None,
    from_reference: bool = True,
    reference: XlaComputation,
    device_computation: XlaComputation | None = None,
    timeout: float | None = None,
    **by_name: Any,
) -> Correspondence: ...


@explained
def compare(
    computation: XlaComputation | ModuleSource,
    /,
    *args: Any,
    device: DeviceLike = None,
    ulps: float | Mapping[str, float] | None = None,
    from_reference: bool = True,
    reference: str | jax.Device | Mapping[str, Any] | XlaComputation = "interpreter",
    device_computation: XlaComputation | None = None,
    timeout: float | None = None,
    **by_name: Any,
) -> Comparison | Correspondence:
    """Compare a device with a reference, op by op: by default StableHLO's interpreter.

    First the program runs on the device, and its result is compared with the interpreter's. Then
    the value of every op is compared, in one of two ways:

    - `from_reference=True`: on the device, each op gets the operands that the interpreter computed.
      An op that differs is itself the cause: its operands are equal on both sides. Errors that
      occur only when XLA fuses ops appear in the program's result only.
    - `from_reference=False`: the program runs on the device with the values of all its ops as
      additional results. Rounding errors accumulate. XLA fuses fewer ops than in the original
      program, because the values have to be available.

    Two numbers are equal if they differ by at most the tolerance of the op, in units in the last
    place (ulps) of their type: see docs/operations.md, and `lowering.legalize.elementwise`:

    - The tolerance is 0 for integers, booleans and ops that move elements, and small for arithmetic
      and functions. For sums it is the number of terms, in ulps of the largest term.
    - Complex numbers are compared by the magnitude of their difference, in ulps of the larger part,
      because the smaller part may have few correct digits.
    - All NaNs are equal, and so are the two zeros. A complex number with a NaN is equal to an
      infinite complex number.
    - Devices may flush subnormal numbers to zero. If the tolerance is not 0, a subnormal number
      counts as zero, and results of elementwise arithmetic on subnormal numbers are not compared.
    - For an op that applies computations (a loop, a call) only the value of the op is compared,
      with the combined tolerances of the ops in the computations.

    Rounding errors accumulate in the program's result, and in all values if `from_reference` is
    false. For these, the unit is an ulp of the largest element of the array, and the tolerance is
    the sum of the tolerances along the longest path to the op.

    For ops that the interpreter does not support (random numbers, cholesky, custom calls), the
    device's value is used on both sides and not compared. The result of a program that generates
    random numbers is not compared either.

    Args:
        computation: an XlaComputation, or what `lowering.load` accepts.
        args: the arguments, as for a compiled computation.
        device: a jax.Device, "cpu", "gpu:1", ...; None for jax's default device.
        ulps: the tolerance for all ops, or a mapping from opcodes to tolerances; None for the
            tolerances in docs/operations.md.
        from_reference: which of the two ways above to compare ops in.
        reference: what the device is compared with:

            - "interpreter" is slow: minutes for products of large matrices.
            - "f64" is the CPU: each inexact op is computed in f64 or c128 from the same operands
              as on the device, and rounded; ops that only move elements, and integer arithmetic,
              are executed by the CPU unchanged. Composites, custom calls, Python functions and
              random numbers of `rng` are left out.
            - another device, such as "cpu:0" or a jax.Device, runs the program there.
            - a mapping of compile options (see `compile`) runs the program on the same device,
              compiled with these options.
            - another computation with the same parameters and results runs on the same device: for
              instance ``lowering.from_jax(function, *args)``, if the computation is a port of
              `function`. Its ops need not correspond by number: values are matched by their
              elements, and the first op that computes something else is found.
        device_computation: a computation to run on the device in place of `computation`. The ops
            with the same number must have the same shape in both, as in the result of a `replace`
            that changes the ops one by one.
        timeout: the time limit of each run of the interpreter, in seconds; None for no limit.
        by_name: arguments by the names of their parameters, except for parameters with the name of
            an argument above.

    Returns:
        A Comparison, which prints as a few lines; a Correspondence if the reference is a
        computation.

    Raises:
        ArgumentError: the arguments do not match the parameters.
        ExecutionError: the interpreter, or the program on the device, failed.
        LoweringError: StableHLO cannot express the computation, or the file cannot be imported.
        CompileError: XLA cannot compile the computation for the device.
        DeviceError: the device does not exist, or this process can't use it.
        ModuleFileError: the file cannot be read.
        OperandError: `computation` is neither a computation nor what `lowering.load` accepts;
            `ulps` is not a tolerance; `reference` is none of the above, or a computation of other
            parameters or results; or the ops of `device_computation` do not correspond.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> @xb.computation(xb.s32[3], xb.s32[3])
        ... def model(x, y):
        ...     return (x + y) * x
        >>> x = np.int32([1, 2, 3])
        >>> print(lowering.compare(model, x, x, device="cpu"))
        model on cpu:0 and on StableHLO's reference interpreter:
          all 2 arrays are equal, given equal operands
          result: equal
        >>> def wrong(op, operands):
        ...     return operands[0] - operands[1] if op.opcode == "add" else None
        >>> found = lowering.compare(
        ...     model, x, x, device="cpu", device_computation=model.replace(wrong)
        ... )
        >>> found.agrees, found.first.op.opcode, found.first.ulps, found.first.index
        (False, 'add', 6.0, (2,))
    """
    target = device_argument("compare", device)
    program = program_of("compare", computation, target)
    source = program if isinstance(program, XlaComputation) else to_computation(program)
    seconds = checked_timeout("compare", timeout)
    _check_ulps(ulps)
    subject = _checked_variant(source, device_computation)
    flat, _ = flat_arguments(source, args, by_name)
    arguments = nested_arguments(source, flat)
    if isinstance(reference, XlaComputation):
        return _correspondence(subject, reference, arguments, target, ulps)
    ran = _reference(source, flat, arguments, reference, target, seconds)
    values, left_out = ran.values, ran.left_out
    module = lower(subject)
    module.tree = None  # the reference's result is flat
    device_result = compile(module, target)(*arguments)
    if flag("compare", "from_reference", from_reference):
        device_values = _separate_values(subject, values, target, left_out)
        expected = values
        if ran.device is not None:
            expected = _separate_values(source, values, ran.device, left_out, ran.options)
    else:
        device_values = _program_values(subject, arguments, target)
        expected = values
    numbered = {op.id: value for op, value in device_values.items()}
    accumulated = tolerances.accumulated(source, target.platform)
    missing = set(left_out)  # by identity: == records an op
    ops = []
    for op in source.ops:
        if op.opcode in _NOT_COMPUTED or op in missing or op.id not in numbered:
            continue
        default = tolerances.of_op(op, target.platform) if from_reference else accumulated[op.id]
        tolerance = _tolerance(ulps, op.opcode, default)
        # Accumulated errors may exceed small elements, which are sums of larger canceling ones.
        operands = [values[o] for o in op.operands] if from_reference else None
        ops += _differences(op, numbered[op.id], expected[op], tolerance, operands)
    root = source.root
    tolerance = _tolerance(ulps, None, accumulated[root.id])
    results = _differences(root, device_result, values[root], tolerance, None)
    if any(op.opcode == "rng" for op in left_out):
        results = []  # each run has different random numbers
    return Comparison(
        source.name,
        ran.name,
        f"{target.platform}:{target.id}",
        from_reference,
        tuple(results),
        tuple(ops),
        tuple(left_out),
    )


class _ReferenceRun(NamedTuple):
    """A run of the reference.

    Attributes:
        name: the reference, as text.
        values: the value of each op.
        left_out: the ops that the reference lacks, or that have random values.
        device, options: the device that ran the program, and the compile options, if the values are
            those of a program as a whole, in which XLA combines ops; else None.
    """

    name: str
    values: Values
    left_out: list[XlaOp]
    device: jax.Device | None = None
    options: Mapping[str, Any] | None = None


def _reference(
    source: XlaComputation,
    flat: Sequence[Array],
    arguments: Sequence[Any],
    reference: Any,
    target: jax.Device,
    timeout: float | None,
) -> _ReferenceRun:
    """Run the reference; see the argument `reference` of `compare`."""
    if isinstance(reference, str) and reference == "interpreter":
        run = reference_values(source, flat, target, timeout)
        return _ReferenceRun("StableHLO's reference interpreter", *run)
    if isinstance(reference, str) and reference == "f64":
        return _ReferenceRun(_DOUBLE, *double_values(source, arguments))
    options = None
    if isinstance(reference, Mapping):
        options = reference
        text = ", ".join(f"{name}={value}" for name, value in reference.items())
        described = f"itself with {text or 'no options'}"
    else:
        target = _device_of(reference)
        described = f"{target.platform}:{target.id}"
    left_out = [op for op in source.ops if op.opcode == "rng"]
    values = _program_values(source, arguments, target, options)
    return _ReferenceRun(described, values, left_out, target, options)


def _device_of(reference: Any) -> jax.Device:
    cause: Exception | None = None
    if isinstance(reference, (str, jax.Device)):
        try:
            return device_argument("compare", reference)
        except DeviceError as error:
            if re.fullmatch(r"(cpu|gpu|cuda|rocm|tpu)\b.*|.*:\d+", str(reference)):
                raise  # meant as a device
            cause = error
    rule = (
        "reference must be 'interpreter', 'f64', a device, a mapping of compile options or a "
        "computation"
    )
    fix = "pass lowering.from_jax(function, *arguments)" if is_function(reference) else ""
    raise error_of(OperandError, "compare", rule, fix, got=brief(reference)) from cause


def _correspondence(
    computation: XlaComputation,
    reference: XlaComputation,
    arguments: Sequence[Any],
    target: jax.Device,
    ulps: Any,
) -> Correspondence:
    """Match the values of a computation with those of another one on the same device."""
    shapes, others = computation.program_shape, reference.program_shape
    if shapes.parameters != others.parameters or shapes.result != others.result:
        rule = "reference must have the parameters and the result of the computation"
        raise error_of(OperandError, "compare", rule, got=f"{others} for {shapes}")
    errors = tolerances.accumulated(computation, target.platform)
    other_errors = np.array(tolerances.accumulated(reference, target.platform))

    def allowed(op: XlaOp, others: Array) -> Array:
        # The programs add up in another order.
        both: Array = errors[op.id] + other_errors[others]
        requested = _tolerance(ulps, op.opcode, math.nan)
        return both if math.isnan(requested) else np.full_like(both, requested)

    return corresponding(
        computation,
        reference,
        _program_values(computation, arguments, target),
        _program_values(reference, arguments, target),
        f"{target.platform}:{target.id}",
        allowed,
    )


def _tolerance(ulps: Any, opcode: str | None, default: float) -> float:
    """Return the tolerance in ulps of an op, or of the program's result if `opcode` is None."""
    if isinstance(ulps, Mapping):
        return float(ulps.get(opcode, default))
    return default if ulps is None else float(ulps)


def _check_ulps(ulps: Any) -> None:
    if ulps is None:
        return
    for value in ulps.values() if isinstance(ulps, Mapping) else [ulps]:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise OperandError(
                "ulps must be a number that is at least 0, or a mapping from opcodes to "
                "such numbers",
                got=brief(ulps),
                op="compare",
            )


def _checked_variant(reference: XlaComputation, variant: Any) -> XlaComputation:
    """Return the computation to run on the device: `variant`, or `reference` if it is None.

    Raises:
        OperandError: the ops of `variant` do not correspond to the ops of `reference`.
    """

    def refuse(rule: str, got: object) -> OperandError:
        fix = "pass computation.replace(function) with a function that returns one op for each op"
        return error_of(OperandError, "compare", rule, fix, argument="device_computation", got=got)

    if variant is None:
        return reference
    if not isinstance(variant, XlaComputation):
        raise refuse("device_computation must be an XlaComputation", brief(variant))
    if len(variant.ops) != len(reference.ops):
        raise refuse(
            f"device_computation must have as many ops as the computation, {len(reference.ops)}",
            len(variant.ops),
        )
    for expected, op in zip(reference.ops, variant.ops, strict=True):
        same_parameter = is_parameter(expected) == is_parameter(op)
        if expected.shape != op.shape or not same_parameter:
            raise refuse(
                f"op {expected.id} of device_computation must correspond to the computation's "
                f"{expected.opcode} of {expected.shape}",
                f"{op.opcode} of {op.shape}",
            )
    if variant.root.id != reference.root.id:
        rule = f"the root of device_computation must be op {reference.root.id}"
        raise refuse(rule, variant.root.id)
    return variant


def nested_arguments(computation: XlaComputation, flat: Sequence[Array]) -> list[Any]:
    """Return an argument for each parameter: the arrays `flat`, nested like the parameters."""
    remaining = iter(flat)
    return [
        nested_value(shape, lambda _: next(remaining))
        for shape in computation.program_shape.parameters
    ]


def _arrays(value: Any) -> list[Array]:
    """Return the arrays in a value, which may be a nested tuple; tokens are omitted."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(value)]


# The values of the interpreter


def reference_values(
    computation: XlaComputation,
    arguments: Sequence[Array],
    target: jax.Device,
    timeout: float | None,
) -> tuple[Values, list[XlaOp]]:
    """Return the value of each op on the interpreter, and the ops that it does not support.

    The device computes the values of the unsupported ops.

    Raises:
        ExecutionError: the interpreter failed, or does not support an op with side effects.
    """
    unsupported = [op for op in computation.ops if is_unsupported(op)]
    if not unsupported:
        instrumented = with_results(computation, computation.ops)
        _, *results = run(instrumented, arguments, timeout=timeout)
        return dict(zip(computation.ops, results, strict=True)), []
    nested = nested_arguments(computation, arguments)
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


def double_values(
    computation: XlaComputation, arguments: Sequence[Any]
) -> tuple[Values, list[XlaOp]]:
    """Return the value of each op computed in f64 on the CPU, and the ops that are not."""
    wide = in_double(computation)
    ops = [wide.ops[op] for op in computation.ops]
    run = compile(with_results(wide.computation, ops), device_argument("compare", "cpu"))
    _, *results = run(*arguments)
    found = [jax.tree.map(np.asarray, result) for result in results]
    return dict(zip(computation.ops, found, strict=True)), wide.left_out


def _interpreted(name: str, ops: Sequence[XlaOp], values: Values, timeout: float | None) -> Values:
    """Compute `ops` on the interpreter from the values of their operands; return their values."""
    if not ops:
        return {}
    inputs = _operands(ops)
    flat = [array for op in inputs for array in _arrays(values[op])]
    return dict(zip(ops, run(extract(name, inputs, ops, ops), flat, timeout=timeout), strict=True))


def _operands(ops: Sequence[XlaOp]) -> list[XlaOp]:
    """Return the operands of `ops` that are not in `ops` themselves, without duplicates."""
    inner = set(ops)
    return list(dict.fromkeys(o for op in ops for o in op.operands if o not in inner))


# The values of the device


def _program_values(
    computation: XlaComputation,
    arguments: Sequence[Any],
    target: jax.Device,
    options: Mapping[str, Any] | None = None,
) -> Values:
    """Run the program on the device; return the value of each op."""
    instrumented = with_results(computation, computation.ops)
    _, *results = compile(instrumented, target, options=options)(*arguments)
    values = [jax.tree.map(np.asarray, result) for result in results]
    return dict(zip(computation.ops, values, strict=True))


def _separate_values(
    subject: XlaComputation,
    reference_values: Values,
    target: jax.Device,
    left_out: Sequence[XlaOp],
    options: Mapping[str, Any] | None = None,
) -> Values:
    """Compute each op on the device from the reference's operands; return their values."""
    operands = {subject.ops[op.id]: value for op, value in reference_values.items()}
    skipped = {op.id for op in left_out}
    selected = [
        op
        for op in subject.ops
        if op.opcode not in _NOT_COMPUTED
        and op.id not in skipped
        and not any(_has_token(each.shape) for each in (op, *op.operands))
    ]
    values: Values = {}
    for begin in range(0, len(selected), _MAX_GROUP):
        group = selected[begin : begin + _MAX_GROUP]
        # Constants remain constants, because XLA compiles ops with constant operands differently.
        constants = _constants(group)
        inputs = list(dict.fromkeys(o for op in group for o in op.operands if o not in constants))
        ops = sorted({*group, *constants}, key=lambda op: op.id)
        separate = extract(subject.name, inputs, ops, group, separate=True)
        results = compile(separate, target, options=options)(*(operands[op] for op in inputs))
        values.update(zip(group, results, strict=True))
    return values


def _constants(ops: Sequence[XlaOp]) -> set[XlaOp]:
    """Return the operands of `ops` that are constants, or broadcasts or reshapes of constants."""
    constants: set[XlaOp] = set()
    for op in ops:
        for operand in op.operands:
            chain = [operand]
            while chain[-1].opcode in ("broadcast_in_dim", "reshape"):
                chain.append(chain[-1].operands[0])
            if is_constant(chain[-1]):
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
        device_value, reference_value: the value on the device and on the interpreter.
        tolerance: the tolerance for floating-point elements, in ulps.
        operands: the values of the op's operands; None for values with accumulated errors.
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
    """Return a mask of the elements computed from a subnormal number, which devices may flush."""
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
