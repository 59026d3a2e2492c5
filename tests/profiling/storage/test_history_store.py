# SPDX-License-Identifier: Apache-2.0
"""The store of measured durations: several processes, damage, and read-only folders."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.costs.history import HistoryKey, Sample, in_run_key, is_provisional
from syclsched.errors import FormatError, MeasurementError, SyclschedError
from syclsched.model.profile import Quantity
from syclsched.profiling.storage.history_store import KEPT_SAMPLES, HistoryStore
from syclsched.profiling.storage.idle_connection import close_idle, leave_idle, take_idle

KEY = HistoryKey("device", "gemm", "python", "1", "a:float64[64,64]")


def test_samples_become_median_and_spread(tmp_path: Path) -> None:
    with HistoryStore(tmp_path / "new" / "h.sqlite3") as history:
        assert history.note is None
        assert history.lookup(KEY) is None
        history.record(KEY, [1.0, 1.1, 0.9, 1.0, 7.0])
        quantity = history.lookup(KEY)
    assert quantity is not None
    assert (quantity.value, quantity.samples, quantity.spikes) == (1.0, 4, 1)
    assert quantity.mad == pytest.approx(0.05)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=20), st.lists(st.floats(0, 1e3), min_size=1, max_size=20))
def test_samples_recorded_in_pieces_are_combined(first: list[float], second: list[float]) -> None:
    with HistoryStore(":memory:") as pieces, HistoryStore(":memory:") as whole:
        pieces.record(KEY, first)
        pieces.record(KEY, second)
        whole.record(KEY, first + second)
        assert pieces.lookup(KEY) == whole.lookup(KEY)


def test_keys_differ_in_every_part() -> None:
    with HistoryStore(":memory:") as history:
        history.record(KEY, [1.0])
        for part in ("device_key", "operation", "implementation", "revision", "signature"):
            values = {n: getattr(KEY, n) for n in KEY.__dataclass_fields__}
            assert history.lookup(HistoryKey(**{**values, part: "other"})) is None
        assert len(history) == 1


def test_only_the_newest_samples_are_kept() -> None:
    with HistoryStore(":memory:") as history:
        history.record(KEY, [1.0] * KEPT_SAMPLES)
        history.record(KEY, [2.0] * KEPT_SAMPLES)
        quantity = history.lookup(KEY)
    assert quantity is not None
    assert (quantity.value, quantity.samples) == (2.0, KEPT_SAMPLES)


def test_samples_keep_their_time_load_and_source(tmp_path: Path) -> None:
    with HistoryStore(tmp_path / "h.sqlite3", clock=lambda: 1234.5) as history:
        history.record(KEY, [1.0], load=0.02)
        history.record(KEY, [2.0], load=0.4, source="run")
    with HistoryStore(tmp_path / "h.sqlite3") as history:
        assert history.stored(KEY) == (Sample(1.0, 1234.5, 0.02), Sample(2.0, 1234.5, 0.4, "run", quiet=False))


def test_busy_samples_never_displace_quiet_samples() -> None:
    with HistoryStore(":memory:") as history:
        history.record(KEY, [1.0] * 5, load=0.0)
        history.record(KEY, [9.0] * (2 * KEPT_SAMPLES), load=0.6)
        quantity = history.lookup(KEY)
        assert quantity is not None
        assert (quantity.value, quantity.samples, len(history.stored(KEY))) == (1.0, 5, KEPT_SAMPLES)


def test_doubted_times_and_their_alternatives_are_provisional() -> None:
    other = HistoryKey(KEY.device_key, KEY.operation, "opencl-c", "7", KEY.signature)
    elsewhere = HistoryKey(KEY.device_key, KEY.operation, "opencl-c", "7", "a:float64[65,64]")
    with HistoryStore(":memory:") as history:
        for key in (KEY, other, elsewhere):
            history.record(key, [1.0] * 5)
        history.record(in_run_key(KEY), [1.0] * 5, source="run")
        history.distrust(KEY)
        found = {key: history.lookup(key) for key in (KEY, other, elsewhere, in_run_key(KEY))}
    assert [quantity is not None and is_provisional(quantity) for quantity in found.values()] == [
        True, True, False, False,
    ]  # fmt: skip


def test_times_of_an_earlier_file_version_are_provisional(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "h.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE samples (id INTEGER PRIMARY KEY AUTOINCREMENT, device_key TEXT NOT NULL, operation TEXT NOT "
            "NULL, implementation TEXT NOT NULL, revision TEXT NOT NULL, signature TEXT NOT NULL, seconds REAL NOT "
            "NULL); PRAGMA user_version=1;"
        )
        values = (KEY.device_key, KEY.operation, KEY.implementation, KEY.revision, KEY.signature)
        connection.executemany(
            "INSERT INTO samples (device_key, operation, implementation, revision, signature, seconds) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [(*values, 3.0)] * 8,
        )
    connection.close()
    with HistoryStore(path) as history:
        before = history.lookup(KEY)
        history.record(KEY, [2.0] * 5)
        after = history.lookup(KEY)
    assert before is not None and after is not None
    assert (before.value, is_provisional(before)) == (3.0, True)
    assert (after.value, is_provisional(after)) == (2.0, False)
    with HistoryStore(path) as history:  # the layout is changed once
        assert len(history.stored(KEY)) == 13


def test_old_estimates_follow_a_machine_that_became_slower() -> None:
    now_s = 0.0
    kinds = [HistoryKey("device", name, "i, in a run", "1", "s") for name in ("a", "b", "c")]
    with HistoryStore(":memory:", clock=lambda: now_s) as history:
        history.record(KEY, [4.0] * 5)
        for key in kinds:
            history.record(key, [1.0] * 8, source="run")
        now_s = 100_000.0
        for key in kinds:
            history.record(key, [1.5, 1.5], source="run")
        found = history.lookup(KEY)
        assert found is not None
        assert found.value == pytest.approx(6.0)
        now_s = 200_000.0
        history.refresh()
        assert history.lookup(KEY) is not None and history.lookup(KEY).value == 4.0  # type: ignore[union-attr]


def test_times_of_operations_or_devices_can_be_deleted() -> None:
    keys = [HistoryKey(device, name, "i", "1", "s") for device in ("cpu-1", "gpu-2") for name in ("gemm", "trsm")]
    with HistoryStore(":memory:") as history:
        for key in keys:
            history.record(key, [1.0, 2.0])
        assert history.forget_matching("gemm") == 4
        assert history.lookup(keys[0]) is None and history.lookup(keys[1]) is not None
        assert history.forget_matching("gpu") == 2
        assert history.forget_matching("nothing") == 0
        assert history.forget_matching(None) == 2
        assert len(history) == 0


@pytest.mark.parametrize("sample", [float("nan"), float("inf"), -1.0])
def test_impossible_durations_are_refused_whole(sample: float) -> None:
    with HistoryStore(":memory:") as history:
        with pytest.raises(MeasurementError):
            history.record(KEY, [1.0, sample])
        assert history.lookup(KEY) is None


def test_another_store_reads_recorded_samples(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite3"
    with HistoryStore(path) as one, HistoryStore(path) as two:
        assert two.lookup(KEY) is None
        one.record(KEY, [3.0])
        two.refresh()
        quantity = two.lookup(KEY)
        assert quantity is not None
        assert quantity.value == 3.0
        two.forget("device")
        assert two.lookup(KEY) is None


_WRITER = """
import sys
from syclsched.costs.history import HistoryKey
from syclsched.profiling.storage.history_store import HistoryStore
with HistoryStore(sys.argv[1]) as history:
    assert history.note is None, history.note
    for i in range(10):
        history.record(HistoryKey("device", f"op{sys.argv[2]}", "i", "1", f"s{i}"), [1.0, 2.0, 3.0])
