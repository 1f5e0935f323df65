"""Every public function and method refuses wrong arguments with an error of the library.

The traceback of the error has at most one frame of the library.

Each parameter in turn is replaced by a hostile value; the others are valid. The operations have a
test of their own, `tests/builder/ops/test_failures.py`.
"""

from __future__ import annotations

import enum
import inspect
import math
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import builder as xb
import lowering
from builder.support.frames import is_inside


class Colour(enum.Enum):
    """An enum: a class whose call with an unknown value raises ValueError."""

    RED = 1


class Empty:
    """A class, which is callable, but not a function of XlaOps."""


class WithoutRepr:
    """An object whose repr raises."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


LONGEST_MESSAGE = 4000

HOSTILE: dict[str, Any] = {
    "an array": np.array([1, 2]),
    "a class": Empty,
    "an enum class": Colour,
    "a text": "x",
    "a text with a surrogate": "\ud800",
    "a long text": "x" * 100_000,
    "bytes": b"x",
    "-1": -1,
    "2**70": 2**70,
    "1.5": 1.5,
    "nan": math.nan,
    "None": None,
    "nested lists": [[]],
    "a dict": {1: 2},
    "an object without repr": WithoutRepr(),
}


FUNCTIONS = {name for info in xb.OPERATIONS.values() for name in (info.name, *info.aliases)}
"""The names of the operations."""


@dataclass(frozen=True)
class Case:
    """A public function, and how to call it.

    Attributes:
        function: the function or bound method; its signature lists the parameters to replace.
        valid: the required arguments, by name.
        skipped: parameters that are not replaced, such as those that select a blocking call.
        errors: other documented errors.
        use: what to do with the result, such as entering a context manager.
    """

    function: Callable[..., Any]
    valid: dict[str, Any] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    errors: tuple[type[Exception], ...] = ()
    use: Callable[[Any], object] = lambda result: result


def computation() -> xb.XlaComputation:
    b = xb.XlaBuilder("hostile")
    return b.build(b.parameter(xb.f32[2], "x") + 1.0)


def builder() -> xb.XlaBuilder:
    b = xb.XlaBuilder("hostile")
    b.parameter(xb.f32[2], "x")
    return b


def enter(context: Any) -> None:
    with context:
        pass


SHAPE = xb.parse_shape("f32[4,8]{1,0}")
MESH = xb.Mesh({"x": 2})
NUMBERS = xb.DotDimensionNumbers([1], [0])


def builder_cases() -> dict[str, Case]:
    c = computation()
    function = xb.computation(xb.f32[2])(lambda x: x + 1.0)
    reusable = xb.computation(lambda x: x + 1.0)
    predicate = builder().parameter(xb.pred[()], "p")
    cases = {
        "Mesh": Case(xb.Mesh, {"axes": {"x": 2}}),
        "Mesh.sharding": Case(MESH.sharding, {"dimensions": ("x",)}),
        "MeshSharding": Case(xb.MeshSharding, {"mesh": MESH}),
        "MeshSharding.at_rank": Case(MESH.sharding("x").at_rank, {"rank": 2}),
        "MeshSharding.misfit": Case(MESH.sharding("x").misfit, {"shape": SHAPE}),
        "MeshSharding.shard_shape": Case(MESH.sharding("x").shard_shape, {"shape": SHAPE}),
        "Tiling.misfit": Case(xb.parse_tiling("{devices=[2]0,1}").misfit, {"shape": xb.f32[2]}),
        "Tiling.shard_shape": Case(
            xb.parse_tiling("{devices=[2]0,1}").shard_shape, {"shape": xb.f32[2]}
        ),
        "debug_print": Case(
            lambda message, operand: xb.debug_print(message, operand),
            {"message": "{}", "operand": builder().ops[0]},
        ),
        "check": Case(
            lambda condition, message, operand: xb.check(condition, message, operand),
            {"condition": predicate, "message": "{}", "operand": predicate},
        ),
        "explain": Case(xb.explain, {"op": xb.rev(builder().ops[0], [0]), "values": {}}),
        "parse_tiling": Case(xb.parse_tiling, {"text": "{devices=[2]0,1}"}),
        "declare_internal": Case(xb.declare_internal, {"module": "json"}),
        "show_internal_frames": Case(xb.show_internal_frames, {"show": False}),
        "parse_shape": Case(xb.parse_shape, {"text": "f32[2]"}),
        "parse_layout": Case(xb.parse_layout, {"text": "{1,0}"}),
        "array_shape": Case(xb.array_shape, {"element_type": xb.f32, "dimensions": [2]}),
        "tuple_shape": Case(xb.tuple_shape, {"elements": [SHAPE]}),
        "bounded": Case(xb.bounded, {"bound": 3}, use=lambda size: xb.f32[size]),
        "f32[...]": Case(lambda sizes: xb.f32[sizes], {"sizes": 2}),
        "as_primitive_type": Case(xb.as_primitive_type, {"value": "f32"}),
        "ArrayShape.dimension_number": Case(SHAPE.dimension_number, {"dimension": 1}),
        "ArrayShape.dimension_text": Case(SHAPE.dimension_text, {"dimension": 1}),
        "ArrayShape.with_element_type": Case(SHAPE.with_element_type, {"element_type": xb.s8}),
        "ArrayShape.with_layout": Case(SHAPE.with_layout, {"layout": None}),
        "ProgramShape": Case(xb.ProgramShape, {"parameters": [SHAPE], "result": SHAPE}),
        "TupleShape": Case(xb.TupleShape, {"elements": [SHAPE]}),
        "Layout": Case(xb.Layout, {"minor_to_major": [1, 0]}),
        "Layout.replace": Case(
            lambda tiles, memory_space, minor_to_major: xb.Layout([1, 0]).replace(
                tiles=tiles, memory_space=memory_space, minor_to_major=minor_to_major
            ),
            {"tiles": [(2, 2)], "memory_space": 1, "minor_to_major": [0, 1]},
        ),
        "Tile": Case(xb.Tile, {"dimensions": [2]}),
        "ChannelHandle": Case(xb.ChannelHandle, {"handle": 1}),
        "ConvolutionDimensionNumbers.default": Case(
            xb.ConvolutionDimensionNumbers.default, {"spatial": 2}
        ),
        "DotDimensionNumbers": Case(xb.DotDimensionNumbers),
        "GatherDimensionNumbers": Case(
            xb.GatherDimensionNumbers,
            {
                "offset_dims": [1],
                "collapsed_slice_dims": [0],
                "start_index_map": [0],
                "index_vector_dim": 1,
            },
        ),
        "ScatterDimensionNumbers": Case(
            xb.ScatterDimensionNumbers,
            {
                "update_window_dims": [1],
                "inserted_window_dims": [0],
                "scatter_dims_to_operand_dims": [0],
                "index_vector_dim": 1,
            },
        ),
        "OutputOperandAliasing": Case(
            xb.OutputOperandAliasing, {"output_index": [], "operand_number": 0}
        ),
        "PaddingConfig": Case(xb.PaddingConfig),
        "PaddingConfigDimension": Case(xb.PaddingConfigDimension),
        "RaggedDotDimensionNumbers": Case(
            xb.RaggedDotDimensionNumbers, {"dot_dimension_numbers": NUMBERS}
        ),
        "ReplicaGroups": Case(xb.ReplicaGroups),
        "XlaBuilder": Case(xb.XlaBuilder),
        "computation": Case(lambda shape: xb.computation(shape)(lambda x: x), {"shape": xb.f32[2]}),
        "computation, result": Case(
            lambda result: xb.computation(xb.f32[2], result=result)(lambda x: x),
            {"result": xb.f32[2]},
        ),
        "computation, function": Case(xb.computation(xb.f32[2])),
        "reusable function": Case(
            lambda function: xb.computation(function),
            {"function": lambda x: x + 1.0},
        ),
        "custom_gradient": Case(
            xb.custom_gradient, {"computation": function, "backward": lambda x, y, dy: dy}
        ),
        "ReusableFunction.computation": Case(
            lambda shape: reusable.computation(shape), {"shape": xb.f32[2]}
        ),
        "ReusableFunction.__call__": Case(
            lambda operand: reusable(operand), {"operand": builder().ops[0]}
        ),
        "XlaComputation.find": Case(c.find),
        "XlaComputation.table": Case(c.table),
        "XlaComputation.to_hlo_text": Case(c.to_hlo_text),
        "XlaComputation.users": Case(c.users, {"op": c.ops[0]}),
        "XlaComputation.extract": Case(c.extract, {"ops": c.root}),
        "XlaComputation.replace": Case(c.replace, {"function": lambda op: None}),
        "XlaComputation.diff": Case(c.diff, {"other": function}),
        "XlaComputation.__call__": Case(lambda value: c(value), {"value": np.ones(2, np.float32)}),
        "layout.buffer_size": Case(xb.layout.buffer_size, {"shape": SHAPE}),
        "layout.draw": Case(xb.layout.draw, {"shape": SHAPE}),
        "layout.layout_of": Case(xb.layout.layout_of, {"shape": SHAPE}),
        "layout.physical_dimensions": Case(xb.layout.physical_dimensions, {"shape": SHAPE}),
        "layout.is_padding": Case(xb.layout.is_padding, {"shape": SHAPE, "linear_index": 0}),
        "layout.linear_index": Case(
            xb.layout.linear_index, {"shape": SHAPE, "multi_index": (0, 0)}
        ),
        "layout.multi_index": Case(xb.layout.multi_index, {"shape": SHAPE, "linear_index": 0}),
        "layout.pack": Case(xb.layout.pack, {"shape": SHAPE, "array": np.ones((4, 8), np.float32)}),
        "layout.unpack": Case(
            xb.layout.unpack, {"shape": SHAPE, "buffer": np.ones(32, np.float32)}
        ),
        "XlaOp.name": Case(lambda name: setattr(builder().ops[0], "name", name), {"name": "y"}),
        "XlaOp.sharding": Case(
            lambda sharding: setattr(builder().ops[0], "sharding", sharding),
            {"sharding": "{replicated}"},
        ),
        "bind": Case(
            lambda computation, arrays: xb.bind(computation, arrays),
            {"computation": c, "arrays": {0: np.ones(2, np.float32)}},
        ),
        "hoist_constants": Case(xb.hoist_constants, {"computation": c}),
        "inline": Case(
            lambda computation: xb.inline(computation, builder().ops[0]),
            {"computation": c},
        ),
    }
    methods: dict[str, dict[str, Any]] = {
        "add_buffer_donor": {"param_number": 0},
        "build": {},
        "call": {"computation": computation_without_parameters()},
        "constant": {"value": 1.0, "element_type": xb.f32},
        "custom_call": {"target_name": "f", "shape": xb.f32[2]},
        "frontend_attributes": {"attributes": {"a": "b"}},
        "infeed": {"shape": xb.f32[2]},
        "inline": {"computation": computation_without_parameters()},
        "iota": {"shape": xb.f32[2]},
        "parameter": {"shape": xb.f32[2]},
        "python_call": {"function": lambda: np.ones(2, np.float32), "shape": xb.f32[2]},
        "recv": {"shape": xb.f32[2], "channel_handle": 1},
        "set_sharding": {"sharding": None},
        "setup_alias": {"output_index": (), "param_number": 0},
        "sharding": {"sharding": None},
    }
    for name, valid in methods.items():
        cases[f"XlaBuilder.{name}"] = Case(
            with_signature(getattr(xb.XlaBuilder, name), lambda n: getattr(builder(), n), name),
            valid,
            use=enter if name in ("sharding", "frontend_attributes") else lambda result: result,
        )
    return cases


def lowering_cases() -> dict[str, Case]:
    c = computation()
    module = lowering.lower(c)
    executable = lowering.compile(c)
    sharded = lowering.compile(c, num_replicas=1, results="sharded")
    same = lowering.jit(lambda value: value)
    x = np.ones(2, np.float32)
    op = builder().parameters[0]
    loss = xb.reduce(op, 0.0, xb.add, [0])
    of_loss = xb.computation(xb.f32[2])(lambda v: xb.reduce(v, 0.0, xb.add, [0]))
    return {
        "apply": Case(lambda f, v: lowering.apply(f, v), {"f": lambda v: v, "v": op}),
        "edit_jax": Case(lowering.edit_jax, {"function": lambda v: v, "edit": lambda c: c}),
        "from_jax": Case(lambda f, v: lowering.from_jax(f, v), {"f": lambda v: v, "v": x}),
        "to_jax": Case(lowering.to_jax, {"computation": c}),
        "gradients": Case(lowering.gradients, {"loss": loss, "wrt": op}),
        "grad": Case(lowering.grad, {"computation": of_loss}),
        "value_and_grad": Case(lowering.value_and_grad, {"computation": of_loss}),
        "vmap": Case(lowering.vmap, {"computation": c, "axis_size": 2}),
        "lower": Case(lowering.lower, {"computation": c}),
        "to_hlo_proto": Case(lowering.to_hlo_proto, {"computation": c}),
        "compile": Case(lowering.compile, {"computation": c}),
        "to_computation": Case(lowering.to_computation, {"source": module}),
        "load": Case(lowering.load, {"source": module}),
        "load_bytes": Case(lowering.load_bytes, {"data": module.artifact()}),
        "from_hlo": Case(lowering.from_hlo, {"source": c.to_hlo_text()}),
        "jit": Case(lowering.jit, {"function": lambda v: v + 1.0}),
        "jit, used": Case(lambda value: same(value), {"value": x}),
        "interpret": Case(lowering.interpret, {"computation": c, "args": [x]}),
        "compare": Case(lowering.compare, {"computation": c, "args": [x]}),
        "write_test": Case(
            lowering.write_test, {"computation": c, "path": "test.mlir", "args": [x]}
        ),
        "probe": Case(lowering.probe, {"computation": c, "args": [x]}),
        "minimize": Case(
            lowering.minimize, {"computation": c, "is_bad": lambda *_: True, "args": [x]}
        ),
        "run_test": Case(lowering.run_test, {"path": "missing"}),
        "device": Case(lowering.device),
        "devices": Case(lowering.devices),
        "register_plugin": Case(
            lowering.register_plugin, {"name": "hostile", "path": "/missing/plugin.so"}
        ),
        "device_put": Case(lowering.device_put, {"value": x}),
        "clear_transfers": Case(lowering.clear_transfers),
        "transfer_to_infeed": Case(lowering.transfer_to_infeed, {"value": x}),
        "transfer_from_outfeed": Case(
            # Without a short timeout it waits for a program that writes to the outfeed.
            lowering.transfer_from_outfeed,
            {"shape": xb.f32[2], "timeout": 0.01},
            skipped=("timeout",),
        ),
        "register_custom_call_target": Case(
            lowering.register_custom_call_target, {"name": "hostile", "function": len}
        ),
        "topology": Case(lowering.topology, {"platform": "tpu", "name": "v5e:2x2"}),
        "use_compilation_cache": Case(lowering.use_compilation_cache, {"folder": None}),
        "show_progress": Case(lowering.show_progress, {"show": False}),
        "load_executable": Case(lowering.load_executable, {"path": "missing"}),
        "StablehloModule.artifact": Case(module.artifact),
        "StablehloModule.save": Case(module.save, {"path": "module.mlir"}),
        "StablehloModule.to_text": Case(module.to_text),
        "Executable.hlo_text": Case(executable.hlo_text),
        "Executable.save": Case(executable.save, {"path": "executable"}),
        "Executable.profile": Case(executable.profile, {"args": [x]}),
        "Executable.__call__": Case(lambda value: executable(value), {"value": x}),
        "ReplicatedExecutable.hlo_text": Case(sharded.hlo_text),
    }


def jax_cases() -> dict[str, Case]:
    b = xb.XlaBuilder("loss")
    x = b.parameter(xb.f32[()], "x")
    loss = xb.sin(x)
    c = b.build(loss)
    return {
        "to_jax": Case(lowering.to_jax, {"computation": c}),
        # Classes can be functions of jax; the errors are those of their calls.
        "from_jax": Case(
            lambda function: lowering.from_jax(function),
            {"function": lambda: 1.0},
            errors=(TypeError,),
        ),
        "edit_jax": Case(lowering.edit_jax, {"function": jax.numpy.sin, "edit": lambda c: c}),
        "apply": Case(
            lambda function, argument: lowering.apply(function, argument),
            {"function": jax.numpy.sin, "argument": builder().ops[0]},
            errors=(TypeError, ValueError),
        ),
        "gradients": Case(
            lambda loss, wrt: lowering.gradients(loss, wrt), {"loss": loss, "wrt": x}
        ),
        "grad": Case(lowering.grad, {"computation": c}),
        "value_and_grad": Case(lowering.value_and_grad, {"computation": c}),
        "vmap": Case(lowering.vmap, {"computation": c, "axis_size": 2}),
    }


def with_signature(
    method: Callable[..., Any], bind: Callable[[str], Callable[..., Any]], name: str
) -> Callable[..., Any]:
    """Return a function that calls the method of a new object; it has the method's signature."""

    def call(**arguments: Any) -> Any:
        return bind(name)(**arguments)

    signature = inspect.signature(method)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def computation_without_parameters() -> xb.XlaComputation:
    b = xb.XlaBuilder("constant")
    return b.build(b.constant(1.0, xb.f32))


