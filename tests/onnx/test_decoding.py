# SPDX-License-Identifier: Apache-2.0
"""Decoding token by token: resident caches, one plan for all tokens, and the tokens of ONNX Runtime."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.opened import two_memories, with_own_memory

import syclsched
from syclsched.errors import ArgumentError, ExecutionError, ForkedError, OpenDimensionError
from syclsched.onnx import CompiledModel
from syclsched.testing import faults

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")
runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import TensorProto, helper  # noqa: E402

from syclsched.testing.decoder_model import decoder_model  # noqa: E402

pytestmark = pytest.mark.sycl

LAYERS, GROUPS, SIZE, ROOM, VOCABULARY = 2, 2, 16, 24, 40
MODEL = decoder_model(LAYERS, 4 * SIZE, 4, groups=GROUPS, vocabulary=VOCABULARY, positions=ROOM)


@pytest.fixture(scope="module")
def decoder() -> Iterator[CompiledModel]:
    shapes = {"past_sequence_length": ROOM}
    with syclsched.compile(MODEL, devices="cpu", shapes=shapes, carried=True, autotune=False) as compiled:
        yield compiled


def step(ids: Any, lengths: Any) -> dict[str, Any]:
    """Return the inputs for new tokens, with the lengths of the sequences including them."""
    return {
        "input_ids": np.asarray(ids, np.int64),
        "seqlens_k": np.asarray(lengths, np.int32) - 1,
        "total_sequence_length": np.array(max(lengths), np.int32),
    }


class ReferenceDecoder:
    """ONNX Runtime with caches that the host passes from call to call."""

    def __init__(self, batch: int, model: Any = MODEL) -> None:
        self._session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        shape = batch, GROUPS, ROOM, SIZE
        self._past = {
            f"past_key_values.{n}.{kind}": np.zeros(shape, np.float32)
            for n in range(LAYERS)
            for kind in ("key", "value")
        }

    def __call__(self, inputs: dict[str, Any]) -> Any:
        logits, *present = self._session.run(None, {**inputs, **self._past})
        self._past = dict(zip(self._past, present, strict=True))
        return logits


def decoded(call: Any, prompt: Any, lengths: list[int], count: int) -> tuple[list[list[int]], list[Any]]:
    """Return the greedy tokens after prompts of some lengths, and the logits."""
    logits = call(step(prompt, lengths))
    last = logits[np.arange(len(lengths)), np.array(lengths) - 1]
    tokens, seen = [last.argmax(-1)], [last]
    for _ in range(count - 1):
        lengths = [length + 1 for length in lengths]
        last = call(step(tokens[-1][:, None], lengths))[:, 0]
        tokens.append(last.argmax(-1))
        seen.append(last)
    return np.stack(tokens, 1).tolist(), seen


@pytest.mark.parametrize(
    ("prompt", "lengths"),
    [([[3, 1, 4, 1, 5]], [5]), ([[9]], [1]), ([[2, 6, 5, 3], [5, 8, 0, 0]], [4, 2])],
    ids=["a prompt", "one token", "two lengths"],
)
def test_tokens_equal_those_of_onnx_runtime(decoder: CompiledModel, prompt: Any, lengths: list[int]) -> None:
    decoder.reset()
    found, logits = decoded(lambda given: decoder(given)["logits"], prompt, lengths, 15)
    wanted, expected = decoded(ReferenceDecoder(len(lengths)), prompt, lengths, 15)
    assert found == wanted
    np.testing.assert_allclose(logits, expected, atol=1e-4)


@pytest.mark.parametrize("buckets", [(1, 4, 16), 5, 32], ids=str)
def test_prompts_of_any_length_share_the_plan_of_their_bucket(buckets: Any) -> None:
    given = {"sequence": buckets}
    shapes = {"past_sequence_length": ROOM, "batch": 1}
    with syclsched.compile(
        MODEL, devices="cpu", shapes=shapes, carried=True, buckets=given, autotune=False
    ) as bucketed:
        for length in (3, 7, 1, 2, 16):
            bucketed.reset()
            prompt = [[*range(3, 3 + length)]]
            found, logits = decoded(lambda given: bucketed(given)["logits"], prompt, [length], 6)
            wanted, expected = decoded(ReferenceDecoder(1), prompt, [length], 6)
            assert found == wanted
            np.testing.assert_allclose(logits, expected, atol=1e-4)
        planned = len(bucketed.kept_shapes)
        assert planned <= 4
        bucketed.reset()  # a text in parts, the last of which ends at the end of the cache
        other = ReferenceDecoder(1)
        for begin, end in ((0, 2), (2, 3), (3, 9), (9, 20), (20, ROOM)):
            tokens = [[*range(begin, end)]]
            expected = other(step(tokens, [end]))
            np.testing.assert_allclose(bucketed(step(tokens, [end]))["logits"], expected, atol=1e-4)
        with pytest.raises(ArgumentError, match=f"room for {ROOM} tokens"):
            bucketed(step([[3, 4]], [ROOM + 1]))


def test_prompts_of_several_lengths_in_a_bucket() -> None:
    given, shapes = {"sequence": (1, 8)}, {"past_sequence_length": ROOM}
    with syclsched.compile(
        MODEL, devices="cpu", shapes=shapes, carried=True, buckets=given, autotune=False
    ) as bucketed:
        prompt, lengths = [[2, 6, 5, 3], [5, 8, 0, 0]], [4, 2]
        found, logits = decoded(lambda given: bucketed(given)["logits"], prompt, lengths, 15)
        wanted, expected = decoded(ReferenceDecoder(2), prompt, lengths, 15)
        assert found == wanted
        np.testing.assert_allclose(logits, expected, atol=1e-4)
        assert len(bucketed.kept_shapes) == 2


def test_carried_values_have_no_buckets() -> None:
    for name in ("past_sequence_length", "batch"):
        with pytest.raises(ArgumentError, match=f"{name}.* carried value .* sequence"):
            syclsched.compile(MODEL, devices="cpu", carried=True, buckets={name: 8})


def test_caches_stay_in_memory_that_the_host_cannot_reach() -> None:
    platform = with_own_memory(syclsched.discover("cpu"), "cpu")
    given: dict[str, Any] = {"carried": True, "autotune": False, "policy": "single:cpu"}
    with syclsched.compile(MODEL, platform, shapes={"past_sequence_length": ROOM}, **given) as decoder:
        found, logits = decoded(lambda inputs: decoder(inputs)["logits"], [[3, 1, 4]], [3], 8)
        wanted, expected = decoded(ReferenceDecoder(1), [[3, 1, 4]], [3], 8)
        assert found == wanted
        np.testing.assert_allclose(logits, expected, atol=1e-4)
        plan = decoder.plan
        assert len(plan.residents) == 2 * LAYERS
        assert {each.kind for each in plan.memory if each.resident} == {"device"}
        copied = {use.array for _, each in plan.instructions() if each.kind == "copy" for use in each.uses}
        assert not copied & set(plan.residents)
        # Caches are read and set back unchanged.
        caches = decoder.carried()
        decoder.reset(**caches)
        again = decoder(step([[found[0][-1]]], [11]))["logits"]
        decoder.reset(**caches)
        assert np.array_equal(decoder(step([[found[0][-1]]], [11]))["logits"], again)


def test_a_prompt_continues_the_cached_tokens(decoder: CompiledModel) -> None:
    decoder.reset()
    whole = decoder(step([[3, 1, 4, 1, 5, 9, 2]], [7]))["logits"]
    decoder(step([[3, 1, 4]], [3]))
    rest = decoder(step([[1, 5, 9, 2]], [7]))["logits"]
    np.testing.assert_allclose(rest, whole[:, 3:], atol=1e-5)


def test_one_plan_and_the_same_memory_serve_all_tokens(decoder: CompiledModel) -> None:
    decoder.reset()
    decoder(step([[1, 2]], [2]))
    decoder(step([[3]], [3]))
    plans, resident = decoder.kept_shapes, decoder.plan.residents
    assert set(decoder(step([[3]], [4]))) == {"logits"}
    for length in range(5, ROOM + 1):
        decoder(step([[3]], [length]))
    assert decoder.kept_shapes == plans
    assert len(resident) == 2 * LAYERS, "caches are updated in place"
    # The work does not depend on the capacity: the tasks write and read rows, and copy no cache.
    assert not [task.name for task in decoder.graph.tasks if task.name.startswith("carry")]


def test_a_full_cache_is_refused_and_a_new_sequence_begins(decoder: CompiledModel) -> None:
    decoder.reset()
    decoder(step([[1, 2]], [2]))
    first = decoder(step([[3]], [3]))["logits"]
    for _ in range(2):
        with pytest.raises(ArgumentError, match=f"room for {ROOM} tokens.*larger extent"):
            decoder(step([[3]], [ROOM + 1]))
    decoder(step([[1, 2]], [2]))
    assert np.array_equal(decoder(step([[3]], [3]))["logits"], first)
    decoder(step([[0] * (ROOM - 3)], [ROOM]))  # several tokens up to the capacity
    with pytest.raises(syclsched.errors.ModelError, match=f"room for {ROOM} tokens.*larger extent"):
        decoder(step([[0] * (ROOM + 1)], [ROOM + 1]))


def test_caches_are_set(decoder: CompiledModel) -> None:
    """A cache computed by another program is the beginning of a sequence."""
    other = ReferenceDecoder(1)
    other(step([[3, 1, 4]], [3]))
    decoder.reset(**other._past)
    expected = other(step([[1]], [4]))
    np.testing.assert_allclose(decoder(step([[1]], [4]))["logits"], expected, atol=1e-4)
    with pytest.raises(ArgumentError, match=r"'x' is not carried.*past_key_values\.0\.key"):
        decoder.reset(x=1)


def test_other_batches_need_a_reset(decoder: CompiledModel) -> None:
    decoder.reset()
    decoder(step([[1, 2]], [2]))
    with pytest.raises(ArgumentError, match=r"reset"):
        decoder(step([[1, 2], [3, 4]], [2, 2]))
    decoder.reset()
    assert decoder(step([[1, 2], [3, 4]], [2, 2]))["logits"].shape == (2, 2, VOCABULARY)


def test_timing_keeps_the_carried_values(decoder: CompiledModel) -> None:
    decoder.reset()
    decoder(step([[1, 2]], [2]))
    expected = decoder(step([[3]], [3]))["logits"]
    assert decoder.times(step([[5]], [3]), repeat=2)
    assert np.array_equal(decoder(step([[3]], [3]))["logits"], expected)
    for refused in (decoder.start, lambda given: next(decoder.stream([given]))):
        with pytest.raises(ArgumentError, match="each call begins with what the last one leaves"):
            refused(step([[3]], [4]))


def test_values_are_lost_with_a_failed_call(decoder: CompiledModel) -> None:
    decoder.reset()
    decoder(step([[1, 2]], [2]))
    with faults.inject(faults.fail_submission(3)), pytest.raises(ExecutionError):
        decoder(step([[3]], [3]))
    with pytest.raises(ExecutionError, match=r"Call reset\(\)"):
        decoder(step([[3]], [3]))
    decoder.reset()
    decoder(step([[1, 2]], [2]))


@pytest.mark.parametrize("stage", ["making tasks", "building kernels"])
def test_a_call_that_ends_before_its_run_keeps_the_values(stage: str) -> None:
    """Ctrl-C, or an error of the user's progress function, during planning for new shapes."""
    ended: list[str] = []

    def end(_: int, __: int, step: str) -> None:
        if step.startswith(stage) and step not in ended:
            ended.append(step)
            raise KeyboardInterrupt

    model, given = accumulator(True), {"carried": True, "autotune": False, "shapes": {"length": 0}, "progress": end}
    with syclsched.compile(model, devices="cpu", **given) as append:
        append.reset(past=[1, 2])
        with pytest.raises(KeyboardInterrupt):
            append(np.ones(3, np.float32))
        assert ended and append.carried()["past"].tolist() == [1, 2]
        assert float(append(np.ones(3, np.float32))["y"]) == 6
        ended.clear()
        with pytest.raises(KeyboardInterrupt):
            append(np.ones(3, np.float32))
        assert float(append(np.ones(3, np.float32))["y"]) == 9


