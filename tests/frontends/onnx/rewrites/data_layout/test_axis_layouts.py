# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from syclsched.frontends.onnx.rewrites.data_layout.axis_layouts import (
    before_transpose,
    channels_last,
    permutation_between,
    reduced,
    same_element_order,
    through_reshape,
    through_transpose,
)

shapes = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=5).map(tuple)


@given(st.data())
def test_a_reshaped_value_is_stored_in_the_computed_layout(data: st.DataObject) -> None:
    source = data.draw(shapes)
    factors = [f for extent in source for f in ((2, 3) if extent == 6 else (2, 2) if extent == 4 else (extent,))]
    target = []
    for factor in factors:
        if target and data.draw(st.booleans()):
            target[-1] *= factor
        else:
            target.append(factor)
    layout = tuple(data.draw(st.permutations(range(len(source)))))
    made = through_reshape(source, tuple(target), layout)
    value = np.arange(math.prod(source)).reshape(source)
    if made is not None:
        stored = value.transpose(layout).ravel()
        np.testing.assert_array_equal(value.reshape(target).transpose(made).ravel(), stored)
    else:
        assert layout != tuple(range(len(source)))


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(*[st.permutations(range(n)).map(tuple)] * 3)))
def test_a_transposed_value_is_stored_as_the_one_it_is_made_of(three: tuple[tuple[int, ...], ...]) -> None:
    layout, permutation, other = three
    value = np.arange(math.prod(range(2, 2 + len(layout)))).reshape(range(2, 2 + len(layout)))
    made = through_transpose(layout, permutation)
    stored = value.transpose(layout)
    np.testing.assert_array_equal(value.transpose(permutation).transpose(made), stored)
    assert before_transpose(made, permutation) == layout
    np.testing.assert_array_equal(stored.transpose(permutation_between(layout, other)), value.transpose(other))


def test_axes_of_one_element_make_no_difference() -> None:
    assert same_element_order((2, 3, 1, 1), channels_last(4), (0, 1, 2, 3))
    assert not same_element_order((2, 3, 1, 4), channels_last(4), (0, 1, 2, 3))
    assert same_element_order((2, 0, 3, 4), channels_last(4), (0, 1, 2, 3))


def test_layout_after_the_removal_of_axes() -> None:
    assert reduced((0, 2, 3, 1), (2, 3)) == (0, 1)
    assert reduced((0, 2, 3, 1), (0,)) == (1, 2, 0)


def test_numbers_of_elements_that_do_not_agree_are_no_reshape() -> None:
    assert through_reshape((2, 3), (2, 2), (0, 1)) is None
    assert through_reshape((0, 3), (3, 0), (0, 1)) is None
