"""Names that packages import at first use."""

from __future__ import annotations

import ast
import importlib
import pickle
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from processes import run_python
from scripts import ROOT

import builder as xb
import lowering
from builder import layout, lib

PACKAGES = (xb, layout, lowering)


def type_checking_imports(package: ModuleType) -> dict[str, str]:
    """Return the module of each name that the package imports under `if TYPE_CHECKING:`."""
    assert package.__file__ is not None
    modules = {}
    for node in ast.parse(Path(package.__file__).read_text()).body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for imported in node.body:
                assert isinstance(imported, ast.ImportFrom)
                assert imported.module is not None
                for alias in imported.names:
                    assert alias.asname == alias.name  # a re-export, for type checkers
                    modules[alias.name] = imported.module
    return modules


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_type_checkers_see_the_same_names(package: ModuleType) -> None:
    lazy = package._LAZY
    imports = type_checking_imports(package)
    # Imports from the package itself are submodules.
    assert lazy == {n: module for n, module in imports.items() if module != package.__name__}
    assert list(lazy) == sorted(lazy)
    for name, module in imports.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)
    assert set(lazy) - {"__version__"} <= set(package.__all__)
    # Importing a submodule of that name would replace the name.
    folder = Path(str(package.__file__)).parent
    assert not {path.stem for path in folder.iterdir()} & set(lazy)


@pytest.mark.parametrize("package", [layout, lowering], ids=lambda package: package.__name__)
def test_an_unknown_name(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"lowre(: there is no such name|'$)"):
        package.lowre  # noqa: B018  (the access is the test)
    assert not hasattr(package, "__wrapped__")


def test_names_of_lowering_are_imported_at_first_use() -> None:
    program = (
        "import sys, lowering\n"
        "assert 'jaxlib' not in sys.modules and 'numpy' not in sys.modules\n"
        "assert lowering.jaxlib_api.__name__ == 'lowering.jaxlib_api'\n"
        "import lowering.jaxlib_api.mlir\n"
        "assert 'jaxlib' in sys.modules and 'jax' not in sys.modules\n"
        "assert lowering.ffi.__name__ == 'lowering.ffi'\n"
        "assert 'compile' not in vars(lowering)\n"
        "assert lowering.compile is lowering.compile is vars(lowering)['compile']\n"
    )
    assert run_python("-c", program).stderr == ""


def test_jax_is_imported_by_rules_for_jax_only() -> None:
    """Importing `lowering.ops` reads no attribute of a module that `lazy_jax` imports."""
    program = (
        "from lowering.jaxlib_api import lazy_jax\n"
        "def refuse(module, name):\n"
        "    raise AssertionError(f'{module.__name__}.{name} is read')\n"
        "type(lazy_jax.jax).__getattr__ = refuse\n"
        "import lowering.ops, lowering.importer, lowering.stablehlo.lower\n"
    )
    assert run_python("-c", program).stderr == ""
    for path in (ROOT / "lowering" / "ops").rglob("*.py"):
        assert not re.search(r"^(from|import) jax\b", path.read_text(), re.MULTILINE), path


@pytest.mark.parametrize("package", [*PACKAGES, lib], ids=lambda package: package.__name__)
def test_dir_lists_the_public_names(package: ModuleType) -> None:
    """The names that the package re-exports (``name as name``), and the names that it assigns."""
    assert package.__file__ is not None
    reexported = set()
    body = ast.parse(Path(package.__file__).read_text()).body
    nested = [
        node
        for each in body
        if isinstance(each, (ast.If, ast.With))
        for node in each.body + getattr(each, "orelse", [])
    ]
    for node in body + nested:
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names if alias.asname == alias.name}
            reexported |= {name for name in names if not name.startswith("_")}
        elif isinstance(node, ast.Assign):
            targets = {target.id for target in node.targets if isinstance(target, ast.Name)}
            reexported |= {name for name in targets if not name.startswith("_")}
    public = reexported | ({"layout"} if package is xb else set())
    assert dir(package) == package.__all__ == sorted(public)


