"""Functions in C and C++ for custom calls, built from source in one call.

`build` compiles, loads and registers functions; a built function is called like an op. XLA can't
unregister a function, so each is registered under its name and a hash of the source. A changed
source has another hash, so a notebook cell can be run again any number of times.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import builder as xb
from builder.errors import OperandError, brief, error_of
from lowering.host.custom_calls import register_custom_call_target
from lowering.host.native_code import (
    NativeSource,
    SharedLibrary,
    compile_error,
    operand_error,
    read_source,
    shared_library,
)

if TYPE_CHECKING:
    from os import PathLike

    from builder.types.shape import ShapeLike


_LOCK: Final = threading.Lock()
_LOADED: Final[dict[str, ctypes.CDLL]] = {}
"""The loaded libraries by `SharedLibrary.identity`; a library is loaded only once."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FfiFunction:
    """A C or C++ function that `lowering.ffi.build` registered; a call of it records a custom call.

    Attributes:
        name: the function's name in the source, or its target name if `targets` was a mapping.
        target: the name that XLA has registered the function under. Pass it as `target_name` to
            `xb.custom_call`, which takes more arguments (side effects, aliases, layouts), or to
            ``jax.ffi.ffi_call``.
        platform: the platform of the function: "cpu" or "gpu".
        api: "typed" for a handler of XLA's FFI, "untyped" for a function
            ``void f(void* out, const void** in)``.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> library = lowering.ffi.build('''
        ... extern "C" void twice(void* out, const void** in) {
        ...   *(float*)out = 2 * *(const float*)in[0];
        ... }''', api="untyped", flags=["-O0"])
        >>> @xb.computation(xb.f32[()])
        ... def program(x):
        ...     return library.twice(x, xb.f32[()])
        >>> lowering.compile(program, "cpu")(1.25)
        Array(2.5, dtype=float32)
    """

    name: str
    target: str
    platform: str
    api: Literal["typed", "untyped"]
    _library: ctypes.CDLL

    def __call__(
        self,
        operands: xb.XlaOp | Sequence[xb.XlaOp] | xb.XlaBuilder,
        shape: ShapeLike,
        /,
        **attributes: Any,
    ) -> xb.XlaOp:
        """Record a call of the function.

        Args:
            operands: an op, or a sequence of ops; for a call without operands, the builder.
            shape: the shape of the result, a tuple for several results.
            attributes: the attributes of a typed handler, by name. The types must be exactly those
                that the handler declares: an int becomes an int64_t, a float a double,
                ``numpy.float32(2.5)`` a float. Bools, strings, lists of numbers, NumPy arrays of
                rank 1 and mappings are supported too (see `xb.custom_call`).

        Returns:
            The op of the call, of shape `shape`.

        Raises:
            OperandError, ShapeInferenceError: as for `xb.custom_call`.
        """
        if self.api == "untyped" and attributes:
            rule = "an untyped function takes no attributes"
            fix = "pass these values as operands, or write the function as a handler of XLA's FFI"
            raise error_of(OperandError, self.name, rule, fix, got=", ".join(attributes))
        more: dict[str, Any] = {"attributes": attributes} if self.api == "typed" else {}
        if isinstance(operands, xb.XlaBuilder):
            return operands.custom_call(self.target, shape, **more)
        return xb.custom_call(self.target, operands, shape, **more)

    def __repr__(self) -> str:
        return f"<FfiFunction {self.name!r} for {self.platform}: {self.target}>"


class FfiLibrary:
    """A library built by `lowering.ffi.build`; its functions are attributes (`library.scale`).

    Attributes:
        functions: the functions by name.
        path: the path of the shared library.
    """

    def __init__(self, functions: Mapping[str, FfiFunction], path: str) -> None:
        self.functions: Final = MappingProxyType(dict(functions))
        self.path: Final = path

    def __getattr__(self, name: str) -> FfiFunction:
        functions = self.__dict__.get("functions", {})
        if name in functions:
            function: FfiFunction = functions[name]
            return function
        raise AttributeError(
            f"the library has no function {name!r}; it has {', '.join(functions) or 'none'}",
            name=name,
            obj=self,
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.functions})

    def __repr__(self) -> str:
        return f"<FfiLibrary {', '.join(self.functions)}: {self.path}>"


