# SPDX-License-Identifier: Apache-2.0
"""Matrix products, compared with NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.grouped import GPUS
from support.operations import NO_SHRINKING, UNCHECKED, close, implementations, numbers, on_host, unwritten

from syclsched.kernels import groups, nn
from syclsched.kernels.nn import panels
from syclsched.model.operation import DeviceLimits, Operation, Signature

Case = tuple[Operation, dict[str, np.ndarray], np.ndarray, str]


def interleaved_array(array: np.ndarray) -> np.ndarray:
    """Return an array that stores the rows of its matrices before the last axis of its batch."""
    return np.ascontiguousarray(array.swapaxes(-2, -3))


@st.composite
def products(draw: st.DrawFn) -> Case:
    """Draw a product, its arrays and its expected result."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    m, n, k = draw(
        st.sampled_from(
            [(1, 1, 1), (3, 5, 7), (1, 40, 33), (33, 1, 16), (17, 65, 130), (4, 16, 0), (14, 32, 64), (29, 70, 3)]
        )
    )
    before_a, before_b = draw(
        st.sampled_from(
            [
                ((), ()),
                ((2,), (2,)),
                ((3,), ()),
                ((), (2,)),
                ((2, 1), (1, 3)),
                ((2, 3), (2, 3)),
                ((1,), (2,)),
                ((2, 2, 1), (1, 2, 3)),
                ((2, 3), ()),
            ]
        )
    )
    transpose_a, transpose_b = draw(st.booleans()), draw(st.booleans())
    a = numbers(*before_a, *((k, m) if transpose_a else (m, k)), dtype=dtype)
    b = numbers(*before_b, *((n, k) if transpose_b else (k, n)), dtype=dtype, seed=1)
    alpha, beta = draw(st.sampled_from([1.0, 0.125])), draw(st.sampled_from([1.0, -2.0]))
    wide = [each.astype("float64") for each in (a, b)]
    wanted = alpha * (
        (wide[0].swapaxes(-1, -2) if transpose_a else wide[0]) @ (wide[1].swapaxes(-1, -2) if transpose_b else wide[1])
    )
    arrays = {"y": unwritten(wanted.shape, dtype), "a": a, "b": b}
    four_axes = [name for name, each in (("y", wanted), ("a", a), ("b", b)) if 4 <= each.ndim == wanted.ndim]
    interleaved = tuple(name for name in four_axes if draw(st.booleans()))
    columns = [None, (), (n,), (1, n)]
    bias = draw(st.sampled_from(columns if "y" in interleaved else [*columns, (m, 1), (m, n), wanted.shape]))
    if bias is not None:
        arrays["c"] = numbers(*bias, dtype=dtype, seed=2)
        wanted = wanted + beta * arrays["c"].astype("float64")
    residual = draw(st.booleans())
    if residual:
        arrays["r"] = numbers(*wanted.shape, dtype=dtype, seed=3)
        wanted = wanted + arrays["r"]
    activation = draw(st.sampled_from([(), (("relu",),), (("gelu",),)]))
    wanted = nn.activation.numpy(activation, wanted)
    lying = {name: interleaved_array(arrays[name]) for name in interleaved}
    if "y" in interleaved:
        wanted = interleaved_array(wanted)
        lying |= {"r": interleaved_array(arrays["r"])} if residual else {}
    arrays |= lying
    operation = nn.matmul(transpose_a, transpose_b, alpha, beta, bias is not None, residual, activation, interleaved)
    return operation, arrays, wanted, dtype


