"""What is said when `builder` has nothing of the name that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from builder import layout
from builder.errors import UnknownNameError
from builder.graph.registry import OPERATIONS
from builder.graph.xla_builder import XlaBuilder

__all__ = ["missing_name"]


def missing_name(name: str, package: Mapping[str, object]) -> AttributeError:
    """Return the error for ``xb.name``, which does not exist.

    Args:
        name: the name.
        package: the names of `builder`.
    """
    if name.startswith("__"):  # the interpreter asks for those
        return AttributeError(f"module 'builder' has no attribute {name!r}")
    from builder.graph.registry import OPERATIONS  # what is above this module, when all is loaded

    if not name.startswith("_") and callable(getattr(XlaBuilder, name, None)):
        info = OPERATIONS.get(name)
        since = "" if info is None else ", since it has no operands"
        return UnknownNameError(
            f"xb.{name}: is a method of XlaBuilder{since}\n"
            f"fix: b.{name}(...), where b is an XlaBuilder, or x.builder.{name}(...), where x is "
            f"an XlaOp",
            op=None if info is None else name,
        )
    meant = _meant(name, package)
    fix = f"\nfix: did you mean {' or '.join(meant)}?" if meant else ""
    return UnknownNameError(f"xb.{name}: there is no such name in builder{fix}")


def _meant(name: str, package: Mapping[str, object]) -> list[str]:
    """The names that are most like this one, as they are written."""
    spoken: dict[str, str] = {}
    for public in package:
        if not public.startswith("_"):
            spoken[_plain(public)] = f"xb.{public}"
    for public in layout.__all__:
        spoken.setdefault(_plain(public), f"xb.layout.{public}")
    # What the C++ builder and XLA's instructions call them.
    for info in OPERATIONS.values():
        written = f"b.{info.name}(...)" if info.is_method else f"xb.{info.name}"
        for other in (info.name, info.cpp_name, info.opcode):
            spoken.setdefault(_plain(other), written)
    plain = _plain(name)
    if plain in spoken:
        return [spoken[plain]]
    close = get_close_matches(plain, list(spoken), n=3, cutoff=0.75)
    return list(dict.fromkeys(spoken[c] for c in close))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
