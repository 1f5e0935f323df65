"""The errors for names that `builder`, `lowering`, a builder or an op does not have.

The messages contain what to write for names of jax, NumPy, StableHLO and the C++ XlaBuilder. Errors
for unknown attributes of objects do not search for similar names, because programs look up
attributes that an object may not have: `hasattr`, protocols, autocompletion.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from builder import layout
from builder.errors import UnknownNameError
from builder.graph.registry import OPERATIONS
from builder.graph.xla_builder import XlaBuilder
from builder.support.suggestions import did_you_mean
from builder.types.primitive_type import ALL
from builder.unknown_names.foreign import (
    ABSENT,
    ATTRIBUTES,
    ELEMENT_TYPES,
    EXPRESSIONS,
    LOWERING,
    MLIR_SIGNS,
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


def missing_attribute_of_op(name: str) -> AttributeError:
    """Return the error for an attribute that an `XlaOp` does not have."""
    rule = f"an XlaOp has no attribute {name!r}"
    return _missing_attribute(rule, ATTRIBUTES.get(name) or _meanings().get(_key(name)))


def missing_attribute_of_builder(name: str) -> AttributeError:
    """Return the error for an attribute that an `XlaBuilder` does not have."""
    for public, method in vars(XlaBuilder).items():
        if _normalized(public) == _normalized(name) and callable(method):
            meaning: str | None = _call(f"b.{public}", method)
            break
    else:
        meaning = _meanings().get(_key(name))
    return _missing_attribute(f"an XlaBuilder has no attribute {name!r}", meaning)


def _missing_attribute(rule: str, meaning: str | None) -> AttributeError:
    # Without a meaning, Python's tracebacks append the most similar attribute.
    return AttributeError(rule) if meaning is None else _with_fix(rule, f"\nfix: use {meaning}")


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
    return _with_fix(rule, did_you_mean(key, similar, cutoff=0.75))


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
        [(info.schema.stablehlo.rpartition(".")[2], calls[info.name]) for info in operations],
        [(name, text.format(name)) for name, text in LOWERING.items()],
        [(name, f"xb.{element_type}") for name, element_type in ELEMENT_TYPES.items()],
        [(str(each.dtype), f"xb.{each}") for each in ALL],
        [
            (f"{sign}{each.bits}", f"xb.{each}")
            for each in ALL
            for sign in MLIR_SIGNS.get(each.kind, ())
        ],
    ]
    meanings: dict[str, str] = {}
    for table in tables:
        for name, meaning in table:
            meanings.setdefault(_normalized(name), meaning)
    return meanings


def _call(spelling: str, function: Callable[..., Any]) -> str:
    """Return a call of the function, with the names of its required parameters as arguments."""
    parameters = inspect.signature(function).parameters.values()
    names = [str(p.replace(annotation=p.empty)) for p in parameters if p.default is p.empty]
    return f"{spelling}({', '.join(name for name in names if name != 'self')})"


def _key(name: str) -> str:
    """Return the normalized name, without suffixes that do not change the meaning."""
    for suffix in ("_p", "Op", "WithDeviceList"):  # jax's primitives, MLIR, C++ XlaBuilder
        name = name.removesuffix(suffix)
    return _normalized(name)


def _normalized(name: str) -> str:
    return name.replace("_", "").lower()
