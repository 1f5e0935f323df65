"""What to write for the names of jax, NumPy, StableHLO and C++ that `builder` does not have.

Names that differ only in case and underscores, opcodes, and the names that schemas contain need no
entry here: `builder.unknown_names` derives them.

A text is a Python expression, or several separated by " or ", possibly with a comment at the end.
Tests record these expressions and compare many of them with jax. `x` and `y` are arrays, `pred` is
an array of preds, and `b` is the builder; other variables have the names of parameters of ops.
"""

from __future__ import annotations

from typing import Final

from builder.support.suggestions import by_name

RENAMED: Final = by_name(
    {
        "absolute fabs": "abs",
        "append block column_stack concat dstack hstack vstack": "concatenate",
        "approx_max_k topk": "top_k",
        "arccos": "acos",
        "arccosh": "acosh",
        "arcsin": "asin",
        "arcsinh": "asinh",
        "arctan": "atan",
        "arctan2": "atan2",
        "arctanh": "atanh",
        "around rint round_even": "round_nearest_even",
        "array_split dsplit hsplit unstack vsplit": "slice",
        "astype cast": "convert_element_type",
        "tensordot vecdot": "dot_general",
        "bit_count bitwise_count": "population_count",
        "bitcast view": "bitcast_convert_type",
        "bitwise_and logical_and": "and_",
        "bitwise_invert bitwise_not invert logical_not": "not_",
        "bitwise_left_shift left_shift": "shift_left",
        "bitwise_or logical_or": "or_",
        "bitwise_right_shift right_shift": "shift_right_arithmetic",
        "bitwise_xor logical_xor": "xor",
        "broadcast_arrays broadcast_like": "broadcast_in_dim",
        "broadcast_to_rank resize": "reshape",
        "clip": "clamp",
        "collapse_shape flatten ravel": "collapse",
        "conjugate": "conj",
        "conv_transpose convolve correlate dynamic_conv": "conv_general_dilated",
        "dynamic_gather index_take": "gather",
        "dynamic_index_in_dim dynamic_slice_in_dim real_dynamic_slice": "dynamic_slice",
        "dynamic_pad": "pad",
        "dynamic_update_index_in_dim dynamic_update_slice_in_dim": "dynamic_update_slice",
        "equal": "eq",
        "expit sigmoid": "logistic",
        "create_scalar_add_computation create_scalar_identity_with_zero_computation": "add",
        "create_scalar_and_computation": "and_",
        "create_scalar_ge_computation": "ge",
        "create_scalar_max_computation": "max",
        "create_scalar_min_computation": "min",
        "create_scalar_multiply_computation": "mul",
        "create_scalar_or_computation": "or_",
        "custom_call_with_computation custom_call_with_computation_and_layouts "
        "custom_call_with_layout ffi_call": "custom_call",
        "fliplr flipud": "rev",
        "float_power integer_pow": "pow",
        "fmod": "rem",
        "greater": "gt",
        "greater_equal": "ge",
        "io_callback pure_callback": "python_call",
        "less": "lt",
        "less_equal": "le",
        "matrix_transpose moveaxis permute permute_dims rollaxis swapaxes": "transpose",
        "matvec vdot vecmat": "dot",
        "negative": "neg",
        "randn": "rng_normal",
        "not_equal": "ne",
        "pbroadcast": "collective_broadcast",
        "precv": "recv_with_token",
        "psend": "send_with_token",
        "ppermute pshuffle": "collective_permute",
        "psum_scatter": "reduce_scatter",
        "pswapaxes": "all_to_all",
        "ragged_dot_general": "ragged_dot",
        "rand": "rng_uniform",
        "shape_as_value": "get_dimension_size",
        "sharding_constraint with_sharding_constraint": "with_sharding",
        "solve_triangular": "triangular_solve",
        "sort_key_val": "sort",
        "true_divide": "div",
        "where": "select",
    }
)
"""The op with the meaning of each name; the message shows its parameters."""

