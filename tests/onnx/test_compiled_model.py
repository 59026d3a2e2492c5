# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled models: results for any shapes, several threads, streams, and refusals."""

from __future__ import annotations

import logging
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.planned_graphs import record_planned

import syclsched
from syclsched.errors import (
    ArgumentError,
    ExecutionError,
    HostOperatorWarning,
    OpenDimensionError,
    PolicyError,
    RemadeModelWarning,
)
from syclsched.onnx.tuning.implementations import IMPLEMENTATIONS

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

from onnx.reference import ReferenceEvaluator  # noqa: E402

pytestmark = pytest.mark.sycl

MODEL = Path(__file__).parents[2] / "examples" / "data" / "digits.onnx"


def images(batch: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((batch, 1, 8, 8), dtype=np.float32)


def expected(image: np.ndarray) -> np.ndarray:
    return ReferenceEvaluator(str(MODEL)).run(None, {"image": image})[0]


@pytest.fixture(scope="module")
def compiled():
    with syclsched.compile(MODEL, devices="cpu", autotune=False, keep=3) as made:
        yield made


def test_all_forms_of_inputs_have_equal_results(compiled) -> None:
    image = images(2)
    for found in (compiled(image), compiled({"image": image}), compiled(image=image), compiled(image.tolist())):
        np.testing.assert_allclose(found["probabilities"], expected(image), atol=1e-5)


def test_inputs_and_outputs_are_described(compiled) -> None:
    (image,), (scores,) = compiled.inputs, compiled.outputs
    assert (image.name, image.dimensions) == ("image", ("batch", 1, 8, 8)) and scores.name == "probabilities"


def test_a_first_call_without_rows_chooses_nothing_for_later_ones() -> None:
    """Calls with rows took what was chosen for none, and timed nothing."""
    steps: list[str] = []
    with syclsched.compile(MODEL, devices="cpu", progress=lambda done, total, what: steps.append(what)) as compiled:
        assert compiled(images(0))["probabilities"].shape == (0, 10)
        steps.clear()
        np.testing.assert_allclose(compiled(images(5))["probabilities"], expected(images(5)), atol=1e-5)
        assert "timing implementations" in steps
        steps.clear()
        np.testing.assert_allclose(compiled(images(6))["probabilities"], expected(images(6)), atol=1e-5)
        assert "timing implementations" not in steps


def test_every_step_of_a_first_call_is_reported(caplog) -> None:
    told: list[tuple[int, int, str]] = []
    with (
        caplog.at_level(logging.INFO, "syclsched"),
        syclsched.compile(MODEL, devices="cpu", progress=lambda *step: told.append(step)) as made,
    ):
        made(images(2))
        count = len(told)
        made(images(2))
        assert len(told) == count
    steps = [what for _, total, what in told if not total]
    first = ["making tasks of the model", "timing implementations", "planning", "building kernels and binding the plan"]
    assert steps[:4] == first
    assert all(any(step in record.getMessage() for record in caplog.records) for step in steps)


def test_other_shapes_take_the_choices_of_the_first() -> None:
    """Before, each new shape was timed, and run several times, before its first call returned."""
    told: list[str] = []
    with syclsched.compile(MODEL, devices="cpu", progress=lambda *step: told.append(step[2])) as made:
        made(images(1))
        assert "timing implementations" in told
        first = {each.task: each.implementation for each in made.plan.schedule.assignments}
        others = []
        for count in (3, 2):
            told.clear()
            np.testing.assert_allclose(made(images(count))["probabilities"], expected(images(count)), atol=1e-5)
            others.append({each.task: each.implementation for each in made.plan.schedule.assignments})
            assert "making tasks of the model" in told
            assert "timing implementations" not in told
            assert told.count("planning") == told.count("building kernels and binding the plan") == 1
        assert others[0] == others[1]
        changed = [task for task in first if others[0][task] != first[task]]
        assert all((first[task], others[0][task]) == ("python", "opencl-c") for task in changed)


def test_errors_of_open_dimensions_name_them() -> None:
    with pytest.raises(OpenDimensionError, match="--shape batch=1"):
        syclsched.onnx.load(MODEL).full_shapes()


def test_ten_sizes_in_a_row_are_right_and_few_are_kept(compiled) -> None:
    for batch in (*range(1, 11), 10, 9):
        np.testing.assert_allclose(compiled(images(batch))["probabilities"], expected(images(batch)), atol=1e-5)
    assert [shapes["image"][0] for shapes in compiled.kept_shapes] == [8, 10, 9]


def test_weights_are_shared_by_graphs_of_different_sizes() -> None:
    model = syclsched.onnx.load(MODEL)
    one, two = (model.specialised({"image": (n, 1, 8, 8)}).graph for n in (1, 2))
    constants = [{id(c) for task in graph.tasks for c in task.constants.values()} for graph in (one, two)]
    assert constants[0] == constants[1] and len(constants[0]) >= 8


def test_threads_get_the_results_of_their_own_inputs(compiled) -> None:
    given = [images(1 + seed % 2, seed) for seed in range(12)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda image: compiled(image)["probabilities"], given))
    for image, probabilities in zip(given, found, strict=True):
        np.testing.assert_allclose(probabilities, expected(image), atol=1e-5)


