"""The errors for names that `builder`, `lowering`, a builder or an op does not have.

The messages contain what to write for names of jax, NumPy, StableHLO and the C++ XlaBuilder. Errors
for unknown attributes of objects do not search for similar names, because programs look up
attributes that an object may not have: `hasattr`, protocols, autocompletion.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from builder import layout
from builder.errors import UnknownNameError
from builder.graph.registry import OPERATIONS
from builder.graph.subcomputations import REDUCTIONS
from builder.graph.xla_builder import XlaBuilder
from builder.graph.xla_op import XlaOp
from builder.support.names import did_you_mean
from builder.types.primitive_type import meant_type, other_names
from builder.unknown_names.table import ATTRIBUTES, FUNCTIONS


def missing_name(
    name: str, package: Collection[str], of_lowering: Collection[str]
) -> UnknownNameError:
    """Return the error for ``xb.name``, which does not exist.

    Args:
        name: the name.
        package, of_lowering: the names of `builder` and `lowering`.
    """
    if not name.startswith("_") and callable(getattr(XlaBuilder, name, None)):
        info = OPERATIONS.get(name)
        reason = "" if info is None else ", since it has no operands"
        return UnknownNameError(
            f"xb.{name}: is a method of XlaBuilder{reason}",
            fix=f"b.{name}(...), where b is an XlaBuilder, or x.builder.{name}(...), where x is "
            "an XlaOp",
            op=None if info is None else name,
            context=(),
        )
    if name == "lib":
        return UnknownNameError(
            "xb.lib: builder does not import lib", fix="from builder import lib"
        )
    return _unknown(name, "builder", "xb", _names("lowering", of_lowering), _public(package))


def missing_name_of_lowering(
    name: str, names: Collection[str], package: Collection[str]
) -> AttributeError:
    """Return the error for ``lowering.name``, which does not exist.

    Args:
        name: the name.
        names, package: the names of `lowering` and `builder`.
    """
    if name.startswith("_"):
        return AttributeError(f"module 'lowering' has no attribute {name!r}")
    similar = _public(package) | _names("lowering", names)
    return _unknown(name, "lowering", "lowering", _names("lowering", names), similar)


def missing_name_of_library(name: str, functions: Collection[str]) -> AttributeError:
    """Return the error for ``lib.name``, which does not exist.

    Args:
        name: the name.
        functions: the names of the functions of `builder.lib`.
    """
    if name.startswith("_"):
        return AttributeError(f"module 'builder.lib' has no attribute {name!r}")
    return _unknown(name, "builder.lib", "lib", {}, _names("lib", functions))


def missing_attribute(cls: type, name: str) -> UnknownNameError | None:
    """Return the error for an attribute that instances of `cls` do not have.

    Returns:
        The error, or None if nothing is known about the name.
    """
    meaning = None
    for base in cls.__mro__:
        table = ATTRIBUTES.get(base.__name__, {})
        meaning = meaning or table.get(name)
        if base is XlaOp:
            meaning = meaning_for_array(name)
        elif base is XlaBuilder:
            meaning = meaning or _method(name) or _meaning(name)
    if meaning is None:
        return None
    article = "an" if cls.__name__[0] in "AEX" else "a"
    return _with_fix(f"{article} {cls.__name__} has no attribute {name!r}", f"use {meaning}")


def _method(name: str) -> str | None:
    """Return a call of the method of XlaBuilder that the C++ method `name` corresponds to."""
    for public, method in vars(XlaBuilder).items():
        if _normalized(public) == _normalized(name) and callable(method):
            return _call(f"b.{public}", method)
    return None


def meaning_for_array(name: str, *, reduces: bool = False) -> str | None:
    """Return what to write for a function of one array, or None.

    Args:
        name: the name of the function: "max" is a reduction, not the maximum of two arrays.
        reduces: whether the function is a ufunc of NumPy whose method `reduce` is called.
    """
    if reduces:
        meaning = _meaning(name) or ""
        called = [reduction for reduction, op in REDUCTIONS.items() if f"xb.{op}(" in meaning]
        name = called[0] if called else name
    return _expanded(f"lib.{name}") if name in REDUCTIONS else _meaning(name)


def _unknown(
    name: str, package: str, prefix: str, others: Mapping[str, str], similar: Mapping[str, str]
) -> UnknownNameError:
    """Return the error for a name that a package does not have.

    Args:
        name: the name.
        package: the package's name.
        prefix: the name under which programs import it.
        others: the spellings of names that matter more than other meanings, by normalized name.
        similar: the spellings of names that may be suggested, by normalized name.
    """
    rule = f"{prefix}.{name}: there is no such name in {package}"
    known = {**_meanings(), **others}
    keys = _keys(name)
    for key in keys:
        meaning = known.get(key) or similar.get(key)
        if meaning is not None:
            return _with_fix(rule, f"use {meaning}")
    if name.startswith("_"):  # looked up by tools; pytest does so for each module of tests
        return _with_fix(rule)
    if (element_type := meant_type(name)) is not None:
        return _with_fix(rule, f"did you mean xb.{element_type}?")
    return _with_fix(
        rule, did_you_mean(keys[0], similar, cutoff=0.75) or _of_similar_name(keys[0], known)
    )


def _of_similar_name(key: str, known: Mapping[str, str]) -> str:
    """Return the fix for a misspelled name of another library, or ""."""
    if len(key) < 4:  # too many names are similar
        return ""
    similar = known.keys() - other_names().keys()  # `meant_type` compares names of types
    return "".join(f"use {known[match]}" for match in get_close_matches(key, similar, 1, 0.8))


def _with_fix(rule: str, fix: str = "") -> UnknownNameError:
    error = UnknownNameError(rule, fix=fix)
    error.name = None  # Python would append the most similar name, which may contradict the fix
    return error


def _names(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """Return the spelling of each name of a package, by normalized name."""
    return {_normalized(name): f"{prefix}.{name}" for name in names}


def _public(package: Collection[str]) -> dict[str, str]:
    """Return the spellings of the names in `builder` and its public parts, by normalized name."""
    methods = [name for name, info in OPERATIONS.items() if info.is_method]
    of_layout = _names("xb.layout", vars(layout)["__all__"])
    return of_layout | _names("b", methods) | _names("xb", package)


def _meaning(name: str) -> str | None:
    return next((_meanings()[key] for key in _keys(name) if key in _meanings()), None)


@lru_cache(maxsize=1)
def _meanings() -> Mapping[str, str]:
    """Return what to write for names of ops and of other libraries, by normalized name."""
    from builder.lib import FUNCTIONS as LIBRARY  # lazy import

    infos = OPERATIONS.values()
    calls = {
        info.name: _expanded(f"{'b' if info.is_method else 'xb'}.{info.name}") for info in infos
    }
    tables: list[Iterable[tuple[str, str]]] = [
        [(name, _expanded(text)) for name, text in FUNCTIONS.items()],
        calls.items(),
        [(info.opcode, calls[info.name]) for info in infos],
        [(info.cpp_name, calls[info.name]) for info in infos],
        [(name, _expanded(f"lib.{name}")) for name in LIBRARY],
        [(info.cpp_name, _expanded(f"lib.{name}")) for name, info in LIBRARY.items()],
        [(info.schema.stablehlo.rpartition(".")[2], calls[info.name]) for info in infos],
        [(f"reduce_{name}", _expanded(f"lib.{name}")) for name in REDUCTIONS],
        [(f"reduce_{op}", _expanded(f"lib.{name}")) for name, op in REDUCTIONS.items()],
        [(f"a{name}", _expanded(f"lib.{name}")) for name in REDUCTIONS],
        [(name, f"xb.{element_type}") for name, element_type in other_names().items()],
    ]
    meanings: dict[str, str] = {}
    for table in tables:
        for name, meaning in table:
            if name:  # most library functions have no name in C++
                meanings.setdefault(_normalized(name), meaning)
    return meanings


def _expanded(text: str) -> str:
    """Return a text of the table; a call, if the text is the name of an op or library function."""
    from builder.lib import FUNCTIONS as LIBRARY  # lazy import

    prefix, _, name = text.partition(".")
    if prefix in ("xb", "b") and name in OPERATIONS:
        return _call(text, OPERATIONS[name].function)
    if prefix == "lib" and name in LIBRARY:
        return f"{_call(text, LIBRARY[name].function)}  # from builder import lib"
    return text


def _call(spelling: str, function: Callable[..., Any]) -> str:
    """Return a call of the function with its required parameters, axis and bounds as arguments."""
    names = []
    is_after_omitted = False
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            names.append("...")
        elif p.name in ("axis", "max", "min") or (p.default is p.empty and p.name != "self"):
            is_named = is_after_omitted or p.kind is p.KEYWORD_ONLY
            names.append(f"{p.name}={p.name}" if is_named else p.name)
        elif p.name != "self":
            is_after_omitted = True
    return f"{spelling}({', '.join(names)})"


_PREFIXES = {
    "arc": "a",
    "bitwise": "",
    "createscalar": "",
    "createscalaridentitywithzero": "add",
    "cumulative": "cum",
    "dynamic": "",
    "logical": "",
    "mhlo": "",
}
"""Beginnings of names of other libraries, and the beginning of the name of the op."""


def _keys(name: str) -> list[str]:
    """Return the normalized names with the meaning of `name`, the most similar one first."""
    for suffix in (
        "_p",
        "Op",
        "WithDeviceList",
        "AndLayouts",
    ):  # jax's primitives, MLIR, C++ XlaBuilder
        name = name.removesuffix(suffix)
    key = _normalized(name)
    shorter = key.removesuffix("computation")
    return [key] + [
        ours + shorter.removeprefix(foreign)
        for foreign, ours in _PREFIXES.items()
        if shorter.startswith(foreign)
    ]


def _normalized(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