def accumulator(growing: bool = False, size: int = 3) -> Any:
    """Return a model that adds its input to a state, or appends it."""
    operator = helper.make_node("Concat", ["past", "x"], ["present"], axis=0) if growing else None
    nodes = [
        operator or helper.make_node("Add", ["past", "x"], ["present"]),
        helper.make_node("ReduceSum", ["present"], ["y"], keepdims=0),
    ]
    shape = ["length"] if growing else [size]
    graph = helper.make_graph(
        nodes,
        "accumulator",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [size]),
            helper.make_tensor_value_info("past", TensorProto.FLOAT, shape),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, []),
            helper.make_tensor_value_info("present", TensorProto.FLOAT, None),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("growing", [False, True])
def test_any_state_is_carried(growing: bool, apart: bool) -> None:
    shapes = {"length": 0} if growing else None
    model, platform = accumulator(growing), syclsched.discover("cpu")
    platform = with_own_memory(platform, "cpu") if apart else platform
    given: dict[str, Any] = {"carried": {"present": "past"}, "autotune": False, "policy": "single:cpu"}
    with syclsched.compile(model, platform, shapes=shapes, **given) as add:
        for _ in range(2):
            assert [float(add(np.full(3, n, np.float32))["y"]) for n in (1, 2, 3)] == [3, 9, 18]
            add.reset()
        add.reset(past=np.full(3, 5, np.float32))
        assert float(add(np.ones(3, np.float32))["y"]) == 18


