"""Unbounded sizes of a computation as jax's symbolic dimensions, and as values.

`get_dimension_size` and what is computed from it are the sizes of reshapes and broadcasts, which
jax needs when it traces. They are evaluated at once, to arrays of numbers: all arrays have sizes
then. If jax traces for symbolic sizes (`jax.export`), they are arrays of Python objects, jax's
symbolic dimensions; an op that can't use those gets jax's value of them.
"""

from __future__ import annotations

import ast
import contextlib
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import builder as xb
from builder.errors import error_of
from builder.graph.computation import XlaComputation
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, constant_value, is_constant
from builder.inspection.open_sizes import JoinedSizes, may_be_size
from builder.ops.host import is_size_check
from builder.schema import SCHEMAS, Trait, opcodes_with
from builder.schema.equal_sizes import UnknownSize, sizes_of_result
from builder.types.primitive_type import PrimitiveType
from builder.types.shape import UNBOUNDED, ArrayShape, Shape, has_unbounded_sizes, leaves
from lowering.errors import LoweringError
from lowering.ops.registry import Step, Value

_MOST_SIZES: Final = 64
"""The greatest number of elements of a vector of sizes; larger arrays are not made of sizes only
to be sizes."""


def are_numbers(sizes: Iterable[Any]) -> bool:
    """Return whether none of the sizes is a symbolic dimension of jax."""
    return all(isinstance(size, int | np.integer) for size in sizes)


def declared_sizes(sizes: Sequence[Any]) -> tuple[int, ...]:
    """Return the sizes in the shape of an op: UNBOUNDED for symbolic dimensions."""
    return tuple([int(size) if are_numbers([size]) else UNBOUNDED for size in sizes])


Sizes = tuple[Any, ...]
"""The sizes of an array: numbers and symbolic dimensions."""


