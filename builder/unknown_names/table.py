"""What to write for the names of jax, NumPy, PyTorch, StableHLO and C++ that do not exist here.

`builder.unknown_names` derives the names that definitions of ops contain. A key here has names with
one meaning. A text that is only the name of an op ("xb.dot") or of a library function ("lib.eye")
is extended to a call. Any other text is a Python expression, or several separated by " or ", with
or without a comment. Tests evaluate them and compare many with jax. `x` and `y` are arrays, `pred`
is an array of preds; `b`, `computation`, `module`, `executable`, `function` and `shape` are the
object whose attribute is missing; other variables have the names of parameters.
"""

from __future__ import annotations

from typing import Final

from builder.support.names import by_name

_TYPE = "x.shape.element_type"
_FILLED = "xb.broadcast(b.constant({}, element_type), sizes)"
_SUM = "xb.reduce({}, 0, xb.add, dimensions)"
_SCATTER = "xb.scatter(operands, scatter_indices, updates, {}, dimension_numbers)"
# (x + |x|) / 2 is max(x, 0), and has the derivative 1/2 at 0, as softplus has.
_HALF = "(x {} xb.abs(x)) * 0.5"
_LOG1P = "xb.log1p(xb.exp(-xb.abs(x)))"

FUNCTIONS: Final = by_name(
    {
        # Elementwise.
        "absolute fabs": "xb.abs",
        "angle": "xb.atan2(xb.imag(x), xb.real(x))",
        "around rint round_even": "xb.round_nearest_even",
        "bit_count bitwise_count": "xb.population_count",
        "conjugate": "xb.conj",
        "deg2rad radians": "x * (math.pi / 180)",
        "degrees rad2deg": "x * (180 / math.pi)",
        "equal": "xb.eq",
        "exp2": "xb.pow(2, x)",
        "fix trunc": "xb.select(x < 0, xb.ceil(x), xb.floor(x))",
        "float_power integer_pow": "xb.pow",
        "floor_divide": "xb.floor(x / y)",
        "fmax": "xb.max(x, y)  # NaN if either is",
        "fmin": "xb.min(x, y)  # NaN if either is",
        "greater": "xb.gt",
        "greater_equal": "xb.ge",
        "hypot": "xb.sqrt(x * x + y * y)",
        "invert": "xb.not_",
        "left_shift": "xb.shift_left",
        "less": "xb.lt",
        "less_equal": "xb.le",
        "log10": "xb.log(x) / math.log(10)",
        "log2": "xb.log(x) / math.log(2)",
        "logaddexp": "(x + y + xb.abs(x - y)) * 0.5 + xb.log1p(xb.exp(-xb.abs(x - y)))",
        "fmod mod": "xb.rem(x, y)  # has the sign of x",
        "nan_to_num": "xb.select(xb.ne(x, x), 0, x)  # infinities remain",
        "negative": "xb.neg",
        "not_equal": "xb.ne",
        "right_shift": "xb.shift_right_arithmetic",
        "select_n": "xb.select(pred, on_true, on_false)  # select_n has on_false first",
        "signbit": "xb.lt(xb.bitcast_convert_type(x, xb.s32), 0)  # for f32",
        "true_divide": "xb.div",
        # Activation functions.
        "celu elu": "xb.select(x > 0, x, xb.expm1(xb.select(x > 0, 0, x)))",
        "leaky_relu": "xb.select(x >= 0, x, 0.01 * x)",
        "log_sigmoid": f"{_HALF.format('-')} - {_LOG1P}",
        "relu6": "xb.clamp(0, x, 6)",
        "selu": "1.05070098 * xb.select(x > 0, x, 1.67326324 * xb.expm1(xb.select(x > 0, 0, x)))",
        "softplus": f"{_HALF.format('+')} + {_LOG1P}",
        "swish": "lib.silu",
        # Reductions, cumulative operations and sorting.
        "approx_max_k": "xb.top_k",
        "approx_min_k": "xb.top_k(x, k, largest=False)",
        "argpartition": "lib.argsort",
        "associative_scan": "xb.scan(x, init, lambda item, last: "
        "(computation(item, last), computation(item, last)), dimension)[0]",
        "average": "lib.mean",
        "betainc": "lib.regularized_incomplete_beta",
        "count_nonzero": _SUM.format("xb.convert_element_type(xb.ne(x, 0), xb.s32)"),
        "partition": "xb.top_k(x, k, largest=False)[0]  # along the last dimension",
        "ptp": f"xb.reduce_all(x, {_TYPE}.min, xb.max) - xb.reduce_all(x, {_TYPE}.max, xb.min)",
        "reduce_xor": "xb.reduce(x, 0, xb.xor, dimensions)",
        "sort_key_val": "xb.sort",
        "trace": "lib.sum(lib.get_matrix_diagonal(x))  # from builder import lib",
        "bincount": "xb.broadcast(b.constant(0, xb.s32), sizes).at[ids].add(1)",
        "unique nonzero argwhere flatnonzero": (
            "xb.python_call(function, operands, shape)  # XLA has no op for it"
        ),
        # Products of arrays, linear algebra, random numbers.
        "batch_matmul": "lib.batch_dot",
        "cho_solve": "lib.cholesky_solve",
        "conv_transpose convolve correlate": "xb.conv_general_dilated",
        "geqrf": "lib.qr_decomposition",
        "householder_product orgqr": "lib.product_of_elementary_householder_reflectors",
        "inner": "xb.dot_general(x, y, (([1], [1]), ([], [])))  # for matrices",
        "inverse": "lib.inv",
        "lu_decomposition lu_factor": "lib.lu",
        "matrix_norm vector_norm": "lib.norm",
        "matvec vdot vecmat": "xb.dot",
        "outer": "xb.dot_general(x, y, (([], []), ([], [])))",
        "prng_key": "lib.random_key",
        "ragged_dot_general": "xb.ragged_dot",
        "rand": "xb.rng_uniform",
        "randn": "xb.rng_normal",
        "batch_norm batch_normalization": "xb.batch_norm_training",
        "group_norm instance_norm": "xb.reshape(lib.layer_norm(xb.reshape(x, sizes), axis=-1), "
        "x.shape.dimensions)  # the last of sizes is a group",
        "self_adjoint_eig": "lib.eigh",
        "solve_triangular": "xb.triangular_solve",
        "tensordot vecdot": "xb.dot_general",
        "tridiagonal_solve": "lib.tridiagonal_solver",
        # New arrays.
        "arange broadcasted_iota": "b.iota(shape, iota_dimension)",
        "iota_like arange_like positions": "lib.indices_along",
        "array asarray constant_r0 constant_r1": "b.constant(value, element_type)",
        "empty": "lib.zeros",
        "empty_like": "lib.zeros_like",
        "full": _FILLED.format("value"),
        "identity": "lib.eye",
        "ones": _FILLED.format("1"),
        "ones_like": "lib.full_like(x, 1)  # from builder import lib",
        # Types, shapes, parts and order of the elements.
        "append block column_stack concat dstack hstack vstack": "xb.concatenate",
        "array_split dsplit hsplit unstack vsplit": "xb.slice",
        "astype cast to type": "xb.convert_element_type",
        "bitcast view": "xb.bitcast_convert_type",
        "broadcast_arrays broadcast_like": "xb.broadcast_in_dim",
        "clone copy": "x  # an op never changes",
        "collapse_shape flatten ravel": "xb.collapse",
        "diag diagonal": "lib.get_matrix_diagonal",
        "index_take": "xb.gather",
        "dynamic_index_in_dim dynamic_slice_in_dim": "xb.dynamic_slice",
        "dynamic_update_index_in_dim dynamic_update_slice_in_dim": "xb.dynamic_update_slice",
        "expand": "lib.broadcast_to",
        "fliplr flipud": "xb.rev",
        "index_in_dim": "x[1:2]",
        "set index_update": "x.at[0].set(1)  # returns a new array",
        "T mT matrix_transpose moveaxis permute permute_dims rollaxis swapaxes": "xb.transpose",
        **{
            f"scatter_{op}": _SCATTER.format(f"xb.{op}")
            for op in ("add", "max", "min", "mul", "sub")
        },
        "tril": "lib.lower_triangle",
        "triu": "lib.upper_triangle",
        "unsqueeze": "lib.expand_dims",
        # Control flow and the host.
        "case switch": "xb.conditional(branch_index, branch_computations, branch_operands)",
        "cond conditional if": "xb.conditional(pred, true_operand, true_computation, "
        "false_operand, false_computation)",
        "custom_call_with_computation custom_call_with_layout ffi_call": "xb.custom_call",
        "fori_loop": "lib.for_each_index",
        "io_callback pure_callback": "xb.python_call",
        "multi_head_attention MultiheadAttention": "lib.dot_product_attention",
        "gru lstm rnn GRU LSTM RNN": "xb.scan(x, init, lambda item, state: "
        "(state, computation(item, state)), dimension)  # outputs, then the last state",
        "embedding Embedding embedding_lookup": "table[ids]",
        "mse_loss mean_squared_error squared_error l2_loss MSELoss": "lib.mse",
        "huber_loss smooth_l1_loss HuberLoss": "lib.huber",
        "kl_div kl_divergence": "lib.sum(x * (xb.log(x) - xb.log(y)))",
        "nll_loss NLLLoss": "lib.cross_entropy(x, labels)  # without log_softmax before it",
        "bce bce_loss binary_cross_entropy_with_logits": "lib.binary_cross_entropy",
        "glorot init xavier xavier_uniform": "lib.glorot_uniform",
        "xavier_normal": "lib.glorot_normal",
        "he kaiming_uniform": "lib.he_uniform",
        "kaiming_normal": "lib.he_normal",
        "adam Adam adamw AdamW sgd SGD optimizer Optimizer optimizers optim": (
            "lowering.apply(optimizer.update, gradients, state, params)  # of optax"
        ),
        "print debug_callback": 'xb.debug_print("x is {}", x)',
        "assert_ checkify checkify_check": 'xb.check(x > 0, "x must be positive, got {}", x)',
        "while_loop": "xb.while_(condition, body, init)",
        # Devices.
        "axis_index": "b.replica_id() or b.partition_id()",
        "collective_reduce psum": "xb.all_reduce(x, xb.add)",
        "pbroadcast": "xb.collective_broadcast",
        "pmax": "xb.all_reduce(x, xb.max)",
        "pmean": "xb.all_reduce(x, xb.add) / count",
        "pmin": "xb.all_reduce(x, xb.min)",
        "ppermute pshuffle": "xb.collective_permute",
        "psum_scatter": "xb.reduce_scatter",
        "sharding_constraint with_sharding_constraint": "xb.with_sharding",
        "detach no_grad": "lib.stop_gradient",
        # Properties of arrays, classes and numbers.
        "byte_width itemsize": f"{_TYPE}.byte_width",
        "dims sizes": "x.shape.dimensions",
        "dtype element_type": _TYPE,
        "get_shape shape_of": "x.shape",
        "float": "xb.f32 or xb.f64",
        "inf": "math.inf",
        "int": "xb.s32 or xb.s64",
        "long": "xb.s64  # 64 bits",
        "make_shape shape_dtype_struct shaped_array": "xb.array_shape(element_type, dimensions)",
        "make_tuple_shape": "xb.tuple_shape(shapes)",
        "named_sharding partition_spec": "xb.MeshSharding(mesh, axes)",
        "nan": "math.nan",
        "nbytes": "x.shape.byte_size",
        "ndim rank": "x.shape.rank",
        "pi": "math.pi",
        "size": "x.shape.element_count",
        # Programs.
        "block_until_ready compile eval evaluate execute item numpy run tolist": (
            "lowering.compile(computation)  # a call returns arrays with values"
        ),
        "custom_jvp custom_linear_solve custom_root custom_vjp": (
            "xb.custom_gradient(computation, backward)"
        ),
        "device_put": "lowering.device_put",
        "device_count local_device_count local_devices": "lowering.devices()",
        "export to_stablehlo": "lowering.lower(computation)",
        "checkpoint hessian jacfwd jacobian jacrev jvp linearize remat vjp": (
            "lowering.to_jax(computation)  # jax's transformations apply to it"
        ),
        "grad": "lowering.grad",
        "gradients": "lowering.gradients",
        "jit": "lowering.jit",
        "lower": "lowering.lower",
        "tree_map": "jax.tree.map(function, x)",
        "make_jaxpr": "computation.table()",
        "pmap": "lowering.jit",
        "save": "lowering.lower(computation).save(path)",
        "value_and_grad": "lowering.value_and_grad",
        "vectorize vmap": "lowering.vmap",
    }
)
"""The text for functions and for attributes of arrays, by name."""