def test_wrong_pairs_are_refused() -> None:
    for carried, message in (
        ({"present": "x1"}, "no input 'x1'"),
        ({"z": "past"}, "no output 'z'"),
        ({"present": "past", "y": "past"}, "two outputs"),
    ):
        with pytest.raises(ArgumentError, match=message):
            syclsched.compile(accumulator(), devices="cpu", carried=carried)
    with (
        syclsched.compile(accumulator(), devices="cpu") as plain,
        pytest.raises(ArgumentError, match="carries nothing"),
    ):
        plain.reset()


def standard_decoder(mode: str) -> Any:
    """Return attention of opset 24 over caches that TensorScatter fills."""
    nodes = [
        helper.make_node("TensorScatter", [f"past_{n}", n, "before"], [f"present_{n}"], mode=mode) for n in ("k", "v")
    ]
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1}
    given = ["q", "present_k", "present_v", "", "", "", "length"]
    nodes.append(helper.make_node("Attention", given, ["y"], **heads))
    sizes = {"q": ["count", 32], "k": ["count", 16], "v": ["count", 16], "past_k": [12, 16], "past_v": [12, 16]}
    whole = [helper.make_tensor_value_info(name, TensorProto.INT64, [2]) for name in ("before", "length")]
    made = [("y", ["count", 32]), ("present_k", [12, 16]), ("present_v", [12, 16])]
    graph = helper.make_graph(
        nodes,
        "standard",
        [*(helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, *size]) for n, size in sizes.items()), *whole],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, *size]) for name, size in made],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


