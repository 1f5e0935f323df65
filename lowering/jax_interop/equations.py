"""Equations of jax's traces as inlined calls, so that jax's rules differentiate them.

jax defines derivatives by primitive: of a sort, of a Cholesky decomposition, of a function with
`jax.custom_vjp`. The StableHLO that a primitive is lowered to does not have these rules. So a trace
is lowered with a marker after each such equation: a custom call with the operands and the results.
The importer turns markers into the `InlinedCall`s of the computation, and records no op for them.

Most operations need no marker: they have an op that `to_jax` evaluates by the same primitive.

Decompositions of matrices are lowered to the composites of `builder.lib.linalg`. jax's own rules
call the libraries of the platform that it lowers for, such as LAPACK. A file with these calls can't
be read elsewhere. The composites contain portable algorithms, and `lowering.legalize` replaces them
by the same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun, primitives
from jaxlib.mlir import ir

from builder import lib
from builder.attributes import TransposeLike
from builder.errors import error_of
from builder.graph.computation import XlaComputation
from builder.graph.inlined_calls import InlinedCall
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, is_parameter, tuple_parts
from builder.lib.linalg.matrices import adjoint
from builder.lib.linalg.solving import triangle_solved
from builder.ops.control_flow import CUSTOM_DERIVATIVE, tuple as record_tuple
from builder.ops.linalg import cholesky as record_cholesky
from builder.types.shape import ArrayShape, array_shape
from lowering.errors import LoweringError
from lowering.jax_interop.pasting import paste
from lowering.jaxlib_api import jax_arrays, jaxprs
from lowering.jaxlib_api.mlir import without_locations
from lowering.ops.importing import INLINED_CALL
from lowering.ops.registry import Step, Value, array_of
from lowering.stablehlo.lower import lower

Results = Sequence[XlaOp]


def _cholesky(a: XlaOp) -> Results:
    return [record_cholesky(a)]


def _lu(a: XlaOp) -> Results:
    return lib.lu(a)


def _geqrf(a: XlaOp) -> Results:
    return lib.qr_decomposition(a)


def _householder_product(a: XlaOp, taus: XlaOp) -> Results:
    return [lib.product_of_elementary_householder_reflectors(a, taus)]


def _eigh(a: XlaOp, *, lower: bool, **_: Any) -> Results:
    return lib.eigh(a, lower)


def _svd(a: XlaOp, *, compute_uv: bool, full_matrices: bool, **_: Any) -> Results:
    if not compute_uv:
        return [lib.svdvals(a)]
    u, d, v = lib.svd(a, full_matrices=full_matrices)
    return d, u, adjoint(v)


def _triangular_solve(
    a: XlaOp,
    b: XlaOp,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Results:
    if 0 in array_of(b.shape).dimensions:
        return [b]
    right = b if left_side else lib.transpose_in_minor_dims(b)
    # x op(a) = b is op(a)^T x^T = b^T
    is_transposed = transpose_a if left_side else not transpose_a
    if conjugate_a and not is_transposed:
        a = lib.maybe_conjugate(a, True)
    option: TransposeLike = "ADJOINT" if conjugate_a else "TRANSPOSE"
    x = triangle_solved(
        a,
        right,
        lower=lower,
        unit_diagonal=unit_diagonal,
        transpose_a=option if is_transposed else "NO_TRANSPOSE",
    )
    return [x if left_side else lib.transpose_in_minor_dims(x)]


_FUNCTIONS: Final[dict[str, Callable[..., Results]]] = {
    "cholesky": _cholesky,
    "eigh": _eigh,
    "geqrf": _geqrf,
    "householder_product": _householder_product,
    "lu": _lu,
    "svd": _svd,
    "triangular_solve": _triangular_solve,
}
"""By the name of jax's primitive: the ops of its operands, with its parameters."""


def portable_rules(primitives: Set[Any]) -> dict[Any, jaxprs.LoweringRule]:
    """Return the rules for a trace with these primitives; jax's rules for some apply others."""
    linalg = jaxprs.linalg_primitives()
    if primitives.isdisjoint(linalg):
        return {}
    return {p: _lowered for p in linalg if p.name in _FUNCTIONS}


_TYPES: Final = frozenset(("float32", "float64", "complex64", "complex128"))


def _lowered(context: Any, *operands: Any, **params: Any) -> Sequence[Any]:
    """Lower an equation by `_FUNCTIONS`, or by jax's rule if it has other types or options."""
    avals = context.avals_in
    is_static = all(isinstance(size, int) for aval in avals for size in aval.shape)
    is_partial = params.get("subset_by_index") is not None or params.get("algorithm") is not None
    if is_partial or not is_static or not _TYPES.issuperset(aval.dtype.name for aval in avals):
        return jaxprs.lowered_by_jax(context, *operands, **params)
    name = context.primitive.name
    shapes = tuple(array_shape(aval.dtype, aval.shape) for aval in avals)
    key = name, shapes, tuple(sorted(params.items()))
    return list(paste(context, key, name, lambda: _code(*key), operands))


