"""Render what objects show as HTML for notebooks.

HLO and MLIR text is split into tokens here for its colours: Pygments, which rich requires, has a
lexer for neither language.

Colours are mixed with the notebook's text colour, so that they are readable on its background: the
theme of a notebook may be dark in a browser whose `prefers-color-scheme` is light. Each output has
the style sheet, because it may be displayed without the others. Tables have classes, because
generators of sites have styles for tables without one. There are no ids, and nothing is fetched.
Only pictures of graphs have a script, which zooms and moves them; without it they scroll.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice, product
from typing import Final

from builder.inspection.parts import (
    Bar,
    CellGrid,
    Fold,
    Heading,
    Part,
    ProgramText,
    SideBySide,
    SvgPicture,
    TextTable,
)
from builder.inspection.rendering import TRUNCATED, printable, truncated

_TOKEN: Final = re.compile(
    r"""
      (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<comment>//[^\n]* | /\*(?:[^*]|\*(?!/))*\*/)
    | (?P<value>%[\w.$\-]+(?::\d+)?(?:\#\d+)?)
    | (?P<symbol>[@\#^][A-Za-z_][\w.$\-]*)
    | (?P<shape>\b(?:tensor|tuple|complex)<(?:[^<>\n]|<(?:[^<>\n]|<[^<>\n]*>)*>)*>
              | \b(?:pred|token|opaque|[sufc]\d\w*|bf16)\[[^\]\n]*\](?:\{[^}\n]*\})?)
    | (?P<keyword>\b(?:module|func|private|public|attributes|return|HloModule|ENTRY|ROOT|true|false
                     |dense|array)\b(?![.\-]))
    | (?P<op>\b(?:stablehlo|vhlo|chlo|mhlo|sdy|func)\.\w+
           | (?<=[\]})]\s)[a-z][\w\-]*(?=\())
    | (?P<number>(?<![\w.])-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:[eE][+\-]?\d+)?)\b)
    | [A-Za-z_][\w.\-]*
    """,
    re.VERBOSE,
)
"""Matches a token; a word that belongs to no group is matched too, so that none of its parts is."""


def tokens(text: str) -> Iterator[tuple[str, str]]:
    """Iterate over pairs of a kind of token, "" for other text, and the text.

    The kinds are "string", "comment", "value", "symbol", "shape", "keyword", "op" and "number". The
    texts together are `text`.

    Example:
        >>> [pair for pair in tokens("%1 = f32[2]{0} add(%0)") if pair[0]]
        [('value', '%1'), ('shape', 'f32[2]{0}'), ('op', 'add'), ('value', '%0')]
    """
    end = 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup is not None:
            if end < match.start():
                yield "", text[end : match.start()]
            yield match.lastgroup, match[0]
            end = match.end()
    if end < len(text):
        yield "", text[end:]


_COLOURS: Final = ("#4a90d9", "#e0a030", "#d9604a", "#35a878", "#c86aa0", "#3aa6b9")
"""Distinguishable with colour blindness: based on Paul Tol's bright scheme."""

_OPACITIES: Final = ("99", "33", "66")
"""Colours repeat with another opacity; text is readable on all of them in light and dark themes."""

_CELL_COLOURS: Final = len(_COLOURS) * len(_OPACITIES)


_TOKEN_COLOURS: Final = {
    "string": "#a33",
    "comment": "#888",
    "value": "#96c",
    "symbol": "#b60",
    "shape": "#0a6",
    "keyword": "#c36",
    "op": "#07d",
    "number": "#b60",
}

_SIGNS: Final = {"-": "xb-removed", "+": "xb-added", "~": "xb-changed", "": "xb-title"}