def test_attention_of_opset_24_is_over_caches_in_place() -> None:
    random, counts = np.random.default_rng(0), np.array([5, 3])
    whole = {
        n: random.standard_normal((2, 9, width)).astype(np.float32) for n, width in (("q", 32), ("k", 16), ("v", 16))
    }
    with syclsched.compile(standard_decoder("linear"), devices="cpu", carried=True, autotune=False) as step_by_step:
        prompt = {name: value[:, :5] for name, value in whole.items()}
        step_by_step({**prompt, "before": np.zeros(2, np.int64), "length": np.array([5, 5])})
        for turn in range(4):
            at = counts + turn
            rows = {name: value[[0, 1], at][:, None] for name, value in whole.items()}
            found = step_by_step({**rows, "before": at, "length": at + 1})["y"]
            for sample in range(2):
                last = at[sample] + 1
                q, k, v = (whole[n][sample, :last].reshape(last, -1, 8).astype(float) for n in "qkv")
                scores = np.einsum("hd,jhd->hj", q[-1], k.repeat(2, 1)) / np.sqrt(8)
                weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
                wanted = np.einsum("hj,jhd->hd", weights, v.repeat(2, 1)).reshape(-1)
                np.testing.assert_allclose(found[sample, 0], wanted, atol=1e-5)
        assert len(step_by_step.plan.residents) == 2
        with pytest.raises(ArgumentError, match="room for 12 tokens"):
            step_by_step({**rows, "before": np.array([12, 3]), "length": np.array([13, 4])})


