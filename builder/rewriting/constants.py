"""bind: make parameters constants. hoist_constants: make large constants parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from builder.attributes.annotations import NO_ATTRIBUTES, Annotations
from builder.checking import integer
from builder.errors import OperandError, ShapeInferenceError, XlaError, brief, error_of
from builder.graph.aliasing import BufferDonor, InputOutputAlias
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation, called_in
from builder.graph.inlined_calls import copied_calls
from builder.graph.subcomputations import record_tuple, record_tuple_element
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, is_constant, with_metadata
from builder.ops.control_flow import call
from builder.ops.operands import need_computation
from builder.rewriting.copying import copy_op, copy_parameter, inline_into
from builder.schema import SCHEMAS, Trait
from builder.sharding.text import leaf_texts
from builder.support.names import UniqueNames
from builder.types.constant import splat_or_array
from builder.types.expected_arrays import (
    NestingError,
    array_for,
    conversion_fix,
    describe_array,
    flatten_value,
)
from builder.types.foreign_arrays import UnreadableArrayError
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, fold, leaf_count


@explained
def bind(
    computation: XlaComputation,
    arrays: Mapping[str | int, Any] | None = None,
    /,
    **by_name: Any,
) -> XlaComputation:
    """Return the computation with some parameters replaced by constants.

    A program with its weights inside is one file, and XLA optimizes for their values. The inverse
    is `hoist_constants`.

    Args:
        computation: the computation, which does not change.
        arrays: the values by the name or the number of the parameter, such as the arrays of a
            safetensors file.
        by_name: more values by name. A value is an array of any library, a number for a scalar, or
            nested lists of numbers; for a tuple parameter, values nested like the tuple. Arrays are
            not converted to another type. Values in a dict or a list belong to the parameters with
            these paths: ``params={"w": w}`` is the value of the parameter ``params['w']``.

    Returns:
        A computation with the remaining parameters, numbered in the same order. Aliases, donors,
        layouts, shardings and attributes of the remaining parameters and of the result are
        preserved. The arguments of a jax function keep their nesting, without the bound ones. An
        array that can be written to is copied once; a read-only array is shared.

    Raises:
        OperandError: there is no parameter with such a name or number; a value is not an array or
            not nested like its parameter; `computation` is not a computation.
        ShapeInferenceError: an array has another element type or other sizes than the parameter; a
            parameter is a token or has dynamic sizes.

    Example:
        >>> import builder as xb, numpy as np
        >>> @xb.computation(xb.f32[2], xb.f32[2])
        ... def scaled(x, w):
        ...     return x * w
        >>> xb.bind(scaled, w=np.ones(2, np.float32))
        <XlaComputation 'scaled' (x: f32[2]) -> f32[2], 3 ops>
    """
    need_computation("bind", computation)
    values = _by_number(computation, arrays, by_name)
    if not values:
        return computation
    builder = XlaBuilder(computation.name)
    builder.annotations = _annotations(computation, values)
    builder._sharding_form = computation._sharding_form
    numbers: dict[int, int] = {}
    operands: list[XlaOp] = []
    names = computation.program_shape.parameter_names
    for number, parameter in enumerate(computation.parameters):
        if number in values:
            op = _record_value(builder, computation, number, values[number])
            op.metadata, op._code, op._lasti = parameter.metadata, parameter._code, parameter._lasti
        else:
            op = copy_parameter(parameter, names[number], len(numbers), builder)
            numbers[number] = len(numbers)
        operands.append(op)
    if computation.derivative is not None and operands:
        root = call(computation, *operands)  # a copy of the ops would not have the derivative
    else:
        root = inline_into(computation, tuple(operands), builder)
    for output, number, index in computation.aliases:
        if number in numbers:
            builder.setup_alias(*InputOutputAlias(output, numbers[number], index))
    for number, index in computation.donors:
        if number in numbers:
            builder.add_buffer_donor(*BufferDonor(numbers[number], index))
    result = computation.program_shape.result
    return builder.build(root, result=None if result is root.shape else result)


def _by_number(
    computation: XlaComputation,
    arrays: Mapping[str | int, Any] | None,
    by_name: Mapping[str, Any],
) -> dict[int, Any]:
    """Return the value of each bound parameter by the number of the parameter."""
    if arrays is not None and not isinstance(arrays, Mapping):
        rule = "arrays must be a mapping of names or numbers to arrays"
        fix = "write xb.bind(computation, {'w': array}), or xb.bind(computation, w=array)"
        raise error_of(OperandError, "bind", rule, fix, got=brief(arrays))
    names = computation.program_shape.parameter_names
    values: dict[int, Any] = {}
    for key, value in [*(arrays or {}).items(), *by_name.items()]:
        for number, part in _parameters_of(computation, key, value):
            if number in values:
                rule = f"parameter {number} ({names[number]}) must have one value"
                raise error_of(OperandError, "bind", rule, got="two")
            values[number] = part
    return values


def _parameters_of(computation: XlaComputation, key: Any, value: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each parameter to which a key refers."""
    names = computation.program_shape.parameter_names
    if isinstance(key, int) and not isinstance(key, bool):
        if 0 <= key < len(names):
            yield key, value
            return
    elif isinstance(key, str):
        stack = [(key, value)]
        while stack:
            path, part = stack.pop()
            if path in names:
                if names.count(path) > 1:
                    rule = f"{path!r} is the name of several parameters of {computation.name!r}"
                    fix = "bind parameters by number: bind(computation, {0: array})"
                    raise error_of(OperandError, "bind", rule, fix)
                yield names.index(path), part
                continue
            parts = _parts(part) if any(_is_inside(name, path) for name in names) else None
            if parts is None:
                raise _no_parameter(computation, path)
            stack += [(path + step, inner) for step, inner in reversed(parts)]
        return
    raise _no_parameter(computation, key)


