"""StablehloModule: a lowered computation to print, save, load and compile.

A module is saved in one of three formats: MLIR text (``.mlir``); MLIR bytecode (``.mlirbc``), fast,
for the same version of jaxlib; and the portable artifact (``.stablehlo``), which StableHLO keeps
readable for years and which can be written for older versions.

StableHLO programs have neither tuples nor parameter names. These are stored in attributes that
other readers ignore. `xlabuilder.name` of an argument is the name of the parameter.
`xlabuilder.parameters` and `xlabuilder.result` of the function are the nested shapes. If a
parameter's name does not follow from its arguments (an empty tuple has none),
`xlabuilder.parameter_names` of the function lists the names of all parameters.
`xlabuilder.nesting` of the function is the nesting of the arguments and results of a function that
was called with trees (see `call_tree`), and `xlabuilder.platforms` the names of the platforms of a
module for several (see `platforms`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NoReturn

from jaxlib.mlir import ir

from builder.checking import flag
from builder.errors import OperandError, ShapeInferenceError, ShapeTextError, brief, error_of
from builder.graph.calls import explained
from builder.inspection.parts import Heading, Part, ProgramText
from builder.support.arguments import NotAFunction
from builder.support.display import Displayed
from builder.support.imports import extension
from builder.support.names import ExplainsAttributes
from builder.types.foreign_arrays import is_tracer
from builder.types.shape import (
    ArrayShape,
    ProgramShape,
    Shape,
    TokenShape,
    TupleShape,
    leaf_count,
    leaves,
    parse_shape,
)
from lowering.errors import LoweringError, ModuleFileError, VersionError
from lowering.host.callbacks import PythonFunction
from lowering.jaxlib_api import versions
from lowering.mlir.attributes import ARGUMENT_NAME
from lowering.mlir.modules import module_text
from lowering.mlir.operations import attribute_text, entry_text, functions_in, main_function
from lowering.mlir.types import leaf_paths, shape_of_type
from lowering.pjrt.entry_layouts import LAYOUT_MODE
from lowering.reading import module_reader
from lowering.reading.exported import embedded_artifact, platforms_of, trees_of
from lowering.reading.module_reader import file_error
from lowering.stablehlo.call_tree import NESTING, CallTree, parsed_tree, with_call_tree
from lowering.stablehlo.platforms import (
    GLOBAL_CONSTANT,
    declare_platforms,
    declared_platforms,
)
from lowering.stablehlo.versions import checked_version, lowest_version, version_error

PathLike = str | os.PathLike[str]
Buffer = bytes | bytearray | memoryview
_Leaf = ArrayShape | TokenShape


class StablehloModule(Displayed, ExplainsAttributes, NotAFunction):
    """A verified StableHLO module with a function ``@main``.

    `lowering.lower` and `lowering.load` return one.

    Attributes:
        module: the MLIR module. To create operations of other dialects (arith, shape) in it, call
            ``module.context.load_all_available_dialects()`` first.
        program_shape: the parameters and the result of the computation, tuples nested.
        functions: the Python functions that the module calls; files and text do not contain them.
        platforms: the platforms of a `jax.export.Exported` for several platforms. The first
            argument of @main is then the number of a platform, which `compile` sets.
        tree: the nesting of the arguments and results of a function of jax or `lowering.jit`.

    Example:
        >>> import builder as xb, lowering
        >>> @xb.computation(xb.f32[2])
        ... def double(x):
        ...     return x + x
        >>> module = lowering.lower(double)
        >>> module
        <StablehloModule 'double' (x: f32[2]) -> f32[2]>
        >>> again = lowering.load_bytes(module.artifact(version="1.0.0"))
        >>> again.text == module.text
        True
    """

    __slots__ = ("__weakref__", "functions", "module", "platforms", "program_shape", "tree")

    def __init__(
        self,
        module: ir.Module,
        program_shape: ProgramShape,
        functions: Sequence[PythonFunction] = (),
        *,
        platforms: Sequence[str] = (),
        tree: CallTree | None = None,
    ) -> None:
        self.module = module
        self.program_shape = program_shape
        self.functions = tuple(functions)
        self.platforms = tuple(platforms)
        self.tree = tree

    if not TYPE_CHECKING:  # type checkers report the call

        def __call__(self, *arguments: object, **_named: object) -> NoReturn:
            rule = "a StablehloModule is not a function"
            fix = "run it with lowering.compile(module)(...)"
            if any(map(is_tracer, arguments)):
                fix = "call lowering.to_jax(lowering.to_computation(module))(...)"
            raise error_of(OperandError, self.name, rule, fix, got=repr(self))

    def __reduce__(self) -> NoReturn:
        rule = "a module can't be copied or pickled"
        fix = "copy or pickle module.bytecode, and read it with lowering.load_bytes(data)"
        raise error_of(OperandError, "copy", rule, fix, got=repr(self))

    def with_module(
        self, module: ir.Module, program_shape: ProgramShape | None = None
    ) -> StablehloModule:
        """Return this StablehloModule with another MLIR module in place of its own."""
        return StablehloModule(
            module,
            self.program_shape if program_shape is None else program_shape,
            self.functions,
            platforms=self.platforms,
            tree=self.tree,
        )

    @property
    def name(self) -> str:
        """The module's name, or "main" if it has none."""
        attributes = self.module.operation.attributes
        name = attribute_text(attributes["sym_name"]) if "sym_name" in attributes else None
        return name or "main"

    @property
    def text(self) -> str:
        """MLIR text without locations."""
        return self.to_text()

    @explained
    def to_text(self, *, locations: bool = False) -> str:
        """MLIR text.

        Args:
            locations: whether to print the name and source line of each operation.
        """
        locations = flag("to_text", "locations", locations)
        return module_text(self.module, locations=locations)

    @property
    def bytecode(self) -> bytes:
        """MLIR bytecode with locations, for the version of jaxlib that wrote it."""
        return b"".join(module_reader.sealed_bytecode(self.module))

    @explained
    def artifact(self, version: str | None = None) -> bytes:
        """The portable artifact: bytecode that StableHLO keeps readable.

        Args:
            version: the StableHLO version to write, such as "1.9.0"; "minimum" or "current", the
                oldest or newest that the installed jaxlib writes; "4w" or "12w", the version that
                all releases of the last 4 or 12 weeks can read. None selects the first version
                from 1.0.0 on that can express the module, which the most readers accept.

        Raises:
            VersionError: `version` is not a supported version, or cannot express an operation of
                the module.
        """
        requested = checked_version("artifact", version)
        try:
            return self._write_artifact(requested or partial(lowest_version, self.module))
        except ValueError as error:
            report = str(error)
        newest = versions.current_version()
        if requested is None:  # `version_history` does not list what the module needs
            with contextlib.suppress(ValueError):
                return self._write_artifact(newest)
        raise version_error(self.module, self.name, requested or newest, report)

    def _write_artifact(self, version: str | Callable[[bytes], str]) -> bytes:
        return module_reader.sealed_artifact(self.module, version, self._prepare_artifact)

    def _prepare_artifact(self, copy: ir.Module) -> None:
        extension("lowering.legalize", "prepare_artifact", copy, self.name)

    def _expanded(self, op: str, composites: str, without: Sequence[str]) -> StablehloModule:
        """Return a module without some operations; `op` is the function that the user called."""
        if (
            type(composites) is str
            and composites == "keep"
            and type(without) in (tuple, list)
            and not without
        ):
            return self
        return extension("lowering.portable", "expanded", self, op, composites, without)

    def verify(self) -> None:
        """Run MLIR's verifier; `lower` and `load` return verified modules.

        Raises:
            LoweringError: an operation violates a rule of its dialect.
        """
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            reports = [str(d.message) for d in error.error_diagnostics]
            reason = reports[0].splitlines()[0] if reports else "the verifier reports no reason"
            rule = f"{self.name} is not valid StableHLO: {reason}"
            raise error_of(LoweringError, "verify", rule, detail="\n".join(reports)) from None

    @explained
    def save(
        self,
        path: PathLike,
        *,
        version: str | None = None,
        composites: Literal["keep", "inline"] = "keep",
        without: Sequence[str] = (),
    ) -> None:
        """Write the module to a file, atomically.

        The content is written to a temporary file in the same folder, which is then renamed.

        Args:
            path: ends in .mlir (text), .mlirbc (bytecode) or .stablehlo (portable artifact).
            version: the StableHLO version to write (see `artifact`); for .stablehlo only.
            composites: "inline" replaces composites, and operations of CHLO such as `erf` and
                `top_k`, by calls of their decompositions in the file.
            without: names of operations that are replaced by others in the file, such as
                "cholesky", "triangular_solve" and "fft".

        Raises:
            ModuleFileError: `path` has another suffix; the module calls a Python function; or the
                file cannot be written.
            VersionError: `version` is not a supported version, or cannot express an operation.
            LoweringError: an operation in `without` has no expansion.

        Example:
            >>> import builder as xb, lowering, tempfile, pathlib
            >>> b = xb.XlaBuilder("double")
            >>> x = b.parameter(xb.f32[2], "x")
            >>> module = lowering.lower(b.build(x + x))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "double.stablehlo")
            ...     module.save(path, version="minimum")
            ...     lowering.load(path).program_shape
            (x: f32[2]) -> f32[2]
        """
        name = path_text(path, "save")
        if self.functions:
            called = self.functions[0]
            raise _unwritable(
                name,
                f"{self.name} calls the Python function {called.name}{called.place}, which a file "
                f"can't contain",
                "call a registered function instead: xb.custom_call; or pass the result as an "
                "argument",
            )
        suffix = Path(name).suffix.lower()
        if suffix not in _SUFFIXES:
            rule = f"the suffix selects the format, got {brief(suffix) if suffix else 'none'}"
            fix = "use .mlir for text, .mlirbc for bytecode, .stablehlo for a portable artifact"
            raise _unwritable(name, rule, fix)
        if version is not None and suffix != ".stablehlo":
            raise VersionError(
                f"{_SUFFIXES[suffix]} has no StableHLO version",
                got=brief(version),
                context=(name,),
                fix="save as .stablehlo, or omit the version",
                version=version,
                op="save",
            )
        written = self._expanded("save", composites, without)
        if suffix == ".mlir":
            pieces = [written.text.encode()]
        elif suffix == ".mlirbc":
            pieces = module_reader.sealed_bytecode(written.module)
        else:
            pieces = [written.artifact(checked_version("save", version))]
        write_atomically(name, pieces)

    def _parts(self) -> list[Part]:
        from builder.inspection.describing import signature_table  # lazy import

        text = module_text(self.module, max_elements=_SHOWN_ELEMENTS)
        return [
            Heading("StablehloModule", self.name),
            signature_table(self.program_shape),
            ProgramText(text, "print(module)"),
        ]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<StablehloModule {self.name!r} {self.program_shape}>"


