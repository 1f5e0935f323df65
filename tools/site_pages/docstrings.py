"""Docstrings in the form that the site's generator reads."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

import griffe

_UNKNOWN: Final = "unknown"
"""The parameter ``**unknown`` of ops, which is for the errors of wrong calls only."""


class PlainDocstrings(griffe.Extension):
    """Changes what Griffe and Markdown would read differently.

    Griffe reads doctests in a section `Examples:`, not in `Example:`. A block of code after a line
    that ends with two colons is indented, which is Markdown too, but for the second colon. Text
    before a colon in `Returns:` would be a type, so the annotated type is inserted. The docstrings
    in a dict `__slots__` become a section `Attributes:`.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if isinstance(obj, griffe.Function) and _UNKNOWN in obj.parameters:
            del obj.parameters[_UNKNOWN]
        if obj.docstring:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.M)
            returned = getattr(obj, "returns", None)
            if returned is not None:
                text = re.sub(r"^(Returns:\n +)", rf"\g<1>{returned}: ", text, flags=re.M)
            obj.docstring.value = re.sub(r"::$", ":", text, flags=re.M) + _slots_section(obj)


def _slots_section(obj: griffe.Object) -> str:
    """Return the section with the public attributes of a class whose `__slots__` is a dict."""
    slots = obj.members.get("__slots__")
    if not isinstance(slots, griffe.Attribute) or not isinstance(slots.value, griffe.ExprDict):
        return ""
    texts = ast.literal_eval(str(slots.value))
    lines = [f"    {name}: {text}" for name, text in texts.items() if not name.startswith("_")]
    return "\n".join(["\n\nAttributes:", *lines])