def test_both_packages_have_the_version_of_the_changelog() -> None:
    (newest, *_) = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert xb.__version__ == lowering.__version__ == newest
    assert f"\nVersion {newest}, tested with " in (ROOT / "README.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    attribute = project["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    assert attribute == "builder.__version__"  # a literal, so that builds do not import it


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_the_import_leaves_the_garbage_collector_as_it_was(before: str) -> None:
    program = f"import gc; gc.{before}(); import builder; print(gc.isenabled())"
    assert run_python("-c", program).stdout == f"{before == 'enable'}\n"


@pytest.mark.parametrize(
    ("before", "generation", "frozen"),
    [("", 2, False), ("gc.freeze()", 0, True), ("gc.disable()", 0, False)],
    ids=["moved", "frozen before", "disabled before"],
)
def test_the_import_moves_its_objects_to_the_oldest_generation(
    before: str, generation: int, frozen: bool
) -> None:
    program = f"""
import gc
gc.collect()
gc.set_threshold(1_000_000)
{before}
import builder
print([any(o is builder.__dict__ for o in gc.get_objects(g)) for g in range(3)].index(True))
print(gc.get_freeze_count() > 0)
"""
    assert run_python("-c", program).stdout == f"{generation}\n{frozen}\n"


def test_a_star_import_has_all_names() -> None:
    program = (
        "from lowering import *\n"
        "import lowering\n"
        "assert set(lowering.__all__) <= set(globals())\n"
        "assert set(lowering.__all__) <= set(dir(lowering))\n"
    )
    run_python("-c", program)


IMPORT_IN_FORKS = """
import gc, importlib, os, sys
import builder.lib, jax  # the same for all; neither imports lowering
gc.disable()
for module in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        importlib.import_module(module)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(module)
"""


@pytest.mark.slow
def test_each_module_can_be_imported_first() -> None:
    assert run_python("-c", IMPORT_IN_FORKS, *sorted(set(lowering._LAZY.values()))).stdout == ""


def test_pickles_load_before_lowering_is_imported() -> None:
    dumped = pickle.dumps([lowering.compile, lowering.ModuleFileError, xb.Mesh, layout.pack])
    run_python("-c", f"import pickle; assert len(pickle.loads({dumped!r})) == 4")


WITHOUT_JAX = """
import sys


class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "jax":
            raise AssertionError(f"{name} is imported")


sys.meta_path.insert(0, Refused())
import builder as xb
import lowering
from lowering.cli import main

folder = sys.argv[1]
b = xb.XlaBuilder("model")
x, i = b.parameter(xb.f32[4, 4], "x"), b.parameter(xb.s32[2], "i")
sums = xb.while_(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + s[1]), (0, xb.exp(x)))[1]
computation = b.build(xb.tuple(xb.reduce(sums, 0, xb.add, [0]), x[i], xb.cholesky(x)))
module = lowering.lower(computation)
assert module.text and module.bytecode and module.artifact()
module.save(f"{folder}/model.stablehlo")
loaded = lowering.load(f"{folder}/model.stablehlo")
assert not lowering.to_computation(loaded).diff(computation)
text = computation.to_hlo_text()
assert lowering.from_hlo(text).program_shape == computation.program_shape
assert lowering.to_hlo_proto(computation)
assert str(computation.stats()) and str(computation.table())
assert computation.draw()._repr_html_()
computation.draw().save(f"{folder}/model.dot")
module.save(f"{folder}/model.mlirbc")
for command in (
    ["inspect", "model.stablehlo"],
    ["convert", "model.stablehlo", "model.mlir"],
    ["convert", "model.stablehlo", "model.hlo"],
    ["convert", "model.hlo", "model.mlirbc"],
    ["inspect", "model.hlo"],
    ["diff", "model.stablehlo", "model.mlir"],
    ["draw", "model.mlir", "-o", "model.svg"],
):
    paths = [f"{folder}/{a}" if a.startswith("model.") else a for a in command]
    try:
        main(paths)
    except SystemExit as end:
        assert not end.code, command
assert not any(name.partition(".")[0] == "jax" for name in sys.modules)
"""


def test_exports_and_files_need_no_jax(tmp_path: Path) -> None:
    """Importing jax takes longer than the export of a small program."""
    run_python("-c", WITHOUT_JAX, str(tmp_path))
