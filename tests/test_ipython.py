"""In IPython and in notebooks, source lines and errors name the cell instead of a file."""

from __future__ import annotations

import re

import nbformat
import pytest
from html_pages import page_of
from nbclient import NotebookClient
from processes import run_python
from scripts import ROOT

FIRST = """\
import builder as xb
def double(x):
    return x + x"""

SECOND = """\
x = xb.XlaBuilder().parameter(xb.f32[2])

y = double(x)
computation = y.builder.build(y)
print(x.source, y.source, [op.id for op in computation.find(source="In[1]:3")])"""

THIRD = """\
import lowering
print('loc("In[1]":3:' in lowering.lower(computation).to_text(locations=True))
try:
    xb.dot(xb.XlaBuilder().parameter(xb.f32[2]), 1)
except xb.XlaError as error:
    print(error.location, error.__notes__)"""

WRONG = """\
x = xb.XlaBuilder().parameter(xb.f32[2])
y = x.builder.parameter(xb.f32[3])
x + y"""

EXPECTED = """\
In[2]:1 In[1]:3 [1]
True
In[3]:4 ['at In[3]:4']
"""

SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(history_length=0)
for cell in sys.argv[1:]:
    shell.run_cell(cell, store_history=True).raise_error()
"""


def test_a_shell(tmp_path_factory: pytest.TempPathFactory) -> None:
    env = {"IPYTHONDIR": str(tmp_path_factory.mktemp("ipython"))}
    done = run_python("-W", "default", "-c", SHELL, FIRST, SECOND, THIRD, env=env)
    assert done.stdout == EXPECTED


def test_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = [nbformat.v4.new_code_cell(cell) for cell in (FIRST, SECOND, THIRD)]
    wrong = nbformat.v4.new_code_cell(WRONG, metadata={"tags": ["raises-exception"]})
    notebook = nbformat.v4.new_notebook(cells=[*cells, wrong])
    NotebookClient(notebook, timeout=300).execute()
    outputs = [output["text"] for cell in cells for output in cell["outputs"]]
    assert "".join(outputs) == EXPECTED
    shown, error = wrong["outputs"]
    page = page_of(shown["data"]["text/html"])
    assert "add: dimension 0 has sizes 2 and 3" in page.text
    assert re.search(r"→ +3 +x \+ y", page.text)
    assert {" In[4]:3", "lhs", "f32[2]", "rhs", "f32[3]", "fix"} <= {*page.texts}
    assert "x + y" in shown["data"]["text/plain"]
    assert error["traceback"] == [f"ShapeInferenceError: {error['evalue']}"]