_SHOWN_ELEMENTS: Final = 64
"""The most elements of a constant that a notebook shows."""

_SUFFIXES: Final = {".mlir": "text", ".mlirbc": "bytecode", ".stablehlo": "a portable artifact"}


def path_text(path: Any, op: str) -> str:
    """Return a path as text; `op` is the function for messages."""
    try:
        text = os.fspath(path)
    except TypeError:
        text = path
    if isinstance(text, str):
        return text
    fix = ""
    if isinstance(text, bytes):
        fix = "use os.fsdecode(path)"
    rule = "a path must be a string or a pathlib.Path"
    raise error_of(OperandError, op, rule, fix, got=type(path).__name__)


def _reason(error: OSError, fixes: Mapping[int, str]) -> tuple[str, str]:
    """Return the reason and the fix for a file that cannot be read or written."""
    reason = error.strerror or str(error)
    reason = "the disk is full" if error.errno == errno.ENOSPC else reason[:1].lower() + reason[1:]
    return reason, fixes.get(error.errno or 0, "")


_NAME_A_FILE: Final = "name a file in that folder"
_FIXES: Final = {
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ENOTDIR: "a part of the path is a file; replace this part by a folder",
    errno.EISDIR: _NAME_A_FILE,
    errno.ELOOP: "the symbolic links of the path form a cycle; pass the path of a regular file",
}
_READ_FIXES: Final = {
    **_FIXES,
    errno.ENOENT: "check the name and the current folder",
    errno.EACCES: "let this user read the file and enter its folders (chmod)",
    errno.EPERM: "let this user read the file and enter its folders (chmod)",
}
_WRITE_FIXES: Final = {
    **_FIXES,
    errno.EACCES: "let this user write the file and its folder (chmod), or save elsewhere",
    errno.EPERM: "let this user write the file and its folder (chmod), or save elsewhere",
    errno.ENOSPC: "free disk space, or save elsewhere",
    errno.EDQUOT: "free disk space, or save elsewhere",
    errno.EROFS: "save elsewhere",
    errno.EFBIG: "raise the limit for the size of files (ulimit -f), or save elsewhere",
}


