"""One line that states what to install."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path

import pytest
from processes import run_python
from scripts import ROOT

from builder.support.imports import REQUIREMENTS, missing_requirement

BLOCKED = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Finder())
"""


def without(packages: str, program: str, *, status: int = 1) -> list[str]:
    """Run a program in a process without some packages; return the lines of standard error."""
    code = BLOCKED.format(packages=packages.split()) + program
    return run_python("-c", code, status=status).stderr.splitlines()


def test_requirements_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for name, install in REQUIREMENTS.items():
        if install.startswith("xlabuilder["):
            (requirement,) = extras[install.removeprefix("xlabuilder[").removesuffix("]")]
            assert requirement.startswith(f"{name}>")
            assert not any(line.startswith(name) for line in project["dependencies"])
        else:
            assert install in project["dependencies"]
    assert REQUIREMENTS["jax"].startswith("jax>")  # which requires its jaxlib


@pytest.mark.slow
@pytest.mark.parametrize(
    ("packages", "name"),
    [
        *itertools.product(["jax jaxlib", "jaxlib"], ["lower", "compile", "ffi"]),
        ("jax", "compile"),  # the others need jaxlib only
    ],
)
def test_names_of_lowering(packages: str, name: str) -> None:
    lines = without(packages, f"import lowering\nlowering.{name}\n")
    assert len(lines) < 8
    assert sum(line.startswith("Traceback") for line in lines) == 1
    error, _, install = lines[-1].partition(": run ")
    assert error.startswith(f"ModuleNotFoundError: lowering.{name} requires jax")
    assert install == '`pip install "jax>=0.10,<0.13"`'


def test_a_from_import() -> None:
    lines = without("jax jaxlib", "from lowering import compile\n")
    error, _, install = lines[-1].partition(": run ")
    assert error.startswith("ModuleNotFoundError: lowering.compile requires jax")
    assert install.startswith("`pip install")


def test_lowering_is_imported_without_jax() -> None:
    program = (
        "import lowering\nassert 'compile' in dir(lowering)\nassert not hasattr(lowering, '_x')"
    )
    assert without("jax jaxlib", program, status=0) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("packages", "arguments", "message"),
    [
        ("click", "", 'xlabuilder requires click: run `pip install "click>=8.2"`'),
        ("click", "ops add", 'xlabuilder requires click: run `pip install "click>=8.2"`'),
        ("jaxlib", "devices", 'xlabuilder requires jaxlib: run `pip install "jax>=0.10,<0.13"`'),
        ("jax jaxlib", "devices", 'xlabuilder requires jax: run `pip install "jax>=0.10,<0.13"`'),
    ],
)
def test_the_command(packages: str, arguments: str, message: str) -> None:
    program = f"sys.argv[1:] = {arguments.split()}\nfrom lowering.cli import main\nmain()\n"
    assert without(packages, program) == [message]


@pytest.mark.parametrize("file", ["builder/__init__.py", "builder.py"])
@pytest.mark.parametrize("first", ["", "import builder\n", "from lowering.cli import main\n"])
def test_another_package_builder(file: str, first: str, tmp_path: Path) -> None:
    other = tmp_path / file
    other.parent.mkdir(exist_ok=True)
    other.write_text("answer = 42\n")
    # The current folder comes before PYTHONPATH.
    done = run_python("-c", f"{first}import lowering\n", status=1, cwd=tmp_path)
    assert done.stderr.count("Traceback") == 1
    error, fix = done.stderr.splitlines()[-2:]
    assert error.startswith("ImportError: lowering requires the package builder of xlabuilder, ")
    assert error.endswith(f"`import builder` finds another one: {other}")
    assert fix == f"fix: remove or rename it, or put {ROOT}/ before its folder on sys.path"


def test_builder_through_another_path(tmp_path: Path) -> None:
    """A link to the folder of the packages, and a namespace, are not other packages."""
    (tmp_path / "link").symlink_to(ROOT)
    (tmp_path / "builder").mkdir()
    program = "import builder, sys\nsys.path.insert(0, 'link')\nimport lowering\nlowering.errors\n"
    run_python("-c", program, cwd=tmp_path)


@pytest.mark.parametrize("text", ["answer = 42\n", None])
def test_a_builder_whose_files_another_distribution_replaced(
    text: str | None, tmp_path: Path
) -> None:
    """None: the other distribution was uninstalled, with the file that it had replaced."""
    (tmp_path / "lowering").symlink_to(ROOT / "lowering")
    own = tmp_path / "builder"
    own.mkdir()
    for path in (ROOT / "builder").iterdir():
        (own / path.name).symlink_to(path)
    (own / "__init__.py").unlink()
    if text is not None:
        (own / "__init__.py").write_text(text)
    program = f"import sys\nsys.path.remove({str(ROOT)!r})\nimport lowering\nlowering.compile\n"
    done = run_python("-c", program, status=1, cwd=tmp_path)
    error, fix = done.stderr.splitlines()[-2:]
    assert error.startswith("ImportError: lowering requires the package builder of xlabuilder, ")
    assert error.endswith(f"replaced its files in {own}")
    assert fix.startswith("fix: uninstall that distribution, ")


DRAW = """
import builder as xb
b = xb.XlaBuilder("model")
graph = b.build(xb.abs(b.parameter(xb.f32[2]))).draw()
assert graph.dot().startswith("digraph")
graph.svg()
"""


def test_pictures_without_pygraphviz() -> None:
    assert without("pygraphviz", DRAW)[-1] == (
        'ModuleNotFoundError: draw requires pygraphviz: run `pip install "xlabuilder[draw]"`, '
        "or use draw().dot() with another program"
    )


def test_the_command_draw_without_pygraphviz(tmp_path: Path) -> None:
    program = tmp_path / "add.hlo"
    program.write_text(
        "HloModule add\n\nENTRY %add (x: f32[2]) -> f32[2] {\n"
        "  %x = f32[2]{0} parameter(0)\n  ROOT %y = f32[2]{0} add(%x, %x)\n}\n"
    )
    out = tmp_path / "add.svg"
    arguments = ["draw", str(program), "-o", str(out)]
    command = f"sys.argv[1:] = {arguments}\nfrom lowering.cli import main\nmain()\n"
    assert without("pygraphviz", command) == [
        f"xlabuilder: {out}: an .svg file requires pygraphviz",
        'fix: run `pip install "xlabuilder[draw]"`, or write a .dot or .json file',
    ]


def test_other_modules_are_left() -> None:
    error = ModuleNotFoundError("No module named 'pandas'", name="pandas")
    assert missing_requirement(error, "lowering.compile") is error
