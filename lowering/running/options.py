"""What `lowering.compile` is told about how to compile: options by name, checked.

There are two options of this library, which are the same for every platform, and XLA's own flags,
which begin with `xla_`. XLA does not publish a list of its flags: jaxlib tells of most of them with
their default values, from which the type of a value is read here; others, such as those that a
TPU's compiler has, are known to XLA alone, and what it says of them is put in words.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

import numpy as np
from jaxlib.mlir import ir

from builder.errors import OperandError, brief
from lowering.jaxlib_api import compilation, mlir

__all__ = ["CompileOptions", "read_options", "refused_option", "with_precision"]

Flag: TypeAlias = "bool | int | float | str"


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options that were checked.

    Attributes:
        flags: XLA's flags and their values, in the order of their names.
        optimization_level: 0 to 3; None for XLA's choice.
        default_precision: "DEFAULT", "HIGH" or "HIGHEST".
    """

    flags: tuple[tuple[str, Flag], ...] = ()
    optimization_level: int | None = None
    default_precision: str = "DEFAULT"


_LEVEL: Final = "optimization_level"
_PRECISION: Final = "default_precision"
_PRECISIONS: Final = ("default", "high", "highest")
_NONE: Final = CompileOptions()


def read_options(options: Mapping[str, Any] | None) -> CompileOptions:
    """The options that `lowering.compile` was given, checked as far as jaxlib tells of them.

    Raises:
        OperandError: there is no such option, or it can't have such a value.

    Example:
        >>> from lowering.running.options import read_options
        >>> read_options({"optimization_level": 1, "xla_cpu_enable_fast_math": True})
        CompileOptions(flags=(('xla_cpu_enable_fast_math', True),), optimization_level=1, \
default_precision='DEFAULT')
    """
    if options is None:
        return _NONE
    if not isinstance(options, Mapping):
        raise _error(
            f"options must be a mapping of names to values, got {brief(options)}",
            'options={"optimization_level": 1}',
        )
    flags: dict[str, Flag] = {}
    level, precision = None, "DEFAULT"
    for name, value in options.items():
        if not isinstance(name, str):
            raise _error(f"the name of an option must be a string, got {brief(name)}")
        if name == _LEVEL:
            level = _read_level(value)
        elif name == _PRECISION:
            precision = _read_precision(value)
        elif not re.fullmatch(r"xla_[a-z0-9_]+", name):
            raise _unknown(name, value)
        elif name in _NOT_PER_PROGRAM:
            reason, fix = _NOT_PER_PROGRAM[name]
            raise _error(f"option {name} {reason}, got {brief(value)}", fix)
        else:
            flags[name] = _read_flag(name, value)
    return CompileOptions(tuple(sorted(flags.items())), level, precision)


_NOT_PER_PROGRAM: Final = {
    "xla_force_host_platform_device_count": (
        "counts when jax makes its devices, and not for one program",
        'before jax is first used: jax.config.update("jax_num_cpu_devices", number)',
    ),
    "xla_cpu_max_isa": (
        "counts when XLA looks at the CPU, and not for one program",
        "set XLA_FLAGS=--xla_cpu_max_isa=AVX2 in the environment",
    ),
    "xla_flags_reset": ("means something for the environment alone", "leave it out"),
}
"""What XLA takes for a program without a word, and without an effect."""


def _error(message: str, fix: str = "") -> OperandError:
    return OperandError(f"compile: {message}" + (f"\nfix: {fix}" if fix else ""), op="compile")


def _unknown(name: str, value: Any) -> OperandError:
    """The error of an option that there is not, with those that are called nearly so."""
    known = (_LEVEL, _PRECISION, *compilation.known_flags())
    near = get_close_matches(name.replace("-", "_").lower().strip("_"), known, n=3, cutoff=0.65)
    # "--xla_..." is how flags stand in the environment.
    plain = name.lstrip("-").partition("=")[0]
    if plain in known:
        near = [plain]
    fix = f"did you mean {' or '.join(near)}?" if near else ""
    if not near:
        fix = (
            f"the options are {_LEVEL}, {_PRECISION} and XLA's flags of the platform's compiler, "
            f"which begin with xla_"
        )
    text = brief(name).strip("'\"") or "''"
    return _error(f"there is no option {text}, got {text}={brief(value)}", fix)


def _read_level(value: Any) -> int:
    level = _integer(value)
    if level is None or not 0 <= level <= 3:
        raise _error(
            f"option {_LEVEL} must be a whole number from 0 to 3, got {brief(value)}",
            "0 compiles quickest, 3 tries hardest; leave it out for XLA's own choice",
        )
    return level


def _read_precision(value: Any) -> str:
    # By its name: xb.Precision.HIGHEST is taken too.
    text = getattr(value, "name", value)
    if not isinstance(text, str) or text.lower() not in _PRECISIONS:
        raise _error(
            f"option {_PRECISION} must be one of {', '.join(map(repr, _PRECISIONS))}, "
            f"got {brief(value)}"
        )
    return text.upper()


