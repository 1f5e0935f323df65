"""The HLO attribute `window={...}` of convolutions and windowed reductions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_DEFAULTS = {"stride": 1, "pad": "0_0", "lhs_dilate": 1, "rhs_dilate": 1, "rhs_reversal": 0}


def window_text(
    size: Sequence[int], padding: Iterable[tuple[int, int]], lists: Mapping[str, Iterable[Any]]
) -> str:
    """Return the HLO attribute of a window, defaults omitted; "" for a window without dimensions.

    Args:
        size: the size of each dimension.
        padding: the low and the high padding of each dimension.
        lists: the other lists by their HLO names: "stride", "lhs_dilate" and so on.

    Example:
        >>> window_text([2, 3], [(0, 1), (0, 0)], {"stride": [1, 1]})
        ', window={size=2x3 pad=0_1x0_0}'
    """
    if not size:
        return ""
    stride = {"stride": lists.get("stride", ())}
    parts = {"size": size, **stride, "pad": [f"{low}_{high}" for low, high in padding], **lists}
    text = " ".join(
        f"{name}={'x'.join(map(str, values))}"
        for name, values in parts.items()
        if any(value != _DEFAULTS.get(name) for value in values)
    )
    return f", window={{{text}}}"
