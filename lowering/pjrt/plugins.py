"""Register PJRT plugins, the libraries that make devices available to XLA's clients."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from lowering.errors import DeviceError
from lowering.jaxlib_api import compilation

_NAME: Final = re.compile("[a-z][a-z0-9_]*")


@explained
def register_plugin(
    name: str, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None
) -> None:
    """Load a PJRT plugin, so that programs can run on its devices.

    ``lowering.devices(name)`` lists the devices, and ``compile``, ``probe``, ``compare`` and
    ``minimize`` accept them, as ``device=name``. The plugin starts when its devices are first used.
    Packages with an entry point ``jax_plugins`` need not be registered: jax finds them.

    Args:
        name: the name of the platform: lower case letters, digits and underscores.
        path: the shared library, which exports ``GetPjrtApi``.
        options: the options with which the plugin starts: strings, bools, numbers and lists of
            integers by name, as the plugin's documentation lists them.

    Raises:
        DeviceError: the file is not a PJRT plugin; the name is in use; devices were used before.
        OperandError: an argument has the wrong type.

    Example:
        >>> import lowering
        >>> try:
        ...     lowering.register_plugin("mine", "/missing/pjrt_plugin.so")
        ... except lowering.DeviceError as error:
        ...     print(error.rule)
        '/missing/pjrt_plugin.so' can't be loaded: there is no such file
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        rule = "name must consist of lower case letters, digits and underscores"
        raise error_of(OperandError, "register_plugin", rule, got=brief(name))
    try:
        file = os.fspath(path)
    except TypeError:
        file = None
    if not isinstance(file, str):
        rule = "a path must be a string or a pathlib.Path"
        raise error_of(OperandError, "register_plugin", rule, got=type(path).__name__)
    if options is not None and not isinstance(options, Mapping):
        rule = "options must map names to values"
        raise error_of(OperandError, "register_plugin", rule, got=brief(options))
    for key, value in (options or {}).items():
        if not isinstance(key, str) or not _is_option(value):
            rule = "an option must be text, a bool, a number or a list of integers, with a name"
            got = f"{brief(key)}: {brief(value)}"
            raise error_of(OperandError, "register_plugin", rule, got=got)
    fix = "pass the path of a shared library that exports GetPjrtApi"
    reason = "" if _is_file(file) else "there is no such file"
    if not reason:
        if name == "gpu" or name in compilation.plugins():
            rule = f"the name {name!r} is in use"
            raise error_of(DeviceError, "register_plugin", rule, "choose another name")
        if compilation.devices_are_in_use():
            rule = "devices were used before, and jax looks for them only once"
            fix = "call register_plugin at the beginning of the program"
            raise error_of(DeviceError, "register_plugin", rule, fix)
        try:
            compilation.load_plugin(name, file, dict(options or {}))
        except (RuntimeError, ValueError) as error:
            reason = str(error)
    if reason:
        rule = f"{brief(file)} can't be loaded: {reason}"
        raise error_of(DeviceError, "register_plugin", rule, fix)


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long, or with a null character
        return False


def _is_option(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(type(each) is int for each in value)
    return isinstance(value, (str, bool, int, float))