def build(
    source: str | PathLike[str],
    targets: str | Sequence[str] | Mapping[str, str] | None = None,
    *,
    platform: str = "cpu",
    api: Literal["typed", "untyped"] = "typed",
    flags: Sequence[str] = (),
    compiler: str | PathLike[str] | None = None,
    language: str | None = None,
    folder: str | PathLike[str] | None = None,
) -> FfiLibrary:
    """Compile C or C++, load the library and register its functions for custom calls.

    For tests, notebooks and small extensions. Handlers of XLA's FFI are defined in C++ by
    ``XLA_FFI_DEFINE_HANDLER_SYMBOL`` of ``xla/ffi/api/ffi.h``, in C as ``XLA_FFI_Error*
    name(XLA_FFI_CallFrame*)`` of ``xla/ffi/api/c_api.h``. Both headers come with jaxlib,
    and their folder is on the include path. A handler that fails returns an error
    (``ffi::Error``), which a call of the program raises as an ExecutionError. A C++ exception that
    leaves a handler ends the process.

    Libraries are cached in a folder that processes share, so that a source is compiled once. If
    the source, or a file that it includes, has changed, it is compiled again. Computations that
    were recorded before still use the functions that they were recorded with.

    Args:
        source: the text, or the path of a file (.c, .cc, .cpp, .cxx, .cu).
        targets: the functions to register: None for all functions that the source defines; the
            name of one function, or a sequence of names; or a mapping from target names to names in
            the source. Without a mapping, a function is registered under its name and a hash of the
            source. A mapping registers functions under exactly its target names, for modules in
            files that call these names; a target name can't be registered again for another source
            in the same process.
        platform: the platform of the functions: "cpu" or "gpu". Functions for a GPU receive
            pointers to GPU memory; to compile kernels, pass `compiler="nvcc"`, and
            ``-Xcompiler -fPIC`` among the flags.
        api: "typed" for handlers of XLA's FFI, "untyped" for the form in Operation Semantics,
            ``void f(void* out, const void** in)``.
        flags: flags for the compiler, such as "-O0" or "-lz". They are appended to
            ``-std=c++17 -O2 -shared -fPIC -pthread``.
        compiler: the name or path of the compiler; None for the value of the environment variable
            CXX, else the first of g++, c++ and clang++ that exists (for C: CC; gcc, cc, clang).
        language: "c" or "c++"; None for the language of the file's suffix, or C++ for source text.
        folder: the folder where libraries are cached; None for xlabuilder/ffi in the folder
            XDG_CACHE_HOME, or ~/.cache if that variable is not set.

    Returns:
        An FfiLibrary.

    Raises:
        CompileError: there is no compiler, it refuses the source, the library can't be loaded, or
            the folder can't be used.
        OperandError: the library has no function of a name in `targets`, another function already
            has a target name in `targets`, or an argument is invalid.

    Example:
        >>> import builder as xb, lowering, numpy as np
        >>> library = lowering.ffi.build('''
        ... extern "C" void twice(void* out, const void** in) {
        ...   *(float*)out = 2 * *(const float*)in[0];
        ... }''', api="untyped", flags=["-O0"])
        >>> list(library.functions)
        ['twice']
    """
    if not isinstance(platform, str) or platform not in ("cpu", "gpu"):
        is_tpu = isinstance(platform, str) and platform == "tpu"
        fix = "record ops instead, because a TPU can't call C functions" if is_tpu else ""
        raise operand_error("platform must be 'cpu' or 'gpu'", fix, got=brief(platform))
    if not isinstance(api, str) or api not in _DEFINITIONS:
        raise operand_error("api must be 'typed' or 'untyped'", got=brief(api))
    if isinstance(flags, str) or not isinstance(flags, Sequence):
        raise operand_error(
            "flags must be a sequence of strings", "pass flags=['-O0', '-lz']", got=brief(flags)
        )
    for flag in flags:
        if not isinstance(flag, str) or "\0" in flag:
            raise operand_error("a flag must be a string", got=brief(flag))
    requested = _requested(targets)
    code = read_source(source, language)
    with _LOCK:
        built = shared_library(code, tuple(flags), compiler, folder)
        library = _load(built)
        names = _defined_functions(library, code, api) if requested is None else requested
        if isinstance(names, Mapping):
            symbols = {target: (target, symbol) for target, symbol in names.items()}
        else:
            symbols = {name: (f"{name}.{built.identity[:16]}", name) for name in names}
        for _, symbol in symbols.values():
            _check_symbol(library, symbol, code, api)
        functions = {}
        for name, (target, symbol) in symbols.items():
            _register(target, getattr(library, symbol), platform, api)
            functions[name] = FfiFunction(name, target, platform, api, library)
    return FfiLibrary(functions, str(built.path))


def _requested(targets: Any) -> Sequence[str] | Mapping[str, str] | None:
    """Check the argument `targets` of `build`; return a single name as a list."""
    if targets is None:
        return None
    if isinstance(targets, str):
        targets = [targets]
    names: list[Any] = []
    if isinstance(targets, Mapping):
        names = [*targets.values(), *targets]
    elif isinstance(targets, Sequence) and not isinstance(targets, (bytes, bytearray)):
        names = list(targets)
    if not names or not all(isinstance(n, str) and n.isprintable() and n for n in names):
        raise operand_error(
            "targets must be names of functions, or a mapping from target names to names of "
            "functions",
            got=brief(targets),
        )
    checked: Sequence[str] | Mapping[str, str] = targets
    return checked