class SymbolicSizes:
    """The sizes of ops as jax's symbolic dimensions: one symbol for equal unbounded sizes."""

    __slots__ = (
        "_count",
        "_joined",
        "_last",
        "_names",
        "_scope",
        "_size_ops",
        "_symbols",
        "_values",
    )

    def __init__(self, ops: Iterable[XlaOp] = (), constraints: Sequence[str] = ()) -> None:
        """Find the sizes of ops.

        Args:
            ops: the ops, in the order of recording.
            constraints: what jax may assume of the symbols, such as "s0 <= 8".
        """
        self._joined: Final = JoinedSizes()
        self._count = 0
        self._last: XlaOp | None = None
        self._names: Final = count()
        self._scope: Final = jax.export.SymbolicScope(constraints)
        self._size_ops: Final = _SizeOps()
        self._symbols: Final[dict[UnknownSize, Any]] = {}
        self._values: Final[dict[XlaOp, Value]] = {}
        self.extend(ops)

    @classmethod
    def of_ops(cls, ops: Sequence[XlaOp]) -> SymbolicSizes:
        """Return the sizes of ops, with the constraints that ops among them check."""
        found = cls(ops)
        constraints = found._checked(ops)
        if constraints:
            with contextlib.suppress(ValueError):  # they contradict each other: no call fits
                return cls(ops, constraints)  # the symbols have the same names
        return found

    def _checked(self, ops: Iterable[XlaOp]) -> list[str]:
        """Return the lower and upper bounds that ops check, as constraints of jax."""
        found = []
        for op in filter(is_size_check, ops):
            condition = op.operands[0]
            bounds = [value.item() for value in self._operands(condition) if value is not None]
            is_bound = condition.attributes.get("comparison_direction") == "GE"
            if is_bound and len(bounds) == len(condition.operands) and not are_numbers(bounds):
                found.append(" >= ".join(map(str, bounds)))
        return found

    @classmethod
    def of_builder(cls, builder: XlaBuilder) -> SymbolicSizes:
        """Return the sizes of the ops of a builder, which keeps them: its next ops are added."""
        known: SymbolicSizes | None = builder._symbolic_sizes
        if known is None or not known._begins(builder.ops):  # ops were removed
            known = builder._symbolic_sizes = cls()
        known.extend(builder.ops[known._count :])
        return known

    def _begins(self, ops: Sequence[XlaOp]) -> bool:
        """Return whether ops begin with those whose sizes are known."""
        count = self._count
        return count <= len(ops) and (not count or ops[count - 1] is self._last)

    def extend(self, ops: Iterable[XlaOp]) -> None:
        """Find the sizes of more ops."""
        added = list(ops)
        if not added:
            return
        self._count, self._last = self._count + len(added), added[-1]
        self._joined.extend(added)
        sizes = self._size_ops.extend(added)
        for op in sorted(sizes.difference(added), key=lambda op: op.id):
            self._evaluate(op)
        for op in added:
            if op in sizes:
                self._evaluate(op)
            elif _takes_sizes_of_result(op):
                self._assign(op)
            elif op.opcode == "concatenate" and op in self._joined.sizes:
                self._assign_sum(op)

    def _assign_sum(self, op: XlaOp) -> None:
        """Give the unbounded size of a concatenation the sum of the operands' sizes."""
        dimension = op.attributes["dimension"]
        size = self._joined.sizes[op][0][dimension]
        if isinstance(size, UnknownSize) and size.root not in self._symbols:
            parts = [self.of(operand)[0][dimension] for operand in op.operands]
            self._symbols[size.root] = sum(parts[1:], parts[0])

    def of(self, op: XlaOp) -> tuple[Sizes, ...]:
        """Return the sizes of the arrays in an op's value."""
        arrays = [leaf for leaf in leaves(op.shape) if isinstance(leaf, ArrayShape)]
        joined = self._joined.sizes.get(op)
        if joined is None:
            return tuple([array.dimensions for array in arrays])
        return tuple([tuple(map(self._symbol, sizes)) for sizes in joined])

    def given(self, op: XlaOp) -> dict[int, Value]:
        """Return the operands of an op that are sizes, by number, if the op takes sizes."""
        if _passes_sizes(op):
            operands = enumerate(op.operands)
            return {n: self._values[o] for n, o in operands if o in self._values}
        first = SCHEMAS[op.opcode].first_size
        if first is None:
            return {}
        values = self._operands(op)[first:]
        if any(value is None for value in values) and _takes_sizes_of_result(op):
            sizes = self.of(op)[0]
            values = [_objects(sizes, (len(sizes),))]
            if op.opcode == "dynamic_reshape":  # an operand for each size
                values = [_objects([size], ()) for size in sizes]
        return {n: value for n, value in enumerate(values, first) if value is not None}

    def _operands(self, op: XlaOp) -> list[Value | None]:
        """Return the operands that are sizes or constants, None for the others."""
        constants = map(constant_value, op.operands)
        return [
            self._values.get(operand) if constant is None else constant
            for operand, constant in zip(op.operands, constants, strict=True)
        ]

    def _symbol(self, size: int | UnknownSize) -> Any:
        if isinstance(size, int):
            return size
        root = size.root
        found = self._symbols.get(root)
        if found is None:
            found = self._symbols[root] = self._new_symbol()
        return found

    def _new_symbol(self) -> Any:
        (symbol,) = jax.export.symbolic_shape(f"s{next(self._names)}", scope=self._scope)
        return symbol

    def of_arguments(self, ops: Sequence[XlaOp]) -> list[Sizes]:
        """Return the sizes of arrays that are the arguments of a function.

        jax reads symbols from the arguments' sizes. If a size is computed from others that no
        argument has, such as that of a concatenation, it is a new symbol.
        """
        arrays = [of_op[0] if (of_op := self.of(op)) else () for op in ops]
        every = [size for sizes in arrays for size in sizes if not are_numbers([size])]
        known = {str(size) for size in every}
        replaced = {
            str(size): self._new_symbol() for size in every if not names_in([size]) <= known
        }
        return [tuple([replaced.get(str(size), size) for size in sizes]) for sizes in arrays]

    def _evaluate(self, op: XlaOp) -> None:
        """Evaluate an op that computes a size, if it is a function of symbolic dimensions."""
        if op.opcode == "get_dimension_size":
            size = self.of(op.operands[0])[0][op.attributes["dimension"]]
            self._values[op] = _objects([size], ())
            return
        operands = self._operands(op)
        function = _SYMBOLIC.get(op.opcode)
        if function is not None and all(operand is not None for operand in operands):
            value = function(op, *operands)
            if value is not None:
                self._values[op] = value

    def _assign(self, op: XlaOp) -> None:
        """Give the unbounded sizes of a reshape or broadcast the values of its operands."""
        values = self._operands(op)[SCHEMAS[op.opcode].first_size :]
        if op not in self._joined.sizes or any(value is None for value in values):
            return
        flat = [size for value in values for size in np.asarray(value, object).reshape(-1)]
        for size, value in zip(self._joined.sizes[op][0], flat, strict=True):
            if isinstance(size, UnknownSize):
                self._symbols.setdefault(size.root, value)


