"""Equations of jaxprs recorded as ops, without StableHLO between.

Most derivatives consist of few primitives, which are one op each. Recording their ops takes a
fraction of the time of lowering them by jax and importing the module. What is recorded equals what
would be imported, except that a scan is a `scan`, and that functions are not called. Equations that
are not of the table, or have unusual parameters, are left to jax's lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import jax
import numpy as np

import builder as xb
from builder.graph.inlined_calls import InlinedCall
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.types.primitive_type import from_dtype
from builder.types.shape import ArrayShape
from lowering.jax_interop.equations import Equation, is_marked
from lowering.jax_interop.sizes import RuntimeSizes, are_numbers, declared_sizes
from lowering.jaxlib_api import jaxprs

Rule = Callable[..., Any]
"""A function of the sizes at run time, of an equation and of the ops of its operands; it returns
the op of its result, or a list of those of several."""


def can_record(equations: Iterable[Any]) -> bool:
    """Return whether all equations, and those in their jaxprs, can be recorded."""
    return all(map(_is_usual, equations))


def _is_usual(equation: Any) -> bool:
    name, params = equation.primitive.name, equation.params
    avals = [atom.aval for atom in (*equation.invars, *equation.outvars)]
    if name not in _RULES or not jaxprs.is_usual(equation) or not all(map(_is_usual_array, avals)):
        return False
    if any(params.get(option) is not None for option in _OPTIONS):
        return False
    is_special = _SPECIAL.get(name)
    return is_special is None or not is_special(params, avals)


def _is_usual_array(aval: Any) -> bool:
    """Return whether a value is an array of real numbers that is not sharded."""
    dtype = getattr(aval, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype == jax.dtypes.float0:
        return False
    if not jaxprs.is_on_one_device(aval):
        return False
    return not jax.numpy.issubdtype(dtype, np.complexfloating)


_OPTIONS: Final = ("accuracy", "out_dtype", "out_sharding", "sharding")
"""Parameters of several primitives that are None in most equations."""

_SPECIAL: Final[Mapping[str, Callable[[Any, Sequence[Any]], bool]]] = {
    "broadcast_in_dim": lambda _, avals: len(avals) > 2,
    # To bool it is a comparison.
    "convert_element_type": lambda params, _: np.dtype(params["new_dtype"]).kind == "b",
    "conv_general_dilated": lambda params, avals: _is_special_product(params, avals),
    "dot_general": lambda params, avals: _is_special_product(params, avals),
    "integer_pow": lambda params, _: params["y"] != 2,
    "reshape": lambda params, avals: len(avals) > 2 or params["dimensions"] is not None,
    "pad": lambda params, _: not are_numbers(chain.from_iterable(params["padding_config"])),
    "scan": lambda params, avals: _is_special_scan(params, avals),
    "slice": lambda params, avals: _is_special_slice(params, avals[0].shape),
    "split": lambda params, _: not are_numbers(params["sizes"]),
    "select_n": lambda _, avals: avals[0].dtype != bool or len(avals) != 4,
}
"""For some primitives, whether an equation must be lowered by jax."""


def _is_special_product(params: Mapping[str, Any], avals: Sequence[Any]) -> bool:
    precision = params["precision"]
    parts = precision if isinstance(precision, tuple) else (precision,)
    are_usual = all(part is None or isinstance(part, jax.lax.Precision) for part in parts)
    return avals[0].dtype != avals[1].dtype or not are_usual


def _is_special_slice(params: Mapping[str, Any], shape: Sequence[Any]) -> bool:
    """Return whether a slice is not the whole array along a dimension of unknown size."""
    limits = params["start_indices"], params["limit_indices"], params["strides"] or [1] * len(shape)
    return any(
        not are_numbers([size, start, limit]) and (start, limit, stride) != (0, size, 1)
        for size, start, limit, stride in zip(shape, *limits, strict=True)
    )


def _is_special_scan(params: Mapping[str, Any], avals: Iterable[Any]) -> bool:
    if not all(are_numbers(aval.shape) for aval in avals):
        return True
    jaxpr = params["jaxpr"]
    arguments, equations, _ = jaxprs.inner_parts(jaxpr)
    if params["unroll"] != 1 or not params["length"] or jaxpr.consts:
        return True
    return len(arguments) == jaxprs.scan_counts(params)[0] or not can_record(equations)


def recorded(
    arguments: Sequence[Any],
    equations: Sequence[Any],
    results: Sequence[Any],
    constants: Mapping[Any, Any],
) -> tuple[XlaBuilder, list[XlaOp]]:
    """Record equations that `can_record` accepts in a new builder.

    Args:
        arguments: the variables that become parameters.
        equations: the equations.
        results: variables and constants of the jaxpr.
        constants: the arrays of variables that no equation defines.

    Returns:
        The builder, and the ops of the results. The ops have no source line.
    """
    b = XlaBuilder("pullback")
    ops = {v: b.parameter(_shape(v.aval)) for v in arguments}
    sizes = RuntimeSizes(b, [(v.aval.shape, op) for v, op in ops.items()])
    for variable in _free(equations, results, ops):
        ops[variable] = b.constant(np.asarray(constants[variable]))
    found = _evaluated(sizes, equations, ops, results)
    _without_lines(b.ops)
    return b, found


def _free(equations: Iterable[Any], results: Iterable[Any], known: Iterable[Any]) -> list[Any]:
    """Return the variables that are neither known nor defined by equations."""
    seen, found = set(known), []
    for equation in equations:
        found += [v for v in jaxprs.variables(equation.invars) if v not in seen]
        seen.update(found, equation.outvars)
    return [*found, *(v for v in jaxprs.variables(results) if v not in seen)]


def _shape(aval: Any) -> ArrayShape:
    return from_dtype(aval.dtype)[declared_sizes(aval.shape)]


def _evaluated(
    sizes: RuntimeSizes, equations: Iterable[Any], ops: dict[Any, XlaOp], results: Iterable[Any]
) -> list[XlaOp]:
    """Record equations in a builder; return the ops of results.

    Args:
        sizes: the sizes at run time, and the builder.
        equations: the equations.
        ops: the ops of variables; those that the equations define are added.
        results: variables and constants of the jaxpr.
    """

    b = sizes.builder

    def read(atom: Any) -> XlaOp:
        if jaxprs.is_literal(atom):
            return b.constant(np.asarray(atom.val, atom.aval.dtype))
        return b._adopt("gradients", ops[atom])

    for equation in equations:
        name = equation.primitive.name
        operands = [read(atom) for atom in equation.invars]
        start = len(b.ops)
        found = _RULES[name](sizes, equation, *operands)
        values = [found] if isinstance(found, XlaOp) else found
        ops.update(zip(equation.outvars, values, strict=True))
        if is_marked(name, [v.aval for v in equation.outvars]):
            given = tuple([atom.aval for atom in equation.invars])
            made = tuple([v.aval for v in equation.outvars])
            function = Equation(equation.primitive, equation.params, equation.ctx, given, made, {})
            b._inlined_calls.append(InlinedCall(function, tuple(operands), tuple(values)))
        if len(values) == 1 and len(b.ops) > start:
            values[0].name = name
    return [read(atom) for atom in results]


def _without_lines(ops: Iterable[XlaOp]) -> None:
    """Remove the source lines: pullbacks are cached, and used in other programs."""
    for op in ops:
        op._code, op._lasti = None, 0
        for computation in op.called_computations:
            _without_lines(computation.ops)


def _elementwise(function: Rule) -> Rule:
    def rule(sizes: RuntimeSizes, equation: Any, *operands: XlaOp) -> XlaOp:
        shape = equation.outvars[0].aval.shape
        result: XlaOp = function(*[_broadcast(sizes, operand, shape) for operand in operands])
        return result

    return rule


def _broadcast(sizes: RuntimeSizes, operand: XlaOp, shape: Sequence[Any]) -> XlaOp:
    """Return an array of these sizes; jax allows scalars and sizes of 1 beside other arrays."""
    given = operand.shape.dimensions  # type: ignore[union-attr]  # an array
    if given == declared_sizes(shape):
        return operand
    return sizes.broadcast(operand, shape, range(len(shape) - len(given), len(shape)))


def _select(_sizes: RuntimeSizes, _: Any, which: XlaOp, on_false: XlaOp, on_true: XlaOp) -> XlaOp:
    return xb.select(which, on_true, on_false)


def _convert(_: RuntimeSizes, equation: Any, operand: XlaOp) -> XlaOp:
    return xb.convert_element_type(operand, equation.params["new_dtype"])


def _dim_as_value(sizes: RuntimeSizes, equation: Any) -> XlaOp:
    value = sizes.value(equation.params["dim"])
    return xb.convert_element_type(value, from_dtype(equation.outvars[0].aval.dtype))


def _broadcast_in_dim(sizes: RuntimeSizes, equation: Any, operand: XlaOp) -> XlaOp:
    params = equation.params
    return sizes.broadcast(operand, params["shape"], params["broadcast_dimensions"])


def _iota(sizes: RuntimeSizes, equation: Any) -> XlaOp:
    params = equation.params
    return sizes.iota(from_dtype(params["dtype"]), params["shape"], params["dimension"])


def _reshape(sizes: RuntimeSizes, equation: Any, operand: XlaOp) -> XlaOp:
    return sizes.reshape(operand, equation.outvars[0].aval.shape)


def _transpose(_: RuntimeSizes, equation: Any, operand: XlaOp) -> XlaOp:
    return xb.transpose(operand, equation.params["permutation"])


def _rev(_: RuntimeSizes, equation: Any, operand: XlaOp) -> XlaOp:
    return xb.rev(operand, equation.params["dimensions"])


def _slice(_: RuntimeSizes, equation: Any, operand: XlaOp) -> XlaOp:
    params = equation.params
    limits = declared_sizes(params["limit_indices"])
    return xb.slice(operand, params["start_indices"], limits, params["strides"])


def _split(_: RuntimeSizes, equation: Any, operand: XlaOp) -> list[XlaOp]:
    axis, start = equation.params["axis"], 0
    sizes = operand.shape.dimensions  # type: ignore[union-attr]  # an array
    found = []
    for size in equation.params["sizes"]:
        starts = [start if d == axis else 0 for d in range(len(sizes))]
        limits = [start + size if d == axis else n for d, n in enumerate(sizes)]
        found.append(xb.slice(operand, starts, limits))
        start += size
    return found


def _concatenate(_: RuntimeSizes, equation: Any, *operands: XlaOp) -> XlaOp:
    return xb.concat_in_dim(operands, equation.params["dimension"])


def _pad(_: RuntimeSizes, equation: Any, operand: XlaOp, value: XlaOp) -> XlaOp:
    return xb.pad(operand, value, equation.params["padding_config"])


def _reduce_sum(_: RuntimeSizes, equation: Any, operand: XlaOp) -> XlaOp:
    return xb.reduce(operand, 0, xb.add, equation.params["axes"])


def _reduce_window_sum(_: RuntimeSizes, equation: Any, operand: XlaOp) -> XlaOp:
    params = equation.params
    return xb.reduce_window(
        operand,
        0,
        xb.add,
        params["window_dimensions"],
        params["window_strides"],
        params["padding"],
        base_dilations=params["base_dilation"],
        window_dilations=params["window_dilation"],
    )


def _precision(params: Mapping[str, Any]) -> Any:
    precision = params["precision"]
    parts = precision if isinstance(precision, tuple) else (precision, precision)
    return ["DEFAULT" if part is None else part.name for part in parts]


def _dot_general(_: RuntimeSizes, equation: Any, lhs: XlaOp, rhs: XlaOp) -> XlaOp:
    return xb.dot_general(
        lhs,
        rhs,
        equation.params["dimension_numbers"],
        precision=_precision(equation.params),
        preferred_element_type=from_dtype(equation.outvars[0].aval.dtype),
    )


def _convolution(_: RuntimeSizes, equation: Any, lhs: XlaOp, rhs: XlaOp) -> XlaOp:
    params = equation.params
    (lhs_batch, lhs_feature, *lhs_spatial), kernel, result = params["dimension_numbers"]
    rhs_output, rhs_input, *rhs_spatial = kernel
    batch, feature, *spatial = result
    return xb.conv_general_dilated(
        lhs,
        rhs,
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
        xb.ConvolutionDimensionNumbers(
            *(lhs_batch, lhs_feature, lhs_spatial),
            *(rhs_input, rhs_output, rhs_spatial),
            *(batch, feature, spatial),
        ),
        params["feature_group_count"],
        params["batch_group_count"],
        _precision(params),
        from_dtype(equation.outvars[0].aval.dtype),
    )


def _scan(_: RuntimeSizes, equation: Any, *operands: XlaOp) -> list[XlaOp]:
    params = equation.params
    num_constants, num_carries = jaxprs.scan_counts(params)
    constants = operands[:num_constants]
    carries = operands[num_constants : num_constants + num_carries]
    inputs = operands[num_constants + num_carries :]
    arguments, equations, results = jaxprs.inner_parts(params["jaxpr"])

    def step(*values: XlaOp) -> XlaOp:
        slices, carried = values[: len(inputs)], values[len(inputs) :]
        given = (*constants, *carried, *slices)
        b = values[0].builder
        ops = dict(zip(arguments, given, strict=True))
        found = _evaluated(RuntimeSizes(b, ()), equations, ops, results)
        return record_tuple(b, [*found[num_carries:], *found[:num_carries]])

    whole = xb.scan(inputs, carries, step, 0, params["length"], is_reverse=params["reverse"])
    found = [whole[number] for number in range(len(equation.outvars))]
    num_outputs = len(found) - num_carries
    return [*found[num_outputs:], *found[:num_outputs]]


_RULES: Final[Mapping[str, Rule]] = {
    "add": _elementwise(xb.add),
    "add_any": _elementwise(xb.add),
    "and": _elementwise(xb.and_),
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "conv_general_dilated": _convolution,
    "convert_element_type": _convert,
    "cos": _elementwise(xb.cos),
    "dim_as_value": _dim_as_value,
    "div": _elementwise(xb.div),
    "dot_general": _dot_general,
    "eq": _elementwise(xb.eq),
    "exp": _elementwise(xb.exp),
    "ge": _elementwise(xb.ge),
    "gt": _elementwise(xb.gt),
    "integer_pow": lambda _, __, operand: xb.mul(operand, operand),
    "iota": _iota,
    "le": _elementwise(xb.le),
    "log": _elementwise(xb.log),
    "logistic": _elementwise(xb.logistic),
    "lt": _elementwise(xb.lt),
    "max": _elementwise(xb.max),
    "min": _elementwise(xb.min),
    "mul": _elementwise(xb.mul),
    "ne": _elementwise(xb.ne),
    "neg": _elementwise(xb.neg),
    "not": _elementwise(xb.not_),
    "or": _elementwise(xb.or_),
    "pad": _pad,
    "reduce_sum": _reduce_sum,
    "reduce_window_sum": _reduce_window_sum,
    "reshape": _reshape,
    "rev": _rev,
    "rsqrt": _elementwise(xb.rsqrt),
    "scan": _scan,
    "select_n": _select,
    "sin": _elementwise(xb.sin),
    "slice": _slice,
    "split": _split,
    "sqrt": _elementwise(xb.sqrt),
    "squeeze": _reshape,
    "sub": _elementwise(xb.sub),
    "tanh": _elementwise(xb.tanh),
    "transpose": _transpose,
}
"""The rules by the names of the primitives."""
