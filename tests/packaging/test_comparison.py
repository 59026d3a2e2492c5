# SPDX-License-Identifier: Apache-2.0
"""Example programs compared with those of other libraries: lines of code on the page, and results of NumPy."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Run = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "benchmarks" / "comparison"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("side_by_side", ROOT / "benchmarks" / "side_by_side.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_only_lines_of_code_are_counted(driver: ModuleType) -> None:
    source = '''
"""Two
lines."""

import os
from a import (
    b,
)


# comment
def f():
    """Doc."""
    return """

x"""
'''
    assert driver.lines_of(source) == (3, 4)


def test_the_page_has_the_lines_of_the_programs(driver: ModuleType) -> None:
    page = driver.PAGE.read_text(encoding="utf-8")
    assert driver.marked(page, "lines") == driver.lines_table(), "run python benchmarks/side_by_side.py --lines --write"


def test_every_program_is_on_the_page(driver: ModuleType) -> None:
    listed = {path for files in driver.programs().values() for path in files.values()}
    assert listed == set(PROGRAMS.glob("*/*.py"))


@pytest.mark.sycl
@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("program", sorted((PROGRAMS / "syclsched").glob("*.py")), ids=lambda path: path.stem)
def test_example_programs_have_the_results_of_numpy(program: Path, run: Run) -> None:
    paths = os.pathsep.join([str(PROGRAMS), str(ROOT)])
    assert "right, after" in run(sys.executable, program, cwd=ROOT, environment={**os.environ, "PYTHONPATH": paths})
