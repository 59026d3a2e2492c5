# SPDX-License-Identifier: Apache-2.0
"""Memory of all plans that one process has bound: admission of plans that fit together, refusal of others."""

from __future__ import annotations

import pytest

from syclsched.cluster.bound_memory import BoundMemory
from syclsched.errors import MemoryLimitError
from syclsched.model.platform import MemorySpace

SPACES = (MemorySpace("gpu", 100), MemorySpace("cpu", 1000, True), MemorySpace("host", 1000, True))


def test_released_memory_is_admitted_again() -> None:
    memory = BoundMemory(lambda: None)
    memory.claim("a", "graph 'a' of ann", {"gpu": 60}, SPACES)
    memory.claim("b", "graph 'b' of bob", {"gpu": 40}, SPACES)
    with pytest.raises(
        MemoryLimitError,
        match=r"graph 'c' of cyd needs 50 B of memory 'gpu', and 0 B of 100 B are left: graph 'a' of ann holds 60 B; "
        r"graph 'b' of bob holds 40 B.*Wait until others are done",
    ) as caught:
        memory.claim("c", "graph 'c' of cyd", {"gpu": 50}, SPACES)
    assert caught.value.space == "gpu"
    memory.release("a")
    memory.claim("c", "graph 'c' of cyd", {"gpu": 50}, SPACES)


def test_spaces_in_the_memory_of_the_host_share_it() -> None:
    memory = BoundMemory(lambda: None)
    memory.claim("a", "graph 'a' of ann", {"cpu": 500, "host": 200}, SPACES)
    with pytest.raises(MemoryLimitError, match="needs 400 B of memory 'host', and 300 B of 1000 B are left"):
        memory.claim("b", "graph 'b' of bob", {"cpu": 200, "host": 200}, SPACES)
    memory.claim("b", "graph 'b' of bob", {"cpu": 200, "host": 100, "gpu": 100}, SPACES)


def test_a_limit_of_one_space_does_not_limit_the_others() -> None:
    spaces = (MemorySpace("cpu", 100, True), MemorySpace("host", 1000, True))
    memory = BoundMemory(lambda: None)
    memory.claim("a", "graph 'a' of ann", {"cpu": 60, "host": 500}, spaces)
    with pytest.raises(MemoryLimitError, match="needs 50 B of memory 'cpu', and 40 B of 100 B are left"):
        memory.claim("b", "graph 'b' of bob", {"cpu": 50}, spaces)
    memory.claim("b", "graph 'b' of bob", {"host": 440}, spaces)


def test_a_refused_claim_holds_no_memory() -> None:
    memory = BoundMemory(lambda: None)
    with pytest.raises(MemoryLimitError):
        memory.claim("a", "graph 'a' of ann", {"gpu": 60, "host": 2000}, SPACES)
    memory.claim("b", "graph 'b' of bob", {"gpu": 100, "host": 1000}, SPACES)


def test_memory_used_by_other_programs_is_not_admitted() -> None:
    memory = BoundMemory(lambda: 300)
    with pytest.raises(MemoryLimitError, match="the machine has 300 B left beside other programs"):
        memory.claim("a", "graph 'a' of ann", {"host": 301}, SPACES)
    memory.claim("a", "graph 'a' of ann", {"host": 300}, SPACES)


def test_of_many_holders_the_largest_are_named() -> None:
    memory = BoundMemory(lambda: None)
    for number in range(10):
        memory.claim(str(number), f"graph {number}", {"gpu": number + 1}, SPACES)
    with pytest.raises(MemoryLimitError, match=r"graph 9 holds 10 B; .*graph 6 holds 7 B; 6 more hold less") as caught:
        memory.claim("a", "graph 'a' of ann", {"gpu": 60}, SPACES)
    assert "graph 5" not in str(caught.value)
