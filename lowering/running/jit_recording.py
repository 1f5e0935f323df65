"""Record a jitted function as a computation for the arguments of a call."""

from __future__ import annotations

import functools
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np

from builder.attributes.annotations import Annotations
from builder.errors import OperandError, brief, error_of
from builder.graph.aliasing import leaf_indices
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import append_captures, record_callable
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.types.shape import Shape
from lowering.running.jit_arguments import (
    Signature,
    TreeError,
    flatten,
    flatten_dataclasses,
    leaf_names,
    leaf_path,
)
from lowering.running.jit_devices import Placement, record_shardings
from lowering.stablehlo.call_tree import CallTree, call_tree, plain


class Call(NamedTuple):
    """The arguments of a call; on several devices, those of the first device.

    Attributes:
        nested: the arguments that are not static, as `flatten_dataclasses` returns them.
        leaves: the leaves of `nested`.
        tree: the PyTreeDef of `nested`.
        static: the static arguments.
        static_key: a hashable key of the static arguments.
        columns: on several devices, for each leaf a value for all devices, or a list with a value
            for each.
        placement: the devices, and the shardings of global arrays; None for one device, and for
            a call with XlaOps.
        rows: the numbers of the leaves that have a row for each device.
    """

    nested: Any
    leaves: list[Any]
    tree: Any
    static: tuple[Any, ...]
    static_key: tuple[Any, ...]
    columns: Any = ()
    placement: Placement | None = None
    rows: frozenset[int] = frozenset()

    def key(self, shapes: tuple[Shape, ...]) -> tuple[Any, ...]:
        """Return the key of the call's recording; `shapes` are those of the leaves."""
        return self.tree, self.static_key, shapes, self.placement


class Recording(NamedTuple):
    """A function recorded for some arguments.

    Attributes:
        computation: the recorded computation. It has one parameter for each leaf of the arguments,
            and returns the leaves of the result, as a tuple unless there is exactly one.
        results: the structure of the function's result.
        is_tuple: whether the computation returns a tuple of leaves.
    """

    computation: XlaComputation
    results: Any
    is_tuple: bool

    def nested(self, result: Any) -> Any:
        """Return the computation's result, nested as the function's result is."""
        return self.results.unflatten(result if self.is_tuple else (result,))


def record(
    signature: Signature,
    call: Call,
    shapes: tuple[Shape, ...],
    enclosing: XlaBuilder | None = None,
    captured: list[XlaOp] | None = None,
) -> tuple[Recording, bool]:
    """Record a function for arguments of these shapes.

    Args:
        signature: the function, with the parameters that `call` binds.
        call: the arguments.
        shapes: the shapes of the arguments' leaves.
        enclosing: the builder that records a call of the function; None for a program.
        captured: a list. Values of `enclosing` that the function uses are appended to the list.

    Returns:
        The recording, and whether other calls can use it.

    Raises:
        OperandError: the function does not return XlaOps.
        PlacementError: the axes of the program's mesh can't express the sharding of an argument.
    """
    placement = call.placement
    structures: list[Any] = []

    def flat(*parameters: XlaOp) -> Any:
        result = signature.apply(call.tree.unflatten(parameters), call.static)
        ops, structure = _check_result(signature.name, result)
        structures.append(structure)
        if placement is not None and any(placement.shardings):
            record_shardings(
                parameters[0].builder, parameters, placement.shardings, placement.devices
            )
        return ops[0] if len(ops) == 1 else ops

    flat.__name__ = signature.name
    recorded = record_callable(
        "jit",
        "function",
        flat,
        shapes,
        enclosing=enclosing,
        names=leaf_names(call.nested, signature.names),
    )
    for number in signature.leaves_of(call.nested, signature.donated):
        for index in leaf_indices(shapes[number]):
            recorded.builder.add_buffer_donor(number, index)
    is_reusable = True
    if enclosing is not None and captured is not None:
        # The next call may capture other values.
        is_reusable = not recorded.builder._captured and enclosing._current_metadata is None
        captured.extend(append_captures(recorded))
    (results,) = structures
    if enclosing is None:
        annotations = recorded.builder.annotations or Annotations()
        tree = _call_tree(signature, call, results)
        recorded.builder.annotations = annotations._replace(nesting=tree)
    return Recording(recorded.build(), results, results.num_leaves != 1), is_reusable


def _call_tree(signature: Signature, call: Call, results: Any) -> CallTree | None:
    """Return the nesting of the function's arguments and results; None if there is none.

    In it, named tuples and classes among the arguments are tuples and dicts.
    """
    counter = count()
    numbered = plain(call.nested, lambda _: next(counter))
    numbers, arguments = flatten(signature.call_without_static(numbered))
    used = sorted(range(len(numbers)), key=numbers.__getitem__)
    return call_tree(arguments, results, used)


_error: Final = functools.partial(error_of, OperandError, "jit")


def _check_result(name: str, result: Any) -> tuple[list[XlaOp], Any]:
    """Return the ops in the function's result, and the structure of the result."""
    try:
        nested, ops, structure = flatten_dataclasses(result)
    except TreeError as error:
        rule = f"the result of {name}: {error.reason}"
        raise _error(rule, error.fix) from error.__cause__
    if result is None:
        fix = "return the result, or an empty tuple if there is no result"
        raise _error(f"{name} must return XlaOps", fix, got="None")
    for number, op in enumerate(ops):
        if type(op) is XlaOp:
            continue
        fix = "return XlaOps, in dicts, lists, tuples or dataclasses"
        if isinstance(op, (bool, int, float, complex, np.generic, np.ndarray)):
            is_typed = isinstance(op, (bool, np.generic, np.ndarray))
            arguments = "value" if is_typed else "value, element_type"
            fix = f"return x.builder.constant({arguments}), where x is an argument"
        place = f"the result{leaf_path(nested, number)} of {name}"
        raise _error(f"{place} must be an XlaOp", fix, got=brief(op))
    return ops, structure
