# SPDX-License-Identifier: Apache-2.0
"""Gradients of the triangular solve and the Cholesky factor (Murray, 2016, arXiv:1602.07527)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from syclsched.kernels.linalg.trsm import TRSM


def _solved(g: Any, l: Any) -> Any:  # noqa: E741  # the triangle
    """Return g l⁻¹ for a lower triangle l: with all axes reversed, the solve with a transposed triangle."""
    return TRSM(a=g[:, ::-1], l=l[::-1, ::-1].T)[:, ::-1]


def _trsm(da: Any, new_a: Any, l: Any) -> Any:  # noqa: E741
    before = _solved(da, l)
    return before, -np.tril(before.T @ new_a)


def _potrf(da: Any, new_a: Any) -> Any:
    product = np.tril(new_a.T @ np.tril(da))
    by_factor = product - np.tril(np.triu(product)) * 0.5
    by_matrix = _solved(_solved(by_factor, new_a).T, new_a).T
    both = by_matrix + by_matrix.T
    # Of two equal elements only the lower one is read.
    return np.tril(both) - np.tril(np.triu(both)) * 0.5


#: Gradient functions of operations of the library that are nodes of their own, by recipe.
LIBRARY_GRADIENTS: Final[dict[str, Callable[..., Any]]] = {"trsm": _trsm, "potrf": _potrf}