def _load(built: SharedLibrary) -> ctypes.CDLL:
    library = _LOADED.get(built.identity)
    if library is None:
        try:
            library = ctypes.CDLL(str(built.path))
        except OSError as error:
            reason = str(error).removeprefix(f"{built.path}: ")
            fix = (
                "allow that folder to contain executable files, or pass another folder: folder=..."
            )
            undefined = re.search(r"undefined symbol: (\S+)", reason)
            if undefined is not None:
                fix = (
                    f"define {undefined[1]}, or link the library that defines it: flags=['-lNAME']"
                )
            message = f"the built library can't be loaded: {reason}"
            raise compile_error(message, fix, detail=str(error)) from None
        _LOADED[built.identity] = library
    return library


def _register(target: str, function: Any, platform: str, api: Literal["typed", "untyped"]) -> None:
    try:
        register_custom_call_target(target, function, platform, api=api)
    except OperandError as error:
        if "already registered" not in str(error):
            raise
        raise operand_error(
            f"the target name {brief(target)} belongs to another source on {platform} already, and "
            f"XLA can't unregister a target",
            "pass targets as a list of names, which are registered with a hash of the source; or "
            "pass another target name; or restart the process",
        ) from None


# The functions that a source defines. A library does not distinguish handlers from other functions.

_NOT_CODE: Final = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
    r"'(?:\\[^\n']{1,9}|[^'\\\n])'",
    re.DOTALL,
)
"""Matches comments, string literals and character literals."""

_DEFINITIONS: Final = {
    "typed": re.compile(
        r"\bXLA_FFI_DEFINE_HANDLER_SYMBOL\s*\(\s*(\w+)"
        r"|\bXLA_FFI_Error\s*\*\s*(\w+)\s*\(\s*XLA_FFI_CallFrame\s*\*\s*\w*\s*\)\s*\{"
    ),
    "untyped": re.compile(
        r"\bvoid\s+(\w+)\s*\(\s*void\s*\*\s*\w*\s*,"
        r"\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*\*\s*\w*\s*\)\s*\{"
    ),
}

_DEFINE_FIX: Final = {
    "typed": "define a handler with XLA_FFI_DEFINE_HANDLER_SYMBOL(name, function, binding), or in "
    "C as XLA_FFI_Error* name(XLA_FFI_CallFrame* frame)",
    "untyped": "define a function void name(void* out, const void** in)",
}

_OTHER_API: Final = {"typed": "untyped", "untyped": "typed"}


def _definitions(code: NativeSource, api: str) -> list[str]:
    """Return the names of the functions of the form `api` that a source seems to define."""
    matches = _DEFINITIONS[api].findall(_NOT_CODE.sub(" ", code.text))
    return list(dict.fromkeys("".join(groups) for groups in matches))


def _defined_functions(library: ctypes.CDLL, code: NativeSource, api: str) -> list[str]:
    """Return the custom-call functions that the source defines and the library exports."""
    defined = _definitions(code, api)
    names = [name for name in defined if hasattr(library, name)]
    if names:
        return names
    if defined:
        message = f"the source defines {', '.join(defined)}, which the library does not export"
        raise operand_error(message, _export_fix(code))
    other = _OTHER_API[api]
    fix = f"{_DEFINE_FIX[api]}; or pass targets=[...] if a macro defines the function"
    if any(hasattr(library, name) for name in _definitions(code, other)):
        fix = f"pass api={other!r}, because the source defines {other} functions"
    kind = "handler" if api == "typed" else "function"
    raise operand_error(f"no {api} {kind} is found in the source", fix)


def _export_fix(code: NativeSource) -> str:
    if code.language == "c":
        return "remove `static` from the function"
    return (
        "write extern \"C\" before the function, remove `static`, or pass language='c' for C source"
    )


def _check_symbol(library: ctypes.CDLL, symbol: str, code: NativeSource, api: str) -> None:
    """Refuse a function that the library does not export, or that has the form of the other API.

    XLA calls a handler when it is registered, and crashes if the function is not a handler.
    """
    if hasattr(library, symbol):
        other = _OTHER_API[api]
        if symbol in _definitions(code, other) and symbol not in _definitions(code, api):
            raise operand_error(
                f"api is {api!r}, but the source defines {symbol} as {other}", f"pass api={other!r}"
            )
        return
    exported = [name for name in _definitions(code, api) if hasattr(library, name)]
    fix = f"pass one of {', '.join(exported)}" if exported else _export_fix(code)
    raise operand_error(f"the library has no function {brief(symbol)}", fix)
