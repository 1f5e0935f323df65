"""The error for a name that `builder` does not have."""

from __future__ import annotations

from collections.abc import Mapping

from builder import layout
from builder.errors import UnknownNameError
from builder.graph.registry import OPERATIONS
from builder.graph.xla_builder import XlaBuilder
from builder.support.suggestions import did_you_mean


def missing_name(name: str, package: Mapping[str, object]) -> AttributeError:
    """Return the error for ``xb.name``, which does not exist.

    Args:
        name: the name.
        package: the namespace of `builder`.
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
    fix = did_you_mean(_normalized(name), _spellings(package), cutoff=0.75)
    return UnknownNameError(f"xb.{name}: there is no such name in builder{fix}")


def _spellings(package: Mapping[str, object]) -> dict[str, str]:
    """Return the spellings of the public names, such as "xb.add", by normalized name."""
    spellings = {
        _normalized(public): f"xb.{public}" for public in package if not public.startswith("_")
    }
    for public in vars(layout)["__all__"]:
        spellings.setdefault(_normalized(public), f"xb.layout.{public}")
    # The names of the C++ builder and of HLO instructions.
    for info in OPERATIONS.values():
        spelling = f"b.{info.name}(...)" if info.is_method else f"xb.{info.name}"
        for name in (info.name, info.cpp_name, info.opcode):
            spellings.setdefault(_normalized(name), spelling)
    return spellings


def _normalized(name: str) -> str:
    return name.replace("_", "").lower()
