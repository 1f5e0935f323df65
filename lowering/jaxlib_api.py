"""Everything of jax and jaxlib that is not public, behind small functions.

jaxlib makes no promise about the names used here, and they differ between its versions. Nowhere
else in the project is a private name of jax or jaxlib mentioned, so that a new version of them is
let in by reading this one file. Supported are jaxlib 0.10 to 0.12; where these differ, the
function says how.

This module imports jaxlib alone, not jax, and nothing else of this project: `module_reader` loads
it by its file name in a helper process, where starting quickly matters.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mlirHlo
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

__all__ = [
    "BYTECODE_MAGIC",
    "CALLBACK_TARGET",
    "UnreadableModuleError",
    "array_type",
    "assemble",
    "aval_of",
    "bytecode",
    "bytecode_pieces",
    "call_data",
    "compatible_version",
    "compile_and_load",
    "compile_options",
    "compiled_cost",
    "compiled_memory",
    "cpu_features",
    "current_version",
    "decomposed",
    "default_layout",
    "deserialize",
    "devices_of_topology",
    "direct_caller",
    "elements_attribute",
    "hlo_program",
    "hlo_proto",
    "hlo_text_to_stablehlo",
    "host_cpu_features",
    "interpreted",
    "interpreter_context",
    "interprets_fft",
    "is_absent",
    "is_deleted",
    "jaxlib_version",
    "known_flags",
    "layout_of",
    "layout_text",
    "memory_of",
    "minimum_version",
    "new_context",
    "optimized_hlo_text",
    "options_bytes",
    "parameter_layouts",
    "parameter_tilings",
    "platform_version",
    "put",
    "put_in_layout",
    "read_module",
    "refined",
    "registered_targets",
    "result_handler",
    "result_layouts",
    "result_tilings",
    "runner",
    "serialize_artifact",
    "serialized",
    "sharded_runner",
    "sharding_getter",
    "stablehlo_to_hlo_text",
    "topology_devices",
    "tree_caller",
    "without_locations",
]

# By name: jaxlib has no type stubs for these two.
_jax: Final[Any] = importlib.import_module("jaxlib._jax")
_xla_client: Final[Any] = importlib.import_module("jaxlib.xla_client")

_REGISTRY: Final = ir.DialectRegistry()
_jax_mlir_ext.register_dialects(_REGISTRY)

BYTECODE_MAGIC: Final = b"ML\xefR"
"""What MLIR bytecode, and so a portable artifact, starts with."""

# Contexts and modules


def new_context(*, loads_all: bool = False) -> ir.Context:
    """A fresh MLIR context that knows every dialect that a StableHLO module may hold.

    Those that lowering writes are there; the others (llvm, shape, vhlo, ...) MLIR loads when it
    meets their operations, types or passes, which saves 1.4 ms of 2.4.

    What is made in a context (types, attributes, and so the data of constants) lives as long as
    the context does.

    Multithreading is off: modules here are built and verified one at a time, and MLIR would start
    a thread for each core in each context.

    Args:
        loads_all: whether the others are there from the beginning. It takes that to create their
            operations one by one; and to verify bytecode of others, where an operation of ours may
            have an attribute of theirs ("llvm.byval"), for which MLIR loads nothing.

    Example:
        >>> from lowering import jaxlib_api
        >>> from jaxlib.mlir import ir
        >>> with jaxlib_api.new_context():
        ...     print(ir.Type.parse("tensor<2xf32>"))
        tensor<2xf32>
    """
    context = ir.Context()
    context.enable_multithreading(False)
    context.append_dialect_registry(_REGISTRY)
    # register_dialects leaves these four out.
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    # Not from `dialects.mhlo`, which makes a Python class for each operation of mhlo: 14 ms.
    _mlirHlo.register_mhlo_dialect(context)
    if loads_all:
        context.load_all_available_dialects()
        return context
    # The second brings those along that the registry leaves out too: complex, affine, ub.
    for name in ("func", "tensor"):
        _ = context.dialects[name]
    return context


class UnreadableModuleError(Exception):
    """MLIR refused text or bytecode.

    Attributes:
        reason: MLIR's first complaint, on one line.
        line, column: where in a text, counted from 1; None where that isn't known.
        detail: all that MLIR reported.
    """

    def __init__(self, reason: str, line: int | None, column: int | None, detail: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column
        self.detail = detail


_OF_ARTIFACTS: Final = (b"vhlo", b"unrealized_conversion_cast")
"""What stands in bytecode that the reader of artifacts makes something else of.

