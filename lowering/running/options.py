"""Check the options of `lowering.compile`, and mark the arguments that it donates by name.

Two options belong to this library, and are the same for every platform. The other options are XLA's
flags, which begin with `xla_`. XLA does not publish a list of its flags. jaxlib lists most of them
with their default values, from which this module derives the type of a value. XLA itself checks the
flags that jaxlib does not list, such as those of a TPU's compiler; this module translates XLA's
errors.

Arguments that are donated by name (`donate=["state"]`) are marked in a copy of the module, as
`XlaBuilder.add_buffer_donor` marks them. So a module from a file can also be compiled with
donation. XLA writes results of the same size to the memory of donated arguments. An argument is not
deleted if no result fits its memory.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

import numpy as np
from jaxlib.mlir import ir

from builder.errors import OperandError, brief, error_of
from builder.types.shape import ArrayShape, ProgramShape
from lowering.jaxlib_api import compilation, mlir
from lowering.mlir.attributes import DONOR, donated_arguments
from lowering.mlir.operations import (
    argument_attributes,
    main_function,
    operations_in,
    set_argument_attributes,
)
from lowering.pjrt.host_arrays import named_leaves

Flag: TypeAlias = "bool | int | float | str"


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The checked options of `lowering.compile`.

    Attributes:
        flags: XLA's flags and their values, sorted by name.
        optimization_level: 0 to 3; None for XLA's choice.
        default_precision: "DEFAULT", "HIGH" or "HIGHEST".
    """

    flags: tuple[tuple[str, Flag], ...] = ()
    optimization_level: int | None = None
    default_precision: str = "DEFAULT"


_LEVEL: Final = "optimization_level"
_PRECISION: Final = "default_precision"
_PRECISIONS: Final = ("default", "high", "highest")


def read_options(options: Mapping[str, Any] | None) -> CompileOptions:
    """Check the options of `lowering.compile`; XLA checks the flags that jaxlib does not list.

    Raises:
        OperandError: an option does not exist or has a wrong value.

    Example:
        >>> from lowering.running.options import read_options
        >>> read_options({"optimization_level": 1, "xla_cpu_enable_fast_math": True})
        CompileOptions(flags=(('xla_cpu_enable_fast_math', True),), optimization_level=1, \
default_precision='DEFAULT')
    """
    if options is None:
        return CompileOptions()
    if not isinstance(options, Mapping):
        rule = "options must be a mapping of names to values"
        fix = 'pass options={"optimization_level": 1}'
        raise _error(rule, fix, got=brief(options))
    flags: dict[str, Flag] = {}
    level, precision = None, "DEFAULT"
    for name, value in options.items():
        if not isinstance(name, str):
            raise _error("the name of an option must be a string", got=brief(name))
        if name == _LEVEL:
            level = _read_level(value)
        elif name == _PRECISION:
            precision = _read_precision(value)
        elif not re.fullmatch(r"xla_[a-z0-9_]+", name):
            raise _unknown(name, value)
        elif name in _NOT_PER_PROGRAM:
            raise _wrong(name, *_NOT_PER_PROGRAM[name], value)
        else:
            flags[name] = _read_flag(name, value)
    return CompileOptions(tuple(sorted(flags.items())), level, precision)


_NOT_PER_PROGRAM: Final = {
    "xla_force_host_platform_device_count": (
        "is read when jax creates its devices, and has no effect on one program",
        'call jax.config.update("jax_num_cpu_devices", number) before jax is first used',
    ),
    "xla_cpu_max_isa": (
        "is read when XLA detects the CPU, and has no effect on one program",
        "set XLA_FLAGS=--xla_cpu_max_isa=AVX2 in the environment",
    ),
    "xla_flags_reset": ("has an effect only in the environment variable XLA_FLAGS", "omit it"),
}
"""The flags that XLA accepts for one program but ignores, with the rule and fix for messages."""


_error: Final = functools.partial(error_of, OperandError, "compile")


def _wrong(name: str, rule: str, fix: str, value: Any) -> OperandError:
    return _error(f"option {name} {rule}", fix, got=brief(value))


def _unknown(name: str, value: Any) -> OperandError:
    """Return the error for an unknown option, which suggests options with similar names."""
    known = (_LEVEL, _PRECISION, *compilation.known_flags())
    # In the environment, flags are written "--xla_...=value".
    plain = name.lstrip("-").partition("=")[0]
    near = [plain] if plain in known else []
    near = near or get_close_matches(plain.replace("-", "_").lower().strip("_"), known, 3, 0.65)
    fix = (
        f"use {_LEVEL}, {_PRECISION} or a flag of XLA's compiler for the platform; the names of "
        f"XLA's flags begin with xla_"
    )
    if near:
        fix = f"did you mean {' or '.join(near)}?"
    text = brief(name).strip("'\"") or "''"
    return _error(f"there is no option {text}", fix, got=f"{text}={brief(value)}")


