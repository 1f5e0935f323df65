"""Packages import only packages below them, and no modules import each other in a circle.

Imports inside functions count as well; those under TYPE_CHECKING do not, nor do calls of
`extension`, which are listed here. Modules are not imported by other means.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from scripts import ROOT
from tables import each_row

LAYERS = (
    "builder.support",
    "builder.errors",
    "builder.types",
    "builder.checking",
    "builder.layout",
    "builder.attributes",
    "builder.schema",
    "builder.sharding",
    "builder.graph",
    "builder.ops",
    "builder.lib",
    "builder.hlo_text",
    "builder.rewriting",
    "builder.inspection",
    "builder.unknown_names",
    "builder",
    "lowering.errors",
    "lowering.jaxlib_api",
    "lowering.mlir",
    "lowering.reading",
    "lowering.pjrt",
    "lowering.host",
    "lowering.sharding",
    "lowering.ops",
    "lowering.stablehlo",
    "lowering.importer",
    "lowering.legalize",
    "lowering.running",
    "lowering.portable",
    "lowering.interpreter",
    "lowering.test_files",
    "lowering.faults",
    "lowering.jax_interop",
    "lowering.ffi",
    "lowering.xla_client",
    "lowering.cli",
    "lowering",
)
"""From the bottom up. A package imports packages that come before it."""

EXTENSIONS = {
    "builder": {"__getattr__": "lowering"},
    "builder.graph.computation": {
        "diff": "builder.inspection.diff",
        "draw": "builder.inspection.pictures",
        "extract": "builder.rewriting.copying",
        "find": "builder.inspection.find",
        "open_sizes": "builder.inspection.open_sizes",
        "replace": "builder.rewriting.replacing",
        "stats": "builder.inspection.stats",
        "strip_debug": "builder.rewriting.replacing",
        "table": "builder.inspection.table",
        "to_hlo_text": "builder.hlo_text.printer",
        "to_model_explorer": "builder.inspection.pictures.graph_formats",
    },
    "builder.graph.subcomputations": {"__call__": "builder.ops.control_flow"},
    "builder.graph.xla_builder": {
        "__init__": "lowering.jax_interop.values",
        "custom_call": "builder.ops.host",
        "infeed": "builder.ops.host",
        "inline": "builder.rewriting.copying",
        "python_call": "builder.ops.host",
        "recv": "builder.ops.host",
    },
    "builder.graph.xla_op": {
        "__getitem__": "builder.lib.indexing",
        "__matmul__": "builder.lib.matrix",
        "at": "builder.lib.indexing",
        "_meaning_for_numpy": "builder.unknown_names",
    },
    "builder.lib": {"__getattr__": "builder.unknown_names"},
    "builder.support.display": {
        "_parts": "builder.inspection.describing",
        "_repr_html_": "builder.inspection.html",
        "__rich__": "builder.inspection.rendering",
    },
    "builder.support.names": {"__getattr__": "builder.unknown_names"},
    "builder.types.primitive_type": {"__getitem__": "builder.types.shape"},
    "builder.types.shape": {
        "_layout_fault": "builder.types.physical",
        "_physical": "builder.types.physical",
        "_repr_svg_": "builder.layout.drawing",
    },
    "lowering.running.jit": {"_trace_call": "lowering.jax_interop.to_jax"},
    "lowering.stablehlo.module": {
        "_expanded": "lowering.portable",
        "_prepare_artifact": "lowering.legalize",
    },
}
"""The methods whose code is in a package above, by module."""


TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING", "_typing.TYPE_CHECKING")

BY_NAME = {"import_module", "__import__", "reload", "run_module", "spec_from_file_location"}

IMPORTERS_BY_NAME = {"builder.support.imports"}
"""The modules that import other modules by name, besides `lowering.jaxlib_api`."""

LAZY_PACKAGES = {"builder", "builder.layout", "lowering"}
"""The packages whose names are imported when they are first used."""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): path
    for top in ("builder", "lowering")
    for path in (ROOT / top).rglob("*.py")
}


def package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    found = []
    pending = [tree]
    while pending:
        node = pending.pop()
        found.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) in TYPE_CHECKING:
            pending.extend(node.orelse)
        else:
            pending.extend(ast.iter_child_nodes(node))
    return found


def imported_by(tree: ast.AST) -> set[str]:
    """The modules of this project that a module imports anywhere."""
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"imports are absolute: {ast.unparse(node)}"
            assert node.module is not None
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in MODULES else node.module)
    return found & MODULES.keys()


@cache
def trees() -> dict[str, ast.Module]:
    return {module: ast.parse(path.read_text()) for module, path in MODULES.items()}


@cache
def edges() -> dict[str, set[str]]:
    return {module: imported_by(tree) - {module} for module, tree in trees().items()}


def imports_by_name(tree: ast.AST) -> set[str]:
    """The ways in which a module may import modules other than by an import statement."""
    found = set()
    for node in nodes(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=name):
                found |= {name} & BY_NAME if isinstance(name, str) else set()
            case ast.alias(name=name, asname=asname):
                found |= {*name.split(".")} & BY_NAME
                if asname and name.split(".")[0] == "importlib":
                    found.add(f"{name} as {asname}")
    return found


def imports_name(tree: ast.AST, name: str) -> bool:
    """Return whether a module imports `name` from another, under any name."""
    return any(isinstance(node, ast.alias) and node.name == name for node in nodes(tree))


def extension_calls(tree: ast.Module) -> list[tuple[str, str]]:
    """The method and the module of each call of `extension`.

    Raises:
        AssertionError: `extension` is used other than by a call of its name in a method, or in the
            `__getattr__` of a package.
    """
    in_methods: dict[ast.AST, str] = {}
    for parent in ast.walk(tree):
        methods = parent.body if isinstance(parent, ast.ClassDef) else [parent]
        for method in methods:
            if isinstance(method, ast.FunctionDef) and (
                method is not parent or method.name == "__getattr__"
            ):
                in_methods.update(dict.fromkeys(ast.walk(method), method.name))
    found = []
    called = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="extension") as function):
                assert node in in_methods, f"not in a method: {ast.unparse(node)}"
                target, name = (ast.literal_eval(argument) for argument in node.args[:2])
                assert name in {
                    getattr(defined, "name", None) for defined in top_level(trees()[target])
                } | {alias.name for alias in exported(trees()[target])}, ast.unparse(node)
                found.append((in_methods[node], target))
                called.add(function)
            case ast.alias(name="extension", asname=asname):
                assert asname is None, f"extension is imported as {asname}"
            case ast.alias(name="builder.support.imports"):
                raise AssertionError("the module is imported")
            case ast.ImportFrom(module="builder.support", names=names):
                assert "imports" not in {alias.name for alias in names}, ast.unparse(node)
            case ast.Attribute(attr="extension"):
                raise AssertionError(f"an attribute: {ast.unparse(node)}")
    used = {n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "extension"}
    assert used == called, "extension is not called"
    return found


def top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module, also those in the branches of its `if` statements."""
    for node in tree.body:
        yield from node.body + node.orelse if isinstance(node, ast.If) else [node]


