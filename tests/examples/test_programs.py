"""The examples with one program equal the same programs in plain jax, in 1.5 times the lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scripts import load_script
from tables import each_row

import lowering

pytestmark = pytest.mark.slow

for each in ("digits", "convnet"):  # imported by other examples
    load_script(f"examples/{each}.py")
PROGRAMS: Any = load_script("tests/examples/programs_of_jax.py")


def results(name: str, module: Any, values: Any, folder: Path) -> tuple[Any, Any]:
    """Return the results of an example's program and those of jax's program."""
    program = PROGRAMS.PROGRAMS[name]
    (*_, function), (reference, *_) = program.functions, program.references
    if name == "data_parallel":
        run = lowering.compile(module.train_epoch(4), "cpu", num_replicas=4, results="sharded")
        got = jax.device_get(run(*values))
        expected = jax.jit(reference)(*values)
        # All replicas have the same results.
        return got, jax.tree.map(lambda x: np.stack([x] * 4), expected)
    if name == "edit_export":
        module.write_export(folder / "model.mlirbc", values)
        run = lowering.compile(getattr(module, function)(folder / "model.mlirbc"))
        return run(*values), reference(jax.make_jaxpr(module.model)(*values), *values)
    got = getattr(module, function)(*values)
    return got, jax.jit(reference, static_argnames=program.static)(*values)


@pytest.mark.parametrize("name", PROGRAMS.PROGRAMS)
def test_the_results_equal_those_of_jax(name: str, tmp_path: Path) -> None:
    module = load_script(f"examples/{name}.py")
    got, expected = results(name, module, PROGRAMS.arguments(name, module), tmp_path)
    # Rounding errors accumulate over the 45 steps of an epoch.
    rtol, atol = (1e-2, 1e-4) if name == "data_parallel" else (1e-4, 1e-5)
    for result, wanted in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert result.shape == wanted.shape
        scale = max(np.abs(wanted).max(), 1)
        np.testing.assert_allclose(result, wanted, rtol=rtol, atol=atol * scale)


@each_row("name", PROGRAMS.PROGRAMS)
def test_the_programs_have_at_most_one_and_a_half_times_the_lines_of_jax(name: str) -> None:
    ours, theirs = PROGRAMS.PROGRAMS[name].lines(load_script(f"examples/{name}.py"))
    assert ours <= 1.5 * theirs


def test_the_table_of_the_documentation() -> None:
    writer = load_script("tools/write_programs.py")
    page = writer.PAGE.read_text(encoding="utf-8")
    assert page == writer.with_table(page, writer.table()), "run tools/write_programs.py"


def test_the_products_of_the_edited_export_are_narrow(tmp_path: Path) -> None:
    module = load_script("examples/edit_export.py")
    values = module.random_arguments(seed=1)
    module.write_export(tmp_path / "model.mlirbc", values)
    edited = module.narrowed(tmp_path / "model.mlirbc")
    products = edited.find("dot_general", nested=True)
    types = [{str(x.shape.element_type) for x in op.operands} for op in products]
    assert types == [{"bf16"}] * 3


def test_the_vision_transformer_is_recorded_once_for_all_batches() -> None:
    module = load_script("examples/vision_transformer.py")
    images, weights = PROGRAMS.arguments("vision_transformer", module)
    expected = np.asarray(module.classify(images, weights))
    for start, stop in ((0, 1), (1, 4)):
        found = module.classify(images[start:stop], weights)
        np.testing.assert_allclose(found, expected[start:stop], rtol=1e-5)
    assert (module.classify.cache_info().recorded, module.classify.cache_info().compiled) == (1, 3)


# Arguments that shorten the training, and what the output of the example must contain.
MAIN = {
    "gpt": (["--prompt", "Greedily"], "'Greedily"),
    "convnet": ([], "test accuracy: 9"),
    "gru": (["--epochs", "3"], "test accuracy: 8"),
    "vision_transformer": (["--epochs", "2"], "test accuracy: 8"),
    "data_parallel": ([], "test accuracy: 9"),
    "embedding": ([], "the most similar one: at most 2"),
}


@pytest.mark.parametrize("name", PROGRAMS.PROGRAMS)
def test_main(name: str, capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    module = load_script(f"examples/{name}.py")
    options, found = MAIN.get(name, ([], ""))
    monkeypatch.setattr("sys.argv", [name, *options])
    # The tests have several devices already, and jax refuses to set their number again.
    monkeypatch.setattr(jax.config, "update", lambda option, value: None)
    module.main()
    output = capfd.readouterr().out
    assert output
    assert found in output