@lru_cache(maxsize=256)
def _code(name: str, shapes: Sequence[ArrayShape], params: tuple[tuple[str, Any], ...]) -> bytes:
    """Return the bytecode of an equation's module, without lines, which would be those of jax."""
    builder = XlaBuilder(name)
    operands = [builder.parameter(shape) for shape in shapes]
    results = _FUNCTIONS[name](*operands, **dict(params))
    return without_locations(lower(builder.build(record_tuple(*results))).bytecode)


_SAME_RULE: Final = frozenset(
    """
    abs add add_any and broadcast_in_dim ceil closed_call concatenate conv_general_dilated
    convert_element_type copy copy_p core_call cos div dot_general dynamic_slice
    dynamic_update_slice erf exp expand_dims expm1 floor imag iota jit log log1p max min mul neg
    not optimization_barrier or pad pjit pow real reduce_max reduce_min reduce_sum reshape rev
    round rsqrt select_n sign sin slice sqrt squeeze stop_gradient sub tanh transpose xor
    """.split()
)
"""The primitives with an op that `to_jax` evaluates by the same primitive.

The equations of calls are marked in the called function.
"""


class Equation(NamedTuple):
    """An equation of a jaxpr, without its variables.

    Attributes:
        primitive, params: the primitive and its parameters.
        context: the settings of jax with which it was traced.
        operands, results: the abstract values of its operands and results.
        pullbacks: its derivatives, if it has inner jaxprs; see `pullbacks`.
    """

    primitive: Any
    params: dict[str, Any]
    context: Any
    operands: tuple[Any, ...]
    results: tuple[Any, ...]
    pullbacks: dict[Any, Any]

    @property
    def has_jaxpr(self) -> bool:
        """Whether the equation applies other equations, as a loop does."""
        return any(True for _ in jaxprs.inner_jaxprs(self))

    def step(self) -> Step:
        """Return the equation as a function of its operands' values; it returns a tuple."""
        # Keys of random numbers are arrays of their bits in a computation.
        dtypes = [aval.dtype for aval in self.operands]
        keys = [number for number, dtype in enumerate(dtypes) if not isinstance(dtype, np.dtype)]

        def step(*operands: Value) -> Value:
            values = list(operands)
            for number in keys:
                values[number] = jax_arrays.random_key(values[number], dtypes[number])
            found = jaxprs.evaluate_equation(self.primitive, self.params, self.context, values)
            return tuple(found)

        return step


class WholeFunction(NamedTuple):
    """A traced function, where jax expands equations before it lowers the trace.

    Since jax 0.12 some functions with rules of their own, such as `jax.lax.custom_root`, are
    primitives without a lowering, so their operations can't be marked.

    Attributes:
        jaxpr: the trace.
        used: the numbers of the arguments that the computation has; jax.jit omits unused ones.
    """

    jaxpr: Any
    used: tuple[int, ...]

    @property
    def primitive(self) -> Any:
        """The primitive that applies the trace."""
        return primitives.jit_p

    @property
    def has_jaxpr(self) -> bool:
        """See `Equation`."""
        return True

    def step(self) -> Step:
        """Return the function of its arguments' values; it returns a tuple."""
        function = jaxpr_as_fun(self.jaxpr)

        def step(*operands: Value) -> Value:
            given = dict(zip(self.used, operands, strict=True))
            values = [
                given[number] if number in given else jax.numpy.zeros(aval.shape, aval.dtype)
                for number, aval in enumerate(self.jaxpr.in_avals)
            ]
            return tuple(function(*values))

        return step


class RetracedFunction(NamedTuple):
    """A function of jax that was recorded for symbolic dimensions.

    Its trace has these dimensions in the parameters of equations, so it can't be evaluated for
    other sizes. Rather, jax traces the function again.

    Attributes:
        function: a function of arrays; None if there is none, and no derivative.
        arrays: jax's descriptions of the arguments, if it can be traced for their symbolic
            dimensions only: these declare more than the graph requires.
    """

    function: Callable[..., Sequence[Value]] | None
    arrays: tuple[Any, ...] | None

    @property
    def primitive(self) -> Any:
        """See `WholeFunction`."""
        return primitives.jit_p

    @property
    def has_jaxpr(self) -> bool:
        """See `Equation`."""
        return True

    def step(self) -> Step:
        """Return the function of its arguments' values; it returns a tuple."""
        function = self.function
        assert function is not None  # else `refused_derivative`
        return lambda *operands: tuple(function(*operands))