"""


def test_processes_writing_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite3"
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, str(path), str(n)]) for n in range(3)]
    assert [w.wait(timeout=300) for w in writers] == [0, 0, 0]
    with HistoryStore(path) as history:
        assert len(history) == 30


def test_threads_may_open_a_new_store_at_once(tmp_path: Path) -> None:
    for attempt in range(40):
        together, failed = threading.Barrier(4), list[Exception]()

        def opened(attempt: int = attempt, together: threading.Barrier = together, failed: Any = failed) -> None:
            together.wait()
            try:
                HistoryStore(tmp_path / f"{attempt}.sqlite3").close()
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=opened) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert not failed


def test_threads_may_share_a_store() -> None:
    with HistoryStore(":memory:") as history:

        def write(name: str) -> None:
            for i in range(20):
                history.record(HistoryKey("d", name, "i", "1", str(i)), [1.0])

        threads = [threading.Thread(target=write, args=(f"t{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(history) == 80


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "h.sqlite3"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"h\.sqlite3"):
        HistoryStore(path)


def test_durations_that_are_none_are_an_error(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "h.sqlite3"
    with HistoryStore(path) as history:
        history.record(KEY, [1.0])
    connection = sqlite3.connect(path)
    connection.execute("UPDATE samples SET seconds = 'quick'")
    connection.commit()
    connection.close()
    with HistoryStore(path) as history, pytest.raises(FormatError, match="gemm"):
        history.lookup(KEY)


def test_without_a_writable_folder_the_store_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with HistoryStore(tmp_path / "file" / "h.sqlite3") as history:
        assert history.note is not None
        assert "memory only" in history.note
        history.record(KEY, [1.0])
        assert history.lookup(KEY) is not None


def test_a_file_that_cannot_be_written_is_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    path = tmp_path / "h.sqlite3"
    with HistoryStore(path) as history:
        history.record(KEY, [2.0])
    connect = sqlite3.connect

    def read_only(name: str, **options: object) -> sqlite3.Connection:
        if name == str(path):  # root may write anywhere, so the mock refuses
            return connect(f"{path.as_uri()}?mode=ro", uri=True, **options)  # type: ignore[call-overload, no-any-return]
        return connect(name, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", read_only)
    close_idle()  # as at the end of another process
    with HistoryStore(path) as history:
        assert history.note is not None
        quantity = history.lookup(KEY)
        assert quantity is not None
        assert quantity.value == 2.0
        history.record(KEY, [4.0])
        again = history.lookup(KEY)
        assert again is not None
        assert again.value == 3.0


# --- reuse of the connection ---------------------------------------------------------------------------


def test_a_reused_connection_reads_changes_of_others(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    with HistoryStore(path) as store:
        store.record(KEY, [1.0])
        assert store.lookup(KEY) is not None
    with HistoryStore(path) as store, HistoryStore(path) as other:
        other.record(KEY, [3.0] * 9)
    with HistoryStore(path) as store:
        assert store.lookup(KEY) == other_lookup(path)


def other_lookup(path: Path) -> Quantity | None:
    """Return a store's results through a connection of its own."""
    with HistoryStore(path), HistoryStore(path) as store:
        return store.lookup(KEY)


