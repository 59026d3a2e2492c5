# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.launching import launch

from syclsched.errors import ArgumentError
from syclsched.kernel_compiler.kernel_api import Group, Item, NdItem, NdRange, Range

pytestmark = pytest.mark.sycl


def _item(item: Any, out: Any) -> None:
    i = item.get_linear_id()
    out[i, 0] = item.get_linear_range()
    out[i, 1] = item.dimensions
    for axis in range(item.dimensions):
        out[i, 2 + axis] = item.get_id(axis)
        out[i, 5 + axis] = item.get_range(axis)


def _nd_item(item: Any, out: Any) -> None:
    group = item.get_group()
    i = item.get_global_linear_id()
    out[i, 0] = item.get_global_linear_range()
    out[i, 1] = item.dimensions + 10 * group.dimensions
    for axis in range(item.dimensions):
        out[i, 2 + axis] = item.get_global_id(axis)
        out[i, 5 + axis] = item.get_global_range(axis)
        out[i, 8 + axis] = item.get_local_id(axis)
        out[i, 11 + axis] = item.get_local_range(axis)
        out[i, 14 + axis] = group.get_group_id(axis)
        out[i, 17 + axis] = group.get_group_range(axis)
        out[i, 20 + axis] = group.get_local_range(axis)
    out[i, 23] = item.get_local_linear_id()
    out[i, 24] = item.get_local_linear_range()
    out[i, 25] = group.get_group_linear_id()
    out[i, 26] = group.get_group_linear_range()
    out[i, 27] = group.get_local_linear_range()
    out[i, 28] = group.leader


@pytest.mark.parametrize("extents", [(7,), (3, 5), (2, 3, 4)])
def test_index_and_range_of_items(extents: tuple[int, ...]) -> None:
    found = np.zeros((np.prod(extents), 8), np.int64)
    wanted = found.copy()
    launch(_item, extents, found)
    for index in np.ndindex(extents):
        _item(Item(Range(*extents), index), wanted)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("extents", "local"), [((12,), (4,)), ((4, 6), (2, 3)), ((2, 4, 6), (1, 2, 3))])
def test_index_and_range_of_items_of_groups(extents: tuple[int, ...], local: tuple[int, ...]) -> None:
    found = np.zeros((np.prod(extents), 29), np.int64)
    wanted = found.copy()
    launch(_nd_item, extents, found, local_range=local)
    groups = Range(*(whole // part for whole, part in zip(extents, local, strict=True)))
    for index in np.ndindex(extents):
        within = tuple(place % part for place, part in zip(index, local, strict=True))
        at = [place // part for place, part in zip(index, local, strict=True)]
        group = Group(Range(*extents), Range(*local), groups, at, leader=not any(within))
        _nd_item(NdItem(Item(Range(*extents), index), Item(Range(*local), within), group), wanted)
    np.testing.assert_array_equal(found, wanted)


def _by_keyword(item: Any, out: Any) -> None:
    out[item.get_id(idx=0)] = item.get_range(idx=0)


def test_dimensions_are_given_by_keyword() -> None:
    found = np.zeros(5, np.int64)
    launch(_by_keyword, (5,), found)
    assert found.tolist() == [5] * 5


def test_ranges() -> None:
    assert Range(2, 3) == (2, 3)
    assert (Range(2, 3).size(), Range(4).dim1, Range(2, 3).ndim, Range(2, 3, 4).get(2)) == (6, -1, 2, 4)
    with pytest.raises(TypeError, match="dim1"):
        Range(2, 1.5)  # type: ignore[arg-type]
    assert NdRange((4, 4), (2, 1)) == NdRange(Range(4, 4), Range(2, 1))
    with pytest.raises(ArgumentError, match="groups of 3"):
        NdRange((4,), (3,))
    with pytest.raises(ArgumentError, match="1 global and 2 local"):
        NdRange((4,), (2, 2))
