"""Read a module from a file, text, bytes, or an object of jax.

`load`, `to_computation`, `compile`, `interpret` and `compare` accept the same sources.

A `jax.stages.Lowered` takes the values of symbolic dimensions as arguments, before the arrays. (A
`jax.export.Exported` reads them from the arrays.) Here its module is changed to read them, and to
check what the symbolic dimensions declare: equal sizes, and the constraints of their scope.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir import ir

from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.subcomputations import ReusableFunction
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.support.arguments import is_function
from lowering.errors import LoweringError
from lowering.jaxlib_api import jaxprs, mlir
from lowering.jaxlib_api.jaxprs import lowered_with_rules
from lowering.mlir.operations import main_function, operations_in
from lowering.reading.file_kind import reject_by_prefix
from lowering.reading.module_reader import sealed_bytecode
from lowering.stablehlo.call_tree import with_call_tree
from lowering.stablehlo.module import (
    Buffer,
    StablehloModule,
    from_bytes,
    load_bytes,
    program_shape_of,
    read_file,
    with_attributes,
)
from lowering.stablehlo.platforms import PLATFORM_INDEX

if TYPE_CHECKING:
    from jax.export import Exported


ModuleSource: TypeAlias = (
    "StablehloModule | Exported | jax.stages.Lowered | jax.stages.Traced | ir.Module | Buffer | "
    "str | os.PathLike[str]"
)
"""The types of sources that `load` reads."""

_TEXT: Final = re.compile(r"\n|\b(?:module|func\.func|HloModule|ENTRY)\b.*\{")


def is_text(source: str) -> bool:
    """Return whether a string is the text of a module, in StableHLO or HLO; else it is a path."""
    return _TEXT.search(source) is not None


def path_of(source: Any) -> str | None:
    """Return the path in a source; None for other sources."""
    is_path = not is_text(source) if isinstance(source, str) else isinstance(source, os.PathLike)
    return os.fsdecode(source) if is_path else None


@explained
def load(source: ModuleSource) -> StablehloModule:
    """Read a module: from a file, from memory, or from an object of jax.

    Files may contain text, bytecode, a portable artifact, or the output of
    `jax.export.Exported.serialize`, regardless of their suffix. Files of other programs are
    supported. Pipes and devices are refused. A large file of another kind is refused by its first
    bytes.

    Damaged bytecode can crash MLIR. Bytecode without this library's checksum is therefore parsed in
    a helper process first, which takes some tenths of a second.

    A module of a function, of jax or `lowering.jit`, keeps the nesting of the function's arguments
    and results: the executable of `lowering.compile` is called like the function, including unused
    arguments and keyword arguments, or with one array for each parameter of @main. `save` writes
    the nesting to the file. In files it consists of dicts, lists, tuples and None: a named tuple
    becomes a tuple, and a dataclass or another class with named fields a dict. A call may pass
    either form; results have the form of the file. Dicts whose keys are not Python literals
    can't be written, and serialized jax functions with classes that were registered with jax
    can't be read in this way: such programs take one array for each parameter.

    The first argument of @main in a module for several platforms of jax is the number of the
    platform. `lowering.compile` sets it, if the module is from an `Exported` or a `Lowered`, or was
    saved here. In other modules it is an ordinary parameter.

    Args:
        source: the path of a file; the content of a file as bytes or text (a string is text if it
            has a line break, or a brace after "module" or "func.func"); a `jax.stages.Lowered` or
            `Traced`; a `jax.export.Exported`; an `ir.Module` of jaxlib; or a StablehloModule,
            which is returned.

    Raises:
        ModuleFileError: the file cannot be read, or is not a StableHLO module with a function
            ``@main``; has the path, line and column.
        OperandError: `source` is something else.

    Example:
        >>> import jax, lowering, numpy as np
        >>> lowering.load(jax.jit(lambda x: x + x).lower(np.ones(2, np.float32)))
        <StablehloModule 'jit__lambda' (arg0: f32[2]) -> f32[2]>
    """
    return module_of(source, "load")


def module_of(source: Any, op: str) -> StablehloModule:
    """Return the module of a source; `op` is the function that the user called."""
    if isinstance(source, StablehloModule):
        return source
    if path_of(source) is not None:
        return from_bytes(*read_file(source, "load", reject_by_prefix))
    if isinstance(source, (str, bytes, bytearray, memoryview)):
        return load_bytes(source)
    if isinstance(source, jax.stages.Traced):
        source = lowered_stage(source)
    if isinstance(source, jax.stages.Lowered):
        return with_attributes(_of_stage(module_of(reading_sizes(source), op), source))
    if isinstance(source, ir.Module):
        # With a checksum, the bytecode is not parsed in a helper process.
        return from_bytes(b"".join(sealed_bytecode(source)), None)
    # Importing jax.export is slow.
    if hasattr(source, "mlir_module_serialized"):
        module = load_bytes(source.mlir_module_serialized)
        platforms, used = source.platforms, source.module_kept_var_idx
        return with_attributes(_with_tree(module, source, platforms, used))
    first = "a module" if op in ("load", "to_computation") else "an XlaComputation, a module"
    rule = f"expected {first}, a path, text, bytes or an object of jax"
    raise error_of(OperandError, op, rule, _fix(source), got=brief(source))


def shared_module(lowered: jax.stages.Lowered, *, checks_sizes: bool) -> StablehloModule:
    """Return the module of a Lowered without a copy, which would take longer than its import.

    It is read only: jax may return the same module to others.

    Args:
        lowered: the program.
        checks_sizes: whether the module checks what symbolic dimensions declare.
    """
    module = reading_sizes(lowered, checks_sizes=checks_sizes)
    return _of_stage(StablehloModule(module, program_shape_of(module, None)), lowered)


def _of_stage(module: StablehloModule, lowered: jax.stages.Lowered) -> StablehloModule:
    platforms = jaxprs.lowered_platforms(lowered)
    return _with_tree(module, lowered, platforms, jaxprs.used_leaves(lowered))


def lowered_stage(traced: jax.stages.Traced) -> jax.stages.Lowered:
    """Lower what jax has traced; `stop_gradient` becomes an operation.

    jax locates the constants of a program where `lower` is called: at the line of the user's call.
    """
    exclude_own_frames()
    return lowered_with_rules(traced, {})


@cache
def exclude_own_frames() -> None:
    """Make jax ignore the frames in these packages."""
    from jax.extend import source_info_util  # lazy import: it imports Pallas

    for package in ("builder", "lowering"):
        source_info_util.register_exclusion(str(Path(__file__).parents[2] / package) + os.sep)


def _with_tree(
    module: StablehloModule, source: Any, platforms: Sequence[str], used: Sequence[int] | None
) -> StablehloModule:
    """Return a module with the platforms and the tree of its source, an object of jax."""
    shape, tree = with_call_tree(
        module.module, module.program_shape, platforms, source.in_tree, source.out_tree, used
    )
    return StablehloModule(module.module, shape, platforms=platforms, tree=tree)


def _fix(source: Any) -> str:
    """Return a fix for messages: how to get a module from `source`; "" if unknown."""
    if isinstance(source, XlaComputation):
        return "lower it: lowering.lower(computation)"
    if isinstance(source, XlaOp):
        return "build the computation first: op.builder.build(op)"
    if isinstance(source, XlaBuilder):
        return "build the computation first: builder.build(op)"
    if isinstance(source, ReusableFunction):
        return (
            "pass function.computation(shape, ...), with a shape for each parameter, or call "
            "lowering.jit(function) with arrays"
        )
    if isinstance(source, jax.stages.Compiled):
        return "pass the jax.stages.Lowered instead of the Compiled: jax.jit(function).lower(...)"
    if hasattr(source, "hlo_text"):
        return "pass the computation or module that the executable was compiled from"
    if hasattr(source, "lower") and callable(source):
        return "pass function.lower(...), with the arguments of the function"
    if is_function(source):
        return "call lowering.jit(function) with arrays"
    return ""


_SIZE: Final = "jax.global_constant"
"""jax's attribute of an argument that is a symbolic dimension: its name."""


