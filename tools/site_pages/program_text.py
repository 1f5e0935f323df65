"""Highlight MLIR and HLO text on the site.

Pygments, which highlights the other blocks, has lexers for neither language. The tokens are
those of the notebooks' displays.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final

from builder.inspection.html import tokens

_BLOCK: Final = re.compile(r"^```(?:mlir|hlo)\n(.*?)\n```$", re.DOTALL | re.MULTILINE)

_CLASSES: Final = {
    "string": "s2",
    "comment": "c1",
    "value": "nv",
    "symbol": "nf",
    "shape": "kt",
    "keyword": "k",
    "op": "nb",
    "number": "mi",
}
"""The class of each kind of token in the theme's style sheets: Pygments' short names."""


def highlighted(page: str) -> str:
    """Return a page with its blocks of MLIR and HLO text as HTML."""
    return _BLOCK.sub(lambda match: _block(match[1]), page)


def _block(text: str) -> str:
    pieces = []
    for kind, piece in tokens(text):
        shown = escape(piece, quote=False)
        pieces.append(f'<span class="{_CLASSES[kind]}">{shown}</span>' if kind else shown)
    return f'<div class="highlight"><pre><code>{"".join(pieces)}\n</code></pre></div>'
