"""Damage files: truncate them, flip bits, move parts, or edit text.

The result depends on the random generator only, so that a seed reproduces an input.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final

from lowering.jaxlib_api.mlir import BYTECODE_MAGIC

__all__ = ["mutated", "truncated"]

_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!^][\w.$-]+|[A-Za-z_][\w.]*|\d+|->|\s+|.')
_TENSOR: Final = re.compile(r"tensor<[^<>]*(?:<[^<>]*>)?[^<>]*>")
_NUMBER: Final = re.compile(r"(?<![\w%@#])-?\d+(?![\w.])")
_ATTRIBUTE: Final = re.compile(r"\b\w{1,40} ?= ?(?:\[[^\]\n]*\]|[\w.]+)")

_NUMBERS: Final = (
    "-9223372036854775808",
    "-1",
    "0",
    "1",
    "2",
    "3",
    "7",
    "1000000",
    "2147483648",
    "99999999999",
    "4611686018427387904",
    "9223372036854775807",
    "18446744073709551616",
    "1e999",
)
_ELEMENTS: Final = (
    *("i1", "i4", "i8", "i32", "i64", "ui2", "ui8", "ui64", "f16", "bf16", "f32", "f64", "index"),
    *("f8E4M3FN", "f8E8M0FNU", "f4E2M1FN", "complex<f32>", "complex<f64>", "i7", "tf32", "none"),
    "!quant.uniform<i8:f32, 1.0>",
)
_TYPES: Final = (
    *("tensor<f32>", "tensor<0xf32>", "tensor<?xf32>", "tensor<*xf32>", "tensor<2x0x3xi32>"),
    *("tensor<99999999999xf32>", "tensor<3037000500x3037000500xf32>", "tensor<1x1x1x1x1x1xf32>"),
    *("tensor<?xf32, #stablehlo.bounds<4>>", "tensor<2xf32, #stablehlo.bounds<4>>"),
    *("!stablehlo.token", "tuple<>", "tuple<tensor<f32>, tuple<tensor<i1>>>", "memref<2xf32>"),
    *("vector<2xf32>", "f32", "index", "none", "() -> ()", "complex<tensor<f32>>", "!foo.bar"),
    *("tensor<2xf32, #stablehlo.type_extensions<bounds = [?]>>", "tensor<2xf32, 5 : i32>"),
)


def truncated(data: bytes) -> list[bytes]:
    """Return all prefixes of a file."""
    return [data[:length] for length in range(len(data))]


def mutated(draw: random.Random, files: Sequence[bytes]) -> bytes:
    """Return one of these files, damaged at one or more positions."""
    data = draw.choice(files)
    for _ in range(draw.choice((1, 1, 1, 1, 1, 1, 2, 4))):
        if data.startswith(BYTECODE_MAGIC):
            change = draw.choice(_OF_BYTECODE)
        else:
            # Edited text reaches more of the library than damaged bytes.
            change = draw.choice(_OF_TEXT if draw.random() < 0.92 else _OF_BYTES)
        data = change(draw, data, files)
    return data


Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def _span(draw: random.Random, length: int, most: int = 64) -> tuple[int, int]:
    begin = draw.randrange(length + 1)
    return begin, min(length, begin + draw.randint(1, most))


# Bytes


def _cut(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _flip(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8)) if data else 0):
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _set(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    begin, end = _span(draw, len(data), 4)
    return (
        data[:begin] + draw.choice((b"\0", b"\x01", b"\xff", b"\x7f")) * (end - begin) + data[end:]
    )


def _insert(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    begin = draw.randrange(len(data) + 1)
    return data[:begin] + draw.randbytes(draw.choice((1, 1, 2, 9))) + data[begin:]


def _delete(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    begin, end = _span(draw, len(data))
    return data[:begin] + data[end:]


def _duplicate(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    begin, end = _span(draw, len(data), 256)
    return data[:end] + data[begin:end] * draw.choice((1, 1, 3)) + data[end:]


def _swap(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    a, b, c, d = sorted(draw.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _splice(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    other = draw.choice(files)
    return data[: draw.randrange(len(data) + 1)] + other[draw.randrange(len(other) + 1) :]


# Bytecode: changes that preserve the sizes of sections pass the first checks.


def _number(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    """Replace numbers of one byte."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        places = [draw.randrange(len(data)) for _ in range(20)] if data else []
        for place in places:
            if changed[place] & 1:
                number = (changed[place] >> 1) + draw.choice((-2, -1, 1, 2, draw.randrange(128)))
                changed[place] = (number % 128) << 1 | 1
                break
    return bytes(changed)


