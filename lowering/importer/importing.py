"""to_computation: import a StableHLO module or file as an XlaComputation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from jaxlib.mlir import ir

from builder.errors import XlaError, error_of
from builder.graph.aliasing import leaf_indices
from builder.graph.calls import explained
from builder.graph.computation import XlaComputation
from builder.graph.xla_op import XlaOp
from builder.support.collector import collector_paused
from builder.support.names import UniqueNames
from builder.types.shape import (
    ArrayShape,
    ProgramShape,
    Shape,
    ShapeLike,
    TupleShape,
    has_unbounded_sizes,
    leaf_count,
    leaves,
    without_layout,
)
from lowering.errors import ArgumentError, LoweringError
from lowering.importer.annotations import annotate, annotations_of, of_all_leaves, replicated_leaves
from lowering.importer.by_schema import importer_of, is_chlo_op
from lowering.importer.refinement import checked_shapes, refined, with_argument_shapes
from lowering.importer.regions import Regions
from lowering.importer.scope import Body, RegionOperation, Scope, region_operations
from lowering.importer.tables import Tables, UnboundedSizeError
from lowering.jaxlib_api import mlir
from lowering.mlir.attributes import ALIASING, is_donated
from lowering.mlir.operations import (
    REFERRING,
    argument_attributes,
    attribute_text,
    referenced_functions,
    symbol_name,
)
from lowering.mlir.types import leaf_paths
from lowering.ops.importing import failure, flat_values, nested_value, unsupported
from lowering.pjrt.devices import DeviceLike, device as find_device
from lowering.reading.module_reader import display_name
from lowering.sharding.participants import groups_of, operations_along_axes, set_groups
from lowering.stablehlo.lower import lower
from lowering.stablehlo.module import StablehloModule
from lowering.stablehlo.platforms import PLATFORM_INDEX, PLATFORMS, for_platform
from lowering.stablehlo.sources import ModuleSource, module_of, path_of

_BESIDE_FUNCTIONS: Final = frozenset(("sdy.mesh",))
"""The operations, besides func.func, that a module may have at the top level."""


_error: Final = partial(error_of, LoweringError, "to_computation")


@explained
def to_computation(
    source: ModuleSource,
    *,
    argument_shapes: Sequence[ShapeLike] | None = None,
) -> XlaComputation:
    """Import a StableHLO module as a computation, op by op.

    Shape inference runs again for each op, and its result is compared with the type in the module.

    Args:
        source: a module, or what `lowering.load` accepts: the path of a file, text, bytes, or a
            `Lowered`, `Traced` or `Exported` of jax.
        argument_shapes: the shape of each parameter other than ``_platform_index``, if the module
            has unbounded sizes (`tensor<?xf32>`); parameters without unbounded sizes keep their
            shape.

    Returns:
        A computation with the name of the module. Its parameters are the arguments of @main; if the
        module is that of a function (see `lowering.load`), ``lowering.compile(computation)`` is
        called with the arguments of the function, and nests its results. In a module for several
        platforms the first parameter is ``_platform_index``, which `lowering.compile` sets.

        A function becomes a called computation, a region a computation that an op applies, several
        results a tuple. If unbounded sizes were inferred, calls are inlined. All annotations are
        preserved, and `lower` writes them back: names, source lines, the shardings of GSPMD and
        Shardy, frontend attributes and other attributes of operations (`XlaOp.metadata`), donated
        arguments (`XlaComputation.aliases`, `donors`), and other annotations
        (`XlaComputation.annotations`). Attributes of `tuple` and `get_tuple_element` are kept in
        the metadata, but not lowered, because lowered values are flat.

        If a computation is lowered and imported again, the result equals that computation, except
        where StableHLO cannot express it: tuples are created and unpacked only where ops need
        tuples; parameters of applied computations are not nested tuples; the operand of a branch
        consists of the values that the branch uses; and an op that is lowered to several operations
        is imported as several ops.

    Raises:
        ModuleFileError: the file can't be read, or has no module.
        LoweringError: there is no op for an operation, or the inferred shape differs from the type
            in the module. The message has the operation's name and location.
        ArgumentError: `argument_shapes` do not match the parameters of the module.
        OperandError: `source` has an unsupported type; or `argument_shapes` are not shapes.

    Example:
        >>> import lowering
        >>> module = lowering.load_bytes('''
        ... func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
        ...   %0 = stablehlo.add %x, %x : tensor<?xf32>
        ...   return %0 : tensor<?xf32>
        ... }''')
        >>> print(lowering.to_computation(module, argument_shapes=["f32[2]"]))
        HloModule main, entry_computation_layout={(f32[2]{0})->f32[2]{0}}
        <BLANKLINE>
        ENTRY %main (arg0: f32[2]) -> f32[2] {
          %arg0 = f32[2]{0} parameter(0)
          ROOT %add.1 = f32[2]{0} add(%arg0, %arg0)
        }
        <BLANKLINE>
    """
    module = module_of(source, "to_computation")
    try:
        return _imported(_with_listed_groups(module), argument_shapes)
    except LoweringError as error:
        path = path_of(source)
        if path is not None:
            with_file_name(error, path)
        raise


def with_fitting_shapes(
    module: StablehloModule, argument_shapes: Sequence[ShapeLike], caller: str
) -> StablehloModule:
    """Refine a module like `with_argument_shapes`; the error for unequal sizes names them.

    Raises:
        ArgumentError: as for `with_argument_shapes`; or two sizes that have to be equal differ.
        LoweringError: the module can't be refined for these sizes, for another reason.
        OperandError: `argument_shapes` are not shapes.
    """
    try:
        return with_argument_shapes(module, argument_shapes, caller)
    except LoweringError as error:
        shapes = checked_shapes(module, argument_shapes, caller)
        unequal = unequal_sizes(module, shapes, line_of(error.detail))
        if unequal is None:
            raise
        rule, got = unequal
        fix = "write the required sizes in argument_shapes"
        rule = f"{module.name}: {rule}"
        raise error_of(ArgumentError, caller, rule, fix, got=got, computation=module.name) from None


def line_of(report: str) -> str:
    """Return the source line in jaxlib's report as " at FILE:LINE"; empty if there is none."""
    place = re.search(r"(\S+:\d+):\d+: error: ", report)
    return f" at {place[1]}" if place else ""


