"""Warnings about files and folders of machine code that other users can change."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import builder as xb
import lowering
from lowering.reading.files import warn_of_writers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")

X = np.float32([1, 2])


@xb.computation(xb.f32[2])
def negated(x: xb.XlaOp) -> xb.XlaOp:
    return -x


@pytest.fixture
def permissive() -> Iterator[None]:
    """New files are writable for all users, unless they are created with fewer permissions."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def without_cache() -> Iterator[None]:
    yield
    lowering.use_compilation_cache(None)


MODES = {0o620: "group \\d+ can write to it", 0o602: "every user can write to it"}


@pytest.mark.parametrize("mode", MODES, ids=oct)
def test_executables(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "negated.executable"
    lowering.compile(negated, "cpu").save(path)
    lowering.load_executable(path, "cpu")  # warnings are errors
    path.chmod(mode)
    with pytest.warns(RuntimeWarning, match=f"{re.escape(str(path))} .*{MODES[mode]}") as caught:
        run = lowering.load_executable(path, "cpu")
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(run(X), -X)
    fix = str(caught[0].message).partition("fix: ")[2]
    assert os.system(fix) == 0
    lowering.load_executable(path, "cpu")
    # A warning that is an error prevents that the program is loaded.
    path.chmod(mode)
    with pytest.raises(RuntimeWarning, match="machine code"):
        lowering.load_executable(path, "cpu")


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777], ids=oct)
def test_cache_folders(tmp_path: Path, mode: int, without_cache: None) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    lowering.use_compilation_cache(folder)
    for _ in range(2):
        with pytest.raises(RuntimeWarning, match="can write to it"):  # a warning is an error
            lowering.compile(negated, "cpu")
    with pytest.warns(RuntimeWarning, match=f"{re.escape(str(folder))} contains machine code"):
        lowering.compile(negated, "cpu")
    lowering.compile(negated, "cpu")  # one warning
    assert len(list(folder.iterdir())) == 1
    folder.chmod(0o700)
    lowering.use_compilation_cache(folder)
    np.testing.assert_array_equal(lowering.compile(negated, "cpu")(X), -X)


def test_new_files_are_not_writable_for_others(
    tmp_path: Path, permissive: None, without_cache: None
) -> None:
    path = tmp_path / "negated.executable"
    lowering.compile(negated, "cpu").save(path)
    lowering.load_executable(path, "cpu")
    folder = tmp_path / "new" / "cache"
    lowering.use_compilation_cache(folder)
    lowering.compile(negated, "cpu")
    (entry,) = folder.iterdir()
    for file in (path, folder, entry):
        assert file.stat().st_mode & 0o022 == 0
    lowering.use_compilation_cache(folder)
    lowering.compile(negated, "cpu")
    lowering.lower(negated).save(tmp_path / "m.mlir")
    assert (tmp_path / "m.mlir").stat().st_mode & 0o777 == 0o666


def test_owners(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    status = list(tmp_path.stat())
    for owner, user, is_trusted in ((7, 7, True), (0, 7, True), (8, 7, False), (8, 0, False)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        status[4] = owner
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of_writers(os.stat_result(status), "folder")
        belongs = "it belongs to user 8\nfix: use a file or folder of your own"
        reasons = [] if is_trusted else [belongs]
        assert [str(w.message).partition("can change: ")[2] for w in caught] == reasons