def _unwritable(name: str, reason: str, fix: str = "", detail: str = "") -> ModuleFileError:
    context = (module_reader.display_name(name),)
    return ModuleFileError(reason, path=name, op="save", fix=fix, context=context, detail=detail)


def write_atomically(name: str, pieces: list[bytes], *, mode: int = 0o666) -> None:
    """Write a file atomically: a reader finds the old content or the new, never a part.

    Args:
        name: the path.
        pieces: the content.
        mode: the permissions of a new file, less those that the process's umask removes. An
            existing file keeps its own.
    """
    target = Path(name)
    temporary: Path | None = None
    try:
        target = Path(os.path.realpath(name))  # replaces the target of a symbolic link
        old_mode = None
        with contextlib.suppress(FileNotFoundError):
            old_mode = target.stat().st_mode
        if old_mode is not None and not stat.S_ISREG(old_mode):
            is_folder = stat.S_ISDIR(old_mode)
            reason = "a folder" if is_folder else "not a regular file"
            fix = _NAME_A_FILE if is_folder else "pass another path"
            raise _unwritable(name, f"can't be written: it is {reason}", fix)
        if old_mode is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        beside = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(beside, flags, mode)
        temporary = beside
        try:
            if old_mode is not None:
                beside.chmod(stat.S_IMODE(old_mode))
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(descriptor, rest[: 1 << 30]) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(target)
        temporary = None
        _sync_folder(target.parent)
    except OSError as error:
        folder = target.parent
        reason, fix = _reason(error, _WRITE_FIXES)
        if error.errno == errno.ENOENT and not folder.exists():
            reason, fix = f"there is no folder {folder}", f"create it: os.makedirs({str(folder)!r})"
        raise _unwritable(name, f"can't be written: {reason}", fix, str(error)) from None
    except ModuleFileError:  # a ValueError
        raise
    except ValueError as error:  # a zero byte in the name
        raise _unwritable(
            name, f"can't be written: {error}", "use a name without zero bytes"
        ) from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, if the system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


