"""Functions of one's own for custom calls: registered by name for a platform."""

from __future__ import annotations

import ctypes
import re
from _ctypes import CFuncPtr
from typing import Any, Final

import jax
from jaxlib.mlir import ir

from builder.errors import OperandError, brief
from lowering.errors import CompileError, recorded_at
from lowering.jaxlib_api import compilation
from lowering.mlir.types import attribute_text
from lowering.reading.bytecode_tables import module_strings

__all__ = ["check_registered", "failing_calls", "is_reserved_target", "register_custom_call_target"]

_APIS: Final = {"untyped": 0, "typed": 1}

_KEPT: Final[dict[tuple[str, str], tuple[Any, int]]] = {}
"""By platform and name what was registered, and its address: ctypes frees a function when nobody
holds it."""


def register_custom_call_target(
    name: str, function: Any, platform: str = "cpu", *, api: str = "untyped"
) -> None:
    """Registers a C function by the name that `custom_call` calls it by, for this process.

    Handlers with several stages are registered with ``jax.ffi.register_ffi_target``.

    Args:
        name: the target name.
        function: a function out of a library that ctypes has loaded (``library.myfunc``), one
            made by ``ctypes.CFUNCTYPE``, or a capsule, for instance of ``jax.ffi.pycapsule``.
        platform: "cpu", "gpu" or "tpu".
        api: "untyped" for the document's form ``void f(void* out, const void** in)`` and the
            further ones of CustomCallApiVersion; "typed" for a handler of XLA's FFI.

    Raises:
        OperandError: an argument is of another type, or the name has another function already.

    Example:
        >>> import builder as xb, ctypes, lowering, numpy as np
        >>> Pointer = ctypes.POINTER(ctypes.c_float)
        >>> @ctypes.CFUNCTYPE(None, Pointer, ctypes.POINTER(Pointer))
        ... def first_plus_second(out, inputs):
        ...     out[0] = inputs[0][0] + inputs[1][0]
        >>> lowering.register_custom_call_target("first_plus_second", first_plus_second)
        >>> b = xb.XlaBuilder("sum")
        >>> x, y = b.parameter(xb.f32[()]), b.parameter(xb.f32[()])
        >>> run = lowering.compile(b.build(xb.custom_call("first_plus_second", [x, y], xb.f32[()])))
        >>> run(1.5, 2.25)
        Array(3.75, dtype=float32)
    """
    op = "register_custom_call_target"
    if not isinstance(name, str) or not name or name.startswith("$") or "\0" in name:
        raise OperandError(
            f"{op}: name must be a string, not empty and not beginning with '$', got {brief(name)}",
            op=op,
        )
    if not isinstance(platform, str) or platform not in ("cpu", "gpu", "tpu"):
        raise OperandError(
            f"{op}: platform must be 'cpu', 'gpu' or 'tpu', got {brief(platform)}", op=op
        )
    if not isinstance(api, str) or api not in _APIS:
        raise OperandError(
            f"{op}: api must be 'untyped' or 'typed', got {brief(api)}\n"
            f"fix: 'untyped' for void f(void* out, const void** in), 'typed' for handlers of the "
            f"FFI",
            op=op,
        )
    capsule, address = _capsule(op, function)
    kept = _KEPT.get((platform, name))
    if kept is not None and kept[1] == address:
        return
    if kept is not None or name in compilation.registered_targets(platform):
        raise OperandError(
            f"{op}: {brief(name)} has another function on {platform} already\n"
            f"fix: use another name",
            op=op,
        )
    try:
        jax.ffi.register_ffi_target(name, capsule, platform, api_version=_APIS[api])
    except RuntimeError as error:  # of a typed one it is asked what it is
        raise OperandError(
            f"{op}: XLA takes no function for {brief(name)} that is not a handler of its FFI, of a "
            f"version that it knows: {error}\n"
            f"fix: make it with XLA_FFI_DEFINE_HANDLER_SYMBOL of xla/ffi/api/ffi.h, which lies in "
            f"jax.ffi.include_dir()",
            op=op,
        ) from None
    _KEPT[platform, name] = function, address


def _capsule(op: str, function: Any) -> tuple[Any, int]:
    """A capsule with the address of a C function, and the address."""
    if isinstance(function, CFuncPtr):
        address = ctypes.cast(function, ctypes.c_void_p).value
        if address:
            capsule: Any = jax.ffi.pycapsule(function)  # type: ignore[no-untyped-call]  # jax has no types
            return capsule, address
    elif type(function).__name__ == "PyCapsule":
        return function, _address(function)
    fix = "fix: load the library with ctypes.CDLL and give its function: library.myfunc"
    if callable(function) and not isinstance(function, CFuncPtr):
        fix = "fix: xb.python_call calls a Python function; or make it a C function: CFUNCTYPE"
    raise OperandError(
        f"{op}: function must be a C function of ctypes or a capsule, got {brief(function)}\n{fix}",
        op=op,
    )


