"""Register functions for custom calls, by name and platform."""

from __future__ import annotations

import ctypes
import functools
import re
from _ctypes import CFuncPtr
from typing import Any, Final, Literal

from jaxlib.mlir import ir

from builder.errors import OperandError, brief, error_of
from builder.graph.calls import explained
from lowering.errors import CompileError, recorded_at
from lowering.jaxlib_api import compilation
from lowering.jaxlib_api.lazy_jax import jax
from lowering.mlir.operations import call_target, operations_in
from lowering.reading.bytecode_tables import module_strings

_APIS: Final = {"untyped": 0, "typed": 1}

_REGISTERED: Final[dict[tuple[str, str], tuple[Any, int]]] = {}
"""The registered function and its address, by platform and name. The references prevent ctypes from
freeing the functions."""


@explained
def register_custom_call_target(
    name: str, function: Any, platform: str = "cpu", *, api: Literal["typed", "untyped"] = "untyped"
) -> None:
    """Register a C function under the target name of `custom_call`, for this process.

    Register handlers with several stages with ``jax.ffi.register_ffi_target``.

    Args:
        name: the target name.
        function: a function of a library that ctypes has loaded (``library.myfunc``), one created
            by ``ctypes.CFUNCTYPE``, or a capsule, for instance of ``jax.ffi.pycapsule``.
        platform: "cpu", "gpu" or "tpu".
        api: "untyped" for the form in Operation Semantics, ``void f(void* out, const void** in)``,
            and the other untyped forms of CustomCallApiVersion; "typed" for a handler of XLA's FFI.

    Raises:
        OperandError: an argument has the wrong type, or another function has the name already.

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
    if not isinstance(name, str) or not name or name.startswith("$") or "\0" in name:
        raise _error(
            "name must be a non-empty string that does not begin with '$'", got=brief(name)
        )
    if not isinstance(platform, str) or platform not in ("cpu", "gpu", "tpu"):
        raise _error("platform must be 'cpu', 'gpu' or 'tpu'", got=brief(platform))
    if not isinstance(api, str) or api not in _APIS:
        raise _error(
            "api must be 'untyped' or 'typed'",
            "use 'untyped' for void f(void* out, const void** in), 'typed' for handlers of the FFI",
            got=brief(api),
        )
    capsule, address = _capsule(function)
    registered = _REGISTERED.get((platform, name))
    if registered is not None and registered[1] == address:
        return
    if registered is not None or name in compilation.registered_targets(platform):
        raise _error(
            f"another function is already registered as {brief(name)} on {platform}",
            "use another name",
        )
    try:
        jax.ffi.register_ffi_target(name, capsule, platform, api_version=_APIS[api])
    except RuntimeError as error:  # XLA calls a typed handler to get its metadata
        raise _error(
            f"{brief(name)} must be a handler of XLA's FFI, of a supported version: {error}",
            "create it with XLA_FFI_DEFINE_HANDLER_SYMBOL of xla/ffi/api/ffi.h, in the folder "
            "jax.ffi.include_dir()",
        ) from None
    _REGISTERED[platform, name] = function, address


_error: Final = functools.partial(error_of, OperandError, "register_custom_call_target")


def _capsule(function: Any) -> tuple[Any, int]:
    """Return a PyCapsule with the address of a C function, and the address."""
    if isinstance(function, CFuncPtr):
        address = ctypes.cast(function, ctypes.c_void_p).value
        if address:
            capsule: Any = jax.ffi.pycapsule(function)  # type: ignore[no-untyped-call]  # jax has no types
            return capsule, address
    elif type(function).__name__ == "PyCapsule":
        return function, _address(function)
    fix = "load the library with ctypes.CDLL and pass its function: library.myfunc"
    if callable(function) and not isinstance(function, CFuncPtr):
        fix = "call a Python function with xb.python_call, or make a C function with CFUNCTYPE"
    raise _error("function must be a C function of ctypes or a capsule", fix, got=brief(function))


def _address(capsule: Any) -> int:
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address: int = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)) or 0
    return address


_RESERVED: Final = frozenset(
    (
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"),
        *("annotate_device_placement", "MoveToHost", "MoveToDevice", "LayoutConstraint"),
        "ApproxTopK",
    )
)
_DIALECTS: Final = ("mhlo.", "chlo.", "stablehlo.", "xla.")


def is_reserved_target(name: str) -> bool:
    """Whether XLA itself implements custom calls of a target, without a registered function."""
    return name in _RESERVED or name.startswith(_DIALECTS)


# XLA's report for an unregistered custom call, typed or untyped; a TPU's compiler has one for both.
_TYPED: Final = re.compile(r"No FFI handler registered for (.*?) on a platform", re.DOTALL)
_UNTYPED: Final = re.compile(
    r"(?:No registered implementation for (?:untyped )?custom call to|Custom emitter for) (.*?) "
    r"(?:for (?:platform )?\w+|not found)",
    re.DOTALL,
)


def unregistered(report: str) -> str | None:
    """Return the unregistered target that XLA reports; None if the report has another cause."""
    match = _TYPED.search(report) or _UNTYPED.search(report)
    return None if match is None else match[1]


def check_registered(report: str, computation: str, platform: str, module: ir.Operation) -> None:
    """Raise CompileError if XLA reports that a custom call's target is not registered.

    Args:
        report: XLA's report for a module.
        computation: the computation's name, for messages.
        platform: "cpu", "gpu", "tpu".
        module: the module's operation, which contains the call.
    """
    name = unregistered(report)
    if name is None:
        return
    is_typed = _TYPED.search(report) is not None
    others = [other for other, target in _REGISTERED if target == name and other != platform]
    reason = f"no function of that name is registered for {platform}"
    if name.startswith("xla.sdy."):
        reason = "XLA supports this target only if it partitions the program"
        fix = "pass num_partitions to compile: the number of devices of the program's mesh"
    elif name in compilation.registered_targets(platform):
        other = "untyped" if is_typed else "typed"
        api = "API_VERSION_ORIGINAL" if is_typed else "API_VERSION_TYPED_FFI"
        reason = f"the function registered for {platform} under that name is {other}"
        fix = f"pass api_version={api!r} to custom_call"
    elif others:
        reason += f", only for {others[0]}"
        fix = f"compile for {others[0]!r}, or register a function for {platform!r} too"
    elif is_typed:
        fix = (
            f"call jax.ffi.register_ffi_target({name!r}, capsule, platform={platform!r}) before "
            f"compiling"
        )
    else:
        fix = (
            f"call lowering.register_custom_call_target({name!r}, function, {platform!r}) before "
            f"compiling"
        )
    place = next((_place(call) for call, target, _ in _custom_calls(module) if target == name), "")
    raise CompileError(
        f"custom_call of {name!r}{place}: {reason}",
        context=("compile", computation),
        fix=fix,
        op="custom_call",
        detail=report,
    )


_TYPED_VERSION: Final = 4


def _custom_calls(module: ir.Operation) -> list[tuple[ir.Operation, str, int]]:
    """Return the custom calls of a module with their targets and API versions."""
    calls = []
    for call in operations_in(module, ["stablehlo.custom_call"]):
        version = call.attributes.get("api_version")
        number = 1 if version is None else ir.IntegerAttr(version).value
        if "mhlo.backend_config" in call.attributes:  # as jax writes calls of typed handlers
            number = _TYPED_VERSION
        calls.append((call, call_target(call), number))
    return calls


def _place(operation: ir.Operation) -> str:
    """Return ", recorded at FILE:LINE" for a call; empty if unknown."""
    return recorded_at(operation.location).rstrip(",")


def failing_calls(module: ir.Operation, code: bytes, platform: str) -> tuple[str, ...]:
    """Return the custom calls whose registered functions can report an error, for messages.

    Errors of Python functions are reported elsewhere.

    Args:
        module: the module's operation, before `legalize` adds calls of its own.
        code: the module's bytecode, in which the function looks for custom calls first.
        platform: "cpu", "gpu", "tpu".

    Returns:
        The name of the function and the source line, as one text per call, without duplicates.
    """
    if b"custom_call\0" not in module_strings(code):
        return ()
    registered = compilation.registered_targets(platform)
    calls = [
        f"{brief(name)}{_place(operation)}"
        for operation, name, version in _custom_calls(module)
        # The first version, which is the default, has no errors.
        if version > 1 and name in registered and "python" not in name
    ]
    return tuple(dict.fromkeys(calls))
