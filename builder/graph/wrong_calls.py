"""Errors for calls whose arguments are not the parameters of a function, with what to write.

This module is imported when such an error is raised.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Final

from builder.errors import OperandError, brief, error_of
from builder.graph.corrections import (
    argument_text,
    corrected_call,
    may_be,
    public_name,
    spelling,
    written_call,
)
from builder.support.names import by_name, did_you_mean

PARAMETERS: Final = by_name(
    {
        "a array val x": "operand operands lhs",
        "a_max hi high maxval upper": "max b",
        "a_min lo low minval": "min a",
        "args arrays tensors xs": "operands inputs elements",
        "axes axis dim dims": "dimension dimensions permutation dimno scan_dimension "
        "iota_dimension all_gather_dim scatter_dimension feature_index inferred_dimension axis",
        "axis_index_groups axis_name": "replica_groups",
        "argnums": "wrt",
        "b other x2 y": "rhs",
        "backend": "device",
        "backend_config": "opaque",
        "base_dilation": "base_dilations",
        "begin start starts": "start_indices start_index",
        "body_fun": "body",
        "call_target_name target": "target_name",
        "concat_axis": "concat_dimension",
        "cond condition mask": "pred condition",
        "cond_fun": "condition",
        "constant_values fill_value": "padding_value",
        "num_keys": "comparator",
        "dilation": "rhs_dilation",
        "donate_argnames donate_argnums": "donate",
        "dtype element_type new_dtype type": "new_element_type element_type preferred_element_type "
        "shape",
        "end limit stop": "limit_indices limit_index",
        "f fn fun func function op reducer": "computation update_computation",
        "fft_lengths n s": "fft_length",
        "groups": "feature_group_count",
        "index indices": "start_indices scatter_indices",
        "init init_val init_value initial initial_value inits": "init_values init_value inits init",
        "kernel_size window_shape window_size": "window_dimensions",
        "key seed state": "initial_state",
        "keep_dims keepdim keepdims": "keepdims",
        "kind stable": "is_stable",
        "length": "scan_dimension_size",
        "loc mean": "mu",
        "new_shape newshape result_shape shape size sizes": "new_sizes out_dim_size "
        "broadcast_sizes size_indices shape",
        "operand": "operands a",
        "out_dtype": "preferred_element_type new_element_type",
        "pad_width paddings": "padding_config padding",
        "padding": "padding_config",
        "perm perms": "permutation source_target_pairs",
        "reverse": "is_reverse",
        "scale std stddev": "sigma",
        "slice_sizes": "size_indices",
        "split_axis": "split_dimension",
        "start_dimension stop_dimension": "dimensions",
        "static_argnames static_argnums": "static",
        "step steps stride": "strides stride window_strides",
        "strides": "window_strides stride",
        "window_dilation": "window_dilations",
        "x1": "lhs",
    }
)
"""Parameters of other libraries, and the parameters of ops with that meaning; the first that an op
has is suggested."""

ABSENT: Final = by_name(
    {
        "descending": "write xb.sort(operands, xb.gt) for descending order",
        "keep_dims keepdim keepdims": "add dimensions of size 1 to the result with xb.reshape",
        "out": "use the result of the call",
        "dtype out_dtype": "convert the operands or the result with xb.convert_element_type",
        "out_sharding": "wrap the call in xb.with_sharding",
        "where": "replace the other elements with xb.select first",
    }
)
"""Parameters of other libraries that no op has, and what to write instead."""


def wrong_call(
    declared: Callable[..., Any],
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
    frame: FrameType | None,
    otherwise: str = "",
) -> OperandError:
    """Return the error for a call that does not fit the parameters of a function.

    Args:
        declared: a function with the parameters and nothing but a docstring.
        function: the public function.
        arguments, named: the arguments of the call.
        frame: the frame of the user that called it; None if the library did.
        otherwise: used if no parameter has the meaning of the first unknown argument.
    """
    try:
        declared(*arguments, **named)
    except TypeError as error:
        text = str(error)
    return refused_call(declared, function, arguments, named, text, frame, otherwise)


def _without_self(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return arguments[1:] if "self" in inspect.signature(function).parameters else arguments


def _call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
    frame: FrameType | None,
) -> str:
    """Return a call with the arguments of the user, and the parameters that are missing by name.

    If there are too many arguments, or one can't be that of its parameter, all have the names of
    the parameters.
    """
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    written = written_call(frame, function)
    called = spelling(function) if written is None else written.function
    texts: dict[str, str] = {}
    if len(arguments) <= len(positional) and all(map(may_be, positional, arguments)):
        names = [p.name for p in positional]
        texts = {n: argument_text(v, n) for n, v in zip(names, arguments, strict=False)}
        if written is not None and len(written.arguments) == len(arguments):
            texts = dict(zip(names, written.arguments, strict=False))
    listed = [
        texts.get(p.name, p.name)
        for p in positional
        if p.name not in named
        and (p.name in texts or p.default is p.empty or len(arguments) > len(positional))
    ]
    listed += [f"{name}={argument_text(value, name)}" for name, value in named.items()]
    return f"{called}({', '.join(listed)})"


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


def _surplus_numbers(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the arguments that should be one sequence, the last parameter; () if none are."""
    positional = _positional(function)
    if not positional or not str(positional[-1].annotation).startswith("Sequence[int"):
        return ()
    numbers = arguments[len(positional) - 1 :]
    return numbers if len(numbers) > 1 and all(type(n) is int for n in numbers) else ()