PrefixCheck = Callable[[BinaryIO, int, str], None]
"""Checks the beginning of a file; see `read_file`."""


def read_file(path: Any, op: str, check: PrefixCheck) -> tuple[bytes, str]:
    """Return the content of a regular file, and its name.

    Args:
        path: the file.
        op: the function that the user called.
        check: is called with the open file, its size and its path; raises ModuleFileError if the
            beginning shows that the file is of another kind.

    Raises:
        ModuleFileError: the file cannot be read.
        OperandError: `path` is not a path.
    """
    path = path_text(path, op)
    try:
        # Opening a pipe or a device may block or have side effects, so the kind is checked first.
        # It may change in between, so it is checked again, and the file is opened without blocking.
        _check_regular(Path(path).stat(), path)
        with open(path, "rb", opener=_open_without_blocking) as file:
            before = os.fstat(file.fileno())
            _check_regular(before, path)
            check(file, before.st_size, path)
            # Files in /proc have a size of 0. Other files may have grown by now.
            data = file.read(before.st_size + 1) if before.st_size else file.read()
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise _unreadable(path, "it changed while it was read", "read it again when complete")
    except OSError as error:
        raise _unreadable(path, *_reason(error, _READ_FIXES), detail=str(error)) from None
    except ModuleFileError:  # a ValueError
        raise
    except ValueError as error:  # a zero byte in the name
        raise _unreadable(path, str(error), "use a valid file name") from None
    return data, path


def _open_without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _unreadable(path: str, reason: str, fix: str = "", detail: str = "") -> ModuleFileError:
    return file_error(path, f"can't be read: {reason}", fix, detail=detail)


