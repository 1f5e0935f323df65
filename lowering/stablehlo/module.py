"""StablehloModule: a lowered computation, to be looked at, saved, loaded and compiled.

Three kinds of file hold a module: MLIR text (``.mlir``), to be read and compared; MLIR bytecode
(``.mlirbc``), quick, for the same version of jaxlib; and the portable artifact (``.stablehlo``),
which StableHLO promises to read for years, and which can be written for older versions.

StableHLO programs have no tuples and no parameter names. They are kept in attributes that other
readers pass over: `xlabuilder.name` of an argument is the parameter's name; `xlabuilder.parameters`
and `xlabuilder.result` of the function are the shapes as they were before tuples were flattened.
Where a parameter's name can't be read off its arguments (an empty tuple has none),
`xlabuilder.parameter_names` of the function lists the names of all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from jaxlib.mlir import ir

from builder.check import flag
from builder.errors import OperandError, ShapeInferenceError, ShapeTextError, brief
from builder.support.extensions import extension
from builder.types.shape import (
    ArrayShape,
    ProgramShape,
    Shape,
    TokenShape,
    TupleShape,
    leaves,
    parse_shape,
)
from lowering.errors import LoweringError, ModuleFileError, VersionError
from lowering.host.callbacks import PythonFunction
from lowering.jaxlib_api import versions
from lowering.mlir.attributes import ARGUMENT_NAME
from lowering.mlir.flattening import leaf_paths
from lowering.mlir.types import attribute_text, shape_of_type
from lowering.pjrt.entry_layouts import LAYOUT_MODE
from lowering.reading import module_reader
from lowering.reading.exported import embedded_artifact
from lowering.reading.file_kind import reject_by_prefix

__all__ = [
    "Buffer",
    "StablehloModule",
    "from_bytes",
    "load",
    "load_bytes",
    "path_text",
    "read_file",
    "write_whole",
]

PathLike = str | os.PathLike[str]
Buffer = bytes | bytearray | memoryview


class StablehloModule:
    """A verified StableHLO module with a function ``@main``.

    `lowering.lower` and `lowering.load` make them.

    Attributes:
        module: the MLIR module. To create operations of dialects that are not StableHLO's (arith,
            shape) in it, ``module.context.load_all_available_dialects()`` comes first.
        program_shape: parameters and result as the computation has them, tuples nested.
        functions: the Python functions that it calls. They are not in files and texts.

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

    __slots__ = ("__weakref__", "functions", "module", "program_shape")

    def __init__(
        self,
        module: ir.Module,
        program_shape: ProgramShape,
        functions: Sequence[PythonFunction] = (),
    ) -> None:
        self.module = module
        self.program_shape = program_shape
        self.functions = tuple(functions)

    @property
    def name(self) -> str:
        """The module's name; "main" where it has none."""
        attributes = self.module.operation.attributes
        found = attribute_text(attributes["sym_name"]) if "sym_name" in attributes else None
        return found or "main"

    @property
    def text(self) -> str:
        """MLIR text without locations."""
        return self.to_text()

    def to_text(self, *, locations: bool = False) -> str:
        """MLIR text.

        Args:
            locations: whether each operation carries its name and source line.
        """
        with_locations = flag("to_text", "locations", locations)
        text = self.module.operation.get_asm(enable_debug_info=with_locations)
        return str(text)

    @property
    def bytecode(self) -> bytes:
        """MLIR bytecode, locations included. For the version of jaxlib that wrote it."""
        return b"".join(module_reader.sealed_bytecode(self.module))

    def artifact(self, version: str | None = None) -> bytes:
        """The portable artifact: bytecode that StableHLO stays able to read.

        Args:
            version: the StableHLO version to write for, such as "1.9.0", or "minimum" or
                "current"; None is the current one, the newest that the jaxlib installed writes.

        Raises:
            VersionError: there is no such version, or the module holds an operation that it
                does not have.
        """
        wanted = _checked_version(version)
        try:
            return module_reader.sealed_artifact(self.module, wanted, self._prepare_artifact)
        except ValueError as error:
            raise self._not_in_version(wanted, str(error)) from None

    def _prepare_artifact(self, copy: ir.Module) -> None:
        extension("lowering.legalize", "prepare_artifact")(copy, self.name)

    def _not_in_version(self, version: str, report: str) -> VersionError:
        blamed = re.search(r"failed to legalize operation '(?:vhlo\.)?([\w.]+?)(?:_v\d+)?'", report)
        what = f"its operation {blamed[1]} can't be said there" if blamed else "it can't be said"
        newest = versions.current_version()
        fix = f"\nfix: ask for a newer version, at most {newest}" if version != newest else ""
        return VersionError(
            f"artifact: {self.name} can't be written for StableHLO {version}: {what}{fix}",
            version=version,
            detail=report,
        )

    def verify(self) -> None:
        """Checks the module by MLIR's verifier; it needs no call after `lower` and `load`.

        Raises:
            LoweringError: an operation breaks a rule of its dialect.
        """
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            found = [str(d.message) for d in error.error_diagnostics]
            reason = found[0].splitlines()[0] if found else "the verifier does not say why"
            raise LoweringError(
                f"verify: {self.name} is no valid StableHLO: {reason}",
                op="verify",
                detail="\n".join(found),
            ) from None

    def save(self, path: PathLike, *, version: str | None = None) -> None:
        """Writes the module to a file, whole or not at all.

        The content goes to a file beside it first, which takes the name once it is on the disk.

        Args:
            path: ends in .mlir (text), .mlirbc (bytecode) or .stablehlo (portable artifact).
            version: the StableHLO version to write for (see `artifact`); .stablehlo only.

        Raises:
            ModuleFileError: another suffix; a Python function is called; or the file can't be
                written.
            VersionError: there is no such version, or it lacks an operation.

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
            raise ModuleFileError(
                f"{name}: {self.name} calls the Python function {called.name}{called.place}, which "
                f"a file can't hold\n"
                f"fix: let a registered function do it: xb.custom_call; or give its result as an "
                f"argument",
                path=name,
                op="save",
            )
        suffix = Path(name).suffix.lower()
        if suffix not in _SUFFIXES:
            raise ModuleFileError(
                f"{name}: the suffix says what to write, got {repr(suffix) if suffix else 'none'}\n"
                f"fix: .mlir for text, .mlirbc for bytecode, .stablehlo for a portable artifact",
                path=name,
                op="save",
            )
        if version is not None and suffix != ".stablehlo":
            raise VersionError(
                f"{name}: {_SUFFIXES[suffix]} has no StableHLO version, got {brief(version)}\n"
                f"fix: save as .stablehlo, or leave the version out",
                version=version,
                op="save",
            )
        if suffix == ".mlir":
            pieces = [self.text.encode()]
        elif suffix == ".mlirbc":
            pieces = module_reader.sealed_bytecode(self.module)
        else:
            pieces = [self.artifact(version)]
        write_whole(name, pieces)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<StablehloModule {self.name!r} {self.program_shape}>"


_SUFFIXES: Final = {".mlir": "text", ".mlirbc": "bytecode", ".stablehlo": "a portable artifact"}


def _checked_version(version: Any) -> str:
    """The version asked for, as three numbers between the minimum and the current version."""
    newest, oldest = versions.current_version(), versions.minimum_version()
    if version is None or (isinstance(version, str) and version == "current"):
        return newest
    if isinstance(version, str) and version == "minimum":
        return oldest
    span = f"fix: give one from {oldest} to {newest}, 'minimum' or 'current'"
    pattern = r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}"
    if not isinstance(version, str) or not re.fullmatch(pattern, version):
        raise VersionError(
            f"version: a StableHLO version is three numbers such as '1.9.0', got {brief(version)}\n"
            f"{span}",
            version=version,
        )
    parts = _parts(version)
    if not _parts(oldest) <= parts <= _parts(newest):
        newer = parts > _parts(newest)
        side = "newer than what the jaxlib installed writes" if newer else "too old"
        raise VersionError(f"version: StableHLO {version} is {side}\n{span}", version=version)
    return ".".join(str(p) for p in parts)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(p) for p in version.split("."))


def path_text(path: Any, op: str) -> str:
    """A path as text."""
    try:
        text = os.fspath(path)
    except TypeError:
        text = path
    if isinstance(text, str):
        return text
    fix = ""
    if isinstance(text, bytes):
        fix = "\nfix: os.fsdecode(path)"
    elif op == "load" and isinstance(text, (bytearray, memoryview)):
        fix = "\nfix: lowering.load_bytes reads content that is in memory"
    raise OperandError(
        f"{op}: a path is a string or a pathlib.Path, got {type(path).__name__}{fix}", op=op
    )


def _reason(error: OSError, *, reading: bool) -> str:
    """Why a file can't be used, in small letters, and how to mend it."""
    reason = error.strerror or str(error)
    reason = "the disk is full" if error.errno == errno.ENOSPC else reason[:1].lower() + reason[1:]
    fix = (_READING if reading else _WRITING).get(error.errno or 0, _BOTH.get(error.errno or 0, ""))
    return f"{reason}\nfix: {fix}" if fix else reason


