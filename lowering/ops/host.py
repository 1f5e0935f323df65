"""Tokens, transfers, custom calls and calls of Python functions.

jax's own callbacks are pointers of this process. So in a trace that is recorded again, a call of a
Python function is traced as a custom call with a number instead, and becomes a `python_call` again
when the result is imported.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import builder as xb
from builder.attributes.host import CustomCallApiVersion, OutputOperandAliasing, ffi_dictionary
from builder.errors import brief, error_of
from builder.graph.computation import XlaComputation
from builder.graph.inlined_calls import InlinedCall
from builder.graph.xla_op import XlaOp
from builder.ops.host import PYTHON_CALL_TARGET, SIZE_CHECK, is_size_check, python_call
from builder.schema import SCHEMAS
from builder.schema.kinds import BYTES
from builder.sharding.text import is_shardy, leaf_texts
from builder.types.layout import Layout
from builder.types.shape import ArrayShape, Shape, TokenShape, TupleShape, fold, leaf_count, leaves
from lowering.errors import ArgumentError
from lowering.host.callbacks import PythonFunction, python_callback
from lowering.host.custom_calls import is_reserved_target
from lowering.jaxlib_api import mlir
from lowering.jaxlib_api.lazy_jax import jax, jax_experimental
from lowering.mlir.attributes import (
    Attribute,
    ReadableAttribute,
    array,
    i32,
    layouts_text,
    order_text,
    quoted,
)
from lowering.mlir.types import flatten, type_text, unflatten
from lowering.ops.derivatives import with_derivative_of
from lowering.ops.emitting import dictionary_text, error, need_orders
from lowering.ops.importing import INLINED_CALL, failure, flat_values, is_used, nested_value
from lowering.ops.registry import (
    CUSTOM_CALLS,
    REFUSED,
    Context,
    Imported,
    Step,
    Value,
    custom_call_rule,
    importer,
    jax_rule,
    place,
    refusal,
    stablehlo_check,
    stablehlo_rule,
)

if TYPE_CHECKING:
    from lowering.importer.scope import Scope
    from lowering.stablehlo.emitter import Emitter


@importer("stablehlo.after_all", "stablehlo.create_token")
def import_after_all(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    """Record an after_all, or a create_token if there are no operands."""
    return xb.after_all(operands) if operands else scope.builder.create_token()


@jax_rule("create_token", "after_all")
def jax_token(ctx: Context, op: XlaOp) -> Step:
    return lambda *_: None


_TRANSFER: Final = (
    "jax has no infeed, outfeed or channel to the host",
    "pass the data as an argument or a result, or call a Python function with xb.python_call",
)


REFUSED.update(dict.fromkeys(("infeed", "outfeed", "send", "recv"), _TRANSFER))


def _need_static(op: XlaOp, shape: Shape) -> None:
    if not shape.is_static:
        rule = "transferred data must have static sizes in StableHLO"
        fix = "transfer an array with static sizes, the bounds, and the actual size as an s32[]"
        raise error(op, rule, fix, shape)


def in_order(shape: Shape, minor_to_major: Sequence[int]) -> Shape:
    """Return the shape with the layout `minor_to_major`; without a layout for the default order."""
    if not isinstance(shape, ArrayShape) or list(minor_to_major) == list(range(shape.rank))[::-1]:
        return shape
    return shape.with_layout(Layout(tuple(minor_to_major)))


def joined(shapes: list[Shape]) -> Shape:
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


@stablehlo_rule("infeed")
def emit_infeed(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    ctx.has_streams = True
    shape = op.attributes.get("shape_with_layout", op.shape)
    assert isinstance(shape, TupleShape)  # checked by inference
    assert isinstance(op.shape, TupleShape)
    data = shape.elements[0]
    _need_static(op, data)
    need_orders(op, data)
    arrays = [leaf for leaf in leaves(data) if isinstance(leaf, ArrayShape)]
    attributes = {**ctx.attributes_of(op), "layout": array(map(order_text, arrays))}
    shape = TupleShape((*[a.with_layout(None) for a in arrays], op.shape.elements[1]))
    *values, token = ctx.value("stablehlo.infeed", shape, operands, attributes)
    return _with_tokens(op.shape, values, token)


def _with_tokens(shape: Shape, values: list[Value], token: Value) -> Value:
    """Nest `values` like `shape`, with `token` in the place of each token."""
    arrays = iter(values)
    flat = (token if isinstance(leaf, TokenShape) else next(arrays) for leaf in leaves(shape))
    return unflatten(shape, flat)


@importer("stablehlo.infeed")
def import_infeed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record an infeed. StableHLO's operation has a result for each array; the op has a tuple."""
    *data, token = operation.results
    shapes = [scope.tables.shape(result.type) for result in data]
    orders = scope.attribute(operation, "layout")
    if orders is not None:
        shapes = list(map(in_order, shapes, orders))
    op = scope.by_schema("infeed", operation, operands, shape=joined(shapes))
    values: list[XlaOp | None] = [None] * len(data)
    used = [number for number, result in enumerate(data) if is_used(result)]
    if used:
        content = op[0]
        for number in used:
            values[number] = content if len(data) == 1 else content[number]
    return [*values, op[1] if is_used(token) else None]


