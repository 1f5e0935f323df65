"""Docstrings in the form that the site's generator reads."""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_UNKNOWN: Final = "unknown"
"""The parameter ``**unknown`` of ops, which is for the errors of wrong calls only."""


class PlainDocstrings(griffe.Extension):
    """Changes what Griffe and Markdown would read differently.

    Griffe reads doctests in a section `Examples:`, not in `Example:`. A block of code after a line
    that ends with two colons is indented, which is Markdown too, but for the second colon. Text
    before a colon in `Returns:` would be a type, so the annotated type is inserted.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if isinstance(obj, griffe.Function) and _UNKNOWN in obj.parameters:
            del obj.parameters[_UNKNOWN]
        if obj.docstring:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.M)
            returned = getattr(obj, "returns", None)
            if returned is not None:
                text = re.sub(r"^(Returns:\n +)", rf"\g<1>{returned}: ", text, flags=re.M)
            obj.docstring.value = re.sub(r"::$", ":", text, flags=re.M)
