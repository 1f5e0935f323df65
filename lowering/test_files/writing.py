"""lowering.write_test: write a computation with arguments and expected results as a test."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from jaxlib.mlir import ir

import builder as xb
from builder.attributes.annotations import Annotations
from builder.checking import flag
from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import record_tuple
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp, tuple_parts
from builder.ops.operands import need_computation
from builder.schema import Trait, opcodes_with
from builder.support.names import UniqueNames
from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, leaves
from lowering.errors import ArgumentError, LoweringError, ModuleFileError
from lowering.interpreter import tolerances
from lowering.interpreter.comparing import (
    Values,
    double_values,
    nested_arguments,
    reference_values,
)
from lowering.interpreter.evaluating import flat_arguments
from lowering.interpreter.instrumentation import with_results
from lowering.ops.registry import place
from lowering.pjrt.devices import device_argument
from lowering.running.compiling import compile
from lowering.stablehlo.lower import lower
from lowering.stablehlo.module import path_text, write_atomically

EQUAL: Final = "check.expect_eq"
ALMOST_EQUAL: Final = "check.expect_almost_eq"

_RUN: Final = "// RUN: stablehlo-opt -inline %s | stablehlo-translate --interpret"

_OF_FUNCTIONS: Final = ("function_type", "sym_name", "sym_visibility")

_NOT_TESTED: Final = opcodes_with(Trait.STRUCTURE) | {"constant"}
"""Opcodes without a test of their own, because they compute nothing."""


_NOT_DETERMINED: Final = {
    **dict.fromkeys(opcodes_with(Trait.TRANSFER), "files have no data for transfers with the host"),
    "python_call": "files contain no Python functions",
    "rng": "its values are other ones in each run",
}
"""Why an op can't be in a test."""


@explained
def write_test(
    computation: XlaComputation,
    path: str | os.PathLike[str],
    /,
    *args: Any,
    reference: str | jax.Device | list[Any] | tuple[Any, ...] = "interpreter",
    by_op: bool = False,
) -> list[str]:
    """Write a test of a computation for another compiler: a file in the form of StableHLO's tests.

    The file is a module of StableHLO text. Its function @main has no arguments. It calls the
    program with constants as arguments, behind optimization barriers so that a compiler does not
    fold them, and compares the results with the expected ones by operations of the `check` dialect.
    StableHLO's `stablehlo-translate --interpret`, IREE and `run_test` execute these operations:

    - `check.expect_eq` for results that must be equal: integers, booleans, and values that are only
      moved;
    - `check.expect_almost_eq` for other floating-point and complex results. StableHLO accepts
      differences up to 0.001, relative for numbers above 1.

    Args:
        computation: an XlaComputation with fixed sizes.
        path: the file to write; for `by_op` the folder, which is created.
        args: the arguments, as for a compiled computation.
        reference: where the expected results come from: "interpreter" is StableHLO's reference
            interpreter, and the CPU for ops that it does not support; "f64" is the CPU, which
            computes each inexact op in double precision and rounds its result; a device runs the
            program on it; a sequence has an array for each array of the result.
        by_op: write a file for each different op of the computation instead, with the operands that
            it has in the program. Ops are equal if their opcodes, attributes and shapes are. Ops of
            applied computations are part of the op that applies them.

    Returns:
        The paths of the files.

    Raises:
        ArgumentError: the arguments do not match the parameters.
        ArgumentError: `reference` has other shapes than the result, or is given for `by_op`.
        ExecutionError: the interpreter or the device failed.
        LoweringError: StableHLO can't express the computation; its result has no arrays; it
            exchanges data with the host, calls Python or has random values.
        ModuleFileError: the file can't be written.
        OperandError: `computation` is not a computation, or `reference` none of these.

    Example:
        >>> import builder as xb, lowering, numpy as np, pathlib, tempfile
        >>> @xb.computation(xb.f32[2], xb.f32[2])
        ... def model(x, y):
        ...     return xb.tanh(x) * y
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> x = np.float32([0, 1])
        >>> (path,) = lowering.write_test(model, folder / "model.mlir", x, x)
        >>> [str(outcome) for outcome in lowering.run_test(path)]
        ['model: passed']
        >>> files = lowering.write_test(model, folder, x, x, by_op=True)
        >>> [pathlib.Path(file).name for file in files]
        ['tanh.mlir', 'multiply.mlir']
    """
    need_computation("write_test", computation)
    computation = computation.strip_debug()  # another compiler can't print
    _check_ops(computation)
    name = path_text(path, "write_test")
    flat, _ = flat_arguments(computation, args, {}, "write_test")
    is_given = isinstance(reference, (tuple, list))
    if not is_given and not isinstance(reference, (str, jax.Device)):
        rule = "reference must be 'interpreter', 'f64', a device, or a list of arrays"
        raise error_of(OperandError, "write_test", rule, got=brief(reference))
    given = list(reference) if is_given else None
    if flag("write_test", "by_op", by_op):
        if given is not None:
            rule = "by_op needs the values of all ops"
            fix = 'pass reference="interpreter" or "f64", or a device'
            raise error_of(ArgumentError, "write_test", rule, fix, got=brief(reference))
        return _write_ops(computation, name, flat, reference)
    if given is None:
        expected = jax.tree.leaves(_values(computation, flat, reference)[computation.root])
    else:
        expected = _checked(computation, given)
    text = _text(computation, nested_arguments(computation, flat), expected)
    write_atomically(name, [text.encode()])
    return [name]