@pytest.mark.parametrize("policy", ["auto", "round-robin"])
@pytest.mark.parametrize("memories", [1, 2])
def test_two_devices_make_the_same_tokens(memories: int, policy: str) -> None:
    """For every placement of layers and caches: caches in a shared memory are updated in place, others are copied."""
    platform = two_memories() if memories == 2 else syclsched.discover("cpu", sub_devices=2)
    shapes = {"past_sequence_length": ROOM}
    given: dict[str, Any] = {"shapes": shapes, "carried": True, "autotune": False, "policy": policy}
    with syclsched.compile(MODEL, platform, **given) as decoder:
        found, _ = decoded(lambda inputs: decoder(inputs)["logits"], [[3, 1, 4]], [3], 8)
        used = {each.device for each in decoder.plan.schedule.assignments}
        assert policy == "auto" or {"cpu.0", "cpu.1"} <= used
        assert memories == 2 or len(decoder.plan.residents) == 2 * LAYERS
    assert found == decoded(ReferenceDecoder(1), [[3, 1, 4]], [3], 8)[0]


def test_a_call_longer_than_its_time_slice_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread takes over, with the carried values, which are no arguments of calls."""
    size = 1 << 21
    with syclsched.compile(accumulator(size=size), devices="cpu", carried=True, autotune=False) as add:
        one = np.ones(size, np.float32)
        assert [float(add(one)["y"]) / size for _ in range(3)] == [1, 2, 3]
        for name in ("SLICE_S", "LONGEST_S"):
            monkeypatch.setattr(f"syclsched.execution.replay.native_run_cache.{name}", 0.0)
        assert [float(add(one)["y"]) / size for _ in range(3)] == [4, 5, 6]


def model_of(nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], kinds: dict[str, int]) -> Any:
    """Return a model of these nodes; ``kinds`` has the dtypes of inputs and outputs other than float32."""

    def declared(values: dict[str, Any]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
            for name, shape in values.items()
        ]

    graph = helper.make_graph(nodes, "states", declared(inputs), declared(outputs))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


@pytest.mark.parametrize("apart", [False, True])
def test_closed_model_has_carried_values_and_plan(apart: bool) -> None:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xs"]
    outputs = [helper.make_tensor_value_info("t", TensorProto.FLOAT, [3])]
    graph = helper.make_graph([helper.make_node("Add", ["x", "s"], ["t"])], "sums", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    platform = syclsched.discover("cpu")
    platform = with_own_memory(platform, "cpu") if apart else platform
    with syclsched.compile(model, platform, carried={"t": "s"}, autotune=False) as compiled:
        for _ in range(2):
            compiled(np.ones(3, np.float32))
    assert compiled.carried()["s"].tolist() == [2.0, 2.0, 2.0]
    assert compiled.plan.expected_s > 0


def test_a_value_passes_from_one_carried_input_to_another() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["n0"]),
        helper.make_node("Unsqueeze", ["s0", "axis"], ["n1"]),
        helper.make_node("Add", ["s0", "s1"], ["y"]),
    ]
    inputs = {"x": [4], "factor": [4], "s0": [4], "s1": [1, 4], "axis": [1]}
    model = model_of(nodes, inputs, {"y": [1, 4], "n0": [4], "n1": [1, 4]}, {"axis": TensorProto.INT64})
    del model.graph.input[-1]
    model.graph.initializer.append(helper.make_tensor("axis", TensorProto.INT64, [1], [0]))
    with syclsched.compile(model, devices="cpu", carried={"n0": "s0", "n1": "s1"}, autotune=False) as shift:
        ones = np.ones(4, np.float32)
        found = [float(shift(np.full(4, n, np.float32), ones)["y"][0, 0]) for n in (1, 2, 3, 4)]
    assert found == [0, 1, 3, 5]


@pytest.mark.parametrize("as_output", [False, True])
def test_cache_read_through_a_view_is_not_overwritten(as_output: bool) -> None:
    nodes = [
        helper.make_node("TensorScatter", ["past", "rows", "before"], ["present"], name="write"),
        helper.make_node("Reshape", ["past", "shape"], ["flat"]),
        helper.make_node("ReduceSum", ["flat"], ["y"], keepdims=0, name="total"),
    ]
    kinds = {"before": TensorProto.INT64}
    outputs: dict[str, Any] = {"present": [1, 5, 3], "y": []} | ({"flat": [15]} if as_output else {})
    model = model_of(nodes, {"past": [1, 5, 3], "rows": [1, 1, 3], "before": [1]}, outputs, kinds)
    model.graph.initializer.append(helper.make_tensor("shape", TensorProto.INT64, [1], [15]))
    given = np.ones((1, 1, 3), np.float32), np.zeros(1, np.int64)
    with (
        syclsched.compile(model, devices="cpu", carried={"present": "past"}, autotune=False) as compiled,
        pytest.raises(syclsched.errors.ModelError, match=r"write.*'past' in place, which .*(total|'flat').*reads, too"),
    ):
        compiled(*given)


def test_a_carried_input_is_an_index() -> None:
    nodes = [helper.make_node("Gather", ["table", "at"], ["y"]), helper.make_node("Add", ["at", "step"], ["next"])]
    kinds = dict.fromkeys(("at", "step", "next"), TensorProto.INT64)
    model = model_of(nodes, {"table": [9], "step": [1], "at": [1]}, {"y": [1], "next": [1]}, kinds)
    with syclsched.compile(model, devices="cpu", carried={"next": "at"}, autotune=False) as walk:
        table, by_two = np.arange(9, dtype=np.float32), np.array([2])
        assert [float(walk(table, by_two)["y"][0]) for _ in range(4)] == [0, 2, 4, 6]


@pytest.mark.parametrize("rooms", [(4, 8), (8, 4)])
def test_the_smallest_of_several_caches_is_the_limit(rooms: tuple[int, int]) -> None:
    nodes = [
        helper.make_node("TensorScatter", [f"past{n}", "rows", "before"], [f"present{n}"], name=f"write{n}")
        for n in (0, 1)
    ]
    nodes.append(helper.make_node("Gather", ["table", "before"], ["y"]))
    inputs: dict[str, Any] = {"rows": [1, 1, 3], "before": [1], "table": [20]}
    caches = {f"past{n}": [1, room, 3] for n, room in enumerate(rooms)}
    outputs: dict[str, Any] = {"y": [1]} | {f"present{n}": [1, room, 3] for n, room in enumerate(rooms)}
    model = model_of(nodes, inputs | caches, outputs, {"before": TensorProto.INT64})
    pairs = {"present0": "past0", "present1": "past1"}
    with syclsched.compile(model, devices="cpu", carried=pairs, autotune=False) as compiled:
        given = np.ones((1, 1, 3), np.float32), np.array([3]), np.arange(20, dtype=np.float32)
        assert compiled(*given)["y"][0] == 3
        for wrong in (4, -1):
            with pytest.raises(ArgumentError, match=r"room for 4 tokens.*0 to 3 are allowed"):
                compiled(given[0], np.array([wrong]), given[2])


@pytest.mark.parametrize("is_new", [True, False])
def test_reset_converts_dtypes_and_refuses_wrong_values(is_new: bool) -> None:
    one = np.ones(3, np.float32)
    with syclsched.compile(accumulator(), devices="cpu", carried=True, autotune=False) as add:
        if not is_new:
            add(one)
        for value in ([5.0, 5, 5], np.full(3, 5.0), np.full(3, 5)):
            add.reset(past=value)
            assert [float(add(one)["y"]) for _ in range(2)] == [18, 21]
        assert add.plan.residents, "values given are put where the plan updates them in place"
        for wrong, message in (
            (np.ones(4), r"'past'.*shape \(4,\), and the model wants \(3,\)"),
            (["a", "b", "c"], "'past'.*converted to float32"),
            (np.ones(3, complex), "'past'.*converted to float32"),
        ):
            with pytest.raises(ArgumentError, match=message):
                add.reset(past=wrong)
        assert float(add(one)["y"]) == 24


@pytest.mark.parametrize("growing", [False, True])
def test_a_state_of_bfloat16_is_carried(growing: bool) -> None:
    narrow = pytest.importorskip("ml_dtypes", reason="NumPy lacks bfloat16").bfloat16
    model = accumulator(growing)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    with syclsched.compile(model, devices="cpu", carried=True, autotune=False) as add:
        for value in (np.full(3, 5, narrow), np.full(3, 5.001)):
            add.reset(past=value)
            assert [float(add(np.ones(3, narrow))["y"]) for _ in range(2)] == [18, 21]


def test_a_state_of_unknown_extent_is_asked_for() -> None:
    with (
        syclsched.compile(accumulator(True), devices="cpu", carried=True, autotune=False) as append,
        pytest.raises(OpenDimensionError, match="0 for a carried value that begins empty"),
    ):
        append(np.ones(3, np.float32))


def test_value_of_any_fitting_shape_before_the_first_call() -> None:
    one = np.ones(3, np.float32)
    for shapes in ({"length": 0}, None):
        with syclsched.compile(accumulator(True), devices="cpu", shapes=shapes, carried=True, autotune=False) as append:
            append.reset(past=np.full(7, 2))
            assert [float(append(one)["y"]) for _ in range(2)] == [17, 20]


def test_loading_and_timing_keep_carried_values_of_changing_shape() -> None:
    one, shapes = np.ones(3, np.float32), {"length": 0}
    with syclsched.compile(accumulator(True), devices="cpu", shapes=shapes, carried=True, autotune=False) as append:
        assert append.times(one, repeat=1)
        append(one)
        append.load()
        assert append.times(one, repeat=1)
        assert float(append(one)["y"]) == 6
        append.load()
        assert float(append(one)["y"]) == 9


def test_a_value_that_some_calls_resize_is_the_same_for_all() -> None:
    """A plan that updates the value in place continues with the value that other plans left."""
    nodes = [
        helper.make_node("Slice", ["past", "one", "end"], ["rest"]),
        helper.make_node("Concat", ["rest", "x"], ["present"], axis=0),
        helper.make_node("ReduceSum", ["present"], ["y"], keepdims=0),
    ]
    model = model_of(nodes, {"x": ["count"], "past": ["length"]}, {"y": [], "present": ["longer"]}, {})
    for name, value in (("one", 1), ("end", 1000)):
        model.graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [1], [value]))
    with syclsched.compile(model, devices="cpu", shapes={"length": 4}, carried=True, autotune=False) as slide:
        found = [float(slide(np.full(count, 1, np.float32))["y"]) for count in (1, 1, 2, 0, 1, 1)]
    assert found == [1, 2, 4, 4, 4, 4]


def test_some_of_the_values_are_given_before_the_first_call() -> None:
    nodes = [helper.make_node("Add", [f"s{n}", "x"], [f"n{n}"]) for n in (0, 1)]
    nodes.append(helper.make_node("Sub", ["n0", "n1"], ["y"]))
    inputs = {"x": ["n"], "s0": ["n"], "s1": ["n"]}
    model = model_of(nodes, inputs, {"y": ["n"], "n0": ["n"], "n1": ["n"]}, {})
    with syclsched.compile(model, devices="cpu", carried={"n0": "s0", "n1": "s1"}, autotune=False) as compiled:
        compiled.reset(s1=[1, 2])
        assert compiled(np.ones(2, np.float32))["y"].tolist() == [-1, -2]
        with pytest.raises(ArgumentError, match=r"'(x|s0)'.*reset"):
            compiled(np.ones(3, np.float32))
        compiled.reset(s0=[1, 2, 3])
        assert compiled(np.ones(3, np.float32))["y"].tolist() == [1, 2, 3]
        with pytest.raises(ArgumentError, match=r"the model wants \(n=2,\)"):
            compiled.reset(s0=[1, 2], s1=[1, 2, 3])


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_forked_during_a_call_is_refused() -> None:
    statuses: list[int] = []

    def fork(*_: object) -> None:
        if not forking or statuses:
            return
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # a second Ctrl-C ends it if it waits for a turn
            try:
                append(one)
            except ForkedError:
                os._exit(0)
            finally:
                os._exit(1)
        statuses.append(os.waitpid(child, 0)[1])

    forking, one, shapes = False, np.ones(3, np.float32), {"length": 0}
    with syclsched.compile(
        accumulator(True), devices="cpu", shapes=shapes, carried=True, autotune=False, progress=fork
    ) as append:
        append(one)
        forking = True
        assert float(append(one)["y"]) == 6
    assert statuses == [0]