def refused_call(
    declared: Callable[..., Any],
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
    text: str,
    frame: FrameType | None,
    otherwise: str = "",
) -> OperandError:
    """Return the error for a call that does not fit the parameters of `declared`.

    Args:
        declared, function, arguments, named, frame: see `wrong_call`.
        text: the message of Python's error.
        otherwise: the fix for an argument without an equivalent; by default it lists the
            parameters.
    """
    op = public_name(declared)
    numbers = _surplus_numbers(declared, arguments)
    if numbers and not named:
        name = _positional(declared)[-1].name
        rule, got = f"{name} must be one sequence of integers", f"{len(numbers)} arguments"
        fix = f"write {name}=[{', '.join(map(str, numbers))}]"
        return error_of(OperandError, op, rule, fix, argument=name, got=got)
    parameters = [name for name in inspect.signature(declared).parameters if name != "self"]
    unknown = [name for name in named if name not in parameters]
    listed = ", ".join(parameters)
    if not unknown:
        given = _without_self(declared, arguments)
        fix = corrected_call(function, arguments, named, frame)
        fix = fix or f"write {_call(declared, given, named, frame)}; the parameters are {listed}"
        positional = [p for p in _positional(declared) if p.name != "self"]
        passed = len(given)
        if passed > len(positional):
            rule = (
                f"takes at most {len(positional)} positional argument{'s'[: len(positional) != 1]}"
            )
            return error_of(OperandError, op, rule, fix, got=str(passed))
        return error_of(OperandError, op, text.partition("() ")[2], fix)
    name = unknown[0]
    is_method = "self" in inspect.signature(declared).parameters
    free = [p for p in parameters[len(arguments) - is_method :] if p not in named]
    meanings = {p: p for p in free}
    for foreign, ours in PARAMETERS.items():
        meanings.update((foreign, p) for p in reversed(ours.split()) if p in free)
    rule, got = f"has no parameter {name}", f"{name}={brief(named[name], 80)}"
    if name in meanings:
        fix = f"write {meanings[name]}= instead of {name}="
    elif name in ABSENT:
        fix = ABSENT[name]
    else:
        near = did_you_mean(name, {n: f"{p}=" for n, p in meanings.items()}, cutoff=0.7)
        fix = near or otherwise or f"the parameters are {listed}"
    return error_of(OperandError, op, rule, fix, argument=name, got=got)
