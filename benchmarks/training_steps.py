"""Models with their losses, written with xlabuilder and with jax: the same operations in both.

A model computes a loss from f32 weights and from data. `step_of_ours` and `step_of_jax` make a
training step of it: the loss, the gradients of all weights, and stochastic gradient descent with
momentum. In the first step the velocities are zero, so the new velocities are the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

import builder as xb
import lowering
from builder import lib

__all__ = [
    "FULL",
    "SMALL",
    "Convnet",
    "Llama",
    "Lstm",
    "Model",
    "Resnet18",
    "Values",
    "step_of_jax",
    "step_of_ours",
    "values_of",
]

MOMENTUM: Final = 0.9
RATE: Final = 0.01
EPSILON: Final = 1e-5

Values = Mapping[str, Any]
"""Ops, jax arrays or NumPy arrays by name."""


class Model(Protocol):
    """A loss.

    Attributes:
        title: the name of the model, with its types.
        tolerance: the largest error of a gradient: the norm of the difference from jax's gradient,
            divided by the norm of jax's gradient.
    """

    @property
    def title(self) -> str: ...
    @property
    def tolerance(self) -> float: ...
    def weights(self) -> dict[str, tuple[int, ...]]:
        """Return the sizes of each weight."""

    def data(self) -> dict[str, tuple[int, ...]]:
        """Return the sizes of each array of data."""

    def ours(self, weights: Values, data: Values) -> xb.XlaOp:
        """Record the loss."""

    def theirs(self, weights: Values, data: Values) -> jax.Array:
        """Compute the loss with jax."""


def _is_labels(name: str) -> bool:
    return name == "labels"


def values_of(model: Model) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return initial weights and data."""
    random = np.random.default_rng(0)
    weights, data = {}, {}
    for name, sizes in model.weights().items():
        # The offsets of normalizations are not zero, because maxima have no derivative at 0.
        scale = 1 / math.sqrt(math.prod(sizes[:-1])) if len(sizes) > 1 else 0.2
        mean = 1.0 if name.endswith("scale") else 0.0
        weights[name] = random.normal(mean, scale, sizes).astype(np.float32)
    for name, sizes in model.data().items():
        if _is_labels(name):
            classes = np.eye(sizes[-1], dtype=np.float32)
            data[name] = classes[random.integers(0, sizes[-1], sizes[:-1])]
        else:
            data[name] = random.normal(size=sizes).astype(np.float32)
    return weights, data


def shapes_of(sizes: Mapping[str, Sequence[int]]) -> dict[str, xb.ArrayShape]:
    return {name: xb.f32[tuple(dimensions)] for name, dimensions in sizes.items()}


def step_of_ours(model: Model) -> xb.XlaComputation:
    """Return the computation of (loss, weights, velocities) for (weights, velocities, data)."""
    b = xb.XlaBuilder("step")
    weights, velocities = (
        {name: b.parameter(shape) for name, shape in shapes_of(model.weights()).items()}
        for _ in range(2)
    )
    data = {name: b.parameter(shape) for name, shape in shapes_of(model.data()).items()}
    loss = model.ours(weights, data)
    gradients = lowering.gradients(loss, weights)
    new = {name: MOMENTUM * v + gradients[name] for name, v in velocities.items()}
    moved = [w - RATE * new[name] for name, w in weights.items()]
    return b.build(xb.tuple(loss, *moved, *new.values()))


def step_of_jax(model: Model) -> Callable[..., Any]:
    """Return the same as a function of the same arrays, for `jax.jit`."""
    names = list(model.weights())

    def step(*arrays: Any) -> Any:
        count = len(names)
        weights = dict(zip(names, arrays[:count], strict=True))
        velocities = dict(zip(names, arrays[count : 2 * count], strict=True))
        data = dict(zip(model.data(), arrays[2 * count :], strict=True))
        loss, gradients = jax.value_and_grad(model.theirs)(weights, data)
        new = {name: MOMENTUM * v + gradients[name] for name, v in velocities.items()}
        return [loss, *[w - RATE * new[name] for name, w in weights.items()], *new.values()]

    return step


