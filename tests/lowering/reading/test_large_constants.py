"""Constants in all formats; reading takes at most three times their memory."""

import textwrap

import numpy as np
import pytest
from processes import run_python

import builder as xb
import lowering
from builder.types import primitive_type as pt
from lowering import ModuleFileError
from lowering.jaxlib_api import mlir
from lowering.reading import module_reader
from lowering.reading.bytecode_tables import sections_of, sizes_add_up

TYPES = [t for t in pt.ALL if t.is_array_element]

SIZES_OF_ATTRIBUTES = 3
"""The kind of the section with the attributes and types."""


def forms_of_any(module):
    """Return bytecode with a checksum and without."""
    return [module.bytecode, mlir.bytecode(module.module)]


def forms(module):
    """Return the same and a portable artifact, which has no attributes of other dialects."""
    return [*forms_of_any(module), module.artifact()]


def from_text(body, result="tensor<5xf32>"):
    text = f"module {{ func.func @main() -> {result} {{\n{body}\n}} }}"
    return lowering.load_bytes(text)


def check_same(module, datas=None):
    """Check that the module is preserved in all formats, or in the given ones."""
    for data in datas or forms(module):
        again = lowering.load_bytes(data)
        assert again.to_text(locations=True) == module.to_text(locations=True)
        assert mlir.bytecode(again.module) == mlir.bytecode(module.module)


def some(element_type, seed):
    drawn = np.random.default_rng(seed).integers(0, 2, (5, 7))
    return drawn.astype(element_type.dtype)


@pytest.mark.usefixtures("read_here")
def test_constants_of_all_types():
    b = xb.XlaBuilder("all")
    ops = []
    for element_type in TYPES:
        array = some(element_type, 1)
        ones = np.ones((5, 7), element_type.dtype)
        ops += map(b.constant, (array, array[::-1].copy(), ones, some(element_type, 2)))
    check_same(lowering.lower(b.build(xb.tuple(*ops))))


@pytest.mark.usefixtures("read_here")
def test_a_value_used_twice():
    module = from_text("""
      %0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
      %1 = stablehlo.constant {a = 5 : i32} dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
      %2 = stablehlo.constant dense<[(1., 2.), (3., 4.), (5., 6.)]> : tensor<3xcomplex<f32>>
      %3 = stablehlo.constant {b} dense<[(1., 2.), (3., 4.), (5., 6.)]> : tensor<3xcomplex<f32>>
      %4 = stablehlo.add %0, %1 : tensor<5xf32>
      return %4 : tensor<5xf32>""")
    check_same(module, forms_of_any(module))


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize(
    "body",
    [
        "%0 = stablehlo.custom_call @f() {a = VALUE} : () -> tensor<5xf32>",
        "%0 = stablehlo.custom_call @f() {a = [{b = VALUE}]} : () -> tensor<5xf32>",
        "%0 = stablehlo.constant {a = VALUE} VALUE",
        '%0 = stablehlo.constant VALUE loc(fused<VALUE>["x"])',
    ],
)
def test_elements_in_other_attributes(body):
    value = "dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>"
    module = from_text(f"{body.replace('VALUE', value)}\nreturn %0 : tensor<5xf32>")
    check_same(module, forms_of_any(module))


def test_more_sizes_than_attributes(monkeypatch):
    """MLIR would write beyond its table, so it is refused without a helper process."""
    monkeypatch.delattr(module_reader, "in_helper")
    b = xb.XlaBuilder("b")
    module = lowering.lower(b.build(b.parameter(xb.f32[2], "x") + 1.0))
    code = mlir.bytecode(module.module)
    assert sizes_add_up(code)
    sections = sections_of(lambda at, size: code[at : at + size], len(code))
    (begin,) = (one.begin for one in sections if one.kind == SIZES_OF_ATTRIBUTES)
    count = begin + 3  # after the numbers of attributes and types, and the first dialect
    damaged = code[:count] + bytes((127 << 1 | 1,)) + code[count + 1 :]
    with pytest.raises(
        ModuleFileError, match=f"its {len(code)} bytes of bytecode are inconsistent"
    ):
        lowering.load_bytes(damaged)


def test_sizes_beyond_the_attributes(monkeypatch):
    """Together they are larger than the section of attributes and types."""
    monkeypatch.delattr(module_reader, "in_helper")
    b = xb.XlaBuilder("b")
    module = lowering.lower(b.build(b.parameter(xb.f32[2], "x") + 1.0))
    code = mlir.bytecode(module.module)
    sections = sections_of(lambda at, size: code[at : at + size], len(code))
    (begin,) = (one.begin for one in sections if one.kind == SIZES_OF_ATTRIBUTES)
    first = begin + 4  # after the numbers of attributes and types, the first dialect and its count
    assert code[first] & 1  # a number of one byte
    for size, fits in ((0, True), (63, False)):
        flag = code[first] >> 1 & 1
        changed = code[:first] + bytes(((size << 1 | flag) << 1 | 1,)) + code[first + 1 :]
        assert sizes_add_up(changed) is fits
    with pytest.raises(ModuleFileError, match="bytes of bytecode are inconsistent"):
        lowering.load_bytes(changed)


READER = """
    import sys
    from pathlib import Path
    import numpy as np
    import lowering

    def kilobytes(word):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(word))

    lowering.to_computation(sys.argv[2])  # allocates the memory that reading itself needs
    before = kilobytes("VmRSS")
    computation = lowering.to_computation(sys.argv[1])
    print(kilobytes("VmHWM") - before)
    found = computation.root.attributes["value"].view(np.uint32)
    assert np.array_equal(found, np.arange(found.size, dtype=np.uint32))
"""


@pytest.mark.slow
def test_peak_memory(tmp_path):
    """The file, and two copies of the elements in MLIR's reader."""
    size = 16 << 20
    for name, count in (("large", size // 4), ("small", 7)):
        b = xb.XlaBuilder("b")
        b.constant(np.arange(count, dtype=np.uint32).view(np.float32))
        module = lowering.lower(b.build())
        module.save(tmp_path / f"{name}.mlirbc")
        (tmp_path / f"{name}.artifact").write_bytes(module.artifact())
    for form in ("mlirbc", "artifact"):
        files = [str(tmp_path / f"{name}.{form}") for name in ("large", "small")]
        finished = run_python("-c", textwrap.dedent(READER), *files)
        assert int(finished.stdout) * 1024 < 3.2 * size, form
