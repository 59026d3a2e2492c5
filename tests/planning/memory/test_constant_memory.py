# SPDX-License-Identifier: Apache-2.0
"""Memory that remains beside constants."""

from __future__ import annotations

import pytest

from syclsched.errors import MemoryLimitError
from syclsched.model.platform import HOST, MemorySpace, Platform
from syclsched.planning.memory.constant_memory import reserve_memory


def with_memory(capacity_bytes: int) -> Platform:
    return Platform("one", (), (MemorySpace("gpu", capacity_bytes), MemorySpace(HOST, 0, True)), ())


def test_arrays_have_the_memory_beside_constants() -> None:
    assert reserve_memory(with_memory(100), {"gpu": 99}).space("gpu").capacity_bytes == 1
    assert reserve_memory(with_memory(100), {}) == with_memory(100)


def test_memory_of_unknown_size_stays_unknown() -> None:
    assert reserve_memory(with_memory(0), {"gpu": 99}).space("gpu").capacity_bytes == 0


@pytest.mark.parametrize("taken", [100, 101])
def test_constants_that_fill_the_memory_are_refused(taken: int) -> None:
    with pytest.raises(MemoryLimitError, match=rf"constants take {taken} bytes, there are 100 bytes"):
        reserve_memory(with_memory(100), {"gpu": taken})
