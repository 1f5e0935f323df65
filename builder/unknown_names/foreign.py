"""What to write for the names of jax, NumPy, StableHLO and C++ that `builder` does not have.

Names that differ only in case and underscores, opcodes, and the names that schemas contain need no
entry here: `builder.unknown_names` derives them.

A text is a Python expression, or several separated by " or ", possibly with a comment at the end.
Tests record these expressions and compare many of them with jax. `x` and `y` are arrays, `pred` is
an array of preds, and `b` is the builder; other variables have the names of parameters of ops.
"""

from __future__ import annotations

from typing import Final

from builder.types.primitive_type import Kind


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: text for names, text in table.items() for name in names.split()}


RENAMED: Final = _by_name(
    {
        "absolute fabs": "abs",
        "append block column_stack concat dstack hstack stack vstack": "concatenate",
        "approx_max_k topk": "top_k",
        "arccos": "acos",
        "arccosh": "acosh",
        "arcsin": "asin",
        "arcsinh": "asinh",
        "arctan": "atan",
        "arctan2": "atan2",
        "arctanh": "atanh",
        "around rint round_even": "round_nearest_even",
        "array_split dsplit hsplit split unstack vsplit": "slice",
        "astype cast": "convert_element_type",
        "batch_matmul einsum tensordot vecdot": "dot_general",
        "bit_count bitwise_count": "population_count",
        "bitcast view": "bitcast_convert_type",
        "bitwise_and logical_and": "and_",
        "bitwise_invert bitwise_not invert logical_not": "not_",
        "bitwise_left_shift left_shift": "shift_left",
        "bitwise_or logical_or": "or_",
        "bitwise_right_shift right_shift": "shift_right_arithmetic",
        "bitwise_xor logical_xor": "xor",
        "broadcast_arrays broadcast_like broadcast_to expand": "broadcast_in_dim",
        "broadcast_to_rank expand_dims resize squeeze unsqueeze": "reshape",
        "clip": "clamp",
        "collapse_shape flatten ravel": "collapse",
        "conjugate": "conj",
        "conv_transpose convolve correlate dynamic_conv": "conv_general_dilated",
        "dynamic_gather index_take take take_along_axis torch_index_select": "gather",
        "dynamic_index_in_dim dynamic_slice_in_dim real_dynamic_slice": "dynamic_slice",
        "dynamic_pad": "pad",
        "dynamic_update_index_in_dim dynamic_update_slice_in_dim": "dynamic_update_slice",
        "equal": "eq",
        "expit sigmoid": "logistic",
        "custom_call_with_computation custom_call_with_computation_and_layouts "
        "custom_call_with_layout ffi_call": "custom_call",
        "flip fliplr flipud": "rev",
        "float_power integer_pow": "pow",
        "fmod": "rem",
        "greater": "gt",
        "greater_equal": "ge",
        "index_in_dim": "slice_in_dim",
        "io_callback pure_callback": "python_call",
        "less": "lt",
        "less_equal": "le",
        "matrix_transpose moveaxis permute permute_dims rollaxis swapaxes": "transpose",
        "matvec vdot vecmat": "dot",
        "negative": "neg",
        "normal randn": "rng_normal",
        "not_equal": "ne",
        "pbroadcast": "collective_broadcast",
        "precv": "recv_with_token",
        "psend": "send_with_token",
        "ppermute pshuffle": "collective_permute",
        "psum_scatter": "reduce_scatter",
        "pswapaxes": "all_to_all",
        "ragged_dot_general": "ragged_dot",
        "rand uniform": "rng_uniform",
        "shape_as_value": "get_dimension_size",
        "sharding_constraint with_sharding_constraint": "with_sharding",
        "solve_triangular": "triangular_solve",
        "sort_key_val": "sort",
        "true_divide": "div",
        "where": "select",
    }
)
"""The op with the meaning of each name; the message shows its parameters."""

_TYPE = "x.shape.element_type"
_SCAN = "xb.scan(x, init, lambda item, last: ({0}, {0}), dimension)[0]"
_FILLED = "xb.broadcast(b.constant({}, element_type), sizes)"
_LIKE = "xb.broadcast(b.constant({}, x.shape.element_type), x.shape.dimensions)"
_SUM = "xb.reduce({}, 0, xb.add, dimensions)"
_SCATTER = "xb.scatter(operands, scatter_indices, updates, {}, dimension_numbers)"
_SOFTPLUS = "xb.log1p(xb.exp(-xb.abs(x)))"
_ONE_OF_LAST = "xb.top_k(x, 1{})[1]  # along the last dimension"
_TRIANGLE = "xb.select(xb.{}(b.iota(shape, 0), b.iota(shape, 1)), x, 0)"

