"""replace: a computation recorded again, with some ops replaced."""

from __future__ import annotations

from functools import partial
from typing import Any

import graphs
import numpy as np
import pytest
from graphs import assert_same
from hypothesis import given, settings
from tables import each_row

import builder as xb
from builder.rewriting.replacing import Operands


def keep(op: xb.XlaOp, operands: Operands) -> None:
    assert [o.shape for o in operands] == [o.shape for o in op.operands]
    assert all(o.builder is operands.builder for o in operands)


def opcodes(computation: xb.XlaComputation) -> list[str]:
    return [op.opcode for op in computation.ops]


def sub_for_add(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
    return operands[0] - operands[1] if op.opcode == "add" else None


def annotated() -> xb.XlaComputation:
    """Return a computation with all properties that must be preserved."""
    b = xb.XlaBuilder("annotated")
    x = b.parameter("f32[2,3]{0,1}", "x", number=1)
    with b.sharding("{replicated}"):
        y = b.parameter(xb.f32[2, 3], "y", number=0)
    with b.frontend_attributes({"stage": "1"}):
        z = xb.tanh(x + y)
    z.name = "hidden"
    b.parameter(xb.s32[()], "unused")
    b.setup_alias([1], 1)
    b.add_buffer_donor(2)
    xb.neg(z)
    root = xb.tuple(z, z * 2.0)
    xb.exp(z)
    return b.build(root, result="(f32[2,3]{1,0}, f32[2,3]{0,1})")


class TestWithoutReplacements:
    @each_row("nested", [False, True])
    def test_the_result_is_equal(self, nested: bool) -> None:
        c = annotated()
        again = c.replace(keep, nested=nested)
        assert_same(again, c)
        assert again.to_hlo_text(metadata=True) == c.to_hlo_text(metadata=True)
        assert {op.builder for op in again.ops} == {again.root.builder} != {c.root.builder}
        assert len(again.aliases) == len(again.donors) == 1

    @given(graphs.recipes)
    @settings(max_examples=30)
    def test_of_any_graph(self, recipe: list[graphs.Step]) -> None:
        c = graphs.recorded(recipe)
        assert_same(c.replace(keep), c)
        # Applied computations do not change, and are shared.
        assert_same(c.replace(lambda op, operands: operands.keep(), nested=True), c)

    def test_annotations_of_a_module(self) -> None:
        from builder.attributes.annotations import Annotations

        b = xb.XlaBuilder()
        b.annotations = Annotations(module={"mhlo.num_partitions": "2 : i32"})
        c = b.build(b.parameter(xb.f32[2]))
        assert c.replace(keep).annotations is c.annotations is not None


class TestReplaced:
    @given(graphs.recipes)
    @settings(max_examples=40)
    def test_additions_become_subtractions(self, recipe: list[graphs.Step]) -> None:
        """In NumPy, the original with "add" redefined equals the rewritten graph."""
        c = graphs.recorded(recipe)
        changed = c.replace(sub_for_add)
        arguments = graphs.arguments_of(c)
        expected = swapped_evaluation(c, *arguments)
        np.testing.assert_array_equal(graphs.evaluate(changed, *arguments), expected, strict=True)

    def test_only_the_replaced_op_changes(self) -> None:
        c = annotated()

        def rational(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            if op.opcode != "tanh":
                return None
            (x,) = operands
            return x / (xb.abs(x) + 1.0)

        changed = c.replace(rational)
        assert opcodes(changed) == [
            *("parameter", "parameter", "add"),
            *("abs", "constant", "broadcast_in_dim", "add", "divide"),
            *opcodes(c)[4:],
        ]
        old = {op.opcode: op for op in c.ops}
        new = {op.opcode: op for op in changed.ops}
        for name in ("parameter", "multiply", "tuple", "negate", "exponential"):
            assert (new[name].metadata, new[name].source) == (old[name].metadata, old[name].source)
        # The replacement has the name of the op, and the line that recorded it.
        assert (new["divide"].name, new["abs"].name) == ("hidden", None)
        assert new["divide"].frontend_attributes == {"stage": "1"}
        assert new["divide"].source.function.endswith("rational")  # type: ignore[union-attr]
        assert new["negate"].operands == new["exponential"].operands == (new["divide"],)
        assert changed.program_shape is c.program_shape
        assert (changed.aliases, changed.donors) == (c.aliases, c.donors)

    def test_annotations_of_the_replacement_have_priority(self) -> None:
        def named(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            if op.opcode != "tanh":
                return None
            with operands.builder.frontend_attributes({"stage": "2", "new": "yes"}):
                replacement = xb.erf(operands[0])
            replacement.name = "erf"
            return replacement

        (erf,) = [op for op in annotated().replace(named).ops if op.opcode == "erf"]
        assert erf.name == "erf"
        assert erf.frontend_attributes == {"stage": "2", "new": "yes"}

    def test_by_an_operand(self) -> None:
        c = annotated()
        changed = c.replace(lambda op, operands: operands[0] if op.opcode == "tanh" else None)
        assert opcodes(changed) == [code for code in opcodes(c) if code != "tanh"]
        assert changed.ops[2].name is None

    def test_an_op_that_is_kept_among_new_ones(self) -> None:
        c = annotated()

        def doubled(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            if op.opcode != "tanh":
                return None
            assert operands.keep() is operands.keep()
            return operands.keep() * 2.0

        changed = c.replace(doubled)
        begin = c.ops[3].id
        assert opcodes(changed)[begin : begin + 4] == [
            *("tanh", "constant", "broadcast_in_dim", "multiply")
        ]
        tanh, product = changed.ops[begin], changed.ops[begin + 3]
        assert (tanh.name, tanh.source) == ("hidden", c.ops[3].source)
        assert product.metadata is None

    def test_ops_recorded_with_an_op_that_is_kept(self) -> None:
        def watch(op: xb.XlaOp, operands: Operands) -> None:
            if op.opcode == "tanh":
                xb.outfeed(operands[0])

        changed = annotated().replace(watch)
        assert opcodes(changed)[2:6] == ["add", "create_token", "outfeed", "tanh"]

    def test_the_root(self) -> None:
        c = xb.computation(xb.f32[2])(lambda x: xb.tanh(x))
        changed = c.replace(lambda op, o: xb.erf(o[0]) if op.opcode == "tanh" else None)
        assert (changed.root.opcode, len(changed.ops)) == ("erf", 2)

    def test_a_constant(self) -> None:
        c = xb.computation(xb.f32[()])(lambda x: x + 1.0)

        def two(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            assert operands.builder is not op.builder
            is_constant = op.opcode == "constant"
            return operands.builder.constant(2.0, xb.f32) if is_constant else None

        changed = c.replace(two)
        assert opcodes(changed) == ["parameter", "constant", "add"]
        assert changed.ops[1].attributes["value"] == 2.0

    def test_by_an_op_that_applies_computations(self) -> None:
        c = xb.computation(xb.s32[2])(lambda x: xb.neg(x))

        def loop(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            if op.opcode != "negate":
                return None
            (x,) = operands
            init = [operands.builder.constant(0, xb.s32), xb.abs(x)]
            return xb.while_(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + x), init)[1]

        argument = np.array([-3, 4], np.int32)
        graphs.EVALUATORS.setdefault("abs", lambda op, x: np.abs(x))
        np.testing.assert_array_equal(graphs.evaluate(c.replace(loop), argument), [-6, 16])


def swapped_evaluation(computation: xb.XlaComputation, *arguments: Any) -> Any:
    """Return NumPy's result with the additions of the entry replaced by subtractions."""
    plain = graphs.EVALUATORS["add"]
    entry = set(computation.ops)

    def add(op: xb.XlaOp, x: Any, y: Any) -> Any:
        return np.subtract(x, y) if op in entry else plain(op, x, y)

    graphs.EVALUATORS["add"] = add
    try:
        return graphs.evaluate(computation, *arguments)
    finally:
        graphs.EVALUATORS["add"] = plain


class TestParameters:
    def test_a_parameter_replaced_by_a_constant_remains(self) -> None:
        c = xb.computation(xb.f32[()], xb.f32[()])(lambda x, scale: x * scale)

        def fixed(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            return operands.builder.constant(3.0, xb.f32) if op.name == "scale" else None

        changed = c.replace(fixed)
        assert changed.program_shape is c.program_shape
        assert opcodes(changed) == ["parameter", "parameter", "constant", "multiply"]
        assert changed.users(changed.parameters[1]) == ()
        assert changed.ops[2].name is None

    def test_a_parameter_may_be_converted(self) -> None:
        c = xb.computation(xb.f32[2])(lambda x: x + x)

        def rounded(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            return xb.round(operands.keep()) if op.opcode == "parameter" else None

        changed = c.replace(rounded)
        assert opcodes(changed)[0::2] == ["parameter", "add"]
        assert changed.root.operands == (changed.ops[1],) * 2
        assert changed.parameters[0].name == "x"

    def test_parameters_cannot_be_added(self) -> None:
        def more(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            return operands.builder.parameter(op.shape) if op.opcode == "tanh" else None

        with pytest.raises(
            xb.BuilderError,
            match=r"must not record parameters, got .* for %3 tanh of 'annotated'\nfix:",
        ):
            annotated().replace(more)


class TestNested:
    @pytest.fixture
    def model(self) -> xb.XlaComputation:
        """A loop whose body calls a function that reduces; the function is called outside too."""
        b = xb.XlaBuilder("model")
        x = b.parameter(xb.s32[2, 3], "x")

        @xb.computation(xb.s32[2, 3])
        def function(v: xb.XlaOp) -> xb.XlaOp:
            total = xb.reduce(v - 1, 0, xb.add, [1])
            return xb.broadcast_in_dim(total, [2, 3], [0])

        init = [b.constant(0, xb.s32), x]
        loop = xb.while_(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, xb.call(function, s[1]) - s[1]), init
        )
        return b.build(xb.call(function, loop[1]) - xb.neg(loop[1]))

    def evaluated(self, model: xb.XlaComputation) -> Any:
        return graphs.evaluate(model, np.arange(6, dtype=np.int32).reshape(2, 3))

    def test_in_a_body_and_in_its_callees(self, model: xb.XlaComputation) -> None:
        def sum_for_difference(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            return operands[0] + operands[1] if op.opcode == "subtract" else None

        changed = model.replace(sum_for_difference, nested=True)
        everything = (changed, *changed.called_computations())
        assert all("subtract" not in opcodes(one) for one in everything)
        state = np.arange(6, dtype=np.int32).reshape(2, 3)

        def function(v: Any) -> Any:
            return np.broadcast_to(np.sum(v + 1, 1, keepdims=True), (2, 3))

        for _ in range(3):
            state = function(state) + state
        np.testing.assert_array_equal(self.evaluated(changed), function(state) - state)
        # Without `nested`, only the entry is rewritten.
        alone = model.replace(sum_for_difference)
        assert alone.called_computations() == model.called_computations()
        assert "subtract" not in opcodes(alone)

    def test_only_what_changes_is_rebuilt(self, model: xb.XlaComputation) -> None:
        def another_end(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            return operands[0] <= operands[1] if op.opcode == "compare" else None

        before = {each.name: each for each in model.called_computations()}
        after = {
            each.name: each
            for each in model.replace(another_end, nested=True).called_computations()
        }
        assert list(before) == list(after)
        assert [name for name in before if before[name] is not after[name]] == ["while_condition"]

    def test_computations_are_visited_once_after_their_callees(
        self, model: xb.XlaComputation
    ) -> None:
        visited: list[xb.XlaOp] = []

        def note(op: xb.XlaOp, operands: Operands) -> None:
            visited.append(op)

        assert_same(model.replace(note, nested=True), model)
        order = (*model.called_computations(), model)
        assert visited == [op for each in order for op in each.ops]

    def test_one_computation_is_replaced_by_one_computation(self, model: xb.XlaComputation) -> None:
        changed = model.replace(
            lambda op, o: xb.max(*o) if op.opcode == "add" else None, nested=True
        )
        called = [
            op.called_computations
            for each in (changed, *changed.called_computations())
            for op in each.ops
            if op.opcode == "call"
        ]
        assert len(called) == 2
        assert called[0] == called[1]
        assert "reduce" in opcodes(called[0][0])
        (reducer,) = (op for op in called[0][0].ops if op.opcode == "reduce")
        assert opcodes(reducer.attributes["to_apply"]) == ["parameter", "parameter", "maximum"]

    def test_branches(self) -> None:
        @xb.computation(xb.pred[()], xb.s32[2, 3])
        def c(p: xb.XlaOp, x: xb.XlaOp) -> xb.XlaOp:
            return xb.conditional(p, x, lambda v: v + 1, x, xb.neg)

        changed = c.replace(sub_for_add, nested=True)
        x = np.arange(6, dtype=np.int32).reshape(2, 3)
        np.testing.assert_array_equal(graphs.evaluate(changed, np.True_, x), x - 1)
        np.testing.assert_array_equal(graphs.evaluate(changed, np.False_, x), -x)
        old, new = (
            computation.root.attributes["branch_computations"] for computation in (c, changed)
        )
        assert old[0] is not new[0]
        assert old[1] is new[1]

    def test_shared_attributes_remain_shared(self) -> None:
        @xb.computation(xb.s32[3], xb.s32[3])
        def c(x: xb.XlaOp, y: xb.XlaOp) -> xb.XlaOp:
            return xb.reduce(x, 0, xb.add, [0]) * xb.reduce(y, 0, xb.add, [0])

        old = [op for op in c.ops if op.opcode == "reduce"]
        assert old[0].attributes is old[1].attributes
        changed = c.replace(sub_for_add, nested=True)
        new = [op for op in changed.ops if op.opcode == "reduce"]
        assert new[0].attributes is new[1].attributes is not old[0].attributes

    def test_values_of_the_entry_cannot_be_used_in_a_body(self, model: xb.XlaComputation) -> None:
        b = xb.XlaBuilder("outer")
        outer = b.parameter(xb.s32[2, 3])

        def mixed(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            return operands[0] + outer if op.opcode == "subtract" else None

        with pytest.raises(xb.BuilderError, match=r"add: .*can't use values of another") as failure:
            model.replace(mixed, nested=True)
        # It is called for the ops of the function first; the second one is a subtraction.
        assert "while replacing %3 subtract of 'function'" in failure.value.__notes__

    def test_deep_calls_without_recursion(self) -> None:
        function = xb.computation(xb.s32[()])(lambda v: v + 1)
        for number in range(1100):
            b = xb.XlaBuilder(f"f{number}")
            function = b.build(xb.call(function, b.parameter(xb.s32[()], "v")))
        changed = function.replace(sub_for_add, nested=True)
        called = changed.called_computations()
        assert len(called) == 1100
        assert opcodes(called[0]) == ["parameter", "constant", "subtract"]


class TestRefused:
    def test_another_shape(self) -> None:
        c = annotated()

        def wrong(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            return xb.transpose(operands[0], [1, 0]) if op.opcode == "tanh" else None

        line = wrong.__code__.co_firstlineno
        message = (
            r"replace: .* have the shape of the op, got\n  %3 tanh of 'annotated': f32\[2,3\]\n"
            rf"  transpose by .*wrong at .*test_replace\.py:{line}: f32\[3,2\]\nfix: "
        )
        with pytest.raises(xb.ShapeInferenceError, match=message) as failure:
            c.replace(wrong)
        assert failure.value.shapes == {"op": xb.f32[2, 3], "replacement": xb.f32[3, 2]}
        with pytest.raises(xb.ShapeInferenceError, match=r"transpose by functools.partial|partial"):
            c.replace(partial(wrong))

    def test_another_element_type_or_dynamic_size(self) -> None:
        c = xb.computation(xb.f32[2])(lambda x: xb.neg(x))

        def dynamic(op: xb.XlaOp, o: Operands) -> xb.XlaOp | None:
            if op.opcode != "negate":
                return None
            return xb.set_dimension_size(o[0], o.builder.constant(1, xb.s32), 0)

        with pytest.raises(xb.ShapeInferenceError, match=r"negate.*f32\[2\]\n .*f32\[<=2\]"):
            c.replace(dynamic)
        with pytest.raises(xb.ShapeInferenceError, match=r"f32\[2\]\n .*bf16\[2\]"):
            c.replace(lambda op, o: xb.convert(o[0], xb.bf16) if len(o) else None)

    def test_not_an_op(self) -> None:
        with pytest.raises(
            xb.OperandError, match=r"must return an XlaOp, .* got 2.0 for %0 parameter of .*\nfix: "
        ):
            annotated().replace(lambda op, operands: 2.0)  # type: ignore[arg-type, return-value]

    def test_the_old_op(self) -> None:
        with pytest.raises(
            xb.BuilderError,
            match=r"must return an op of the new computation, got\n  <XlaOp %0 .*\n  for %0 parame",
        ):
            annotated().replace(lambda op, operands: op)

    def test_old_operands(self) -> None:
        def mixed(op: xb.XlaOp, operands: Operands) -> xb.XlaOp | None:
            return op.operands[0] + operands[1] if op.opcode == "add" else None

        with pytest.raises(xb.BuilderError, match=r"add: operand 0 belongs to .* already built"):
            annotated().replace(mixed)

    def test_not_a_callable(self) -> None:
        with pytest.raises(
            xb.OperandError, match=r"function must be a function .*, got 'tanh'\nfix"
        ):
            annotated().replace("tanh")  # type: ignore[arg-type]

    @each_row("function", [int, dict, lambda op: None])
    def test_other_arguments(self, function: Any) -> None:
        with pytest.raises(xb.OperandError, match=r"function must be a function .*, got <"):
            annotated().replace(function)

    def test_a_type_error_of_the_function_is_unchanged(self) -> None:
        with pytest.raises(TypeError, match="not iterable") as failure:
            annotated().replace(lambda op, operands: iter(3))  # type: ignore[call-overload]  # raises the error
        assert not isinstance(failure.value, xb.XlaError)

    def test_nested_is_a_flag(self) -> None:
        with pytest.raises(xb.XlaError, match="replace: nested"):
            annotated().replace(keep, nested="yes")  # type: ignore[arg-type]

    def test_errors_of_the_function_are_raised(self) -> None:
        def fails(op: xb.XlaOp, operands: Operands) -> None:
            if op.opcode == "tanh":
                raise KeyError("mine")

        c = annotated()
        with pytest.raises(KeyError, match="mine") as failure:
            c.replace(fails)
        assert failure.value.__notes__ == ["while replacing %3 tanh of 'annotated'"]
        assert_same(c.replace(keep), c)