def _address(capsule: Any) -> int:
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address: int = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)) or 0
    return address


_READ_BY_XLA: Final = frozenset(
    (
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"),
        *("annotate_device_placement", "MoveToHost", "MoveToDevice", "LayoutConstraint"),
        "ApproxTopK",
    )
)
_DIALECTS: Final = ("mhlo.", "chlo.", "stablehlo.", "xla.")


def is_reserved_target(name: str) -> bool:
    """Whether calls of a target are words for XLA itself, which calls no function for them."""
    return name in _READ_BY_XLA or name.startswith(_DIALECTS)


# XLA's report about a custom call that nobody has registered, for typed and untyped ones; a TPU's
# has one for all.
_TYPED: Final = re.compile(r"No FFI handler registered for (.*?) on a platform", re.DOTALL)
_UNTYPED: Final = re.compile(
    r"(?:No registered implementation for (?:untyped )?custom call to|Custom emitter for) (.*?) "
    r"(?:for (?:platform )?\w+|not found)",
    re.DOTALL,
)


def unregistered(report: str) -> str | None:
    """The target of a custom call that XLA's report says is not registered; None if it doesn't."""
    found = _TYPED.search(report) or _UNTYPED.search(report)
    return None if found is None else found[1]


def check_registered(report: str, computation: str, platform: str, module: ir.Operation) -> None:
    """Raises CompileError if XLA's report is that a custom call's target is not registered.

    Args:
        report: what XLA reported when it compiled a module.
        computation: the computation's name, for messages.
        platform: "cpu", "gpu", "tpu".
        module: the module's operation, in which the call is looked for.
    """
    typed, untyped = _TYPED.search(report), _UNTYPED.search(report)
    found = typed or untyped
    if found is None:
        return
    name = found[1]
    other = "untyped" if typed else "typed"
    known = name in compilation.registered_targets(platform)
    reason = f"no function of that name is registered for {platform}"
    if known:
        reason = f"the function registered for {platform} under that name is {other}"
    fix = (
        f"jax.ffi.register_ffi_target({name!r}, capsule, platform={platform!r}) before compiling"
        if typed
        else f"lowering.register_custom_call_target({name!r}, function, {platform!r}) before "
        f"compiling"
    )
    if known:
        api = "API_VERSION_TYPED_FFI" if untyped else "API_VERSION_ORIGINAL"
        fix = f"say api_version={api!r} in custom_call"
    elsewhere = [where for where, kept in _KEPT if kept == name and where != platform]
    if elsewhere and not known:
        reason += f", but for {elsewhere[0]}"
        fix = f"compile for {elsewhere[0]!r}, or register a function for {platform!r} too"
    raise CompileError(
        f"compile: {computation}: custom_call of {name!r}{_place(module, name)}: {reason}\n"
        f"fix: {fix}",
        op="custom_call",
        detail=report,
    )


def _place(module: ir.Operation, name: str) -> str:
    """Where the first call of a target was recorded, for messages."""
    found: list[str] = []

    def note(operation: ir.Operation) -> ir.WalkResult:
        if (
            operation.name == "stablehlo.custom_call"
            and attribute_text(operation.attributes["call_target_name"]) == name
        ):
            found.append(recorded_at(operation.location))
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.walk(note)
    return found[0].rstrip(",") if found else ""


def failing_calls(module: ir.Operation, code: bytes, platform: str) -> tuple[str, ...]:
    """The calls of functions registered here that can report an error, for messages.

    Args:
        module: the module's operation.
        code: its bytecode, which tells sooner whether there is a custom call.
        platform: "cpu", "gpu", "tpu".

    Returns:
        For each function and line the name, and where the call was recorded.
    """
    if b"custom_call\0" not in module_strings(code):
        return ()
    found: dict[str, None] = {}

    def note(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == "stablehlo.custom_call":
            attributes = operation.attributes
            name = attribute_text(attributes["call_target_name"])
            # The document's form, which is meant where nothing is said, reports nothing.
            reports = (
                "api_version" in attributes and ir.IntegerAttr(attributes["api_version"]).value > 1
            )
            if reports and (platform, name) in _KEPT:
                found[f"{brief(name)}{recorded_at(operation.location).rstrip(',')}"] = None
        return ir.WalkResult.ADVANCE

    module.walk(note)
    return tuple(found)