def _transplant(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    """Overwrite bytes with bytes from another position or file."""
    begin, end = _span(draw, len(data), 12)
    other = draw.choice((data, draw.choice(files)))
    start = draw.randrange(len(other) + 1)
    piece = other[start : start + end - begin]
    return data[:begin] + piece + data[begin + len(piece) :]


# Text


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _tokens(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    """Delete, repeat, exchange or replace tokens."""
    tokens = _TOKEN.findall(_decoded(data))
    if not tokens:
        return data
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(len(tokens))
        match draw.randrange(5):
            case 0:
                tokens[at] = ""
            case 1:
                tokens[at] *= 2
            case 2:
                other = draw.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case _:
                candidates = _TOKEN.findall(_decoded(draw.choice(files)[:20000])) or [""]
                same_kind = [
                    token for token in candidates if token[:1].isalpha() == tokens[at][:1].isalpha()
                ]
                tokens[at] = draw.choice(same_kind or candidates)
    return "".join(tokens).encode()


def _replaced(
    draw: random.Random, data: bytes, pattern: re.Pattern[str], replacement: str
) -> bytes:
    """Replace one match, or all equal ones, which may result in a valid program."""
    text = _decoded(data)
    matches = list(pattern.finditer(text))
    if not matches:
        return data
    match = draw.choice(matches)
    if draw.random() < 0.6:
        return text.replace(match[0], replacement).encode()
    return (text[: match.start()] + replacement + text[match.end() :]).encode()


def _type(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    used = _TENSOR.findall(_decoded(data)[:20000])
    pool = used if used and draw.random() < 0.5 else _TYPES
    return _replaced(draw, data, _TENSOR, draw.choice(pool))


_ELEMENT: Final = re.compile(r"\b(?:u?i\d+|b?f\d+\w*|complex<f\d+>)\b")
_OPERATION: Final = re.compile(r"\b(?:stablehlo|chlo|func|mhlo|sdy)\.\w+")
_NAME: Final = re.compile(r"[%@#!^][\w.$-]+")
_WORD: Final = re.compile(r"\b[a-z_]{3,}\b|\b[A-Z]{2,}\b")
_SIZES: Final = re.compile(r"(?<=<)\d+(?=x)|(?<=x)\d+(?=x)")


def _element(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    return _replaced(draw, data, _ELEMENT, draw.choice(_ELEMENTS))


def _size(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    return _replaced(draw, data, _SIZES, draw.choice((*_NUMBERS[2:-2], "?", "4", "5")))


def _integer(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    return _replaced(draw, data, _NUMBER, draw.choice(_NUMBERS))


def _from_another(pattern: re.Pattern[str]) -> Mutation:
    """Return a mutation that replaces a match by a match from another file."""

    def change(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
        matches = pattern.findall(_decoded(draw.choice((data, draw.choice(files)))[:20000]))
        return _replaced(draw, data, pattern, draw.choice(matches)) if matches else data

    return change


def _lines(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case _:
            lines.insert(at, draw.choice(draw.choice(files).splitlines(keepends=True) or [b""]))
    return b"".join(lines)


_OF_MODULES: Final = (
    *("mhlo.num_partitions", "mhlo.num_replicas", "mhlo.spmd_output_sharding"),
    *("mhlo.spmd_parameters_shardings", "mhlo.cross_program_prefetches", "mhlo.is_dynamic"),
    *("mhlo.use_auto_spmd_partitioning", "mhlo.input_output_alias", "mhlo.frontend_attributes"),
    *("mhlo.xla_entry_computation_parameter_layouts", "mhlo.xla_entry_computation_result_layout"),
    *("mhlo.xla_entry_computation_parameter_tiles", "mhlo.xla_entry_computation_result_tiles"),
    *("jax.uses_shape_polymorphism", "sdy.x", "stablehlo.x", "tf.versions"),
)
_OF_ARGUMENTS: Final = (
    *("tf.aliasing_output", "tf.aliasing_output", "jax.buffer_donor", "mhlo.sharding"),
    *("mhlo.layout_mode", "mhlo.memory_kind", "mhlo.frontend_attributes", "sdy.sharding"),
    *("mhlo.parameter_replication", "jax.result_info", "jax.global_constant", "xlabuilder.name"),
)
_OF_FUNCTIONS: Final = (
    *("res_attrs", "execution_thread", "mhlo.frontend_attributes"),
    *("xlabuilder.parameters", "xlabuilder.result", "xlabuilder.parameter_names", "xla.x"),
)
_ALIAS: Final = (
    '[{alias = {kind = "may_alias", parameter_index = array<i64>, parameter_number = 0 : i64}, '
    "output_index = array<i64>}]"
)
_VALUES: Final = (
    *("unit", "true", "-1 : i32", "0 : i32", "1 : i64", "9223372036854775807 : i64", "1.5 : f32"),
    *('""', '"a"', '"default"', '"auto"', '"{0}"', '"{1,0}"', '"{0:T(2)}"', '"device"'),
    *(
        '"pinned_host"',
        '"{replicated}"',
        '"{manual}"',
        '"{devices=[2]0,1}"',
        '"{maximal device=9}"',
    ),
    *("[]", "[1]", '["a"]', "[true]", "[{}]", "{}", '{a = "b"}', "{a = 1 : i32}", "@main"),
    *("tensor<2xf32>", "dense<1> : tensor<2xi64>", "dense<[]> : tensor<0xi64>", "array<i64: 1>"),
    *('{xla.sdy.sharding = "x"}', '{xla.sdy.meshes = "{}"}', "#sdy.sharding<@mesh, [{}]>"),
    *('["f32[2]"]', '"f32[2]"', '"()"', '["x"]', "[dense<0> : tensor<1xindex>]"),
    _ALIAS,
)
_PLACES: Final = (
    (re.compile(r"(?<=^module )(?:@\w+ )?(?=\{)|\A(?=func)"), _OF_MODULES, ""),
    (
        re.compile(r"(?<=[(,] )?%\w+: (?:tensor<[^<>]*>|!stablehlo\.token)(?=[,)])"),
        _OF_ARGUMENTS,
        "",
    ),
    (re.compile(r"(?<=-> \()(?:tensor<[^<>]*>)|(?<=-> )tensor<[^<>]*>(?= \{)"), _OF_ARGUMENTS, ""),
    (re.compile(r"(?<=[)>]) (?=\{\n)"), _OF_FUNCTIONS, "attributes "),
)


def _entry(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    """Add attributes to the module, to an argument, to a result, or to a function."""
    text = _decoded(data)
    pattern, names, keyword = draw.choice(_PLACES)
    matches = list(pattern.finditer(text))
    if not matches:
        return data
    match = draw.choice(matches)
    chosen = dict.fromkeys(draw.choice(names) for _ in range(draw.choice((1, 1, 2))))
    entries = [(name, draw.choice(_VALUES)) for name in chosen]
    listed = ", ".join(name if value == "unit" else f"{name} = {value}" for name, value in entries)
    added = f"{match[0]} {keyword}{{{listed}}} "
    if names is _OF_MODULES:
        added = f"module {match[0]} attributes {{{listed}}} "
        if match.start() == match.end() == 0:  # only functions: a module around them
            return f"{added}{{\n{text}\n}}".encode()
        added = added.removeprefix("module ")
    if names is _OF_ARGUMENTS and text[match.start() - 3 : match.start()] == "-> ":
        added = f"({added})"
    return f"{text[: match.start()]}{added}{text[match.end() :]}".encode()


def _brackets(draw: random.Random, data: bytes, files: Sequence[bytes]) -> bytes:
    at = draw.randrange(len(data) + 1)
    added = draw.choice((b"{", b"}", b"(", b")", b"<", b">", b"[", b"]", b'"', b"^bb0:", b"//"))
    return data[:at] + added * draw.choice((1, 1, 2, 5000)) + data[at:]


_OF_BYTES: Final = (_cut, _flip, _flip, _set, _insert, _delete, _duplicate, _swap, _splice)
_OF_BYTECODE: Final = (
    *(_cut, _flip, _flip, _flip, _set, _insert, _delete, _duplicate, _swap, _splice),
    *(_number, _number, _number, _number, _transplant, _transplant, _transplant),
)
_OF_TEXT: Final = (
    *(_tokens, _type, _type, _element, _element, _size, _size, _integer, _integer, _integer),
    *(_from_another(_OPERATION), _from_another(_OPERATION), _from_another(_NAME)),
    *(_from_another(_ATTRIBUTE), _from_another(_ATTRIBUTE), _from_another(_WORD)),
    *(_lines, _brackets, _splice, _entry, _entry, _entry, _entry),
)
