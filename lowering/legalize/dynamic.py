"""Bounded sizes at the entry point of a program.

PJRT has no arrays whose size is known only when a program runs. So a bounded parameter is passed as
an array of its largest size, with its sizes as further parameters, and becomes bounded inside; a
bounded result is returned in the same way. `Executable` pads the former and slices the latter.

Inside, XLA propagates the sizes through most operations; `bounded_ops` has the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jaxlib.mlir import ir

from builder.types import primitive_type as pt
from builder.types.shape import ArrayShape, Shape, intern_array, leaves
from lowering.legalize.bounded_ops import BOUNDED, is_static
from lowering.legalize.op_builder import OpBuilder, array_of
from lowering.legalize.registry import Target, Value, refuse, rewrites_for
from lowering.legalize.worklist import apply_rewrites
from lowering.mlir.types import mlir_type, shape_of_type
from lowering.stablehlo.bounded_sizes import loses_a_size

__all__ = ["bounded_dimensions", "has_bounded_sizes", "legalize_bounded"]


def bounded_dimensions(shapes: Iterable[Shape]) -> list[tuple[int, int]]:
    """The bounded dimensions of all leaves, as pairs of the leaf's number and the dimension.

    The sizes are passed in this order, after all other arguments and all other results.
    """
    found = []
    number = 0
    for shape in shapes:
        for leaf in leaves(shape):
            if not leaf.is_static:
                assert isinstance(leaf, ArrayShape)  # tokens have no sizes
                found += [(number, d) for d in range(leaf.rank) if leaf.dynamic_dimensions[d]]
            number += 1
    return found


def has_bounded_sizes(module: ir.Operation, words: bytes) -> bool:
    """Whether some size of a module is bounded; `words` are the strings in its bytecode.

    Bounded sizes come from the parameters and from `set_dimension_size`.
    """
    if b"set_dimension_size\0" in words:
        return True
    kind = _function_type(_main(module))
    return any(not is_static(one) for one in (*kind.inputs, *kind.results))


def legalize_bounded(target: Target, module: ir.Operation) -> None:
    """Rewrite operations on bounded sizes that XLA gets wrong, and the entry point, in place."""
    # What the rewrites create works on the largest sizes, and needs no other rewrite.
    apply_rewrites(target, module, rewrites_for(target.platform, BOUNDED), revisit=False)
    main = _main(module)
    kind = _function_type(main)
    with module.context:
        if any(not is_static(one) for one in (*kind.inputs, *kind.results)):
            inputs = _enter(target, main.regions[0].blocks[0], list(kind.inputs))
            results = _leave(target, main.regions[0].blocks[0], list(kind.results))
            _retype(main, inputs, results)


def _enter(target: Target, block: ir.Block, inputs: list[ir.Type]) -> list[ir.Type]:
    """Make the arguments bounded inside; returns the types of the new arguments."""
    b = OpBuilder(target, block.operations[0].operation)
    size = mlir_type(intern_array(pt.s32, ()), block.owner.context)
    for number, shape in _bounded(inputs):
        argument = block.arguments[number]
        inputs[number] = mlir_type(shape.at_bounds(), b.context)
        argument.set_type(inputs[number])
        sizes: list[Value | None] = []
        for dynamic in shape.dynamic_dimensions:
            sizes.append(block.add_argument(size, argument.location) if dynamic else None)
        inputs += [size for one in sizes if one is not None]
        target.created = []
        value = b.sized(argument, sizes)
        argument.replace_all_uses_except(value, target.created[0])
    return inputs


def _leave(target: Target, block: ir.Block, results: list[ir.Type]) -> list[ir.Type]:
    """Return arrays of the largest sizes, and the sizes; returns the types of the results."""
    last = block.operations[-1].operation
    b = OpBuilder(target, last)
    values = list(last.operands)
    for number, shape in _bounded(results):
        # A rewrite may have put a value of fixed sizes in the place of a bounded one.
        bounded = [d for d, dynamic in enumerate(shape.dynamic_dimensions) if dynamic]
        sizes = [b.size(values[number], d) for d in bounded]
        values[number] = b.at_bounds(values[number])
        results[number] = values[number].type
        values += sizes
        results += [size.type for size in sizes]
    b.create("func.return", [], values)
    last.erase()
    return results


def _keeps_its_sizes(operation: ir.Operation) -> bool:
    if is_static(operation.operands[0].type):
        return True
    return not loses_a_size(array_of(operation.operands[0]), array_of(operation.results[0]))


refuse(
    "stablehlo.reshape",
    "cpu",
    "gpu",
    "tpu",
    reason="it makes fixed sizes of a bounded one, and of which elements there are nothing is left",
    fix="say which part is bounded with xb.reshape_with_inferred_dimension, or take the bounded "
    "size away first with xb.remove_dynamic_dimension",
    unless=_keeps_its_sizes,
)


def _main(module: ir.Operation) -> ir.Operation:
    for view in module.regions[0].blocks[0].operations:
        operation: ir.Operation = view.operation
        if operation.name == "func.func" and (
            ir.StringAttr(operation.attributes["sym_name"]).value == "main"
        ):
            return operation
    raise AssertionError("a module has a function @main")


def _function_type(function: ir.Operation) -> ir.FunctionType:
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def _retype(function: ir.Operation, inputs: list[ir.Type], results: list[ir.Type]) -> None:
    """Set the type of a function; the added arguments and results have no attributes."""
    old = _function_type(function)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    for name, added in (
        ("arg_attrs", len(inputs) - len(old.inputs)),
        ("res_attrs", len(results) - len(old.results)),
    ):
        if added and name in function.attributes:
            kept = list(ir.ArrayAttr(function.attributes[name]))
            function.attributes[name] = ir.ArrayAttr.get([*kept, *[ir.DictAttr.get({})] * added])


def _bounded(types: list[ir.Type]) -> Iterator[tuple[int, ArrayShape]]:
    """The numbers and shapes of the types that have bounded sizes."""
    for number, one in enumerate(list(types)):
        if not is_static(one):
            shape = shape_of_type(one)
            assert isinstance(shape, ArrayShape)  # a token is static
            yield number, shape
