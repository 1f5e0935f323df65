"""hoist_constants: make large constants parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from builder.attributes.annotations import NO_ATTRIBUTES
from builder.check import integer
from builder.errors import ShapeInferenceError, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation, called_in
from builder.graph.inlined_calls import copied_calls
from builder.graph.subcomputations import record_tuple, record_tuple_element
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, with_metadata
from builder.ops.operands import need_computation
from builder.rewriting.copying import copy_op, copy_parameter
from builder.support.unique_names import UniqueNames
from builder.types.constant import splat_or_array
from builder.types.shape import Shape, TupleShape

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
        parameter name, in the order of the parameters. Equal constants are one parameter. It has
        the name of the constant or "constant", with a number if the name is taken; characters other
        than letters, digits, ".", "-" and "_" are replaced. The arrays are read-only and are not
        copied. A jax function takes them as keyword arguments.

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
        rule = f"at_least must be a number of bytes, 0 or more, got {smallest}"
        raise error_of(ShapeInferenceError, "hoist_constants", rule)
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
        calls = computation.inlined_calls
        fixed = {op for call in calls for op in call.members() or ()}
        for op in () if computation.derivative is not None else computation.ops:
            if op in fixed:
                continue
            if op.opcode == "constant" and len(_bytes(op)) >= self.smallest:
                found[self._representative(op)] = None
            elif op.opcode in _APPLYING:
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
        builder.sharding_form = computation.sharding_form
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
        builder.inlined_calls += copied_calls(computation.inlined_calls, values.get)
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
