#!/bin/sh
# Makes a virtual environment with the project and its development dependencies in it, or brings
# an existing one up to date.
#
#   tools/make_venv.sh DIRECTORY [default|newest] [PYTHON]
#
# Without PYTHON the interpreter is the one that tools/find_python.sh finds. To be run in the root
# of the project.

set -eu

directory=$1
mode=${2:-default}
python=${3:-}

# An environment may be there but of no use: half made, or made from a Python that is gone.
if ! "$directory/bin/python" -m pip --version >/dev/null 2>&1; then
    if [ -z "$python" ]; then
        python=$(sh tools/find_python.sh "$mode")
    fi
    echo "Making $directory with $("$python" --version) ($python)"
    "$python" -m venv --clear "$directory"
fi

echo "Installing the project and its dependencies into $directory; the first time takes minutes"
case $mode in
    newest) upgrade="--upgrade --upgrade-strategy eager" ;;
    *) upgrade= ;;
esac
# pip would compile all modules, most of which nobody imports: half a minute. Python compiles those
# that are imported, once, unless it is told to keep nothing.
if [ -n "${PYTHONDONTWRITEBYTECODE:-}" ]; then compile=--compile; else compile=--no-compile; fi
# shellcheck disable=SC2086  # $upgrade is several words, or none
"$directory/bin/python" -m pip install --quiet --disable-pip-version-check $compile $upgrade \
    --editable '.[dev]'