def test_streams_keep_order_with_other_shapes(compiled) -> None:
    given = [images(1 + seed // 3, seed) for seed in range(7)]
    found = [outputs["probabilities"] for outputs in compiled.stream(given, in_flight=2)]
    for image, probabilities in zip(given, found, strict=True):
        np.testing.assert_allclose(probabilities, expected(image), atol=1e-5)


def test_report_and_times_name_the_operators(compiled) -> None:
    compiled(images(1))
    assert {"Conv 'conv1'", "Relu 'relu1'"} <= {
        part for each in compiled.report.operators for part in each.operator.split(" + ")
    }
    assert not compiled.report.on_host
    assert {each.task for each in compiled.times(images(1), repeat=2)} == {t.name for t in compiled.graph.tasks}
    assert compiled.peak_bytes > 0


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "no value"),
        ({"picture": images(1)}, "no value is given for image, and there is no input picture"),
        ({"image": images(1), "more": images(1)}, "no input more"),
        ({"image": images(1).astype(np.float64)}, "float64"),
        ({"image": images(1)[:, :, :7]}, "the model wants"),
        ({"image": images(1)[0]}, "the model wants"),
        ({"image": [["a"]]}, "no array of float32"),
    ],
)
def test_wrong_inputs_are_refused_before_anything_runs(compiled, inputs, said) -> None:
    with pytest.raises(ArgumentError, match=said):
        compiled(inputs)


def test_a_value_for_an_initialiser_is_refused(compiled) -> None:
    name = onnx.load(MODEL).graph.initializer[0].name
    with pytest.raises(ArgumentError, match=f"no input {name}") as caught:
        compiled({"image": images(1), name: np.zeros(1, np.float32)})
    assert f"has a value for {name}" in str(caught.value)


def test_shapes_of_one_extent_are_written_as_tuples() -> None:
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"])]
    with (
        syclsched.compile(small(nodes, {"x": (onnx.TensorProto.FLOAT, [16])}, {}), devices="cpu") as made,
        pytest.raises(ArgumentError, match=r"has the shape \(4,\), and the model wants \(16,\)"),
    ):
        made(np.zeros(4, np.float32))


def test_open_extents_are_named() -> None:
    with pytest.raises(OpenDimensionError, match="batch") as caught:
        _ = syclsched.onnx.load(MODEL).graph
    assert caught.value.names == ("batch",)
    assert syclsched.onnx.load(MODEL, shapes={"batch": 3}).graph.arrays
    with pytest.raises(ArgumentError, match="no open dimension"):
        syclsched.onnx.load(MODEL, shapes={"rows": 3})


def test_rewrites_can_be_switched_off_and_change_no_result() -> None:
    image = images(2)
    plain = syclsched.onnx.load(MODEL, shapes={"batch": 2}, rewrites=False)
    with syclsched.compile(plain, devices="cpu", autotune=False) as made:
        np.testing.assert_allclose(made(image)["probabilities"], expected(image), atol=1e-5)
        assert not made.report.rewrites
        assert len(made.graph) > 6


def test_implementations_can_be_left_out_by_name() -> None:
    image = images(2)
    left_out = ["onednn", "opencl-c-winograd"]
    with syclsched.compile(MODEL, devices="cpu", autotune=False, without=left_out) as made:
        np.testing.assert_allclose(made(image)["probabilities"], expected(image), atol=1e-5)
        offered = {each.name for task in made.graph.tasks if task.operation for each in task.operation.implementations}
    assert "opencl-c" in offered
    assert offered.isdisjoint(left_out)
    with pytest.raises(ArgumentError, match=r"'opencl-c-winogard'.*Did you mean 'opencl-c-winograd'"):
        syclsched.compile(MODEL, devices="cpu", without=["opencl-c-winogard"])


