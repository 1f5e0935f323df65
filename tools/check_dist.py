"""Check the files of a source distribution and of a wheel.

    python tools/check_dist.py dist

The folder contains one of each. The source distribution must have every file that git lists, and no
other, apart from its metadata. The wheel must have the modules of `builder` and `lowering`, their
markers for type checkers, and the licence. No file may contain the path of this project on this
machine. The exit status is 1 if something is wrong. `make dist` runs this.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tracked_files import ROOT, tracked_files

PACKAGES: Final = ("builder", "lowering")
METADATA: Final = ("PKG-INFO", "setup.cfg", "xlabuilder.egg-info/")
"""What setuptools adds to a source distribution."""


def files_of_sdist(path: Path) -> dict[str, bytes]:
    """Return the files of a source distribution by their names, without its folder."""
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {
            member.name.partition("/")[2]: archive.extractfile(member).read()  # type: ignore[union-attr]  # it is a file
            for member in members
        }


def files_of_wheel(path: Path) -> dict[str, bytes]:
    """Return the files of a wheel by their names."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def faults_of_sdist(files: Mapping[str, bytes], tracked: set[str]) -> Iterator[str]:
    """Yield what is wrong with a source distribution.

    Args:
        files: its files.
        tracked: the files of the repository.
    """
    for name in sorted(tracked - {*files}):
        yield f"the source distribution does not have {name}"
    for name in sorted({*files} - tracked):
        if not name.startswith(METADATA):
            yield f"the source distribution has {name}, which is not in the repository"


def faults_of_wheel(files: Mapping[str, bytes], tracked: set[str]) -> Iterator[str]:
    """Yield what is wrong with a wheel.

    Args:
        files: its files.
        tracked: the files of the repository.
    """
    (info,) = {name.partition("/")[0] for name in files if ".dist-info/" in name}
    expected = {name for name in tracked if name.partition("/")[0] in PACKAGES}
    packaged = {name for name in files if not name.startswith(f"{info}/")}
    for name in sorted(expected - packaged):
        yield f"the wheel does not have {name}"
    for name in sorted(packaged - expected):
        yield f"the wheel has {name}"
    if f"{info}/licenses/LICENSE" not in files:
        yield "the wheel does not have the licence"


def faults_of_contents(files: Mapping[str, bytes], place: str) -> Iterator[str]:
    """Yield the files that contain `place`, the path of the project on the machine that built."""
    for name, content in sorted(files.items()):
        if place.encode() in content:
            yield f"{name} contains {place}"


def main(folder: str) -> int:
    """Print what is wrong with the distributions in a folder, and return the exit status."""
    (sdist,) = Path(folder).glob("*.tar.gz")
    (wheel,) = Path(folder).glob("*.whl")
    tracked = set(tracked_files())
    source, packaged = files_of_sdist(sdist), files_of_wheel(wheel)
    faults = [
        *faults_of_sdist(source, tracked),
        *faults_of_wheel(packaged, tracked),
        *faults_of_contents(source, str(ROOT)),
        *faults_of_contents(packaged, str(ROOT)),
    ]
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{sdist.name}: {len(source)} files; {wheel.name}: {len(packaged)} files")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
