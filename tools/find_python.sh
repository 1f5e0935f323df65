#!/bin/sh
# Prints the path of a Python that the project can be set up with.
#
#   tools/find_python.sh           python3 itself if it will do, else the oldest that will
#   tools/find_python.sh newest    the newest from 3.12 on, which may have a later jax
#
# A candidate counts only if it runs (a version manager may put a python3.12 on PATH that does
# not), is CPython with its global lock (jaxlib has no wheels for others that are of use here),
# and has the module venv with all that it needs. With no candidate left, says what is missing on
# stderr and exits with 1. On success nothing but the path is printed.

mode=${1:-default}
case $mode in
    default) oldest=11 newest=14 names="python3 python3.11 python3.12 python3.13 python3.14" ;;
    newest) oldest=12 newest=14 names="python3.14 python3.13 python3.12 python3" ;;
    *)
        echo "usage: $0 [default|newest]" >&2
        exit 2
        ;;
esac

# Prints "MINOR PATH" for a Python that will do, or else the reason why not, as "- reason". Runs on
# any Python from 2.7 on, to be able to reject it.
probe='
import sys
def no(reason):
    print("- " + reason)
    sys.exit()
found = "%d.%d" % sys.version_info[:2]
oldest, newest = int(sys.argv[1]), int(sys.argv[2])
if not (3, oldest) <= sys.version_info[:2] <= (3, newest):
    no("is Python %s; wanted is 3.%d to 3.%d" % (found, oldest, newest))
if sys.version_info[3] != "final":
    no("is a pre-release of Python %s" % found)
if sys.implementation.name != "cpython":
    no("is not CPython")
import sysconfig
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    no("is a free-threaded build")
try:
    import ensurepip, venv
except ImportError as error:
    no("lacks the module %s (on Debian and Ubuntu: apt install python%s-venv)" % (error.name, found))
print("%d %s" % (sys.version_info[1], sys.executable))
'

best=
best_minor=0
rejected=

try() {
    answer=$("$1" -c "$probe" "$oldest" "$newest" 2>/dev/null) || answer="- does not run"
    case $answer in
        "- "*) rejected="$rejected
  $1 ${answer#- }" ;;
        [0-9]*" /"*)
            if [ "${answer%% *}" -gt "$best_minor" ]; then
                best_minor=${answer%% *}
                best=${answer#* }
            fi
            ;;
        *) rejected="$rejected
  $1 does not run" ;;
    esac
}

for name in $names; do
    command -v "$name" >/dev/null 2>&1 || continue
    try "$name"
    # In the default mode, the first that will do is taken.
    [ "$mode" = default ] && [ -n "$best" ] && break
done

# Pythons that a version manager keeps, but does not have on PATH. In the newest mode they compete
# with those on PATH; in the default mode they are the last resort.
if [ "$mode" = newest ] || [ -z "$best" ]; then
    for path in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3; do
        [ -x "$path" ] || continue
        [ "$mode" = default ] && [ -n "$best" ] && break
        try "$path"
    done
fi

if [ -z "$best" ]; then
    {
        echo "No Python from 3.$oldest to 3.$newest with the module venv was found."
        if [ -n "$rejected" ]; then
            echo "Looked at:$rejected"
        else
            echo "There is no python3 on PATH."
        fi
    } >&2
    exit 1
fi
echo "$best"