LIBRARY: Final = by_name(
    {
        "amax reduce_max": "max",
        "amin reduce_min": "min",
        "argpartition": "argsort",
        "average": "mean",
        "batch_matmul": "batch_dot",
        "betainc": "regularized_incomplete_beta",
        "cho_solve": "cholesky_solve",
        "cumulative_prod": "cumprod",
        "cumulative_sum": "cumsum",
        "diag diagonal": "get_matrix_diagonal",
        "empty": "zeros",
        "empty_like": "zeros_like",
        "expand": "broadcast_to",
        "fori_loop": "for_each_index",
        "geqrf": "qr_decomposition",
        "householder_product orgqr": "product_of_elementary_householder_reflectors",
        "identity": "eye",
        "inverse": "inv",
        "lu_decomposition lu_factor": "lu",
        "matrix_norm vector_norm": "norm",
        "prng_key": "random_key",
        "qr_explicit": "qr",
        "reduce_and": "all",
        "reduce_or": "any",
        "reduce_prod": "prod",
        "reduce_sum": "sum",
        "self_adjoint_eig": "eigh",
        "shuffle": "permutation",
        "tridiagonal_solve": "tridiagonal_solver",
        "tril": "lower_triangle",
        "triu": "upper_triangle",
        "unsqueeze": "expand_dims",
    }
)
"""The function of `builder.lib` with the meaning of each name."""

_TYPE = "x.shape.element_type"
_FILLED = "xb.broadcast(b.constant({}, element_type), sizes)"
_SUM = "xb.reduce({}, 0, xb.add, dimensions)"
_SCATTER = "xb.scatter(operands, scatter_indices, updates, {}, dimension_numbers)"
_SOFTPLUS = "xb.log1p(xb.exp(-xb.abs(x)))"

_NO_OP = "i0 unique"

EXPRESSIONS: Final = by_name(
    {
        # Elementwise.
        "angle": "xb.atan2(xb.imag(x), xb.real(x))",
        "deg2rad radians": "x * (math.pi / 180)",
        "degrees rad2deg": "x * (180 / math.pi)",
        "exp2": "xb.pow(2, x)",
        "fix trunc": "xb.select(x < 0, xb.ceil(x), xb.floor(x))",
        "floor_divide": "xb.floor(x / y)",
        "fmax": "xb.max(x, y)  # NaN if either is",
        "fmin": "xb.min(x, y)  # NaN if either is",
        "hypot": "xb.sqrt(x * x + y * y)",
        "log10": "xb.log(x) / math.log(10)",
        "log2": "xb.log(x) / math.log(2)",
        "logaddexp": "xb.max(x, y) + xb.log1p(xb.exp(-xb.abs(x - y)))",
        "mod": "xb.rem(x, y)  # has the sign of x",
        "nan_to_num": "xb.select(xb.ne(x, x), 0, x)  # infinities remain",
        "one_minus_square": "1 - xb.square(x)",
        "positive": "+x",
        "select_n": "xb.select(pred, on_true, on_false)  # select_n has on_false first",
        _NO_OP: "xb.python_call(function, operands, shape)  # XLA has no op for it",
        "signbit": "xb.lt(xb.bitcast_convert_type(x, xb.s32), 0)  # for f32",
        # Activation functions.
        "celu elu": "xb.select(x > 0, x, xb.expm1(x))",
        "hard_sigmoid": "xb.clamp(0, x + 3, 6) / 6",
        "hard_silu hard_swish": "x * xb.clamp(0, x + 3, 6) / 6",
        "hard_tanh": "xb.clamp(-1, x, 1)",
        "leaky_relu": "xb.select(x >= 0, x, 0.01 * x)",
        "log_sigmoid": f"xb.min(x, 0) - {_SOFTPLUS}",
        "mish": f"x * xb.tanh(xb.max(x, 0) + {_SOFTPLUS})",
        "relu": "xb.max(x, 0)",
        "relu6": "xb.clamp(0, x, 6)",
        "silu swish": "x * xb.logistic(x)",
        "soft_sign": "x / (1 + xb.abs(x))",
        "softplus": f"xb.max(x, 0) + {_SOFTPLUS}",
        # Reductions and sorting.
        "approx_min_k": "xb.top_k(x, k, largest=False)",
        "associative_scan": "xb.scan(x, init, lambda item, last: "
        "(computation(item, last), computation(item, last)), dimension)[0]",
        "count_nonzero": _SUM.format("xb.convert_element_type(xb.ne(x, 0), xb.s32)"),
        "partition": "xb.top_k(x, k, largest=False)[0]  # along the last dimension",
        "ptp": f"xb.reduce_all(x, {_TYPE}.min, xb.max) - xb.reduce_all(x, {_TYPE}.max, xb.min)",
        "reduce_xor": "xb.reduce(x, 0, xb.xor, dimensions)",
        "trace": "lib.sum(lib.get_matrix_diagonal(x))  # from builder import lib",
        # Products of arrays.
        "inner": "xb.dot_general(x, y, (([1], [1]), ([], [])))  # for matrices",
        "matmul": "xb.dot(lhs, rhs) or xb.dot_general(lhs, rhs, dimension_numbers)",
        "outer": "xb.dot_general(x, y, (([], []), ([], [])))",
        # New arrays.
        "arange broadcasted_iota dynamic_iota": "b.iota(shape, iota_dimension)",
        "array asarray constant_r0 constant_r1 full_from constant_from_literal": (
            "b.constant(value, element_type)"
        ),
        "full": _FILLED.format("value"),
        "ones": _FILLED.format("1"),
        "ones_like": "lib.full_like(x, 1)  # from builder import lib",
        # Parts and order of the elements.
        "index_in_dim": "x[1:2]",
        "scatter_add scatter_apply": _SCATTER.format("xb.add"),
        "scatter_max": _SCATTER.format("xb.max"),
        "scatter_min": _SCATTER.format("xb.min"),
        "scatter_mul": _SCATTER.format("xb.mul"),
        "scatter_sub": _SCATTER.format("xb.sub"),
        # Control flow.
        "case switch": "xb.conditional(branch_index, branch_computations, branch_operands)",
        "cond conditional if": "xb.conditional(pred, true_operand, true_computation, "
        "false_operand, false_computation)",
        "while_loop": "xb.while_(condition, body, init)",
        # Devices.
        "axis_index": "b.replica_id() or b.partition_id()",
        "collective_reduce psum": "xb.all_reduce(x, xb.add)",
        "pmax": "xb.all_reduce(x, xb.max)",
        "pmean": "xb.all_reduce(x, xb.add) / count",
        "pmin": "xb.all_reduce(x, xb.min)",
        # Shapes, types and numbers.
        "broadcast_shapes": "np.broadcast_shapes(sizes, sizes)",
        "conv_dimension_numbers": "xb.ConvolutionDimensionNumbers",
        "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple": (
            "xb.shape_inference.contraction.conv_general_dilated"
        ),
        "dtype": _TYPE,
        "get_shape shape_of": "x.shape",
        "inf": "math.inf",
        "make_shape shape_dtype_struct shaped_array": "xb.array_shape(element_type, dimensions)",
        "make_tuple_shape": "xb.tuple_shape(shapes)",
        "named_sharding partition_spec": "xb.MeshSharding(mesh, axes)",
        "nan": "math.nan",
        "ndim": "x.shape.rank",
        "pi": "math.pi",
        "reduce_window_shape_tuple": "xb.shape_inference.reduction.reduce_window",
        "size": "x.shape.element_count",
    }
)
"""The expression to write for each name of a function."""