def unequal_sizes(
    module: StablehloModule, shapes: Sequence[Shape], where: str
) -> tuple[str, str] | None:
    """Return the rule and the sizes for two dimensions that must be equal and differ, or None.

    Args:
        module: a module with unbounded sizes.
        shapes: a shape with fixed sizes for each parameter.
        where: the source line of the op that requires equal sizes, for the rule.
    """
    try:
        groups = to_computation(module).open_sizes()
    except XlaError:  # an operation without an op
        return None
    passed = {
        (f"{name}{path}", dimension): size
        for name, shape in zip(module.program_shape.parameter_names, shapes, strict=True)
        for leaf, path in zip(leaves(shape), leaf_paths(shape), strict=True)
        if isinstance(leaf, ArrayShape)
        for dimension, size in enumerate(leaf.dimensions)
    }
    for group in groups:
        first = group.parameters[0]
        required = passed[first] if group.size is None else group.size
        for place in group.parameters:
            if passed[place] == required:
                continue
            name = f"dimension {place[1]} of {place[0]}"
            if group.size is None:
                rule = f"dimension {first[1]} of {first[0]} and {name} must be equal{where}"
                return rule, f"{required} and {passed[place]}"
            return f"{name} must be {required}{where}", str(passed[place])
    return None


def for_device(computation: XlaComputation, device: DeviceLike) -> XlaComputation:
    """Return a computation for the platform of a device.

    It is `computation`, unless that is for several platforms and has a parameter for the number of
    the platform.

    Args:
        computation: a computation.
        device: the device; None for jax's default device.

    Raises:
        CompileError: the computation does not support the device's platform.
        DeviceError: the device does not exist.
    """
    annotations = computation.annotations
    if annotations is None or PLATFORMS not in annotations.function:
        return computation
    return to_computation(for_platform(lower(computation), find_device(device)))