def test_tasks_keep_what_is_left_out_where_nothing_else_can_run() -> None:
    image = images(2)
    left_out = [name for name in IMPLEMENTATIONS if name not in {"opencl-c-groups", "opencl-c-winograd"}]
    with syclsched.compile(MODEL, devices="cpu", autotune=False, without=left_out) as made:
        np.testing.assert_allclose(made(image)["probabilities"], expected(image), atol=1e-5)
        taken = {each.implementation for each in made.plan.schedule.assignments}
    assert taken > {"opencl-c-winograd"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"without": "onednn"}, r"without: 'onednn' is one text. Give a list: \['onednn'\]"),
        ({"rewrites": "common"}, "rewrites: 'common' is one text"),
        ({"subject_to": "memory <= 1MiB"}, "subject_to: 'memory <= 1MiB' is one text"),
        ({"subject_to": [3]}, r"subject_to: expected a list of texts, got \[3\]"),
        ({"rewrites": 3}, "rewrites: expected a list of texts, got 3"),
        (
            {"rewrites": ["comon"]},
            "rewrites: there is no rewrite 'comon'. Did you mean 'common'.* There are: dead",
        ),
        ({"rewrite": 3}, "rewrite: expected a name, got a value of type int"),
        ({"progress": 3}, "progress: expected a function, True or False"),
        ({"shapes": (2, 1, 8, 8)}, "shapes: expected a mapping"),
        ({"shapes": {"batch": "2"}}, "shapes, batch: extents must be whole numbers, not '2'"),
        ({"shapes": {"image": 2}}, "shapes, image: 2 is not a shape"),
        ({"shapes": {"bach": 2}}, "Did you mean 'batch'"),
        ({"shapes": {"image": (2, 1, 8)}}, r"input 'image': it has the shape \(2, 1, 8\), and the model wants \(batch"),
        ({"shapes": {"image": (2, 1, 8, 8), "batch": 3}}, r"input 'image'.* wants \(batch=3, 1, 8, 8\)"),
        ({"without": 3}, "without: expected a list of texts, got 3"),
        ({"autotune": "no"}, "autotune: expected True or False, got 'no'"),
        ({"reuse": None}, "reuse: expected True or False, got None"),
        ({"deterministic": 2}, "deterministic: expected True or False, got 2"),
        ({"trace": "all"}, "trace: 'all' is no number of runs"),
        ({"trace": -1}, "trace: -1 is no number of runs"),
        ({"buckets": "powers of two"}, "buckets: expected a mapping"),
        ({"keep": 0}, "keep: 0 is no number"),
        ({"keep": "3"}, "keep: '3' is no number"),
        ({"carried": ["probabilities"]}, "carried: expected a mapping"),
        ({"carried": {"probabilities": "image"}}, r"has the shape \(batch, 10\), and the input 'image' takes"),
    ],
)
def test_options_of_another_kind_are_refused_by_their_names(options, said) -> None:
    with pytest.raises(ArgumentError, match=said):
        syclsched.compile(MODEL, devices="cpu", **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"policy": "hft"}, "no policy 'hft'. Did you mean 'heft'.* There are auto, heft"),
        ({"policy": "single:gpu7"}, "policy 'single:gpu7': no device 'gpu7'. The platform has cpu"),
        ({"rewrite": "splt"}, "rewrite: there is no rewrite 'splt'. Did you mean 'split'.* One of auto, none, coarsen"),
    ],
)
def test_unknown_names_of_planning_options_are_refused_before_the_first_call(options, said) -> None:
    with pytest.raises(PolicyError, match=said):
        syclsched.compile(MODEL, devices="cpu", **options)


def test_numbers_and_truth_values_of_numpy_are_taken_as_those_of_python() -> None:
    with syclsched.compile(MODEL, devices="cpu", autotune=np.False_, trace=np.int64(2)) as made:
        made(images(2))


def test_devices_in_the_place_of_a_platform_are_refused() -> None:
    with pytest.raises(ArgumentError, match="devices='cpu'"):
        syclsched.compile(MODEL, "cpu")


def test_numbers_in_lists_keep_their_values() -> None:
    nodes = [onnx.helper.make_node("Identity", ["x"], ["y"])]
    with syclsched.compile(small(nodes, {"x": (onnx.TensorProto.INT64, [2])}, {}), devices="cpu") as made:
        assert made([2.0, True])["y"].tolist() == [2, 1]
        for wrong in ([1.5, 2], ["1", "2"]):
            with pytest.raises(ArgumentError, match="no array of int64"):
                made(wrong)


