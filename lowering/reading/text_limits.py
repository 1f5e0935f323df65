"""What MLIR's parser of text does not stand: found before it is given the text.

It recurses, and where it does so deeply enough it overflows the stack, which is the end of the
process; and some texts of a few kilobytes mean a module that is larger than any memory.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Excess", "risk", "too_much"]

MAX_NESTING: Final = 1000
"""How deep brackets may nest in text. MLIR's parser recurses; at 10,000 it overflows the stack."""

_MAX_EXPANSION: Final = 10_000_000
"""How long the text may be that the name of an attribute or a type stands for."""

_MAX_AFFINE: Final = 5000
"""How long an affine map may be, in characters: its parser recurses too, without any brackets."""

# Without the arrows, so that brackets come in pairs. A string ends at the latest with its line; it
# is never tried again from within, which would take for ever where the last quote is missing.
_TOKEN: Final = r'->|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|[^][(){}<>"-]+|-'
_STRING: Final = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
_PAIRS: Final = (b"<>", b"()", b"[]", b"{}")
_OTHERS: Final = bytes(set(range(256)) - set(b"".join(_PAIRS)))
"""All bytes that are no brackets."""

_BRACKET: Final = r'->|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|([][(){}<>])'
_MANY_DIMENSIONS: Final = r"<(?:[0-9?]+x){1000}"
_LONG_PIECE: Final = r"<[0-9?x]{2000}"
"""What a thousand dimensions begin with. It is looked for in a third of the time."""
_LONG_AFFINE: Final = rf"\baffine_(?:map|set)\s*<(?:[^>]|(?<=-)>){{{_MAX_AFFINE}}}"
_NAMED: Final = r"[#!][A-Za-z_][\w.$-]*"


# (With letters at the beginning: Python then looks for these first, in a twentieth of the time.)
_RETURN: Final = r'stablehlo\.return\b"?([^\n]*)'
_TENSOR: Final = r"tensor<[^<>]*(?:<[^<>]*>[^<>]*)*>"
_REST: Final = r"(?:\s*loc\(.*)?\s*(?:\}.*)?(?://.*)?$"
_SOUND_RETURN: Final = rf"[^:]*(?::[\s(]*{_TENSOR}(?:\s*,\s*{_TENSOR})*(?:\)\s*->\s*\(\))?)?{_REST}"
"""What stands behind `stablehlo.return` where all that it returns are tensors."""


_QUOTED: Final = r'"([^"\\\n]*+(?:\\.[^"\\\n]*+)*+)(?:"(\s*=)?)?'
_ODD_BYTE: Final = r"\\[89A-Fa-f][0-9A-Fa-f]"
"""A byte above 127, escaped."""


class Excess(NamedTuple):
    """What is too much in a text, and where, counted from 1."""

    line: int
    column: int
    reason: str
    fix: str


def too_much(text: str) -> Excess | None:
    """What of a text MLIR's parser would die of, or be busy with for ever; None of a sound one."""
    deepest = _deepest(text) if _may_be_deep(text) else 0
    if deepest > MAX_NESTING:
        return _at(
            text,
            _where_deep(text),
            f"brackets are nested {deepest} deep, at most {MAX_NESTING} can be read",
            "save it as bytecode, .mlirbc or .stablehlo, where there is no such limit",
        )
    # The rest is looked for only where it can be: that takes a third of the time of the above.
    if re.search(_LONG_PIECE, text) is not None:
        many = re.search(_MANY_DIMENSIONS, text)
        if many is not None:
            fix = "give arrays fewer dimensions"
            return _at(text, many.start(), "a type has a thousand dimensions or more", fix)
    if "affine_" in text:
        long = re.search(_LONG_AFFINE, text)
        if long is not None:
            reason = f"an affine map is longer than {_MAX_AFFINE} characters"
            return _at(text, long.start(), reason, "leave it out; StableHLO has no use for one")
    return _expansion(text)


def risk(text: str) -> Excess | None:
    """What may be the end of the process that reads the text, or looks at what it has read.

    It may be sound as well, and is to be tried in another process.

    Where a loop's condition or the comparator of a sort returns something else than tensors,
    StableHLO's verifier takes for granted that it gets one; other regions may return tokens. And
    MLIR's Python does not bear names that are no UTF-8.
    """
    # The same ends of lines come again and again.
    sound: set[str] = set()
    for found in re.finditer(_RETURN, text):
        rest = found[1].partition(":")[2]
        if rest not in sound:
            if re.fullmatch(_SOUND_RETURN, found[1]) is None:
                return _at(text, found.start(), "a region must return tensors here", "")
            sound.add(rest)
    if "\\" in text:
        # As above, no string is tried again from within.
        for found in re.finditer(_QUOTED, text):
            if found[2] is not None and re.search(_ODD_BYTE, found[1]) is not None:
                return _at(text, found.start(), "a name that is no text in UTF-8", "")
    return None


def _at(text: str, place: int, reason: str, fix: str) -> Excess:
    return Excess(text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place), reason, fix)


def _may_be_deep(text: str) -> bool:
    """Whether brackets may nest too deep; known in a tenth of the time that counting takes.

    Brackets that enclose nothing are taken out, and then those that enclosed nothing but these.
    Each time the rest is less deep by one at most, and soon there are few left to be counted.
    """
    if '"' in text:
        text = re.sub(_STRING, " ", text)
    # (By as many blanks: replacing with what is shorter takes twice the time.)
    brackets = text.encode().replace(b"->", b"  ").translate(None, _OTHERS)
    depth = deepest = taken_out = 0
    for pair in _PAIRS * 3:
        brackets = brackets.replace(pair, b"")
        taken_out += 1
    for bracket in brackets:
        if bracket in b"([{<":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest + taken_out > MAX_NESTING


def _deepest(text: str) -> int:
    """How deep brackets nest."""
    depth = deepest = 0
    for bracket in re.sub(_TOKEN, "", text):
        if bracket in "([{<":
            depth += 1
            if depth > deepest:
                deepest = depth
        else:
            depth -= 1
    return deepest


def _where_deep(text: str) -> int:
    """Where the first bracket stands that is nested too deep."""
    depth = 0
    for found in re.finditer(_BRACKET, text):
        if found[1] is not None:
            depth += 1 if found[1] in "([{<" else -1
            if depth > MAX_NESTING:
                return found.start()
    return 0


_FEWEST_NAMING: Final = 20
"""So many lines that name two others at least are needed to say something that is too long."""


def _expansion(text: str) -> Excess | None:
    """A name of an attribute or a type that stands for too much, by names of names.

    Each of forty lines may name the one before twice: then the last stands for 2**40 of the first.
    """
    if text.count("#") + text.count("!") < 3 * _FEWEST_NAMING:  # to look at the lines takes longer
        return None
    lines = text.split("\n")
    names = [(n, line) for n, line in enumerate(lines) if line.startswith(("#", "!"))]
    if sum(line.count("#") + line.count("!") > 2 for _, line in names) < _FEWEST_NAMING:
        return None
    sizes: dict[str, int] = {}
    for number, line in names:
        name, _, meaning = line.partition("=")
        size = len(meaning) + sum(sizes.get(one, 0) for one in re.findall(_NAMED, meaning))
        if size > _MAX_EXPANSION:
            return Excess(
                number + 1,
                1,
                f"{name.strip()[:80]} stands for more than {_MAX_EXPANSION:,} characters, by names "
                f"of names",
                "say less of it",
            )
        sizes[name.strip()] = size
    return None
