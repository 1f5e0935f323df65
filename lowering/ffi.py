"""Functions in C and C++ for custom calls, built from source in one call.

`build` compiles, loads and registers; what it gives is called like an op. XLA can't forget what is
registered, so a function is registered under its name and a hash of the source: a changed source
has another hash, and a cell of a notebook may be run again as often as its reader likes.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import builder as xb
from builder.errors import OperandError, brief
from lowering.errors import CompileError
from lowering.host.custom_calls import register_custom_call_target
from lowering.host.native_code import NativeSource, SharedLibrary, read_source, shared_library

if TYPE_CHECKING:
    from os import PathLike

    from builder.types.shape import ShapeLike

__all__ = ["FfiFunction", "FfiLibrary", "build"]

_OP: Final = "ffi.build"
_LOCK: Final = threading.Lock()
_LOADED: Final[dict[str, ctypes.CDLL]] = {}
"""By identity the libraries of this process: one that is built again is not loaded again."""


class FfiFunction:
    """A function of a library, to be called in computations.

    Attributes:
        name: its name in the source, or the one that was asked for.
        target: what it is registered by: the `target_name` of `xb.custom_call`, which takes more
            arguments (side effects, aliases, layouts), and of ``jax.ffi.ffi_call``.
        platform: "cpu" or "gpu".
        api: "typed" or "untyped".

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

    __slots__ = ("_library", "api", "name", "platform", "target")

    def __init__(
        self, name: str, target: str, platform: str, api: str, library: ctypes.CDLL
    ) -> None:
        self.name = name
        self.target = target
        self.platform = platform
        self.api = api
        self._library = library

    def __call__(
        self,
        operands: xb.XlaOp | Sequence[xb.XlaOp] | xb.XlaBuilder,
        shape: ShapeLike,
        /,
        **attributes: Any,
    ) -> xb.XlaOp:
        """Records a call of the function.

        Args:
            operands: an op, or any number of them; where there is none, the builder.
            shape: the shape of the result, a tuple for several.
            attributes: what the handler takes by name, exactly of its types: an int is an
                int64_t, a float a double, ``numpy.float32(2.5)`` a float; bools, strings, lists of
                numbers, NumPy arrays of rank 1 and mappings are taken too (see `xb.custom_call`).

        Returns:
            A value of that shape.

        Raises:
            OperandError, ShapeInferenceError: as `xb.custom_call` does.
        """
        more: dict[str, Any] = {"attributes": attributes}
        if self.api == "untyped":
            if attributes:
                raise OperandError(
                    f"{self.name}: an untyped function takes no attributes, got "
                    f"{', '.join(attributes)}\n"
                    f"fix: pass them as operands, or make it a handler of XLA's FFI",
                    op=self.name,
                )
            more = {}
        if isinstance(operands, xb.XlaBuilder):
            return operands.custom_call(self.target, shape, **more)
        return xb.custom_call(self.target, operands, shape, **more)

    def __repr__(self) -> str:
        return f"<FfiFunction {self.name!r} for {self.platform}: {self.target}>"


