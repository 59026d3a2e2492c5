# SPDX-License-Identifier: Apache-2.0
"""Shell completion: names of the library, without heavy imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from syclsched import workloads
from syclsched.cli import completion
from syclsched.frontends.graph_io import GraphFormat
from syclsched.planner.dynamic_trials import DYNAMIC_POLICY_NAMES
from syclsched.planner.rewrite_choice import REWRITES
from syclsched.profiling import shipped_names
from syclsched.scheduling.objectives.aims import LATENCY, METRICS, THROUGHPUT
from syclsched.scheduling.registry import AUTO, names


def test_completed_names_equal_those_of_the_library() -> None:
    assert tuple(workloads.names()) == completion.GRAPHS
    assert set(completion.POLICIES) == {AUTO} | {name for name in names() if ":" not in name and "<" not in name}
    assert set(completion.DYNAMIC_POLICIES) == set(DYNAMIC_POLICY_NAMES)
    assert set(completion.METRICS) == {*METRICS, LATENCY, THROUGHPUT}
    assert set(completion.REWRITES) == set(REWRITES)
    assert shipped_names() == completion.PROFILES
    assert set(completion.FORMATS) == set(get_args(GraphFormat))


def test_lists_are_completed_name_by_name() -> None:
    complete = completion.choices(completion.PROFILES)
    assert complete("max1") == ["max1100", "max1550"]
    assert complete("cpu,max1550,max1") == ["cpu,max1550,max1100"]


def test_graphs_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("chain.dot", "chat.txt", "model.onnx"):
        Path(name).touch()
    Path("charts").mkdir()
    assert completion.graph_or_file("ch") == ["cholesky", "chain.dot", "charts/"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("syclsched pl", ["plan"]),
        ("syclsched plan chol", ["cholesky"]),
        ("syclsched plan cholesky --policy pe", ["peft"]),
        ("syclsched run cholesky --platform xe", ["xeon-8480"]),
        ("syclsched history show --sort ne", ["newest"]),
    ],
)
def test_shell_completion_lists_names_without_heavy_imports(words: str, expected: list[str]) -> None:
    code = (
        "import sys\nfrom syclsched.cli.main import main\n"
        "try:\n main()\nfinally:\n heavy = {'dpctl', 'numba', 'matplotlib', 'onnx'} & set(sys.modules)\n"
        " print(sorted(heavy), file=sys.stderr)"
    )
    asked = {
        "_SYCLSCHED_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1),
    }  # fmt: skip
    command = [sys.executable, "-c", f"import sys; sys.argv = ['syclsched']\n{code}"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == expected, done.stderr
    assert done.stderr.strip().endswith("[]")


def test_the_script_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "syclsched", "--show-completion", "bash"], capture_output=True, text=True, check=False
    )
    if done.returncode:  # typer finds the shell itself
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m syclsched --show-completion; true"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert "_SYCLSCHED_COMPLETE=complete_bash" in done.stdout, done.stderr