def exported(tree: ast.Module) -> Iterator[ast.alias]:
    """The names that a module imports from another."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from node.names


def circles(targets_of: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """The strongly connected components of a graph."""

    def reached_from(start: str) -> set[str]:
        found: set[str] = set()
        pending = [start]
        while pending:
            for target in targets_of[pending.pop()]:
                if target not in found:
                    found.add(target)
                    pending.append(target)
        return found

    reached = {node: reached_from(node) for node in targets_of}
    found: list[set[str]] = []
    for node, targets in reached.items():
        if node in targets and not any(node in circle for circle in found):
            found.append({other for other in targets if node in reached[other]})
    return found


def test_every_package_has_a_layer() -> None:
    assert sorted(LAYERS) == sorted({package_of(module) for module in MODULES})


@each_row("package", LAYERS)
def test_imports_point_down(package: str) -> None:
    below = set(LAYERS[: LAYERS.index(package) + 1])
    upward = {
        f"{module} imports {target}"
        for module, targets in edges().items()
        if package_of(module) == package
        for target in targets
        if package_of(target) not in below
    }
    assert not upward


def test_no_circle_of_modules() -> None:
    assert circles(edges()) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}) == [{"b", "c"}]


@pytest.mark.slow
def test_extensions_are_those_listed() -> None:
    found = {
        module: sorted(calls)
        for module, tree in trees().items()
        if module != "builder.support.imports" and (calls := extension_calls(tree))
    }
    assert found == {module: sorted(calls.items()) for module, calls in EXTENSIONS.items()}
    layers = {package: index for index, package in enumerate(LAYERS)}
    for module, methods in EXTENSIONS.items():
        for target in methods.values():  # below, an import would do
            assert layers[package_of(target)] >= layers[package_of(module)]


@each_row(
    "text",
    [
        "from builder.support.imports import extension as later",
        "import builder.support.imports as later",
        "from builder.support import imports",
        "imports.extension('builder.layout.drawing', 'draw')",
        "extension('builder.layout.drawing', 'draw')",
        "def draw(): return extension('builder.layout.drawing', 'draw')",
        "class A:\n def f(self): later = extension",
        "class A:\n def f(self): return extension('builder.layout.drawing', 'nothing')",
    ],
)
def test_other_uses_of_extension_are_found(text: str) -> None:
    with pytest.raises(AssertionError):
        extension_calls(ast.parse(text))


def test_each_call_of_extension_in_a_method_is_found() -> None:
    call = "extension('builder.layout.drawing', 'draw')"
    tree = ast.parse(f"class A:\n def f(self):\n  def g(): {call}\n  {call}")
    assert extension_calls(tree) == [("f", "builder.layout.drawing")] * 2


def test_modules_are_imported_by_statements() -> None:
    by_name = {
        module: ways
        for module, tree in trees().items()
        if package_of(module) != "lowering.jaxlib_api" and (ways := imports_by_name(tree))
    }
    assert by_name.keys() == IMPORTERS_BY_NAME, by_name
    lazy = {module for module, tree in trees().items() if imports_name(tree, "lazy_name")}
    assert lazy == LAZY_PACKAGES
    assert all(MODULES[module].name == "__init__.py" for module in lazy)


@each_row(
    "text",
    [
        "importlib.import_module('builder.inspection.table')",
        "from importlib import import_module as load",
        "import importlib as load",
        "import importlib.util as load",
        "__import__('builder.inspection.table')",
        "load = builtins.__import__",
        "getattr(importlib, 'import_module')",
    ],
)
def test_an_import_by_name_is_found(text: str) -> None:
    assert imports_by_name(ast.parse(text))


@each_row(
    "condition, counts",
    [
        ("TYPE_CHECKING", False),
        ("typing.TYPE_CHECKING", False),
        ("not TYPE_CHECKING", True),
        ("TYPE_CHECKING or True", True),
        ("sys.TYPE_CHECKING", True),
    ],
)
def test_only_imports_for_type_checkers_are_left_out(condition: str, counts: bool) -> None:
    tree = ast.parse(f"if {condition}:\n import builder.errors")
    assert imported_by(tree) == ({"builder.errors"} if counts else set())


@pytest.mark.parametrize("package", ["builder", "lowering"])
def test_few_modules_stand_outside_packages(package: str) -> None:
    """A module directly in `builder` or `lowering` is for users, or every package needs it."""
    found = {m for m, path in MODULES.items() if path.parent == ROOT / package} - {package}
    assert found <= {"builder.errors", "builder.checking"} | {
        "lowering.errors",
        "lowering.ffi",
    }
