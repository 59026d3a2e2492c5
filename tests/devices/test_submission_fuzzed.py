# SPDX-License-Identifier: Apache-2.0
"""The compiled submission loop under sanitizers, with random sequences and a mock runtime; no device is needed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SEQUENCES = 3000
#: Sequences with several threads each. With a planted defect more are run: the first failure ends the program.
THREADED, THREADED_UNTIL_SEEN = 30, 3000


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
    module.build = partial(module.build, objects=tmp_path_factory.mktemp("objects"))  # a change is in one of ten files
    return module


def run(
    tool: ModuleType,
    folder: Path,
    sources: Path | None = None,
    *,
    threads: str | None = None,
    driver: str = "fuzz_threads",
    count: int = SEQUENCES,
    patience_s: int = 60,
) -> subprocess.CompletedProcess[str]:
    """Build and run a driver: the one with threads if a sanitizer is named for it."""
    if threads is None:
        program = tool.build(folder, sources=sources)
    else:
        program = tool.build(folder, sources=sources, sanitizers=getattr(tool, threads), driver=driver)
    command = [str(program), "0", str(count), str(patience_s)]
    environment = os.environ | {"TSAN_OPTIONS": "halt_on_error=1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)


def changed_sources(folder: Path, right: str, wrong: str) -> Path:
    """Write the C sources to a folder, with one place of them changed."""
    changed = 0
    for source in (ROOT / "syclsched" / "devices" / "native").glob("_submit*.[ch]"):
        text = source.read_text()
        changed += right in text
        (folder / source.name).write_text(text.replace(right, wrong))
    assert changed == 1
    return folder


def test_random_sequences_are_submitted_in_order_without_leaks(tool: ModuleType, tmp_path: Path) -> None:
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
        (
            "if (!lane->unsplit_done && (to_call || to_copy) && !finish_unsplit(lane))",
            "if (0 && !finish_unsplit(lane))",
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
        "a call before kernels of the lane that was split for it",
        "a call before what it waits for",
        "an event that was not assigned",
        "a call that failed",
        "a call's event kept",
        "no fence behind a call without an event",
    ],
)
def test_injected_defects_are_detected(tool: ModuleType, tmp_path: Path, right: str, wrong: str, noticed: str) -> None:
    found = run(tool, tmp_path, changed_sources(tmp_path, right, wrong))
    assert found.returncode != 0
    assert re.search(noticed, found.stderr), found.stderr


@pytest.mark.parametrize(("usual", "often"), [("CALLS = 128", "CALLS = 2"), ("REMEMBERED = 4096", "REMEMBERED = 3")])
def test_calls_that_are_waited_for_in_between_keep_to_their_order(
    tool: ModuleType, tmp_path: Path, usual: str, often: str
) -> None:
    found = run(tool, tmp_path, changed_sources(tmp_path, usual, often))
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("sanitizers", ["SANITIZERS", "THREAD_SANITIZER"])
@pytest.mark.parametrize("driver", ["fuzz_threads", "fuzz_helpers"], ids=["lanes", "helpers"])
def test_lanes_that_are_threads_and_helpers_keep_to_their_order(
    tool: ModuleType, tmp_path: Path, driver: str, sanitizers: str
) -> None:
    found = run(tool, tmp_path, threads=sanitizers, driver=driver, count=THREADED)
    assert found.returncode == 0, found.stderr
    assert f"{THREADED} sequences" in found.stdout


@pytest.mark.parametrize(
    ("driver", "right", "wrong", "noticed"),
    [
        ("fuzz_threads", "state_of(entry->waits[w]) == WAITING;", "0 && look;", "a command before one it waits for"),
        ("fuzz_threads", "wake(wakers->descriptor);", "", "nobody is woken"),
        (
            "fuzz_threads",
            "__atomic_store_n(&entry->state, state, __ATOMIC_RELEASE);",
            "entry->state = state;",
            "data race",
        ),
        ("fuzz_threads", "        if (whole->apart) { /*", "        if (whole) { /*", "data race"),
        ("fuzz_helpers", "done, taken, __ATOMIC_RELEASE)", "done, taken, __ATOMIC_RELAXED)", "data race"),
        ("fuzz_helpers", "share ? share : 1;", "share ? 1 : 1;", "one by one"),
        ("fuzz_helpers", "__ATOMIC_ACQUIRE) < parts;", "__ATOMIC_ACQUIRE) < parts - 1;", "goes on before|data race"),
        ("fuzz_helpers", "helpers->done = helpers->refused = 0;", "helpers->done = 0;", "another result"),
    ],
    ids=[
        "lanes do not wait",
        "nobody is woken",
        "an end that is no release",
        "lanes written by all",
        "a part that is no release",
        "as many launches as parts",
        "the last part is not waited for",
        "a refusal of the command before",
    ],
)
def test_injected_defects_of_threads_are_detected(
    tool: ModuleType, tmp_path: Path, driver: str, right: str, wrong: str, noticed: str
) -> None:
    found = run(
        tool,
        tmp_path,
        changed_sources(tmp_path, right, wrong),
        threads="THREAD_SANITIZER",
        driver=driver,
        count=THREADED_UNTIL_SEEN,
        patience_s=1 if noticed == "nobody is woken" else 60,
    )
    assert found.returncode != 0
    assert re.search(noticed, found.stderr), found.stderr
