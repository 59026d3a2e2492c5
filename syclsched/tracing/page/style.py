# SPDX-License-Identifier: Apache-2.0
"""Style sheet of HTML pages, and the colours of idle reasons."""

from __future__ import annotations

from syclsched.tracing.charts.output import INK

#: Colours of idle reasons, by field of `IdleTime` without its unit; paler than those of task families.
IDLE_COLOURS = {
    "no_task": "#E3E3E3",
    "copy": "#B9B9B9",
    "lanes": "#F4C3AE",
    "submission": "#D9B3D4",
    "memory": "#A9CFE0",
    "starting": "#DDD48A",
}

#: Colour of computing time in bars of shares.
COMPUTED_COLOUR = "#4C72B0"

#: Fonts of text and of task histories.
FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"

STYLE = f"""
:root {{ color-scheme: light; }}
body {{ margin: 0; background: #fff; color: {INK}; font: 15px/1.45 {FONT}; }}
main {{ max-width: 1500px; margin: 0 auto; padding: 20px 28px 60px; }}
h1 {{ font-size: 26px; margin: 0 0 2px; overflow-wrap: anywhere; }}
h2 {{ font-size: 18px; margin: 34px 0 8px; border-bottom: 1px solid #ddd; padding-bottom: 4px; }}
h3 {{ font-size: 15px; margin: 18px 0 4px; }}
p {{ margin: 6px 0; max-width: 100ch; }}
.note {{ color: #5a5a5a; font-size: 13.5px; }}
.cards {{ display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0 4px; }}
.card {{ border: 1px solid #ddd; border-radius: 6px; padding: 8px 14px; min-width: 120px; }}
.card b {{ display: block; font-size: 20px; }}
.card span {{ color: #5a5a5a; font-size: 13px; }}
.bad, .card.bad b {{ color: #b00020; }}
.legend {{ display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 13px; margin: 6px 0; }}
.legend i {{ display: inline-block; width: 14px; height: 12px; margin-right: 5px; vertical-align: -1px; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 14px; margin: 4px 0 2px; }}
th, td {{ padding: 3px 14px 3px 0; text-align: left; vertical-align: top; }}
th {{ border-bottom: 1.5px solid #999; font-weight: 600; white-space: nowrap; }}
td {{ border-bottom: 1px solid #eee; overflow-wrap: break-word; max-width: 60ch; }}
th.n, td.n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
tr.end td {{ border-bottom-color: #999; }}
tr.chosen td {{ font-weight: 600; background: #f1f6fb; }}
td:first-child {{ font-weight: 600; }}
.shares {{ display: flex; width: 220px; height: 12px; background: #f4f4f4; margin-top: 4px; }}
.shares i {{ display: block; height: 100%; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 3px 18px; margin: 6px 0; }}
dt {{ font-weight: 600; }}
dd {{ margin: 0; white-space: pre-line; overflow-wrap: anywhere; }}
pre.picked {{ background: #f7f7f7; border: 1px solid #e2e2e2; border-radius: 6px; padding: 8px 12px; margin: 8px 0;
  font: 12.5px/1.45 {MONO}; white-space: pre-wrap; overflow-wrap: anywhere; }}
.tip {{ position: fixed; z-index: 9; pointer-events: none; max-width: min(680px, 90vw); background: #fff;
  border: 1px solid #bbb; border-radius: 4px; box-shadow: 0 1px 4px #0003; padding: 6px 9px; font: 12px/1.4 {MONO};
  white-space: pre-wrap; overflow-wrap: anywhere; }}
.tip[hidden] {{ display: none; }}
footer {{ color: #777; font-size: 12.5px; margin-top: 40px; }}
"""
