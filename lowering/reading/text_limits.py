"""Find text that MLIR's parser cannot process.

The parser is recursive. Deep nesting overflows the stack, which ends the process. Aliases that
refer to other aliases can expand a text of a few kilobytes to a module larger than the memory. The
parser allocates an array for the largest spatial dimension of a convolution.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

MAX_NESTING: Final = 1000
"""The maximum nesting of brackets. MLIR's parser overflows the stack at 10,000."""

_MAX_EXPANSION: Final = 10_000_000
"""The maximum length of the text that an alias of an attribute or type expands to."""

_MAX_AFFINE: Final = 5000
"""The maximum length of an affine map in characters. MLIR parses affine maps recursively, even
without brackets."""

# Strings end with their line. Possessive quantifiers prevent backtracking, which would take
# quadratic time if the last quote is missing.
_STRING: Final = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
_PAIRS: Final = (b"<>", b"()", b"[]", b"{}")
_BRACKET: Final = rf"->|{_STRING}|([][(){{}}<>])"
"""Matches arrows, strings and brackets; group 1 is a bracket outside of arrows and strings."""
_MANY_DIMENSIONS: Final = r"<(?:[0-9?]+x){1000}"
_LONG_PIECE: Final = r"<[0-9?x]{2000}"
"""Matches the start of a shape of a thousand dimensions, faster than `_MANY_DIMENSIONS`."""
_LONG_AFFINE: Final = rf"\baffine_(?:map|set)\s*<(?:[^>]|(?<=-)>){{{_MAX_AFFINE}}}"
_LARGE_SPATIAL: Final = r"(?:\bdim_numbers\s*=\s*|\bconv\s*<)[][bfio?0-9x,>\s-]*?[0-9]{5}"
"""Matches the dimension numbers of a convolution with a spatial dimension of five digits."""
_NAMED: Final = r"[#!][A-Za-z_][\w.$-]*"


# Python searches much faster for a pattern that begins with letters.
_RETURN: Final = r'stablehlo\.return\b"?([^\n]*)'
_TENSOR: Final = r"tensor<[^<>]*(?:<[^<>]*>[^<>]*)*>"
_LINE_END: Final = r"(?:\s*loc\(.*)?\s*(?:\}.*)?(?://.*)?$"
_SOUND_RETURN: Final = (
    rf"[^:]*(?::[\s(]*{_TENSOR}(?:\s*,\s*{_TENSOR})*(?:\)\s*->\s*\(\))?)?{_LINE_END}"
)
"""Matches the operands of a `stablehlo.return` of tensors only."""


_REDUCE: Final = r'hlo\.reduce"\s*\((?:\s*%[^,()\n]*)?\)'
"""Matches a reduction without initial values."""

_QUOTED: Final = r'"([^"\\\n]*+(?:\\.[^"\\\n]*+)*+)(?:"(\s*=)?)?'
_ODD_BYTE: Final = r"\\[89A-Fa-f][0-9A-Fa-f]"
"""Matches an escaped byte above 127."""


class TextProblem(NamedTuple):
    """A problem in a text. The line and column count from 1."""

    line: int
    column: int
    reason: str
    fix: str


def exceeded_limit(text: str) -> TextProblem | None:
    """Return a construct that would crash MLIR's parser or make it loop; None if there is none."""
    fix = "save the module as bytecode, .mlirbc or .stablehlo, which has no such limit"
    deep = deep_brackets(text, MAX_NESTING, "brackets", fix)
    if deep is not None:
        return deep
    # The first pattern and the word are much faster to search for than the exact patterns.
    if re.search(_LONG_PIECE, text) is not None:
        match = re.search(_MANY_DIMENSIONS, text)
        if match is not None:
            reason = "a type has a thousand dimensions or more"
            return _at(text, match.start(), reason, "use arrays of fewer dimensions")
    if "affine_" in text:
        match = re.search(_LONG_AFFINE, text)
        if match is not None:
            reason = f"an affine map is longer than {_MAX_AFFINE} characters"
            return _at(text, match.start(), reason, "remove the map; StableHLO uses no affine maps")
    if "conv" in text:
        match = re.search(_LARGE_SPATIAL, text)
        if match is not None:
            reason = "a spatial dimension of a convolution is 10000 or more"
            return _at(text, match.end() - 5, reason, "number the spatial dimensions from 0")
    if 'reduce"' in text:
        match = re.search(_REDUCE, text)
        if match is not None:  # StableHLO's verifier reads beyond the operands
            reason = "reduce must have an initial value for each operand"
            return _at(text, match.start(), reason, "add the operands of the initial values")
    return _expansion(text)


