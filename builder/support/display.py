"""The base class of objects that notebooks and terminals show; see `builder.inspection.parts`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from builder.support.imports import extension

if TYPE_CHECKING:
    from builder.inspection.parts import Part


class Displayed:
    """Base class of objects that notebooks show as HTML, and ``rich.print`` with colours."""

    __slots__ = ()

    def _parts(self) -> Iterable[Part]:
        """Return the parts to show.

        `builder.inspection` describes the objects of packages below it; others define this method.
        """
        return extension("builder.inspection.describing", "parts_of", self)

    def _repr_html_(self) -> str:
        return extension("builder.inspection.html", "html_of", self._parts())

    def __rich__(self) -> Any:
        return extension("builder.inspection.rendering", "rich_of", self._parts())
