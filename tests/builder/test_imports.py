"""The modules that `import builder` loads, and the dependencies of `builder`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from processes import run_python
from scripts import ROOT
from tables import each_row

PACKAGE = ROOT / "builder"
MODULES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imported_at_load(path: Path) -> Iterator[str]:
    """Return the modules that a module imports when it loads."""
    pending = list(ast.parse(path.read_text()).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            yield node.module
            # `from builder import shape` imports a module as well.
            yield from (
                f"{node.module}.{alias.name}"
                for alias in node.names
                if (ROOT / node.module.replace(".", "/") / f"{alias.name}.py").exists()
                or (ROOT / node.module.replace(".", "/") / alias.name).is_dir()
            )
        elif not is_type_checking(node) and not isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef)
        ):
            pending.extend(c for c in ast.iter_child_nodes(node) if isinstance(c, ast.stmt))


def test_importing_builder_imports_nothing_heavy() -> None:
    program = (
        "import sys, builder\n"
        "import builder.ops, builder.hlo_text\n"
        "import builder.inspection.table, builder.inspection.stats, builder.inspection.diff\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = run_python("-c", program)
    loaded = set(done.stdout.split())
    assert {"builder", "numpy"} <= loaded
    assert not loaded & {"jax", "jaxlib", "scipy", "lowering", "hypothesis", "pytest", "rich"}
    assert "ml_dtypes" not in loaded  # loaded when one of its types is first used


FIRST_USES = {
    "its dtype": "xb.bf16.dtype.name == 'bfloat16'",
    "its range": "(xb.s4.min, xb.s4.max) == (-8, 7)",
    "a constant": "xb.XlaBuilder().constant(1.5, xb.bf16).shape is xb.bf16[()]",
    "a name": "xb.as_primitive_type('f8e4m3fn').dtype.itemsize == 1",
    "of an array": "xb.as_primitive_type(__import__('ml_dtypes').int4) is xb.s4",
    "a copy": "__import__('copy').copy(xb.u2) is xb.u2 and xb.u2.max == 3",
}


@each_row("use", FIRST_USES.values())
def test_ml_dtypes_is_loaded_at_first_use(use: str) -> None:
    program = (
        "import sys, builder as xb\n"
        "x = xb.XlaBuilder('f').parameter(xb.bf16[2])\n"
        "y = x.builder.constant(2.0, xb.f32)\n"
        "print(x + x, y, x.shape, hash(xb.bf16), xb.f32.max)\n"
        "assert 'ml_dtypes' not in sys.modules\n"
        f"assert {use}\n"
        "assert 'ml_dtypes' in sys.modules\n"
        "assert all(t.dtype is not None for t in xb.types.primitive_type.ALL)"
    )
    run_python("-c", program)


@each_row("path", MODULES)
def test_dependencies_are_numpy_and_ml_dtypes(path: Path) -> None:
    # Imports inside functions count.
    packages = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            packages.add((node.module or "").split(".")[0])
    allowed = {"builder", "numpy", "ml_dtypes"}
    if module_name(path).startswith("builder.inspection."):
        # Tables need rich, and drawing graphs needs pygraphviz. Both are imported when used.
        allowed |= {"rich", "pygraphviz"}
        loaded = {name.split(".")[0] for name in imported_at_load(path)}
        assert not {"rich", "pygraphviz"} & loaded
    assert packages <= sys.stdlib_module_names | allowed
