# SPDX-License-Identifier: Apache-2.0
"""Deprecated place of `refine` and `default_steps`, until 0.3: import them from `syclsched.scheduling.search`."""

from __future__ import annotations

import warnings

from syclsched.scheduling.search import default_steps, refine

__all__ = ["default_steps", "refine"]

warnings.warn(
    "syclsched.scheduling.refine is deprecated: import refine and default_steps from syclsched.scheduling.search",
    DeprecationWarning,
    stacklevel=2,
)