def reading_sizes(lowered: jax.stages.Lowered, *, checks_sizes: bool = True) -> ir.Module:
    """Return the module of a Lowered; a copy without arguments for sizes, if there are some.

    Args:
        lowered: the program.
        checks_sizes: whether the module checks the sizes, by the operations of `jax.export`. Then a
            symbol may also be only a part of the arrays' sizes, such as ``2*n``.

    Raises:
        LoweringError: a symbolic dimension is not the size of an array that the module takes.
    """
    module = cast("ir.Module", lowered.compiler_ir("stablehlo"))
    names = _size_arguments(main_function(module.operation))
    if not names:
        return module
    copy = ir.Module.parse(mlir.bytecode(module), mlir.new_context())
    main = main_function(copy.operation)
    block = main.regions[0].blocks[0]
    arrays = list(block.arguments)[max(names) + 1 :]
    shapes = _shapes(lowered)
    read = _checked_sizes if checks_sizes else _sizes
    with main.context, ir.Location.unknown(main.context):
        start = ir.InsertionPoint.at_block_begin(block)
        sizes = read(copy, start, arrays, shapes, list(names.values()))
        for number, size in zip(names, sizes, strict=True):
            argument = block.arguments[number]
            if argument.type != size.type:  # in jax's x64 mode
                operation = ir.Operation.create(
                    "stablehlo.convert", [argument.type], [size], ip=start
                )
                size = operation.results[0]
            argument.replace_all_uses_with(size)
        _remove_arguments(main, names)
    return copy


def _size_arguments(main: ir.Operation) -> dict[int, str]:
    """Return the arguments of @main that are symbolic dimensions: the number and name of each."""
    attributes: Any = main.attributes.get("arg_attrs") or ()
    names = {n: each[_SIZE].value for n, each in enumerate(attributes) if _SIZE in each}
    return {number: name for number, name in names.items() if name != PLATFORM_INDEX}