def refused_derivative(where: str) -> Step:
    """Return the derivative of a RetracedFunction without a function, which raises an error.

    Args:
        where: the place of its call, for messages; see `place`.
    """

    def refuse(*_: Value) -> Value:
        rule = f"a derivative for unbounded sizes{where} has none itself"
        fix = "give the parameters fixed sizes: second derivatives of functions for which jax has "
        fix += "rules of its own, such as erf and logsumexp, are not recorded for others"
        raise error_of(LoweringError, "to_jax", rule, fix)

    return refuse


def retraced_call(
    computation: XlaComputation,
    function: Callable[..., Sequence[Value]] | None,
    *,
    arrays: tuple[Any, ...] | None = None,
    is_needed: bool = False,
) -> None:
    """Replace the inlined calls of a computation for symbolic dimensions by one of the function.

    Args:
        computation: the computation, whose parameters are the function's arguments.
        function, arrays: see `RetracedFunction`.
        is_needed: whether there is one even if there are no inlined calls.
    """
    parts = [*computation.called_computations(), computation]
    if not is_needed and not any(part._inlined_calls for part in parts):
        return
    for part in parts:
        part._inlined_calls = []
    root = computation.root
    results = tuple_parts(root)
    computed = tuple([None if is_parameter(op) else op for op in results])
    call = InlinedCall(RetracedFunction(function, arrays), computation.parameters, computed)
    computation._inlined_calls = [call]


def whole_call(
    traced: jax.stages.Traced, computation: XlaComputation, used: Sequence[int] | None
) -> InlinedCall | None:
    """Return a call of the whole function if jax expands equations of its trace, otherwise None.

    Args:
        traced: the function.
        computation: its computation.
        used: the numbers of its arguments that the computation has; None for all.
    """
    jaxpr: Any = traced.jaxpr
    if not any(map(jaxprs.is_expanded, jaxprs.equations_of(jaxpr))):
        return None
    numbers = tuple(range(len(jaxpr.in_avals)) if used is None else used)
    root = computation.root
    results = tuple_parts(root)
    # An argument that is returned is its own derivative.
    computed = tuple([None if is_parameter(op) else op for op in results])
    if all(op is None for op in computed):
        return None
    return InlinedCall(WholeFunction(jaxpr, numbers), computation.parameters, computed)


def lowered_with_calls(traced: jax.stages.Traced) -> tuple[jax.stages.Lowered, Sequence[Equation]]:
    """Lower what jax has traced, with markers; return the equations by number too."""
    equations: list[Equation] = []

    def marked(context: Any, *operands: Any, **params: Any) -> list[Any]:
        lowered: jaxprs.LoweringRule = portable.get(context.primitive, jaxprs.lowered_by_jax)
        results = list(lowered(context, *operands, **params))
        avals = tuple(context.avals_in), tuple(context.avals_out)
        are_values = all(isinstance(value, ir.Value) for value in (*operands, *results))
        if not are_values or not is_marked(context.primitive.name, avals[1]):
            return results
        given = set(operands)
        is_custom = context.primitive.name.startswith("custom_")
        if len(results) == 1 and results[0] in given and not is_custom:
            return results  # an identity, such as that of jax.ad_checkpoint.checkpoint_name
        # A result that is an operand is another value for the derivative.
        results = [
            jaxprs.with_derivative(value, CUSTOM_DERIVATIVE) if value in given else value
            for value in results
        ]
        equation = Equation(context.primitive, params, context.jaxpr_eqn_ctx, *avals, {})
        _mark(len(equations), [*operands, *results], len(operands))
        equations.append(equation)
        return results

    primitives = {e.primitive for e in jaxprs.equations_of(traced.jaxpr)}
    portable = portable_rules(primitives)
    marks = {p: marked for p in primitives if p.name not in _SAME_RULE}
    return jaxprs.lowered_with_rules(traced, portable | marks), equations


def is_marked(name: str, results: Sequence[Any]) -> bool:
    """Return whether an equation is an inlined call, since its ops have another derivative.

    Args:
        name: the name of the primitive.
        results: the abstract values of its results.
    """
    return name not in _SAME_RULE and _has_derivative(results)


def _has_derivative(results: Sequence[Any]) -> bool:
    """Return whether results have derivatives, and are arrays of numbers."""
    dtypes: list[Any] = [getattr(aval, "dtype", None) for aval in results]
    return all(isinstance(dtype, np.dtype) for dtype in dtypes) and any(
        jax.numpy.issubdtype(dtype, np.inexact) for dtype in dtypes
    )


def _mark(number: int, values: Sequence[Any], operands: int) -> None:
    config = ir.DictAttr.get(
        {
            "number": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number),
            "operands": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), operands),
        }
    )
    ir.Operation.create(
        "stablehlo.custom_call",
        operands=list(values),
        attributes={
            "call_target_name": ir.StringAttr.get(INLINED_CALL),
            "has_side_effect": ir.BoolAttr.get(True),
            "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
            "backend_config": config,
        },
    )