def test_concurrent_writes_are_read_by_the_next_store(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    with HistoryStore(path) as other:
        other.record(KEY, [9.0])
        with HistoryStore(path) as store:
            assert store.lookup(KEY) == other.lookup(KEY)
            other.record(KEY, [5.0] * KEPT_SAMPLES)
            store.refresh()
            again = store.lookup(KEY)
            assert again is not None and again.value == 5.0
            other.record(KEY, [3.0] * KEPT_SAMPLES)
    with HistoryStore(path) as store:
        found = store.lookup(KEY)
        assert found is not None and found.value == 3.0


FORK = """
import os, sys
from pathlib import Path
from syclsched.costs.history import HistoryKey
from syclsched.profiling.storage.history_store import HistoryStore

def key(name):
    return HistoryKey("device", name, "python", "1", "")

path = Path(sys.argv[1])
with HistoryStore(path) as store:
    store.record(key("before"), [1.0])
ready, say_ready = os.pipe()
parent_lives, hold = os.pipe()
if os.fork():
    os.read(ready, 1)
    sys.exit()
os.close(hold)
with HistoryStore(path) as store:
    store.record(key("beside"), [1.0])
    os.write(say_ready, b"1")
    os.read(parent_lives, 1)  # until the parent has ended
    store.record(key("after"), [1.0])
    os._exit(0)  # as if it were killed
"""


def test_a_forked_process_writes_to_the_file_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    subprocess.run([sys.executable, "-c", FORK, str(path)], check=True, stdout=subprocess.PIPE, timeout=60)
    with HistoryStore(path) as store:
        assert {key.operation for key, _ in store.entries()} == {"before", "beside", "after"}


def test_a_file_that_can_be_written_no_more_is_replaced_by_memory(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    with HistoryStore(path) as store:
        store.record(KEY, [1.0])
    held = take_idle(path)
    assert held is not None
    held.connection.execute("PRAGMA query_only = 1")
    leave_idle(held)
    with HistoryStore(path) as store:
        store.record(KEY, [3.0])
        assert store.note is not None and "memory only" in store.note
        assert [sample.seconds for sample in store.stored(KEY)][-1:] == [3.0]


def test_replaced_file_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    with HistoryStore(path) as store:
        store.record(KEY, [1.0])
    for each in tmp_path.iterdir():
        each.unlink()
    with HistoryStore(path) as store:
        assert store.lookup(KEY) is None
        store.record(KEY, [2.0])
        assert [sample.seconds for sample in store.stored(KEY)] == [2.0]


def test_a_closed_store_cannot_be_used(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history.sqlite3")
    store.close()
    store.close()
    with pytest.raises(SyclschedError):
        store.stored(KEY)
    with HistoryStore(tmp_path / "history.sqlite3") as next_one:
        assert next_one.stored(KEY) == ()


def test_cached_times_are_read_again_after_a_while(tmp_path: Path) -> None:
    path, now = tmp_path / "history.sqlite3", [1_000_000.0]

    def clock() -> float:
        return now[0]

    keys = [replace(KEY, operation=f"operation {n}") for n in range(4)]
    with HistoryStore(path, clock) as store:
        for key in keys:
            store.record(key, [1.0] * 9)
    now[0] += 100_000.0
    with HistoryStore(path, clock) as store:
        assert store.lookup(keys[0]) is not None
        for key in keys[1:]:
            store.record(key, [2.0, 2.0], source="run")
    now[0] += 60.0
    with HistoryStore(path, clock) as store:
        found = store.lookup(keys[0])
        assert found is not None and found.value == pytest.approx(2.0), "all others took twice as long today"
