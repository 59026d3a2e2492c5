# SPDX-License-Identifier: Apache-2.0
"""The heat equation on blocks: its graph, its input, and a check that detects errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sequential import run_on_host

from syclsched.errors import ArgumentError, FormatError
from syclsched.workloads.stencil import StencilOptions, build, reference


def test_a_block_waits_for_its_neighbours_only() -> None:
    graph = build(StencilOptions(n=12, tile=4, steps=2)).graph
    assert len(graph) == 2 * 9
    before = {d.before for d in graph.dependencies() if d.after == "heat(1,0,1)" and d.kind == "RAW"}
    assert before == {"heat(0,0,1)", "heat(0,0,0)", "heat(0,0,2)", "heat(0,1,1)"}
    # Writing over the first buffer waits for those that still read it.
    over = {d.before for d in graph.dependencies() if d.after == "heat(1,0,1)" and d.kind == "WAR"}
    assert over == before
    assert set(graph.inputs()) == {f"u0[{i},{j}]" for i in range(3) for j in range(3)} | {"wall[1x4]", "wall[4x1]"}


@given(
    st.integers(1, 20), st.integers(1, 9), st.integers(1, 6), st.sampled_from([0.25, 0.2, 0.01]),
    st.sampled_from(["float32", "float64"]),
)  # fmt: skip
def test_results_are_right_for_any_blocks(n: int, tile: int, steps: int, coefficient: float, dtype: str) -> None:
    workload = build(StencilOptions(n=n, tile=tile, steps=steps, coefficient=coefficient, dtype=dtype))
    values = run_on_host(workload.graph)
    result = workload.check({name: values[name] for name in workload.results})
    assert result.ok, result.text


def test_the_reference_against_a_solution_in_closed_form() -> None:
    # A sine mode of the discrete Laplacian decays by 1 - 8 r sin^2(pi / (2 (n + 1))) a step.
    n, r, steps = 15, 0.2, 10
    mode = np.sin(np.pi * np.arange(1, n + 1) / (n + 1))
    grid = np.outer(mode, mode)
    factor = 1 - 8 * r * np.sin(np.pi / (2 * (n + 1))) ** 2
    assert np.allclose(reference(grid, r, steps), factor**steps * grid, rtol=1e-12)


@pytest.mark.parametrize("left_out", ["heat(0,0,0)", "heat(4,1,2)", "heat(9,2,2)"])
def test_the_check_notices_a_task_left_out(left_out: str) -> None:
    workload = build(StencilOptions(n=24, tile=8, steps=10))
    assert not workload.check(run_on_host(workload.graph, frozenset({left_out}))).ok


def test_the_check_notices_one_wrong_element() -> None:
    workload = build(StencilOptions(n=24, tile=8, steps=3))
    values = {name: np.array(v) for name, v in run_on_host(workload.graph).items()}
    assert workload.results[0] == "u1[0,0]"
    values["u1[2,1]"][7, 0] += 1e-4
    assert not workload.check(values).ok


def test_a_grid_from_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.random.default_rng(0).random((7, 11)))
    workload = build(StencilOptions(input=tmp_path / "u.npy", tile=4, steps=3, dtype="float32"))
    values = run_on_host(workload.graph)
    assert values["u1[1,2]"].shape == (3, 3)
    assert values["u1[1,2]"].dtype == "float64"
    assert workload.check(values).ok


def test_a_cold_grid_stays_cold(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.zeros((4, 4)))
    workload = build(StencilOptions(input=tmp_path / "u.npy", tile=4, steps=2))
    result = workload.check(run_on_host(workload.graph))
    assert (result.ok, result.residual) == (True, 0.0)
    assert not workload.check({"u0[0,0]": np.full((4, 4), 1e-300)}).ok


@pytest.mark.parametrize("grid", [np.ones(4), np.ones((0, 3)), np.ones((2, 2, 2))])
def test_files_without_a_grid_are_refused(tmp_path: Path, grid: Any) -> None:
    np.save(tmp_path / "u.npy", grid)
    with pytest.raises(FormatError, match=r"u\.npy: expected a grid"):
        build(StencilOptions(input=tmp_path / "u.npy"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"coefficient": 0.26}, "coefficient: .*at most 0.25"),
        ({"coefficient": float("nan")}, "coefficient: "),
        ({"coefficient": 0}, "coefficient: "),
        ({"steps": 0}, "steps: must be a positive"),
        ({"tile": 1, "n": 1024}, "tasks, more than"),
        ({"n": -1}, "n: must be a positive"),
    ],
)
def test_bad_options_are_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        build(StencilOptions(**changes))