They are looked for one by one: as one pattern it takes ten times as long, 0.8 s for 100 MB.
"""

_POSITION: Final = re.compile(r'^loc\("[^"]*":(\d+):(\d+)\)$')


def read_module(context: ir.Context, source: str | bytes) -> ir.Module:
    """The module in MLIR text, or in MLIR bytecode or a portable artifact; verified.

    Nothing is printed. Bytecode with bytes changed by accident can still kill the process: MLIR's
    reader trusts what it reads.

    Raises:
        UnreadableModuleError: MLIR refuses it.
    """
    reports: list[tuple[str, int | None, int | None]] = []

    def report(diagnostic: ir.Diagnostic) -> bool:
        # Nothing may escape from here: there is C++ above. The message may be no valid UTF-8.
        try:
            place = _POSITION.match(str(diagnostic.location))
            line, column = (int(place[1]), int(place[2])) if place else (None, None)
            reports.append((diagnostic.message, line, column))
        except Exception:
            reports.append(("bytes that are no text where a text should stand", None, None))
        return True

    # MLIR's errors are taken by the handler, not by the exception: making the exception aborts
    # the process when a message is no valid UTF-8.
    before = context.emit_error_diagnostics
    context.emit_error_diagnostics = True
    handler: Any = context.attach_diagnostic_handler(report)
    try:
        if isinstance(source, str):
            return ir.Module.parse(source, context)
        if not any(one in source for one in _OF_ARTIFACTS):
            return ir.Module.parse(source, context)
        # It reads plain bytecode as well, in twice to three times the time that MLIR's own parser
        # takes, which would leave an artifact in vhlo.
        module: ir.Module = stablehlo.deserialize_portable_artifact(context, source)
        module.operation.verify()
        return module
    except MemoryError:
        raise UnreadableModuleError(
            "it asks for more memory than there is", None, None, ""
        ) from None
    except (ir.MLIRError, ValueError) as error:
        reason, line, column = reports[0] if reports else (str(error), None, None)
        detail = "\n".join(r[0] for r in reports) or str(error)
        lines = reason.strip().splitlines()
        raise UnreadableModuleError(
            lines[0] if lines else "no reason", line, column, detail
        ) from None
    finally:
        handler.detach()
        context.emit_error_diagnostics = before


def tried_bytecode(source: bytes) -> bytes:
    """Nothing, once a module was read and written out as text, which may end the process.

    Raises:
        UnreadableModuleError: MLIR refuses it.
    """
    module = read_module(new_context(loads_all=True), source)
    str(module)
    _look_at_names(module)
    return b""


def tried_text(source: bytes) -> bytes:
    """The same of a module in text.

    Raises:
        UnreadableModuleError: MLIR refuses it.
    """
    _look_at_names(read_module(new_context(), source.decode()))
    return b""


def _look_at_names(module: ir.Module) -> None:
    """Asks for the names of all attributes: those that are no UTF-8 end the process."""

    def look(operation: ir.Operation) -> ir.WalkResult:
        pending: list[Any] = [operation.attributes]
        while pending:
            one = pending.pop()
            if isinstance(one, ir.ArrayAttr):
                pending += one
                continue
            if isinstance(one, ir.DictAttr):
                names = [one[i].name for i in range(len(one))]
            elif isinstance(one, ir.Attribute):
                continue
            else:
                names = list(one)
            for name in names:
                try:
                    pending.append(one[name])
                except (KeyError, TypeError):  # out of order; or Python has no class for it
                    continue
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)


def bytecode(module: ir.Module | ir.Operation) -> bytes:
    """MLIR bytecode of a module, or of its operation, locations included."""
    return b"".join(bytecode_pieces(module))


def bytecode_pieces(module: ir.Module | ir.Operation) -> list[bytes]:
    """The same in pieces, as MLIR writes it; large constants are a piece each, not copied again."""
    pieces = _Pieces()
    module.operation.write_bytecode(pieces)
    return pieces.written


class _Pieces:
    """A file that keeps what is written to it as it comes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self.written.append(piece)


_NAMES_OF_OTHERS: Final = (b"chlo\0", b"mhlo\0", b"sdy\0")
"""What stands in bytecode that holds operations of these dialects (and sometimes else)."""


def serialize_artifact(module: ir.Module, version: str, marks: Mapping[str, str]) -> bytes:
    """The portable artifact of a module for a StableHLO version.

    It is made of a copy in a context of its own: the translation leaves a second copy of every
    constant in the context that it happens in.

    Two functions of jaxlib do this, and give the same bytes. One takes 2 us an operation, and knows
    nothing but StableHLO. The other takes 30 us, and turns operations of chlo into composites.

    Args:
        module: is not changed.
        version: three numbers.
        marks: string attributes that the module in the artifact carries besides.

    Raises:
        ValueError: the module can't be said in that version; the text holds MLIR's report.
    """
    code = bytecode(module)
    # Looked for in the bytes: walking over the operations takes as long as all the rest.
    foreign = any(name in code for name in _NAMES_OF_OTHERS)
    context = new_context()
    copy = ir.Module.parse(code, context)
    del code
    for name, value in marks.items():
        copy.operation.attributes[name] = ir.StringAttr.get(value, context)
    if foreign:
        try:
            artifact: bytes = _jax.mlir.serialize_portable_artifact(bytecode(copy), version)
        except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
            raise ValueError(str(error)) from None
        return artifact
    reports: list[str] = []

    def report(diagnostic: ir.Diagnostic) -> bool:
        reports.append(diagnostic.message)
        return True

    handler: Any = context.attach_diagnostic_handler(report)  # without it, they are printed
    try:
        artifact = stablehlo.serialize_portable_artifact(copy, version)
    except (ir.MLIRError, ValueError) as error:
        raise ValueError("\n".join(reports) or str(error)) from None
    finally:
        handler.detach()
    return artifact


def decomposed(module: ir.Module | ir.Operation) -> bytes:
    """The portable artifact of a module, in which operations of chlo are said in StableHLO's.

    Raises:
        ValueError: that can't be; the text holds MLIR's report.
    """
    try:
        artifact: bytes = _jax.mlir.serialize_portable_artifact(bytecode(module), current_version())
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        raise ValueError(str(error)) from None
    return artifact


