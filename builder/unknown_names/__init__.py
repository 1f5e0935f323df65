"""The errors for names that `builder`, `lowering`, a builder or an op does not have.

The messages contain what to write for names of jax, NumPy, StableHLO and the C++ XlaBuilder. Errors
for unknown attributes of objects do not search for similar names, because programs look up
attributes that an object may not have: `hasattr`, protocols, autocompletion.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import numpy as np

from builder import layout
from builder.errors import UnknownNameError
from builder.graph.calls import REDUCTIONS
from builder.graph.computation import XlaComputation
from builder.graph.registry import OPERATIONS
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.support.foreign_names import UNKNOWN_NAMES, add_foreign_names
from builder.support.suggestions import did_you_mean
from builder.types.primitive_type import other_names
from builder.types.shape import ArrayShape
from builder.unknown_names import attributes
from builder.unknown_names.foreign import (
    ABSENT,
    EXPRESSIONS,
    LIBRARY,
    LOWERING,
    RENAMED,
)


def missing_name(name: str, package: Iterable[str]) -> AttributeError:
    """Return the error for ``xb.name``, which does not exist.

    Args:
        name: the name.
        package: the names of `builder`.
    """
    if name.startswith("__"):  # looked up by the interpreter, not by users
        return AttributeError(f"module 'builder' has no attribute {name!r}")
    if not name.startswith("_") and callable(getattr(XlaBuilder, name, None)):
        info = OPERATIONS.get(name)
        reason = "" if info is None else ", since it has no operands"
        return UnknownNameError(
            f"xb.{name}: is a method of XlaBuilder{reason}\n"
            f"fix: b.{name}(...), where b is an XlaBuilder, or x.builder.{name}(...), where x is "
            f"an XlaOp",
            op=None if info is None else name,
        )
    if name == "lib":
        return UnknownNameError("xb.lib: builder does not import lib\nfix: from builder import lib")
    return _unknown(name, "builder", "xb", _similar(package))


def missing_name_of_lowering(
    name: str, names: Iterable[str], package: Iterable[str]
) -> AttributeError:
    """Return the error for ``lowering.name``, which does not exist.

    Args:
        name: the name.
        names: the names of `lowering`.
        package: the names of `builder`.
    """
    if name.startswith("_"):
        return AttributeError(f"module 'lowering' has no attribute {name!r}")
    similar = {_normalized(each): f"lowering.{each}" for each in names}
    return _unknown(name, "lowering", "lowering", {**_similar(package), **similar})


def _missing_name_of_library(name: str) -> AttributeError:
    """Return the error for ``lib.name``, which does not exist."""
    from builder.lib import FUNCTIONS  # lazy import

    if name.startswith("_"):
        return AttributeError(f"module 'builder.lib' has no attribute {name!r}")
    similar = {_normalized(each): f"lib.{each}" for each in FUNCTIONS}
    return _unknown(name, "builder.lib", "lib", similar)


def explain_attributes(cls: type, meanings: Mapping[str, str]) -> None:
    """Make the error for each attribute in `meanings`, which `cls` does not have, contain it."""

    def error(owner: type, name: str) -> AttributeError:
        return _missing_attribute(owner, name, meanings[name])

    add_foreign_names(cls, meanings, error)


def _explain_attributes_of_builder() -> None:
    explain_attributes(ArrayShape, attributes.SHAPE)
    explain_attributes(XlaComputation, attributes.COMPUTATION)
    functions = [
        *(EXPRESSIONS | RENAMED | LIBRARY | REDUCTIONS),
        *attributes.OF_LIBRARY.split(),
        *(name for info in OPERATIONS.values() for name in (info.name, info.opcode)),
    ]
    of_arrays = [name for name in dir(np.ndarray) if not name.startswith("_")]
    add_foreign_names(XlaOp, [*attributes.OPS, *of_arrays, *functions], _missing_attribute_of_op)
    cpp_names = [info.cpp_name for info in OPERATIONS.values()]
    of_methods = [_cpp_name(name) for name in vars(XlaBuilder) if not name.startswith("_")]
    names = [*attributes.BUILDER, *of_methods, *functions, *cpp_names]
    add_foreign_names(XlaBuilder, names, _missing_attribute_of_builder)


def _cpp_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _missing_attribute_of_op(_: type, name: str) -> AttributeError:
    return _missing_attribute(XlaOp, name, attributes.OPS.get(name) or _meaning_for_array(name))


def _missing_attribute_of_builder(_: type, name: str) -> AttributeError:
    meaning = attributes.BUILDER.get(name)
    for public, method in vars(XlaBuilder).items():
        if meaning is None and _normalized(public) == _normalized(name) and callable(method):
            meaning = _call(f"b.{public}", method)
    return _missing_attribute(XlaBuilder, name, meaning or _meanings().get(_key(name)))


def _missing_attribute(cls: type, name: str, meaning: str | None) -> AttributeError:
    article = "an" if cls.__name__[0] in "AEX" else "a"
    rule = f"{article} {cls.__name__} has no attribute {name!r}"
    return _with_fix(rule, "" if meaning is None else f"\nfix: use {meaning}")


def _meaning_for_array(name: str) -> str | None:
    """Return what to write for a function of one array, or None: "max" is not that of two."""
    return _of_library(name) if name in REDUCTIONS else _meanings().get(_key(name))


def meaning_for_numpy(name: str, *, reduces: bool = False) -> str | None:
    """Return what to write for a function of NumPy, or None.

    Args:
        name: the name of the function.
        reduces: whether the function is a ufunc whose method `reduce` is called.
    """
    if reduces:
        called = _operation(name)
        name = next((reduction for reduction, op in REDUCTIONS.items() if op == called), name)
    return _meaning_for_array(name)


def _operation(name: str) -> str | None:
    """Return the name of the op with the meaning of `name`, or None."""
    for info in OPERATIONS.values():
        if _normalized(name) in (_normalized(info.name), _normalized(info.opcode)):
            return info.name
    return RENAMED.get(name)


def _unknown(name: str, package: str, prefix: str, similar: Mapping[str, str]) -> UnknownNameError:
    """Return the error for a name that a package does not have.

    Args:
        name: the name.
        package: the package's name.
        prefix: the name under which programs import it.
        similar: the spellings of names that may be suggested, by normalized name.
    """
    rule = f"{prefix}.{name}: there is no such name in {package}"
    if name in ABSENT:
        return _with_fix(f"{rule}; {ABSENT[name]}")
    key = _key(name)
    meaning = _meanings().get(key) or similar.get(key)
    if meaning is not None:
        return _with_fix(rule, f"\nfix: use {meaning}")
    return _with_fix(rule, did_you_mean(key, similar, cutoff=0.75) or _of_similar_name(key))


def _of_similar_name(key: str) -> str:
    """Return the fix for a misspelled name of another library, or ""."""
    matches = get_close_matches(key, _meanings(), 1, 0.8)
    return "".join(f"\nfix: did you mean {match}? Use {_meanings()[match]}" for match in matches)


def _with_fix(rule: str, fix: str = "") -> UnknownNameError:
    error = UnknownNameError(f"{rule}{fix}")
    error.name = None  # Python would append the most similar name, which may contradict the fix
    return error


def _similar(package: Iterable[str]) -> dict[str, str]:
    """Return the spellings of the names in `builder` and its public parts, by normalized name."""
    names = {
        **{name: f"xb.layout.{name}" for name in vars(layout)["__all__"]},
        **{name: f"b.{name}" for name, info in OPERATIONS.items() if info.is_method},
        **{name: f"xb.{name}" for name in package},
    }
    return {_normalized(name): spelling for name, spelling in names.items()}


@lru_cache(maxsize=1)
def _meanings() -> Mapping[str, str]:
    """Return what to write for names of ops and of other libraries, by normalized name."""
    from builder.lib import FUNCTIONS  # lazy import

    operations = OPERATIONS.values()
    calls = {
        info.name: _call(f"{'b' if info.is_method else 'xb'}.{info.name}", info.function)
        for info in operations
    }
    tables: list[Iterable[tuple[str, str]]] = [
        EXPRESSIONS.items(),
        calls.items(),
        [(name, calls[operation]) for name, operation in RENAMED.items()],
        [(info.opcode, calls[info.name]) for info in operations],
        [(info.cpp_name, calls[info.name]) for info in operations],
        [(name, _of_library(name)) for name in FUNCTIONS],
        [(name, _of_library(meant)) for name, meant in LIBRARY.items()],
        [(info.schema.stablehlo.rpartition(".")[2], calls[info.name]) for info in operations],
        [(name, text.format(name)) for name, text in LOWERING.items()],
        [(name, f"xb.{element_type}") for name, element_type in other_names().items()],
    ]
    meanings: dict[str, str] = {}
    for table in tables:
        for name, meaning in table:
            meanings.setdefault(_normalized(name), meaning)
    return meanings


def _of_library(name: str) -> str:
    """Return a call of a function of `builder.lib`."""
    from builder.lib import FUNCTIONS  # lazy import

    return f"{_call(f'lib.{name}', FUNCTIONS[name].function)}  # from builder import lib"


def _call(spelling: str, function: Callable[..., Any]) -> str:
    """Return a call of the function with its required parameters and `axis` as arguments."""
    parameters = inspect.signature(function).parameters.values()
    names = [
        str(p.replace(annotation=p.empty, default=p.empty))
        for p in parameters
        if p.name == "axis" or (p.default is p.empty and p.name != "self")
    ]
    return f"{spelling}({', '.join(names)})"


def _key(name: str) -> str:
    """Return the normalized name, without suffixes that do not change the meaning."""
    for suffix in ("_p", "Op", "WithDeviceList"):  # jax's primitives, MLIR, C++ XlaBuilder
        name = name.removesuffix(suffix)
    return _normalized(name)


def _normalized(name: str) -> str:
    return name.replace("_", "").lower()


_explain_attributes_of_builder()
UNKNOWN_NAMES["builder.lib"] = _missing_name_of_library
