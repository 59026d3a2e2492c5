# SPDX-License-Identifier: Apache-2.0
"""Deprecated place of `Stream` and `StreamStatistics`, until 0.3: import them from `syclsched.execution`."""

from __future__ import annotations

import warnings

from syclsched.execution.runner.stream import Stream, StreamStatistics

__all__ = ["Stream", "StreamStatistics"]

warnings.warn(
    "syclsched.execution.stream is deprecated: import Stream and StreamStatistics from syclsched.execution",
    DeprecationWarning,
    stacklevel=2,
)
