# SPDX-License-Identifier: Apache-2.0
"""A cache of the last used objects: each is made once, and closed when it is no longer used."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from syclsched.errors import ExecutionError
from syclsched.onnx.lru_cache import BoundModel, BoundModelCache


class _Runner:
    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name
        log.append(f"make {name}")

    def close(self) -> None:
        self.log.append(f"close {self.name}")


def maker(log: list[str], name: str) -> Any:
    return lambda: BoundModel(None, None, _Runner(log, name))  # type: ignore[arg-type]


def test_the_last_used_stay_and_others_are_closed() -> None:
    log: list[str] = []
    kept = BoundModelCache(2)
    for name in ("a", "b", "a", "c", "a", "b"):
        with kept.using(name, maker(log, name)):
            pass
    assert log == ["make a", "make b", "close b", "make c", "close c", "make b"]
    kept.close()
    assert log[-2:] == ["close a", "close b"]


def test_objects_in_use_are_not_closed() -> None:
    log: list[str] = []
    kept = BoundModelCache(1)
    with kept.using("a", maker(log, "a")):
        with kept.using("b", maker(log, "b")):
            assert "close a" not in log
        assert "close a" not in log
    with kept.using("c", maker(log, "c")):
        pass
    assert sorted(log[-3:]) == ["close a", "close b", "make c"]


def test_failed_constructions_are_retried() -> None:
    log: list[str] = []
    kept = BoundModelCache(1)

    def fails() -> BoundModel:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), kept.using("a", fails):
        pass
    assert not kept.all()
    with kept.using("a", maker(log, "a")) as bound:
        assert bound.runner.name == "a"


def test_concurrent_threads_make_a_value_once() -> None:
    log: list[str] = []
    kept = BoundModelCache(2)
    start, inside, go = threading.Barrier(5), threading.Semaphore(0), threading.Event()

    def use() -> None:
        start.wait()
        with kept.using("a", maker(log, "a")):
            inside.release()
            go.wait()
            log.append("used")

    threads = [threading.Thread(target=use) for _ in range(5)]
    for thread in threads:
        thread.start()
    for _ in threads:
        inside.acquire()
    closing = threading.Thread(target=kept.close)
    closing.start()
    go.set()
    for thread in (*threads, closing):
        thread.join()
    assert log == ["make a", *["used"] * 5, "close a"]


def test_acquired_ready_objects_are_not_closed() -> None:
    log: list[str] = []
    kept = BoundModelCache(1)
    assert kept.acquire_ready("a") is None
    with kept.using("a", maker(log, "a")):
        pass
    slot = kept.acquire_ready("a")
    assert slot is not None
    assert slot.bound is kept.all()[0]
    with kept.using("b", maker(log, "b")):
        assert "close a" not in log
    kept.release(slot)
    with kept.using("c", maker(log, "c")):
        pass
    assert sorted(log[-3:]) == ["close a", "close b", "make c"]
    closing = threading.Thread(target=kept.close)
    slot = kept.acquire_ready("c")
    assert slot is not None
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    assert "close c" not in log
    kept.release(slot)
    closing.join(60.0)
    assert log[-1] == "close c"


def test_closed_cache_makes_nothing() -> None:
    log: list[str] = []
    kept = BoundModelCache(2)
    with kept.using("a", maker(log, "a"), awaited=False):
        kept.close()
    assert log == ["make a", "close a"]
    with pytest.raises(ExecutionError, match="closed"), kept.using("b", maker(log, "b")):
        pass
    assert log == ["make a", "close a"]
