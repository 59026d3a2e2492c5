# SPDX-License-Identifier: Apache-2.0
"""JSON documents of --json: fixed keys and types, and nothing else on standard output."""

from __future__ import annotations

import json
import math
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from support.commands import call

from syclsched.cli.documents import (
    DOCUMENTS,
    ComparisonDocument,
    Document,
    FrontDocument,
    HistoryDocument,
    PlanDocument,
    RunDocument,
    TraceDocument,
    plain,
)
from syclsched.costs.history import HistoryKey
from syclsched.profiling import HistoryStore

GRAPH = ("cholesky", "--n", 256, "--tile", 128, "--platform", "xeon-8480,max1550")

#: Keys of each format. To remove one, or to change its type, raise the number in the format; new ones are added here.
KEYS = {
    "syclsched-plan-summary/1": "graph tasks policy aim platform rewritten predicted_makespan_s simulated_makespan_s "
    "lower_bound_s gap interval_s energy_j peak_bytes counters candidates trials instructions explanations",
    "syclsched-front/1": "graph metrics points",
    "syclsched-run-summary/1": "graph policy rewritten simulated predicted_makespan_s simulated_makespan_s "
    "lower_bound_s gap makespan_s makespans_s stream result where recoveries counters host_waits peak_bytes candidates "
    "trials ratio",
    "syclsched-comparison/1": "graph tasks rows contention noise events seeds",
    "syclsched-trace-report/1": "graph policy simulated complete makespan_s predicted_makespan_s makespan_error "
    "lower_bound_s gap families devices lanes links critical_path dependencies waits events barriers submissions "
    "host_waits failed cancelled incomplete_copies copied_bytes peak_bytes planned_peak_bytes held_bytes "
    "constant_bytes story",
    "syclsched-task-times/1": "found rows",
    "syclsched-devices/1": "platform",
    "syclsched-diagnosis/1": "usable findings",
    "syclsched-pack-summary/1": "kernels",
}


def check_type(value: Any, kind: Any, place: str) -> None:
    """Compare JSON data with the type that a document declares."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        assert isinstance(value, dict) and list(value) == [each.name for each in fields(kind)], place
        for name, hint in get_type_hints(kind).items():
            if name in value:
                check_type(value[name], hint, f"{place}.{name}")
    elif origin is list:
        assert isinstance(value, list), place
        for each in value:
            check_type(each, inner[0], f"{place}[]")
    elif origin is dict:
        assert isinstance(value, dict), place
        for key, each in value.items():
            check_type(each, inner[1], f"{place}.{key}")
    elif origin in (Union, types.UnionType):
        if value is not None or type(None) not in inner:
            check_type(value, next(each for each in inner if each is not type(None)), place)
    elif kind is not Any:
        wanted = (int, float) if kind is float else kind
        assert isinstance(value, wanted) and (kind is bool or not isinstance(value, bool)), (place, value)


def printed(capsys: pytest.CaptureFixture[str], kind: type[Document], *arguments: object) -> dict[str, Any]:
    """Run a command with --json and compare its output with the document's definition."""
    done = call(capsys, *arguments, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    assert found.pop("format") == kind.FORMAT
    check_type(found, kind, kind.FORMAT)
    return found


def test_the_keys_are_fixed() -> None:
    assert {each.FORMAT: [f.name for f in fields(each)] for each in DOCUMENTS} == {  # type: ignore[arg-type]
        name: keys.split() for name, keys in KEYS.items()
    }


def test_plan_run_and_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan, record = tmp_path / "plan.json", tmp_path / "record.json"
    made = printed(capsys, PlanDocument, "plan", *GRAPH, "--out", plan, "--explain", "trsm(1,0)")
    assert made["tasks"] == 4 and "trsm(1,0)" in made["explanations"]["trsm(1,0)"]
    ran = {each["task"] for each in made["instructions"] if each["kind"] in ("launch", "host")}
    assert ran == {"potrf(0)", "trsm(1,0)", "syrk(1,0)", "potrf(1)"}
    assert max(each["finish_s"] for each in made["instructions"]) <= made["simulated_makespan_s"] * 1.000001
    simulated = printed(capsys, RunDocument, "run", *GRAPH[:5], "--plan", plan, "--dry-run", "--record", record)
    assert simulated["makespan_s"] == made["simulated_makespan_s"]
    found = printed(capsys, TraceDocument, "trace", record, "--plan", plan, "--story", "potrf(1)")
    assert sum(row["tasks"] for row in found["families"]) == 4 and "potrf(1)" in found["story"]
    assert found["makespan_s"] == made["simulated_makespan_s"]
    assert found["lower_bound_s"] == made["lower_bound_s"]


def test_comparisons_and_fronts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = printed(capsys, ComparisonDocument, "compare", *GRAPH, "--policies", "heft,cpop")["rows"]
    assert [row["policy"] for row in sorted(rows, key=lambda row: row["makespan_s"])] == [row["policy"] for row in rows]
    noisy = printed(capsys, ComparisonDocument, "simulate", *GRAPH, "--policies", "heft", "--noise", 0.1, "--seed", 3)
    assert noisy["seeds"] == [3, 1] and noisy["noise"]["sigma"] == 0.1
    front = printed(capsys, FrontDocument, "plan", *GRAPH, "--front", tmp_path / "front.svg")
    assert front["metrics"] == ["makespan_s", "memory_bytes"] and front["points"]


def test_measured_times(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with HistoryStore() as store:
        store.record(HistoryKey("cpu-key", "gemm", "host", "1", "a:float64[2]"), [1e-3, 2e-3], load=0.0)
        store.record(HistoryKey("gpu-key", "copy", "host", "1", "a:float64[2]"), [5.0], load=0.0, source="run")
    found = printed(capsys, HistoryDocument, "history", "show", "--limit", 1)
    assert found["found"] == 2 and [row["operation"] for row in found["rows"]] == ["gemm"]
    (row,) = printed(capsys, HistoryDocument, "history", "show", "--source", "run")["rows"]
    assert row["device"] == "gpu-key" and row["median_s"] == 5.0 and row["sources"] == ["run"]


def test_numbers_become_plain() -> None:
    given = {"a": np.float32(0.5), "b": np.int64(3), "c": math.inf, "d": (np.bool_(True), math.nan), "e": Path("x")}
    assert plain(given) == {"a": 0.5, "b": 3, "c": None, "d": [True, None], "e": "x"}