def with_file_name(error: LoweringError, path: str) -> None:
    """Add the module's file name to the context of an error, unless it is there."""
    name = display_name(path)
    first, *inner = error.context or ("",)
    if first == "to_computation" and not any(f", recorded at {name}:" in part for part in inner):
        error.context = (first, name, *inner)


def _imported(
    module: StablehloModule, argument_shapes: Sequence[ShapeLike] | None
) -> XlaComputation:
    source = module
    if argument_shapes is not None:
        module = with_fitting_shapes(module, argument_shapes, "to_computation")
    if any(map(has_unbounded_sizes, module.program_shape.parameters)):
        try:
            return imported(module)
        except LoweringError as error:
            error.fix = (
                "pass the shapes of the parameters, without unbounded sizes: "
                f"to_computation(module, argument_shapes=[...]), for {module.program_shape}"
            )
            raise
    try:
        return imported(module, may_refine=module is source)
    except UnboundedSizeError:
        return imported(refined(module))


def imported(
    module: StablehloModule, *, may_refine: bool = False, inlined: Sequence[Any] = ()
) -> XlaComputation:
    """Import a module as a computation.

    Args:
        module: the module.
        may_refine: whether the caller will infer unbounded sizes and call this function again.
        inlined: the functions of the inlined calls that the module marks.

    Raises:
        LoweringError: as for `to_computation`.
        UnboundedSizeError: a size is unbounded, and `may_refine` is true.
    """
    tables = Tables(may_refine=may_refine)
    tables.python_functions = module.functions
    tables.inlined_functions = inlined
    functions: dict[str, XlaComputation] = {}
    regions = Regions(tables, functions)
    try:
        with collector_paused():
            for name, operations in _in_order(module.module):
                tables.function = name
                *inner, (function, (body,)) = operations
                # Before an error about something in their regions:
                for operation, _ in inner:
                    if importer_of(operation.name) is None:
                        raise unsupported(operation)
                regions.record(inner)
                if name == "main":
                    return _entry(regions, module, function, body)
                functions[name] = _function(regions, name, function, body)
    except LoweringError:
        raise
    except XlaError as error:  # not an error of an operation, which `Scope.record` completes
        context = ("to_computation", f"in @{tables.function}", *error.context)
        raise error._as_kind(LoweringError, op="to_computation", context=context) from error
    except RecursionError:  # of a nested tuple or list
        reason = "types or attributes are nested too deep"
        raise _error(f"in @{tables.function}: {reason}") from None
    raise _error("the module has no function @main")


def _with_listed_groups(module: StablehloModule) -> StablehloModule:
    """Return the module, or a copy with replica groups along mesh axes replaced by lists."""
    declares_mesh = any(view.operation.name == "sdy.mesh" for view in module.module.body.operations)
    if not declares_mesh or not operations_along_axes(module.module.operation):
        return module
    copy = mlir.read_module(mlir.new_context(), mlir.bytecode(module.module))
    for operation in operations_along_axes(copy.operation):
        try:
            set_groups(operation, groups_of(operation))
        except LoweringError as error:
            raise failure(operation, error) from None
    return module.with_module(copy)


def _in_order(module: ir.Module) -> Iterator[tuple[str, list[RegionOperation]]]:
    """Yield the name and the `region_operations` of @main and of each function that @main reaches.

    Callees come before callers, and @main is last.
    """
    functions: dict[str, ir.Operation] = {}
    for view in module.body.operations:
        operation = view.operation
        if operation.name == "func.func":
            functions[symbol_name(operation)] = operation
        elif operation.name not in _BESIDE_FUNCTIONS:
            raise failure(operation, "XLA supports only functions at the top level of a module")
    done: set[str] = set()
    entered = {"main"}
    stack = [("main", *_operations_and_callees(functions, "main"))]
    while stack:
        caller, operations, callees = stack[-1]
        for name in callees:
            if name in entered and name not in done:  # `load` refuses recursion in files
                raise failure(
                    functions[name],
                    f"@{name} calls itself, through @{caller}: XLA does not support recursion",
                )
            if name not in done:
                entered.add(name)
                stack.append((name, *_operations_and_callees(functions, name)))
                break
        else:
            stack.pop()
            done.add(caller)
            yield caller, operations