def _check_ops(computation: XlaComputation) -> None:
    """Refuse computations whose results a file can't determine.

    Raises:
        LoweringError: the result has no arrays, or an op exchanges data with the host, calls Python
            or has random values.
    """
    for op in (o for c in (*computation.called_computations(), computation) for o in c.ops):
        if op.opcode in _NOT_DETERMINED:
            rule = f"{op.opcode}{place(op)}: {_NOT_DETERMINED[op.opcode]}"
            fix = "test a part of the program: computation.extract(op, inputs=[...])"
            raise error_of(LoweringError, "write_test", rule, fix)
    if not any(isinstance(leaf, ArrayShape) for leaf in leaves(computation.root.shape)):
        rule = f"the result of {computation.name} must have an array, to compare"
        raise error_of(LoweringError, "write_test", rule, got=computation.root.shape)


def _values(computation: XlaComputation, flat: Sequence[Any], reference: Any) -> Values:
    """Return the value of each op, from the interpreter or a device."""
    if reference == "interpreter":
        return reference_values(computation, flat, device_argument("write_test", "cpu"), None)[0]
    arguments = nested_arguments(computation, flat)
    if reference == "f64":
        return double_values(computation, arguments)[0]
    target = device_argument("write_test", reference)
    program = with_results(computation, computation.ops)
    _, *values = compile(program, target)(*arguments)
    return dict(zip(computation.ops, values, strict=True))


def _checked(computation: XlaComputation, given: Sequence[Any]) -> list[Any]:
    """Return the expected arrays of the caller."""
    shapes = [leaf for leaf in leaves(computation.root.shape) if isinstance(leaf, ArrayShape)]
    arrays = [np.asarray(array) for array in given]
    got = [xb.array_shape(array.dtype, array.shape) for array in arrays]
    if got != [xb.array_shape(shape.element_type, shape.dimensions) for shape in shapes]:
        rule = "reference must have an array for each array of the result: "
        rule += ", ".join(map(str, shapes))
        raise error_of(ArgumentError, "write_test", rule, got=", ".join(map(str, got)))
    return arrays