def _integer(value: Any) -> int | None:
    """`value` as an int, if it is a whole number of Python's or NumPy's; True and False are not."""
    if isinstance(value, (bool, np.bool_, float, str)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _read_flag(name: str, value: Any) -> Flag:
    """The value of one of XLA's flags, as jaxlib takes it."""
    default = compilation.known_flags().get(name, "")
    if default == "{":
        raise _error(
            f"option {name} holds several fields, and can't be set for one program, "
            f"got {brief(value)}",
            f"set it in the environment: XLA_FLAGS=--{name}=...",
        )
    if default in ("true", "false"):
        if not isinstance(value, (bool, np.bool_)):
            raise _error(f"option {name} must be True or False, got {brief(value)}")
        return bool(value)
    if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        value = ",".join(value)
    if isinstance(value, str):
        if "\0" in value:
            raise _error(f"option {name} must be a text without zero bytes, got {brief(value)}")
        if default and default[0] in "-0123456789":
            raise _error(f"option {name} must be a number, got {brief(value)}")
        return value
    if default[:1] == '"':
        raise _error(f"option {name} must be a string, got {brief(value)}")
    if default[:1].isalpha():
        raise _error(f"option {name} must be a name such as {default!r}, got {brief(value)}")
    if isinstance(value, (bool, np.bool_)):
        if default:
            raise _error(f"option {name} must be a number, got {brief(value)}")
        return bool(value)
    number = _integer(value)
    if number is None:
        if not isinstance(value, (float, np.floating)) or not math.isfinite(value):
            raise _error(
                f"option {name} must be True or False, a number or a string, got {brief(value)}"
            )
        return float(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise _error(f"option {name} must be a number of 64 bits, got {brief(number)}")
    return float(number) if "." in default else number


_NO_SUCH: Final = re.compile(r"No such compile option: '([^']*)'")
_NO_VALUE: Final = re.compile(
    r"While setting option (\w+), '(.*)' is not a valid (\w+) value", re.DOTALL
)
# What a TPU's compiler says of its own flags.
_NO_FLAG_VALUE: Final = re.compile(r"Failed to parse '.*?' into flag (\w+)", re.DOTALL)
_KINDS: Final = {
    "bool": "True or False",
    "float": "a number with a point, such as 1.0",
    "double": "a number with a point, such as 1.0",
    "int32": "a whole number of 32 bits",
    "int64": "a whole number of 64 bits",
    "uint32": "a whole number of 32 bits without a sign",
    "uint64": "a whole number of 64 bits without a sign",
    "string": "a string",
    "enum": "one of the names that XLA has for it",
    "message": "set in the environment (XLA_FLAGS): it holds several fields",
}


def refused_option(report: str, options: CompileOptions) -> OperandError | None:
    """The error of an option that XLA refused when it compiled; None if `report` is of another."""
    given = dict(options.flags)
    unknown = _NO_SUCH.search(report)
    if unknown is not None:
        return _unknown(unknown[1], given.get(unknown[1]))
    wrong = _NO_VALUE.search(report)
    if wrong is None:
        of_tpu = _NO_FLAG_VALUE.search(report)
        if of_tpu is None or of_tpu[1] not in given:
            return None
        name = of_tpu[1]
        return _error(
            f"option {name} can't be {brief(given[name])}", "give a bool, a number or a name"
        )
    kind = _KINDS.get(wrong[3], f"of type {wrong[3]}")
    default = compilation.known_flags().get(wrong[1], "")
    fix = f"such as {default!r}" if wrong[3] == "enum" and default else ""
    return _error(f"option {wrong[1]} must be {kind}, got {brief(given.get(wrong[1]))}", fix)


# Precision

_PRODUCTS: Final = {
    "stablehlo.dot": "stablehlo",
    "stablehlo.dot_general": "stablehlo",
    "stablehlo.convolution": "stablehlo",
    "stablehlo.dynamic_conv": "stablehlo",
    "chlo.ragged_dot": "chlo",
    "mhlo.ragged_dot": "mhlo",
}
"""Operations that have a precision, and the dialect whose attribute says it."""


_NAMES: Final = re.compile(r"\b(?:DEFAULT|HIGHEST|HIGH)\b")


def with_precision(module: ir.Module, precision: str) -> ir.Module:
    """A copy of a module in which products are of this precision where none is said.

    DEFAULT says none: XLA does not tell it from nothing, and jax writes it everywhere. Products
    that name an algorithm have no precision.

    Args:
        module: is not changed.
        precision: "DEFAULT", "HIGH" or "HIGHEST".
    """
    if precision == "DEFAULT":
        return module
    copy = ir.Module.parse(mlir.bytecode(module), mlir.new_context())

    def look(operation: ir.Operation) -> ir.WalkResult:
        dialect = _PRODUCTS.get(operation.name)
        attributes = operation.attributes
        if dialect is None or "algorithm" in attributes:
            return ir.WalkResult.ADVANCE
        said = ["DEFAULT"] * 2
        if "precision_config" in attributes:
            said = _NAMES.findall(str(attributes["precision_config"])) or said
        new = [precision if one == "DEFAULT" else one for one in said]
        entries = ", ".join(f"#{dialect}<precision {one}>" for one in new)
        attributes["precision_config"] = ir.Attribute.parse(f"[{entries}]", copy.context)
        return ir.WalkResult.ADVANCE

    copy.operation.walk(look)
    copy.operation.verify()
    return copy