_ATTRIBUTES = {
    "ArrayShape": {
        "dims shape sizes": "shape.dimensions",
        "dtype": "shape.element_type",
        "nbytes": "shape.byte_size",
        "ndim": "shape.rank",
        "size": "shape.element_count",
    },
    "XlaBuilder": {
        "as_hlo_text hlo_text to_hlo_text": "b.build(root).to_hlo_text()",
        "build_computation finalize finish": "b.build(root)",
        "compile run": "lowering.compile(b.build(root))",
        "lower to_mlir to_stablehlo": "lowering.lower(b.build(root))",
        "program_shape": "b.build(root).program_shape",
        "save": "lowering.lower(b.build(root)).save(path)",
    },
    "XlaComputation": {
        "as_hlo_text as_text get_hlo_module hlo hlo_text text": "computation.to_hlo_text()",
        "bytecode serialize": "lowering.lower(computation).bytecode",
        "build": "computation  # it is built",
        "compile jit": "lowering.compile(computation)",
        "cost cost_analysis": "computation.stats()",
        "execute run": "lowering.compile(computation)(*arguments)",
        "get_program_shape shape": "computation.program_shape",
        "lower stablehlo to_mlir to_stablehlo": "lowering.lower(computation)",
        "save": "lowering.lower(computation).save(path)",
        "to_text": "computation.to_hlo_text() or lowering.lower(computation).text",
    },
    "StablehloModule": {
        "as_hlo_text hlo_text to_hlo_text": "lowering.to_computation(module).to_hlo_text()",
        "as_text asm get_asm mlir to_mlir to_stablehlo": "module.text",
        "body context mlir_module operation": "module.module",
        "compile jit": "lowering.compile(module)",
        "cost cost_analysis stats": "lowering.to_computation(module).stats()",
        "execute run": "lowering.compile(module)(*arguments)",
        "lower": "module  # it is lowered",
        "ops parameters root table": "lowering.to_computation(module)",
        "serialize to_bytes": "module.artifact()",
        "write": "module.save(path)",
    },
    "CompiledProgram": {
        "as_hlo_text as_text hlo_modules text to_hlo_text": "executable.hlo_text()",
        "call execute run": "executable(*arguments)",
        "compile": "executable  # it is compiled",
        "compiled_memory_stats get_compiled_memory_stats memory_analysis": "executable.memory()",
        "cost_analysis stats": "executable.cost()",
        "get_output_layouts get_parameter_layouts layouts": "executable.compiled_shape()",
        "in_avals in_tree out_avals out_tree shape": "executable.program_shape",
        "input_shardings output_shardings parameter_shardings result_shardings sharding": (
            "executable.devices  # with num_partitions parameter_shardings and "
            "result_shardings, with num_replicas sharding"
        ),
        "local_devices": "executable.devices",
        "serialize write": "executable.save(path)",
    },
    "JittedFunction": {
        "as_text hlo_text to_hlo_text": "function.compile(*arguments).hlo_text()",
        "clear_cache": "function.cache_clear()",
        "eval_shape trace": "function.computation(*arguments).program_shape",
        "save": "function.compile(*arguments).save(path)",
        "text": "function.lower(*arguments).text",
    },
}

ATTRIBUTES: Final = {of_class: by_name(table) for of_class, table in _ATTRIBUTES.items()}
"""The text for attributes by class and name; the attributes of ops are in `FUNCTIONS`."""
