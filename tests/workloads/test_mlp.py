# SPDX-License-Identifier: Apache-2.0
"""Batched inference: its graph, its files, and a check that detects errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sequential import run_on_host

from syclsched.errors import ArgumentError, FormatError
from syclsched.workloads.mlp import MlpOptions, build, reference

SMALL = MlpOptions(sizes=(5, 8, 3), batch=10, chunks=3)


def test_the_tasks_and_their_arrays() -> None:
    graph = build(SMALL).graph
    assert [t.name for t in graph.tasks] == [f"dense({layer},{chunk})" for chunk in range(3) for layer in range(2)]
    assert {(d.before, d.after) for d in graph.dependencies()} == {(f"dense(0,{c})", f"dense(1,{c})") for c in range(3)}
    shapes = {name: a.shape for name, a in graph.arrays.items()}
    assert shapes["X[0]"] == (4, 5)
    assert shapes["X[2]"] == (2, 5)  # ten rows in three chunks: 4, 4, 2
    assert shapes["Y[2]"] == (2, 3)
    assert {name for name, a in graph.arrays.items() if a.temporary} == {"H0[0]", "H0[1]", "H0[2]"}
    activations = [t.signature.scalars["activation"] for t in graph.tasks if t.signature is not None]
    assert activations == [1, 0] * 3


@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=5),
    st.integers(1, 20),
    st.integers(1, 20),
    st.sampled_from(["float32", "float64"]),
    st.booleans(),
)
def test_results_are_right_for_any_sizes(sizes: list[int], batch: int, chunks: int, dtype: str, softmax: bool) -> None:
    options = MlpOptions(tuple(sizes), batch, min(chunks, batch), softmax, dtype)
    workload = build(options)
    values = run_on_host(workload.graph)
    result = workload.check({name: values[name] for name in workload.results})
    assert result.ok, result.text
    got = np.concatenate([values[name] for name in workload.results])
    assert got.shape == (batch, sizes[-1])
    if softmax:
        assert np.allclose(got.sum(axis=1), 1, rtol=1e-5)


def test_the_reference_against_plain_numpy() -> None:
    rng = np.random.default_rng(3)
    w0, b0, w1, b1 = (rng.standard_normal(s) for s in ((4, 6), 6, (6, 2), 2))
    x = rng.standard_normal((7, 4))
    value, error = reference([(w0, b0), (w1, b1)], x, softmax=False)
    assert np.allclose(value, np.maximum(x @ w0 + b0, 0) @ w1 + b1, rtol=1e-14)
    assert (error > 0).all()
    assert (error < 1e-13).all()


@pytest.mark.parametrize("softmax", [False, True])
def test_the_check_notices_small_mistakes(softmax: bool) -> None:
    workload = build(MlpOptions(sizes=(64, 64, 10), batch=16, chunks=2, softmax=softmax))
    values = {name: np.array(v) for name, v in run_on_host(workload.graph).items()}
    assert workload.check(values).ok
    right = values["Y[1]"].copy()
    values["Y[1]"][3, 4] *= 1.01
    values["Y[1]"][3, 4] += 0.001
    assert not workload.check(values).ok
    values["Y[1]"] = right
    assert workload.check(values).ok
    values["Y[1]"][0, 0] = np.nan
    assert not workload.check(values).ok


def test_the_check_notices_a_task_left_out() -> None:
    workload = build(MlpOptions(sizes=(8, 8, 8, 4), batch=4, chunks=2))
    assert not workload.check(run_on_host(workload.graph, frozenset({"dense(2,1)"}))).ok


def weights(**changes: Any) -> dict[str, Any]:
    found = {"W0": np.ones((4, 6)), "b0": np.ones(6), "W1": np.ones((6, 2)), "b1": np.ones(2)}
    return {key: value for key, value in (found | changes).items() if value is not None}


def test_weights_and_input_from_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", **weights(W1=-np.ones((6, 2))))
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(3, 4))
    workload = build(MlpOptions(weights=tmp_path / "w.npz", input=tmp_path / "x.npy", chunks=2, batch=77, sizes=(1, 1)))
    values = run_on_host(workload.graph)
    assert workload.check(values).ok
    sums = np.arange(12.0).reshape(3, 4).sum(axis=1)
    expected = np.repeat((-6 * (sums + 1) + 1)[:, None], 2, axis=1)
    assert np.allclose(np.concatenate([values["Y[0]"], values["Y[1]"]]), expected)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"b1": None}, "expected the keys W0, b0, W1, b1"),
        ({"W0": None, "b0": None}, "expected the keys"),
        ({"extra": np.ones(1)}, "expected the keys"),
        ({"W0": np.ones(4)}, r"W0: expected a matrix"),
        ({"W1": np.ones((5, 2))}, r"W1: expected 6 rows, one per output of layer 0, found 5"),
        ({"b0": np.ones(5)}, r"b0: expected shape \(6,\)"),
        ({"b1": np.ones((2, 1))}, r"b1: expected shape \(2,\)"),
        ({"W1": np.ones((6, 2), "float32")}, "W1: expected float64 as in W0, found float32"),
        ({"W0": np.ones((4, 6), "int8")}, "W0: expected float32 or float64 numbers, found int8"),
        ({"b0": np.full(6, np.inf)}, r"b0: element \[0\] is inf"),
        (dict.fromkeys(weights()), "expected the keys"),
    ],
)
def test_files_with_other_weights_are_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    np.savez(tmp_path / "w.npz", **weights(**changes))
    with pytest.raises(FormatError, match=said) as caught:
        build(MlpOptions(weights=tmp_path / "w.npz"))
    assert "w.npz" in str(caught.value)


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (np.ones((3, 5)), r"expected shape \(samples, 4\), found \(3, 5\)"),
        (np.ones(4), "expected shape"),
        (np.ones((0, 4)), "expected shape"),
        (np.ones((3, 4), "float32"), "expected float64 as the weights are, found float32"),
    ],
)
def test_files_with_another_input_are_refused(tmp_path: Path, batch: Any, said: str) -> None:
    np.savez(tmp_path / "w.npz", **weights())
    np.save(tmp_path / "x.npy", batch)
    with pytest.raises(FormatError, match=said):
        build(MlpOptions(weights=tmp_path / "w.npz", input=tmp_path / "x.npy"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sizes": (5,)}, "at least one layer"),
        ({"sizes": (5, 0)}, "sizes: must be a positive"),
        ({"batch": 0}, "batch: must be a positive"),
        ({"chunks": 0}, "chunks: must be a positive"),
        ({"chunks": 11}, "cannot cut 10 rows into 11 chunks"),
        ({"dtype": "int32"}, "dtype: must be float32 or float64"),
    ],
)
def test_bad_options_are_refused_by_name(changes: dict[str, Any], said: str) -> None:
    options: dict[str, Any] = {"sizes": (5, 8, 3), "batch": 10, "chunks": 3} | changes
    with pytest.raises(ArgumentError, match=said):
        build(MlpOptions(**options))
