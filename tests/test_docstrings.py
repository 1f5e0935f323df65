"""Run the examples in docstrings, and check that every public operation has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest
from printed_numbers import same_output
from processes import run_python
from scripts import ROOT
from tables import each_row

import builder as xb

FLAGS = doctest.ELLIPSIS


def module_names(package: str) -> list[str]:
    """Return the names of a package and its modules, without importing them."""
    names = [package]
    for info in pkgutil.iter_modules([str(ROOT / package.replace(".", "/"))]):
        name = f"{package}.{info.name}"
        names += module_names(name) if info.ispkg else [name]
    return names


class Checker(doctest.OutputChecker):
    """Accepts also outputs that differ only by rounding errors."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or same_output(want, got)


def run_examples(name: str) -> tuple[int, str]:
    """Run the examples of a module; return their number and the report of failures."""
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(Checker(), optionflags=FLAGS)
    report: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(test, out=report.append)
    return runner.tries, "".join(report)


def packages() -> dict[str, list[str]]:
    """Return the names of all modules by package, such as builder.ops."""
    found: dict[str, list[str]] = {}
    for name in (*module_names("builder"), *module_names("lowering")):
        found.setdefault(".".join(name.split(".")[:2]), []).append(name)
    return found


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize("package", packages())
def test_examples(
    package: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The compilation cache must not be written to the user's folder.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp()))
    report = "".join([run_examples(name)[1] for name in packages()[package]])
    assert not report, report


PROGRAM = """
import doctest, importlib, sys
tries = 0
for name in sys.argv[1:]:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert not result.failed, name
    tries += result.attempted
loaded = {name.split(".")[0] for name in sys.modules} & {"jax", "jaxlib", "lowering", "scipy"}
assert not loaded, loaded
print(tries)
"""


@pytest.mark.slow
def test_the_examples_of_builder_need_no_jax() -> None:
    done = run_python("-c", PROGRAM, *module_names("builder"))
    # Each operation has at least two examples: the import and a call.
    assert int(done.stdout) > 2 * len(xb.OPERATIONS)


@pytest.mark.parametrize(
    ("source", "want", "got"), [("1 + 1", "3", "2"), ("1 / 3", "0.333334", "0.3333333333333333")]
)
def test_a_wrong_example_is_reported(
    source: str, want: str, got: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xb.abs, "__doc__", f">>> {source}\n{want}\n")
    _, report = run_examples("builder.ops.elementwise.unary")
    assert f"Expected:\n    {want}\nGot:\n    {got}" in report


def test_an_example_may_differ_by_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xb.abs, "__doc__", ">>> 1 / 3\n0.33333334\n")
    _, report = run_examples("builder.ops.elementwise.unary")
    assert not report


def shared_sections(name: str) -> str:
    """Return the docstring that describes the arguments of unary and binary ops."""
    if re.fullmatch(
        r".*elementwise\.(unary|binary|comparison)", xb.OPERATIONS[name].function.__module__
    ):
        return inspect.getdoc(xb.ops.elementwise) or ""
    return ""


@each_row("name", xb.OPERATIONS)
class TestEveryOperation:
    def test_docstring(self, name: str) -> None:
        document = inspect.getdoc(xb.OPERATIONS[name].function) or ""
        summary = document.split("\n")[0]
        assert len(summary) > 8
        assert re.search(r"^ +>>> .*\b" + re.escape(name) + r"\(", document, re.MULTILINE), (
            "an example that calls it"
        )
        parameters = set(inspect.signature(xb.OPERATIONS[name].function).parameters) - {"self"}
        shared = shared_sections(name)
        for heading in (*(["Args:"] if parameters else []), "Returns:", "Example:"):
            assert f"\n{heading}\n" in document + shared, heading
        assert re.search(
            r"^(Operation Semantics: .+\.|Not in Operation Semantics; .+)$", document, re.MULTILINE
        ), "the line with the section of the document"

    def test_example_shows_a_result(self, name: str) -> None:
        document = inspect.getdoc(xb.OPERATIONS[name].function) or ""
        examples = doctest.DocTestParser().get_examples(document)
        assert any(example.want for example in examples)

    def test_is_public(self, name: str) -> None:
        info = xb.OPERATIONS[name]
        owner = xb.XlaBuilder if info.is_method else xb
        assert getattr(owner, name) is info.function
        for alias in info.aliases:
            assert getattr(owner, alias).__wrapped__ is info.function

    def test_every_argument_is_described(self, name: str) -> None:
        info = xb.OPERATIONS[name]
        document = (inspect.getdoc(info.function) or "") + shared_sections(name)
        for parameter in inspect.signature(info.function).parameters.values():
            variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if parameter.name == "self" or (variadic and name == "conditional"):
                continue
            assert re.search(rf"\b{parameter.name}\b", document), parameter.name
