"""The functions of the old binding by those of `builder`, and the types that they accept.

The functions of `builder` accept more types than the old functions did, and raise errors of several
classes. A call of an old function that fails is a TypeError if an argument has another type than
jaxlib's binding accepted.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import builder as xb
from builder import lib
from builder.errors import OperandError, XlaError, brief, error_of
from lowering.xla_client import enums
from lowering.xla_client.builder import new_builder, new_computation
from lowering.xla_client.errors import reporting
from lowering.xla_client.protos import ReplicaGroup
from lowering.xla_client.shapes import Layout, Shape


def _is_op(value: object) -> bool:
    return isinstance(value, xb.XlaOp)


def _is_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer))


def _is_bool(value: object) -> bool:
    return isinstance(value, (bool, np.bool_))


def _list_of(is_member: Callable[[object], bool]) -> Callable[[object], bool]:
    def is_list(value: object) -> bool:
        if isinstance(value, (xb.XlaOp, str, bytes)) or not isinstance(value, Iterable):
            return False
        return all(map(is_member, value))

    return is_list


def _is_attribute(value: object) -> bool:
    return isinstance(value, _ATTRIBUTES)


_ATTRIBUTES: Final = (
    *(xb.ConvolutionDimensionNumbers, xb.DotDimensionNumbers, xb.GatherDimensionNumbers),
    *(xb.PaddingConfig, xb.ResultAccuracy, xb.ScatterDimensionNumbers),
)

is_list_of_ops: Final = _list_of(_is_op)
_is_pair: Final = _list_of(_is_integer)

_PARAMETERS: Final[Mapping[Callable[[object], bool], str]] = {
    _is_op: "a b branch_index false_operand from_ init init_value initial_state input lhs max min "
    "mu on_false on_true operand padding_value pred predicate q rhs scatter_indices sigma source "
    "taus to token true_operand tuple_data update updates val x",
    is_list_of_ops: "branch_operands dim_sizes elements init_values inputs operands tokens",
    _is_integer: "all_gather_dimension batch_group_count concat_dimension dimension dimno "
    "exponent_bits feature_group_count index input_size iota_dimension k limit_index mantissa_bits "
    "parameter_number rank reduction_dim scatter_dimension shard_count size split_count "
    "split_dimension start_index stride top_k",
    _list_of(_is_integer): "base_dilations broadcast_dimensions dimensions dimensions_to_reduce "
    "fft_length lhs_dilation limit_indices new_size_bounds new_sizes permutation rhs_dilation "
    "sizes slice_sizes strides window_dilations window_dimensions window_strides",
    _list_of(lambda value: _is_op(value) or _is_integer(value)): "start_indices",
    _list_of(_is_pair): "padding source_target_pairs",
    _is_attribute: "dimension_numbers padding_config result_accuracy",
    _is_bool: "aggregate_to_topk full_matrices indices_are_sorted is_stable left_side lower "
    "sort_eigenvalues unique_indices unit_diagonal",
    _list_of(_is_bool): "dims_are_dynamic window_reversal",
}
_KINDS: Final = {name: is_kind for is_kind, names in _PARAMETERS.items() for name in names.split()}
_OPTIONAL: Final = frozenset({"broadcast_dimensions", "result_accuracy", "window_reversal"})


def has_wrong_type(function: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether jaxlib's binding refused the type of an argument.

    Args:
        function: the name of an old function.
        arguments: its arguments by the names of its parameters.
    """
    kinds = {**_KINDS, "start_indices": _is_op} if function == "Gather" else _KINDS
    return any(
        not kinds[name](value)
        for name, value in arguments.items()
        if name in kinds and not (value is None and name in _OPTIONAL)
    )


@dataclass(frozen=True, slots=True)
class OldFunction:
    """A function of the old module `ops`.

    Attributes:
        function: the function.
        signatures: its parameters with their default values; several for an overloaded function.
        idiomatic: what to write with the new API.
    """

    function: Callable[..., Any]
    signatures: tuple[str, ...]
    idiomatic: str