_NO_OP = (
    "bessel_i0e bessel_i1e betainc digamma erf_inv i0 igamma igamma_grad_a igammac lgamma "
    "next_after polygamma random_gamma_grad unique zeta"
)

EXPRESSIONS: Final = _by_name(
    {
        # Elementwise.
        "angle": "xb.atan2(xb.imag(x), xb.real(x))",
        "deg2rad radians": "x * (math.pi / 180)",
        "degrees rad2deg": "x * (180 / math.pi)",
        "erfc": "1 - xb.erf(x)",
        "exp2": "xb.pow(2, x)",
        "fix trunc": "xb.select(x < 0, xb.ceil(x), xb.floor(x))",
        "floor_divide": "xb.floor(x / y)",
        "fmax": "xb.max(x, y)  # NaN if either is",
        "fmin": "xb.min(x, y)  # NaN if either is",
        "hypot": "xb.sqrt(x * x + y * y)",
        "is_inf": "xb.eq(xb.abs(x), math.inf)",
        "is_neg_inf": "xb.eq(x, -math.inf)",
        "is_pos_inf": "xb.eq(x, math.inf)",
        "isnan": "xb.ne(x, x)",
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
        "gelu": "0.5 * x * (1 + xb.erf(x / math.sqrt(2)))",
        "hard_sigmoid": "xb.clamp(0, x + 3, 6) / 6",
        "hard_silu hard_swish": "x * xb.clamp(0, x + 3, 6) / 6",
        "hard_tanh": "xb.clamp(-1, x, 1)",
        "leaky_relu": "xb.select(x >= 0, x, 0.01 * x)",
        "log_sigmoid": f"xb.min(x, 0) - {_SOFTPLUS}",
        "log_softmax": f"xb.sub(x, xb.log({_SUM.format('xb.exp(x)')}), kept)  # kept: the others",
        "mish": f"x * xb.tanh(xb.max(x, 0) + {_SOFTPLUS})",
        "relu": "xb.max(x, 0)",
        "relu6": "xb.clamp(0, x, 6)",
        "silu swish": "x * xb.logistic(x)",
        "soft_sign": "x / (1 + xb.abs(x))",
        "softmax": f"xb.div(xb.exp(x), {_SUM.format('xb.exp(x)')}, kept)  # kept: the others",
        "softplus": f"xb.max(x, 0) + {_SOFTPLUS}",
        # Reductions and sorting.
        "all reduce_and": "xb.reduce(pred, True, xb.and_, dimensions)",
        "amax reduce_max": f"xb.reduce(x, {_TYPE}.min, xb.max, dimensions)",
        "amin reduce_min": f"xb.reduce(x, {_TYPE}.max, xb.min, dimensions)",
        "any reduce_or": "xb.reduce(pred, False, xb.or_, dimensions)",
        "approx_min_k": "xb.top_k(x, k, largest=False)",
        "argmax": _ONE_OF_LAST.format(""),
        "argmin": _ONE_OF_LAST.format(", largest=False"),
        "argpartition argsort": "xb.top_k(x, k, largest=False)[1]  # along the last dimension",
        "associative_scan": _SCAN.format("computation(item, last)"),
        "average mean": f"{_SUM.format('x')} / count",
        "count_nonzero": _SUM.format("xb.convert_element_type(xb.ne(x, 0), xb.s32)"),
        "cummax": _SCAN.format("xb.max(item, last)"),
        "cummin": _SCAN.format("xb.min(item, last)"),
        "cumprod cumulative_prod": _SCAN.format("item * last"),
        "cumsum cumulative_sum": _SCAN.format("item + last"),
        "logsumexp": f"xb.log({_SUM.format('xb.exp(x)')})",
        "norm": f"xb.sqrt({_SUM.format('xb.square(x)')})",
        "partition": "xb.top_k(x, k, largest=False)[0]  # along the last dimension",
        "prod reduce_prod": "xb.reduce(x, 1, xb.mul, dimensions)",
        "ptp": f"xb.reduce_all(x, {_TYPE}.min, xb.max) - xb.reduce_all(x, {_TYPE}.max, xb.min)",
        "reduce_sum sum": _SUM.format("x"),
        "reduce_xor": "xb.reduce(x, 0, xb.xor, dimensions)",
        "std": f"xb.sqrt({_SUM.format('xb.square(x - mean)')} / count)",
        "trace": f"{_TRIANGLE.format('eq')}  # and the sum of this",
        "var": f"{_SUM.format('xb.square(x - mean)')} / count",
        # Products of arrays.
        "inner": "xb.dot_general(x, y, (([1], [1]), ([], [])))  # for matrices",
        "matmul": "xb.dot(lhs, rhs) or xb.dot_general(lhs, rhs, dimension_numbers)",
        "outer": "xb.dot_general(x, y, (([], []), ([], [])))",
        # New arrays.
        "arange broadcasted_iota dynamic_iota linspace": "b.iota(shape, iota_dimension)",
        "array asarray constant_r0 constant_r1 full_from constant_from_literal scalar_like": (
            "b.constant(value, element_type)"
        ),
        "empty zeros": _FILLED.format("0"),
        "empty_like zeros_like": _LIKE.format("0"),
        "eye identity": "xb.eq(b.iota(shape, 0), b.iota(shape, 1))",
        "full": _FILLED.format("value"),
        "full_like": _LIKE.format("value"),
        "one_hot": "xb.eq(b.iota(shape, 1), indices, [0])",
        "ones": _FILLED.format("1"),
        "ones_like": _LIKE.format("1"),
        # Parts and order of the elements.
        "diag diagonal": _TRIANGLE.format("eq"),
        "repeat tile": "xb.collapse(xb.broadcast(x, [count]), [0, 1])  # tiles dimension 0",
        "scatter_add scatter_apply": _SCATTER.format("xb.add"),
        "scatter_max": _SCATTER.format("xb.max"),
        "scatter_min": _SCATTER.format("xb.min"),
        "scatter_mul": _SCATTER.format("xb.mul"),
        "scatter_sub": _SCATTER.format("xb.sub"),
        "tril": _TRIANGLE.format("ge"),
        "triu": _TRIANGLE.format("le"),
        # Control flow.
        "case switch": "xb.conditional(branch_index, branch_computations, branch_operands)",
        "cond conditional if": "xb.conditional(pred, true_operand, true_computation, "
        "false_operand, false_computation)",
        "fori_loop while_loop": "xb.while_(condition, body, init)",
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

ABSENT: Final = _by_name(
    {
        "custom_gradient custom_jvp custom_linear_solve custom_root custom_vjp grad hessian jacfwd "
        "jacobian jacrev jvp linearize stop_gradient value_and_grad vjp": (
            "xlabuilder does not compute derivatives"
        ),
        "vectorize vmap": "xlabuilder does not add batch dimensions; most ops accept them",
    }
)
"""The reason why there is nothing to write for a name."""

ATTRIBUTES: Final = _by_name(
    {
        "T mT": "xb.transpose(x, permutation)",
        "at": "xb.dynamic_update_slice(operand, update, start_indices) or "
        + _SCATTER.format("xb.add"),
        "block_until_ready item numpy tolist": "lowering.compile(computation)"
        "  # a call returns arrays with values",
        "itemsize": f"{_TYPE}.byte_width",
        "max": EXPRESSIONS["amax"],
        "min": EXPRESSIONS["amin"],
    }
)
"""The expression to write for attributes of arrays that mean something else than the function."""

ELEMENT_TYPES: Final = _by_name(
    {"double": "f64", "half": "f16", "i1 bool bool_": "pred", "single": "f32"}
)
"""Element types by names other than those of NumPy and of MLIR's integers."""

MLIR_SIGNS: Final = {Kind.SIGNED: ("i", "si"), Kind.UNSIGNED: ("ui",)}
"""The prefixes of MLIR's integer types; the number of bits follows."""

LOWERING: Final = _by_name(
    {
        "ArgumentError Comparison CompileError DeviceError Difference Executable ExecutionError "
        "Interpretation JitCacheInfo JittedFunction LoweringError Memory ModuleFileError "
        "PartitionedExecutable Profile ReplicatedExecutable StablehloModule Topology "
        "UnloadedExecutable VersionError clear_transfers compare compile device device_put devices "
        "ffi from_hlo infeed interpret jit load load_bytes load_executable lower "
        "register_custom_call_target show_progress to_computation topology transfer_from_outfeed "
        "transfer_to_infeed use_compilation_cache": "lowering.{}",
        "evaluate execute run": "lowering.compile(computation)",
        "export to_stablehlo": "lowering.lower(computation)",
        "device_count local_device_count": "len(lowering.devices())",
        "local_devices": "lowering.devices()",
        "make_jaxpr": "computation.table()",
        "pmap": "lowering.jit",
    }
)
"""The names of `lowering`, and the expressions to write for other names; "{}" is the name."""