def _operations_and_callees(
    functions: dict[str, ir.Operation], name: str
) -> tuple[list[RegionOperation], Iterator[str]]:
    """Return the `region_operations` of a function, and the names of its callees."""
    function = functions[name]
    _check_function(function, name)
    operations = region_operations(function)
    callees: dict[str, None] = {}
    bodies = (body for _, inner in (operations[-1], *operations[:-1]) for body in inner)
    for operation in (operation for body in bodies for operation in body.operations):
        if operation.name not in REFERRING or is_chlo_op(operation):
            continue
        for callee in referenced_functions(operation):
            if callee not in functions:
                raise failure(operation, f"there is no function @{callee}")
            if not len(functions[callee].regions[0].blocks):
                raise failure(operation, f"func.func @{callee} is declared without a body")
            callees[callee] = None
    return operations, iter(callees)


_RETURNS: Final = frozenset(("func.return", "stablehlo.return"))
"""The operations that may end a function. XLA accepts `stablehlo.return` too, which JAX writes in
comparators of custom calls."""


def _check_function(function: ir.Operation, name: str) -> None:
    """Raise LoweringError for a function that XLA does not support."""
    blocks = function.regions[0].blocks
    if not len(blocks):
        raise failure(function, f"@{name} has no body")
    if len(blocks) > 1:
        raise failure(
            function,
            f"@{name} has {len(blocks)} blocks, and StableHLO has no operation that branches",
        )
    last = blocks[0].operations[len(blocks[0].operations) - 1].operation
    if last.name not in _RETURNS:
        raise failure(last, f"@{name} must end with func.return")
    visibility = function.attributes.get("sym_visibility")
    if name == "main" and visibility is not None and attribute_text(visibility) != "public":
        raise failure(function, "@main must be public", got=attribute_text(visibility))


_IN_METADATA: Final = frozenset(("mhlo.sharding", "sdy.sharding", "mhlo.frontend_attributes"))
"""The attributes of a function's argument that become metadata of the parameter's op."""


def _function(regions: Regions, name: str, function: ir.Operation, body: Body) -> XlaComputation:
    scope = regions.scope(name)
    unique = UniqueNames()
    attributes = argument_attributes(function, op="to_computation")
    for number, value in enumerate(body.arguments):
        place_name = scope.tables.place(value.location).name
        parameter = scope.builder.parameter(
            scope.tables.shape(value.type),
            unique.claim(place_name or f"arg{number}"),
            replicated_at_leaf_buffers=replicated_leaves(attributes[number : number + 1]),
        )
        scope.values[value] = parameter
        scope.set_place(number, value.location)
        _annotate_parameter(scope, function, parameter, attributes[number])
    returned = scope.record(body)
    shapes = [op.shape for op in returned]
    result = shapes[0] if len(shapes) == 1 else TupleShape(shapes)
    signature = ProgramShape([p.shape for p in scope.builder.parameters.values()], result)
    in_metadata = [_IN_METADATA] * len(attributes)
    scope.builder.annotations = annotations_of(function, signature, attributes, in_metadata)
    return _built(scope, body, returned, result)


def _annotate_parameter(
    scope: Scope, function: ir.Operation, parameter: XlaOp, attributes: Mapping[str, ir.Attribute]
) -> None:
    try:
        names = [name for name in attributes if name in _IN_METADATA]
        annotate(parameter, attributes, names, scope.tables)
    except LoweringError as error:
        raise failure(function, error, f"argument {parameter.name}") from None