# Selectors begin with two classes, because JupyterLab aligns cells by a class and an element.
_STYLE: Final = """
.xb.xb { line-height: 1.4;
  --xb-mono: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  --xb-faint: color-mix(in srgb, currentColor 6%, transparent);
  --xb-line: color-mix(in srgb, currentColor 35%, transparent) }
.xb.xb p { margin: .3em 0 }
.xb.xb .xb-note { color: color-mix(in srgb, currentColor 75%, transparent);
  font-size: .92em }
.xb.xb .xb-scroll { overflow-x: auto; max-width: 100% }
.xb.xb .xb-pans { max-height: 48em; overflow: auto; cursor: grab }
.xb.xb .xb-pans svg { display: block; max-width: none }
.xb.xb table { border-collapse: collapse; margin: .3em 0; font-size: .92em; border: 0 }
.xb.xb th, .xb.xb td { text-align: left; vertical-align: top; padding: .15em .8em .15em 0;
  border: 0; background: none; white-space: pre-wrap; max-width: 48em }
.xb.xb th { border-bottom: 1px solid var(--xb-line); white-space: nowrap; font-weight: bold }
.xb.xb td { font-family: var(--xb-mono) }
.xb.xb .xb-number { text-align: right }
.xb.xb .xb-line { white-space: nowrap }
.xb.xb tr[title]:hover { background: var(--xb-faint) }
.xb.xb pre { overflow: auto; max-height: 36em; white-space: pre; margin: .3em 0; padding: .6em;
  font-family: var(--xb-mono); font-size: .88em; background: var(--xb-faint); color: inherit }
.xb.xb summary { cursor: pointer }
.xb.xb details > div { margin-left: 1.1em }
.xb.xb .xb-bar { display: flex; height: .9em; max-width: 40em; margin: .2em 0;
  background: var(--xb-faint) }
.xb.xb .xb-swatch { display: inline-block; width: .7em; height: .7em; margin-right: .3em }
.xb.xb .xb-key { margin-right: 1.2em; white-space: nowrap }
.xb.xb td.xb-cell { padding: .3em .7em; text-align: center; border: 1px solid var(--xb-line) }
.xb.xb th.xb-part { padding: .15em .7em; text-align: center }
.xb.xb td.xb-row { padding: .3em .8em .3em 0; white-space: nowrap }
.xb.xb table.xb-sides th { padding: .1em .6em }
.xb.xb table.xb-sides td { padding: .1em .6em; white-space: pre; max-width: none }
.xb.xb .xb-title td { font-weight: bold }
.xb.xb .xb-removed { background: color-mix(in srgb, #d33 18%, transparent) }
.xb.xb .xb-added { background: color-mix(in srgb, #2a2 18%, transparent) }
.xb.xb .xb-changed { background: color-mix(in srgb, #c90 18%, transparent) }
""" + "".join(
    [
        f".xb.xb .xb-token-{kind} {{ color: color-mix(in srgb, {colour} 65%, currentColor) }}\n"
        for kind, colour in _TOKEN_COLOURS.items()
    ]
    + [
        f".xb.xb .xb-colour{number} {{ background: {colour}{opacity} }}\n"
        for number, (opacity, colour) in enumerate(product(_OPACITIES, _COLOURS))
    ]
)

_LONG_WORD: Final = 60
_BREAKABLE: Final = re.compile(r"->|[-)\]}?!/][^\s,;.>)]")
"""Matches where browsers break a line within a word, such as `->` and the layout `T(2,4)(2,1)`."""

_SCRIPT: Final = """
document.querySelectorAll(".xb-pans:not([data-pans])").forEach(box => {
  box.dataset.pans = "";
  box.title = "drag to move, Ctrl and wheel to zoom, double-click to reset";
  const svg = box.querySelector("svg");
  const width = +svg.getAttribute("width"), height = +svg.getAttribute("height");
  let scale = 1, start = null;
  const zoom = (wanted, x, y) => {
    const next = Math.min(8, Math.max(0.1, wanted)), ratio = next / scale;
    const left = (box.scrollLeft + x) * ratio - x, top = (box.scrollTop + y) * ratio - y;
    scale = next;
    svg.setAttribute("width", width * scale);
    svg.setAttribute("height", height * scale);
    box.scrollLeft = left;
    box.scrollTop = top;
  };
  box.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const edge = box.getBoundingClientRect();
    const factor = Math.exp(-event.deltaY / 300);
    zoom(scale * factor, event.clientX - edge.left, event.clientY - edge.top);
  }, {passive: false});
  box.addEventListener("pointerdown", event => {
    start = [event.clientX + box.scrollLeft, event.clientY + box.scrollTop];
  });
  box.addEventListener("pointermove", event => {
    if (!start || !event.buttons) return;
    box.scrollLeft = start[0] - event.clientX;
    box.scrollTop = start[1] - event.clientY;
  });
  box.addEventListener("dblclick", () => zoom(1, 0, 0));
});
"""
"""Zooms and moves the pictures that are not marked with `data-pans` yet."""


def html_of(parts: Iterable[Part]) -> str:
    """Return the parts as HTML."""
    body = _joined(parts)
    script = f"<script>{_SCRIPT}</script>" if 'class="xb-scroll xb-pans"' in body else ""
    return f'<div class="xb"><style>{_STYLE}</style>\n{body}\n{script}</div>'


def _joined(parts: Iterable[Part]) -> str:
    return "\n".join(map(_html, parts))


def _html(part: Part) -> str:
    match part:
        case str():
            return _paragraph(part)
        case Heading(kind, name, description):
            text = f"<p><b>{_text(kind)}</b> {_text(name)}"
            return f"{text}<br>{_text(description)}</p>" if description else f"{text}</p>"
        case TextTable():
            return _table(part)
        case ProgramText():
            return _program(part)
        case Bar():
            return _bar(part)
        case CellGrid():
            return _grid(part)
        case SideBySide():
            return _side_by_side(part)
        case SvgPicture(svg=svg, pans=pans):
            return f'<div class="xb-scroll{" xb-pans" * pans}">{svg}</div>'
        case Fold(summary, inner):
            body = f"<div>{_joined(inner)}</div>"
            return f"<details><summary>{_text(summary)}</summary>{body}</details>"


def _text(text: str) -> str:
    return escape(printable(text))