_BOTH: Final = {
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ENOTDIR: "a part of the path is a file; name a folder there",
    errno.EISDIR: "name a file in that folder",
    errno.ELOOP: "its symbolic links lead back to themselves; name the file they should lead to",
}
_READING: Final = {
    errno.ENOENT: "check the name and the folder that it is looked for in",
    errno.EACCES: "let this user read the file and enter its folders (chmod)",
    errno.EPERM: "let this user read the file and enter its folders (chmod)",
}
_WRITING: Final = {
    errno.EACCES: "let this user write the file and its folder (chmod), or save elsewhere",
    errno.EPERM: "let this user write the file and its folder (chmod), or save elsewhere",
    errno.ENOSPC: "make room there, or save elsewhere",
    errno.EDQUOT: "make room there, or save elsewhere",
    errno.EROFS: "save elsewhere",
    errno.EFBIG: "raise the limit for the size of files (ulimit -f), or save elsewhere",
}


def write_whole(name: str, pieces: list[bytes]) -> None:
    """Writes a file so that under its name there is the old content or the new, never a part."""
    target = Path(name)
    temporary: Path | None = None
    try:
        target = Path(os.path.realpath(name))  # a symbolic link stays, its target is replaced
        mode = None
        with contextlib.suppress(FileNotFoundError):
            mode = target.stat().st_mode
        if mode is not None and not stat.S_ISREG(mode):
            what = "is not a regular file\nfix: name another"
            if stat.S_ISDIR(mode):
                what = f"is a folder\nfix: {_BOTH[errno.EISDIR]}"
            raise ModuleFileError(f"{name}: can't be written: {what}", path=name, op="save")
        if mode is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        beside = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(beside, flags, 0o666)
        temporary = beside
        try:
            if mode is not None:
                os.chmod(beside, stat.S_IMODE(mode))  # noqa: PTH101 (works where fchmod does not)
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
    except ModuleFileError:
        raise
    except OSError as error:
        folder = target.parent
        reason = _reason(error, reading=False)
        if error.errno == errno.ENOENT and not folder.exists():
            reason = f"there is no folder {folder}\nfix: create it: os.makedirs({str(folder)!r})"
        raise ModuleFileError(
            f"{name}: can't be written: {reason}", path=name, op="save", detail=str(error)
        ) from None
    except ValueError as error:  # a zero byte in the name
        raise ModuleFileError(
            f"{name!r}: can't be written: {error}\nfix: use a name without it",
            path=name,
            op="save",
        ) from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Makes a renaming last, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def load(path: PathLike) -> StablehloModule:
    """Reads a module from a file: text, bytecode or portable artifact, whatever its suffix.

    Files of other programs are read too, what `jax.export.Exported.serialize` writes among them.
    A pipe or a device is no file, and not waited for. Large files that are something else are
    refused by their first bytes.
    Bytecode that does not carry this library's checksum is tried in a helper process first, since
    damaged bytecode can crash MLIR; this takes some tenths of a second.

    Args:
        path: the file.

    Raises:
        ModuleFileError: the file can't be read, or holds no StableHLO module with a function
            ``@main``; carries path, line and column.
    """
    return from_bytes(*_module_file(path))


