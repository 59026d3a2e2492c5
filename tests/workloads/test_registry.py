# SPDX-License-Identifier: Apache-2.0
"""Every workload by name, and its options for the command line."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from support.sequential import run_on_host

from syclsched import workloads
from syclsched.errors import ArgumentError


def test_the_three_workloads_are_registered() -> None:
    assert workloads.names() == ("cholesky", "mlp", "stencil")


def test_modules_are_imported_when_they_are_used() -> None:
    code = (
        "import sys; from syclsched import workloads; workloads.names()\n"
        "assert not {f'syclsched.workloads.{name}' for name in workloads.names()} & set(sys.modules)\n"
        "assert workloads.stencil.KIND is workloads.get('stencil') and 'syclsched.workloads.mlp' not in sys.modules\n"
        "assert not hasattr(workloads, 'lu')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", workloads.names())
def test_every_option_has_a_default_and_a_help_text(name: str) -> None:
    kind = workloads.get(name)
    assert kind.name == name
    assert kind.description
    for option in dataclasses.fields(kind.options):
        assert option.metadata["help"].endswith(".")
        assert option.default is not dataclasses.MISSING
    options = kind.options()
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.seed = 3


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("cholesky", {"n": 32, "tile": 8}),
        ("mlp", {"sizes": (4, 4), "batch": 8, "chunks": 2}),
        ("stencil", {"n": 16, "tile": 8, "steps": 3}),
    ],
)
def test_each_builds_runs_and_checks(name: str, small: dict[str, object]) -> None:
    kind = workloads.get(name)
    workload = kind.build(kind.options(**small))
    assert workload.name == name
    assert set(workload.results) <= set(workload.graph.arrays)
    assert set(workload.graph.inputs()) == {*workload.graph.data, *(workload.inputs or {})}
    assert not any(workload.graph.arrays[r].temporary for r in workload.results)
    assert workload.check(run_on_host(workload.graph)).ok
    first, second = (kind.build(kind.options(**small)).graph.fingerprint() for _ in range(2))
    assert first == second


def test_an_unknown_name_is_refused_with_the_known_names() -> None:
    with pytest.raises(ArgumentError, match=r"no ready graph 'lu'.*cholesky, mlp, stencil"):
        workloads.get("lu")
