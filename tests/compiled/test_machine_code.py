# SPDX-License-Identifier: Apache-2.0
"""Machine code made by the build: lookup by types and sources, and results equal to numba's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from syclsched.compiled import functions, lean, machine_code
from syclsched.compiled.argument_types import type_of
from syclsched.compiled.source_stamps import stamp_of
from syclsched.scheduling.core import ranks

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools" / "machine_code"

built = pytest.mark.skipif(
    machine_code.loaded()[0] is None, reason=f"no machine code was built here: {machine_code.loaded()[1]}"
)

PLAN = """
import json, sys
import syclsched
from syclsched import workloads
kind = workloads.get("cholesky")
graph = kind.build(kind.options(n=256, tile=64)).graph
plan = syclsched.plan(graph, syclsched.describe(["cpu", "max1550"]), policy=sys.argv[1])
syclsched.simulate(plan)
print(json.dumps([plan.to_json(), sorted({name.partition(".")[0] for name in sys.modules} & {"numba", "llvmlite"})]))
"""

RANKS = """
import json, sys
import syclsched
from syclsched import workloads
from syclsched.costs import CostModel
from syclsched.scheduling import build_problem
from syclsched.scheduling.core import orders, ranks
kind = workloads.get("cholesky")
graph = kind.build(kind.options(n=512, tile=64)).graph
platform = syclsched.describe(["cpu", "max1550"])
problem = build_problem(graph, platform, CostModel(platform))
tables, weights = problem.tables, ranks.mean_seconds(problem.tables)
line = problem.mean_copy_line()
made = [weights, *(rank(tables, weights, *line) for rank in (ranks.upward_ranks, ranks.downward_ranks))]
made.append(orders.depth_first(tables.pred_start, tables.succ_start, tables.succ_task))
columns = [each.tolist() for each in made]
print(json.dumps([repr(columns), sorted({name.partition(".")[0] for name in sys.modules} & {"numba", "llvmlite"})]))
"""


#: Imports the compiled functions where only the build's requirements are installed.
BUILD_ONLY = """
import importlib, sys
allowed = set(sys.argv[1:]) | {"syclsched", "build", "argument_lists"} | sys.stdlib_module_names
class Absent:
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package not in allowed and not package.startswith("_"):
            raise ModuleNotFoundError(f"{name} is absent during the build", name=name)
sys.meta_path.insert(0, Absent())
import build
for name in build.read_list():
    build._function(name)
"""

#: Two functions that raise an error with an argument of the same type.
RAISING = """
from syclsched.compiled import compiled
@compiled
def first(value):
    if value < 0:
        raise ValueError("negative", value)
    return value
@compiled
def second(value):
    if value > 9:
        raise ValueError("large", value)
    return first(value)
"""
#: Builds these functions.
BUILD_RAISING = """
import pathlib, build
entries = [build.Entry(f"raising:{name}", ["int64"]) for name in ("first", "second")]
for path in build.build(entries, ["v2"], pathlib.Path(), 0):
    print(path)