def _module_file(path: PathLike) -> tuple[bytes, str]:
    """The content of a file, and its name; of an Exported the module, and not both."""
    data, name = read_file(path, "load", reject_by_prefix)
    return embedded_artifact(data) or data, name


Look = Callable[[BinaryIO, int, str, str], None]
"""What looks at the beginning of a file; see `read_file`."""


def read_file(path: Any, op: str, look: Look) -> tuple[bytes, str]:
    """The content of an ordinary file, and its name.

    Args:
        path: the file.
        op: the function that was given it.
        look: is given the open file, its size, what it is called in messages, and its name; raises
            ModuleFileError if its beginning shows that it need not be read.

    Raises:
        ModuleFileError: it can't be read.
        OperandError: `path`, given to `op`, is no path.
    """
    path = path_text(path, op)
    name = module_reader.display_name(path)
    descriptor = None
    try:
        # A pipe or a device would be waited for, or read, without end. The flag is for what becomes
        # one after it was looked at.
        mode = Path(path).stat().st_mode
        if not stat.S_ISDIR(mode):
            descriptor = os.open(path, os.O_RDONLY | _OPENING)
            mode = os.fstat(descriptor).st_mode
        if descriptor is None or stat.S_ISDIR(mode):
            raise _no_file(path, "is a directory", _folder_fix(path))
        if not stat.S_ISREG(mode):
            raise _no_file(path, "it is not an ordinary file", "copy it into one")
        return _content(descriptor, path, look), path
    except OSError as error:
        raise ModuleFileError(
            f"{name}: can't be read: {_reason(error, reading=True)}", path=path, detail=str(error)
        ) from None
    except ModuleFileError:
        raise
    except ValueError as error:  # a zero byte in the name
        raise _no_file(path, str(error), "name a file that can exist") from None
    finally:
        if descriptor is not None:
            os.close(descriptor)


