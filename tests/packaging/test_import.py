# SPDX-License-Identifier: Apache-2.0
"""The modules that ``import syclsched`` loads, and the pure packages without any SYCL package."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]

HEAVY = (
    "numpy", "scipy", "dpctl", "dpnp", "numba", "numba_dpex", "pydantic", "networkx", "matplotlib", "typer", "rich",
    "platformdirs", "sqlite3", "threading", "ctypes",
)  # fmt: skip

#: Blocks the SYCL packages, as if they were not installed.
HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"dpctl", "dpnp", "numba_dpex"}:
            raise ModuleNotFoundError(f"No module named {name!r} (hidden)", name=name)
sys.meta_path.insert(0, Hidden())
"""

BUILD = """
import syclsched
from syclsched import AccessMode, Implementation, Launch, Operation, Parameter, TaskGraph, Work
scale = Operation(
    "scale",
    (Parameter("x", AccessMode.UPDATE),),
    (Implementation("source", "opencl-c", load=lambda s: None, launch=lambda s, d: Launch((16,))),),
    work=lambda s: Work(flops=1e9, bytes=1e6),
)
graph = TaskGraph("pure")
arrays = [graph.array(f"x{i}", (1000,)) for i in range(4)]
for _ in range(3):
    for x in arrays:
        graph.kernel(scale, x=x)
"""


@pytest.fixture
def python(run: Run, tmp_path: Path) -> Run:
    """Run Python code in a process of its own, with data folders of its own."""
    folders = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def code(text: str) -> str:
        return run(sys.executable, "-c", text, cwd=ROOT, environment={**os.environ, **folders})

    return code


def test_import_is_light(python: Run) -> None:
    before = set(python("import sys; print(*sys.modules)").split())
    after = set(python("import syclsched, sys; print(*sys.modules)").split())
    assert "syclsched" in after
    brought = after - before
    assert not brought & set(HEAVY)
    assert {m for m in brought if m.startswith("syclsched")} == {"syclsched"}


def test_the_version_is_printed_without_the_commands(python: Run) -> None:
    shown = python(
        "import sys; sys.argv = ['syclsched', '--version']\n"
        "from syclsched.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as ended: print(ended.code, 'typer' in sys.modules)"
    )
    assert shown.split()[1:] == ["0", "False"]


def test_the_command_line_starts_without_any_command(python: Run) -> None:
    brought = set(python("import syclsched.cli.application, sys; print(*sys.modules)").split())
    assert not {m for m in brought if m.startswith(("syclsched.cli.commands.", "rich"))}
    assert not brought & {"numpy", "dpctl", "numba", "onnx", "pydantic", "networkx", "matplotlib", "sqlite3"}


@pytest.mark.parametrize("command", ["plan", "run", "simulate", "compare", "devices", "profile", "trace"])
def test_the_help_of_a_command_imports_nothing_heavy(python: Run, command: str) -> None:
    brought = set(
        python(
            "import sys, contextlib, io\n"
            f"sys.argv = ['syclsched', {command!r}, '--help']\n"
            "from syclsched.cli.main import main\n"
            "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()\n"
            "print(*sys.modules)"
        ).split()
    )
    assert f"syclsched.cli.commands.{command}" in brought
    assert not brought & {"numpy", "dpctl", "numba", "onnx", "networkx", "matplotlib", "sqlite3", "scipy"}


def test_import_starts_nothing(python: Run) -> None:
    shown = python(
        "import os; before = dict(os.environ); import syclsched, sys\n"
        "print(dict(os.environ) == before, 'threading' in sys.modules, len(os.listdir('/proc/self/task')))"
    )
    assert shown.split() == ["True", "False", "1"]


def test_a_graph_needs_no_sycl_package(python: Run) -> None:
    shown = python(HIDE + BUILD + "print(len(graph), len(graph.dependencies()))")
    assert shown.split() == ["12", "8"]


def test_planning_and_simulating_need_no_sycl_package(python: Run) -> None:
    shown = python(
        HIDE
        + BUILD
        + "platform = syclsched.describe(['max1550', 'a770'])\n"
        + "plan = syclsched.plan(graph, platform)\n"
        + "syclsched.verify(plan, graph)\n"
        + "again = syclsched.Plan.from_json(plan.to_json())\n"
        + "trace = syclsched.simulate(again)\n"
        + "assert again == plan\n"
        + "print(len(trace.spans) >= 12, 0 < trace.makespan_s < 60, 'dpctl' in sys.modules)"
    )
    assert shown.split() == ["True", "True", "False"]


def test_every_shipped_profile_can_be_read(python: Run) -> None:
    shown = python(
        HIDE
        + "from importlib.resources import files\n"
        + "from syclsched.profiling import load_profile\n"
        + "names = [f.name[:-5] for f in files('syclsched.device_profiles').iterdir() if f.name.endswith('.json')]\n"
        + "print(len([load_profile(n).key for n in names]))"
    )
    assert int(shown) == len(list((ROOT / "device_profiles").glob("*.json"))) > 0


def test_without_the_sycl_packages_discovery_gives_a_hint(python: Run) -> None:
    shown = python(
        HIDE
        + "import syclsched\n"
        + "from syclsched.errors import RuntimeMissingError\n"
        + "try:\n    syclsched.discover()\n"
        + "except RuntimeMissingError as error:\n    print(error.hint or '')"
    )
    assert "pip install" in shown
