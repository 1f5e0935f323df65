"""The generated pages of the site. `make site` builds it and checks its links."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import griffe
import numpy as np
import pytest
from scripts import ROOT, load_script
from tables import each_row

import builder as xb
from builder.schema import SCHEMAS

pytestmark = pytest.mark.slow

# The order in which they import each other.
for imported in ("write_platforms", "xla_builder_h", "write_operations", "write_defects"):
    load_script(f"tools/{imported}.py")
formulas = load_script("tools/site_pages/size_formulas.py")
op_pages = load_script("tools/site_pages/op_pages.py")
load_script("tools/site_pages/reference_pages.py")
docstrings = load_script("tools/site_pages/docstrings.py")
program_text = load_script("tools/site_pages/program_text.py")
site = load_script("tools/write_site.py")
platforms = sys.modules["write_platforms"]


def further_computations() -> Iterator[xb.XlaComputation]:
    """Generate computations whose attributes differ from those of the examples."""
    b = xb.XlaBuilder()
    x = b.parameter(xb.f32[7, 10, 6], "x")
    xb.slice(x, [1, 0, 5], [7, 10, 6], [4, 3, 1])
    xb.transpose(x, [1, 2, 0])
    xb.concatenate([x, x, xb.slice(x, [0, 2, 0], [7, 3, 6], [1, 1, 1])], 1)
    xb.reduce(x, 0.0, xb.add, [1])
    xb.pad(x, 0.0, [(-1, 2, 0), (0, 0, 3), (5, -2, 1)])
    xb.reduce_window(
        *(x, 0.0, xb.add, [2, 3, 1], [1, 2, 4], [(0, 1), (2, 2), (0, 0)]),
        base_dilations=[1, 2, 1],
        window_dilations=[3, 1, 1],
    )
    xb.fft(xb.complex(x, x), "FFT", [6])
    xb.fft(xb.complex(x, x), "IRFFT", [10])
    y = b.parameter(xb.f32[5, 6, 7, 3], "y")
    xb.dot_general(x, y, (([2], [1]), ([0], [2])))
    xb.all_to_all(y, 1, 3, 2)
    xb.top_k(y, 2)
    yield b.build()
    b = xb.XlaBuilder()
    image, kernel = b.parameter(xb.f32[9, 12, 8, 4]), b.parameter(xb.f32[3, 3, 2, 8])
    numbers = xb.ConvolutionDimensionNumbers(0, 3, [1, 2], 2, 3, [0, 1], 3, 0, [1, 2])
    xb.conv_general_dilated(
        image, kernel, [2, 1], [(1, 2), (0, -1)], [1, 2], [2, 1], numbers, feature_group_count=2
    )
    table, positions = b.parameter(xb.f32[4, 9, 5]), b.parameter(xb.s32[4, 6, 1])
    parts = xb.GatherDimensionNumbers([1], [1], [1], 2, [0], [0])
    xb.gather(table, positions, parts, [1, 1, 5])
    yield b.build()


def recorded_ops() -> Iterator[Any]:
    for info in xb.OPERATIONS.values():
        for computation in platforms.computations_of_example(info):
            yield from platforms.ops_of(computation)
    for computation in further_computations():
        yield from computation.ops


def test_the_formulas_agree_with_shape_inference() -> None:
    checked = set()
    for op in recorded_ops():
        schema = SCHEMAS[op.opcode]
        formula = formulas.formula_of(schema)
        if formula is None:
            continue
        inferred = formulas.as_lists(formulas.sizes(op.shape))
        found = formulas.sizes_by_formula(formula, op, schema)
        if op.shape.is_tuple and found != inferred:
            found = [found] * len(inferred)  # several arrays of the same sizes
        assert found == inferred, op
        checked.add(op.opcode)
    elementwise = {opcode for opcode, schema in SCHEMAS.items() if schema.result is not None}
    assert checked >= formulas.FORMULAS.keys() | elementwise


def test_the_page_of_an_op() -> None:
    text = op_pages.page(xb.OPERATIONS["rev"])
    assert text.startswith("::: builder.rev\n")
    for expected in (
        "The sizes of the result, from those of the operands:",
        "ROOT %reverse.1 = f32[2,3]{1,0} reverse(%p0), dimensions={1}",
        "stablehlo.reverse %arg0, dims = [1] : tensor<2x3xf32>",
        "| Attributes | `dimensions`: ",
        "| cpu | ran | ",
        "](../xla_defects.md#",
    ):
        assert expected in text


def test_arguments_that_elementwise_ops_share() -> None:
    binary, unary = (op_pages.page(xb.OPERATIONS[name]) for name in ("add", "exp"))
    assert "- `lhs, rhs`: arrays of one" in binary
    assert "- `broadcast_dimensions`: required" in binary
    assert "- `operand`: an array" not in binary
    assert "- `operand`: an array" in unary
    assert "- `result_accuracy`: the accuracy" in unary
    assert "broadcast_dimensions" not in unary.partition("## Shape")[0]


def test_the_picture_of_an_op() -> None:
    drawn = {
        "rev": "the op of the example",
        "gather": "the op of the example",
        "conv_general_dilated": "a small convolution, because",
    }
    for name, text in drawn.items():
        _, picture = op_pages.page(xb.OPERATIONS[name]).split("## Picture\n\n")
        assert picture.startswith(f"`xb.explain` draws {text}")
        assert '\n\n<div class="picture"><svg' in picture
    assert "## Picture" not in op_pages.page(xb.OPERATIONS["abs"])


def test_docstrings_are_read_as_they_are_meant() -> None:
    text = (
        "Add.\n\nThe form::\n\n    f(x)\n\n"
        "Returns:\n    A sum: of all.\n\nExample:\n    >>> 1\n    1"
    )
    function = griffe.Function("add", docstring=griffe.Docstring(text), returns="XlaOp")
    docstrings.PlainDocstrings().on_object(obj=function)
    options = {"returns_multiple_items": False, "returns_named_value": False}
    sections = function.docstring.parse("google", warnings=False, **options)
    introduction, returned, example = sections
    assert introduction.value.endswith("The form:\n\n    f(x)")
    assert [(str(one.annotation), one.description) for one in returned.value] == [
        ("XlaOp", "A sum: of all.")
    ]
    assert example.kind is griffe.DocstringSectionKind.examples


def test_docstrings_of_slots_are_a_section() -> None:
    with griffe.temporary_visited_module(
        'class C:\n    """A class."""\n    __slots__ = {"_own": "Internal.", "name": "A name."}'
    ) as module:
        docstrings.PlainDocstrings().on_object(obj=module["C"])
        _, section = module["C"].docstring.parse("google")
    assert [(one.name, one.description) for one in section.value] == [("name", "A name.")]


def test_each_op_and_each_public_name_has_a_page() -> None:
    pages, sections = site.generated_pages()
    assert {op_pages.path_of(info) for info in xb.OPERATIONS.values()} <= pages.keys()
    assert set(site.pages_of(sections["Operations"])) >= {
        op_pages.path_of(info) for info in xb.OPERATIONS.values()
    }
    text = "\n".join(pages.values()) + "\n"
    without = [
        name
        for name in xb.__all__
        if f"::: builder.{name}\n" not in text
        and f"`xb.{name}`" not in text  # an alias, on the page of its op
        and not isinstance(getattr(xb, name), type(np))  # a module
        and f"::: builder.XlaBuilder.{name}\n" not in text
    ]
    assert without == []


def test_the_help_of_the_command() -> None:
    pages, _ = site.generated_pages()
    text = pages["reference/command.md"]
    assert "## xlabuilder convert" in text
    assert "Usage: xlabuilder convert [OPTIONS] " in text


@each_row(
    "link, expected",
    [
        ("../donate.md#in-the-file", "../donate.md#in-the-file"),
        ("other.md", "other.md"),
        ("#part", "#part"),
        ("../../README.md#tour", f"{site.REPOSITORY}/blob/main/README.md#tour"),
        (f"{site.write_operations.SITE}operations/rev/", "../operations/rev.md"),
        (f"{site.write_operations.SITE}reference/", "../reference/index.md"),
        ("https://openxla.org/xla", "https://openxla.org/xla"),
    ],
)
def test_links(link: str, expected: str) -> None:
    text = f"a [link]({link}) here"
    found = site.with_links(text, "how-to/page.md", "docs/how-to/page.md")
    assert found == f"a [link]({expected}) here"


def test_a_link_to_a_missing_file_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match=r"docs/page.md links to nothing.md"):
        site.with_links("[link](../nothing.md)", "page.md", "docs/page.md")


def test_the_navigation_has_all_pages() -> None:
    docs = ROOT / "docs"
    pages, sections = site.generated_pages()
    names = [
        *pages,
        "conformance.md",
        *(p.relative_to(docs).as_posix() for p in docs.rglob("*.md")),
    ]
    assert "operations/rev.md" in site.configuration(sections, names)
    with pytest.raises(ValueError, match=r"not in both: \['more.md'\]"):
        site.configuration(sections, [*names, "more.md"])


def test_notebooks_are_pages_with_their_outputs() -> None:
    pytest.importorskip("nbconvert", reason="`make site` installs nbconvert")
    pages = {page.path: page for page in site.notebook_pages.pages(site.with_links)}
    files = (ROOT / "notebooks").glob("*.ipynb")
    assert sorted(pages) == sorted(f"notebooks/{file.stem}.md" for file in files)
    shapes = pages["notebooks/02_shapes_and_layouts.md"]
    assert shapes.text.startswith(f"# {shapes.title}\n")
    for path, picture in shapes.pictures.items():
        assert f"]({path.removeprefix('notebooks/')})" in shapes.text
        assert picture.startswith(b"<svg ")
    assert len(shapes.pictures) == 8
    assert "](08_many_devices.md)" in pages["notebooks/09_on_an_accelerator.md"].text


def test_program_text_is_highlighted() -> None:
    page = "Text.\n\n```mlir\n%0 = stablehlo.add %a, %b : tensor<2xf32>\n```\n"
    page += "\n```python\nx < 1\n```\n"
    assert program_text.highlighted(page) == (
        'Text.\n\n<div class="highlight"><pre><code><span class="nv">%0</span> = '
        '<span class="nb">stablehlo.add</span> <span class="nv">%a</span>, '
        '<span class="nv">%b</span> : <span class="kt">tensor&lt;2xf32&gt;</span>\n'
        "</code></pre></div>\n\n```python\nx < 1\n```\n"
    )
    _, hlo = program_text.highlighted("```hlo\n%1 = f32[2]{0} add(%0)\n```").split(" = ")
    assert hlo.startswith('<span class="kt">f32[2]{0}</span> <span class="nb">add</span>')
