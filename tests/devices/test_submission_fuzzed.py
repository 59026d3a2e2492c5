# SPDX-License-Identifier: Apache-2.0
"""The compiled submission loop under sanitizers, with random sequences and a made-up runtime; no device is needed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SEQUENCES = 3000


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_submission", ROOT / "tools" / "fuzz_submission.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    nothing = tmp_path_factory.mktemp("nothing") / "nothing.c"
    nothing.write_text("int main(void) { return 0; }\n")
    command = [os.environ.get("CC", "cc"), *module.SANITIZERS, str(nothing), "-o", str(nothing.with_suffix(""))]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no C compiler with sanitizers")
    return module


def run(tool: ModuleType, folder: Path, sources: Path | None = None) -> subprocess.CompletedProcess[str]:
    program = tool.build(folder, sources=sources)
    return subprocess.run([str(program), "0", str(SEQUENCES)], capture_output=True, text=True, timeout=120, check=False)


def test_random_sequences_are_submitted_in_order_and_leave_nothing_behind(tool: ModuleType, tmp_path: Path) -> None:
    found = run(tool, tmp_path)
    assert found.returncode == 0, found.stderr
    assert f"{SEQUENCES} sequences" in found.stdout


@pytest.mark.parametrize(
    ("right", "wrong", "noticed"),
    [
        ("> lane->longest_list", "> lane->longest_list + 2", "a command runs before one it waits for"),
        ("i < command->waits_count", "i <= command->waits_count", "ERROR: AddressSanitizer|runtime error"),
        (
            "events[i].lane->way->delete(events[i].lane, events[i].event);",
            "(void)events[i];",
            "events are not given back",
        ),
        (
            "change_over(whole, is_call, is_copy);",
            "change_over(whole, !!whole->last_is_call, 0);",
            "before one it waits for|is made before what it waits for",
        ),
        (" || (is_call && unfinished)", "", "a command runs before one it waits for"),
        (
            "*assigned = event && memcmp(before, after, sizeof before) != 0;",
            "*assigned = event != NULL;",
            "the native event of nothing|Sanitizer|runtime error",
        ),
        ("if (status != 0)\n        return NULL;", "", "a call that failed is taken for done"),
        ("of(lane)->delete_sycl_event(event);", "(void)event;", "events are not given back|LeakSanitizer"),
        ("return native ? native : fence(lane, NULL, 0);", "return native;", "it ends for no reason"),
    ],
    ids=[
        "a fence left out",
        "a list read beyond its end",
        "events kept",
        "calls and the rest of a lane out of step",
        "a call before what it waits for",
        "an event that was not assigned",
        "a call that failed",
        "a call's event kept",
        "no fence behind a call without an event",
    ],
)
def test_it_notices_what_is_wrong(tool: ModuleType, tmp_path: Path, right: str, wrong: str, noticed: str) -> None:
    changed = 0
    for source in (ROOT / "syclsched" / "devices").glob("_submit*.[ch]"):
        text = source.read_text()
        changed += right in text
        (tmp_path / source.name).write_text(text.replace(right, wrong))
    assert changed == 1
    found = run(tool, tmp_path, tmp_path)
    assert found.returncode != 0
    assert re.search(noticed, found.stderr), found.stderr