"""


class Pair(NamedTuple):
    """Two arrays."""

    first: Any
    second: Any


class Other(NamedTuple):
    """Two arrays, of another class."""

    first: Any
    second: Any


def planned(folder: Path, policy: str, script: str = PLAN, **variables: str) -> tuple[str, list[str]]:
    """Return the plan of a small graph made in another process, and the compiler packages that it imported."""
    folders = {"XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
    made = subprocess.run(
        [sys.executable, "-c", script, policy], cwd=ROOT, env={**os.environ, **folders, **variables},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    plan, imported = json.loads(made.stdout)
    return plan, imported


@built
def test_planning_and_simulation_need_no_compiler(tmp_path: Path) -> None:
    assert planned(tmp_path, "auto")[1] == []


@built
def test_ranks_equal_those_of_numba(tmp_path: Path) -> None:
    """The list scheduler that follows them is left out: numba would compile it for half a minute."""
    own, _ = planned(tmp_path, "", RANKS)
    other, imported = planned(tmp_path, "", RANKS, SYCLSCHED_MACHINE_CODE="off")
    assert "numba" in imported
    assert own == other


@built
def test_every_call_of_the_package_has_machine_code(tmp_path: Path) -> None:
    """All calls of representative graphs are in the list that the build reads; see tools/machine_code/record.py."""
    folders = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, str(TOOLS / "record.py"), "--check", "--described"]
    made = subprocess.run(command, cwd=ROOT, env={**os.environ, **folders}, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


@built
@pytest.mark.sycl
def test_every_call_of_runs_has_machine_code(tmp_path: Path) -> None:
    folders = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, str(TOOLS / "record.py"), "--check", "--here"]
    made = subprocess.run(command, cwd=ROOT, env={**os.environ, **folders}, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


def test_the_list_names_functions_and_types_once() -> None:
    sys.path.insert(0, str(TOOLS))
    try:
        from argument_lists import read_list
    finally:
        sys.path.remove(str(TOOLS))
    for name, variants in read_list().items():
        assert len({json.dumps(each) for each in variants}) == len(variants), name


def test_the_build_requirements_are_sufficient() -> None:
    """Otherwise no installation with build isolation would have machine code."""
    if sys.version_info < (3, 11):
        import tomli as tomllib
    else:
        import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    generations = project["tool"]["syclsched"]["generations"].values()
    listed = [*project["build-system"]["requires"], *(each for table in generations for each in table["build"])]
    required = {re.split("[<>=;]", each)[0].replace("-", "_") for each in listed}
    subprocess.run(
        [sys.executable, "-c", BUILD_ONLY, *required, "llvmlite"], cwd=ROOT, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TOOLS), str(ROOT)])},
    )  # fmt: skip


def test_functions_that_raise_alike_are_built_together(tmp_path: Path) -> None:
    """numba gives each of them a definition of the same function, which fetches the error's arguments."""
    (tmp_path / "raising.py").write_text(RAISING)
    folders = os.pathsep.join([str(TOOLS), str(ROOT), str(tmp_path)])
    made = subprocess.run(
        [sys.executable, "-c", BUILD_RAISING], cwd=tmp_path, env={**os.environ, "PYTHONPATH": folders},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "machine_code_v2_0.o" in made.stdout.split()
    assert b"__excinfo_unwrap_args" in (tmp_path / "machine_code_v2_0.o").read_bytes()


@built
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros(2), np.zeros((2, 2))),
        (np.zeros((2, 3)), np.zeros((2, 3), order="F")),
        (np.zeros((2, 3)), np.zeros((4, 6))[::2, ::2]),
        (np.zeros(2, [("a", "i8")]), np.zeros(2, [("a", "f8")])),
        (Pair(1, 2), Other(1, 2)),
        (Pair(1, 2), (1, 2)),
        (Pair(1, 2.0), Pair(1, 2)),
        (1, True),
        (1, 1.0),
        (1, None),
        (np.int64(1), np.int32(1)),
    ],
)
def test_fingerprints_distinguish_types(one: Any, other: Any) -> None:
    key = machine_code.fingerprinter()
    assert key((one,)) is not None
    assert key((one,)) == key((one,))
    assert key((one,)) != key((other,))
    assert type_of(one) != type_of(other)


@built
def test_an_array_that_may_not_be_written_is_another_type() -> None:
    array = np.zeros(2)
    before, described = machine_code.fingerprinter()((array,)), type_of(array)
    array.flags.writeable = False
    assert machine_code.fingerprinter()((array,)) != before
    assert type_of(array) != described


@built
@pytest.mark.parametrize("value", ["text", [1], 1 << 64, object(), np.datetime64("2024-01-01")])
def test_unusual_values_are_typed_by_numba(value: Any) -> None:
    assert machine_code.fingerprinter()((value,)) is None