def crash_risk(text: str) -> TextProblem | None:
    """Return a construct that may crash a process that parses the text; None if there is none.

    The text may also be valid, so the caller parses it in a helper process first.

    StableHLO's verifier crashes if the condition of a loop or the comparator of a sort returns
    other values than tensors. Other regions may return tokens. It also crashes on a reduction of
    one operand without an initial value. MLIR's Python bindings abort on names that are not UTF-8.
    """
    checked: set[str] = set()  # many lines end in the same way
    for match in re.finditer(_RETURN, text):
        types = match[1].partition(":")[2]
        if types not in checked:
            if re.fullmatch(_SOUND_RETURN, match[1]) is None:
                return _at(text, match.start(), "a region must return tensors here", "")
            checked.add(types)
    if "\\" in text:
        for match in re.finditer(_QUOTED, text):
            if match[2] is not None and re.search(_ODD_BYTE, match[1]) is not None:
                return _at(text, match.start(), "a name is not UTF-8 text", "")
    return None


def _at(text: str, place: int, reason: str, fix: str) -> TextProblem:
    line = text.count("\n", 0, place) + 1
    return TextProblem(line, place - text.rfind("\n", 0, place), reason, fix)


def deep_brackets(
    text: str, limit: int, name: str, fix: str, pairs: Sequence[bytes] = _PAIRS
) -> TextProblem | None:
    """Return the first place where brackets nest deeper than `limit`; None if there is none.

    Args:
        text: MLIR or HLO text. Brackets in strings and arrows are not counted.
        limit: the maximum depth.
        name: the subject of the problem's message, such as "brackets".
        fix: the fix of the problem.
        pairs: the pairs of brackets that are counted.
    """
    if not _may_be_deep(text, limit, pairs):
        return None
    opening = b"".join(pairs).decode()[::2]
    counted = b"".join(pairs).decode()
    depth = deepest = place = 0
    for match in re.finditer(_BRACKET, text):
        bracket = match[1]
        if bracket is not None and bracket in counted:
            depth += 1 if bracket in opening else -1
            if depth > limit >= deepest:
                place = match.start()
            deepest = max(deepest, depth)
    if deepest <= limit:
        return None
    return _at(text, place, f"{name} may nest at most {limit} deep, got {deepest}", fix)


def _may_be_deep(text: str, limit: int, pairs: Sequence[bytes]) -> bool:
    """Return whether brackets may nest deeper than `limit`. Much faster than an exact count.

    Each step removes all empty pairs of one kind of brackets, and reduces the depth by at most one.
    After a few steps, few brackets are left to count.
    """
    if '"' in text:
        text = re.sub(_STRING, " ", text)
    # Replacing with text of equal length is faster.
    others = bytes(set(range(256)) - set(b"".join(pairs)))
    brackets = text.encode().replace(b"->", b"  ").translate(None, others)
    steps = (*pairs, *pairs, *pairs)
    for pair in steps:
        brackets = brackets.replace(pair, b"")
    depths = accumulate(1 if bracket in b"([{<" else -1 for bracket in brackets)
    return max(depths, default=0) + len(steps) > limit


_MIN_ALIASES: Final = 20
"""The minimum number of lines with references to two aliases in a text that expands too much."""


def _expansion(text: str) -> TextProblem | None:
    """Return the first alias that expands to more than `_MAX_EXPANSION` characters, or None.

    If each of forty aliases refers to the previous alias twice, the last alias contains 2**40
    copies of the first alias.
    """
    if text.count("#") + text.count("!") < 3 * _MIN_ALIASES:  # faster than splitting lines
        return None
    lines = enumerate(text.split("\n"), 1)
    aliases = [(number, line) for number, line in lines if line.startswith(("#", "!"))]
    if sum(line.count("#") + line.count("!") > 2 for _, line in aliases) < _MIN_ALIASES:
        return None
    sizes: dict[str, int] = {}
    for number, line in aliases:
        alias, _, value = line.partition("=")
        size = len(value) + sum(sizes.get(name, 0) for name in re.findall(_NAMED, value))
        if size > _MAX_EXPANSION:
            reason = (
                f"{alias.strip()[:80]} expands to more than {_MAX_EXPANSION:,} characters through "
                f"nested aliases"
            )
            return TextProblem(number, 1, reason, "refer to fewer aliases in each alias")
        sizes[alias.strip()] = size
    return None
