# SPDX-License-Identifier: Apache-2.0
"""Result checks of repeated runs; a result that is bit-identical to a verified one is not checked again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syclsched.workloads import CheckResult, Workload


class ResultChecker:
    """Checks the results of several runs of one workload."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._verified: Mapping[str, Any] | None = None
        self.verdict: CheckResult | None = None

    def add(self, results: Mapping[str, Any]) -> None:
        """Check the results of a run; they are kept and must not be modified."""
        import numpy as np  # not at the start of the command line

        if self._verified is not None and all(np.array_equal(self._verified[name], results[name]) for name in results):
            return
        found = self._workload.check(results)
        if self.verdict is None or self.verdict.ok:
            self.verdict = found
        if found.ok:
            self._verified = results