def _type_of(dtype: str) -> Any:
    return {"f32": xb.f32, "bf16": xb.bf16}[dtype]


def _dtype_of(dtype: str) -> Any:
    return {"f32": np.float32, "bf16": ml_dtypes.bfloat16}[dtype]


def _as(x: xb.XlaOp, element_type: Any) -> xb.XlaOp:
    return xb.convert_element_type(x, element_type)


def _entropy_of_ours(logits: xb.XlaOp, labels: xb.XlaOp) -> xb.XlaOp:
    logits = _as(logits, xb.f32)
    return -lib.sum(labels * lib.log_softmax(logits, axis=-1)) / float(labels.shape.dimensions[0])


def _entropy_of_jax(logits: Any, labels: Any) -> Any:
    logits = logits.astype(jnp.float32)
    return -jnp.sum(labels * jax.nn.log_softmax(logits, axis=-1)) / labels.shape[0]


@dataclass(frozen=True)
class Llama:
    """Blocks with RMSNorm, rotary embedding, causal attention of grouped heads, and SwiGLU."""

    batch: int = 2
    sequence: int = 128
    width: int = 256
    heads: int = 8
    groups: int = 4
    inner: int = 688
    layers: int = 2
    compute: str = "f32"
    tolerance: float = 1e-5

    @property
    def title(self) -> str:
        return f"Llama block, {self.compute}"

    @property
    def head(self) -> int:
        return self.width // self.heads

    def weights(self) -> dict[str, tuple[int, ...]]:
        width, heads, groups, head = self.width, self.heads, self.groups, self.head
        block = {
            "attention_scale": (width,),
            "query": (width, heads * head),
            "key": (width, groups * head),
            "value": (width, groups * head),
            "output": (heads * head, width),
            "inner_scale": (width,),
            "gate": (width, self.inner),
            "up": (width, self.inner),
            "down": (self.inner, width),
        }
        return {f"{n}_{name}": sizes for n in range(self.layers) for name, sizes in block.items()}

    def data(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("x", "target"), (self.batch, self.sequence, self.width))

    def ours(self, weights: Values, data: Values) -> xb.XlaOp:
        kind = _type_of(self.compute)
        x, target = _as(data["x"], kind), data["target"]
        positions = x.builder.iota(xb.s32[self.sequence], 0)

        def heads(x: xb.XlaOp, count: int) -> xb.XlaOp:
            return xb.reshape(x, [self.batch, self.sequence, count, self.head])

        for n in range(self.layers):
            w = {name: _as(weights[f"{n}_{name}"], kind) for name in self._names()}
            normal = lib.rms_norm(x, w["attention_scale"])
            q = heads(lib.linear(normal, w["query"]), self.heads)
            k = heads(lib.linear(normal, w["key"]), self.groups)
            v = heads(lib.linear(normal, w["value"]), self.groups)
            q, k = (lib.rotary_embedding(each, positions) for each in (q, k))
            mixed = lib.dot_product_attention(q, k, v, is_causal=True)
            x = x + lib.linear(xb.collapse(mixed, [2, 3]), w["output"])
            normal = lib.rms_norm(x, w["inner_scale"])
            gate = lib.silu(lib.linear(normal, w["gate"]))
            x = x + lib.linear(gate * lib.linear(normal, w["up"]), w["down"])
        return lib.mean(xb.square(_as(x, xb.f32) - target))

    def _names(self) -> list[str]:
        return [name.partition("_")[2] for name in self.weights() if name.startswith("0_")]

    def theirs(self, weights: Values, data: Values) -> jax.Array:
        kind = _dtype_of(self.compute)
        x, target = data["x"].astype(kind), data["target"]

        def norm(x: Any, scale: Any) -> Any:
            wide = x.astype(np.float32)
            normal = wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)
            return (normal * scale.astype(np.float32)).astype(kind)

        def heads(x: Any, count: int) -> Any:
            return x.reshape(self.batch, self.sequence, count, self.head)

        def silu(x: Any) -> Any:
            wide = x.astype(np.float32)
            return (wide * jax.nn.sigmoid(wide)).astype(kind)

        for n in range(self.layers):
            w = {name: weights[f"{n}_{name}"].astype(kind) for name in self._names()}
            normal = norm(x, w["attention_scale"])
            q = heads(normal @ w["query"], self.heads)
            k = heads(normal @ w["key"], self.groups)
            v = heads(normal @ w["value"], self.groups)
            mixed = self._attention(self._rotated(q), self._rotated(k), v)
            x = x + mixed.reshape(self.batch, self.sequence, -1) @ w["output"]
            normal = norm(x, w["inner_scale"])
            x = x + (silu(normal @ w["gate"]) * (normal @ w["up"])) @ w["down"]
        return jnp.mean(jnp.square(x.astype(np.float32) - target))

    def _rotated(self, x: Any) -> Any:
        half = self.head // 2
        speeds = (10000.0 ** (-np.arange(half) / half)).astype(np.float32)
        positions = lax.iota(np.int32, self.sequence).astype(np.float32)
        angles = lax.dot_general(positions, speeds, (((), ()), ((), ())))
        cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
        first, second = jnp.split(x.astype(np.float32), 2, axis=-1)
        rotated = (first * cos - second * sin, second * cos + first * sin)
        return jnp.concatenate(rotated, -1).astype(x.dtype)

    def _attention(self, query: Any, key: Any, value: Any) -> Any:
        shared = self.heads // self.groups
        grouped = query.reshape(self.batch, self.sequence, self.groups, shared, self.head)
        logits = lax.dot_general(
            grouped, key, (((4,), (3,)), ((0, 2), (0, 2))), preferred_element_type=np.float32
        )  # batch, groups, positions, shared, positions of keys
        logits = logits / math.sqrt(self.head)
        order = [lax.broadcasted_iota(np.int32, logits.shape, n) for n in (4, 2)]
        logits = jnp.where(order[0] <= order[1], logits, -0.7 * np.finfo(np.float32).max)
        exponentials = jnp.exp(logits - lax.stop_gradient(logits.max(-1, keepdims=True)))
        sums = lax.dot_general(
            exponentials.astype(value.dtype),
            value,
            (((4,), (1,)), ((0, 1), (0, 2))),
            preferred_element_type=np.float32,
        )
        averages = (sums / exponentials.sum(-1, keepdims=True)).astype(value.dtype)
        return averages.transpose(0, 2, 1, 3, 4)