ABSENT: Final = by_name(
    {
        "custom_linear_solve custom_root stop_gradient": (
            "xb.custom_gradient defines the derivative of a computation"
        ),
    }
)
"""The reason why there is nothing to write for a name."""

LOWERING: Final = by_name(
    {
        "ArgumentError Comparison CompileError DeviceError Difference Executable ExecutionError "
        "Interpretation JitCacheInfo JittedFunction LoweringError Memory ModuleFileError "
        "PartitionedExecutable Profile ReplicatedExecutable StablehloModule Topology "
        "UnloadedExecutable VersionError apply clear_transfers compare compile device device_put "
        "devices edit_jax ffi from_hlo from_jax grad gradients infeed interpret jit load "
        "load_bytes load_executable lower register_custom_call_target show_progress "
        "to_computation to_hlo_proto to_jax topology transfer_from_outfeed transfer_to_infeed "
        "use_compilation_cache value_and_grad vmap xla_client": "lowering.{}",
        "evaluate execute run": "lowering.compile(computation)",
        "export to_stablehlo": "lowering.lower(computation)",
        "device_count local_device_count": "len(lowering.devices())",
        "local_devices": "lowering.devices()",
        "custom_jvp custom_vjp": "xb.custom_gradient(computation, backward)",
        "make_jaxpr": "computation.table()",
        "hessian jacfwd jacobian jacrev jvp linearize vjp": (
            "lowering.to_jax(computation)  # jax's transformations apply to it"
        ),
        "save": "lowering.lower(computation).save(path)",
        "pmap": "lowering.jit",
        "vectorize": "lowering.vmap",
    }
)
"""The names of `lowering`, and the expressions to write for other names; "{}" is the name."""
