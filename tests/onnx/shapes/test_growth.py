# SPDX-License-Identifier: Apache-2.0
"""Caches that grow by Concat: few plans for any number of tokens, results of ONNX Runtime, and exact shapes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.examples import examples  # noqa: E402
from support.repeatable import generator  # noqa: E402
from support.small_models import model_of  # noqa: E402

from syclsched.errors import ArgumentError, RemadeModelWarning  # noqa: E402
from syclsched.testing.decoder_model import decoder_model  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node
RANDOM = generator(0)
LAYERS, HEADS, GROUPS, WIDTH, VOCABULARY = 1, 4, 2, 32, 40
MODEL = decoder_model(LAYERS, WIDTH, HEADS, groups=GROUPS, vocabulary=VOCABULARY, growing=True)
FIRST = {"batch_size": 1, "past_sequence_length": 0}


def session_of(model: Any) -> Any:
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def empty_caches(batch: int = 1) -> dict[str, Any]:
    shape = batch, GROUPS, 0, WIDTH // HEADS
    names = [f"past_key_values.{n}.{kind}" for n in range(LAYERS) for kind in ("key", "value")]
    return {name: np.zeros(shape, np.float32) for name in names}


def following(past: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the caches for the next call."""
    return {name: found[name.replace("past_key_values", "present")] for name in past}


def tokens_of(ids: Any, past: int) -> dict[str, Any]:
    batch, new = np.shape(ids)
    positions = np.tile(np.arange(past, past + new), (batch, 1))
    mask = np.ones((batch, past + new), np.int64)
    mask[-1, 0] = batch == 1  # the last text of a batch is shorter
    return {"input_ids": np.asarray(ids), "attention_mask": mask, "position_ids": positions}


class Reference:
    """ONNX Runtime with caches that the host passes from call to call."""

    def __init__(self, batch: int = 1) -> None:
        self._session = session_of(MODEL)
        self._names = [each.name for each in self._session.get_outputs()]
        self.past = empty_caches(batch)

    def __call__(self, given: dict[str, Any]) -> dict[str, Any]:
        found = dict(zip(self._names, self._session.run(None, {**given, **self.past}), strict=True))
        self.past = following(self.past, found)
        return found


