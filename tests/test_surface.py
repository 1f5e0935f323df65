"""The public names and their signatures are those of tests/surface.txt."""

from __future__ import annotations

import inspect
import pydoc
import re

import pytest
from scripts import ROOT, load_script

import builder as xb
import lowering
from builder import lib

OURS = ("builder", "lowering")

CLASSES = {
    value
    for package in (xb, lib, lowering)
    for name in package.__all__
    if inspect.isclass(value := getattr(package, name))
}


def test_the_committed_file_is_current() -> None:
    committed = (ROOT / "tests" / "surface.txt").read_text(encoding="utf-8")
    assert committed == load_script("tools/write_surface.py").document(), (
        "the interface changed; if that is intended, run tools/write_surface.py"
    )


@pytest.mark.parametrize("cls", [xb.XlaOp, xb.XlaBuilder], ids=lambda cls: cls.__name__)
def test_dir_and_help_show_only_members(cls: type) -> None:
    """The names of other libraries have suggestions, and are no members."""
    shown = {name for name in dir(cls) if not name.startswith("_")}
    slots = {name for base in cls.__mro__ for name in getattr(base, "__slots__", ())}
    methods = {
        name for base in cls.__mro__ for name in base.__dict__ if callable(getattr(cls, name))
    }
    assert not {"T", "sum", "reshape", "Parameter", "dtype"} & {*shown, *slots, *methods}
    text = pydoc.render_doc(cls, renderer=pydoc.plaintext)
    assert " reshape" not in text.partition("Methods defined here")[2]
    b = xb.XlaBuilder()
    owner = b if cls is xb.XlaBuilder else b.parameter(xb.f32[2])
    assert shown == {name for name in dir(owner) if not name.startswith("_")}
    assert all(hasattr(owner, name) for name in shown)


def documented(cls: type) -> set[str]:
    """The names in the sections "Attributes:" and "Args:" of a class and its bases."""
    texts = [inspect.cleandoc(base.__doc__ or "") for base in cls.__mro__]
    sections = [
        text.partition(f"{title}:\n")[2].partition("\n\n")[0]
        for text in texts
        for title in ("Attributes", "Args")
    ]
    lines = re.findall(r"^    (\w+(?:, \w+)*):", "\n".join(sections), re.MULTILINE)
    return {name for line in lines for name in line.split(", ")}


def test_members_of_classes_have_docstrings() -> None:
    """A docstring of their own, or a line in the docstring of the class."""
    undocumented = {
        f"{cls.__name__}.{name}"
        for cls in CLASSES
        for name in {
            n for base in cls.__mro__ if base.__module__.split(".")[0] in OURS for n in vars(base)
        }
        if not name.startswith("_")
        and name not in documented(cls)
        and not inspect.getdoc(inspect.getattr_static(cls, name))
    }
    assert not undocumented