_OPENING: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def _no_file(path: str, reason: str, fix: str) -> ModuleFileError:
    """The error of what is there and is no file to read."""
    name = module_reader.display_name(path)
    return ModuleFileError(f"{name}: can't be read: {reason}\nfix: {fix}", path=path)


def _folder_fix(path: str) -> str:
    """What to do instead of reading a folder."""
    if Path(path, "saved_model.pb").exists():
        return "it is a SavedModel of TensorFlow: export StableHLO with the program that wrote it"
    return _BOTH[errno.EISDIR]


def _content(descriptor: int, path: str, look: Look) -> bytes:
    """All that is in a file, unless its beginning shows that it is no module."""
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        before = os.fstat(descriptor)
        look(file, before.st_size, module_reader.display_name(path), path)
        # Files of the system (/proc) say that they are empty. In others there may be more by now.
        data = file.read(before.st_size + 1) if before.st_size else file.read()
    after = os.fstat(descriptor)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise _no_file(path, "it changed meanwhile", "read it again when it is written")
    return data


def load_bytes(data: Buffer | str) -> StablehloModule:
    """Reads a module from memory: text, bytecode, a portable artifact or a serialized Exported.

    Raises:
        ModuleFileError: it is no StableHLO module with a function ``@main``.
        OperandError: neither bytes (a bytearray, a memoryview) nor text.

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
        fix = "\nfix: lowering.load reads a file" if isinstance(data, os.PathLike) else ""
        raise OperandError(
            f"load_bytes: expected bytes or text, got {type(data).__name__}{fix}", op="load_bytes"
        )
    return from_bytes(data, None)


def from_bytes(data: bytes, path: str | None) -> StablehloModule:
    """The module in the content of a file; raises as `load`."""
    module = module_reader.read(embedded_artifact(data) or data, path)
    return StablehloModule(module, _program_shape(module, path))


def _program_shape(module: ir.Module, path: str | None) -> ProgramShape:
    """The signature of ``@main``, tuples and names from the attributes of `lower`."""
    name = module_reader.display_name(path)

    def refuse(reason: str) -> ModuleFileError:
        return ModuleFileError(f"{name}: {reason}", path=path)

    function = _main(module)
    if function is None:
        raise refuse(
            "has no function @main, which a module is entered by\nfix: call the entry function main"
        )
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    try:
        # Thousands of arguments have few types, and to read one takes 15 us.
        known = {t: shape_of_type(t) for t in dict.fromkeys((*kind.inputs, *kind.results))}
        inputs, results = [known[t] for t in kind.inputs], [known[t] for t in kind.results]
    except LoweringError as error:
        raise refuse(
            f"@main can't be called: {error}\nfix: take and give tensors of XLA's element types"
        ) from None
    names, layouts = _per_value(function, "arg_attrs", len(inputs))
    inputs = [_with_layout(s, t) for s, t in zip(inputs, layouts, strict=True)]
    _, layouts = _per_value(function, "res_attrs", len(results))
    results = [_with_layout(s, t) for s, t in zip(results, layouts, strict=True)]

    attributes = function.attributes
    parameters: list[Shape] = list(inputs)
    result: Shape = results[0] if len(results) == 1 else TupleShape(results)
    if "xlabuilder.parameters" in attributes:
        nested = [_shape(a, refuse) for a in _array(attributes["xlabuilder.parameters"], refuse)]
        _check_leaves("parameters", nested, inputs, refuse)
        positions = [0]
        for shape in nested:
            positions.append(positions[-1] + _count(shape))
        names = [
            _parameter_name(names[p : p + _count(s)], s, number)
            for number, (s, p) in enumerate(zip(nested, positions, strict=False))
        ]
        parameters = nested
    if "xlabuilder.result" in attributes:
        written = attributes["xlabuilder.result"]
        # Mostly it is the tuple of all results. To read it takes 10 us for each of them, and to
        # write this tuple 0.5.
        if attribute_text(written) != str(result):
            result = _shape(written, refuse)
            _check_leaves("result", [result], results, refuse)
    if "xlabuilder.parameter_names" in attributes:
        listed = _array(attributes["xlabuilder.parameter_names"], refuse)
        names = [attribute_text(a) for a in listed]
        if len(names) != len(parameters) or None in names:
            raise refuse(
                f"its attribute xlabuilder.parameter_names does not fit @main\n{_DROP_ATTRIBUTE}"
            )
    filled = [n if n is not None else f"arg{i}" for i, n in enumerate(names)]
    return ProgramShape(parameters, result, filled)


_DROP_ATTRIBUTE: Final = "fix: drop the attribute, or write it anew"


def _main(module: ir.Module) -> ir.Operation | None:
    for view in module.body.operations:
        operation = view.operation
        if (
            operation.name == "func.func"
            and attribute_text(operation.attributes["sym_name"]) == "main"
            and len(operation.regions[0].blocks)
        ):
            return operation
    return None


def _per_value(
    function: ir.Operation, key: str, count: int
) -> tuple[list[str | None], list[str | None]]:
    """The names and the layout modes of the arguments or results of a function."""
    names: list[str | None] = [None] * count
    layouts: list[str | None] = [None] * count
    if key in function.attributes:
        for index, entry in enumerate(ir.ArrayAttr(function.attributes[key])):
            values = ir.DictAttr(entry)
            for attribute, into in ((ARGUMENT_NAME, names), (LAYOUT_MODE, layouts)):
                if attribute in values:
                    # What no Python class is for (a location) can't even be taken out.
                    with contextlib.suppress(TypeError):
                        into[index] = attribute_text(values[attribute])
    return names, layouts


def _with_layout(shape: ArrayShape | TokenShape, mode: str | None) -> ArrayShape | TokenShape:
    """`shape` in the layout that `mhlo.layout_mode` asks for: "{0,1}", "default" or "auto".

    A module may be looked at whatever stands there; `compile` refuses what can't be had.
    """
    if mode is None or mode in ("default", "auto") or not isinstance(shape, ArrayShape):
        return shape
    try:
        return shape.with_layout(mode)
    except (ShapeInferenceError, ShapeTextError):
        return shape


def _array(attribute: ir.Attribute, refuse: Callable[[str], ModuleFileError]) -> list[ir.Attribute]:
    if not isinstance(attribute, ir.ArrayAttr):
        raise refuse(
            f"its attribute xlabuilder.* must be a list, got {attribute}\n{_DROP_ATTRIBUTE}"
        )
    return list(ir.ArrayAttr(attribute))


def _shape(attribute: ir.Attribute, refuse: Callable[[str], ModuleFileError]) -> Shape:
    text = attribute_text(attribute)
    if text is None:
        raise refuse(
            f"its attribute xlabuilder.* must hold shapes, got {attribute}\n{_DROP_ATTRIBUTE}"
        )
    try:
        return parse_shape(text)
    except ShapeTextError as error:
        raise refuse(f"its attribute xlabuilder.* must hold shapes: {error}") from None


def _count(shape: Shape) -> int:
    return shape.leaf_count if isinstance(shape, TupleShape) else 1


def _check_leaves(
    what: str,
    nested: list[Shape],
    flat: list[ArrayShape | TokenShape],
    refuse: Callable[[str], ModuleFileError],
) -> None:
    """Refuses attributes that do not fit the function that carries them."""
    if [leaf for shape in nested for leaf in leaves(shape)] != flat:
        raise refuse(f"its attribute xlabuilder.{what} does not fit @main\n{_DROP_ATTRIBUTE}")


def read_name(name: str, shape: Shape) -> str | None:
    """What the names of a parameter's arguments say of its name; None where it has none."""
    names = [f"{name}{path}" for path in leaf_paths(shape)]
    return _parameter_name([*names], shape, 0) if names else None


def _parameter_name(names: list[str | None], shape: Shape, number: int) -> str:
    """The name of a parameter from those of its leaves: "state" from "state[0][1]"."""
    first = names[0] if names else None
    if first is None:
        return f"arg{number}"
    return re.sub(r"(\[\d+\])+$", "", first) if isinstance(shape, TupleShape) else first
