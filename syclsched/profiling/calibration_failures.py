# SPDX-License-Identifier: Apache-2.0
"""Implementations that calibration could not time, and warnings and errors for kernels that cannot be compiled."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from syclsched.costs.model import CostModel
from syclsched.errors import CapabilityError, KernelCompilationError, KernelCompilationWarning, ProgramBuildError
from syclsched.profiling.task_timing import TimedCase

_PACKAGE = str(Path(__file__).parents[1])


@dataclass(frozen=True, slots=True)
class CalibrationFailure:
    """An implementation that could not be timed on a device, or was refused there."""

    case: TimedCase
    error: Exception

    @property
    def label(self) -> str:
        """Operation, implementation and device."""
        return self.case.label

    @property
    def reason(self) -> str:
        """The error as text, with its type."""
        return f"{type(self.error).__name__}: {self.error}"

    @property
    def is_refusal(self) -> bool:
        """Whether a device, library or compiler refuses it, so that it is not planned; another failure may pass."""
        return isinstance(self.error, CapabilityError) or self.is_compilation

    @property
    def is_compilation(self) -> bool:
        """Whether a compiler refuses its code."""
        return isinstance(self.error, (ProgramBuildError, KernelCompilationError))


def report_kernels(failures: Iterable[CalibrationFailure], costs: CostModel) -> None:
    """Warn the caller of the package of kernels that cannot be compiled; raise if a task has nothing else.

    The refusals are known to ``costs``. Each kernel is named once, for the first device.
    """
    seen: set[tuple[str, str]] = set()
    for failure in failures:
        case = failure.case
        kernel = case.operation.name, case.implementation.name
        if not failure.is_compilation or kernel in seen:
            continue
        seen.add(kernel)
        if all(choice is None for choice in costs.choices(case.task, costs.platform.devices)):
            if isinstance(failure.error, KernelCompilationError):
                raise failure.error
            costs.require(case.task)
        text = f"{failure.label} cannot be compiled and is not used: {failure.error}"
        warnings.warn(text, KernelCompilationWarning, stacklevel=_users_level())


def _users_level() -> int:
    """Return the ``stacklevel``, for the function that calls this one, of the code outside the package."""
    for level in count(1):
        try:
            frame = sys._getframe(level)
        except ValueError:
            return level - 1
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return level
    raise AssertionError("unreachable")
