"""Search the project's code and prose for words that it avoids, and print where they are.

    python tools/check_words.py

The words stand for technical acts that have a usual name in XLA, MLIR or Python: a module contains,
an attribute has, a compiler aborts, an option sets. `make lint` runs this; the exit status is 1 if
a word is found.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from tracked_files import ROOT, tracked_files

WORDS: Final = {
    r"sa(?:id|ying)|unsaid|say(?:s|able)?": "has, contains, declares, reports, prints",
    r"spoken|speaks? of": "public name, refers to",
    r"told|(?<!\.)tells?": "passed, reports, shows",
    r"nobody": "no user, no caller",
    r"in (?:other |its |their |our |whose )?words": "rewritten, expanded, as text",
    r"d(?:ies|ied|ying) (?:of|from|at|in)": "aborts on, crashes on",
    r"borne|noted|begun": "accepted, recorded, started",
    r"(?:is|are|was|has|have|be) (?:asked|begged)": "requested, queried",
    r"(?<!there )is no (?!longer|more|op\b|such)[a-z]+": "is not a",
    r"as far as (?:need be|it goes|they go)": "where needed",
    r"works? out|worked out": "compute, infer, resolve",
    r"what (?:is|was) (?:got|given|left|meant|there)": "the value, the argument, the rest",
    r"put (?:into|in) words": "reported",
    r"the (?:house|rooms?)\b": "the package",
}
"""Patterns to avoid, and what to write."""

SUFFIXES: Final = {".py", ".md", ".ipynb", ".toml"}

EXEMPT: Final = {"tools/check_words.py"}
"""Files that quote the words."""


def findings(text: str) -> list[tuple[int, str, str]]:
    """Return line number, word and replacement for each word of a text that is to be avoided."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in WORDS.items():
            for match in re.finditer(rf"\b(?:{pattern})\b", line, re.IGNORECASE):
                found.append((number, match[0], instead))
    return found


def main() -> int:
    count = 0
    for name in tracked_files():
        path = ROOT / name
        if path.suffix not in SUFFIXES or name in EXEMPT or not path.exists():
            continue
        for number, word, instead in findings(path.read_text(encoding="utf-8")):
            print(f"{name}:{number}: {word!r}; write: {instead}")
            count += 1
    if count:
        print(f"{count} words to avoid")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