def test_a_closed_model_refuses_calls() -> None:
    made = syclsched.compile(MODEL, devices="cpu", autotune=False)
    made.close()
    made.close()
    with pytest.raises(ExecutionError, match="closed"):
        made(images(1))
    with pytest.raises(ExecutionError, match="closed"), made:
        pass


def test_calls_and_further_streams_run_beside_an_open_stream() -> None:
    image = images(2, 7)
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as made:
        streams = [made.stream([image] * 3, in_flight=2) for _ in range(2)]
        found = [next(each)["probabilities"] for each in streams]
        with ThreadPoolExecutor(2) as pool:
            found += [each["probabilities"] for each in pool.map(made, [image] * 4)]
        found.append(made.start(image).result("probabilities"))
        found += [each["probabilities"] for stream in streams for each in stream]
        kept = len(made._plans.last.others)
        found += [each["probabilities"] for each in made.stream([image] * 2)]
        assert len(made._plans.last.others) == kept  # they are used again
    assert len(found) == 13
    for each in found:
        np.testing.assert_allclose(each, expected(image), atol=1e-5)


def test_a_model_with_an_open_stream_can_be_closed() -> None:
    with syclsched.compile(MODEL, devices="cpu", autotune=False) as made:
        left = made.stream([images(1, seed) for seed in range(9)], in_flight=2)
        np.testing.assert_allclose(next(left)["probabilities"], expected(images(1, 0)), atol=1e-5)
    left.close()


def embedding() -> bytes:
    nodes = [
        onnx.helper.make_node("Cast", ["ids"], ["wide"], to=onnx.TensorProto.INT64),
        onnx.helper.make_node("Gather", ["table", "wide"], ["rows"], name="embed"),
        onnx.helper.make_node("Relu", ["rows"], ["y"]),
    ]
    return small(nodes, {"ids": (onnx.TensorProto.INT32, ["n"])}, {"table": np.arange(12, dtype="f").reshape(6, 2)})