def parts(lengths: list[int], batch: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the inputs of calls with these numbers of new tokens."""
    past = 0
    for new in lengths:
        yield tokens_of(RANDOM.integers(0, VOCABULARY, (batch, new)), past)
        past += new


def check_loop(compiled: Any, lengths: list[int], batch: int = 1) -> None:
    """Compare calls whose caches are the results of the call before."""
    reference, past = Reference(batch), empty_caches(batch)
    for each in parts(lengths, batch):
        wanted, found = reference(each), compiled({**each, **past})
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            assert found[name].shape == value.shape
            np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-4)
        past = following(past, found)


def check_carried(compiled: Any, lengths: list[int], batch: int = 1) -> None:
    """Compare calls whose caches are carried."""
    reference = Reference(batch)
    for each in parts(lengths, batch):
        wanted = reference(each)["logits"]
        np.testing.assert_allclose(compiled(each)["logits"], wanted, rtol=1e-3, atol=1e-4)
    held = compiled.carried()
    for name, value in reference.past.items():
        np.testing.assert_allclose(held[name], value, rtol=1e-3, atol=1e-4)


def test_two_hundred_tokens_take_four_plans() -> None:
    with warnings.catch_warnings(), syclsched.compile(MODEL, devices="cpu", autotune=False) as compiled:
        warnings.simplefilter("error")
        check_loop(compiled, [3, *[1] * 200])
        assert len(compiled.kept_shapes) == 4  # the prompt, and 64, 128 and 256 tokens
        check_loop(compiled, [3, *[1] * 70])
        assert len(compiled.kept_shapes) == 4


def test_carried_caches_grow_in_memory() -> None:
    with syclsched.compile(MODEL, devices="cpu", autotune=False, carried=True, shapes=FIRST) as compiled:
        for _ in range(2):
            check_carried(compiled, [3, *[1] * 140])
            assert len(compiled.kept_shapes) == 4
            assert set(compiled.plan.residents) >= set(compiled._plans.last.specialised.carried.values())
            compiled.reset()


def test_carried_caches_begin_with_given_caches() -> None:
    reference = Reference()
    given = [*parts([5, 60, 1, 1, 1])]
    for each in given[:2]:
        reference(each)
    with syclsched.compile(MODEL, devices="cpu", autotune=False, carried=True, shapes=FIRST) as compiled:
        compiled(given[0])
        compiled.reset(**reference.past)
        for each in given[2:]:
            np.testing.assert_allclose(compiled(each)["logits"], reference(each)["logits"], rtol=1e-3, atol=1e-4)
        assert compiled.carried()["past_key_values.0.key"].shape[2] == 68
        assert len(compiled.times(tokens_of([[1]], 68), repeat=1)) > 0
        last = tokens_of([[1]], 68)
        np.testing.assert_allclose(compiled(last)["logits"], reference(last)["logits"], rtol=1e-3, atol=1e-4)


@settings(max_examples=examples(10), deadline=None)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=7), st.integers(1, 2), st.booleans(), st.booleans())
def test_parts_of_any_length(lengths: list[int], batch: int, carried: bool, bucketed: bool) -> None:
    options: dict[str, Any] = {"shapes": {**FIRST, "batch_size": batch}} if carried else {}
    options |= {"buckets": {"sequence_length": (1, 16, 48)}} if bucketed else {}
    with syclsched.compile(MODEL, devices="cpu", autotune=False, carried=carried, **options) as compiled:
        (check_carried if carried else check_loop)(compiled, lengths, batch)


@pytest.mark.parametrize("carried", [False, True])
def test_prompts_of_any_length_share_the_plan_of_their_bucket(carried: bool) -> None:
    options = {"buckets": {"sequence_length": (1, 16)}, "carried": carried} | ({"shapes": FIRST} if carried else {})
    with warnings.catch_warnings(), syclsched.compile(MODEL, devices="cpu", autotune=False, **options) as compiled:
        warnings.simplefilter("error")
        for lengths in ([3, 1, 1], [7, 1], [16, 5, 1, 2], [12, 1, 1, 16, 1]):
            (check_carried if carried else check_loop)(compiled, lengths)
            if carried:
                compiled.reset()
        assert len(compiled.kept_shapes) == 2


def merged(model: Any, swapped: bool) -> Any:
    """Return a decoder with a branch for calls without a past, which is not read then, as merged decoders have it.

    If swapped, that is the branch for a condition that holds.
    """
    outputs = [each.name for each in model.graph.output]

    def branch(name: str, has_past: bool) -> Any:
        nodes = []
        for each in model.graph.node:
            inputs = [name + value if value in made else value for value in each.input]
            copied = node(each.op_type, inputs, [name + value for value in each.output], name + each.name)
            copied.domain = each.domain
            copied.attribute.extend(each.attribute)
            if each.op_type == "Concat" and each.input[0].startswith("past") and not has_past:
                copied = node("Identity", inputs[1:], copied.output)
            nodes.append(copied)
        infos = [helper.make_empty_tensor_value_info(name + each) for each in outputs]
        return helper.make_graph(nodes, name, [], infos)

    made = {value for each in model.graph.node for value in each.output}
    branches = [branch("with/", True), branch("without/", False)]
    then, other = reversed(branches) if swapped else branches
    nodes = [node("If", ["is_first" if swapped else "use_cache_branch"], outputs, then_branch=then, else_branch=other)]
    condition = helper.make_tensor_value_info(nodes[0].input[0], onnx.TensorProto.BOOL, [1])
    inputs = [*model.graph.input, condition]
    graph = helper.make_graph(nodes, "merged", inputs, model.graph.output, model.graph.initializer)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


@pytest.mark.parametrize(("carried", "swapped"), [(False, False), (True, True)])
def test_caches_of_a_decoder_with_branches_grow(carried: bool, swapped: bool) -> None:
    options = {"carried": True, "shapes": FIRST} if carried else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with syclsched.compile(merged(MODEL, swapped), devices="cpu", autotune=False, **options) as compiled:
            name = compiled.inputs[-1].name
            for prompt in (3, 5):
                reference, past = Reference(), empty_caches()
                for n, each in enumerate(parts([prompt, *[1] * 70])):
                    wanted = reference(each)
                    condition = {name: [(n == 0) is swapped]}
                    found = compiled({**each, **condition, **({} if carried else past)})
                    for output in found:
                        np.testing.assert_allclose(found[output], wanted[output], rtol=1e-3, atol=1e-4)
                    past = past if carried else following(past, found)
                if carried:
                    compiled.reset()
            assert len(compiled.kept_shapes) == 4  # the prompts, 64 and 128 tokens


def appending(*nodes: Any, more: Any = None, dtypes: Any = None) -> Any:
    """Return a model that appends rows to a past whose length is unknown from the other inputs."""
    nodes = (node("Concat", ["past", "x"], ["present"], "append", axis=1), *nodes)
    inputs, constants = {"past": (2, "P", 3), "x": (2, "S", 3), **(more or {})}, {"a1": np.array([1])}
    model = model_of(nodes, inputs, ["present", "y"], constants, opset=18, dtypes=dtypes)
    dimension = model.graph.output[0].type.tensor_type.shape
    for each in (2, "P + S", 3):
        dimension.dim.add(**({"dim_value": each} if isinstance(each, int) else {"dim_param": each}))
    return model


def test_a_branch_that_reads_no_past_does_not_grow() -> None:
    model = merged(appending(node("ReduceSum", ["present", "a1"], ["y"])), False)
    session = session_of(model)
    with warnings.catch_warnings(), syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        warnings.simplefilter("error")
        for _ in range(2):
            past = np.ones((2, 1, 3), np.float32)
            for n in range(70):
                x = RANDOM.standard_normal((2, 2, 3)).astype(np.float32)
                given = {"past": past, "x": x, "use_cache_branch": np.array([n > 0])}
                found, (present, y) = compiled(given), session.run(None, given)
                np.testing.assert_array_equal(found["present"], present)
                np.testing.assert_allclose(found["y"], y, rtol=1e-4, atol=1e-4)
                past = found["present"]
        assert len(compiled.kept_shapes) == 4  # without a past, 64, 128 and 256


@pytest.mark.parametrize("carried", [False, True])
def test_a_past_with_a_length_given_by_name_only(carried: bool) -> None:
    model = appending(node("ReduceSum", ["present", "a1"], ["y"]))
    shapes = {"shapes": {"P": 0}} if carried else {}
    past = np.zeros((2, 0, 3), np.float32)
    with syclsched.compile(model, devices="cpu", autotune=False, carried=carried, **shapes) as compiled:
        for _ in range(70):
            x = RANDOM.standard_normal((2, 2, 3)).astype(np.float32)
            whole = np.concatenate([past, x], 1)
            found = compiled({"x": x} if carried else {"x": x, "past": past})
            np.testing.assert_allclose(found["y"], whole.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)
            past = whole if carried else found["present"]
            np.testing.assert_array_equal(past, whole)
        assert len(compiled.kept_shapes) == 4  # nothing, 64, 128 and 256
        if carried:
            np.testing.assert_array_equal(compiled.carried()["past"], past)


@pytest.mark.parametrize("carried", [False, True])
def test_nodes_that_cannot_grow_are_planned_for_each_extent(carried: bool) -> None:
    last = node("ArgMax", ["past"], ["y"], "find", axis=1, keepdims=0, select_last_index=1)
    model = appending(last, dtypes={"y": 7})
    past = np.zeros((2, 3, 3), np.float32)
    with syclsched.compile(model, devices="cpu", autotune=False, carried=carried) as compiled:
        if carried:
            compiled.reset(past=past)
        with pytest.warns(RemadeModelWarning, match="'P'.*ArgMax 'find'"):
            for n in range(3):
                x = RANDOM.standard_normal((2, 1, 3)).astype(np.float32)
                found = compiled({"x": x} if carried else {"x": x, "past": past})
                np.testing.assert_array_equal(found["y"], past.shape[1] - 1 - past[:, ::-1].argmax(1))
                past = np.concatenate([past, x], 1)
                assert len(compiled.kept_shapes) == n + 1


def test_growing_cache_and_values_that_decide_extents() -> None:
    nodes = [node("Tile", ["x", "n"], ["tiled"]), node("ReduceSum", ["tiled", "a1"], ["y"])]
    model = appending(*nodes, more={"n": (3,)}, dtypes={"n": 7})
    past = np.zeros((2, 3, 3), np.float32)
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled, pytest.warns(RemadeModelWarning):
        for times in (3, 2, 4, 3):
            x = RANDOM.standard_normal((2, 1, 3)).astype(np.float32)
            found = compiled({"x": x, "past": past, "n": np.array([1, times, 1])})
            np.testing.assert_allclose(found["y"], times * x, rtol=1e-5)
            past = found["present"]


def test_results_that_are_changed_or_cut_are_the_next_past() -> None:
    model = appending(node("ReduceSum", ["present", "a1"], ["y"]))
    past = RANDOM.standard_normal((2, 5, 3)).astype(np.float32)
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        for change in (lambda each: each * 2, lambda each: each[:, 1:], lambda each: each[:, ::-1], lambda each: each):
            x = RANDOM.standard_normal((2, 40, 3)).astype(np.float32)
            found = compiled({"x": x, "past": past})
            np.testing.assert_array_equal(found["present"], np.concatenate([past, x], 1))
            past = change(found["present"])


def test_inputs_that_do_not_fit_a_past_are_refused() -> None:
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as compiled:
        (given,) = parts([3])
        past = following(empty_caches(), compiled({**given, **empty_caches()}))
        short = {**tokens_of([[1]], 3), "attention_mask": np.ones((1, 5), np.int64)}
        with warnings.catch_warnings(), pytest.raises((ArgumentError, syclsched.errors.ModelError)):
            warnings.simplefilter("ignore", RemadeModelWarning)
            compiled({**short, **past})
        check_loop(compiled, [3, 1, 1])
