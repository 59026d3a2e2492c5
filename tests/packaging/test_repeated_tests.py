# SPDX-License-Identifier: Apache-2.0
"""The repetition of tests in other settings: variables, exclusions and reported failures."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from syclsched.oneapi.processor import TARGET_ARCH_VARIABLE, missing_flags, target_arch

ROOT = Path(__file__).resolve().parents[2]
AVX = frozenset(["sse4_1", "sse4_2", "popcnt", "avx"])


@pytest.fixture
def repetition(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the module that the tools share."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield importlib.import_module("repeated_tests")
    del sys.modules["repeated_tests"]


def loaded(name: str) -> Any:
    found = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert found is not None and found.loader is not None
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


@pytest.fixture
def tool(repetition: Any) -> Any:
    return loaded("instruction_sets")


@pytest.fixture
def runs(repetition: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Record the variables of the runs that the tool starts; the first run fails."""
    made: list[dict[str, str]] = []

    def run(command: list[str], env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[command.index("pytest") + 1 :][:2] == ["-m", "instruction_sets"]
        made.append(env)
        return subprocess.CompletedProcess(command, returncode=int(len(made) == 1))

    monkeypatch.setattr(repetition.subprocess, "run", run)
    return made


def test_only_supported_instruction_sets_are_repeated(
    tool: Any, runs: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert target_arch(AVX) == "corei7-avx"
    assert tool.main([], AVX) == 1
    assert [each[TARGET_ARCH_VARIABLE] for each in runs] == ["corei7-avx"]
    assert runs[0]["ONEDNN_MAX_CPU_ISA"] == "SSE41" and runs[0]["OPENBLAS_CORETYPE"] == "Nehalem"
    printed = capsys.readouterr().out
    assert "CL_CONFIG_CPU_TARGET_ARCH=core-avx2, " in printed
    assert "not run, this processor lacks abm, avx2, bmi1, bmi2, f16c, fma, movbe" in printed


@pytest.mark.parametrize(("later", "repeated"), [((), ["corei7-avx"]), (("avx_vnni",), ["corei7-avx", "core-avx2"])])
def test_the_processors_own_instruction_set_is_not_repeated(
    tool: Any, runs: list[dict[str, str]], later: tuple[str, ...], repeated: list[str]
) -> None:
    avx2 = AVX | missing_flags("core-avx2", AVX)
    tool.main([], avx2 | set(later))
    assert [each[TARGET_ARCH_VARIABLE] for each in runs] == repeated


def test_no_settings_to_repeat_is_no_failure(tool: Any, runs: list[dict[str, str]]) -> None:
    assert tool.main([], frozenset()) == 0
    assert runs == []


def test_all_files_with_marked_tests_are_found(repetition: Any) -> None:
    found = repetition.marked_files("instruction_sets")
    assert "tests/kernels/onednn/test_convolution.py" in found
    assert {name.split("/")[1] for name in found} == {"kernels", "frontends", "execution", "onnx"}


@pytest.mark.parametrize(
    ("options", "marker", "given"),
    [
        ((), "gpu_shape", ["--gpu-shape", "auto", "-n", "1"]),
        (("--all", "-q", "-n2"), "sycl", ["--gpu-shape", "auto", "-q", "-n2"]),
        (("--platform", "Portable", "-x"), "gpu_shape", ["--gpu-shape", "Portable", "-n", "1", "-x"]),
    ],
)
def test_the_gpu_shaped_device_is_an_option_of_pytests(
    repetition: Any, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], marker: str, given: list[str]
) -> None:
    commands = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command[command.index("pytest") + 1 :])
        return subprocess.CompletedProcess(command, returncode=0)

    monkeypatch.setattr(repetition.subprocess, "run", run)
    assert loaded("gpu_shape").main(options) == 0
    assert commands == [["-m", marker, *given, *repetition.marked_files(marker)]]


def test_ci_repeats_tests_in_other_settings() -> None:
    commands = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert all(f"python tools/{name}.py" in commands for name in ("instruction_sets", "gpu_shape"))