def small(nodes, inputs, constants, outputs=("y",)) -> bytes:
    graph = onnx.helper.make_graph(
        nodes,
        "small",
        [onnx.helper.make_tensor_value_info(name, *each) for name, each in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def test_indices_out_of_range_in_an_input_are_refused() -> None:
    with syclsched.compile(embedding(), devices="cpu", autotune=False) as made:
        found = made(np.array([-6, 5, 0], np.int32))["y"]
        np.testing.assert_array_equal(found, [[0, 1], [10, 11], [0, 1]])
        for wrong in (6, -7):
            with pytest.raises(
                ArgumentError, match=f"'ids': index {wrong} is out of range: Gather 'embed' picks from 6. Give -6 to 5"
            ):
                made(np.array([0, wrong, 1], np.int32))


def test_unknown_objectives_are_refused_at_once() -> None:
    with pytest.raises(PolicyError, match="latency, throughput"):
        syclsched.compile(MODEL, devices="cpu", minimize="speed")


def test_host_operators_are_in_the_report() -> None:
    det = onnx.helper.make_node("Det", ["x"], ["y"], name="volume")
    model = small([det], {"x": (onnx.TensorProto.FLOAT, [2, 2])}, {})
    with (
        pytest.warns(HostOperatorWarning, match="volume"),
        syclsched.compile(model, devices="cpu", autotune=False) as made,
    ):
        assert made(2 * np.eye(2, dtype="f"))["y"] == 4
        assert [each.operator for each in made.report.on_host] == ["Det 'volume'"]
        assert "on the host, for want of an implementation: Det 'volume'" in str(made.report)


def test_shapes_may_follow_from_several_inputs() -> None:
    names = ["start", "limit", "delta"]
    model = small(
        [onnx.helper.make_node("Range", names, ["y"])], {each: (onnx.TensorProto.INT64, []) for each in names}, {}
    )
    with syclsched.compile(model, devices="cpu", autotune=False) as made:
        for limit in (9, 12):
            given = (np.array(2), np.array(limit), np.array(3))
            assert made(*given)["y"].tolist() == list(range(2, limit, 3))


@pytest.mark.parametrize("kind", ["FLOAT", "INT64"])
def test_shapes_from_floating_point_values_warn_once(kind: str) -> None:
    nodes = [
        onnx.helper.make_node("Cast", ["n"], ["shape"], to=onnx.TensorProto.INT64),
        onnx.helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    inputs = {"n": (getattr(onnx.TensorProto, kind), [2]), "x": (onnx.TensorProto.FLOAT, [40000])}
    with (
        warnings.catch_warnings(record=True) as told,
        syclsched.compile(small(nodes, inputs, {}), devices="cpu", autotune=False) as made,
    ):
        warnings.simplefilter("always", RemadeModelWarning)
        for shape in ((2, 20000), (20000, 2), (200, 200)):  # too different for common upper bounds
            n_given = np.array(shape, "f" if kind == "FLOAT" else "int64")
            assert made({"n": n_given, "x": np.ones(40000, "f")})["y"].shape == shape
    assert [each.category for each in told] == [RemadeModelWarning] * (kind == "FLOAT")
    assert all("every value of 'n'" in str(each.message) for each in told)


def test_trees_are_planned_once_for_all_values() -> None:
    tree = onnx.helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_featureids=[1, 0, 0],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0, 0, 0],
        class_nodeids=[1, 2, 2],
        class_ids=[0, 1, 2],
        class_weights=[1.0, 0.75, 0.25],
        classlabels_int64s=[30, 10, 20],
    )
    inputs = {"x": (onnx.TensorProto.FLOAT, ["rows", 2])}
    model = onnx.load_from_string(small([tree], inputs, {}, outputs=("label", "scores")))
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    with warnings.catch_warnings(), syclsched.compile(model, devices="cpu", autotune=False) as made:
        warnings.simplefilter("error")  # neither run by the host nor computed again
        for right in (True, False):
            found = made(np.array([[0, 0.5 if right else 0.6], [9, 0.7], [9, np.nan]], "f"))
            assert found["label"].tolist() == [30 if right else 10, 10, 10]
            assert found["scores"].tolist() == [[1, 0, 0] if right else [0, 0.75, 0.25], *[[0, 0.75, 0.25]] * 2]


# --- plans of earlier processes, and makespans --------------------------------------------------------


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Record the names of planned graphs, with an empty data folder; every plan is kept."""
    from syclsched import planning_session

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(planning_session, "_KEPT_FROM_S", 0.0)
    names = record_planned(monkeypatch)
    return names


def test_a_plan_is_used_again_if_wanted(planned: list[str]) -> None:
    for count, options in ((1, {}), (1, {}), (2, {"reuse": False}), (3, {"deterministic": True})):
        with syclsched.compile(MODEL, devices="cpu", autotune=False, **options) as made:
            np.testing.assert_allclose(made(images(1))["probabilities"], expected(images(1)), atol=1e-5)
        assert len(planned) == count


def test_the_first_calls_are_recorded_like_other_runs(planned: list[str]) -> None:
    from syclsched.execution.core.history_feed import FEED
    from syclsched.profiling import HistoryStore

    with syclsched.compile(MODEL, devices="cpu", autotune=False) as made:
        for _ in range(8):
            made(images(11))
    FEED.flush()
    with HistoryStore() as history:
        entries = [(key, samples) for key, samples in history.entries() if key.operation == "plan"]
    counts = {key.signature.rpartition(", ")[2]: len(samples) for key, samples in entries}
    assert counts == {"first runs": 1, "call runs": 4}
    assert all(each.seconds > 0.0 and each.source == "selection" for _, samples in entries for each in samples)


def test_a_deterministic_model_does_not_depend_on_measured_times(planned: list[str]) -> None:
    from syclsched.costs.history import history_key
    from syclsched.execution.core.history_feed import FEED
    from syclsched.profiling import HistoryStore

    platform = syclsched.discover("cpu")
    chosen = []
    for slow in (False, True):
        with syclsched.compile(MODEL, platform, deterministic=True) as made:
            made(images(1))
            chosen.append([(each.task, each.device, each.implementation) for each in made.plan.schedule.assignments])
            graph = made.graph
        FEED.flush()
        with HistoryStore() as history:
            assert slow == bool(len(history))
            for task in graph.tasks:  # the chosen plan seems to be slow now
                for device in platform.devices:
                    for each in task.operation.implementations:
                        used = any(name == task.name and each.name == by for name, _, by in chosen[0])
                        key = history_key(device.key, task.operation, each, task.signature)
                        history.record(key, [1.0 if used else 1e-6] * 5)
    assert chosen[0] == chosen[1]


def test_html_of_a_model() -> None:
    with syclsched.compile(MODEL, devices="cpu") as made:
        assert "image: float32 [batch x 1 x 8 x 8]" in str(made)
        made(images(2))
        shown = made._repr_html_()
        for fact in (str(made.report).splitlines()[0], "<td>image: float32", "<td>1 set</td>"):
            assert fact in shown
        assert str(made.report) in str(made)
    assert "closed" in made._repr_html_()