def _write_ops(
    computation: XlaComputation, folder: str, flat: Sequence[Any], reference: Any
) -> list[str]:
    """Write a file for each different op; return the paths."""
    values = _values(computation, flat, reference)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        rule = f"the folder can't be created: {error.strerror}"
        fix = "pass the path of a folder"
        raise ModuleFileError(rule, context=(folder,), fix=fix, path=folder, op="save") from None
    names = UniqueNames(separator="_")
    written: dict[tuple[Any, ...], str] = {}
    for op in computation.ops:
        shapes = tuple([operand.shape for operand in op.operands])
        # Attributes may be arrays, which are not hashable, and compare elementwise.
        key = (op.opcode, op.shape, shapes, repr(dict(op.attributes)))
        if key in written or op.opcode in _NOT_TESTED or _has_token(op):
            continue
        inputs = list(dict.fromkeys(op.operands))
        part = computation.extract(op, inputs=inputs)
        single = XlaComputation(op.opcode, part.ops, part.root, part.parameters)
        text = _text(single, [values[each] for each in inputs], jax.tree.leaves(values[op]))
        written[key] = str(Path(folder, f"{names.claim(op.opcode)}.mlir"))
        write_atomically(written[key], [text.encode()])
    return list(written.values())


def _has_token(op: XlaOp) -> bool:
    shapes = [op.shape, *[operand.shape for operand in op.operands]]
    return any(isinstance(leaf, TokenShape) for shape in shapes for leaf in leaves(shape))


def _text(computation: XlaComputation, arguments: Sequence[Any], expected: Sequence[Any]) -> str:
    """Return the text of a test."""
    b = XlaBuilder(computation.name)
    if computation.annotations is not None:
        b.annotations = Annotations(meshes=computation.annotations.meshes)
    constants = [
        _constant(b, shape, value)
        for shape, value in zip(computation.program_shape.parameters, arguments, strict=True)
    ]
    called = xb.call(computation, *constants) if constants else b.call(computation)
    results = [leaf for leaf in _leaf_ops(called) if leaf.shape.is_array]
    wanted = [b.constant(np.asarray(value)) for value in expected]
    module = lower(b.build(xb.tuple(*results, *wanted))).module
    kinds = _kinds(computation, expected)
    main = next(each.operation for each in module.body.operations if _name(each) == "main")
    module.context.allow_unregistered_dialects = True
    with module.context, ir.Location.unknown(module.context):
        block = main.regions[0].blocks[0]
        returned = block.operations[len(block.operations) - 1].operation
        values = list(returned.operands)
        with ir.InsertionPoint(returned):
            for kind, pair in zip(
                kinds, zip(values[: len(kinds)], values[len(kinds) :], strict=True), strict=True
            ):
                ir.Operation.create(kind, operands=list(pair))
            ir.Operation.create("func.return")
        returned.erase()
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], []))
        for named in list(main.attributes):  # those of the results
            if named not in _OF_FUNCTIONS:
                del main.attributes[named]
    return f"{_RUN}\n{str(module).rstrip()}\n"


def _name(operation: Any) -> str:
    return ir.StringAttr(operation.operation.attributes["sym_name"]).value


def _kinds(computation: XlaComputation, expected: Sequence[Any]) -> list[str]:
    """Return the comparison of each array of the result."""
    accumulated = tolerances.accumulated(computation, "cpu")
    root = computation.root
    parts = tuple_parts(root)
    is_exact = [
        not accumulated[part.id]
        for part in parts
        for leaf in leaves(part.shape)
        if isinstance(leaf, ArrayShape)
    ]
    return [
        EQUAL if exact and not _has_nan(np.asarray(value)) else ALMOST_EQUAL
        for exact, value in zip(is_exact, expected, strict=True)
    ]


def _has_nan(array: Any) -> bool:
    """Whether an array has a NaN, which is equal to nothing in some implementations."""
    if pt.from_dtype(array.dtype).is_integral or array.dtype == bool:
        return False
    return bool(np.isnan(array.astype(np.complex128)).any())


def _constant(b: XlaBuilder, shape: Shape, value: Any) -> XlaOp:
    """Record an argument as constants behind an optimization barrier."""
    if isinstance(shape, TupleShape):
        parts = [_constant(b, *pair) for pair in zip(shape.elements, value, strict=True)]
        return record_tuple(b, parts)
    if isinstance(shape, TokenShape):
        return b.create_token()
    return xb.optimization_barrier(b.constant(np.asarray(value)))


def _leaf_ops(op: XlaOp) -> list[XlaOp]:
    if not isinstance(op.shape, TupleShape):
        return [op]
    return [leaf for element in op for leaf in _leaf_ops(element)]
