# SPDX-License-Identifier: Apache-2.0
"""Built-in workloads by name: real task graphs of different shapes, with data and a check of the results."""

from __future__ import annotations

from syclsched.errors import ArgumentError
from syclsched.workloads import cholesky, mlp, stencil
from syclsched.workloads.base import CheckResult, Workload, WorkloadKind

__all__ = ["CheckResult", "Workload", "WorkloadKind", "get", "names"]

_KINDS: dict[str, WorkloadKind] = {kind.name: kind for kind in (cholesky.KIND, mlp.KIND, stencil.KIND)}


def names() -> tuple[str, ...]:
    """Return the names of all workloads, the main one first."""
    return tuple(_KINDS)


def get(name: str) -> WorkloadKind:
    """Return the kind of workload called ``name``.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    WorkloadKind
        ``get(name).build(get(name).options(...))`` builds a workload.

    Raises
    ------
    ArgumentError
        If there is no workload of that name.
    """
    try:
        return _KINDS[name]
    except KeyError:
        raise ArgumentError(f"there is no workload {name!r}", hint=f"There are: {', '.join(_KINDS)}") from None
