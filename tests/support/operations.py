# SPDX-License-Identifier: Apache-2.0
"""Helpers of tests of operations: random arrays, the host's implementation, tolerances."""

from __future__ import annotations

import zlib

import numpy as np
from hypothesis import HealthCheck, Phase

from syclsched.model.operation import Operation, Signature

#: Every example compiles kernels: shrinking would take minutes.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
UNCHECKED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)
#: Largest error, relative to the largest number.
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-12}


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Return random numbers that depend on the arguments only."""
    random = np.random.default_rng([seed, zlib.crc32(repr(shape).encode())])
    return np.asarray(random.standard_normal(shape)).astype(dtype)


def described(operation: Operation, arrays: dict[str, np.ndarray]) -> Signature:
    """Return the signature of a call, which must be valid."""
    signature = Signature(
        {p.name: arrays[p.name].shape for p in operation.arrays},
        {p.name: str(arrays[p.name].dtype) for p in operation.arrays},
    )
    assert operation.check is None or operation.check(signature) is None, operation.check(signature)
    return signature


def on_host(operation: Operation, arrays: dict[str, np.ndarray], result: str = "y") -> np.ndarray:
    """Return the results of the host's implementation, which must not modify its inputs."""
    signature = described(operation, arrays)
    given = {name: each.copy() for name, each in arrays.items()}
    for each in given.values():
        each.setflags(write=False)
    given[result].setflags(write=True)
    next(each for each in operation.implementations if each.kind == "host").load(signature)(**given)
    return given[result]


def unwritten(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return an array whose contents must not be read."""
    return np.full(shape, np.nan if dtype.startswith("float") else 77, dtype)


def close(got: np.ndarray, wanted: np.ndarray, dtype: str, factor: float = 1.0) -> None:
    """Assert that numbers agree but for rounding."""
    assert got.shape == wanted.shape
    wanted = wanted.astype("float64")
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)
    limit = TOLERANCE[dtype] * factor
    np.testing.assert_allclose(got.astype("float64"), wanted, rtol=limit, atol=limit * scale)


def placed_in(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays with the residual in the result's memory."""
    return {name: arrays["r"] if name == "y" else each for name, each in arrays.items() if name != "r"}


def last(array: np.ndarray) -> np.ndarray:
    """Return (N, C, *spatial) as (N, *spatial, C)."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def implementations(operation: Operation) -> list[str]:
    """Return the names of the implementations that run on every SYCL device."""
    return [each.name for each in operation.implementations if each.is_kernel]


def quick(operation: Operation) -> list[str]:
    """Return the names of implementations that compile fast: numba-dpex takes a second, and gets fewer examples."""
    return [name for name in implementations(operation) if name != "python"]