def _is_inside(name: str, path: str) -> bool:
    return name.startswith((f"{path}[", f"{path}."))


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """Return the steps to the parts of a nested value, as jax writes them; None for an array."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", part) for name, part in zip(value._fields, value, strict=True)]
    if isinstance(value, (list, tuple)):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    return None


def _no_parameter(computation: XlaComputation, key: Any) -> OperandError:
    names = computation.program_shape.parameter_names
    rule = f"there is no parameter {brief(key)} of {computation.name!r}"
    listed = ", ".join(map(repr, names[:_MOST_NAMES]))
    more = f" and {len(names) - _MOST_NAMES} others" if len(names) > _MOST_NAMES else ""
    fix = f"use one of {listed}{more}, or a number" if names else "the computation has none"
    return error_of(OperandError, "bind", rule, fix)


_MOST_NAMES = 50


def _record_value(
    builder: XlaBuilder, computation: XlaComputation, number: int, value: Any
) -> XlaOp:
    """Record the value of a parameter: a constant, or a tuple of constants."""
    name = computation.program_shape.parameter_names[number]
    place = f"parameter {number} ({name})"
    shape = computation.parameters[number].shape
    try:
        leaves = flatten_value(value, shape)
    except NestingError as error:
        rule = f"{place}{error.path} must be a tuple {error.shape}"
        fix = f"pass a tuple or list of length {len(error.shape.elements)}"
        raise error_of(
            OperandError, "bind", rule, fix, got=error.got, shapes={name: shape}
        ) from None
    ops = [
        _record_array(builder, f"{place}{path}", expected, leaf) for leaf, expected, path in leaves
    ]
    sharding = computation.parameters[number].sharding
    if sharding is not None:
        for op, text in zip(ops, leaf_texts(sharding, len(ops)), strict=True):
            op.metadata = with_metadata(op.metadata, sharding=text)
    remaining = iter(ops)
    return fold(
        shape,
        lambda _: next(remaining),
        lambda parts: record_tuple(builder, parts) if parts else builder.empty_tuple(),
    )


def _record_array(
    builder: XlaBuilder, place: str, shape: ArrayShape | TokenShape, value: Any
) -> XlaOp:
    """Record the value of an array of a parameter as a constant."""

    def refusal(kind: type[XlaError], got: str, fix: str = "") -> XlaError:
        rule = f"{place} must be {shape}"
        return error_of(kind, "bind", rule, fix, got=got, shapes={"parameter": shape})

    if isinstance(shape, TokenShape):
        rule = f"{place} is a token, which has no value"
        raise error_of(ShapeInferenceError, "bind", rule, shapes={"parameter": shape})
    if not shape.is_static:
        rule = f"{place} must have static sizes to be a constant"
        fix = "import the program with fixed sizes: lowering.to_computation(..., argument_shapes=)"
        raise error_of(
            ShapeInferenceError, "bind", rule, fix, got=shape, shapes={"parameter": shape}
        )
    try:
        array = array_for(value, shape)
    except UnreadableArrayError as error:
        raise refusal(OperandError, error.got, error.fix) from None
    if array.dtype != shape.element_type.dtype or array.shape != shape.dimensions:
        got = describe_array(value, array)
        raise refusal(ShapeInferenceError, got, conversion_fix(array, shape, value))
    return builder.constant(array)


def _annotations(computation: XlaComputation, bound: Collection[int]) -> Annotations | None:
    """Return the annotations without those of the bound parameters."""
    annotations = computation.annotations
    if annotations is None:
        return None
    if annotations.parameters:
        leaves = iter(annotations.parameters)
        kept = []
        for number, parameter in enumerate(computation.parameters):
            of_parameter = [next(leaves) for _ in range(leaf_count(parameter.shape))]
            kept += [] if number in bound else of_parameter
        annotations = annotations._replace(parameters=tuple(kept))
    if annotations.nesting is not None:
        annotations = annotations._replace(nesting=annotations.nesting.without(bound))
    return annotations


Array = np.ndarray[Any, Any]


@explained
def hoist_constants(
    computation: XlaComputation, *, at_least: int = 1024
) -> tuple[XlaComputation, dict[str, Array]]:
    """Return the computation with parameters in place of its large constants, and their arrays.

    A program without its weights is a small file, and the weights may be stored in another format,
    such as safetensors, and replaced. The inverse is `bind`: ``bind(hoisted, arrays)`` computes the
    same as `computation`.

    Constants of the computations that calls, loops, branches and scans apply are included. Their
    values are passed as operands of these ops. Constants remain where they are in computations that
    other ops apply (reducers, comparators, decompositions of composites) and in functions with a
    derivative of their own (`custom_gradient`, functions of `builder.lib`).

    Args:
        computation: the computation, which does not change.
        at_least: the size in bytes from which a constant becomes a parameter. A constant that
            repeats one element, as a broadcast of NumPy does, has the size of that element.

    Returns:
        The computation, with the new parameters after its own, and a dict of the arrays by
        parameter name, in the order of the parameters. Equal constants become one parameter. Its
        name is that of the constant or "constant", with a number if the name is taken; characters
        other than letters, digits, ".", "-" and "_" are replaced. The arrays are read-only and are
        not copied. A jax function takes them as keyword arguments.

    Raises:
        ShapeInferenceError: `at_least` is negative or not an integer.
        OperandError: `computation` is not a computation.

    Example:
        >>> import builder as xb, numpy as np
        >>> @xb.computation(xb.f32[500])
        ... def scaled(x):
        ...     w = x.builder.constant(np.arange(500, dtype=np.float32))
        ...     w.name = "w"
        ...     return x * w
        >>> hoisted, arrays = xb.hoist_constants(scaled, at_least=1000)
        >>> hoisted, {name: array.shape for name, array in arrays.items()}
        (<XlaComputation 'scaled' (x: f32[500], w: f32[500]) -> f32[500], 3 ops>, {'w': (500,)})
        >>> xb.bind(hoisted, arrays).diff(scaled).equal
        True
    """
    need_computation("hoist_constants", computation)
    smallest = integer("hoist_constants", "at_least", at_least)
    if smallest < 0:
        rule = "at_least must be a number of bytes, 0 or more"
        raise error_of(ShapeInferenceError, "hoist_constants", rule, got=smallest)
    hoister = _Hoister(smallest)
    for called in computation.called_computations():  # callees come before their callers
        hoister.add(called)
    hoister.add(computation)
    return hoister.hoisted(computation)


class _Hoister:
    """Passes constants to computations as additional parameters.

    Attributes:
        smallest: the smallest size in bytes of a constant to pass.
        constants: the constants to pass, by op. Equal constants have the same representative: the
            first of them.
        names: the name of a representative: the first among the names of equal constants.
        needed: the constants that each computation takes, for itself and for those that it applies.
        passed: the constants to pass to the computations that an op applies, by op.
        copies: the computations that take constants, by the arguments of `_copy`.
    """

    def __init__(self, smallest: int) -> None:
        self.smallest = smallest
        self.constants: dict[XlaOp, XlaOp] = {}
        self.names: dict[XlaOp, str] = {}
        self.needed: dict[XlaComputation, list[XlaOp]] = {}
        self.passed: dict[XlaOp, list[XlaOp]] = {}
        self.copies: dict[tuple[Any, ...], XlaComputation] = {}
        self._equal: dict[tuple[Any, ...], list[XlaOp]] = {}

    def add(self, computation: XlaComputation) -> None:
        """Find the constants of a computation; those that it applies have been added before."""
        found: dict[XlaOp, None] = {}
        calls = computation._inlined_calls
        fixed = {op for call in calls for op in call.members() or ()}
        for op in () if computation.derivative is not None else computation.ops:
            if op in fixed:
                continue
            if is_constant(op) and len(_bytes(op)) >= self.smallest:
                found[self._representative(op)] = None
            elif Trait.CONTROL_FLOW in SCHEMAS[op.opcode].traits:
                needed = chain.from_iterable(self.needed[c] for c in called_in(op.attributes))
                constants = dict.fromkeys(needed)
                if constants:
                    self.passed[op] = list(constants)
                    found.update(constants)
        self.needed[computation] = list(found)

    def _representative(self, op: XlaOp) -> XlaOp:
        """Return the first constant with the value of `op`."""
        elements = _bytes(op)
        sample = elements[:: max(len(elements) // _SAMPLE, 1)].tobytes()
        equal = self._equal.setdefault((op.shape, len(elements), sample), [])
        for first in equal:
            if np.array_equal(_bytes(first), elements):
                break
        else:
            first = op
            equal.append(op)
        self.constants[op] = first
        if op.name:
            self.names.setdefault(first, op.name)
        return first

    def _name(self, constant: XlaOp) -> str:
        """Return the name of a constant in the characters that HLO text and all files support."""
        parts = self.names.get(constant, "constant").split("/")
        valid = [re.sub(r"[^\w.-]+", "_", part, flags=re.ASCII) for part in parts]
        name = ".".join([part for part in valid if part])
        return name if name[:1].isalpha() else f"_{name}"

    def hoisted(self, computation: XlaComputation) -> tuple[XlaComputation, dict[str, Array]]:
        """Return the entry computation with parameters for constants, and their arrays."""
        constants = self.needed[computation]
        if not constants:
            return computation, {}
        # Callees come first, so the copies of computations that a copy applies exist before it.
        for called in computation.called_computations():
            if self.needed[called]:
                self._copy(called, self.needed[called])
        builder = self._builder(computation, len(constants))
        names = computation.program_shape.parameter_names
        operands = _copied_parameters(computation, builder)
        taken = [*_RESERVED, *names]
        nesting = None if builder.annotations is None else builder.annotations.nesting
        if nesting is not None:
            taken += nesting.keywords()
        unique = UniqueNames(taken, separator="_")
        arrays: dict[str, Array] = {}
        passed: list[XlaOp] = []
        for number, constant in enumerate(constants, len(operands)):
            name = unique.claim(self._name(constant))
            arrays[name] = constant.attributes["value"]
            passed.append(copy_parameter(constant, name, number, builder))
            is_own = constant.builder is computation.root.builder
            kept = constant.metadata if is_own else None
            passed[-1].metadata = with_metadata(kept, name=name, others=None, scope=None)
        if nesting is not None and builder.annotations is not None:
            nesting = nesting.with_keywords(list(arrays))
            builder.annotations = builder.annotations._replace(nesting=nesting)
        root = self._record(
            computation, builder, operands, dict(zip(constants, passed, strict=True))
        )
        for alias in computation.aliases:
            builder.setup_alias(*alias)
        for donor in computation.donors:
            builder.add_buffer_donor(*donor)
        result = computation.program_shape.result
        return builder.build(root, result=None if result is root.shape else result), arrays

    def _builder(self, computation: XlaComputation, added: int) -> XlaBuilder:
        """Return the builder of a copy that has `added` more arrays among its parameters."""
        builder = XlaBuilder(computation.name)
        annotations = computation.annotations
        if annotations is not None and annotations.parameters:
            more = (NO_ATTRIBUTES,) * added
            annotations = annotations._replace(parameters=annotations.parameters + more)
        builder.annotations = annotations
        builder._sharding_form = computation._sharding_form
        return builder

    def _record(
        self,
        computation: XlaComputation,
        builder: XlaBuilder,
        operands: Iterable[XlaOp],
        constants: Mapping[XlaOp, XlaOp],
    ) -> XlaOp:
        """Record the ops of a computation, with `constants` passed to those that need them."""
        values = dict(zip(computation.parameters, operands, strict=True))
        for op in computation.ops:
            if op in values:
                continue
            if op in self.constants:
                values[op] = constants[self.constants[op]]
                continue
            inputs = tuple([values[operand] for operand in op.operands])
            if op in self.passed:
                passed = tuple([constants[constant] for constant in self.passed[op]])
                values[op] = _APPLYING[op.opcode](self, op, inputs, passed)
            else:
                values[op] = copy_op(op, inputs, builder, op.attributes)
        builder._inlined_calls += copied_calls(computation._inlined_calls, values.get)
        return values[computation.root]

    def _copy(
        self,
        computation: XlaComputation,
        constants: Sequence[XlaOp],
        *,
        in_tuple: bool = False,
        returned: bool = False,
    ) -> XlaComputation:
        """Return the copy of a computation that takes `constants`.

        Args:
            computation: the computation.
            constants: the constants that it takes, used or not.
            in_tuple: whether the copy takes one tuple: the parameter and the constants. Otherwise
                the constants are its last parameters.
            returned: whether the copy returns the constants as well: with the result in a tuple if
                `in_tuple` is true, otherwise after the elements of the result.
        """
        key = computation, tuple(constants), in_tuple, returned
        if key in self.copies:
            return self.copies[key]
        builder = self._builder(computation, len(constants))
        if in_tuple:
            (parameter,) = computation.parameters
            shape = TupleShape([parameter.shape, *(c.shape for c in constants)])
            argument = builder._add_parameter(shape, parameter.name or "p0", 0)
            elements = [record_tuple_element(argument, i) for i in range(len(shape.elements))]
            operands, passed = elements[:1], elements[1:]
        else:
            operands = _copied_parameters(computation, builder)
            unique = UniqueNames(computation.program_shape.parameter_names, separator="_")
            passed = [
                builder._add_parameter(c.shape, unique.claim(self._name(c)), number)
                for number, c in enumerate(constants, len(operands))
            ]
        root = self._record(
            computation, builder, operands, dict(zip(constants, passed, strict=True))
        )
        if returned:
            results = [root] if in_tuple else _elements(root)
            root = record_tuple(builder, [*results, *passed])
            if builder.annotations is not None:  # they have one entry for each array of the result
                builder.annotations = builder.annotations._replace(results=(), result_shardings=())
        copy = self.copies[key] = builder.build(root)
        return copy

    def _call(self, op: XlaOp, operands: Ops, passed: Ops) -> XlaOp:
        called = self._copy(op.attributes["to_apply"], self.passed[op])
        attributes = {**op.attributes, "to_apply": called}
        return copy_op(op, (*operands, *passed), passed[0].builder, attributes)

    def _while(self, op: XlaOp, operands: Ops, passed: Ops) -> XlaOp:
        constants, builder = self.passed[op], passed[0].builder
        condition, body = op.attributes["condition"], op.attributes["body"]
        attributes = {
            **op.attributes,
            "condition": self._copy(condition, constants, in_tuple=True),
            "body": self._copy(body, constants, in_tuple=True, returned=True),
        }
        state = record_tuple(builder, [*operands, *passed])
        return record_tuple_element(_widened(op, (state,), state.shape, attributes), 0)

    def _conditional(self, op: XlaOp, operands: Ops, passed: Ops) -> XlaOp:
        builder = passed[0].builder
        branches = tuple(
            [
                self._copy(branch, self.passed[op], in_tuple=True)
                for branch in op.attributes["branch_computations"]
            ]
        )
        attributes = {**op.attributes, "branch_computations": branches}
        states = [record_tuple(builder, [operand, *passed]) for operand in operands[1:]]
        return copy_op(op, (operands[0], *states), builder, attributes)

    def _scan(self, op: XlaOp, operands: Ops, passed: Ops) -> XlaOp:
        attributes = {
            **op.attributes,
            "to_apply": self._copy(op.attributes["to_apply"], self.passed[op], returned=True),
            "num_carries": op.attributes["num_carries"] + len(passed),
            "is_associative": None,  # steps with these carries can't be combined
        }
        assert isinstance(op.shape, TupleShape)
        shape = TupleShape([*op.shape.elements, *(c.shape for c in passed)])
        new = _widened(op, (*operands, *passed), shape, attributes)
        return record_tuple(new.builder, _elements(new)[: len(op.shape.elements)])


Ops = tuple[XlaOp, ...]

_APPLYING: Final[Mapping[str, Callable[[_Hoister, XlaOp, Ops, Ops], XlaOp]]] = {
    "call": _Hoister._call,
    "conditional": _Hoister._conditional,
    "scan": _Hoister._scan,
    "while": _Hoister._while,
}
"""The methods that copy an op, with more values passed to the computations that it applies."""


def _widened(op: XlaOp, operands: Ops, shape: Shape, attributes: Mapping[str, Any]) -> XlaOp:
    """Record a copy of an op that has more operands and more results."""
    new = copy_op(op, operands, operands[0].builder, attributes)
    new.shape = shape
    new.metadata = with_metadata(op.metadata, sharding=None)  # it is nested like the old shape
    return new


def _elements(op: XlaOp) -> list[XlaOp]:
    """Return the elements of a tuple; an array itself."""
    if not isinstance(op.shape, TupleShape):
        return [op]
    return [record_tuple_element(op, index) for index in range(len(op.shape.elements))]


def _copied_parameters(computation: XlaComputation, builder: XlaBuilder) -> list[XlaOp]:
    names = computation.program_shape.parameter_names
    return [
        copy_parameter(parameter, names[number], number, builder)
        for number, parameter in enumerate(computation.parameters)
    ]


def _bytes(constant: XlaOp) -> Array:
    """Return the bytes of a constant; those of one element if it repeats the element."""
    elements: Array = splat_or_array(constant.attributes["value"]).reshape(-1)
    return elements.view(np.uint8)


_SAMPLE: Final = 4096
"""The number of bytes by which constants are compared before they are compared completely."""

_RESERVED: Final = ("__metadata__", "allow_pickle", "file")
"""Names with a meaning in safetensors files and for numpy.savez."""