def _entry(
    regions: Regions, module: StablehloModule, function: ir.Operation, body: Body
) -> XlaComputation:
    """Return the computation of @main, with nested parameters and a nested result."""
    scope = regions.scope(module.name)
    shape = module.program_shape
    attributes = argument_attributes(function, op="to_computation")
    in_metadata: list[frozenset[str]] = []
    for name, parameter_shape in zip(_names(module, scope, body), shape.parameters, strict=True):
        start = len(scope.builder.ops)
        first = len(in_metadata)
        of_leaves = attributes[first : first + leaf_count(parameter_shape)]
        replicated = replicated_leaves(of_leaves)
        parameter = scope.builder.parameter(
            parameter_shape, name, replicated_at_leaf_buffers=replicated
        )
        values = list(flat_values(parameter))
        scope.values.update(zip(body.arguments[first:], values, strict=False))
        # An empty tuple has no argument.
        with_location = body.arguments[first] if values else function
        scope.set_place(start, with_location.location)
        if values:
            # The metadata of a tuple is lowered to attributes of all its leaves.
            metadata = [
                {name: value for name, value in of_leaf.items() if name in _IN_METADATA}
                for of_leaf in of_leaves
            ]
            shared = of_all_leaves(metadata) if any(metadata) else {}
            in_metadata += [frozenset() if shared is None else _IN_METADATA] * len(values)
            if shared:
                _annotate_parameter(scope, function, parameter, shared)
    returned = scope.record(body)
    _set_up_donations(scope, function, shape, attributes)
    scope.builder.annotations = annotations_of(
        function, shape, attributes, in_metadata, module.module, module.tree
    )
    return _built(scope, body, returned, shape.result)


def _set_up_donations(
    scope: Scope,
    function: ir.Operation,
    shape: ProgramShape,
    attributes: Sequence[Mapping[str, ir.Attribute]],
) -> None:
    """Record the donated arguments of @main as aliases and buffer donors of the computation."""
    places = [
        (number, index)
        for number, parameter in enumerate(shape.parameters)
        for index in leaf_indices(parameter)
    ]
    outputs = leaf_indices(shape.result)
    builder = scope.builder
    for place, of_argument in zip(places, attributes, strict=True):
        if not is_donated(of_argument):
            continue
        try:
            if ALIASING not in of_argument:
                builder.add_buffer_donor(*place)
                continue
            output = scope.tables.value(of_argument[ALIASING])
            if not isinstance(output, int) or not 0 <= output < len(outputs):
                raise LoweringError(
                    f"{ALIASING} = {of_argument[ALIASING]}: @main has no such result"
                )
            builder.setup_alias(outputs[output], *place)
        except XlaError as error:
            raise failure(function, error, f"argument {place[0]}") from None


def _names(module: StablehloModule, scope: Scope, body: Body) -> list[str]:
    """Return the parameters' names: those that `lower` wrote, else those in the locations."""
    names = list(module.program_shape.parameter_names)
    defaults = [f"arg{number}" for number in range(len(names))]
    others = [(name, default) for name, default in zip(names, defaults, strict=True)]
    is_given = module.tree is None and any(n not in (d, PLATFORM_INDEX) for n, d in others)
    if not is_given and len(names) == len(body.arguments):
        places = [scope.tables.place(value.location) for value in body.arguments]
        names = [
            name if name == PLATFORM_INDEX else place.name or name
            for place, name in zip(places, names, strict=True)
        ]
    unique = UniqueNames()  # names in files may be equal
    return [unique.claim(name or default) for name, default in zip(names, defaults, strict=True)]


def _built(scope: Scope, body: Body, returned: list[XlaOp], result: Shape) -> XlaComputation:
    start = len(scope.builder.ops)
    root = nested_value(scope, without_layout(result), iter(returned))
    scope.set_place(start, body.operations[-1].location)
    has_layout = any(getattr(leaf, "layout", None) is not None for leaf in leaves(result))
    return scope.builder.build(root, result=result if has_layout else None)