def _read_level(value: Any) -> int:
    level = _integer(value)
    if level is None or not 0 <= level <= 3:
        fix = "pass 0 to compile quickest, 3 to optimize most; omit it for XLA's own choice"
        raise _wrong(_LEVEL, "must be an integer from 0 to 3", fix, value)
    return level


def _read_precision(value: Any) -> str:
    # xb.Precision.HIGHEST is accepted too.
    text = getattr(value, "name", value)
    if not isinstance(text, str) or text.lower() not in _PRECISIONS:
        rule = f"must be one of {', '.join(map(repr, _PRECISIONS))}"
        raise _wrong(_PRECISION, rule, "", value)
    return text.upper()


def _integer(value: Any) -> int | None:
    """Return a Python or NumPy integer as an int; None if `value` is a bool or no integer."""
    if isinstance(value, (bool, np.bool_, float, str)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _read_flag(name: str, value: Any) -> Flag:
    """Return the checked value of one of XLA's flags, in the form that jaxlib takes."""
    default = compilation.known_flags().get(name, "")
    has_default = default != ""
    is_bool = isinstance(value, (bool, np.bool_))
    if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        value = ",".join(value)
    rule = fix = ""
    read: Flag | None = None
    if default == "{":
        rule = "has several fields, and can't be set for one program"
        fix = f"set the environment variable: XLA_FLAGS=--{name}=..."
    elif default in ("true", "false"):
        rule = "must be True or False"
        read = bool(value) if is_bool else None
    elif isinstance(value, str):
        rule = "must be a string without zero bytes" if "\0" in value else "must be a number"
        is_number = has_default and default[0] in "-0123456789"
        read = None if "\0" in value or is_number else value
    elif default[:1] == '"':
        rule = "must be a string"
    elif default[:1].isalpha():
        rule = f"must be a name such as {default!r}"
    elif is_bool:
        rule = "must be a number"
        read = None if has_default else bool(value)
    elif (number := _integer(value)) is not None:
        rule = "must be an integer that fits in 64 bits"
        if -(1 << 63) <= number < 1 << 63:
            read = float(number) if "." in default else number
    else:
        rule = "must be True or False, a number or a string"
        if isinstance(value, (float, np.floating)) and math.isfinite(value):
            read = float(value)
    if read is None:
        raise _wrong(name, rule, fix, value)
    return read


_UNKNOWN_OPTION: Final = re.compile(r"No such compile option: '([^']*)'")
_INVALID_VALUE: Final = re.compile(
    r"While setting option (\w+), '(.*)' is not a valid (\w+) value", re.DOTALL
)
_INVALID_TPU_VALUE: Final = re.compile(r"Failed to parse '.*?' into flag (\w+)", re.DOTALL)
_TYPES: Final = {
    "bool": "True or False",
    "float": "a number with a decimal point, such as 1.0",
    "double": "a number with a decimal point, such as 1.0",
    "int32": "a 32-bit integer",
    "int64": "a 64-bit integer",
    "uint32": "an unsigned 32-bit integer",
    "uint64": "an unsigned 64-bit integer",
    "string": "a string",
    "enum": "one of the names that XLA defines for the option's values",
    "message": "set in the environment variable XLA_FLAGS, because it has several fields",
}


def refused_option(report: str, options: CompileOptions) -> OperandError | None:
    """Return the error for an option that XLA refused; None if XLA's `report` has another cause."""
    flags = dict(options.flags)
    unknown = _UNKNOWN_OPTION.search(report)
    if unknown is not None:
        return _unknown(unknown[1], flags.get(unknown[1]))
    invalid = _INVALID_VALUE.search(report)
    if invalid is not None:
        name, type_name = invalid[1], invalid[3]
        default = compilation.known_flags().get(name, "")
        rule = _TYPES.get(type_name, f"of type {type_name}")
        fix = f"use a name such as {default!r}" if type_name == "enum" and default else ""
        return _wrong(name, f"must be {rule}", fix, flags.get(name))
    of_tpu = _INVALID_TPU_VALUE.search(report)
    if of_tpu is None or of_tpu[1] not in flags:
        return None
    name = of_tpu[1]
    return _error(f"option {name} can't be {brief(flags[name])}", "pass a bool, a number or a name")


# Precision

_PRODUCTS: Final = {
    "stablehlo.dot": "stablehlo",
    "stablehlo.dot_general": "stablehlo",
    "stablehlo.convolution": "stablehlo",
    "stablehlo.dynamic_conv": "stablehlo",
    "chlo.ragged_dot": "chlo",
    "mhlo.ragged_dot": "mhlo",
}
"""The operations with a precision attribute, and the dialect of that attribute."""

_PRECISION_NAMES: Final = re.compile(r"\b(?:DEFAULT|HIGHEST|HIGH)\b")


def with_precision(module: ir.Module, precision: str) -> ir.Module:
    """Return a copy of a module in which `precision` is set on products without a precision.

    Products are dot products and convolutions. DEFAULT counts as no precision: XLA treats both
    alike, and jax always writes DEFAULT. Products with an algorithm are not changed. If
    `precision` is "DEFAULT", the module itself is returned.

    Args:
        module: the module, which is not changed.
        precision: "DEFAULT", "HIGH" or "HIGHEST".
    """
    if precision == "DEFAULT":
        return module
    copy = ir.Module.parse(mlir.bytecode(module), mlir.new_context())
    for operation in operations_in(copy.operation, _PRODUCTS):
        dialect = _PRODUCTS[operation.name]
        attributes = operation.attributes
        if "algorithm" in attributes:
            continue
        names = ["DEFAULT"] * 2
        if "precision_config" in attributes:
            names = _PRECISION_NAMES.findall(str(attributes["precision_config"])) or names
        entries = ", ".join(
            f"#{dialect}<precision {precision if name == 'DEFAULT' else name}>" for name in names
        )
        attributes["precision_config"] = ir.Attribute.parse(f"[{entries}]", copy.context)
    copy.operation.verify()
    return copy


Parameters = str | int | Collection[str | int]
"""Names or numbers of parameters; a single name or number needs no list."""


def with_donors(module: ir.Module, name: str, shape: ProgramShape, donate: Parameters) -> Any:
    """Return a copy of a module in which the arrays of some parameters are donated.

    Args:
        module: a verified module, which is not changed.
        name: the computation's name, for messages.
        shape: the computation's parameters and result.
        donate: the parameters; all arrays of a tuple are donated.

    Returns:
        The copy, an ir.Operation that callers use like an ir.Module. `module` itself if nothing is
        donated.

    Raises:
        OperandError: a parameter does not exist, or has no memory that can be donated.
    """
    names = shape.parameter_names
    donated = parameter_numbers("compile", "donate", name, names, donate)
    if not donated:
        return module
    donated_before = donated_arguments(module)
    positions: list[int] = []
    count = 0
    for number, (parameter, parameter_name) in enumerate(zip(shape.parameters, names, strict=True)):
        for place, leaf in named_leaves(f"parameter {number} ({parameter_name})", parameter):
            position, count = count, count + 1
            if number not in donated:
                continue
            reason = ""
            if not isinstance(leaf, ArrayShape) or not leaf.is_static:
                lack = "bounded sizes" if isinstance(leaf, ArrayShape) else "no memory"
                reason = (
                    f"only arrays of fixed sizes can be donated, got {place} {leaf} of {name}, "
                    f"which has {lack}"
                )
            elif position in donated_before:
                reason = f"{place} of {name} is donated already, by the computation itself"
            if reason:
                fix = f"remove {parameter_name!r} from donate"
                shapes = {parameter_name: parameter}
                raise error_of(OperandError, "compile", reason, fix, shapes=shapes)
            positions.append(position)
    copy = module.operation.clone()
    main = main_function(copy.operation)
    arguments = argument_attributes(main)
    for position in positions:
        arguments[position][DONOR] = ir.BoolAttr.get(True, copy.operation.context)
    set_argument_attributes(main, "arg_attrs", arguments)
    return copy


def parameter_numbers(
    op: str, role: str, name: str, names: Sequence[str], parameters: Any
) -> frozenset[int]:
    """Return the numbers of the parameters that the user listed by name or number.

    Args:
        op: the function that the user called, for messages.
        role: the name of the argument with the list, for messages, such as "donate".
        name: the computation's name, for messages.
        names: the parameters' names, in order.
        parameters: the list that the user passed.

    Raises:
        OperandError: a parameter does not exist or is listed twice, or an entry is neither a name
            nor a number.
    """
    listed = f"use one of {', '.join(names)}" if names else f"omit {role}"
    if isinstance(parameters, str) or hasattr(parameters, "__index__"):
        parameters = [parameters]
    if not isinstance(parameters, (list, tuple, range, set, frozenset)):
        example = f"{role}=[{names[0]!r}]" if names else "omit it"
        rule = f"{role} must be a list of parameters' names or numbers"
        raise error_of(OperandError, op, rule, example, got=brief(parameters))
    numbers: set[int] = set()
    for parameter in parameters:
        reason, fix = "", listed
        number = -1
        if isinstance(parameter, str):
            count = names.count(parameter)
            if count == 1:
                number = names.index(parameter)
            elif count:
                reason = f"{brief(parameter)} is the name of {count} parameters of {name}"
                fix = "pass the numbers of the intended parameters"
            else:
                reason = f"there is no parameter {brief(parameter)} in {name}"
        else:
            with contextlib.suppress(TypeError):
                number = -1 if isinstance(parameter, bool) else operator.index(parameter)
            if not 0 <= number < len(names):
                reason = f"expected the name or number of a parameter, got {brief(parameter)}"
                fix += ", or the number of a parameter, from 0" if names else ""
        if number in numbers:
            reason = f"parameter {number} ({names[number]}) of {name} is listed twice"
            fix = "list it once"
        if reason:
            raise error_of(OperandError, op, f"{role}: {reason}", fix)
        numbers.add(number)
    return frozenset(numbers)