def _passes_sizes(op: XlaOp) -> bool:
    """Return whether an op passes sizes to a computation, as they are."""
    return op.opcode == "call" and takes_sizes(op.attributes["to_apply"])


def _takes_sizes_of_result(op: XlaOp) -> bool:
    return SCHEMAS[op.opcode].equal_sizes is sizes_of_result


def with_given(step: Step, given: Mapping[int, Value]) -> Step:
    """Return the step of an op with some operands, by number, replaced."""
    if not given:
        return step
    return lambda *operands: step(*[given.get(n, value) for n, value in enumerate(operands)])


def merged_sizes(arrays: Sequence[Any]) -> list[Any] | None:
    """Return descriptions of arrays with one symbol for all unbounded sizes of a dimension.

    The first dimensions have the same size then, and so have the second ones, and others. Return
    None if that changes nothing.

    Args:
        arrays: jax.ShapeDtypeStructs, and other values, which are unchanged.
    """
    symbols: dict[int, Any] = {}
    replaced: dict[str, Any] = {}
    for array in arrays:
        for dimension, size in enumerate(np.shape(array)):
            if not are_numbers([size]) and str(size).isidentifier():
                symbol = symbols.setdefault(dimension, replaced.get(str(size), size))
                replaced.setdefault(str(size), symbol)
    if all(name == str(symbol) for name, symbol in replaced.items()):
        return None
    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    return [
        array
        if are_numbers(np.shape(array))
        else described([replaced.get(str(size), size) for size in array.shape], array.dtype)
        for array in arrays
    ]


def names_in(sizes: Iterable[Any]) -> set[str]:
    """Return the names of the symbols in sizes."""
    names = {name for size in sizes for name in re.findall(r"\b[a-zA-Z_]\w*", str(size))}
    return names - _FUNCTIONS.keys()


