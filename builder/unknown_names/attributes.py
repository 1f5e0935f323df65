"""What to write for attributes that objects of jax, NumPy, MLIR and XLA have, and ours don't.

The texts are expressions, as in `builder.unknown_names.foreign`. `x` is an op, `b` a builder, and
`computation`, `module`, `executable` and `shape` are the object whose attribute is missing.
"""

from __future__ import annotations

from typing import Final

from builder.support.suggestions import by_name

_VALUE = "lowering.compile(computation)  # a call returns arrays with values"

OPS: Final = by_name(
    {
        "T mT": "xb.transpose(x, permutation)",
        "block_until_ready compile eval item numpy run tolist": _VALUE,
        "byte_width itemsize": "x.shape.element_type.byte_width",
        "clone copy": "x  # an op never changes",
        "dims sizes": "x.shape.dimensions",
        "element_type": "x.shape.element_type",
        "nbytes": "x.shape.byte_size",
        "permute": "xb.transpose(x, permutation)",
        "rank": "x.shape.rank",
        "to type": "xb.convert_element_type(x, element_type)",
    }
)
"""The attributes of ops that mean something else than the function of that name."""

OF_LIBRARY: Final = (
    "argmax argmin bernoulli clip digamma erf_inv erfc eye flip gelu is_inf is_nan isinf isnan "
    "lgamma linspace log_softmax logsumexp mean normal one_hot randint relu repeat roll sigmoid "
    "silu softmax split squeeze stack std take take_along_axis tile tri uniform var where zeros "
    "zeros_like"
)
"""Functions of `builder.lib` that other libraries have as methods. The table of functions would
load `builder.lib`, which is not needed before one of these names is used."""

BUILDER: Final = by_name(
    {
        "build_computation finalize finish": "b.build(root)",
        "compile run": "lowering.compile(b.build(root))",
        "jit": "lowering.jit(function)",
        "lower to_mlir to_stablehlo": "lowering.lower(b.build(root))",
        "program_shape": "b.build(root).program_shape",
        "save": "lowering.lower(b.build(root)).save(path)",
        "as_hlo_text hlo_text to_hlo_text": "b.build(root).to_hlo_text()",
        "SetUpAlias": "b.setup_alias(output_index, param_number)",
    }
)

COMPUTATION: Final = by_name(
    {
        "as_hlo_text as_text get_hlo_module hlo hlo_text text": "computation.to_hlo_text()",
        "as_serialized_hlo_module_proto bytecode serialize": "lowering.lower(computation).bytecode",
        "build": "computation  # it is built",
        "compile jit": "lowering.compile(computation)",
        "cost cost_analysis": "computation.stats()",
        "execute run": "lowering.compile(computation)(*arguments)",
        "get_program_shape shape": "computation.program_shape",
        "lower stablehlo to_mlir to_stablehlo": "lowering.lower(computation)",
        "save": "lowering.lower(computation).save(path)",
        "to_text": "computation.to_hlo_text() or lowering.lower(computation).text",
    }
)

MODULE: Final = by_name(
    {
        "as_text asm get_asm mlir to_mlir to_stablehlo": "module.text",
        "as_hlo_text hlo_text to_hlo_text": "lowering.to_computation(module).to_hlo_text()",
        "compile jit": "lowering.compile(module)",
        "cost cost_analysis stats": "lowering.to_computation(module).stats()",
        "execute run": "lowering.compile(module)(*arguments)",
        "lower": "module  # it is lowered",
        "body context mlir_module operation": "module.module",
        "ops parameters root table": "lowering.to_computation(module)",
        "serialize to_bytes": "module.artifact()",
        "write": "module.save(path)",
    }
)

EXECUTABLE: Final = by_name(
    {
        "as_hlo_text as_text hlo_modules runtime_executable text to_hlo_text": (
            "executable.hlo_text()"
        ),
        "call execute run": "executable(*arguments)",
        "compile": "executable  # it is compiled",
        "compiled_memory_stats get_compiled_memory_stats memory_analysis": "executable.memory()",
        "cost_analysis stats": "executable.cost()",
        "get_output_layouts get_parameter_layouts input_formats layouts output_formats": (
            "executable.compiled_shape()"
        ),
        "in_avals in_tree in_types out_avals out_tree shape": "executable.program_shape",
        "input_shardings output_shardings parameter_shardings result_shardings sharding": (
            "executable.devices  # with num_partitions parameter_shardings and result_shardings, "
            "with num_replicas sharding"
        ),
        "local_devices": "executable.devices",
        "serialize write": "executable.save(path)",
    }
)

JITTED: Final = by_name(
    {
        "as_text hlo_text to_hlo_text": "function.compile(*arguments).hlo_text()",
        "clear_cache": "function.cache_clear()",
        "eval_shape trace": "function.computation(*arguments).program_shape",
        "save": "function.compile(*arguments).save(path)",
        "text": "function.lower(*arguments).text",
    }
)

SHAPE: Final = by_name(
    {
        "dims shape sizes": "shape.dimensions",
        "dtype": "shape.element_type",
        "nbytes": "shape.byte_size",
        "ndim": "shape.rank",
        "size": "shape.element_count",
    }
)
"""The attributes of shapes of arrays."""
