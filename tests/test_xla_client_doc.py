"""docs/xla_client.md is the output of tools/write_xla_client.py, and names what exists."""

from __future__ import annotations

import re

from scripts import ROOT, load_script
from tables import each_row

import builder as xb
import lowering
from builder import lib
from lowering import xla_client as xc

writer = load_script("tools/write_xla_client.py")

OBJECTS = {"xb": xb, "lib": lib, "lowering": lowering, "b": xb.XlaBuilder, "xc": xc, "ops": xc.ops}
NEW_NAMES = {"ChannelHandle", "FrontendAttributes", "HloModule", "ExecutableBuildOptions"}
"""The names of `xla_extension` that `xla_client` has too."""


def test_the_committed_file_is_current() -> None:
    committed = (ROOT / "docs" / "xla_client.md").read_text(encoding="utf-8")
    assert committed == writer.document(), "run `make docs`"


def test_all_names_are_listed() -> None:
    modules = {name for name in vars(xc) if re.fullmatch("[a-z_]+", name)} - set(writer.TYPES)
    names = {name for name in vars(xc) if not name.startswith("_")} - modules
    internal = {"ResultAccuracy_Mode", "execute_with_python_values_replicated"}
    assert names - internal - NEW_NAMES == set(writer.TYPES) - {"ops"} & names | names & {"ops"}


@each_row("name", writer.METHODS)
def test_methods_exist(name: str) -> None:
    kind, method = name.split(".")
    assert callable(getattr(getattr(xc, kind), method))


def test_absent_names_are_absent() -> None:
    names = [n for group in writer.ABSENT for n in group.split(", ") if " " not in n]
    for name in names:
        kind, _, attribute = name.rpartition(".")
        assert not hasattr(getattr(xc._xla, kind) if kind else xc, attribute), name


def test_new_names_exist() -> None:
    code = " ".join(re.findall("`([^`]+)`", writer.document()))
    for prefix, name in set(re.findall(r"\b(xb|lib|lowering|b|xc|ops)\.([A-Za-z_0-9]+)", code)):
        found = OBJECTS[prefix]
        assert name == "xla_client" or hasattr(found, name), f"{prefix}.{name}"


def test_programs_of_the_page() -> None:
    old, new = re.findall(r"```python\n(.*?)```", writer.HEAD, re.DOTALL)
    results = {}
    for program in (old, new):
        # A computation of a function requires its source, which a file would have.
        names: dict[str, object] = {}
        exec("import numpy as np\n" + program, names)
        results[program] = names["y"]
    assert [list(map(float, value)) for value in results.values()] == [[2, 3, 4]] * 2  # type: ignore[call-overload]