@dataclass(frozen=True)
class Resnet18:
    """ResNet-18 with basic blocks; either `xb.batch_norm_training`, or a normalization in f32.

    One of its millions of activations may be so near 0 that the rounding of one CPU makes its
    gradient 0: jax's gradients change by 0.4 % if the arguments change by 1e-7.
    """

    batch: int = 8
    image: int = 64
    width: int = 64
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    classes: int = 100
    compute: str = "f32"
    tolerance: float = 0.01

    @property
    def title(self) -> str:
        kind = "batch_norm_training" if self.compute == "f32" else "normalized by hand"
        return f"ResNet-18, {kind}, {self.compute}"

    def _blocks(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield the name, the stride, and the input and output features of each block."""
        inputs = self.width
        for stage, count in enumerate(self.blocks):
            for number in range(count):
                outputs = self.width * 2**stage
                yield f"{stage}_{number}", 2 if stage and not number else 1, inputs, outputs
                inputs = outputs

    def weights(self) -> dict[str, tuple[int, ...]]:
        kernels = {"stem": (7, 7, 3, self.width)}
        for name, stride, inputs, outputs in self._blocks():
            kernels[f"{name}_first"] = (3, 3, inputs, outputs)
            kernels[f"{name}_second"] = (3, 3, outputs, outputs)
            if stride > 1:
                kernels[f"{name}_shortcut"] = (1, 1, inputs, outputs)
        found: dict[str, tuple[int, ...]] = {}
        for name, sizes in kernels.items():
            found |= {name: sizes, f"{name}_scale": sizes[-1:], f"{name}_offset": sizes[-1:]}
        return found | {"logits": (sizes[-1], self.classes), "bias": (self.classes,)}

    def data(self) -> dict[str, tuple[int, ...]]:
        images = (self.batch, self.image, self.image, 3)
        return {"images": images, "labels": (self.batch, self.classes)}

    def _forward(
        self, images: Any, layer: Callable[..., Any], relu: Callable[..., Any], pool: Any
    ) -> Any:
        x = pool(relu(layer(images, "stem", 2)))
        for name, stride, *_ in self._blocks():
            y = relu(layer(x, f"{name}_first", stride))
            y = layer(y, f"{name}_second", 1)
            x = relu(y + (layer(x, f"{name}_shortcut", stride) if stride > 1 else x))
        return x

    def ours(self, weights: Values, data: Values) -> xb.XlaOp:
        kind = _type_of(self.compute)

        def layer(x: xb.XlaOp, name: str, stride: int) -> xb.XlaOp:
            y = lib.conv(x, _as(weights[name], kind), stride)
            scale, offset = weights[f"{name}_scale"], weights[f"{name}_offset"]
            if self.compute == "f32":
                return xb.batch_norm_training(y, scale, offset, EPSILON, 3)[0]
            y = _as(y, xb.f32)
            centred = xb.sub(y, lib.mean(y, (0, 1, 2)), [3])
            factor = scale * xb.rsqrt(lib.mean(xb.square(centred), (0, 1, 2)) + EPSILON)
            return _as(xb.add(xb.mul(centred, factor, [3]), offset, [3]), kind)

        def pool(x: xb.XlaOp) -> xb.XlaOp:
            return lib.max_pool(x, [3, 3], [2, 2], "SAME", "NHWC")

        x = self._forward(_as(data["images"], kind), layer, lib.relu, pool)
        pooled = lib.mean(_as(x, xb.f32), (1, 2))
        logits = lib.linear(pooled, weights["logits"], weights["bias"])
        return _entropy_of_ours(logits, data["labels"])

    def theirs(self, weights: Values, data: Values) -> jax.Array:
        kind = _dtype_of(self.compute)

        def layer(x: Any, name: str, stride: int) -> Any:
            y = _conv_of_jax(x, weights[name].astype(kind), stride).astype(np.float32)
            centred = y - jnp.mean(y, (0, 1, 2))
            factor = weights[f"{name}_scale"] * lax.rsqrt(
                jnp.mean(jnp.square(centred), (0, 1, 2)) + EPSILON
            )
            return (centred * factor + weights[f"{name}_offset"]).astype(kind)

        def relu(x: Any) -> Any:
            return jnp.maximum(x, 0)

        def pool(x: Any) -> Any:
            window, strides = (1, 3, 3, 1), (1, 2, 2, 1)
            return lax.reduce_window(x, np.array(-np.inf, kind), lax.max, window, strides, "SAME")

        x = self._forward(data["images"].astype(kind), layer, relu, pool)
        pooled = jnp.mean(x.astype(np.float32), (1, 2))
        return _entropy_of_jax(pooled @ weights["logits"] + weights["bias"], data["labels"])


def _conv_of_jax(x: Any, kernel: Any, stride: int) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (stride,) * 2, "SAME", dimension_numbers=numbers)


@dataclass(frozen=True)
class Lstm:
    """An LSTM with a forget gate, and the squared error of all its outputs."""

    batch: int = 16
    sequence: int = 64
    inputs: int = 64
    hidden: int = 128
    tolerance: float = 1e-5
    title: str = "LSTM, scan, f32"

    def weights(self) -> dict[str, tuple[int, ...]]:
        gates = 4 * self.hidden
        return {
            "weights": (self.inputs, gates),
            "recurrent": (self.hidden, gates),
            "bias": (gates,),
            "readout": (self.hidden, self.inputs),
        }

    def data(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("x", "target"), (self.sequence, self.batch, self.inputs))

    def ours(self, weights: Values, data: Values) -> xb.XlaOp:
        def step(x: xb.XlaOp, state: xb.XlaOp, cell: xb.XlaOp) -> Any:
            gates = lib.linear(x, weights["weights"], weights["bias"])
            gates = gates + lib.linear(state, weights["recurrent"])
            input, forget, new, output = lib.split(gates, 4, axis=-1)
            cell = lib.sigmoid(forget) * cell + lib.sigmoid(input) * xb.tanh(new)
            state = lib.sigmoid(output) * xb.tanh(cell)
            return state, state, cell

        zeros = lib.zeros(data["x"].builder, xb.f32[self.batch, self.hidden])
        states = xb.scan(data["x"], [zeros, zeros], step, 0)[0]
        return lib.mean(xb.square(lib.linear(states, weights["readout"]) - data["target"]))

    def theirs(self, weights: Values, data: Values) -> jax.Array:
        def step(carry: Any, x: Any) -> Any:
            state, cell = carry
            gates = x @ weights["weights"] + weights["bias"] + state @ weights["recurrent"]
            input, forget, new, output = jnp.split(gates, 4, axis=-1)
            cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(input) * jnp.tanh(new)
            state = jax.nn.sigmoid(output) * jnp.tanh(cell)
            return (state, cell), state

        zeros = jnp.zeros((self.batch, self.hidden), np.float32)
        _, states = lax.scan(step, (zeros, zeros), data["x"])
        return jnp.mean(jnp.square(states @ weights["readout"] - data["target"]))


@dataclass(frozen=True)
class Convnet:
    """Convolutions with biases, each followed by silu, clamp and an average pool."""

    batch: int = 16
    image: int = 32
    features: Sequence[int] = field(default=(32, 64, 128))
    classes: int = 10
    tolerance: float = 1e-5
    title: str = "convolutions, silu, clamp, f32"

    def weights(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        inputs = 3
        for n, outputs in enumerate(self.features):
            found |= {f"{n}_kernel": (3, 3, inputs, outputs), f"{n}_bias": (outputs,)}
            inputs = outputs
        return found | {"logits": (inputs, self.classes)}

    def data(self) -> dict[str, tuple[int, ...]]:
        images = (self.batch, self.image, self.image, 3)
        return {"images": images, "labels": (self.batch, self.classes)}

    def ours(self, weights: Values, data: Values) -> xb.XlaOp:
        x = data["images"]
        for n in range(len(self.features)):
            y = xb.add(lib.conv(x, weights[f"{n}_kernel"]), weights[f"{n}_bias"], [3])
            y = xb.clamp(-0.1, lib.silu(y), 1.0)
            x = lib.avg_pool(y, [2, 2], [2, 2], "VALID", "NHWC", True)
        pooled = lib.mean(x, (1, 2))
        return _entropy_of_ours(lib.linear(pooled, weights["logits"]), data["labels"])

    def theirs(self, weights: Values, data: Values) -> jax.Array:
        x = data["images"]
        window = (1, 2, 2, 1)
        for n in range(len(self.features)):
            y = _conv_of_jax(x, weights[f"{n}_kernel"], 1) + weights[f"{n}_bias"]
            y = lax.clamp(-0.1, y * jax.nn.sigmoid(y), 1.0)
            x = lax.reduce_window(y, 0.0, lax.add, window, window, "VALID") / 4
        return _entropy_of_jax(jnp.mean(x, (1, 2)) @ weights["logits"], data["labels"])


FULL: Final[tuple[Model, ...]] = (
    Llama(),
    Llama(compute="bf16", tolerance=0.03),
    Resnet18(),
    Resnet18(compute="bf16", tolerance=0.1),
    Lstm(),
    Convnet(),
)
"""The models whose steps are measured."""

_LLAMA: Final = {"batch": 1, "sequence": 8, "width": 16, "heads": 4, "groups": 2, "inner": 24}
_RESNET: Final = {"batch": 4, "image": 32, "width": 4, "blocks": (1, 1), "classes": 5}

SMALL: Final[tuple[Model, ...]] = (
    Llama(**_LLAMA),
    Llama(**_LLAMA, compute="bf16", tolerance=0.03),
    Resnet18(**_RESNET, tolerance=1e-4),
    Resnet18(**_RESNET, compute="bf16", tolerance=0.1),
    Lstm(batch=2, sequence=5, inputs=3, hidden=4),
    Convnet(batch=2, image=8, features=(4, 8), classes=5),
)
"""The same models with small arrays, for tests."""