@built
def test_machine_code_of_changed_sources_is_not_found() -> None:
    function: Any = ranks.upward_ranks
    sys.path.insert(0, str(TOOLS))
    try:
        from argument_lists import read_list
    finally:
        sys.path.remove(str(TOOLS))
    types = read_list()[function.name][0]
    assert machine_code.find(function.name, types, stamp_of(function.py_func)) is not None
    assert machine_code.find(function.name, types, "of other sources") is None


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder in which the extension modules are looked for."""
    monkeypatch.setattr(machine_code, "__file__", str(tmp_path / "machine_code.py"))
    monkeypatch.delenv(machine_code.VARIABLE, raising=False)
    machine_code.loaded.cache_clear()
    yield tmp_path
    machine_code.loaded.cache_clear()


def test_the_best_instruction_set_that_the_processor_has_is_taken(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for level in machine_code.LEVELS:
        (modules / f"{machine_code.stem()}{level}{EXTENSION_SUFFIXES[0]}").touch()
    monkeypatch.setattr(machine_code, "processor_levels", lambda: ("v2", "v3"))
    monkeypatch.setattr(machine_code.importlib, "import_module", lambda name: asked.append(name) or machine_code)
    assert machine_code.loaded() == (machine_code, "v3")
    assert asked == [f"syclsched.compiled.{machine_code.stem()}v3"]


def test_the_reason_for_no_machine_code(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (modules / f"_machine_code_numba1_v2{EXTENSION_SUFFIXES[0]}").touch()  # made by another release of numba
    (modules / f"{machine_code.stem()}v2.cpython-39-x86_64-linux-gnu.so").touch()
    assert machine_code.loaded() == (None, "not built: building the package needs a C and C++ compiler")
    (modules / f"{machine_code.stem()}v4{EXTENSION_SUFFIXES[0]}").touch()
    monkeypatch.setattr(machine_code, "processor_levels", lambda: ("v2", "v3"))
    machine_code.loaded.cache_clear()
    assert machine_code.loaded() == (None, "built for x86-64-v4, which the processor is not")
    monkeypatch.setenv(machine_code.VARIABLE, "off")
    machine_code.loaded.cache_clear()
    assert machine_code.loaded() == (None, "switched off (SYCLSCHED_MACHINE_CODE=off)")


def test_a_processor_has_all_levels_below_its_best() -> None:
    levels = list(machine_code.LEVELS)
    assert list(machine_code.processor_levels()) == levels[: len(machine_code.processor_levels())]


def test_a_function_without_machine_code_is_compiled() -> None:
    @lean
    def doubled(value: float) -> float:
        return 2.0 * value

    made: Any = doubled
    assert doubled(2.5) == 5.0
    assert made.dispatcher.signatures
    assert functions.known_functions[made.name] is made


def test_machine_code_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "fingerprinter", lambda: lambda _: b"types")
    monkeypatch.setattr(machine_code, "find", lambda *_: abs)
    made = functions.CompiledFunction(lambda value: value, {})
    functions.precompile(made, 1.0)
    assert "dispatcher" not in vars(made)
    assert made(-2.0) == 2.0


LINK_TWICE = """
import runpy, subprocess, sys, unittest.mock
from pathlib import Path
from setuptools import Distribution
folder = Path(sys.argv[1])
with unittest.mock.patch("setuptools.setup"):
    script = runpy.run_path("setup.py")
script["machine_code_builds"].kept = lambda *_: None
for text in ("made first", "made second"):
    source, made = folder / "code.c", folder / "machine_code_v3_0.o"
    source.write_text(f'__attribute__((used)) static const char made[] = "{text}";')
    subprocess.run(["cc", "-c", source, "-o", made], check=True)
    script["BuildExtensions"].objects = [str(made)]
    extension = script["MachineCode"]("v3")
    build = script["BuildExtensions"](Distribution({"name": "syclsched", "ext_modules": [extension]}))
    build.build_lib, build.build_temp = str(folder / "lib"), str(folder / "temp")
    build.ensure_finalized()
    build.run()
    content = Path(build.get_ext_fullpath(extension.name)).read_bytes()
    assert text.encode() in content, text
"""


@built
def test_a_module_is_linked_again_when_its_object_files_are_new(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", LINK_TWICE, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