class RuntimeSizes:
    """The values of symbolic dimensions in a builder, read from arrays at run time.

    Attributes:
        builder: the builder.
    """

    __slots__ = ("_places", "_values", "builder")

    def __init__(self, builder: XlaBuilder, arrays: Iterable[tuple[Sequence[Any], XlaOp]]) -> None:
        """Take the sizes of arrays: pairs of jax's sizes and of an op with these sizes."""
        self.builder: Final = builder
        self._places: Final[dict[str, tuple[XlaOp, int]]] = {}
        self._values: Final[dict[str, XlaOp]] = {}
        for sizes, op in arrays:
            for dimension, size in enumerate(sizes):
                if not are_numbers([size]):
                    self._places.setdefault(str(size), (op, dimension))

    def value(self, size: Any) -> XlaOp:
        """Return the value of a symbolic dimension, as an s32 scalar."""
        text = str(size)
        found = self._values.get(text)
        if found is None:
            place = self._places.get(text)
            if place is not None:
                found = xb.get_dimension_size(*place)
            else:  # the text is that of an expression of Python, but for powers
                tree = ast.parse(text.replace("^", "**"), mode="eval")
                found = self._computed(tree.body)
            self._values[text] = found
        return found

    def _computed(self, node: ast.expr) -> Any:
        """Return the value of an expression: an op, or a number."""
        if isinstance(node, ast.Name):
            if node.id not in self._places:
                rule = f"no operand has the unbounded size {node.id}, so its value is unknown"
                fix = "use lowering.to_jax and jax.grad, for the sizes of the arguments"
                raise error_of(LoweringError, "gradients", rule, fix)
            return self.value(node.id)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp):
            return -self._computed(node.operand)
        if isinstance(node, ast.Call):
            function = _FUNCTIONS[node.func.id]  # type: ignore[attr-defined]  # a name
            return function(*map(self._computed, node.args))
        assert isinstance(node, ast.BinOp)
        left, right = self._computed(node.left), self._computed(node.right)
        if isinstance(node.op, ast.Pow):
            return math.prod([left] * right)
        return _OPERATORS[type(node.op)](left, right)

    def broadcast(self, operand: XlaOp, sizes: Sequence[Any], dimensions: Sequence[int]) -> XlaOp:
        """Record a broadcast to sizes, which may be symbolic."""
        if are_numbers(sizes):
            return xb.broadcast_in_dim(operand, sizes, dimensions)
        vector = self._vector(sizes)
        shape = operand.shape.element_type[declared_sizes(sizes)]
        return xb.dynamic_broadcast_in_dim(operand, vector, dimensions, shape)

    def iota(self, element_type: PrimitiveType, sizes: Sequence[Any], dimension: int) -> XlaOp:
        """Record an iota of sizes, which may be symbolic."""
        shape = element_type[declared_sizes(sizes)]
        if are_numbers(sizes):
            return self.builder.iota(shape, dimension)
        return xb.dynamic_iota(self._vector(sizes), dimension, shape)

    def _vector(self, sizes: Sequence[Any]) -> XlaOp:
        parts = [
            self.builder.constant([size], xb.s32)
            if are_numbers([size])
            else xb.reshape(self.value(size), [1])
            for size in sizes
        ]
        return parts[0] if len(parts) == 1 else xb.concat_in_dim(parts, 0)

    def reshape(self, operand: XlaOp, sizes: Sequence[Any]) -> XlaOp:
        """Record a reshape to sizes, which may be symbolic."""
        if are_numbers(sizes):
            return xb.reshape(operand, sizes)
        values = [
            self.builder.constant(size, xb.s32) if are_numbers([size]) else self.value(size)
            for size in sizes
        ]
        declared = declared_sizes(sizes)
        return xb.dynamic_reshape(operand, values, declared, [n == UNBOUNDED for n in declared])


_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Sub: operator.sub,
}

_FUNCTIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    # Sizes are not negative.
    "floordiv": lambda one, other: one / other,
    "max": xb.max,
    "min": xb.min,
    "mod": lambda one, other: one % other,
}


def takes_sizes(computation: XlaComputation) -> bool:
    """Return whether parameters of a computation may be sizes of arrays in it."""
    is_open = any(has_unbounded_sizes(op.shape) for op in computation.ops)
    return is_open and any(may_be_size(p.shape) for p in computation.parameters)


def sizes_in(computation: XlaComputation) -> set[XlaOp]:
    """Return the ops that compute the sizes at run time of arrays of unbounded sizes.

    They depend on the sizes of arrays and on constants only, and on parameters that may be sizes.
    """
    if not any(has_unbounded_sizes(op.shape) for op in computation.ops):
        return set()
    parameters = [p for p in computation.parameters if may_be_size(p.shape)]
    return _SizeOps(parameters).extend(computation.ops).union(parameters)


class _SizeOps:
    """The ops that compute sizes; see `sizes_in`."""

    __slots__ = ("_numbers", "_sizes")

    def __init__(self, parameters: Iterable[XlaOp] = ()) -> None:
        self._sizes: Final = set(parameters)
        self._numbers: Final[set[XlaOp]] = set()  # constants, and those that are moved

    def extend(self, ops: Iterable[XlaOp]) -> set[XlaOp]:
        """Find those among more ops; return them, with ops before them that they need."""
        found: set[XlaOp] = set()
        sizes, numbers = self._sizes, self._numbers
        for op in ops:
            if is_constant(op):
                numbers.add(op)
            elif op.opcode == "get_dimension_size":
                if has_unbounded_sizes(op.operands[0].shape):
                    found.add(op)
                    sizes.add(op)
            elif (first := SCHEMAS[op.opcode].first_size) is not None:
                self._add(filter(numbers.__contains__, op.operands[first:]), found)
            elif not op.operands or not _is_small(op.shape):
                continue
            elif op.opcode in _MOVES and numbers.issuperset(op.operands):
                numbers.add(op)
            elif not sizes.isdisjoint(op.operands) and all(
                operand in sizes or operand in numbers for operand in op.operands
            ):
                self._add([op], found)
        return found

    def _add(self, ops: Iterable[XlaOp], found: set[XlaOp]) -> None:
        """Add ops, and the moved constants that they depend on, to the sizes and to a set."""
        stack = list(ops)
        while stack:
            op = stack.pop()
            if not is_constant(op) and op not in self._sizes:
                found.add(op)
                self._sizes.add(op)
                stack += op.operands