FUNCTIONS: Final[dict[str, OldFunction]] = {}
"""The functions of the old module `ops` by name."""


# Conversions of arguments. Old parameters of one name have one meaning in all functions, with the
# exceptions that the functions in `ops` pass.


def new_shape(op: str, value: Any) -> Any:
    """Return the shape or layout of `builder` for an old one."""
    return value.new if isinstance(value, (Shape, Layout)) else value


def _list_of_ops(name: str, op: str, values: Any) -> list[xb.XlaOp]:
    """Return a list of ops.

    Raises:
        OperandError: `values` is anything else.
    """
    if isinstance(values, Iterator):
        values = list(values)
    if not is_list_of_ops(values):
        raise error_of(OperandError, op, f"{name} must be a sequence of XlaOps", got=brief(values))
    return list(values)


def _new_value(op: str, value: Any) -> Any:
    """Return the attribute value of `builder` for an imitated protocol buffer."""
    return value.new() if hasattr(value, "new") else value


def _groups(op: str, value: Iterable[Any]) -> list[list[int]]:
    return [list(g.replica_ids if isinstance(g, ReplicaGroup) else g) for g in value]


def _element_type_or_none(op: str, value: Any) -> xb.PrimitiveType | None:
    return None if value is None else enums.element_type(op, value)


def _named_member(kind: Any, op: str, value: Any) -> str:
    return str(enums.member(kind, op, value).name)


def _text(op: str, value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value


def refuse(op: str, name: str, value: Any, default: Any, reason: str) -> None:
    """Raise OperandError unless an argument has its default value."""
    if value is not default:
        raise error_of(OperandError, op, f"{name} must be {default!r}", reason, got=brief(value))


CONVERSIONS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "algorithm": partial(_named_member, enums.RandomAlgorithm),
    "api_version": partial(_named_member, enums.CustomCallApiVersion),
    "branch_computations": lambda op, values: [new_computation(op, v) for v in values],
    "builder": new_builder,
    "call_target_name": _text,
    "channel_id": _new_value,
    "dimension_numbers": _new_value,
    "fft_type": partial(_named_member, enums.FftType),
    "handle": _new_value,
    "layout": new_shape,
    "new_element_type": enums.element_type,
    "operand_shapes_with_layout": lambda op, values: [new_shape(op, v) for v in values],
    "padding_config": _new_value,
    "precision_config": _new_value,
    "preferred_element_type": _element_type_or_none,
    "replica_groups": _groups,
    "result_accuracy": _new_value,
    "schedule": partial(_named_member, enums.CustomCallSchedule),
    "shape": new_shape,
    "shape_with_layout": new_shape,
    "transpose_a": partial(_named_member, enums.TriangularSolveOptions_Transpose),
    "use_global_device_ids": lambda op, value: bool(value),
    **{name: partial(_list_of_ops, name) for name in ("elements", "operands", "tokens")},
    **dict.fromkeys(
        (
            "computation",
            "condition",
            "body",
            "true_computation",
            "false_computation",
            "update_computation",
            "select",
            "scatter",
        ),
        new_computation,
    ),
    "comparator": lambda op, value: None if value is None else new_computation(op, value),
}
"""The conversion of each old parameter that is not passed unchanged, called with the op's name."""


