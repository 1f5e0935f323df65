"""Pullbacks: the reverse derivative of one op or of one inlined call, as computations.

The pullback of an op is `jax.vjp` of the function by which `to_jax` evaluates it. In the trace, the
recorded results take the place of the results that jax computes, so that only the derivative is
left. Pullbacks are traced once for each signature, and all that a call of `gradients` needs are
traced together. The ops of most are recorded from the trace (`recorded_equations`); jax lowers the
others, in one module.

Some derivatives need more than operands and results: that of a loop needs the values of each
iteration. Then the trace is cut in two computations. The first one returns the results of the op
and these *residuals*; `gradients` records it in the place of the op, so that no value is computed
twice.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final

import jax
import numpy as np

from builder.errors import XlaError, error_of
from builder.graph.computation import XlaComputation
from builder.graph.inlined_calls import InlinedCall, LibraryCall, needed_ops
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, constant_value, is_constant, is_parameter, is_tuple
from builder.inspection.equivalence import value_key
from builder.ops.host import observers
from builder.rewriting.copying import copy_op
from builder.schema import Trait, opcodes_with
from builder.support.collector import collector_paused
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, leaves
from lowering.errors import LoweringError
from lowering.jax_interop.equations import (
    Equation,
    RetracedFunction,
    WholeFunction,
    retraced_call,
)
from lowering.jax_interop.evaluation import Preparation, computations_in, wide_op
from lowering.jax_interop.from_jax import abstract_array, traced_computation
from lowering.jax_interop.inlined_calls import Outermost, library_step, part_of
from lowering.jax_interop.pasting import nested
from lowering.jax_interop.recorded_equations import can_record, recorded
from lowering.jax_interop.sizes import Sizes, are_numbers, names_in, with_given
from lowering.jaxlib_api import jaxprs
from lowering.jaxlib_api.jaxprs import inner_jaxprs, is_expanded
from lowering.ops.host import recorded_calls
from lowering.ops.registry import Step, Value, place

_CONTROL_FLOW: Final = opcodes_with(Trait.CONTROL_FLOW)

_COSTLY: Final = frozenset(
    """
    cholesky cond conv_general_dilated dot_general eig eigh fft geqrf householder_product lu qr
    ragged_dot_general scan schur sort svd triangular_solve while xlabuilder_op
    """.split()
)
"""Primitives that are not evaluated twice: rather, the op is recorded with residuals."""

_CALLS: Final = frozenset(
    ("closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "jit", "pjit")
)
"""Primitives that call the jaxpr in their parameters."""

_MOST_KEPT: Final = 1024
"""The most pullbacks that are cached."""

_MOST_OPS: Final = 4096
"""The most ops in the bodies of an op whose pullback is cached."""

_MOST_BYTES: Final = 65536
"""The most bytes of the constants in these bodies."""


@dataclass(frozen=True, slots=True)
class Unit:
    """An op, or the ops of an inlined call, with the numbers of the arrays to differentiate.

    The arrays in the operands are numbered in order, those in nested tuples included, and so are
    the arrays in the results.

    Attributes:
        operands: the operands.
        results: the op, or the results of the call that are recorded.
        call: the inlined call; None for an op.
        wanted: the numbers of the operands' arrays whose cotangents are computed.
        seeded: the numbers of the results' arrays that have cotangents.
        is_again: whether it was recorded with residuals by an earlier call of `gradients`. It is
            not replaced once more: the residuals would be results, with residuals of their own.
        sizes: the sizes of the operands' arrays, with symbols for unbounded ones; None if all sizes
            of the unit are fixed.
        given: by number, the operands that are sizes of its result.
    """

    operands: tuple[XlaOp, ...]
    results: tuple[XlaOp, ...]
    call: Outermost | None
    wanted: tuple[int, ...]
    seeded: tuple[int, ...]
    is_again: bool
    sizes: tuple[Sizes, ...] | None = None
    given: Mapping[int, Value] = field(default_factory=dict)

    @property
    def op(self) -> XlaOp:
        """The op, or the first result of the call."""
        return self.results[0] if self.call is None else self.call.first


@dataclass(frozen=True, slots=True)
class Pullback:
    """The derivative of a unit, as computations of arrays.

    Attributes:
        forward: takes the arrays of the operands; returns the arrays of the results, and then the
            residuals. None if there are no residuals.
        backward: takes the arrays of `inputs`; returns the arrays of `outputs` that are not None.
            None if all are.
        inputs: what `backward` takes: pairs of "cotangent", "operand", "result" or "residual", and
            a number.
        outputs: for each wanted array the number of the result of `backward`; None if the
            derivative is zero.
        keys: for each op of `backward` a key of its opcode, shape and attributes.
    """

    forward: XlaComputation | None
    backward: XlaComputation | None
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[int | None, ...]
    keys: list[Hashable]


_pullbacks: Final[dict[Hashable, Pullback]] = {}
"""The cached pullbacks, in the order of their latest use."""

_lock: Final = RLock()


def arrays_in(shapes: Iterable[Shape]) -> list[ArrayShape]:
    """Return the shapes of the arrays in shapes, those in nested tuples included."""
    return [leaf for shape in shapes for leaf in leaves(shape) if isinstance(leaf, ArrayShape)]


def pullbacks_of(name: str, units: Sequence[Unit]) -> list[Pullback]:
    """Return the pullback of each unit.

    Args:
        name: the public function, for messages.
        units: the units.

    Raises:
        LoweringError: jax can't evaluate or differentiate a unit.
    """
    keys = _Keys()
    context = jaxprs.trace_context()
    with transformation_errors(name):
        signatures: list[Hashable] = [(keys.unit(unit), context) for unit in units]
    missing: dict[Hashable, Unit] = {}
    found: dict[Hashable, Pullback] = {}
    for signature, unit in zip(signatures, units, strict=True):
        own = _own_cache(unit)
        with _lock:
            if own is not None:
                cached = own.get(signature)
            else:
                cached = _pullbacks.pop(signature, None)
                if cached is not None:
                    _pullbacks[signature] = cached  # now the latest
        if cached is not None:
            found[signature] = cached
        elif signature not in found:
            missing[signature] = unit
    if missing:
        with collector_paused():  # it would take a third of the time of the first call
            found.update(zip(missing, _trace(name, list(missing.values())), strict=True))
        with _lock:
            for signature, unit in missing.items():
                own = _own_cache(unit)
                if own is not None:
                    own[signature] = found[signature]
                elif _is_small(unit):
                    _pullbacks[signature] = found[signature]
            while len(_pullbacks) > _MOST_KEPT:
                del _pullbacks[next(iter(_pullbacks))]
    return [found[signature] for signature in signatures]


def _own_cache(unit: Unit) -> dict[Hashable, Pullback] | None:
    """Return the cache of an equation with inner jaxprs; None for other units.

    It lives as long as the equation, which may hold large constants and functions of the user.
    """
    function = None if unit.call is None else unit.call.function
    if isinstance(function, Equation) and function.has_jaxpr:
        return function.pullbacks
    return None


def _is_small(unit: Unit) -> bool:
    """Return whether the pullback of a unit is cached: the bodies of a loop may be large."""
    bodies = [part for value in unit.op.attributes.values() for part in computations_in(value)]
    if unit.call is not None or not bodies:
        return True
    nested = [part for body in bodies for part in (*body.called_computations(), body)]
    ops = [op for part in nested for op in part.ops]
    constants = [op.attributes["value"].nbytes for op in ops if is_constant(op)]
    return len(ops) <= _MOST_OPS and sum(constants) <= _MOST_BYTES


class _Keys:
    """Hashable descriptions of units: equal units have equal pullbacks."""

    def __init__(self) -> None:
        self._attributes: dict[int, tuple[Mapping[str, Any], Hashable]] = {}
        self._computations: dict[XlaComputation, Hashable] = {}

    def attributes(self, attributes: Mapping[str, Any]) -> Hashable:
        entry = self._attributes.get(id(attributes))
        if entry is None:
            named = sorted(attributes.items())
            key = tuple([(name, self._attribute(value)) for name, value in named])
            # The entry refers to the mapping, because the id of a freed object may be reused.
            entry = self._attributes[id(attributes)] = attributes, key
        return entry[1]

    def unit(self, unit: Unit) -> Hashable:
        shapes = tuple([operand.shape for operand in unit.operands])
        # Symbols of different scopes can't be compared.
        which = (
            unit.wanted,
            unit.seeded,
            unit.is_again,
            unit.sizes and str((unit.sizes, unit.given)),
        )
        if unit.call is not None:
            # An op that is an operand twice is one parameter of the part.
            first: dict[XlaOp, int] = {}
            same = tuple([first.setdefault(op, number) for number, op in enumerate(unit.operands)])
            return "call", _function_key(unit.call), shapes, same, which
        op = unit.op
        constants = tuple([self._constant(operand) for operand in _known_operands(unit)])
        frontend = op.metadata is not None and op.frontend_attributes
        marks = tuple(sorted(frontend.items())) if frontend else ()
        return op.opcode, op.shape, shapes, self.attributes(op.attributes), constants, marks, which

    def _attribute(self, value: Any) -> Hashable:
        bodies = computations_in(value)
        return tuple(map(self._computation, bodies)) if bodies else value_key(value)

    def _computation(self, computation: XlaComputation) -> Hashable:
        """Return a key of what a computation computes, and of its derivatives."""
        known = self._computations.get(computation)
        if known is not None:
            return known
        key = (
            tuple([p.id for p in computation.parameters]),
            computation.root.id,
            tuple(
                [
                    (
                        *(op.opcode, op.shape, self.attributes(op.attributes), _marks(op)),
                        tuple([operand.id for operand in op.operands]),
                    )
                    for op in computation.ops
                ]
            ),
            tuple(
                [
                    (
                        _function_key(call),
                        tuple([op.id for op in call.operands]),
                        tuple([-1 if op is None else op.id for op in call.results]),
                    )
                    for call in computation._inlined_calls
                ]
            ),
            None if computation.derivative is None else self._computation(computation.derivative),
        )
        self._computations[computation] = key
        return key

    def _constant(self, op: XlaOp | None) -> Hashable:
        if op is None:
            return None
        constant = constant_value(op)
        if constant is not None:
            return value_key(constant)
        return tuple([self._constant(element) for element in _known_elements(op)])


def op_keys(ops: Iterable[XlaOp]) -> list[Hashable]:
    """Return for each op a key of what it computes from its operands."""
    keys = _Keys()
    return [
        (
            op.opcode,
            op.shape,
            # Hashing the elements of large constants would take most of the time.
            id(op.attributes) if _is_large_constant(op) else keys.attributes(op.attributes),
            _marks(op),
        )
        for op in ops
    ]


def _is_large_constant(op: XlaOp) -> bool:
    constant = constant_value(op)
    return constant is not None and constant.nbytes > _MOST_BYTES


def _marks(op: XlaOp) -> Hashable:
    metadata = op.metadata
    if metadata is None or not (metadata.sharding or metadata.frontend_attributes):
        return None
    return str(metadata.sharding), value_key(dict(metadata.frontend_attributes or {}))


def _function_key(call: InlinedCall | Outermost) -> Hashable:
    function = call.function
    if isinstance(function, LibraryCall):
        arguments = [(name, value_key(value)) for name, value in function.arguments.items()]
        # The ops of the call are its values, which its arguments determine.
        return function.name, tuple(arguments)
    known = tuple([op is not None for op in call.results])
    return _Equation(function) if isinstance(function, Equation) else function, known


class _Equation:
    """An equation as a key: equal if the primitives, the parameters and the settings are."""

    __slots__ = ("_hash", "equation")

    def __init__(self, equation: Equation) -> None:
        self.equation = equation
        self._hash = hash((equation.primitive, equation.operands))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Equation):
            return NotImplemented
        mine, its = self.equation, other.equation
        if mine is its:
            return True
        mine_others = mine.primitive, mine.operands, mine.context
        is_same = mine_others == (its.primitive, its.operands, its.context)
        return is_same and _are_equal(mine.params, its.params)


def _are_equal(params: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    try:
        return bool(params == others)
    except ValueError:  # of arrays
        return False


def _known_operands(unit: Unit) -> list[XlaOp | None]:
    """Return the operands that the rule of an op for jax reads, None for the others.

    The derivative of a reduction depends on its initial value, that of a loop on its trip count: on
    scalar constants, and those in tuples. A constant whose cotangent is wanted is not read.
    """
    op = unit.op
    if not any(computations_in(value) for value in op.attributes.values()):
        return [None] * len(op.operands)
    found: list[XlaOp | None] = []
    number = 0
    for operand in op.operands:
        is_read = is_tuple(operand) or (_is_scalar_constant(operand) and number not in unit.wanted)
        found.append(operand if is_read else None)
        number += len(arrays_in([operand.shape]))
    return found


def _known_elements(op: XlaOp) -> list[XlaOp | None]:
    """Return the elements of a tuple that determine a trip count, None for the others."""
    return [
        element
        if is_tuple(element)
        or (_is_scalar_constant(element) and element.shape.element_type.is_integral)
        else None
        for element in op.operands
    ]


def _is_scalar_constant(op: XlaOp) -> bool:
    return is_constant(op) and not op.shape.dimensions  # type: ignore[union-attr]  # an array


def _part(unit: Unit) -> XlaComputation:
    """Return a unit as a computation of its operands."""
    call = unit.call
    if call is not None:
        results = [op for op in call.results if op is not None]
        whole = InlinedCall(call.function, call.operands, call.results)
        return part_of("call", call.operands, call.members, results, [*call.inner, whole])
    op = unit.op
    b = XlaBuilder(op.opcode)
    operands = []
    for operand, known in zip(op.operands, _known_operands(unit), strict=True):
        parameter = b.parameter(operand.shape)
        operands.append(parameter if known is None else _with_constants(known, parameter, b))
    return b.build(copy_op(op, tuple(operands), b, op.attributes))


def _with_constants(op: XlaOp, value: XlaOp, builder: XlaBuilder) -> XlaOp:
    """Return `value`, a parameter in the place of `op`, with the constants in `op` copied."""
    if is_constant(op):
        return copy_op(op, (), builder, op.attributes)
    known = _known_elements(op)
    if all(element is None for element in known):
        return value
    elements = [
        value[number] if element is None else _with_constants(element, value[number], builder)
        for number, element in enumerate(known)
    ]
    return record_tuple(builder, elements)


@dataclass(frozen=True, slots=True)
class _Function:
    """Equations as a function of arrays.

    Attributes:
        arguments: its arguments, variables of the jaxpr.
        equations: the equations.
        results: its results: variables or constants.
    """

    arguments: list[Any]
    equations: list[Any]
    results: list[Any]


@dataclass(frozen=True, slots=True)
class _Cut:
    """The functions of a unit, before they are lowered; see `Pullback`."""

    forward: _Function | None
    backward: _Function | None
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[int | None, ...]


def _trace(name: str, units: Sequence[Unit]) -> list[Pullback]:
    """Trace and lower the pullbacks of units, all in one trace and one module."""
    parts = [_part(unit) for unit in units]
    is_wide = any(wide_op(part) is not None for part in parts)
    x64 = jax.enable_x64(True) if is_wide else contextlib.nullcontext()
    with transformation_errors(name), x64, recorded_calls(omits_observers=True) as calls:
        try:
            constants, traces = _traces(name, units, parts)
        except XlaError:
            raise
        except Exception:
            _trace_each(name, units, parts)
            raise
        cuts = [_cut(unit, trace) for unit, trace in zip(units, traces, strict=True)]
        both = [(cut.forward, cut.backward) for cut in cuts]
        functions = [function for pair in both for function in pair if function is not None]
        lowered = iter(_computations(name, constants, functions, calls))
    found: list[Pullback] = []
    for cut in cuts:
        forward = None if cut.forward is None else next(lowered)
        backward = None if cut.backward is None else next(lowered)
        keys = [] if backward is None else op_keys(backward.ops)
        found.append(Pullback(forward, backward, cut.inputs, cut.outputs, keys))
    return found


def _computations(
    name: str, constants: Mapping[Any, Any], functions: Sequence[_Function], calls: Any
) -> list[XlaComputation]:
    """Return the computation of each function."""
    are_recorded = [can_record(function.equations) for function in functions]
    others = [f for f, is_recorded in zip(functions, are_recorded, strict=True) if not is_recorded]
    lowered = iter(_lowered(name, constants, others, calls))
    return [
        _recorded(function, constants) if is_recorded else next(lowered)
        for function, is_recorded in zip(functions, are_recorded, strict=True)
    ]


def _recorded(function: _Function, constants: Mapping[Any, Any]) -> XlaComputation:
    """Record the equations of a function."""
    b, values = recorded(function.arguments, function.equations, function.results, constants)
    return _part_with_results(list(b.parameters.values()), values, b._inlined_calls)


def _part_with_results(
    parameters: Sequence[XlaOp], results: Sequence[XlaOp], inlined: Sequence[InlinedCall]
) -> XlaComputation:
    """Return a computation of the ops between parameters and results, each computed once."""
    members = needed_ops(results, inlined, parameters)
    return part_of("pullback", parameters, members, results, inlined, _duplicates(members))


def _lowered(
    name: str, constants: Mapping[Any, Any], functions: Sequence[_Function], calls: Any
) -> list[XlaComputation]:
    """Lower functions in one module; return the computation of each."""
    if not functions:
        return []
    sizes = (n for each in functions for v in each.arguments for n in v.aval.shape)
    if len(functions) > 1 and not are_numbers(sizes):
        # Each reads the sizes from its own arguments.
        return [_lowered(name, constants, [each], calls)[0] for each in functions]

    def evaluated(function: _Function, arrays: Iterable[Any]) -> list[Any]:
        values = {**constants, **dict(zip(function.arguments, arrays, strict=True))}
        found: list[Any] = jaxprs.evaluate(function.equations, values, function.results)
        return found

    def every(*arrays: Any) -> list[Any]:
        remaining = iter(arrays)
        return [
            result
            for function in functions
            for result in evaluated(function, [next(remaining) for _ in function.arguments])
        ]

    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    shapes = [described(v.aval.shape, v.aval.dtype) for f in functions for v in f.arguments]
    whole = calls.restored(traced_computation(name, every, shapes, {}))
    retraced = [c for c in whole._inlined_calls if isinstance(c.function, RetracedFunction)]
    for part in (whole, *whole.called_computations()):
        for op in part.ops:
            if op.name is not None:
                op.name = op.name.removeprefix("jit(every)").removeprefix("/") or None
    results = whole.root.operands if isinstance(whole.root.shape, TupleShape) else (whole.root,)
    # The call of the whole program, if there is one, is replaced by one for each function.
    each: Any = WholeFunction, RetracedFunction
    inlined = [c for c in whole._inlined_calls if not isinstance(c.function, each)]
    found: list[XlaComputation] = []
    first, last = 0, 0
    for function in functions:
        parameters = whole.parameters[first : first + len(function.arguments)]
        values = results[last : last + len(function.results)]
        first, last = first + len(parameters), last + len(values)
        part = _part_with_results(parameters, values, inlined)
        if retraced:
            retraced_call(part, None, is_needed=True)
        elif any(map(is_expanded, function.equations)):
            shapes = [described(v.aval.shape, v.aval.dtype) for v in function.arguments]
            jaxpr = jax.make_jaxpr(lambda *arrays, f=function: evaluated(f, arrays))(*shapes)
            roots = part.root.operands if len(values) > 1 else (part.root,)
            computed = tuple([None if is_parameter(op) else op for op in roots])
            numbers = tuple(range(len(shapes)))
            call = InlinedCall(WholeFunction(jaxpr, numbers), part.parameters, computed)
            part._inlined_calls = [*part._inlined_calls, call]
        found.append(part)
    return found


def _trace_each(name: str, units: Sequence[Unit], parts: Sequence[XlaComputation]) -> None:
    """Trace units one by one, after an error of jax, so that the error names the unit."""
    for unit, part in zip(units, parts, strict=True):
        try:
            _traces(name, [unit], [part])
        except Exception as error:
            title = unit.op.opcode
            if unit.call is not None:
                function = unit.call.function
                is_library = isinstance(function, LibraryCall)
                title = function.name if is_library else str(function.primitive)
            error.add_note(f"to_jax: differentiating {title}{place(unit.op)}")
            raise


def _duplicates(ops: Sequence[XlaOp]) -> dict[XlaOp, XlaOp]:
    """Return, for each op that computes the same as an earlier one, the earlier one."""
    same: dict[XlaOp, XlaOp] = {}
    first: dict[Hashable, XlaOp] = {}
    for op, key in zip(ops, op_keys(ops), strict=True):
        number = key, *[id(same.get(operand, operand)) for operand in op.operands]
        known = first.setdefault(number, op)
        if known is not op:
            same[op] = known
    return same


@dataclass(frozen=True, slots=True)
class _Traced:
    """The derivative of a unit in a jaxpr.

    Attributes:
        cotangents, operands: the variables of the arrays.
        equations: the equations that depend on these, or on nothing.
        results: the results that jax computes.
        gradients: the cotangents of the wanted arrays.
    """

    cotangents: list[Any]
    operands: list[Any]
    equations: list[Any]
    results: list[Any]
    gradients: list[Any]


def _traces(
    name: str, units: Sequence[Unit], parts: Sequence[XlaComputation]
) -> tuple[dict[Any, Any], list[_Traced]]:
    """Trace the derivatives of units together; return the constants too.

    One `jax.vjp` of all units takes much less time than one for each.
    """
    steps: list[Step] = []
    for unit, part in zip(units, parts, strict=True):
        function = None if unit.call is None else unit.call.function
        # The values of a library function are those of its ops, which are recorded already.
        if isinstance(function, LibraryCall):
            steps.append(library_step(function, place(unit.op)))
        else:
            steps.append(with_given(Preparation(part, None).function(part), unit.given))
    shapes = [[parameter.shape for parameter in part.parameters] for part in parts]
    operands = [
        _abstract(name, unit, arrays_in(each)) for unit, each in zip(units, shapes, strict=True)
    ]
    arrays = [
        _results(name, unit, part, step, given)
        for unit, part, step, given in zip(units, parts, steps, operands, strict=True)
    ]
    seeds = [
        [each[number] for number in unit.seeded] for unit, each in zip(units, arrays, strict=True)
    ]

    def pull(cotangents: list[list[Any]], values: list[list[Any]]) -> Any:
        def of_wanted(wanted: list[list[Any]]) -> Any:
            seeded, results = [], []
            for unit, step, each, given, some in zip(
                units, steps, shapes, values, wanted, strict=True
            ):
                every = list(given)
                for number, value in zip(unit.wanted, some, strict=True):
                    every[number] = value
                remaining = iter(every)
                flat = jax.tree_util.tree_leaves(step(*[nested(s, remaining) for s in each]))
                results.append(flat)
                seeded.append([flat[number] for number in unit.seeded])
            return seeded, results

        some = [[given[n] for n in u.wanted] for u, given in zip(units, values, strict=True)]
        _, back, results = jax.vjp(of_wanted, some, has_aux=True)
        return results, *back(cotangents)

    traced = jax.make_jaxpr(pull)(seeds, operands)
    constants, arguments, equations, outputs = jaxprs.parts_of(traced)
    remaining_arguments, remaining_outputs = iter(arguments), iter(outputs)
    groups = [
        [[next(remaining) for _ in range(len(each))] for each in sizes]
        for remaining, sizes in (
            (remaining_arguments, seeds),
            (remaining_arguments, operands),
            (remaining_outputs, arrays),
            (remaining_outputs, [unit.wanted for unit in units]),
        )
    ]
    owners = {v: n for group in groups[:2] for n, each in enumerate(group) for v in each}
    equations_of: list[list[Any]] = [[] for _ in units]
    for equation in equations:
        found = {owners[v] for v in jaxprs.variables(equation.invars) if v in owners}
        for number in found or range(len(units)):
            equations_of[number].append(equation)
        if found:
            owners.update(dict.fromkeys(equation.outvars, found.pop()))
    return constants, [
        _Traced(cotangents, values, each, results, gradients)
        for cotangents, values, results, gradients, each in zip(*groups, equations_of, strict=True)
    ]


def _abstract(name: str, unit: Unit, arrays: Iterable[ArrayShape]) -> list[Any]:
    """Return jax's descriptions of the arrays of a unit's operands."""
    if unit.sizes is None:
        return [abstract_array(name, array) for array in arrays]
    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    found = [
        described(sizes, array.element_type.dtype)
        for sizes, array in zip(unit.sizes, arrays, strict=True)
    ]
    function = None if unit.call is None else unit.call.function
    if isinstance(function, RetracedFunction) and function.arrays is not None:
        declared = zip(found, function.arrays, strict=True)
        if all(are_numbers(ours.shape) == are_numbers(theirs.shape) for ours, theirs in declared):
            return list(function.arrays)
    return found


def _results(
    name: str, unit: Unit, part: XlaComputation, step: Step, operands: list[Any]
) -> list[Any]:
    """Return jax's descriptions of the arrays of a unit's results."""
    if unit.sizes is None:
        return [abstract_array(name, array) for array in arrays_in([part.root.shape])]

    def of_arrays(*arrays: Any) -> Any:
        remaining = iter(arrays)
        return step(*[nested(parameter.shape, remaining) for parameter in part.parameters])

    return list(jax.tree.leaves(jax.eval_shape(of_arrays, *operands)))


def _cut(unit: Unit, traced: _Traced) -> _Cut:
    """Cut the derivative of a unit in a forward and a backward function."""
    equations, gradients = traced.equations, traced.gradients
    results = _evaluated(unit, traced)
    zeros = _zeros(equations)
    nonzero = [g for g in gradients if not jaxprs.is_literal(g) and g not in zeros]
    numbers = {g: number for number, g in enumerate(dict.fromkeys(nonzero))}
    found = tuple([None if jaxprs.is_literal(g) else numbers.get(g) for g in gradients])
    gradients = list(numbers)
    if not gradients:
        return _Cut(None, None, (), found)

    inputs: dict[Any, tuple[str, int]] = {}
    for kind, group in (("cotangent", traced.cotangents), ("operand", traced.operands)):
        inputs.update({variable: (kind, number) for number, variable in enumerate(group)})
    # The recorded results take the place of those of jax.
    recorded = dict(inputs)
    for number, variable in enumerate(results):
        if not jaxprs.is_literal(variable):
            recorded.setdefault(variable, ("result", number))
    needed = _needed(equations, gradients, recorded)
    dependent = _dependent(equations, traced.cotangents)
    again = [equation for equation in needed if not dependent.intersection(equation.outvars)]
    is_structural = unit.call is None and unit.op.opcode in _CONTROL_FLOW
    forward = None
    if _may_be_replaced(unit) and any(_is_costly(e, is_structural) for e in again):
        needed = _needed(equations, [*results, *gradients], inputs)
        first = [e for e in needed if not dependent.intersection(e.outvars)]
        needed = [e for e in needed if dependent.intersection(e.outvars)]
        made = {variable for equation in first for variable in equation.outvars}
        used = [v for e in needed for v in jaxprs.variables(e.invars)] + gradients
        known = {v: ("result", n) for n, v in enumerate(results) if not jaxprs.is_literal(v)}
        residuals = [v for v in dict.fromkeys(used) if v in made and v not in known]
        recorded = {**known, **inputs}
        recorded.update({v: ("residual", number) for number, v in enumerate(residuals)})
        forward = _Function(traced.operands, first, [*results, *residuals])
    free = [v for e in needed for v in jaxprs.variables(e.invars)] + gradients
    taken = [v for v in dict.fromkeys(free) if v in recorded]
    if unit.sizes is not None:
        taken += _with_sizes_of(needed, taken, [*traced.operands, *traced.cotangents])
        recorded = {**inputs, **recorded}
    backward = _Function(taken, needed, gradients)
    return _Cut(forward, backward, tuple([recorded[v] for v in taken]), found)


def _with_sizes_of(
    equations: Sequence[Any], taken: Sequence[Any], others: Sequence[Any]
) -> list[Any]:
    """Return the variables whose sizes equations need, beside those that are taken anyway."""
    atoms = [atom for equation in equations for atom in (*equation.invars, *equation.outvars)]
    values = [e.params["dim"] for e in equations if "dim" in e.params]
    every = {*values, *(size for atom in atoms for size in atom.aval.shape)}
    used = {str(size) for size in every if names_in([size])}
    known = {str(size) for variable in taken for size in variable.aval.shape}
    found: list[Any] = []

    def take(missing: set[str]) -> None:
        for variable in others:
            new = {str(size) for size in variable.aval.shape} & missing - known
            if new:
                found.append(variable)
                known.update(new)

    take(used)
    take(names_in(used - known))  # of sizes that are computed
    return found


def _evaluated(unit: Unit, traced: _Traced) -> list[Any]:
    """Return the variables that have the values of the recorded results.

    jax's rule of a primitive may return other results: that of cholesky returns a triangle, and the
    primitive itself leaves the other triangle as it was. Then the variables are those of the
    equation with this primitive.
    """
    if unit.call is None or not isinstance(unit.call.function, Equation):
        return traced.results
    function = unit.call.function
    for equation in traced.equations:
        is_same = equation.primitive is function.primitive and _are_equal(
            equation.params, function.params
        )
        if is_same and list(equation.invars) == traced.operands:
            known = zip(unit.call.results, equation.outvars, strict=True)
            return [variable for op, variable in known if op is not None]
    return traced.results


def _may_be_replaced(unit: Unit) -> bool:
    """Return whether the op or the call of a unit may be recorded again with residuals.

    A library function and a composite stand for their ops; a token has its place in an order. The
    trace leaves out prints and checks, so a loop with them stays, and is computed again.
    """
    is_library = unit.call is not None and isinstance(unit.call.function, LibraryCall)
    if unit.is_again or is_library or observers([unit.op]):
        return False
    values = [leaf for op in (*unit.operands, *unit.results) for leaf in leaves(op.shape)]
    return unit.op.opcode != "composite" and not any(isinstance(v, TokenShape) for v in values)


def _needed(
    equations: Sequence[Any], results: Iterable[Any], given: Mapping[Any, Any]
) -> list[Any]:
    """Return the equations that compute results from given values."""
    wanted = {v for v in jaxprs.variables(results) if v not in given}
    found: list[Any] = []
    for equation in reversed(equations):
        if wanted.intersection(equation.outvars) or equation.effects:
            found.append(equation)
            wanted.update(v for v in jaxprs.variables(equation.invars) if v not in given)
    return found[::-1]


def _dependent(equations: Sequence[Any], variables: Iterable[Any]) -> set[Any]:
    """Return the variables that depend on some variables, and these."""
    found = set(variables)
    for equation in equations:
        if found.intersection(jaxprs.variables(equation.invars)):
            found.update(equation.outvars)
    return found


def _zeros(equations: Sequence[Any]) -> set[Any]:
    """Return the variables that are arrays of zeros."""
    return {
        equation.outvars[0]
        for equation in equations
        if equation.primitive.name == "broadcast_in_dim"
        and jaxprs.is_literal(equation.invars[0])
        and not np.any(equation.invars[0].val)
        and not math.copysign(1, complex(equation.invars[0].val).real) < 0
    }


def _is_costly(equation: Any, is_structural: bool) -> bool:
    name = equation.primitive.name
    if name in _COSTLY or (is_structural and name in _CALLS):
        return True
    if name not in _CALLS:
        return False
    inner = inner_jaxprs(equation)
    return any(_is_costly(e, is_structural) for jaxpr in inner for e in jaxpr.eqns)


@contextlib.contextmanager
def transformation_errors(name: str) -> Iterator[None]:
    """Raise the errors of jax's transformations as LoweringErrors of a public function."""
    try:
        yield
    except XlaError as error:
        raise error._renamed(name) from None
    except RecursionError:
        rule = "jax can't transform computations that call each other this deep"
        fix = "record the ops of some instead of a call: xb.inline(computation, ...)"
        raise error_of(LoweringError, name, rule, fix) from None
    except Exception as error:
        is_of_jax = type(error).__module__.partition(".")[0] == "jax"
        if not (is_of_jax or isinstance(error, (NotImplementedError, ValueError))):
            raise  # of a rule of the user
        notes = getattr(error, "__notes__", ())
        where = "".join(f"\n{note}" for note in notes if note.startswith("to_jax"))
        rule = f"jax can't transform an op: {error}{where}"
        fix = "call it in a computation with a derivative of its own: xb.custom_gradient"
        raise error_of(LoweringError, name, rule, fix) from None
