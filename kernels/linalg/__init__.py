# SPDX-License-Identifier: Apache-2.0
"""Operations of a tiled Cholesky factorisation A = L L^T on row-major tiles."""

from __future__ import annotations