def refined(module: ir.Module) -> bytes:
    """Bytecode of a module with the sizes worked out that follow from those of @main's arguments.

    Functions are put where they are called. What is known of sizes is worked out: the operations
    that ask for them, or are given them, become others without; those that check what is said of
    sizes (custom calls of @shape_assertion) go away. Where a size stays unknown, it stays as it is.

    Raises:
        ValueError: sizes contradict each other, or a check of them fails; the text says how.
    """
    try:
        # All sizes are not asked to be known: who meets one that isn't can say where.
        found: bytes = _jax.mlir.refine_polymorphic_shapes(
            bytecode(module), enable_shape_assertions=True, validate_static_shapes=False
        )
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        raise ValueError(str(error)) from None
    return found


def current_version() -> str:
    """The newest StableHLO version that this jaxlib writes ("1.17.0" in 0.10.2)."""
    version: str = stablehlo.get_current_version()
    return version


def minimum_version() -> str:
    """The oldest StableHLO version that this jaxlib writes and reads ("0.9.0")."""
    version: str = stablehlo.get_minimum_version()
    return version


# The reference interpreter


def interpreter_context() -> ir.Context:
    """A fresh MLIR context that knows the interpreter's own operations besides all others.

    One of them is `interpreter.probe`, which writes its operand to a file.
    """
    context = new_context()
    stablehlo.register_interpreter_dialect(context)
    return context


def interpreted(
    module: ir.Module, arguments: Sequence[ir.Attribute], folder: str = ""
) -> list[Any]:
    """What StableHLO's reference interpreter gives for `@main`: NumPy arrays, or views of MLIR's.

    Of operations that it lacks the process is aborted, and of results whose elements MLIR has no
    Python type for, such as complex ones.

    Args:
        module: of a context that `interpreter_context` made.
        arguments: made by `elements_attribute`.
        folder: an empty folder, in which each probe that is met writes a file `probeN.npy`, and a
            line in `index.csv`: its name, its type, the file. Empty where there are no probes.
    """
    numpy: Any = importlib.import_module("numpy")
    return [numpy.array(one) for one in stablehlo.eval_module(module, list(arguments), folder)]


def interprets_fft() -> bool:
    """Whether the interpreter has Fourier transforms of all kinds: not in 0.10."""
    return tuple(map(int, current_version().split("."))) > (1, 17, 0)


def elements_attribute(elements: Any, kind: ir.Type) -> ir.Attribute:
    """The bytes of an array (a NumPy array of u8; of i1 a byte an element) as an attribute.

    MLIR does not look whether they are as many as the type says.
    """
    if str(ir.RankedTensorType(kind).element_type) == "i1":
        elements = elements.view("bool")
    attribute: ir.Attribute = ir.DenseElementsAttr.get(elements, type=kind)
    return attribute


def compatible_version(weeks: int) -> str:
    """The StableHLO version that jaxlibs of so many weeks ago read, 4 or 12 of them."""
    asked = stablehlo.StablehloCompatibilityRequirement
    requirement = {4: asked.WEEK_4, 12: asked.WEEK_12}[weeks]
    version: str = stablehlo.get_version_from_compatibility_requirement(requirement)
    return version


# HLO text


def hlo_text_to_stablehlo(text: str) -> bytes:
    """MLIR bytecode of the StableHLO module that HLO text means.

    XLA's own parser reads the text. What StableHLO lacks comes out as operations of mhlo. Tuples
    among the entry's parameters and in its result are flattened.

    Raises:
        jax.errors.JaxRuntimeError: the text is not HLO.
    """
    code: bytes = _jax.mlir.hlo_to_stablehlo(hlo_proto(text))
    return code


def hlo_proto(text: str) -> bytes:
    """The HloModuleProto of HLO text.

    Raises:
        jax.errors.JaxRuntimeError: the text is not HLO.
    """
    proto: bytes = _xla_client.hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return proto


_HLO_POSITION: Final = re.compile(r"was parsing (\d+):(\d+): error: (.*)")


def hlo_program(source: bytes) -> bytes:
    """The program in HLO text, or in an HloModuleProto, as `hlo_text_to_stablehlo` gives it.

    Damaged HLO, and some that is right, ends the process.

    Returns:
        A line of JSON: "parameters", the shapes of the entry's parameters as XLA writes them, with
        layouts, and "result", that of its result. Behind it the bytecode.

    Raises:
        UnreadableModuleError: XLA refuses it, or it can't be said in MLIR.
    """
    json: Any = importlib.import_module("json")
    try:
        code = source if is_hlo_proto(source) else hlo_proto(source.decode())
        shape = _xla_client.XlaComputation(code).program_shape()
        parameters = [str(one) for one in shape.parameter_shapes()]
        head = {"parameters": parameters, "result": str(shape.result_shape())}
        converted: bytes = _jax.mlir.hlo_to_stablehlo(code)
    except UnicodeDecodeError:
        raise UnreadableModuleError("its report is no text", None, None, "") from None
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        report = str(error)
        place = _HLO_POSITION.search(report)
        if place is not None:
            raise UnreadableModuleError(place[3], int(place[1]), int(place[2]), report) from None
        lines = report.strip().splitlines() or ["no reason"]
        raise UnreadableModuleError(
            re.sub(r"^(?:[A-Z_]+: )+", "", lines[0]), None, None, report
        ) from None
    return bytes(json.dumps(head).encode() + b"\n" + converted)


