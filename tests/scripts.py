"""Import scripts of the project (tools/, examples/, tests/conformance) as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


def load_script(path: str) -> ModuleType:
    """Import the file at `path`, relative to the project's root."""
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module by name.
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module