def _words(text: str) -> str:
    """Return escaped text in which browsers do not break lines inside words, except long ones."""
    if not _BREAKABLE.search(text):
        return _text(text)
    return " ".join(
        f'<span class="xb-line">{_text(word)}</span>'
        if len(word) <= _LONG_WORD and _BREAKABLE.search(word)
        else _text(word)
        for word in text.split(" ")
    )


def _lines(text: str) -> str:
    return "<br>".join(_text(line) for line in text.split("\n"))


def _paragraph(text: str) -> str:
    return f'<p class="xb-note">{_lines(text)}</p>'


def _table(table: TextTable) -> str:
    parts = [f"<p><b>{_text(table.title)}</b></p>"] if table.title else []
    if table.rows:
        classes = [_column_class(column.is_number, column.no_wrap) for column in table.columns]
        head = ""
        if any(column.name for column in table.columns):
            names = zip(classes, table.columns, strict=True)
            cells = "".join(f"<th{c}>{_text(column.name)}</th>" for c, column in names)
            head = f"<thead><tr>{cells}</tr></thead>"
        parts.append(f'<div class="xb-scroll"><table class="xb-table">{head}<tbody>')
        for number, row in enumerate(table.rows):
            hover = table.hovers[number] if table.hovers else ""
            # The hover has several lines, so it is escaped without `printable`.
            title = f' title="{_hover(hover)}"' if hover else ""
            cells = "".join(f"<td{c}>{_words(t)}</td>" for c, t in zip(classes, row, strict=True))
            parts.append(f"<tr{title}>{cells}</tr>")
        parts.append("</tbody></table></div>")
    if table.caption:
        parts.append(_paragraph(table.caption))
    return "\n".join(parts)


def _column_class(is_number: bool, no_wrap: bool) -> str:
    names = ["xb-number"] * is_number + ["xb-line"] * (is_number or no_wrap)
    return f' class="{" ".join(names)}"' if names else ""


def _hover(text: str) -> str:
    return "&#10;".join(_text(line) for line in text.split("\n"))


def _program(part: ProgramText) -> str:
    lines, note = truncated(part)
    pieces = []
    for kind, text in tokens("\n".join(lines)):
        shown = "\n".join(_text(line) for line in text.split("\n"))
        pieces.append(f'<span class="xb-token-{kind}">{shown}</span>' if kind else shown)
    return f"<pre>{''.join(pieces)}</pre>" + (_paragraph(note) if note else "")


def _bar(bar: Bar) -> str:
    shown = [segment for segment in bar.segments if segment.amount > 0]
    total = sum(segment.amount for segment in shown)
    stripes, keys = [], []
    for number, segment in enumerate(shown):
        colour = f"xb-colour{number % _CELL_COLOURS}"
        title = f"{segment.name}: {segment.text}"
        width = 100 * segment.amount / total
        stripes.append(
            f'<span class="{colour}" style="width:{width:.4g}%" title="{_text(title)}"></span>'
        )
        swatch = f'<span class="xb-swatch {colour}"></span>'
        keys.append(f'<span class="xb-key">{swatch}{_text(title)}</span>')
    return (
        f'<p>{_text(bar.title)}</p><div class="xb-bar">{"".join(stripes)}</div>'
        f'<p class="xb-note">{" ".join(keys)}</p>'
    )


def _grid(grid: CellGrid) -> str:
    title = f"<p>{_text(grid.title)}</p>" if grid.title else ""
    head = ""
    if any(grid.columns):
        head = "".join(f'<th class="xb-part">{_text(name)}</th>' for name in grid.columns)
        head = f"<thead><tr><th></th>{head}</tr></thead>"
    rows = []
    for name, cells in grid.rows:
        shown = "".join(
            f'<td class="xb-cell xb-colour{cell.colour % _CELL_COLOURS}">{_text(cell.text)}</td>'
            for cell in cells
        )
        rows.append(f'<tr><td class="xb-row">{_text(name)}</td>{shown}</tr>')
    body = "".join(rows)
    table = f'<table class="xb-table">{head}<tbody>{body}</tbody></table>'
    return f'{title}<div class="xb-scroll">{table}</div>'


def _side_by_side(sides: SideBySide) -> str:
    rows = []
    for sign, before, after in islice(sides.rows, TRUNCATED):
        row = f'<tr class="{_SIGNS[sign]}">'
        if sign:
            rows.append(f"{row}<td>{_text(before)}</td><td>{_text(after)}</td></tr>")
        else:
            rows.append(f'{row}<td colspan="2">{_text(before)}</td></tr>')
    head = f"<tr><th>{_text(sides.before)}</th><th>{_text(sides.after)}</th></tr>"
    table = f'<table class="xb-sides"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'
    note = _omitted(sides.rows)
    return f'<div class="xb-scroll">{table}</div>' + (_paragraph(note) if note else "")


def _omitted(rows: Sequence[object]) -> str:
    count = len(rows) - TRUNCATED
    return f"{count:,} more lines; print(diff) prints all" if count > 0 else ""
