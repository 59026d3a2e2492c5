# SPDX-License-Identifier: Apache-2.0
"""Built-in workloads by name: real task graphs of different shapes, with data and a check of the results.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

import importlib
from typing import Any

from syclsched.errors import ArgumentError, did_you_mean
from syclsched.workloads.base import CheckResult, Workload, WorkloadKind

__all__ = ["CheckResult", "Workload", "WorkloadKind", "get", "names"]

#: Each is a module of this package, imported on first use, with its kind as ``KIND``.
_NAMES = ("cholesky", "mlp", "stencil")


def names() -> tuple[str, ...]:
    """Return the names of all workloads, the main one first."""
    return _NAMES


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
    if name not in _NAMES:
        meant = did_you_mean(name, _NAMES)
        raise ArgumentError(f"there is no ready graph {name!r}", hint=f"{meant}There are: {', '.join(_NAMES)}")
    kind: WorkloadKind = importlib.import_module(f"syclsched.workloads.{name}").KIND
    return kind


def __getattr__(name: str) -> Any:
    """Import the module of a workload on first use (PEP 562)."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"syclsched.workloads.{name}")