def _shapes(lowered: jax.stages.Lowered) -> list[Sequence[Any]]:
    """Return the shapes of the arrays that @main takes, with jax's symbolic dimensions."""
    shapes: list[Any] = [array.shape for array in jax.tree.leaves(lowered.in_avals)]
    used = jaxprs.used_leaves(lowered)
    return shapes if used is None else [shapes[number] for number in used]


def _sizes(
    _: ir.Module,
    start: ir.InsertionPoint,
    arrays: Sequence[Any],
    shapes: Sequence[Sequence[Any]],
    names: Sequence[str],
) -> list[Any]:
    """Return the values of symbolic dimensions, by operations that read them from the arrays."""
    places: dict[str, tuple[int, int]] = {}
    for number, shape in enumerate(shapes):
        for dimension, size in enumerate(shape):
            places.setdefault(str(size), (number, dimension))
    values = []
    for name in names:
        place = places.get(name)
        if place is None:
            rule = f"no array has a dimension of the symbolic size {name}"
            fix = f"add an argument of this size, such as f32[{name}]"
            raise error_of(LoweringError, "load", rule, fix)
        number, dimension = place
        operation = ir.Operation.create(
            "stablehlo.get_dimension_size",
            [ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))],
            [arrays[number]],
            {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dimension)},
            ip=start,
        )
        values.append(operation.results[0])
    return values


def _checked_sizes(
    module: ir.Module,
    start: ir.InsertionPoint,
    arrays: Sequence[Any],
    shapes: Sequence[Sequence[Any]],
    names: Sequence[str],
) -> list[Any]:
    """Return the values of symbolic dimensions, as `jax.export` computes and checks them.

    jax exports a function of such arrays that returns the sizes. The operations of its @main, which
    end with a call of the function itself, are copied.
    """
    exported = ir.Module.parse(_exported_sizes(shapes, names), module.context)
    symbols = ir.SymbolTable(module.operation)
    renamed: dict[str, ir.Attribute] = {}
    copies: list[ir.Operation] = []
    for function in exported.body.operations:
        name = ir.StringAttr(function.attributes["sym_name"]).value
        if name not in ("main", _WRAPPED):
            copies.append(function.operation.clone(ip=ir.InsertionPoint(module.body)))
            renamed[name] = ir.FlatSymbolRefAttr.get(symbols.insert(copies[-1]).value)
    block = main_function(exported.operation).regions[0].blocks[0]
    values = dict(zip(block.arguments, arrays, strict=True))
    for operation in block.operations:
        operands = [values[operand] for operand in operation.operands]
        if _callee(operation) == _WRAPPED:
            sizes = operands[: len(names)]
            break
        copy = operation.operation.clone(ip=start)
        copies.append(copy)
        for number, operand in enumerate(operands):
            copy.operands[number] = operand
        values.update(zip(operation.results, copy.results, strict=True))
    for copy in copies:
        for call in operations_in(copy, ("func.call",)):
            call.attributes["callee"] = renamed[_callee(call)]
    return sizes


def _callee(operation: Any) -> str:
    """Return the name of the function that an operation calls; "" if it calls none."""
    callee = operation.attributes.get("callee")
    return "" if callee is None else ir.FlatSymbolRefAttr(callee).value


_WRAPPED: Final = "_wrapped_jax_export_main"
"""The name that `jax.export` gives to the exported function, which its @main calls."""


def _exported_sizes(shapes: Sequence[Sequence[Any]], names: Sequence[str]) -> str:
    """Return the module, as text, of a function of arrays that returns symbolic dimensions."""
    scope = next(size.scope for shape in shapes for size in shape if hasattr(size, "scope"))
    sizes = jax.export.symbolic_shape(", ".join(names), scope=scope)
    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    jitted = jax.jit(lambda *_: list(map(jnp.asarray, sizes)), keep_unused=True)
    try:
        # jax computes sizes from arrays of any type.
        exported = jax.export.export(jitted)(*[described(shape, np.bool_) for shape in shapes])
    except ValueError as error:  # a symbol is not the size of an array
        rule = f"the symbolic sizes {', '.join(names)} do not follow from the sizes of the arrays"
        fix = f"add arguments of these sizes, such as f32[{', '.join(names)}]"
        raise error_of(LoweringError, "load", rule, fix, detail=str(error)) from None
    return str(exported.mlir_module())


def _remove_arguments(main: ir.Operation, numbers: Collection[int]) -> None:
    """Remove arguments of @main, which are not used."""
    block = main.regions[0].blocks[0]
    for number in sorted(numbers, reverse=True):
        block.erase_argument(number)
    function_type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    inputs = [one for number, one in enumerate(function_type.inputs) if number not in numbers]
    taken = ir.FunctionType.get(inputs, function_type.results)
    main.attributes["function_type"] = ir.TypeAttr.get(taken)
    attributes: Any = main.attributes["arg_attrs"]
    kept = [each for number, each in enumerate(attributes) if number not in numbers]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(kept)