def is_hlo_proto(source: bytes) -> bool:
    """Whether bytes that hold HLO are a protocol buffer, and not text: each begins with a name."""
    return source.startswith(b"\n") and any(byte < 9 or 13 < byte < 32 for byte in source[:4096])


def parsed_hlo_text(text: str) -> str:
    """HLO text as XLA prints it after its own parser has read it.

    Raises:
        jax.errors.JaxRuntimeError: the text is not HLO.
    """
    parsed: str = _xla_client.hlo.hlo_module_from_text(text).to_string()
    return parsed


def stablehlo_to_hlo_text(module_bytecode: bytes) -> str:
    """HLO text of a StableHLO module, as XLA translates it before it optimizes."""
    computation = _jax.mlir.mlir_module_to_xla_computation(module_bytecode, False, False)
    text: str = computation.as_hlo_text()
    return text


# Custom calls


def registered_targets(platform: str) -> dict[str, Any]:
    """The functions registered for custom calls on a platform, by name."""
    name = {"cpu": "Host", "gpu": "CUDA"}.get(platform, platform)
    found: dict[str, Any] = _xla_client.custom_call_targets(name)
    return found


# Devices, arrays and executables

CALLBACK_TARGET: Final = "xla_ffi_python_cpu_callback"
"""The custom call, on CPU, of the Python function whose index its backend_config says."""


def compile_options(
    devices: Sequence[Any],
    *,
    num_replicas: int = 1,
    num_partitions: int = 1,
    flags: Sequence[tuple[str, bool | int | float | str]] = (),
    level: int | None = None,
    shardy: bool = False,
    free_results: Sequence[bool] = (),
) -> Any:
    """What XLA is told beside the module: a CompileOptions of jaxlib.

    Flags that stand in the environment (XLA_FLAGS) are in it already.

    Args:
        devices: as for `compile_and_load`.
        num_replicas, num_partitions: how many there are of each.
        flags: names of XLA's flags and their values, in this order, before those of the
            environment. XLA looks at names and types when it compiles.
        level: how hard XLA's backend and its passes try, 0 to 3; None leaves it to XLA.
        shardy: whether Shardy cuts the program into partitions, and not GSPMD. Each leaves out
            what is said for the other.
        free_results: for each result whether XLA may choose how it is cut up, where it is.
    """
    options = _xla_client.CompileOptions()
    options.num_replicas = num_replicas
    options.num_partitions = num_partitions
    build = options.executable_build_options
    build.num_replicas = num_replicas
    build.num_partitions = num_partitions
    build.use_spmd_partitioning = num_partitions > 1
    build.use_shardy_partitioner = shardy
    if any(free_results):
        build.allow_spmd_sharding_propagation_to_output = list(free_results)
    numpy: Any = importlib.import_module("numpy")
    numbers = numpy.array([device.id for device in devices])
    assignment = _xla_client.DeviceAssignment.create(numbers.reshape(num_replicas, num_partitions))
    options.device_assignment = assignment
    build.device_assignment = assignment
    if level is not None:
        build.debug_options.xla_backend_optimization_level = level
        # Effort "O0" to "O3", as xla.ExecutionOptions.EffortLevel numbers them.
        build.optimization_level = (9, 19, 29, 39)[level]
    options.env_option_overrides = list(flags)
    return options


def options_bytes(options: Any) -> bytes:
    """What stands in a CompileOptions, equal for equal ones of one version of jaxlib."""
    content: bytes = options.SerializeAsString()
    return content


@functools.cache
def known_flags() -> dict[str, str]:
    """XLA's flags that jaxlib tells of, each with a value as text: true, 3, 1.1, "text", NAME.

    They are those that have a default value; XLA knows others, and those of a TPU besides. The
    text is "{" where the value is a message.
    """
    # Held while its parts are looked at: they do not keep it, and jaxlib would die.
    whole = _xla_client.CompileOptions()
    options = whole.executable_build_options.debug_options
    found: dict[str, str] = {}
    for name, colon, value in re.findall(r"^(xla_\w+)(:?) (.*)$", str(options), re.MULTILINE):
        found[name] = value if colon else "{"
    for name in dir(options):
        if name.startswith("xla_") and name not in found:
            value = getattr(options, name, None)
            if isinstance(value, bool):
                found[name] = str(value).lower()
            elif isinstance(value, int):
                found[name] = str(value)
            elif isinstance(value, str):
                found[name] = '""'
    return found


