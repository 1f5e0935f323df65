#!/bin/sh
# Print the path of a Python that can run the project.
#
#   tools/find_python.sh           python3 if it is suitable, else the oldest suitable version
#   tools/find_python.sh newest    the newest suitable version from 3.12 on, for a later jax
#
# A Python is suitable if it runs (a version manager may put one on PATH that does not), is CPython
# with the global interpreter lock (jaxlib has no usable wheels for others), and has the module
# venv with its dependencies. On success only the path is printed. Otherwise the reasons are
# printed to stderr and the exit status is 1.

mode=${1:-default}
case $mode in
    default) oldest=11 newest=14 names="python3 python3.11 python3.12 python3.13 python3.14" ;;
    newest) oldest=12 newest=14 names="python3.14 python3.13 python3.12 python3" ;;
    *)
        echo "usage: $0 [default|newest]" >&2
        exit 2
        ;;
esac

# Prints "MINOR PATH" for a suitable Python, otherwise "- REASON". Runs on any Python from 2.7 on,
# so that old versions are rejected with a reason.
probe='
import sys
def reject(reason):
    print("- " + reason)
    sys.exit()
version = "%d.%d" % sys.version_info[:2]
oldest, newest = int(sys.argv[1]), int(sys.argv[2])
if not (3, oldest) <= sys.version_info[:2] <= (3, newest):
    reject("is Python %s; 3.%d to 3.%d is required" % (version, oldest, newest))
if sys.version_info[3] != "final":
    reject("is a pre-release of Python %s" % version)
if sys.implementation.name != "cpython":
    reject("is not CPython")
import sysconfig
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    reject("is a free-threaded build")
try:
    import ensurepip, venv
except ImportError as error:
    reject("has no module %s (on Debian and Ubuntu: apt install python%s-venv)" % (error.name, version))
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
    # In the default mode the first suitable one is used.
    [ "$mode" = default ] && [ -n "$best" ] && break
done

# Pythons that a version manager has installed but not put on PATH. In the newest mode they compete
# with those on PATH; in the default mode they are used only if none on PATH is suitable.
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
            echo "Rejected:$rejected"
        else
            echo "There is no python3 on PATH."
        fi
    } >&2
    exit 1
fi
echo "$best"
