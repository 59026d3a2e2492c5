# SPDX-License-Identifier: Apache-2.0
"""Trace analysis and output: reports, terminal tables, charts, HTML pages and Perfetto files.

rich, matplotlib and bokeh are imported when used. Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from syclsched.lazy_names import lazy_names

_LAZY = {
    "DeviceRow": "syclsched.tracing.run_report",
    "FamilyRow": "syclsched.tracing.run_report",
    "LinkRow": "syclsched.tracing.run_report",
    "RunReport": "syclsched.tracing.run_report",
    "draw_gantt": "syclsched.tracing.charts.gantt",
    "make_report": "syclsched.tracing.run_report",
    "render_report": "syclsched.tracing.report_tables",
    "save_comparison": "syclsched.tracing.page.report_page",
    "save_perfetto": "syclsched.tracing.perfetto",
    "save_report": "syclsched.tracing.page.report_page",
    "to_perfetto": "syclsched.tracing.perfetto",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from syclsched.tracing.charts.gantt import draw_gantt as draw_gantt
    from syclsched.tracing.page.report_page import save_comparison as save_comparison
    from syclsched.tracing.page.report_page import save_report as save_report
    from syclsched.tracing.perfetto import save_perfetto as save_perfetto
    from syclsched.tracing.perfetto import to_perfetto as to_perfetto
    from syclsched.tracing.report_tables import render_report as render_report
    from syclsched.tracing.run_report import DeviceRow as DeviceRow
    from syclsched.tracing.run_report import FamilyRow as FamilyRow
    from syclsched.tracing.run_report import LinkRow as LinkRow
    from syclsched.tracing.run_report import RunReport as RunReport
    from syclsched.tracing.run_report import make_report as make_report

_public_name = lazy_names(__name__, _LAZY)


def __getattr__(name: str) -> Any:
    """Import a public name on first use; return the class `RunReport` by its old name, too, until 0.3."""
    if name == "Report":
        warnings.warn("syclsched.tracing.Report is called RunReport now", DeprecationWarning, stacklevel=2)
        name = "RunReport"
    return _public_name(name)