def compile_and_load(
    devices: Sequence[Any],
    module_bytecode: bytes,
    *,
    options: Any = None,
    num_replicas: int = 1,
    num_partitions: int = 1,
    callbacks: Sequence[Callable[..., Any]] = (),
) -> Any:
    """Compiles a module for some devices of one client; gives a jaxlib LoadedExecutable.

    The module goes as bytes, not as an MLIR module: XLA compiles without holding Python's lock,
    and must not meet another thread in the same MLIR context.

    Args:
        devices: ``num_replicas * num_partitions`` jax.Devices: the partitions of replica 0, those
            of replica 1, and so on. Of devices that are not there (`topology_devices`) an
            Executable is made, which tells what a LoadedExecutable tells, and can't be run.
        module_bytecode: MLIR bytecode, or a portable artifact.
        options: made by `compile_options` of the same devices and numbers, which are given in it.
        num_replicas: how many replicas run the program.
        num_partitions: into how many partitions each replica is cut.
        callbacks: the Python functions that the module's callback custom calls name by index. The
            executable keeps them.

    Raises:
        ValueError: XLA refuses the module, or a flag; the text holds XLA's report.
    """
    if options is None:
        options = compile_options(devices, num_replicas=num_replicas, num_partitions=num_partitions)
    client = devices[0].client
    arguments = (module_bytecode, _jax.DeviceList(tuple(devices)), options)
    try:
        if is_absent(devices[0]):
            # Here too no bytes are taken.
            module = ir.Module.parse(module_bytecode, new_context())
            return client.compile(module, *arguments[1:])
        if callbacks:
            # With callbacks only a module is taken, no bytes: one in a context of its own.
            module = ir.Module.parse(module_bytecode, new_context())
            return client.compile_and_load(module, *arguments[1:], list(callbacks))
        return client.compile_and_load(*arguments)
    except UnicodeDecodeError:
        raise ValueError("the module is damaged: its report is no text") from None
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        raise ValueError(str(error)) from None


def without_locations(module_bytecode: bytes) -> bytes:
    """The same bytecode for modules that differ in their source lines alone."""
    context = new_context()
    module = ir.Module.parse(module_bytecode, context)
    passes: Any = importlib.import_module("jaxlib.mlir.passmanager")
    passes.PassManager.parse("builtin.module(strip-debuginfo)", context).run(module.operation)
    return bytecode(module)


def serialized(loaded: Any) -> bytes:
    """An executable as bytes, which `deserialize` reads in another process.

    Raises:
        ValueError: this one, or this platform, can't do that.
    """
    try:
        content: bytes = loaded.serialize()
    except (RuntimeError, ValueError, AttributeError) as error:
        raise ValueError(str(error)) from None
    return content


