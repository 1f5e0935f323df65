"""tools/check_dist.py finds files that are missing or superfluous in distributions."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from scripts import ROOT, load_script

check_dist = load_script("tools/check_dist.py")

TRACKED = {
    "LICENSE": b"Apache",
    "Makefile": b"test:",
    "builder/__init__.py": b"",
    "builder/py.typed": b"",
    "lowering/__init__.py": b"",
    "tests/support.py": b"",
}
SOURCE = {**TRACKED, "PKG-INFO": b"Name: xlabuilder", "xlabuilder.egg-info/SOURCES.txt": b"LICENSE"}
INFO = "xlabuilder-1.0.dist-info"
WHEEL = {
    "builder/__init__.py": b"",
    "builder/py.typed": b"",
    "lowering/__init__.py": b"",
    f"{INFO}/METADATA": b"Name: xlabuilder",
    f"{INFO}/licenses/LICENSE": b"Apache",
}


def faults(
    folder: Path,
    source: dict[str, bytes],
    wheel: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    """Write distributions with these files, and return what the tool prints, if it fails."""
    with tarfile.open(folder / "xlabuilder-1.0.tar.gz", "w:gz") as archive:
        for name, content in source.items():
            member = tarfile.TarInfo(f"xlabuilder-1.0/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with zipfile.ZipFile(folder / "xlabuilder-1.0-py3-none-any.whl", "w") as archive:
        for name, content in wheel.items():
            archive.writestr(name, content)

    monkeypatch.setattr(check_dist, "tracked_files", lambda: TRACKED)
    status = check_dist.main(str(folder))
    printed = capsys.readouterr().out.splitlines()
    assert status == (0 if printed[0].startswith("xlabuilder-1.0.tar.gz: ") else 1)
    return printed if status else []


@pytest.mark.parametrize(
    ("source", "wheel", "expected"),
    [
        ({}, {}, []),
        (
            {"tests/support.py": None},
            {},
            ["the source distribution does not have tests/support.py"],
        ),
        (
            {"tests/a.pyc": b""},
            {},
            ["the source distribution has tests/a.pyc, which is not in the repository"],
        ),
        ({}, {"builder/py.typed": None}, ["the wheel does not have builder/py.typed"]),
        ({}, {"tests/support.py": b""}, ["the wheel has tests/support.py"]),
        ({}, {f"{INFO}/licenses/LICENSE": None}, ["the wheel does not have the licence"]),
        (
            {"Makefile": b"cd " + bytes(ROOT)},
            {f"{INFO}/RECORD": bytes(ROOT / "builder")},
            [f"Makefile contains {ROOT}", f"{INFO}/RECORD contains {ROOT}"],
        ),
    ],
)
def test_faults(source, wheel, expected, tmp_path, monkeypatch, capsys) -> None:
    changed = [
        {name: content for name, content in {**files, **changes}.items() if content is not None}
        for files, changes in ((SOURCE, source), (WHEEL, wheel))
    ]
    assert faults(tmp_path, *changed, monkeypatch, capsys) == expected