@stablehlo_rule("outfeed")
def emit_outfeed(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    ctx.has_streams = True
    data = op.operands[0].shape
    _need_static(op, data)
    need_orders(op, op.attributes["outfeed_shape"])
    values: list[Value] = []
    tokens = [operands[1]]
    for value, leaf in zip(flatten([operands[0]]), leaves(data), strict=True):
        (tokens if isinstance(leaf, TokenShape) else values).append(value)
    token = tokens[0]
    if len(tokens) > 1:
        token = ctx.value("stablehlo.after_all", op.shape, tokens)
    return ctx.value("stablehlo.outfeed", op.shape, [*values, token], ctx.attributes_of(op))


@importer("stablehlo.outfeed")
def import_outfeed(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    *values, token = operands
    value = values[0] if len(values) == 1 else scope.tuple_of(values)
    return scope.by_schema("outfeed", operation, [value, token])


@stablehlo_check("send", "recv")
def check_transfer(op: XlaOp) -> None:
    """Check that the array has static sizes, and that its layout is only an order of dimensions."""
    _need_static(op, op.attributes["data_shape"])
    need_orders(op, op.attributes["data_shape"])


def _channel(scope: Scope, operation: ir.Operation) -> tuple[int, bool]:
    """Return a transfer's channel number, and whether the other end of the transfer is the host.

    The channel type in the file may be wrong. It is ignored: the op that is recorded sets it.
    """
    if "source_target_pairs" in operation.attributes:
        raise failure(operation, "XLA's send and recv have no source_target_pairs")
    recorded = scope.attributes("send", operation)
    channel = recorded["channel_handle"]
    return 0 if channel is None else channel.handle, recorded["is_host_transfer"]


@importer("stablehlo.send")
def import_send(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if len(operands) != 2:
        raise failure(operation, "a send must have one array operand", got=len(operands) - 1)
    value, token = operands
    channel, is_host = _channel(scope, operation)
    if is_host:
        return xb.send_to_host(value, token, value.shape, channel)
    return xb.send_with_token(value, token, channel)


@importer("stablehlo.recv")
def import_recv(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> XlaOp:
    if len(operation.results) != 2:
        raise failure(
            operation, "a recv must have one array result", got=len(operation.results) - 1
        )
    channel, is_host = _channel(scope, operation)
    receive = xb.recv_from_host if is_host else xb.recv_with_token
    return receive(operands[0], scope.result_shape(operation), channel)


@stablehlo_rule("python_call")
def emit_python_call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    """Emit a custom call with the function's name, and its number among the module's functions."""
    recorded = op.attributes
    function = PythonFunction(
        recorded["function"], recorded["name"], tuple(o.shape for o in op.operands), op.shape
    )
    # A call may be emitted more than once, for instance one in a reducer.
    functions = ctx.python_functions
    index, _ = functions.setdefault(function.key, (len(functions), function))
    config = {"index": index, "name": recorded["name"]}
    attributes = {
        **ctx.attributes_of(op),
        "call_target_name": quoted(PYTHON_CALL_TARGET),
        "api_version": i32(int(CustomCallApiVersion.API_VERSION_TYPED_FFI)),
        "backend_config": ffi_dictionary("python_call", config),
    }
    return ctx.value("stablehlo.custom_call", op.shape, flatten(operands), attributes)


def import_python_call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    """Record the call of a Python function; only modules from `lower` contain such calls."""
    config = scope.attribute(operation, "backend_config") or {}
    functions = scope.tables.python_functions
    index = config.get("index")  # HLO text has none
    if not isinstance(index, int) or not 0 <= index < len(functions):
        name = config.get("name", "without a name")
        raise failure(
            operation,
            f"the custom call needs the Python function {name}, and files contain no Python "
            f"functions",
        )
    record = functions[index]
    leaves = iter(operands)
    arguments = [nested_value(scope, shape, leaves) for shape in record.operands]
    named = scope.attributes("python_call", operation)
    if arguments:
        op = xb.python_call(record.function, arguments, record.result, **named)
    else:
        op = scope.builder.python_call(record.function, record.result, **named)
    return list(flat_values(op)) if isinstance(op.shape, TupleShape) else op


@jax_rule("python_call")
def jax_python_call(ctx: Context, op: XlaOp) -> Step:
    recorded = op.attributes
    shapes = [leaf for leaf in leaves(op.shape) if isinstance(leaf, ArrayShape)]
    if any(isinstance(leaf, TokenShape) for leaf in leaves(op.shape)):
        raise refusal(op, "jax can't pass a token to it", "call the function without a token")
    called = PythonFunction(
        recorded["function"], recorded["name"], tuple(o.shape for o in op.operands), op.shape
    )
    function = python_callback(called, ctx.computation.name, place(op))
    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    results = [described(s.dimensions, s.element_type.dtype) for s in shapes]
    has_effect = recorded["has_side_effect"]

    def step(*operands: Value) -> Value:
        flat = jax.tree_util.tree_leaves(operands)
        if has_effect:
            values = jax_experimental.io_callback(function, results, *flat)
        elif can_record(op):
            values = traced_call(op, flat)
        else:
            values = jax.pure_callback(function, results, *flat, vmap_method="sequential")
        each = iter(values)
        return fold(op.shape, lambda _: next(each), tuple)

    def differentiable(*_: Value) -> Value:
        raise refusal(op, *_NO_DERIVATIVE)

    return step if has_effect else with_derivative_of(step, differentiable)


_NO_DERIVATIVE: Final = (
    "a Python function has no derivative",
    "call it in a computation with a derivative of its own: xb.custom_gradient",
)


_TARGET: Final = "xlabuilder.recorded_call."

_calls: Final[ContextVar[list[XlaOp] | None]] = ContextVar("python_calls", default=None)
"""The calls that were traced; None if the trace is for jax itself."""


class RecordedCalls:
    """The calls of Python functions in a trace."""

    def __init__(self, calls: list[XlaOp]) -> None:
        self._calls = calls

    def restored(self, computation: XlaComputation) -> XlaComputation:
        """Return the computation of the trace, with these calls."""

        def restore(op: XlaOp, operands: Any) -> XlaOp | None:
            target = op.attributes["call_target_name"] if op.opcode == "custom_call" else ""
            if not target.startswith(_TARGET):
                return None
            call = self._calls[int(target.removeprefix(_TARGET))]
            function = call.attributes["function"]
            record = partial(python_call, function, list(operands))
            if not operands:
                record = partial(operands.builder.python_call, function)
            result: XlaOp = record(call.shape)
            return result[0] if result.shape.is_tuple and not op.shape.is_tuple else result

        return computation.replace(restore, nested=True) if self._calls else computation


@contextlib.contextmanager
def recorded_calls(*, omits_observers: bool = False) -> Iterator[RecordedCalls]:
    """Trace calls of Python functions so that they can be recorded again.

    For traces of functions that jax has not traced before and never runs.

    Args:
        omits_observers: whether prints and checks are omitted, because the ops that the trace
            evaluates are recorded already, as in a derivative.
    """
    calls: list[XlaOp] = []
    token, omitting = _calls.set(calls), _omits_observers.set(omits_observers)
    try:
        yield RecordedCalls(calls)
    finally:
        _calls.reset(token)
        _omits_observers.reset(omitting)


def is_recorded_again() -> bool:
    """Return whether the current trace is recorded again, instead of being run by jax."""
    return _calls.get() is not None


_omits_observers: Final[ContextVar[bool]] = ContextVar("omits_observers", default=False)


def omits_observers() -> bool:
    """Return whether the current trace is recorded beside the ops that it evaluates."""
    return _omits_observers.get()


def can_record(op: XlaOp) -> bool:
    """Return whether a call in the current trace can be recorded again."""
    shapes = [operand.shape for operand in op.operands]
    results = op.shape.elements if isinstance(op.shape, TupleShape) else (op.shape,)
    is_flat = all(isinstance(shape, ArrayShape) for shape in (*shapes, *results))
    return is_recorded_again() and is_flat and bool(results)


def traced_call(op: XlaOp, operands: list[Value]) -> list[Value]:
    """Trace an op that runs on the host as a placeholder; return the arrays of its result.

    The placeholder is a call of a target that does not exist. Its name has the number of the op in
    the list of `recorded_calls`, so that the op is found when the trace is recorded.
    """
    calls = _calls.get()
    assert calls is not None
    calls.append(op)
    described: Any = jax.ShapeDtypeStruct  # jax has no types for it
    results = [
        described(shape.dimensions, shape.element_type.dtype)
        for shape in leaves(op.shape)
        if isinstance(shape, ArrayShape)
    ]
    target = f"{_TARGET}{len(calls) - 1}"
    call: Any = jax.ffi.ffi_call(target, results, vmap_method="sequential")
    return list(call(*operands))


@stablehlo_rule("custom_call")
def emit_custom_call(ctx: Emitter, op: XlaOp, operands: list[Value]) -> Value:
    recorded = op.attributes
    target = recorded["call_target_name"]
    if not target:
        raise error(op, "the target name must not be empty in MLIR", "pass the name of a function")
    if target == "Sharding" and is_shardy(op.sharding or "") and not op.shape.is_tuple:
        (text,) = leaf_texts(op.sharding, 1)
        values = flatten(operands)
        return ctx.value("sdy.sharding_constraint", op.shape, values, {"sharding": text})
    attributes = ctx.call_attributes(op)
    if recorded["api_version"] is CustomCallApiVersion.API_VERSION_TYPED_FFI:
        fix = "pass attributes={name: value, ...} instead of opaque"
        text = recorded["opaque"] or "{}"
        attributes["backend_config"] = dictionary_text(op, "opaque of a typed FFI call", text, fix)
    elif recorded["opaque"]:
        attributes["backend_config"] = BYTES.stablehlo(recorded["opaque"])
    shape = recorded.get("shape_with_layout", op.shape)
    # A function returns a tuple of one leaf as an array of one pointer. A single StableHLO result
    # is not such a tuple, so the operation has one result of a tuple type.
    is_tuple_of_one = isinstance(shape, TupleShape) and leaf_count(shape) == 1
    _add_layouts(op, shape, attributes, is_tuple_of_one=is_tuple_of_one)
    if recorded["output_operand_aliasing"]:
        is_tuple = is_tuple_of_one or leaf_count(op.shape) > 1
        aliases = recorded["output_operand_aliasing"]
        texts = [_alias_text(op, alias, is_tuple=is_tuple) for alias in aliases]
        attributes["output_operand_aliases"] = array(texts)
    values = flatten(operands)
    if not is_tuple_of_one:
        return ctx.value("stablehlo.custom_call", op.shape, values, attributes)
    (leaf,) = leaves(op.shape)
    tuple_type = ctx.writer.type(f"tuple<{type_text(leaf)}>")
    result = ctx.create_typed("stablehlo.custom_call", [tuple_type], values, attributes)
    element = ctx.value("stablehlo.get_tuple_element", leaf, result, {"index": i32(0)})
    return unflatten(op.shape, iter([element]))


def _add_layouts(
    op: XlaOp, shape: Shape, attributes: dict[str, Attribute], *, is_tuple_of_one: bool
) -> None:
    """Add the layouts of operands and results, by default row-major.

    XLA chooses the layouts of a custom call without layouts, depending on the ops around it, and
    does not pass its choice to the function.
    """
    operands = op.attributes["operand_shapes_with_layout"]
    if operands is None:
        operands = [operand.shape for operand in op.operands]
        is_reserved = is_reserved_target(op.attributes["call_target_name"])
        if shape is op.shape and (is_reserved or not _have_orders(*operands, shape)):
            return
    if is_tuple_of_one and shape is not op.shape:
        rule = "a tuple of one array must not have a layout in StableHLO"
        fix = "pass the array's shape instead of the tuple, or a tuple of several arrays"
        raise error(op, rule, fix, shape)
    need_orders(op, *operands, shape)
    attributes["operand_layouts"] = layouts_text(operands)
    attributes["result_layouts"] = layouts_text([shape])


def _have_orders(*shapes: Shape) -> bool:
    """Return whether any array has several dimensions, so that it has several possible layouts."""
    return any(
        isinstance(leaf, ArrayShape) and leaf.rank > 1 for shape in shapes for leaf in leaves(shape)
    )


def _alias_text(op: XlaOp, alias: OutputOperandAliasing, *, is_tuple: bool) -> str:
    output = [_leaf_number(op.shape, alias.output_index)] if is_tuple else []
    operand = sum(leaf_count(o.shape) for o in op.operands[: alias.operand_number])
    operand += _leaf_number(op.operands[alias.operand_number].shape, alias.operand_index)
    return (
        f"#stablehlo.output_operand_alias<output_tuple_indices = {output}, "
        f"operand_index = {operand}, operand_tuple_indices = []>"
    )


def _leaf_number(shape: Shape, index: tuple[int, ...]) -> int:
    """Return the number of a leaf of a nested tuple."""
    position = 0
    for number in index:
        assert isinstance(shape, TupleShape)  # checked by inference
        position += sum(map(leaf_count, shape.elements[:number]))
        shape = shape.elements[number]
    return position


_CHLO_ATTRIBUTES: Final = "mhlo.attributes"
"""An attribute of custom calls that encode a CHLO operation: the CHLO operation's attributes."""


_WITHOUT_INSTRUCTION: Final[Mapping[str, Callable[..., XlaOp]]] = {
    "stablehlo.dynamic_gather": xb.dynamic_gather,
    "stablehlo.dynamic_iota": xb.dynamic_iota,
    "stablehlo.dynamic_pad": xb.dynamic_pad,
    "stablehlo.real_dynamic_slice": xb.real_dynamic_slice,
}
"""The ops that HLO text calls by a target, because HLO has no instruction for them."""


def _attributes_in_text(operation: ir.Operation, opcode: str) -> dict[str, Any]:
    """Return the attributes of an op without instruction, which are text in the custom call."""
    text = _opaque(operation)["opaque"]
    if not text:
        return {}
    try:
        attributes = ir.DictAttr(ir.Attribute.parse(text, operation.context))
    except (ValueError, ir.MLIRError):
        raise failure(operation, "its attributes must be MLIR text", got=brief(text)) from None
    return {
        attribute.name: attribute.kind.read(ReadableAttribute(attributes[attribute.name]))
        for attribute in SCHEMAS[opcode].value_attributes
        if attribute.name in attributes
    }


@importer("stablehlo.custom_call")
def import_custom_call(scope: Scope, operation: ir.Operation, operands: list[XlaOp]) -> Imported:
    target = scope.attribute(operation, "call_target_name")
    if target == INLINED_CALL:
        return _inlined_call(scope, operation, list(operands))
    if target == PYTHON_CALL_TARGET:
        return import_python_call(scope, operation, operands)
    if _CHLO_ATTRIBUTES in operation.attributes:
        op = scope.chlo_op(operation, operands, target, _CHLO_ATTRIBUTES)
        if op is None:
            raise failure(operation, f"there is no op for {target}")
        return op
    shape = joined([scope.tables.shape(result.type) for result in operation.results])
    if target in _WITHOUT_INSTRUCTION:
        function = _WITHOUT_INSTRUCTION[target]
        attributes = _attributes_in_text(operation, function.__name__)
        return function(*operands, shape=shape, **attributes)
    named = {
        **scope.arguments("custom_call", operation, "shape"),
        **_opaque(operation),
        "output_operand_aliasing": _aliasing(operation),
    }
    orders = scope.attribute(operation, "operand_layouts")
    if orders is not None:
        shapes = [operand.shape for operand in operands]
        named["operand_shapes_with_layout"] = list(map(in_order, shapes, orders))
        shape = _laid_out(shape, scope.attribute(operation, "result_layouts"))
    if operands:
        return xb.custom_call(operands=operands, shape=shape, **named)
    return scope.builder.custom_call(shape=shape, **named)


def _opaque(operation: ir.Operation) -> dict[str, Any]:
    """Return the opaque text of a custom call, and its API version if the text determines it.

    The opaque text of a typed FFI call is a dictionary in MLIR text. JAX names the dictionary
    mhlo.backend_config and omits the version; XLA's importer accepts this form too.
    """
    attributes = operation.attributes
    config = attributes.get("mhlo.backend_config")
    if isinstance(config, ir.DictAttr):
        typed = CustomCallApiVersion.API_VERSION_TYPED_FFI
        return {"opaque": str(config), "api_version": typed}
    config = attributes.get("backend_config")
    if isinstance(config, ir.DictAttr):
        return {"opaque": str(config)}
    return {"opaque": "" if config is None else BYTES.read(ReadableAttribute(config))}


def _aliasing(operation: ir.Operation) -> tuple[OutputOperandAliasing, ...]:
    aliases: Any = operation.attributes.get("output_operand_aliases") or ()
    return tuple(
        OutputOperandAliasing(
            tuple(alias.output_tuple_indices),
            alias.operand_index,
            tuple(alias.operand_tuple_indices),
        )
        for alias in map(stablehlo.OutputOperandAlias, aliases)
    )


def _laid_out(shape: Shape, orders: Sequence[Sequence[int]]) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(list(map(in_order, shape.elements, orders)))
    return in_order(shape, orders[0])


def _inlined_call(scope: Scope, operation: ir.Operation, values: list[XlaOp | None]) -> Imported:
    """Note a call of one of the functions of `Tables.inlined_functions`."""
    config = scope.attribute(operation, "backend_config")
    functions = scope.tables.inlined_functions
    if not isinstance(config, dict) or config["number"] >= len(functions):
        raise failure(operation, f"files contain no custom call of {INLINED_CALL}")
    count = config["operands"]
    operands = [op for op in values[:count] if op is not None]
    results = tuple(values[count:])
    if len(operands) == count and any(op is not None for op in results):
        call = InlinedCall(functions[config["number"]], tuple(operands), results)
        scope.builder._inlined_calls.append(call)
    return []


@custom_call_rule(SIZE_CHECK)
def jax_size_check(ctx: Context, op: XlaOp) -> Step | None:
    if not is_size_check(op):
        return None
    name = ctx.computation.name

    def check(condition: Value, *sizes: Value) -> Value:
        # jax.export checks its own symbolic dimensions; for those the condition is a tracer.
        if not isinstance(condition, jax.core.Tracer) and not condition:
            reason = re.sub(r"\{(\d+)\}", partial(_size_at, sizes), _message(op))
            rule = f"the sizes of the arguments do not fit the program: {size_check_reason(reason)}"
            raise error_of(ArgumentError, name, rule)
        return ()

    return check


def _size_at(sizes: Sequence[Value], place: re.Match[str]) -> str:
    """Return the size for a place in a message, such as "{0}"; the place if there is none."""
    number = int(place[1])
    return str(sizes[number]) if number < len(sizes) else place[0]


def _message(op: XlaOp) -> str:
    """Return the message of a size check, with places for the sizes: "{0}"."""
    metadata = op.metadata
    others = {} if metadata is None or metadata.others is None else metadata.others
    text = others.get("error_message")
    with mlir.new_context():
        return "a check failed" if text is None else ir.StringAttr(ir.Attribute.parse(text)).value


def size_check_reason(message: str) -> str:
    """Return the message of a size check of `jax.export`: the constraint and the value."""
    reason = message.removeprefix("Input shapes do not match the ")
    reason = reason.removeprefix("polymorphic shapes specification. ")
    return re.sub(r"\. +Using the following polymorphic shapes specifications: .*", "", reason)


@jax_rule("custom_call")
def jax_custom_call(ctx: Context, op: XlaOp) -> Step:
    target = op.attributes["call_target_name"]
    if target == "Sharding":
        return lambda operand: operand
    if target.startswith("SPMD"):
        raise refusal(op, f"{target} depends on partitions", "use jax.shard_map instead")
    known = CUSTOM_CALLS.get(target)
    step = None if known is None else known(ctx, op)
    return ctx.pasted(op) if step is None else step