def deserialize(devices: Sequence[Any], content: bytes, options: Any) -> Any:
    """The LoadedExecutable in what `serialized` gave, for these devices.

    Of bytes that are something else, or damaged, jaxlib may die; and they are run.

    Args:
        devices: which may be others than those that it was compiled for, of the same kind.
        content: the bytes.
        options: made by `compile_options` of the same devices.

    Raises:
        ValueError: jaxlib refuses it; the text holds its report.
    """
    try:
        return devices[0].client.deserialize_executable(
            content, _jax.DeviceList(tuple(devices)), options
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(str(error)) from None


def jaxlib_version() -> str:
    """The version of jaxlib: "0.10.2"."""
    version: str = importlib.import_module("jaxlib.version").__version__
    return version


def platform_version(device: Any) -> str:
    """What the software says of its version that compiles for a device: of CUDA, of libtpu."""
    version: str = device.client.platform_version
    return version


_FEATURE: Final = rb"[+-][a-z0-9][a-z0-9._-]{0,40}"
_FEATURES: Final = re.compile(rb",%b(?:,%b){6,}" % (_FEATURE, _FEATURE))
"""A list, from its first comma on. What begins with one character is looked for at 1 GB/s; and of
names of any length a run of dashes in a constant would be looked at once for each of them."""


def cpu_features(content: bytes) -> tuple[str, ...]:
    """The features of a CPU that a serialized executable was compiled for: "avx2", "fma", ...

    XLA writes into it what LLVM was told. None if that isn't found.
    """
    found = _FEATURES.search(content)
    if found is None:
        return ()
    first = re.search(_FEATURE + rb"\Z", content[max(found.start() - 42, 0) : found.start()])
    names = ((b"" if first is None else first[0]) + found[0]).decode().strip(",").split(",")
    # The preferences among them ask for nothing of the CPU.
    return tuple(sorted(n[1:] for n in names if n[0] == "+" and not n.startswith("+prefer-")))


@functools.cache
def host_cpu_features() -> tuple[str, ...]:
    """The features of this process's CPU, as XLA sees them: of a program made to ask (20 ms)."""
    jax: Any = importlib.import_module("jax")
    try:
        device = jax.local_devices(backend="cpu")[0]
        module = b"func.func @main() { return }"
        return cpu_features(serialized(compile_and_load([device], module)))
    except (RuntimeError, ValueError):
        return ()


# Devices that are not there


def is_absent(device: Any) -> bool:
    """Whether a device is one of a topology: compiled for, and not there."""
    return isinstance(device.client, _jax.CompileOnlyPyClient)


def devices_of_topology(device: Any) -> list[Any]:
    """All devices of the topology of one that is not there, in their order."""
    found: list[Any] = device.client.devices()
    return found


def topology_devices(platform: str, name: str, settings: Mapping[str, str]) -> list[Any]:
    """The devices of a topology that need not be there, made by the plugin of a platform.

    Args:
        platform: "tpu", "cuda", "rocm".
        name: as the plugin calls it: "v5e:2x2", "1x1x8".
        settings: what the plugin is told besides.

    Raises:
        NotImplementedError: there is no plugin of that platform here, or it can't do that.
        ValueError: the plugin refuses it; the text holds its report.
    """
    topologies: Any = importlib.import_module("jax.experimental.topologies")
    try:
        made: list[Any] = topologies.get_topology_desc(name, platform, **settings).devices
    except NotImplementedError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(str(error)) from None
    return made


def put(array: Any, aval: Any, sharding: Any, device: Any) -> Any:
    """A jax.Array on `device` with the elements of a NumPy array, which may change right after.

    Args:
        array: a C-contiguous NumPy array of exactly the shape and dtype of `aval`.
        aval: a jax.core.ShapedArray.
        sharding: SingleDeviceSharding of the device.
        device: a jax.Device.
    """
    # Without enable_x64 a 64-bit array would get a 32-bit buffer, or be refused, when jax's flag
    # is off; ZERO_COPY, the default of the semantics, would let the caller's writes show through.
    return _jax.batched_device_put(
        aval, sharding, [array], [device], True, False, _DURING_CALL, True
    )


_DURING_CALL: Final = _xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL

array_type: Final[type[Any]] = _xla_client.ArrayImpl
"""The class of ordinary jax.Arrays; tracers and key arrays have others."""

# What stands behind the properties of these arrays: called without a look-up of the property, they
# take a third less time, which every argument of a call pays. None takes another object.
aval_of: Final[Callable[[Any], Any]] = array_type.aval.fget
"""The jax.core.ShapedArray of a jax.Array; jax keeps one for all that are equal."""


def sharding_getter() -> Callable[[Any], Any]:
    """A function that gives the sharding of a jax.Array.

    jax defines the property; it has to be loaded, as it isn't in the process that reads files.
    """
    found: Callable[[Any], Any] = array_type.sharding.fget
    return found


is_deleted: Final[Callable[[Any], bool]] = array_type.is_deleted
"""Whether a jax.Array was deleted, or given away to a program."""


def memory_of(array: Any) -> int:
    """A number that is the same for jax.Arrays that share their memory.

    Of an array over several devices the memory on the first one of this process is asked for. What
    has no memory shares none: empty arrays, deleted ones, and where a platform does not tell.
    """
    if array.size and not array.is_deleted():
        try:
            address: int = array._fully_replicated_shard().unsafe_buffer_pointer()
        except RuntimeError:
            pass
        else:
            return address
    return id(array)


layout_of: Final[Callable[[Any], Any]] = array_type._pjrt_layout.fget
"""The memory layout of a jax.Array, to be compared with `default_layout`.

The array must not be deleted: jaxlib 0.10 crashes then."""


def default_layout(device: Any, dtype: Any, dimensions: tuple[int, ...]) -> Any:
    """The memory layout that arrays have on a device where no other was asked for."""
    return device.client.get_default_layout(dtype, dimensions, device)


def layout_text(layout: Any) -> str:
    """A memory layout as it stands in shapes: "{1,0}", on some platforms with tiles."""
    return str(layout)


def parameter_layouts(loaded: Any) -> list[Any] | None:
    """The layouts that a LoadedExecutable takes its arguments in; None if it does not tell."""
    try:
        return list(loaded.get_parameter_layouts())
    except RuntimeError:  # 0.10, where an argument is a token
        return None


def result_layouts(loaded: Any) -> list[Any] | None:
    """The layouts that a LoadedExecutable gives its results in; None if it does not tell."""
    try:
        return list(loaded.get_output_layouts())
    except RuntimeError:  # 0.10, where a result is a token
        return None


def result_handler(aval: Any, sharding: Any) -> Any:
    """What makes a jax.Array of one result, for `runner`."""
    try:
        # 0.10: the fourth argument leaves out checks of what is given here by ourselves.
        return _jax.array_result_handler(aval, sharding, True, True)
    except TypeError:
        return _jax.array_result_handler(aval, sharding, True)


def runner(
    loaded: Any, handlers: Sequence[Any], *, wait: bool = False
) -> Callable[[list[Any]], list[Any]]:
    """A function that executes a LoadedExecutable: jax.Arrays in, jax.Arrays out.

    It checks nothing: wrong bytes may be taken silently (the right number of bytes in a wrong
    shape, type or layout).

    Args:
        loaded: the LoadedExecutable.
        handlers: of each result, made by `result_handler`.
        wait: whether to come back only when the program has ended, and raise what it failed of.
    """
    execute = loaded.execute_sharded
    handlers = list(handlers)

    def run(arguments: list[Any]) -> list[Any]:
        results: list[Any] = execute(arguments).consume_with_handlers(handlers)
        return results

    def run_and_wait(arguments: list[Any]) -> list[Any]:
        done = execute(arguments, with_tokens=True)
        # The token tells of the end of programs without results too.
        token = done.consume_token()
        results: list[Any] = done.consume_with_handlers(handlers)
        token.block_until_ready()
        return results

    return run_and_wait if wait else run


class _CallData(NamedTuple):
    """What jaxlib asks for before it executes a program without Python: jax's own names."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[Any]
    const_args: Sequence[Any]


_ONLY_LEAVES: Final[Any] = _jax.pytree.PyTreeRegistry(
    enable_none=False,
    enable_tuple=False,
    enable_namedtuple=False,
    enable_list=False,
    enable_dict=False,
)
"""Opens no argument, not even a tuple: what is no array is left to the Python function."""

_KINDS_KEPT: Final = 16
"""For so many different kinds of arguments a function knows that they are right."""


def call_data(
    loaded: Any, sharding: Any, count: int, results: Sequence[Any], structure: Any
) -> _CallData:
    """What jaxlib needs to know of a LoadedExecutable of one device, to execute it by itself.

    Args:
        loaded: the LoadedExecutable.
        sharding: of all arrays, arguments and results.
        count: how many arrays the program takes.
        results: a jax.core.ShapedArray for each array that it gives.
        structure: the PyTreeDef that nests these.
    """
    made = len(results)
    return _CallData(
        xla_executable=loaded,
        out_pytree_def=structure,
        in_shardings=[sharding] * count,
        out_shardings=[sharding] * made,
        out_avals=list(results),
        out_committed=[True] * made,
        kept_var_bitvec=[True] * count,
        in_device_local_layouts=[None] * count,
        const_args=[],
    )


def tree_caller(
    name: str, capacity: int, otherwise: Callable[..., tuple[Any, Any]]
) -> Callable[..., Any]:
    """A function of nested arguments that executes what is known for them, as jax.jit's do.

    jaxlib takes the arguments apart as jax.tree_util does, and describes structure and arrays as
    `direct_caller` says. If `otherwise` has answered a call with the same description, and said
    how, the program is executed at once, and no Python runs. If not, `otherwise` has the call.

    Args:
        name: for jax's profiler.
        capacity: how many descriptions are kept.
        otherwise: gives the result, and the `call_data` by which all calls with arguments of this
            description may be executed, with the arrays as they are; None if they may not.
    """

    def missed(*arguments: Any, **by_name: Any) -> tuple[Any, Any, bool]:
        return *otherwise(*arguments, **by_name), False

    def called_plainly(*arguments: Any, **by_name: Any) -> Any:  # under jax.disable_jit
        return otherwise(*arguments, **by_name)[0]

    cache = _jax.PjitFunctionCache(capacity=capacity)
    registry = _jax.pytree.default_registry()
    call: Callable[..., Any] = _jax.pjit(
        name, called_plainly, missed, [], [], name, registry, _unexpected, cache
    )
    call._fun = _Named(name)  # type: ignore[attr-defined]  # a function of jaxlib
    return call


def direct_caller(
    loaded: Any,
    name: str,
    sharding: Any,
    count: int,
    results: Sequence[Any],
    nesting: Any,
    otherwise: Callable[..., tuple[Any, bool]],
) -> Callable[..., Any]:
    """A function that executes a LoadedExecutable of one device in the way of jax.jit's.

    jaxlib describes each argument: type, sizes, sharding, whether it is committed to that, memory
    layout; whether it has been deleted is a part of that. If the same description was found right
    before, it executes the program at once, and no Python runs. If not, `otherwise` has the call.

    Args:
        loaded: the LoadedExecutable.
        name: for jax's profiler.
        sharding: of all arrays, arguments and results.
        count: how many arguments the program takes.
        results: a jax.core.ShapedArray for each result.
        nesting: how the results are nested in tuples, a 0 in the place of each.
        otherwise: gives the result, and whether all calls with arguments of these descriptions may
            be executed at once, with the arguments as they are.
    """
    structure = _jax.pytree.default_registry().flatten(nesting)[1]
    data = call_data(loaded, sharding, count, results, structure)

    def missed(*arguments: Any, **by_name: Any) -> tuple[Any, _CallData | None, bool]:
        result, are_right = otherwise(*arguments, **by_name)
        return result, data if are_right else None, False

    def called_plainly(*arguments: Any, **by_name: Any) -> Any:  # under jax.disable_jit
        return otherwise(*arguments, **by_name)[0]

    # A cache of its own: those of other functions don't drive its descriptions out.
    cache = _jax.PjitFunctionCache(capacity=_KINDS_KEPT)
    call: Callable[..., Any] = _jax.pjit(
        name, called_plainly, missed, [], [], name, _ONLY_LEAVES, _unexpected, cache
    )
    call._fun = _Named(name)  # type: ignore[attr-defined]  # a function of jaxlib
    return call


class _Named:
    """What jax asks, with debug_nans, of whom a result with a NaN is.

    It would have the function run again to find the operation, but for one of a single operation,
    of which it raises FloatingPointError with the name.
    """

    __slots__ = ("__qualname__",)
    _apply_primitive: Final = True

    def __init__(self, name: str) -> None:
        self.__qualname__ = name


def _unexpected(*_: Any) -> Any:
    """What jaxlib would ask for arrays of several devices."""
    raise TypeError("an argument is on several devices")


def sharded_runner(
    loaded: Any, *, wait: bool
) -> Callable[[list[Any]], tuple[list[list[Any]], Callable[[], None]]]:
    """A function that executes a LoadedExecutable of several devices.

    It takes arrays that `assemble` made. It gives for each result of the program the jax.Arrays on
    the devices, and a function that waits for the end and raises RuntimeError if the program
    failed. Nothing is checked: of wrong arguments jaxlib 0.10 crashes.

    Args:
        loaded: the LoadedExecutable.
        wait: whether it will be waited for; if not, the second function does nothing. To be able
            to wait takes 25 us of the 350 of a call on 8 CPU devices.
    """
    execute = loaded.execute_sharded

    def run(arguments: list[Any]) -> tuple[list[list[Any]], Callable[[], None]]:
        done = execute(arguments, with_tokens=wait)
        ended = done.consume_token().block_until_ready if wait else _nothing
        return done.disassemble_into_single_device_arrays(), ended

    return run


def _nothing() -> None:
    pass


def rows_runner(
    loaded: Any, results: Sequence[tuple[Any, Any, Any]], each: Any, *, wait: bool
) -> Callable[[list[Any]], tuple[list[Any], Callable[[], None]]]:
    """As `sharded_runner`, but gives for each result one jax.Array over all devices.

    Args:
        loaded: the LoadedExecutable; what it gives on a device is that device's shard.
        results: of each result the jax.core.ShapedArrays of a shard and of the whole, and the
            sharding of the whole.
        each: the sharding over the devices that says that each has the whole.
        wait: as of `sharded_runner`.
    """
    execute = loaded.execute_sharded
    wholes = [(aval, sharding) for _, aval, sharding in results]
    handlers = [result_handler(aval, sharding) for aval, sharding in wholes]
    if not _MAKES_ROWS:
        # First as jaxlib takes the results of replicas, arrays that all devices have.
        handlers = [result_handler(shard, each) for shard, _, _ in results]

    def run(arguments: list[Any]) -> tuple[list[Any], Callable[[], None]]:
        done = execute(arguments, with_tokens=wait)
        ended = done.consume_token().block_until_ready if wait else _nothing
        arrays = done.consume_with_handlers(handlers)
        if not _MAKES_ROWS:
            arrays = [
                array._rewrap_with_aval_and_sharding(aval, sharding)
                for array, (aval, sharding) in zip(arrays, wholes, strict=True)
            ]
        return arrays, ended

    return run


_MAKES_ROWS: Final = tuple(map(int, jaxlib_version().split(".")[:2])) < (0, 11)
"""Whether results of replicas can be made shards of one array at once.

Made so by jaxlib 0.12 they can't be read. It saves 100 us of the 310 of a call with one result on
8 CPU devices; to take the results apart and put them together would take 70 more."""


def assemble(aval: Any, sharding: Any, arrays: Sequence[Any]) -> Any:
    """One jax.Array of arrays on several devices.

    Args:
        aval: a jax.core.ShapedArray: of the whole.
        sharding: a jax sharding over the devices, that gives each an array of the shape that it
            has; as `sharded_runner` takes them, one that says that each has the whole.
        arrays: jax.Arrays, in the order of the devices; those of this process.
    """
    return array_type(aval, sharding, arrays, committed=True, _skip_checks=True)


def parameter_tilings(loaded: Any) -> list[str] | None:
    """How a LoadedExecutable of several partitions takes its arguments: GSPMD's texts.

    None if it does not tell.
    """
    return _tilings(loaded.get_parameter_shardings())


def result_tilings(loaded: Any) -> list[str] | None:
    """The same for its results. Of a program without any it tells of the empty tuple."""
    return _tilings(loaded.get_output_shardings())


def _tilings(found: Sequence[Any] | None) -> list[str] | None:
    if found is None:
        return None
    return [str(_xla_client.HloSharding.from_proto(one)) for one in found]


def optimized_hlo_text(loaded: Any, *, large_constants: bool) -> str:
    """HLO text of what XLA made of a module; without large constants `{...}` stands for these."""
    options = _xla_client.hlo.HloPrintOptions()
    options.print_large_constants = large_constants
    return "\n".join(m.to_string(options) for m in loaded.hlo_modules())


def compiled_cost(loaded: Any) -> dict[str, float]:
    """What XLA reckons that a run of a LoadedExecutable costs, by XLA's names."""
    return {name: float(number) for name, number in sorted(loaded.cost_analysis().items())}


def compiled_memory(loaded: Any) -> dict[str, int]:
    """The bytes that a LoadedExecutable takes on a device, by what for."""
    stats = loaded.get_compiled_memory_stats()
    return {
        "arguments": stats.argument_size_in_bytes,
        "results": stats.output_size_in_bytes,
        "aliased": stats.alias_size_in_bytes,
        "temporary": stats.temp_size_in_bytes,
        "code": stats.generated_code_size_in_bytes,
    }


def put_in_layout(
    array: Any, major_to_minor: tuple[int, ...], tiles: tuple[tuple[int, ...], ...], sharding: Any
) -> Any:
    """A copy of a jax.Array in another memory layout; 64-bit elements are kept.

    Args:
        array: on the device of `sharding`.
        major_to_minor, tiles: the layout.
        sharding: SingleDeviceSharding of the device.
    """
    jax: Any = importlib.import_module("jax")
    # A function that jax is tracing may call this with arrays of its own; and what jax does not
    # compile it does not lay out.
    with jax.ensure_compile_time_eval(), jax.disable_jit(False):
        return _copier(major_to_minor, tiles, sharding)(array)


@functools.lru_cache(maxsize=256)
def _copier(
    major_to_minor: tuple[int, ...], tiles: tuple[tuple[int, ...], ...], sharding: Any
) -> Callable[[Any], Any]:
    """A function that copies arrays into a layout: in a tenth of the time of jax.device_put."""
    jax: Any = importlib.import_module("jax")
    layouts: Any = importlib.import_module("jax.experimental.layout")
    layout = layouts.Layout(major_to_minor, tiles) if tiles else layouts.Layout(major_to_minor)

    def copied(array: Any) -> Any:
        return array

    made: Callable[[Any], Any] = jax.jit(copied, out_shardings=layouts.Format(layout, sharding))
    return made
