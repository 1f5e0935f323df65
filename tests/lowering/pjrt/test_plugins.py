"""Registering PJRT plugins. A plugin with devices is not at hand: these can't start."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from processes import run_python

import builder as xb
import lowering
from lowering.legalize import legalize

# A plugin of a version that jaxlib does not support: only the sizes and the version are set.
OLD_PLUGIN = """
#include <stddef.h>
struct Version { size_t size; void *extension; int major, minor; };
struct Api { size_t size; void *extension; struct Version version; void *functions[300]; };
static struct Api api = {sizeof(struct Api), 0, {sizeof(struct Version), 0, 0, 1}};
const void *GetPjrtApi(void) { return &api; }
"""

PROGRAM = """
import sys
import lowering
old, text = sys.argv[1:]

def report(function, *arguments):
    try:
        function(*arguments)
    except lowering.DeviceError as error:
        print(error, flush=True)
        print("--")

report(lowering.register_plugin, "mine", text)
lowering.register_plugin("mine", old, {"log_level": 3, "cache": "x", "sizes": [1, 2]})
report(lowering.register_plugin, "mine", old)
report(lowering.register_plugin, "cpu", old)
report(lowering.devices, "mine")
print(lowering.devices("cpu")[0].platform)
report(lowering.register_plugin, "other", old)
"""


def test_a_plugin_that_can_not_start(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "old.c", tmp_path / "old.so"
    source.write_text(OLD_PLUGIN)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    done = run_python("-W", "ignore", "-c", PROGRAM, str(library), str(source))
    not_loaded, again, in_use, not_started, works = done.stdout.split("--\n", 4)
    assert f"register_plugin: {str(source)!r} can't be loaded: " in not_loaded
    assert "fix: pass the path of a shared library that exports GetPjrtApi" in not_loaded
    assert "register_plugin: the name 'mine' is in use\nfix: choose another name" in again
    assert "the name 'cpu' is in use" in in_use
    assert "devices: the plugin of 'mine' can't start: " in not_started
    assert "Plugin PJRT API version 0.1 is older than the minimum supported" in not_started
    # Other platforms are not affected, and jax looks for devices only once.
    assert works.startswith("cpu\n")
    assert "fix: call register_plugin at the beginning of the program" in works


def test_programs_for_an_unknown_platform_are_left_as_they_are() -> None:
    b = xb.XlaBuilder("sorted")
    module = lowering.lower(b.build(xb.sort(b.parameter(xb.f16[4, 4]))))
    legalized = legalize(module.module, "sorted", "mine")
    assert legalized.operation == module.module.operation
