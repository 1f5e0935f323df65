#!/bin/sh
# Create a virtual environment with the project and its development dependencies, or update an
# existing one.
#
#   tools/make_venv.sh DIRECTORY [default|newest] [PYTHON]
#
# PYTHON defaults to the interpreter that tools/find_python.sh prints. Run this in the root folder
# of the project.

set -eu

directory=$1
mode=${2:-default}
python=${3:-}

# An existing environment may be unusable: incomplete, or of a Python that was removed.
if ! "$directory/bin/python" -m pip --version >/dev/null 2>&1; then
    if [ -z "$python" ]; then
        python=$(sh tools/find_python.sh "$mode")
    fi
    echo "Creating $directory with $("$python" --version) ($python)"
    "$python" -m venv --clear "$directory"
fi

echo "Installing the project and its dependencies into $directory; the first time takes minutes"
# The newest Python only runs the tests.
case $mode in
    newest) extras=test upgrade="--upgrade --upgrade-strategy eager" ;;
    *) extras=dev upgrade= ;;
esac
# pip would compile all modules, most of which are never imported. Python compiles those that are
# imported, unless PYTHONDONTWRITEBYTECODE disables its cache.
if [ -n "${PYTHONDONTWRITEBYTECODE:-}" ]; then compile=--compile; else compile=--no-compile; fi
# shellcheck disable=SC2086  # $upgrade is several arguments, or none
"$directory/bin/python" -m pip install --quiet --disable-pip-version-check $compile $upgrade \
    --editable ".[$extras]"
