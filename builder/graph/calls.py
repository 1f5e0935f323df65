"""Errors for calls whose arguments are not the parameters of an op.

Python's TypeError does not contain what to write. An op that `builder/ops/definition.py` makes
accepts any arguments, and calls `wrong_call` for wrong ones. Ops with a body of their own, and
other public functions, are wrapped in `explained`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

from builder.errors import OperandError, XlaError, brief, error_of
from builder.support.suggestions import by_name, did_you_mean
from builder.support.tracebacks import remove_internal_frames

F = TypeVar("F", bound=Callable[..., Any])


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
        "descending num_keys": "comparator",
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
        "keep_dims keepdim keepdims": "add dimensions of size 1 to the result with xb.reshape",
        "out": "use the result of the call",
        "dtype out_dtype": "convert the operands or the result with xb.convert_element_type",
        "out_sharding": "wrap the call in xb.with_sharding",
        "where": "replace the other elements with xb.select first",
    }
)
"""Parameters of other libraries that no op has, and what to write instead."""


REDUCTIONS: Final = {
    "all": "and_",
    "any": "or_",
    "max": "max",
    "min": "min",
    "prod": "mul",
    "sum": "add",
}
"""The op that each reduction of Python, NumPy and `builder.lib` applies."""


def is_of_call(error: Exception) -> bool:
    """Return whether an error that was just caught is Python's, for a call that does not fit."""
    if not isinstance(error, TypeError) or isinstance(error, XlaError):
        return False
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def explained(function: F) -> F:
    """Return a wrapper of `function` that explains arguments that it does not accept."""

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        try:
            # The usual call is faster without an empty dict.
            return function(*arguments, **named) if named else function(*arguments)
        except Exception as error:
            if not is_of_call(error):
                remove_internal_frames(error)
                raise
            wrong = _wrong_call(function, arguments, named, str(error))
        raise wrong

    return cast("F", checked)


def wrong_call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
    otherwise: str = "",
) -> OperandError:
    """Return the error for a call that does not fit the parameters of a function.

    Args:
        function: a function with nothing but a docstring, so that it may be called.
        arguments, named: the arguments of the call.
        otherwise: used if no parameter has the meaning of the first unknown argument.
    """
    try:
        function(*arguments, **named)
    except TypeError as error:
        text = str(error)
    return _wrong_call(function, arguments, named, text, otherwise)


def _call(function: Callable[..., Any]) -> str:
    """Return a call of a function with its required parameters as arguments."""
    required = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.name != "self" and p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    return f"{_public_name(function)}({', '.join(required)})"


def _public_name(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class that it initializes."""
    is_class = function.__name__ == "__init__"
    return function.__qualname__.partition(".")[0] if is_class else function.__name__


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


def _wrong_call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
    text: str,
    otherwise: str = "",
) -> OperandError:
    """Return the error for a call that does not fit the parameters of `function`.

    Args:
        function: the function.
        arguments, named: the arguments of the call.
        text: the message of Python's error.
        otherwise: the fix for an argument without an equivalent; by default it lists the
            parameters.
    """
    op = _public_name(function)
    numbers = _surplus_numbers(function, arguments)
    if numbers and not named:
        name = _positional(function)[-1].name
        rule, got = f"{name} must be one sequence of integers", f"{len(numbers)} arguments"
        fix = f"write {name}=[{', '.join(map(str, numbers))}]"
        return error_of(OperandError, op, rule, fix, argument=name, got=got)
    parameters = [name for name in inspect.signature(function).parameters if name != "self"]
    unknown = [name for name in named if name not in parameters]
    listed = ", ".join(parameters)
    if not unknown:
        fix = f"write {_call(function)}; the parameters are {listed}"
        positional = [p for p in _positional(function) if p.name != "self"]
        passed = len(arguments) - ("self" in inspect.signature(function).parameters)
        if passed > len(positional):
            rule = (
                f"takes at most {len(positional)} positional argument{'s'[: len(positional) != 1]}"
            )
            return error_of(OperandError, op, rule, fix, got=str(passed))
        return error_of(OperandError, op, text.partition("() ")[2], fix)
    name = unknown[0]
    is_method = "self" in inspect.signature(function).parameters
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
