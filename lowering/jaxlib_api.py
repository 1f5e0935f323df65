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
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mlirHlo
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

__all__ = [
    "BYTECODE_MAGIC",
    "CALLBACK_TARGET",
    "UnreadableModuleError",
    "array_type",
    "assemble",
    "bytecode",
    "bytecode_pieces",
    "compatible_version",
    "compile_and_load",
    "compiled_memory",
    "current_version",
    "decomposed",
    "default_layout",
    "elements_attribute",
    "hlo_program",
    "hlo_proto",
    "hlo_text_to_stablehlo",
    "interpreted",
    "interpreter_context",
    "interprets_fft",
    "layout_of",
    "layout_text",
    "minimum_version",
    "new_context",
    "optimized_hlo_text",
    "parameter_layouts",
    "put",
    "put_in_layout",
    "read_module",
    "refined",
    "registered_targets",
    "result_handler",
    "result_layouts",
    "runner",
    "serialize_artifact",
    "sharded_runner",
    "stablehlo_to_hlo_text",
]

# By name: jaxlib has no type stubs for these two.
_jax: Final[Any] = importlib.import_module("jaxlib._jax")
_xla_client: Final[Any] = importlib.import_module("jaxlib.xla_client")

_REGISTRY: Final = ir.DialectRegistry()
_jax_mlir_ext.register_dialects(_REGISTRY)

BYTECODE_MAGIC: Final = b"ML\xefR"
"""What MLIR bytecode, and so a portable artifact, starts with."""

# Contexts and modules


def new_context() -> ir.Context:
    """A fresh MLIR context that knows every dialect that a StableHLO module may hold.

    Making one takes about 2 ms. What is made in a context (types, attributes, and so the data of
    constants) lives as long as the context does.

    Multithreading is off: modules here are built and verified one at a time, and MLIR would start
    a thread for each core in each context.

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
    context.load_all_available_dialects()
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
    module = read_module(new_context(), source)
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


def compile_and_load(
    devices: Sequence[Any],
    module_bytecode: bytes,
    *,
    num_replicas: int = 1,
    num_partitions: int = 1,
    callbacks: Sequence[Callable[..., Any]] = (),
) -> Any:
    """Compiles a module for some devices of one client; gives a jaxlib LoadedExecutable.

    The module goes as bytes, not as an MLIR module: XLA compiles without holding Python's lock,
    and must not meet another thread in the same MLIR context.

    Args:
        devices: ``num_replicas * num_partitions`` jax.Devices: the partitions of replica 0, those
            of replica 1, and so on.
        module_bytecode: MLIR bytecode, or a portable artifact.
        num_replicas: how many replicas run the program.
        num_partitions: into how many partitions each replica is cut.
        callbacks: the Python functions that the module's callback custom calls name by index. The
            executable keeps them.

    Raises:
        ValueError: XLA refuses the module; the text holds XLA's report.
    """
    options = _xla_client.CompileOptions()
    options.num_replicas = num_replicas
    options.num_partitions = num_partitions
    build = options.executable_build_options
    build.num_replicas = num_replicas
    build.num_partitions = num_partitions
    build.use_spmd_partitioning = num_partitions > 1
    numpy: Any = importlib.import_module("numpy")
    numbers = numpy.array([device.id for device in devices])
    assignment = _xla_client.DeviceAssignment.create(numbers.reshape(num_replicas, num_partitions))
    options.device_assignment = assignment
    build.device_assignment = assignment
    client = devices[0].client
    arguments = (module_bytecode, _jax.DeviceList(tuple(devices)), options)
    try:
        if callbacks:
            # With callbacks only a module is taken, no bytes: one in a context of its own.
            module = ir.Module.parse(module_bytecode, new_context())
            return client.compile_and_load(module, *arguments[1:], list(callbacks))
        return client.compile_and_load(*arguments)
    except UnicodeDecodeError:
        raise ValueError("the module is damaged: its report is no text") from None
    except (RuntimeError, ValueError) as error:  # RuntimeError: jax.errors.JaxRuntimeError
        raise ValueError(str(error)) from None


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

layout_of: Final[Callable[[Any], Any]] = operator.attrgetter("_pjrt_layout")
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


def sharded_runner(
    loaded: Any,
) -> Callable[[list[Any]], tuple[list[list[Any]], Callable[[], None]]]:
    """A function that executes a LoadedExecutable of several devices.

    It takes arrays that `assemble` made. It gives for each result of the program the jax.Arrays on
    the devices, and a function that waits for the end and raises RuntimeError if the program
    failed. Nothing is checked: of wrong arguments jaxlib 0.10 crashes.
    """
    execute = loaded.execute_sharded

    def run(arguments: list[Any]) -> tuple[list[list[Any]], Callable[[], None]]:
        done = execute(arguments, with_tokens=True)
        return (
            done.disassemble_into_single_device_arrays(),
            done.consume_token().block_until_ready,
        )

    return run


def assemble(aval: Any, sharding: Any, arrays: Sequence[Any]) -> Any:
    """One jax.Array of arrays on several devices, as `sharded_runner` takes it.

    Args:
        aval: a jax.core.ShapedArray: that of each of them.
        sharding: a jax sharding over the devices that says that each has the whole array.
        arrays: jax.Arrays, in the order of the devices.
    """
    return array_type(aval, sharding, arrays, committed=True, _skip_checks=True)


def optimized_hlo_text(loaded: Any, *, large_constants: bool) -> str:
    """HLO text of what XLA made of a module; without large constants `{...}` stands for these."""
    options = _xla_client.hlo.HloPrintOptions()
    options.print_large_constants = large_constants
    return "\n".join(m.to_string(options) for m in loaded.hlo_modules())


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
    # A function that jax is tracing may call this with arrays of its own.
    with jax.ensure_compile_time_eval():
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
