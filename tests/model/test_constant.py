# SPDX-License-Identifier: Apache-2.0
"""Constants as data: contents, equality, and their use by tasks."""

import gc
import weakref

import numpy as np
import pytest

import syclsched
from syclsched.errors import ArgumentError
from syclsched.kernels.elementwise import AXPY
from syclsched.model.constant import Constant


def test_a_constant_cannot_be_changed():
    given = np.arange(6.0).reshape(2, 3)
    found = syclsched.constant(given, name="w")
    given[:] = 0
    assert found.data[1, 2] == 5.0
    assert not found.data.flags.writeable
    assert (found.shape, found.dtype, found.nbytes, found.name) == ((2, 3), "float64", 48, "w")
    with pytest.raises(AttributeError, match="cannot be changed"):
        found.shape = (6,)
    with pytest.raises(AttributeError):
        del found.data
    assert "float64 (2, 3), 48 bytes" in repr(found)


def test_read_only_data_are_not_copied():
    given = np.frombuffer(np.arange(4.0).tobytes())
    assert np.shares_memory(syclsched.constant(given).data, given)


@pytest.mark.parametrize(
    "value",
    [3.5, [], np.zeros((0, 4), "float16"), True, np.arange(3, dtype=">i4"), np.ones((2, 2), order="F"), 1j],
)
def test_any_numbers_make_a_constant(value):
    found = syclsched.constant(value)
    assert found.data.flags.c_contiguous
    assert found.data.dtype.isnative
    np.testing.assert_array_equal(found.data, np.asarray(value))
    assert len(found.digest) == 16


@pytest.mark.parametrize("value", [["a"], [object()], [[1], [1, 2]]])
def test_non_numeric_values_are_refused(value):
    with pytest.raises(ArgumentError, match="constant 'w'"):
        syclsched.constant(value, name="w")


def test_equality_is_identity_and_the_digest_is_of_the_value():
    first, second = syclsched.constant([1.0, 2.0]), syclsched.constant([1.0, 2.0])
    assert first != second
    assert first.digest == second.digest
    assert first.digest not in (syclsched.constant([[1.0, 2.0]]).digest, syclsched.constant([1.0, 3.0]).digest)
    assert syclsched.constant(first, "float32").dtype == "float32"


def test_the_digest_is_of_all_numbers_of_a_large_value():
    values = np.zeros((3, 1 << 18), np.float32)
    digests = {syclsched.constant(values).digest}
    for place in (0, 1 << 16, 1 << 17, values.size - 1):
        values.flat[place] = 1.0
        digests.add(syclsched.constant(values.copy()).digest)
    assert len(digests) == 5


def test_rows_are_the_same_object_while_referenced():
    whole = syclsched.constant(np.arange(8.0).reshape(4, 2), name="w")
    part = whole.part((1, 3))
    assert part is whole.part((1, 3))
    assert whole.part((0, 4)) is whole
    assert np.shares_memory(part.data, whole.data)
    assert part.name == "w[1:3]"
    gone = weakref.ref(part)
    del part
    gc.collect()
    assert gone() is None


def _task(graph, **arguments):
    return graph.kernel(AXPY, **arguments)


def test_another_shape_is_the_same_object_while_referenced():
    value = np.arange(6.0)
    whole = syclsched.constant(value, name="w")
    turned = whole.reshaped((3, 2), "w")
    assert whole.reshaped((3, 2), "w") is turned and whole.reshaped((2, 3), "w") is not turned
    number = whole.number
    del whole
    gc.collect()
    assert turned._whole is not None and turned._whole.number == number
    assert np.array_equal(turned.data, value.reshape(3, 2))
    turned._whole.evict(lambda: value)
    assert turned.data.shape == (3, 2) and np.array_equal(turned.data.ravel(), value)


def test_task_has_constants_and_arrays():
    graph = syclsched.TaskGraph()
    y = graph.array("y", (4,), "float64")
    w = syclsched.constant(np.ones(4))
    task = _task(graph, x=w, y=y, alpha=2.0)
    assert task.constants == {"x": w}
    assert task.arguments == {"y": "y"}
    assert task.signature.constants == {"x"}
    assert task.signature.shapes["x"] == (4,)
    assert [access.array for access in task.accesses] == ["y"]
    assert graph.constants == (w,)
    assert isinstance(w, Constant)


def test_unsuitable_constants_are_refused():
    graph = syclsched.TaskGraph()
    y = graph.array("y", (4,), "float64")
    with pytest.raises(ArgumentError, match="update of the operation: it cannot be a constant"):
        _task(graph, x=y, y=syclsched.constant(np.ones(4)), alpha=2.0)
    with pytest.raises(ArgumentError, match="float32"):
        _task(graph, x=syclsched.constant(np.ones(4, "float32")), y=y, alpha=2.0)
    with pytest.raises(ArgumentError):
        _task(graph, x=syclsched.constant(np.ones(5)), y=y, alpha=2.0)
    with pytest.raises(ArgumentError, match="must be a number"):
        _task(graph, x=syclsched.constant(np.ones(4)), y=y, alpha=syclsched.constant(2.0))


def test_fingerprint_depends_on_identity_of_constants():
    def made(first, second):
        graph = syclsched.TaskGraph()
        y = graph.array("y", (4,), "float64")
        for each in (first, second):
            _task(graph, x=each, y=y, alpha=2.0)
        return graph.fingerprint()

    a, b, c = (syclsched.constant(np.full(4, n)) for n in (1.0, 2.0, 3.0))
    assert made(a, b) == made(b, c)
    assert made(a, a) != made(a, b)
