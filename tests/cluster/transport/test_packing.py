# SPDX-License-Identifier: Apache-2.0
"""Python values as pieces of messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syclsched.cluster.transport.packing import before_of, joined, packed, value_of

pytest.importorskip("distributed", reason="the package distributed is not installed")

VALUES: dict[str, Any] = {
    "nothing": None,
    "text": "text " * 1000,
    "array": np.arange(1000.0),
    "arrays of odd sizes": {f"x{size}": np.arange(size, dtype=np.uint8) for size in (0, 1, 63, 64, 65, 100_001)},
    "columns first": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "every second": np.arange(20.0)[::2],
    "nested": [(np.ones(3), {"y": np.zeros((2, 2))}), 7],
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_packed_value_is_restored(value: Any) -> None:
    message = memoryview(bytearray(joined(packed(b"before it", value))))
    assert before_of(message) == b"before it"
    np.testing.assert_equal(value_of(message), value)


def test_arrays_are_not_copied() -> None:
    data = np.arange(10_000.0)
    pieces = packed(b"", {"x": data})
    assert sum(np.shares_memory(np.frombuffer(each, np.uint8), data) for each in pieces) == 1
    message = np.frombuffer(bytearray(joined(pieces)), np.uint8)
    back = value_of(message.data)["x"]
    assert np.shares_memory(back, message)
    back[:] = 1.0  # is writable


def test_arrays_are_aligned() -> None:
    message = np.frombuffer(bytearray(joined(packed(b"12345", [np.ones(3), np.ones(5), np.ones(7)]))), np.uint8)
    for each in value_of(message.data):
        assert (each.__array_interface__["data"][0] - message.__array_interface__["data"][0]) % 64 == 0


def test_functions_of_scripts_are_sent() -> None:
    assert value_of(memoryview(joined(packed(b"", lambda x: x + 1))))(2) == 3
