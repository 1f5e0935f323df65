"""docs/stability.md has the versions that the project requires, and the text of a deprecation."""

from __future__ import annotations

import re
import tomllib

import pytest
from scripts import ROOT

from builder.support.deprecation import deprecated
from lowering.jaxlib_api import versions
from lowering.stablehlo.versions import FLOOR

PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def supported(name: str) -> str:
    """Return the column "Supported" of a row."""
    (row,) = re.findall(rf"^\| {re.escape(name)} \| (.*?) \|", PAGE, re.MULTILINE)
    return row


def test_the_versions_of_jax() -> None:
    listed = supported("jax, jaxlib").split(", ")
    minors = [int(version.removeprefix("0.")) for version in listed]
    assert minors == [*range(minors[0], minors[-1] + 1)]
    bounds = f">=0.{minors[0]},<0.{minors[-1] + 1}"
    assert {f"jax{bounds}", f"jaxlib{bounds}"} <= set(PROJECT["dependencies"])


def test_the_versions_of_python_numpy_and_stablehlo() -> None:
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert supported("Python").startswith(f"{oldest} and later")
    (numpy,) = (line for line in PROJECT["dependencies"] if line.startswith("numpy"))
    assert supported("NumPy").startswith(f"{numpy.removeprefix('numpy>=')} and later")
    assert f"from {versions.minimum_version()} on" in supported("StableHLO")
    assert f"from version {FLOOR} on" in supported("portable artifact, `.stablehlo`")


def test_the_warning_of_a_deprecated_name() -> None:
    pattern = r"^DeprecationWarning: (\S+) is deprecated since (\S+) .*: use (.*)$"
    ((name, since, use),) = re.findall(pattern, PAGE, re.MULTILINE)
    old = deprecated(name, since=since, use=use)(lambda: None)
    with pytest.warns(DeprecationWarning, match="deprecated") as shown:
        old()
    assert f"\nDeprecationWarning: {shown[0].message}\n" in PAGE
