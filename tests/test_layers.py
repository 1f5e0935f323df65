"""Packages import only packages below them, and import cycles of modules are small.

Imports inside functions count. Imports under TYPE_CHECKING and calls of `extension`, which are
listed here, do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from scripts import ROOT

LAYERS = (
    "builder.support",
    "builder.errors",
    "builder.types",
    "builder.check",
    "builder.layout",
    "builder.attributes",
    "builder.schema",
    "builder.sharding",
    "builder.shape_inference",
    "builder.graph",
    "builder.ops",
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
    "lowering.stablehlo",
    "lowering.importer",
    "lowering.legalize",
    "lowering.running",
    "lowering.interpreter",
    "lowering.ffi",
    "lowering.cli",
    "lowering",
)
"""From the bottom up. A package imports packages that come before it."""

EXTENSIONS = {
    "builder.graph.computation": {
        "diff": "builder.inspection.comparing",
        "extract": "builder.rewriting.extracting",
        "find": "builder.inspection.find",
        "replace": "builder.rewriting.replacing",
        "stats": "builder.inspection.counting",
        "table": "builder.inspection.table",
        "to_hlo_text": "builder.hlo_text.module",
    },
    "builder.graph.subcomputations": {"__call__": "builder.ops.control_flow"},
    "builder.graph.xla_builder": {
        "custom_call": "builder.ops.host",
        "infeed": "builder.ops.host",
        "inline": "builder.rewriting.inlining",
        "python_call": "builder.ops.host",
        "recv": "builder.ops.host",
    },
    "builder.types.shape": {"_repr_svg_": "builder.layout.drawing"},
    "lowering.stablehlo.module": {"_prepare_artifact": "lowering.legalize"},
}
"""The methods that are implemented in a package above, by module."""

MAX_CYCLE_SIZE = 8


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


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes except those under `if TYPE_CHECKING:`."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
        else:
            pending.extend(ast.iter_child_nodes(node))


def imported_by(path: Path) -> set[str]:
    """Return the modules of this project that a module imports anywhere."""
    modules = set()
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                modules.add(full if full in MODULES else node.module)
    return modules & MODULES.keys()


EDGES = {module: imported_by(path) - {module} for module, path in MODULES.items()}


def cycles(edges: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Return the strongly connected components that have a cycle."""

    def reachable_from(start: str) -> set[str]:
        visited: set[str] = set()
        pending = [start]
        while pending:
            for target in edges[pending.pop()]:
                if target not in visited:
                    visited.add(target)
                    pending.append(target)
        return visited

    reachable = {node: reachable_from(node) for node in edges}
    components: list[set[str]] = []
    for node, targets in reachable.items():
        if node in targets and not any(node in component for component in components):
            components.append({other for other in targets if node in reachable[other]})
    return components


def test_every_package_has_a_layer() -> None:
    assert sorted(LAYERS) == sorted({package_of(module) for module in MODULES})


@pytest.mark.parametrize("package", LAYERS)
def test_imports_point_down(package: str) -> None:
    below = set(LAYERS[: LAYERS.index(package) + 1])
    upward = {
        f"{module} imports {target}"
        for module, targets in EDGES.items()
        if package_of(module) == package
        for target in targets
        if package_of(target) not in below
    }
    assert not upward


def test_cycles_of_modules_are_small() -> None:
    assert all(len(cycle) <= MAX_CYCLE_SIZE for cycle in cycles(EDGES)), cycles(EDGES)


def test_cycles() -> None:
    assert cycles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}) == [{"b", "c"}]


def test_extensions_are_those_listed() -> None:
    found: dict[str, dict[str, str]] = {}
    for module, path in MODULES.items():
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id == "extension"
                ):
                    target, name = (ast.literal_eval(argument) for argument in node.args)
                    assert name in MODULES[target].read_text()
                    found.setdefault(module, {})[function.name] = target
    assert found == EXTENSIONS
    layers = {package: index for index, package in enumerate(LAYERS)}
    for module, methods in EXTENSIONS.items():
        for target in methods.values():  # otherwise a plain import suffices
            assert layers[package_of(target)] > layers[package_of(module)]


@pytest.mark.parametrize("package", ["builder", "lowering"])
def test_few_modules_are_outside_packages(package: str) -> None:
    """A module directly in `builder` or `lowering` is public, or every package needs it."""
    modules = {m for m, path in MODULES.items() if path.parent == ROOT / package} - {package}
    assert modules <= {"builder.errors", "builder.check", "builder.unknown_names"} | {
        "lowering.errors",
        "lowering.ffi",
    }