class FfiLibrary:
    """What was built: its functions are attributes, `library.scale`, and entries of `functions`.

    Attributes:
        functions: the functions by name.
        path: the shared library.
    """

    def __init__(self, functions: Mapping[str, FfiFunction], path: str) -> None:
        self.functions: Final = MappingProxyType(dict(functions))
        self.path: Final = path

    def __getattr__(self, name: str) -> FfiFunction:
        functions = self.__dict__.get("functions", {})
        if name in functions:
            found: FfiFunction = functions[name]
            return found
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
    api: str = "typed",
    flags: Sequence[str] = (),
    compiler: str | PathLike[str] | None = None,
    language: str | None = None,
    folder: str | PathLike[str] | None = None,
) -> FfiLibrary:
    """Compiles C or C++, loads the library and registers its functions for custom calls.

    For tests, notebooks and small extensions. Handlers of XLA's FFI are defined in C++ by
    ``XLA_FFI_DEFINE_HANDLER_SYMBOL`` of ``xla/ffi/api/ffi.h``, in C as ``XLA_FFI_Error*
    name(XLA_FFI_CallFrame*)`` of ``xla/ffi/api/c_api.h``; both headers are jaxlib's, and found
    without a flag. A handler that fails returns an error (``ffi::Error``), which a call of the
    program raises as an ExecutionError. A C++ exception must not leave it: it ends the process.

    Libraries are kept in a folder, so that a source is compiled once, in seconds, and loaded in
    milliseconds from then on, by other processes too. A source that was changed, or that includes a
    file that was changed, is compiled again; computations that were recorded before keep the
    functions that they were recorded with.

    Args:
        source: the text, or the path of a file (.c, .cc, .cpp, .cxx, .cu).
        targets: which functions to register. None for all that the source defines; a name, or
            several; or a mapping from target names to names in the source. Those of a mapping are
            registered under the very names that it gives, for modules that are kept in files, and
            can't be built again from another source in the same process; others under their name
            and a hash.
        platform: for which the functions are: "cpu" or "gpu". On a GPU they get memory of the
            device; `compiler="nvcc"` compiles kernels, with ``-Xcompiler -fPIC`` among the flags.
        api: "typed" for handlers of XLA's FFI, "untyped" for the document's form ``void f(void*
            out, const void** in)``.
        flags: for the compiler, behind ``-std=c++17 -O2 -shared -fPIC -pthread``: "-O0", "-lz".
        compiler: its name or path; None for what CXX (CC for C) in the environment says, or
            g++, c++ or clang++ (gcc, cc or clang).
        language: "c" or "c++"; None for what the suffix says, and C++ for a text.
        folder: where libraries are kept; None for xlabuilder/ffi in XDG_CACHE_HOME, or ~/.cache.

    Returns:
        An FfiLibrary.

    Raises:
        CompileError: there is no compiler, it refuses the source, the library can't be loaded, or
            the folder can't be used.
        OperandError: the library has no such function, a target name belongs to another function
            already, or an argument is of another type.

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
        fix = "\nfix: a TPU calls no C functions; xb.* says what it shall do" * (platform == "tpu")
        raise OperandError(
            f"{_OP}: platform must be 'cpu' or 'gpu', got {brief(platform)}{fix}", op=_OP
        )
    if not isinstance(api, str) or api not in _DEFINED:
        raise OperandError(f"{_OP}: api must be 'typed' or 'untyped', got {brief(api)}", op=_OP)
    if isinstance(flags, str) or not isinstance(flags, Sequence):
        raise OperandError(
            f"{_OP}: flags must be a sequence of strings, got {brief(flags)}\n"
            f"fix: flags=['-O0', '-lz']",
            op=_OP,
        )
    for flag in flags:
        if not isinstance(flag, str) or "\0" in flag:
            raise OperandError(f"{_OP}: a flag must be a string, got {brief(flag)}", op=_OP)
    asked = _asked(targets)
    code = read_source(_OP, source, language)
    with _LOCK:
        made = shared_library(_OP, code, tuple(flags), compiler, folder)
        library = _loaded(made)
        names = _found(library, code, api) if asked is None else asked
        if isinstance(names, Mapping):
            chosen = {target: (target, symbol) for target, symbol in names.items()}
        else:
            chosen = {one: (f"{one}.{made.identity[:16]}", one) for one in names}
        for _, symbol in chosen.values():
            _need_symbol(library, symbol, code, api)
        functions = {}
        for name, (target, symbol) in chosen.items():
            _register(target, getattr(library, symbol), platform, api)
            functions[name] = FfiFunction(name, target, platform, api, library)
    return FfiLibrary(functions, str(made.path))


def _asked(targets: Any) -> Sequence[str] | Mapping[str, str] | None:
    """What `targets` says, checked."""
    if targets is None:
        return None
    if isinstance(targets, str):
        targets = [targets]
    names: list[Any] = []
    if isinstance(targets, Mapping):
        names = [*targets.values(), *targets]
    elif isinstance(targets, Sequence) and not isinstance(targets, (bytes, bytearray)):
        names = list(targets)
    if not names or not all(isinstance(one, str) and one.isprintable() and one for one in names):
        raise OperandError(
            f"{_OP}: targets must be names of functions, or a mapping from target names to them, "
            f"got {brief(targets)}",
            op=_OP,
        )
    checked: Sequence[str] | Mapping[str, str] = targets
    return checked


def _loaded(made: SharedLibrary) -> ctypes.CDLL:
    found = _LOADED.get(made.identity)
    if found is None:
        try:
            found = ctypes.CDLL(str(made.path))
        except OSError as error:
            reason = str(error).removeprefix(f"{made.path}: ")
            fix = "let this process run code of that folder, or name another: folder=..."
            undefined = re.search(r"undefined symbol: (\S+)", reason)
            if undefined is not None:
                fix = f"define {undefined[1]}, or name the library that does: flags=['-l...']"
            raise CompileError(
                f"{_OP}: the library that was built can't be loaded: {reason}\nfix: {fix}",
                op=_OP,
                detail=str(error),
            ) from None
        _LOADED[made.identity] = found
    return found


def _register(target: str, function: Any, platform: str, api: str) -> None:
    try:
        register_custom_call_target(target, function, platform, api=api)
    except OperandError as error:
        if "has another function" not in str(error):
            raise
        raise OperandError(
            f"{_OP}: the target name {brief(target)} belongs to another source on {platform} "
            f"already, and XLA can't forget it\n"
            f"fix: give names in place of a mapping, which are registered with a hash of the "
            f"source; or another target name; or start the process anew",
            op=_OP,
        ) from None


# Which functions a source defines. The library itself can't tell handlers from other functions.

_NOT_CODE: Final = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
    r"'(?:\\[^\n']{1,9}|[^'\\\n])'",
    re.DOTALL,
)
"""Comments, strings and characters."""

_DEFINED: Final = {
    "typed": re.compile(
        r"\bXLA_FFI_DEFINE_HANDLER_SYMBOL\s*\(\s*(\w+)"
        r"|\bXLA_FFI_Error\s*\*\s*(\w+)\s*\(\s*XLA_FFI_CallFrame\s*\*\s*\w*\s*\)\s*\{"
    ),
    "untyped": re.compile(
        r"\bvoid\s+(\w+)\s*\(\s*void\s*\*\s*\w*\s*,"
        r"\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*\*\s*\w*\s*\)\s*\{"
    ),
}

_HOW: Final = {
    "typed": "define a handler with XLA_FFI_DEFINE_HANDLER_SYMBOL(name, function, binding), or in "
    "C as XLA_FFI_Error* name(XLA_FFI_CallFrame* frame)",
    "untyped": "define a function void name(void* out, const void** in)",
}


def _defined(code: NativeSource, api: str) -> list[str]:
    """The names that a source seems to define functions by."""
    found = _DEFINED[api].findall(_NOT_CODE.sub(" ", code.text))
    names = ["".join(one) for one in found]
    return list(dict.fromkeys(names))


def _found(library: ctypes.CDLL, code: NativeSource, api: str) -> list[str]:
    """The functions of a library that its source defines for custom calls."""
    defined = _defined(code, api)
    names = [one for one in defined if hasattr(library, one)]
    if names:
        return names
    other = "untyped" if api == "typed" else "typed"
    if defined:
        raise OperandError(
            f"{_OP}: the source defines {', '.join(defined)}, and the library offers none of that "
            f"name\nfix: {_offered(code)}",
            op=_OP,
        )
    fix = f"{_HOW[api]}; or say targets=[...] if a macro defines it"
    if any(hasattr(library, one) for one in _defined(code, other)):
        fix = f"say api={other!r} for the functions that are there"
    what = "handler" if api == "typed" else "function"
    raise OperandError(f"{_OP}: no {what} is found in the source\nfix: {fix}", op=_OP)


def _offered(code: NativeSource) -> str:
    if code.language == "c":
        return "take `static` away"
    return "write extern \"C\" before it, take `static` away, or say language='c' if it is C"


def _need_symbol(library: ctypes.CDLL, symbol: str, code: NativeSource, api: str) -> None:
    """Refuses what the library lacks, and what is called in the other way.

    XLA calls a handler when it is registered, and dies if it is none.
    """
    if hasattr(library, symbol):
        other = "untyped" if api == "typed" else "typed"
        if symbol in _defined(code, other) and symbol not in _defined(code, api):
            raise OperandError(
                f"{_OP}: the function {symbol} is {other}, as it stands in the source\n"
                f"fix: say api={other!r}",
                op=_OP,
            )
        return
    there = [one for one in _defined(code, api) if hasattr(library, one)]
    fix = f"one of {', '.join(there)}" if there else _offered(code)
    raise OperandError(f"{_OP}: the library has no function {brief(symbol)}\nfix: {fix}", op=_OP)