def replaced(case: Case) -> list[str]:
    """Return the names of the parameters to replace."""
    return [
        p.name
        for p in inspect.signature(case.function).parameters.values()
        if p.name not in case.skipped and p.kind is not p.VAR_KEYWORD
    ]


def attempt(case: Case, parameter: str, value: Any) -> str | None:
    """Call a function with one wrong argument; return the complaint, or None."""
    arguments = {**case.valid, parameter: value}
    positional: list[Any] = []
    for p in inspect.signature(case.function).parameters.values():
        if p.name not in arguments:
            continue
        if p.kind is p.POSITIONAL_ONLY:
            positional.append(arguments.pop(p.name))
        elif p.kind is p.VAR_POSITIONAL:
            values = arguments.pop(p.name)
            positional += [values] if p.name == parameter else values
    try:
        case.use(case.function(*positional, **arguments))
    except (xb.XlaError, *case.errors) as error:
        length = len(str(error))
        if length > LONGEST_MESSAGE:
            return f"a message of {length} characters"
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if is_inside(frame)]
        is_of_library = isinstance(error, xb.XlaError)
        return f"internal frames: {frames}" if is_of_library and len(frames) > 1 else None
    except Exception as error:  # any other error is a fault
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


@cache
def cases() -> dict[str, Case]:
    return builder_cases() | lowering_cases() | jax_cases()


@pytest.fixture(scope="module", autouse=True)
def no_transfers_are_left() -> Iterator[None]:
    """A value that no program reads would reach the next program with an infeed."""
    yield
    lowering.clear_transfers()


def test_hostile_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    complaints = {
        (name, parameter, what): complaint
        for name, case in cases().items()
        for parameter in replaced(case)
        for what, value in HOSTILE.items()
        if (complaint := attempt(case, parameter, value)) is not None
    }
    assert complaints == {}


def test_every_public_function_has_a_case() -> None:
    functions = {
        name
        for package in (xb, lowering)
        for name in dir(package)
        if not name.startswith("_")
        and inspect.isfunction(getattr(package, name))
        and name not in FUNCTIONS
    }
    assert functions - {name.partition(",")[0] for name in cases()} == set()