def signature_of(text: str) -> inspect.Signature:
    """Return the signature that a text such as "operand, /" or "x, k=1" describes."""
    function = ast.parse(f"def old({text}): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [ast.literal_eval(default) for default in arguments.defaults]
    missing = [inspect.Parameter.empty] * (len(positional) - len(defaults))
    kinds = [
        *[inspect.Parameter.POSITIONAL_ONLY] * len(arguments.posonlyargs),
        *[inspect.Parameter.POSITIONAL_OR_KEYWORD] * len(arguments.args),
    ]
    return inspect.Signature(
        [
            inspect.Parameter(argument.arg, kind, default=default)
            for argument, kind, default in zip(
                positional, kinds, [*missing, *defaults], strict=True
            )
        ]
    )


def bound_arguments(
    name: str, signatures: Iterable[inspect.Signature], args: Any, named: Any
) -> dict[str, Any]:
    """Return all arguments of a call by name, converted, for the first signature that accepts them.

    Raises:
        OperandError: no signature accepts the arguments.
    """
    signatures = tuple(signatures)
    named = {"from_" if key == "from" else key: value for key, value in named.items()}
    for signature in signatures:
        try:
            bound = signature.bind(*args, **named)
        except TypeError:
            continue
        bound.apply_defaults()
        return {
            key: CONVERSIONS[key](name, value) if key in CONVERSIONS else value
            for key, value in bound.arguments.items()
        }
    expected = " or ".join(f"{name}{signature}" for signature in signatures)
    given = [brief(value, 40) for value in args] + [f"{k}={brief(v, 40)}" for k, v in named.items()]
    raise error_of(OperandError, name, f"expected {expected}", got=f"({', '.join(given)})")


def _old_function(
    name: str, signatures: Iterable[inspect.Signature], function: Callable[..., Any]
) -> Callable[..., Any]:
    """Return the old function that calls `function` with all arguments by name, converted."""

    @reporting(name)
    def old(*args: Any, **named: Any) -> Any:
        arguments = bound_arguments(name, signatures, args, named)
        try:
            return function(**arguments)
        except OperandError:
            raise
        except XlaError as error:
            if not has_wrong_type(name, arguments):
                raise
            raise error._as_kind(OperandError) from None

    return old


def mapped(
    new: Callable[..., Any], *parameters: str, name: str = "", keywords: Mapping[str, str] = {}
) -> Callable[..., Any]:
    """Return a function of the old binding that converts its arguments and passes them to `new`.

    Args:
        new: a function of `builder` or `builder.lib`.
        parameters: for each signature of the old function the text of its parameters, with default
            values. A parameter `builder` is not passed to `new`, the others in this order.
        name: the old name; by default the name of XLA's C++ function.
        keywords: for old parameters that are passed by name, the new names.
    """
    name = name or _cpp_name(new)
    signatures = tuple(map(signature_of, parameters))

    def called(**arguments: Any) -> Any:
        arguments.pop("builder", None)
        by_name = {keywords[key]: arguments.pop(key) for key in keywords}
        return new(*arguments.values(), **by_name)

    old = _old_function(name, signatures, called)
    old.__doc__ = f"See `{_spelling(new)}`."
    if len(signatures) == 1:
        old.__signature__ = signatures[0]  # type: ignore[attr-defined]  # read by `inspect`
    FUNCTIONS[name] = OldFunction(old, parameters, _spelling(new))
    return old


def written(idiomatic: str, *parameters: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an old function that is written by hand to `FUNCTIONS`.

    The function is called with all arguments of the first signature that accepts a call, by name
    and converted.

    Args:
        idiomatic: what to write with the new API.
        parameters: the old parameters with their default values, for each signature.
    """
    signatures = tuple(map(signature_of, parameters))

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        old = _old_function(name, signatures, function)
        old.__doc__ = function.__doc__
        old.__module__ = function.__module__
        FUNCTIONS[name] = OldFunction(old, parameters, idiomatic)
        return old

    return enter


_LIBRARY: Final = {entry.function: entry for entry in lib.FUNCTIONS.values()}
_OPERATIONS: Final = {entry.function: entry for entry in xb.OPERATIONS.values()}


def _cpp_name(new: Callable[..., Any]) -> str:
    return (_OPERATIONS.get(new) or _LIBRARY[new]).cpp_name


def _spelling(new: Callable[..., Any]) -> str:
    return f"{'xb' if new in _OPERATIONS else 'lib'}.{new.__name__}"
