"""`xla_client` uses the public API of `builder` and `lowering`, as any front end could."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from scripts import ROOT
from tables import each_row

import builder as xb
import lowering

FILES = sorted((ROOT / "lowering" / "xla_client").glob("*.py"))

OTHER_PACKAGES = r"builder\b|lowering\.(?!xla_client\b)"

PRIVATE = {
    "encoded_field": "the old protocol buffers of shapes and of device assignments",
    "encoded_number": "the old protocol buffers of shapes and of device assignments",
    "fields_of": "the old protocol buffers of device assignments",
    "numbers_in": "the old protocol buffers of device assignments",
    "share_memory": "buffers in the memory of arrays",
    "hlo_proto_text": "an HloModule that is not imported as a computation",
    "proto_of_text": "an HloModule that is not imported as a computation",
    "native": "the names of jaxlib's runtime",
}
"""The private names that are used, and for what."""

MODULES = {"pjrt_devices": ["devices"], "custom_calls": ["register_custom_call_target"]}
"""The modules whose functions have the names of functions here, and the functions used."""


@each_row("path", FILES)
def test_names_are_public(path: Path) -> None:
    public = {*xb.__all__, *dir(xb.errors), *lowering.__all__, *PRIVATE, "custom_calls", "lib"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and re.match(OTHER_PACKAGES, node.module or ""):
            assert {alias.name for alias in node.names} <= public
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = {"xb": xb.__all__, **MODULES}.get(node.value.id)
            assert names is None or node.attr in names, node.lineno