@given(products())
@settings(max_examples=examples(60), deadline=None)
def test_the_host_multiplies(case: Case) -> None:
    operation, arrays, wanted, dtype = case
    close(on_host(operation, arrays), wanted, dtype)


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("name", implementations(nn.matmul(True)))
@given(case=products())
@settings(max_examples=examples(15), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_devices_multiply(run: Any, name: str, case: Case) -> None:
    operation, arrays, wanted, dtype = case
    close(run(operation, name, arrays)["y"], wanted, dtype)
    if operation.implementation(name).prepare is not None:
        close(run(operation, name, arrays, constants=("b",))["y"], wanted, dtype)


@pytest.mark.sycl
@given(case=products(), limits=st.sampled_from(GPUS))
@settings(max_examples=examples(12), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_work_groups_multiply_in_local_memory(run: Any, case: Case, limits: DeviceLimits) -> None:
    operation, arrays, wanted, dtype = case
    close(run(operation, groups.NAME, arrays, limits=limits)["y"], wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("limits", GPUS)
def test_work_groups_make_many_blocks(run: Any, limits: DeviceLimits) -> None:
    for m, n, k in [(300, 270, 77), (1, 1000, 65), (500, 2, 40)]:
        a, b = numbers(m, k), numbers(n, k, seed=1)
        arrays = {"y": unwritten((m, n), "float32"), "a": a, "b": b}
        close(
            run(nn.matmul(transpose_b=True), groups.NAME, arrays, limits=limits)["y"],
            a.astype("float64") @ b.T,
            "float32",
        )


@pytest.mark.sycl
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numba_dpex_multiplies_blocks_of_any_size(run: Any, dtype: str) -> None:
    operation = nn.matmul(alpha=0.5, beta=-2.0, bias=True, residual=True)
    sizes = [(1, 1, 1), (17, 65, 130), (28, 512, 256)] if dtype == "float32" else [(29, 70, 257), (15, 300, 128)]
    for m, n, k in sizes:
        a, b, c, r = (numbers(*shape, dtype=dtype) for shape in ((m, k), (k, n), (n,), (m, n)))
        arrays = {"y": unwritten((m, n), dtype), "a": a, "b": b, "c": c, "r": r}
        wanted = 0.5 * (a.astype("float64") @ b) - 2.0 * c + r
        close(run(operation, "python", arrays)["y"], wanted, dtype)
    small = DeviceLimits(16, 2, 1 << 15)
    close(run(operation, "python", arrays, limits=small)["y"], wanted, dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("n", [5, 70, 130])
def test_blocks_for_few_and_many_registers_give_the_same_bits(
    run: Any, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    for m, k in [(1, 65), (2, 40), (4, 33), (31, 7)]:
        a, b = numbers(m, k), numbers(k, n, seed=1)
        arrays, made = {"y": unwritten((m, n), "float32"), "a": a, "b": b}, []
        for few in (True, False):
            monkeypatch.setattr(panels, "has_small_registers", lambda few=few: few)
            made += [run(nn.matmul(), "opencl-c", arrays, constants=constants)["y"] for constants in ((), ("b",))]
        close(made[0], a.astype("float64") @ b, "float32")
        assert len({each.tobytes() for each in made}) == 1


def test_numba_dpex_is_for_two_matrices() -> None:
    refuses = nn.matmul(bias=True).implementation("python").requires.refuses
    assert refuses is not None
    shapes = {"y": (3, 4), "a": (3, 2), "b": (2, 4), "c": (4,)}
    assert refuses(Signature(shapes, {})) is None
    assert "each column" in str(refuses(Signature({**shapes, "c": (3, 1)}, {})))
    assert "must not be empty" in str(refuses(Signature({**shapes, "y": (0, 4), "a": (0, 2)}, {})))
    assert "not many" in str(refuses(Signature({**shapes, "y": (5, 3, 4), "a": (5, 3, 2)}, {})))
    assert "python" not in [each.name for each in nn.matmul(transpose_b=True).implementations]


def told(operation: Operation, **shapes: tuple[int, ...]) -> str:
    assert operation.check is not None
    return str(operation.check(Signature(shapes, dict.fromkeys(shapes, "float32"))))


def test_shapes_that_do_not_fit_are_refused() -> None:
    assert "two axes" in told(nn.matmul(), y=(3,), a=(3, 4), b=(4,))
    assert "cannot be multiplied, b transposed" in told(nn.matmul(False, True), y=(3, 4), a=(3, 5), b=(5, 4))
    assert "cannot be multiplied" in told(nn.matmul(), y=(3, 4), a=(3, 4), b=(3, 4))
    assert "cannot be multiplied" in told(nn.matmul(), y=(2, 3, 4), a=(2, 3, 5), b=(3, 5, 4))
    heads = nn.matmul(interleaved=("a",))
    assert heads is nn.matmul(interleaved=("a",)) and heads is not nn.matmul()
    assert told(heads, y=(2, 3, 5, 7), a=(2, 5, 3, 4), b=(2, 3, 4, 7)) == "None"
    assert "cannot be multiplied" in told(heads, y=(2, 3, 5, 7), a=(2, 3, 5, 4), b=(2, 3, 4, 7))
    assert "four axes" in told(heads, y=(3, 5, 7), a=(5, 3, 4), b=(3, 4, 7))
    assert "does not broadcast" in told(nn.matmul(bias=True), y=(3, 4), a=(3, 5), b=(5, 4), c=(3,))
    assert "r is as y" in told(nn.matmul(residual=True), y=(3, 4), a=(3, 5), b=(5, 4), r=(4,))


@given(products())
@settings(max_examples=examples(40), deadline=None)
def test_chunks_of_rows_are_the_whole(case: Case) -> None:
    operation, arrays, wanted, dtype = case
    split = operation.split
    if split is None or wanted.shape[0] < 2:
        return
    cut = split.cut(Signature({name: each.shape for name, each in arrays.items()}, {}))
    assert "y" in cut
    middle = wanted.shape[0] // 2
    chunks = [
        on_host(operation, {name: each[part] if name in cut else each for name, each in arrays.items()})
        for part in (slice(0, middle), slice(middle, None))
    ]
    close(np.concatenate(chunks), wanted, dtype)


def test_the_name_lists_the_options() -> None:
    assert nn.matmul(True, False, 0.5, bias=True, activation=(("gelu",),)).name == "matmul_tn alpha=0.5 bias gelu"
    assert nn.matmul(beta=2.0) is nn.matmul()