_MOVES: Final = opcodes_with(Trait.MOVES) | {"convert"}
"""The ops that may be applied to constants before these are combined with sizes."""


def _is_small(shape: Shape) -> bool:
    """Return whether arrays may be vectors of sizes."""
    return all(
        isinstance(leaf, ArrayShape) and leaf.is_static and leaf.element_count <= _MOST_SIZES
        for leaf in leaves(shape)
    )


def with_sizes(op: XlaOp, step: Step, sizes: set[XlaOp]) -> Step:
    """Return the step of an op that is one of the sizes, or has some as operands."""
    if op in sizes:
        return _as_numbers(op, step)
    if sizes.isdisjoint(op.operands):
        return step
    if _passes_sizes(op) or SCHEMAS[op.opcode].first_size is not None:
        return step
    return lambda *operands: step(*map(_value, operands, op.operands))


def _as_numbers(op: XlaOp, step: Step) -> Step:
    """Return a step that evaluates an op at once, also while jax traces."""
    symbolic = _SYMBOLIC.get(op.opcode)

    def evaluated(*operands: Value) -> Value:
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(operands)):
            return step(*map(_value, operands, op.operands))  # of a symbolic dimension
        if any(map(_is_symbolic, operands)):
            found = None if symbolic is None else symbolic(op, *operands)
            return step(*map(_value, operands, op.operands)) if found is None else found
        if any(isinstance(operand, jax.Array) for operand in operands):
            return step(*operands)  # of a parameter that is not a size
        with jax.ensure_compile_time_eval():
            return jax.tree.map(np.asarray, step(*operands))

    return evaluated


def _is_symbolic(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def _value(value: Value, op: XlaOp) -> Value:
    """Return the value of an operand, which may be an array of symbolic dimensions."""
    if not _is_symbolic(value):
        return value
    shape: Any = op.shape
    elements = [jnp.asarray(size) for size in value.reshape(-1)]
    array = lax.reshape(jnp.stack(elements), value.shape)
    return lax.convert_element_type(array, shape.element_type.dtype)


def _objects(values: Any, sizes: tuple[int, ...]) -> Value:
    """Return an array of Python objects."""
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(sizes)


def _convert(op: XlaOp, operand: Value) -> Value | None:
    shape: Any = op.shape
    return operand if shape.element_type.is_integral else None


def _broadcast(op: XlaOp, operand: Value) -> Value:
    shape: Any = op.shape
    sizes = [1] * shape.rank
    for size, place in zip(operand.shape, op.attributes["broadcast_dimensions"], strict=True):
        sizes[place] = size
    return np.broadcast_to(operand.reshape(sizes), shape.dimensions)


def _reshape(op: XlaOp, operand: Value) -> Value:
    shape: Any = op.shape
    return operand.reshape(shape.dimensions)


def _slice(op: XlaOp, operand: Value) -> Value:
    names = "start_indices", "limit_indices", "strides"
    ranges = zip(*[op.attributes[name] for name in names], strict=True)
    return operand[tuple([slice(*each) for each in ranges])]


def _concatenate(_: XlaOp, *operands: Value) -> Value:
    return np.concatenate([operand.astype(object) for operand in operands])


def _elementwise(function: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    def apply(_: XlaOp, one: Value, other: Value) -> Value:
        pairs = zip(one.reshape(-1).tolist(), other.reshape(-1).tolist(), strict=True)
        return _objects([function(*pair) for pair in pairs], one.shape)

    return apply


_SYMBOLIC: Final[Mapping[str, Callable[..., Value | None]]] = {
    "add": _elementwise(operator.add),
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "convert": _convert,
    "divide": _elementwise(operator.floordiv),
    "multiply": _elementwise(operator.mul),
    "reshape": _reshape,
    "slice": _slice,
    "subtract": _elementwise(operator.sub),
}
"""The functions of symbolic dimensions, by opcode; None if the result is none."""
