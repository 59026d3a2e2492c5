# SPDX-License-Identifier: Apache-2.0
"""Trace analysis and output: reports, terminal tables, charts, HTML pages and Perfetto files.

rich, matplotlib and bokeh are imported when used. Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

import warnings
from typing import Any

from syclsched.tracing.charts.gantt import draw_gantt
from syclsched.tracing.page.report_page import save_comparison, save_report
from syclsched.tracing.perfetto import save_perfetto, to_perfetto
from syclsched.tracing.report_tables import render_report
from syclsched.tracing.run_report import DeviceRow, FamilyRow, LinkRow, RunReport, make_report

__all__ = [
    "DeviceRow",
    "FamilyRow",
    "LinkRow",
    "RunReport",
    "draw_gantt",
    "make_report",
    "render_report",
    "save_comparison",
    "save_perfetto",
    "save_report",
    "to_perfetto",
]


def __getattr__(name: str) -> Any:
    """Return the class `RunReport` by its old name, until 0.3."""
    if name == "Report":
        warnings.warn("syclsched.tracing.Report is called RunReport now", DeprecationWarning, stacklevel=2)
        return RunReport
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
