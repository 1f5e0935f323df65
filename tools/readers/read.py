"""Read the files of tools/readers/write.py with another program, and compare the results.

    python read.py FOLDER READER [VARIANT]

This file needs only NumPy and the reader: jaxlib, tensorflow, iree, coreml or explorer. Each
program is read in a process of its own. Prints a JSON object: for each program "equal", "converted"
if the reader does not execute programs, or the reason of the refusal.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SECONDS = 300


class Program(NamedTuple):
    path: Path
    arguments: Sequence[np.ndarray]
    results: Sequence[np.ndarray]


def stablehlo_text(data: bytes) -> str:
    """Return the module of an artifact as text, read by jaxlib."""
    try:
        from jaxlib import xla_extension

        return xla_extension.mlir.deserialize_portable_artifact(data)
    except ImportError:  # since jaxlib 0.7
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo

        with ir.Context() as context:
            return str(stablehlo.deserialize_portable_artifact(context, data))


def jaxlib(program: Program) -> Any:
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    text = stablehlo_text(program.path.read_bytes())
    jax.jit(jax.numpy.linalg.cholesky).lower(np.eye(2))  # loads LAPACK, which a file may call
    device = jax.devices()[0]
    client = device.client
    arrays = [jax.device_put(argument) for argument in program.arguments]
    if hasattr(client, "compile_and_load"):
        from jaxlib import _jax

        executable = client.compile_and_load(text, _jax.DeviceList((device,)))
    else:
        executable = client.compile(text)
    return executable.execute(arrays)


def tensorflow(program: Program) -> Any:
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    @tf.function(jit_compile=True)
    def call(*tensors: Any) -> Any:
        return gen_xla_ops.xla_call_module(
            args=tensors,
            version=9,
            module=program.path.read_bytes(),
            Tout=[result.dtype for result in program.results],
            Sout=[result.shape for result in program.results],
            platforms=["CPU"],
            dim_args_spec=[],
        )

    return call(*map(tf.constant, program.arguments))


def iree(program: Program) -> Any:
    import iree.compiler
    import iree.runtime

    compiled = iree.compiler.compile_file(
        str(program.path),
        input_type="stablehlo",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-i64-to-i32=false"],
    )
    module = iree.runtime.load_vm_flatbuffer(compiled, driver="local-task")
    found = module.main(*program.arguments)
    return found if isinstance(found, (list, tuple)) else [found]


def coreml(program: Program) -> Any:
    import coremltools
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo
    from stablehlo_coreml.converter import convert

    with ir.Context() as context:
        module = stablehlo.deserialize_portable_artifact(context, program.path.read_bytes())
        convert(module, minimum_deployment_target=coremltools.target.iOS18)


def explorer(program: Program) -> None:
    from model_explorer.builtin_mlir_adapter import BuiltinMlirAdapter

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "program.mlirbc")  # the suffix that selects the adapter
        copy.write_bytes(program.path.read_bytes())
        graphs = BuiltinMlirAdapter().convert(str(copy), {})
    assert all(each["nodes"] for some in graphs["graphCollections"] for each in some.graphs), graphs


class Reader(NamedTuple):
    distribution: str
    imported: str
    run: Callable[[Program], Any]


READERS = {
    "jaxlib": Reader("jaxlib", "jax", jaxlib),
    "tensorflow": Reader("tensorflow", "tensorflow", tensorflow),
    "iree": Reader("iree-base-compiler", "iree.compiler", iree),
    "coreml": Reader("stablehlo-coreml", "stablehlo_coreml", coreml),
    "explorer": Reader("ai-edge-model-explorer", "model_explorer", explorer),
}


def compared(found: Sequence[Any], results: Sequence[np.ndarray], tolerance: float) -> str:
    """Return "equal" or how the results differ."""
    if len(found) != len(results):
        return f"{len(found)} results instead of {len(results)}"
    for number, (one, expected) in enumerate(zip(found, results, strict=True)):
        array = np.asarray(one)
        if array.shape != expected.shape or array.dtype != expected.dtype:
            return f"result {number} is {array.dtype}{array.shape}"
        scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=1e-3)
        if not np.allclose(array, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            return f"result {number} differs: {array.ravel()[:3]} instead of {expected.ravel()[:3]}"
    return "equal"


def read(name: str, folder: Path, variant: str, outcome: Any) -> None:
    with np.load(folder / "arrays.npz") as arrays:
        given, expected = (
            [arrays[key] for key in arrays if key.startswith(kind)]
            for kind in ("argument", "result")
        )
    tolerance = 0.03 if "bf16" in folder.name else 1e-3
    try:
        found = READERS[name].run(Program(folder / f"{variant}.stablehlo", given, expected))
        outcome.send("converted" if found is None else compared(found, expected, tolerance))
    except Exception as error:
        outcome.send(f"{type(error).__name__}: {error}")


def main() -> None:
    folder, name, variant = (*sys.argv[1:], "default")[:3]
    reader = READERS[name]
    importlib.import_module(reader.imported)  # once, before the forks
    processes = multiprocessing.get_context("fork")
    outcomes = {}
    for program in sorted(Path(folder).iterdir()):
        receiver, sender = processes.Pipe(duplex=False)
        process = processes.Process(target=read, args=(name, program, variant, sender))
        process.start()
        sender.close()
        try:
            found = receiver.recv() if receiver.poll(SECONDS) else f"not done in {SECONDS} s"
        except EOFError:
            process.join()
            found = f"the process ended with {process.exitcode}"
        process.kill()
        process.join()
        outcomes[program.name] = found
        print(program.name, found[:100], file=sys.stderr, flush=True)
    title = f"{reader.distribution} {importlib.metadata.version(reader.distribution)}"
    print(json.dumps({"reader": title, "outcomes": outcomes}, indent=1))


if __name__ == "__main__":
    main()