def _check_regular(status: os.stat_result, path: str) -> None:
    """Refuse folders, pipes and devices."""
    if stat.S_ISDIR(status.st_mode):
        fix = _NAME_A_FILE
        if Path(path, "saved_model.pb").exists():
            fix = "this is a TensorFlow SavedModel: export StableHLO with the program that wrote it"
        raise _unreadable(path, "it is a folder", fix)
    if not stat.S_ISREG(status.st_mode):
        raise _unreadable(path, "it is not a regular file", "copy it into a regular file")


@explained
def load_bytes(data: Buffer | str) -> StablehloModule:
    """Read a module from memory: text, bytecode, a portable artifact or a serialized Exported.

    Raises:
        ModuleFileError: `data` is not a StableHLO module with a function ``@main``.
        OperandError: `data` is neither bytes (bytearray, memoryview) nor text.

    Example:
        >>> import lowering
        >>> lowering.load_bytes('''
        ... func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        ...   return %x : tensor<2xf32>
        ... }''')
        <StablehloModule 'main' (arg0: f32[2]) -> f32[2]>
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    elif isinstance(data, (bytearray, memoryview)):
        data = bytes(data)
    elif not isinstance(data, bytes):
        fix = "use lowering.load for a file" if isinstance(data, os.PathLike) else ""
        rule = "expected bytes or text"
        raise error_of(OperandError, "load_bytes", rule, fix, got=type(data).__name__)
    return from_bytes(data, None)


def from_bytes(data: bytes, path: str | None) -> StablehloModule:
    """Read a module from the content of a file; raises the errors of `load`."""
    exported = embedded_artifact(data)
    module = module_reader.read(exported or data, path)
    shape = program_shape_of(module, path)
    if exported is None:
        return of_attributes(module, shape, path)
    platforms, trees, tree = platforms_of(data), trees_of(data), None
    if trees is not None:
        shape, tree = with_call_tree(module, shape, platforms, *trees)
    return with_attributes(StablehloModule(module, shape, platforms=platforms, tree=tree))


def of_attributes(
    module: ir.Module, shape: ProgramShape, path: str | None = None
) -> StablehloModule:
    """Return a module with the platforms and the tree in the attributes of @main.

    Args:
        module: the module.
        shape: its signature.
        path: the file, for messages; None if there is none.

    Raises:
        ModuleFileError: the attribute with the tree can't be read.
    """
    platforms = declared_platforms(module)
    attributes, tree = main_function(module.operation).attributes, None
    if NESTING in attributes:
        first = 1 if platforms else 0
        called = ProgramShape(shape.parameters[first:], shape.result)
        try:
            tree = parsed_tree(attribute_text(attributes[NESTING]) or "", called)
        except ValueError as error:
            raise _wrong_attribute(path, f"{NESTING.partition('.')[2]}: {error}") from None
    return StablehloModule(module, shape, platforms=platforms, tree=tree)


def with_attributes(module: StablehloModule) -> StablehloModule:
    """Return a module of jax; set the attributes of @main that files keep of what jax knows."""
    declare_platforms(module.module, module.platforms)
    text = None if module.tree is None else module.tree.literal()
    if text is not None:
        main = main_function(module.module.operation)
        main.attributes[NESTING] = ir.StringAttr.get(text, module.module.context)
    return module


def program_shape_of(module: ir.Module, path: str | None) -> ProgramShape:
    """Return the signature of ``@main``, with tuples and names from the attributes of `lower`."""
    function = next(functions_in(module.operation, "main"), None)
    if function is None or not len(function.regions[0].blocks):
        raise file_error(path, "has no function @main", "rename the entry function to main")
    function_type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    try:
        # Thousands of arguments have few different types.
        shape_of = cache(shape_of_type)
        inputs, results = (
            [shape_of(t) for t in types] for types in (function_type.inputs, function_type.results)
        )
    except LoweringError as error:
        rule, fix = f"@main can't be called: {error}", "use tensors of XLA's element types"
        raise file_error(path, rule, fix) from None
    inputs, names = _with_layouts(function, "arg_attrs", inputs)
    results, _ = _with_layouts(function, "res_attrs", results)

    attributes = function.attributes
    parameters: list[Shape] = list(inputs)
    result: Shape = results[0] if len(results) == 1 else TupleShape(results)
    if "xlabuilder.parameters" in attributes:
        parameters = [_shape(a, path) for a in _array(attributes["xlabuilder.parameters"], path)]
        _check_leaves("parameters", parameters, inputs, path)
        leaf_names = iter(names)
        names = [
            _parameter_name(list(islice(leaf_names, leaf_count(shape))), shape, number)
            for number, shape in enumerate(parameters)
        ]
    if "xlabuilder.result" in attributes:
        attribute = attributes["xlabuilder.result"]
        # Usually it is the tuple of all results, and printing that is faster than parsing.
        if attribute_text(attribute) != str(result):
            result = _shape(attribute, path)
            _check_leaves("result", [result], results, path)
    if "xlabuilder.parameter_names" in attributes:
        listed = _array(attributes["xlabuilder.parameter_names"], path)
        names = [attribute_text(a) for a in listed]
        if len(names) != len(parameters) or None in names:
            raise _wrong_attribute(path, "parameter_names does not match @main")
    defaulted = [n if n is not None else f"arg{i}" for i, n in enumerate(names)]
    return ProgramShape(parameters, result, defaulted)


def _wrong_attribute(path: str | None, rule: str) -> ModuleFileError:
    fix = "remove the attribute from @main, or save the module again"
    return file_error(path, f"the attribute xlabuilder.{rule}", fix)


def _with_layouts(
    function: ir.Operation, key: str, shapes: list[_Leaf]
) -> tuple[list[_Leaf], list[str | None]]:
    """Return the shapes of arguments or results with their layouts, and their names."""
    names: list[str | None] = [None] * len(shapes)
    shapes = list(shapes)
    if key in function.attributes:
        for index, entry in enumerate(ir.ArrayAttr(function.attributes[key])):
            values = ir.DictAttr(entry)
            names[index] = entry_text(values, ARGUMENT_NAME) or entry_text(values, GLOBAL_CONSTANT)
            shapes[index] = _with_layout(shapes[index], entry_text(values, LAYOUT_MODE))
    return shapes, names


def _with_layout(shape: _Leaf, mode: str | None) -> _Leaf:
    """Return `shape` with the layout of `mhlo.layout_mode`: "{0,1}", "default" or "auto".

    An invalid layout is ignored, so that the module can be inspected; `compile` refuses it.
    """
    if mode is None or mode in ("default", "auto") or not isinstance(shape, ArrayShape):
        return shape
    try:
        return shape.with_layout(mode)
    except (ShapeInferenceError, ShapeTextError):
        return shape


def _array(attribute: ir.Attribute, path: str | None) -> list[ir.Attribute]:
    if not isinstance(attribute, ir.ArrayAttr):
        raise _wrong_attribute(path, f"* must be a list, got {attribute}")
    return list(ir.ArrayAttr(attribute))


def _shape(attribute: ir.Attribute, path: str | None) -> Shape:
    text = attribute_text(attribute)
    if text is None:
        raise _wrong_attribute(path, f"* must contain shapes, got {attribute}")
    try:
        return parse_shape(text)
    except ShapeTextError as error:
        raise file_error(path, f"the attribute xlabuilder.* must contain shapes: {error}") from None


def _check_leaves(what: str, nested: list[Shape], flat: list[_Leaf], path: str | None) -> None:
    """Refuse an attribute whose shapes do not match the function."""
    if [leaf for shape in nested for leaf in leaves(shape)] != flat:
        raise _wrong_attribute(path, f"{what} does not match @main")


def read_name(name: str, shape: Shape) -> str | None:
    """Return the name that `load` infers for a parameter from the names of its leaves.

    Return None for a parameter without leaves: an empty tuple.
    """
    names = [f"{name}{path}" for path in leaf_paths(shape)]
    return _parameter_name([*names], shape, 0) if names else None


def _parameter_name(names: list[str | None], shape: Shape, number: int) -> str:
    """Return the name of a parameter from the names of its leaves: "state" from "state[0][1]"."""
    first = names[0] if names else None
    if first is None:
        return f"arg{number}"
    return re.sub(r"(\[\d+\])+$", "", first) if isinstance(shape, TupleShape) else first
