# SPDX-License-Identifier: Apache-2.0
"""The four Cholesky operations, every implementation, compared with NumPy, for sizes not divisible by any block."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from syclsched import kernels
from syclsched.errors import ArgumentError, ExecutionError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Signature

pytestmark = pytest.mark.sycl

DTYPES = ("float32", "float64")
#: Rounding of one operation, times the accumulated error of a sum of some hundred terms.
TOLERANCE = {"float32": 2e-4, "float64": 1e-12}
GARBAGE = 1e30  # a value at places that must not be read: any use of it ruins the result


def names(operation: str) -> list[str]:
    return [each.name for each in kernels.get(operation).implementations]


def normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def positive_definite(n: int, dtype: str) -> Any:
    a = normal(n, n, n)
    return (a @ a.T + n * np.eye(n)).astype(dtype)


def lower_factor(n: int, dtype: str) -> Any:
    return np.linalg.cholesky(positive_definite(n, "float64")).astype(dtype)


def assert_close(got: Any, wanted: Any, dtype: str) -> None:
    assert np.isfinite(got).all()
    assert np.abs(got - wanted).max() <= TOLERANCE[dtype] * max(1.0, np.abs(wanted).max())


@pytest.mark.instruction_sets
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (33, 66, 41), (64, 32, 96), (25, 1, 130), (2, 19, 5)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-1.0, 1.0), (1.0, 1.0), (0.5, -2.0)])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(False, True), (False, False), (True, False), (True, True)])
@pytest.mark.parametrize("name", names("gemm"))
def test_gemm(
    run: Any, name: str, m: int, n: int, k: int, dtype: str, alpha: float, beta: float, trans_a: bool, trans_b: bool
) -> None:
    shapes = [(m, n), (k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n)]
    c, a, b = (normal(s, *shape).astype(dtype) for s, shape in enumerate(shapes))
    old = np.full_like(c, np.nan) if beta == 0 else c  # what is overwritten is not read
    scalars = {"alpha": alpha, "beta": beta, "trans_a": int(trans_a), "trans_b": int(trans_b)}
    got = run(kernels.get("gemm"), name, {"c": old, "a": a, "b": b}, **scalars)
    wide_a, wide_b = (each.astype("float64") for each in (a, b))
    product = (wide_a.T if trans_a else wide_a) @ (wide_b.T if trans_b else wide_b)
    assert_close(got["c"], alpha * product + beta * c.astype("float64"), dtype)
    assert (got["a"] == a).all()
    assert (got["b"] == b).all()


@pytest.mark.parametrize("name", ["opencl-c", "python"])
def test_every_element_of_a_product_is_updated_once(run: Any, name: str) -> None:
    m, n, k = 17, 19, 3  # neither is a multiple of a block or a vector
    for trans_a, trans_b in itertools.product((0, 1), repeat=2):
        c, a, b = (
            normal(1, m, n),
            normal(2, *((k, m) if trans_a else (m, k))),
            normal(3, *((n, k) if trans_b else (k, n))),
        )
        scalars = {"alpha": 0.5, "beta": -2.0, "trans_a": trans_a, "trans_b": trans_b}
        got = run(kernels.get("gemm"), name, {"c": c, "a": a, "b": b}, **scalars)["c"]
        assert_close(got, 0.5 * (a.T if trans_a else a) @ (b.T if trans_b else b) - 2.0 * c, "float64")


@pytest.mark.parametrize(
    ("alpha", "beta", "refused"),
    [(1, 0, False), (1, 1, False), (-1, 1, False), (2, 0, True), (1, 2, True), (-1, 0, True)],
)
def test_onemkl_takes_the_factors_that_dpnp_gives_access_to(alpha: int, beta: int, refused: bool) -> None:
    refuses = kernels.get("gemm").implementation("onemkl").requires.refuses
    assert refuses is not None
    said = refuses(Signature({}, {}, {"alpha": float(alpha), "beta": float(beta)}))
    assert (said is not None) is refused


@pytest.mark.parametrize(
    ("arguments", "mode"), [({}, AccessMode.WRITE), ({"beta": 0}, AccessMode.WRITE), ({"beta": 2}, AccessMode.UPDATE)]
)
def test_gemm_updates_or_overwrites_c_according_to_beta(arguments: dict[str, float], mode: AccessMode) -> None:
    graph = TaskGraph("product")
    c, a, b = (graph.array(name, (4, 4), data=None) for name in "cab")
    task = graph.kernel(kernels.get("gemm"), c=c, a=a, b=b, **arguments)
    assert {access.array: access.mode for access in task.accesses}["c"] is mode


def test_gemm_errors_name_the_required_shapes() -> None:
    graph = TaskGraph("product")
    c, a, b = graph.array("c", (2, 4)), graph.array("a", (2, 3)), graph.array("b", (4, 3))
    graph.kernel(kernels.get("gemm"), c=c, a=a, b=b, trans_b=True)
    with pytest.raises(ArgumentError, match=r"C = A B needs C \(m, n\), A \(m, k\), B \(k, n\), not \(2, 4\)"):
        graph.kernel(kernels.get("gemm"), c=c, a=a, b=b)
    with pytest.raises(ArgumentError, match="trans_b is 3, not True or False"):
        graph.kernel(kernels.get("gemm"), c=c, a=a, b=b, trans_b=3)
    with pytest.raises(ArgumentError, match="'beta' must be a number"):
        graph.kernel(kernels.get("gemm"), c=c, a=a, b=b, beta="one")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (34, 65), (64, 32), (61, 2)])
@pytest.mark.parametrize("name", names("syrk"))
def test_syrk_touches_only_the_lower_triangle(run: Any, name: str, n: int, k: int, dtype: str) -> None:
    c, a = normal(1, n, n).astype(dtype), normal(2, n, k).astype(dtype)
    got = run(kernels.get("syrk"), name, {"c": c, "a": a})["c"]
    assert_close(np.tril(got), np.tril(c.astype("float64") - a.astype("float64") @ a.astype("float64").T), dtype)
    assert (np.triu(got, 1) == np.triu(c, 1)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (66, 33), (32, 64), (3, 62)])
@pytest.mark.parametrize("name", names("trsm"))
def test_trsm_solves_and_ignores_the_upper_triangle(run: Any, name: str, m: int, n: int, dtype: str) -> None:
    lower, a = lower_factor(n, dtype), normal(3, m, n).astype(dtype)
    dirty = lower + np.triu(np.full((n, n), GARBAGE, dtype), 1)
    got = run(kernels.get("trsm"), name, {"a": a, "l": dirty})["a"]
    wanted = np.linalg.solve(lower.astype("float64"), a.astype("float64").T).T
    assert_close(got, wanted, dtype)


@pytest.mark.instruction_sets
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 99])
@pytest.mark.parametrize("name", names("potrf"))
def test_potrf_factors_the_lower_triangle(run: Any, name: str, n: int, dtype: str) -> None:
    a = positive_definite(n, dtype)
    dirty = np.tril(a) + np.triu(np.full((n, n), GARBAGE, dtype), 1)
    got = run(kernels.get("potrf"), name, {"a": dirty, "status": np.full(1, 77, "int32")})
    assert got["status"][0] == 0
    assert_close(got["a"], np.linalg.cholesky(a.astype("float64")), dtype)
    assert (np.triu(got["a"], 1) == 0).all()


@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan])
@pytest.mark.parametrize(("n", "pivot"), [(1, 1), (41, 1), (41, 18), (41, 41)])
@pytest.mark.parametrize("name", [each for each in names("potrf") if each != "scipy"])
def test_potrf_reports_the_pivot(run: Any, name: str, n: int, pivot: int, value: float) -> None:
    a = np.eye(n)
    a[pivot - 1, pivot - 1] = value
    got = run(kernels.get("potrf"), name, {"a": a, "status": np.zeros(1, "int32")})
    assert got["status"][0] == pivot
    message = kernels.get("potrf").explain_status(int(got["status"][0]))
    assert "not positive definite" in message
    assert str(pivot) in message


def test_potrf_on_the_host_raises(run: Any) -> None:
    a = np.diag([1.0, 2.0, -3.0, 4.0])
    with pytest.raises(ExecutionError, match="not positive definite: pivot 3"):
        run(kernels.get("potrf"), "scipy", {"a": a, "status": np.zeros(1, "int32")})
