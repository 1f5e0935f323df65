"""Files that consist of large constants: their elements take the memory that they need."""

import textwrap

import numpy as np
import pytest
from processes import run_python

import builder as xb
import lowering
from builder import primitive_type as pt
from lowering import ModuleFileError, jaxlib_api
from lowering.reading import large_elements, module_reader
from lowering.reading.bytecode_tables import OFFSETS, Tables, sections_of

TYPES = [t for t in pt.ALL if t.is_array_element]


@pytest.fixture
def answers(monkeypatch):
    """Has small elements set apart as well, and keeps what came of it, file by file."""
    found = []

    def put_back(module, apart):
        found.append(large_elements.put_back(module, apart))
        return found[-1]

    monkeypatch.setattr(module_reader, "put_back", put_back)
    monkeypatch.setattr(module_reader, "_read_in_helper", lambda *_: None)  # these are sound
    monkeypatch.setattr(large_elements, "LARGE_FILE", 0)
    monkeypatch.setattr(large_elements, "LARGE_ELEMENTS", 2)
    monkeypatch.setattr(large_elements, "LARGE_SHARE", 0.01)
    return found


def forms_of_any(module):
    """With a checksum, and without."""
    return [module.bytecode, jaxlib_api.bytecode(module.module)]


def forms(module):
    """The same, and a portable artifact, which can't hold attributes of others."""
    return [*forms_of_any(module), module.artifact()]


def from_text(body, result="tensor<5xf32>"):
    text = f"module {{ func.func @main() -> {result} {{\n{body}\n}} }}"
    return lowering.load_bytes(text)


def check_same(module, datas=None):
    """The module comes back from all its forms, or these: text, locations, bytecode."""
    for data in datas or forms(module):
        again = lowering.load_bytes(data)
        assert again.to_text(locations=True) == module.to_text(locations=True)
        assert jaxlib_api.bytecode(again.module) == jaxlib_api.bytecode(module.module)


def some(element_type, seed):
    """Few values, so that most could be taken for a stand-in."""
    drawn = np.random.default_rng(seed).integers(0, 2, (5, 7))
    return drawn.astype(element_type.dtype)


def test_constants_of_all_types(answers):
    b = xb.XlaBuilder("all")
    ops = []
    for element_type in TYPES:
        array = some(element_type, 1)
        ones = np.ones((5, 7), element_type.dtype)
        ops += map(b.constant, (array, array[::-1].copy(), ones, some(element_type, 2)))
    check_same(lowering.lower(b.build(xb.tuple(*ops))))
    assert answers == [True] * 3


def test_a_value_used_twice(answers):
    module = from_text("""
      %0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
      %1 = stablehlo.constant {a = 5 : i32} dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
      %2 = stablehlo.constant dense<[(1., 2.), (3., 4.), (5., 6.)]> : tensor<3xcomplex<f32>>
      %3 = stablehlo.constant {b} dense<[(1., 2.), (3., 4.), (5., 6.)]> : tensor<3xcomplex<f32>>
      %4 = stablehlo.add %0, %1 : tensor<5xf32>
      return %4 : tensor<5xf32>""")
    check_same(module, forms_of_any(module))
    assert answers == [True] * 2


@pytest.mark.parametrize(
    "body",
    [
        "%0 = stablehlo.custom_call @f() {a = VALUE} : () -> tensor<5xf32>",
        "%0 = stablehlo.custom_call @f() {a = [{b = VALUE}]} : () -> tensor<5xf32>",
        "%0 = stablehlo.constant {a = VALUE} VALUE",
        '%0 = stablehlo.constant VALUE loc(fused<VALUE>["x"])',
    ],
)
def test_elements_in_other_attributes(answers, body):
    value = "dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>"
    module = from_text(f"{body.replace('VALUE', value)}\nreturn %0 : tensor<5xf32>")
    check_same(module, forms_of_any(module))
    assert answers == [False] * 2


def test_more_constants_than_stand_ins(answers):
    b = xb.XlaBuilder("many")
    rows = np.random.default_rng(1).integers(0, 256, (300, 20)).astype(np.int8)
    check_same(lowering.lower(b.build(xb.tuple(*map(b.constant, rows)))))
    assert answers == []
    few = xb.XlaBuilder("few")
    check_same(lowering.lower(few.build(xb.tuple(*map(few.constant, rows[:200])))))
    assert answers == [True] * 3


def test_elements_that_do_not_fit_their_type(monkeypatch):
    """They are left to MLIR's own reader."""
    monkeypatch.setattr(large_elements, "LARGE_FILE", 0)
    monkeypatch.setattr(large_elements, "LARGE_ELEMENTS", 2)
    monkeypatch.setattr(large_elements, "LARGE_SHARE", 0.01)
    b = xb.XlaBuilder("odd")
    b.constant(np.arange(42, dtype=np.float32))
    code = jaxlib_api.bytecode(lowering.lower(b.build()).module)
    kind = bytes((0x1B, 3, 42 << 2 | 1))  # a tensor of one dimension
    assert code.count(kind) == 1
    for count, is_read in ((42, True), (21, False)):
        data = code.replace(kind, bytes((0x1B, 3, count << 2 | 1)))
        assert large_elements.set_apart(data) is not None
        found = module_reader._read_apart(data, "it", None, is_sealed=False)
        assert (found is not None) is is_read


def test_sizes_of_more_attributes_than_there_are(monkeypatch):
    """MLIR would write behind the end of its table: so it is not even asked in a helper process."""
    monkeypatch.delattr(module_reader, "in_helper")
    b = xb.XlaBuilder("b")
    module = lowering.lower(b.build(b.parameter(xb.f32[2], "x") + 1.0))
    code = jaxlib_api.bytecode(module.module)
    sections = sections_of(lambda at, size: code[at : at + size], len(code))
    assert Tables(code, sections).attributes
    (begin,) = (one.begin for one in sections if one.kind == OFFSETS)
    count = begin + 3  # behind the numbers of attributes and types, and of the first dialect
    damaged = code[:count] + bytes((127 << 1 | 1,)) + code[count + 1 :]
    with pytest.raises(ModuleFileError, match=f"its {len(code)} bytes of bytecode do not add up"):
        lowering.load_bytes(damaged)


READER = """
    import sys
    from pathlib import Path
    import numpy as np
    import lowering

    def kilobytes(word):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(word))

    lowering.to_computation(sys.argv[2])  # what reading takes of itself
    before = kilobytes("VmRSS")
    computation = lowering.to_computation(sys.argv[1])
    print(kilobytes("VmHWM") - before)
    found = computation.root.attributes["value"].view(np.uint32)
    assert np.array_equal(found, np.arange(found.size, dtype=np.uint32))
"""


def test_memory_at_the_peak(tmp_path):
    """The file and MLIR's copy, or MLIR's copy and ours; with a third it would be 3 times."""
    size = large_elements.LARGE_FILE
    for name, count in (("large", size // 4), ("small", 7)):
        b = xb.XlaBuilder("b")
        b.constant(np.arange(count, dtype=np.uint32).view(np.float32))
        lowering.lower(b.build()).save(tmp_path / f"{name}.mlirbc")
    files = [str(tmp_path / f"{name}.mlirbc") for name in ("large", "small")]
    finished = run_python("-c", textwrap.dedent(READER), *files)
    assert int(finished.stdout) * 1024 < 2.1 * size
