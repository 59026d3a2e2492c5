# SPDX-License-Identifier: Apache-2.0
"""Pages of one plan, run or simulation, and of several on one time axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from syclsched.model.plan import Candidate, Plan
from syclsched.model.text.units import (
    format_bytes,
    format_excess,
    format_gap,
    format_ratio,
    format_seconds,
    plural,
    short_family,
)
from syclsched.model.trace import Span, Trace
from syclsched.model.views.printing import ranked_candidates, trials_text
from syclsched.tracing.analysis.causes import StartCauses, find_start_causes
from syclsched.tracing.analysis.counter_tracks import TimedSpan
from syclsched.tracing.analysis.task_history import describe_instructions
from syclsched.tracing.charts.output import INK, OTHER_COLOUR
from syclsched.tracing.charts.panels import (
    COPY_COLOUR,
    FAILED_COLOUR,
    Panel,
    family_colours,
    make_panels,
    measured_panel,
    style_key,
)
from syclsched.tracing.page.html_parts import card, definitions, legend, note, section, share_legend, table, text
from syclsched.tracing.report_content import (
    ReportTable,
    TableRow,
    critical_path_lines,
    device_table,
    family_table,
    idle_table,
    link_table,
    summary_lines,
)
from syclsched.tracing.run_report import RunReport, make_report

#: Numbers of tasks with the largest errors of prediction, and of steps of the critical path, that are listed.
_MAX_ERRORS, _MAX_STEPS = 12, 24


@dataclass(frozen=True, slots=True)
class _Chart:
    """A panel to draw, with the histories of its instructions, and optionally the causes of delays."""

    panel: Panel
    described: Mapping[int, str]
    causes: StartCauses | None = None


def save_report(
    trace: Trace,
    path: str | Path,
    plan: Plan | None = None,
    *,
    predicted: Trace | None = None,
    disturbed: str = "",
) -> None:
    """Write one HTML page about a run or a simulation: charts, delays, critical path, and errors of the prediction.

    The page needs no network and no other file.

    Parameters
    ----------
    trace : Trace
        The run, or the simulation of a plan.
    path : str or Path
        The file to write.
    plan : Plan, optional
        The executed plan: adds the memory in use, the compared candidates and the names of links.
    predicted : Trace, optional
        Simulation of the plan, drawn above the run; by default the times that the trace has as predicted.
    disturbed : str, optional
        Description of the simulated disturbances.

    Raises
    ------
    StorageError
        If the file cannot be written.
    """
    from syclsched.tracing.page.document import write_page

    report = make_report(trace, plan)
    causes = find_start_causes(trace, plan)
    panels = make_panels(trace, predicted, disturbed)
    described = describe_instructions(trace)
    drawn = [_Chart(panels[-1], described, causes)]
    if len(panels) > 1:
        drawn.insert(0, _Chart(panels[0], described if predicted is None else _described(predicted, trace, described)))
    path_lines = critical_path_lines(report)
    other_lines = [line for line in summary_lines(report) if line not in path_lines]
    body = [
        _heading(report, trace, disturbed),
        _timeline(drawn, plan),
        section("Why lanes did not compute", _idle(report), anchor="idle"),
        section(
            f"Predicted and {_taken(report)} times" if report.deviates else "Time of every kind of task",
            _errors_note(report),
            table(family_table(report)),
            _largest_errors(trace, report),
            anchor="errors",
        ),
        section(
            "Critical path", definitions(path_lines), table(_path_table(report)), anchor="path"
        ),
        "" if plan is None else _comparison_of_candidates(plan),
        section(
            "Devices and copies",
            table(device_table(report), titled=True),
            table(link_table(report), titled=True),
            anchor="devices",
        ),
        section("Summary", definitions(other_lines), anchor="summary"),
    ]  # fmt: skip
    write_page(path, f"{trace.name}: {panels[-1].title} {format_seconds(trace.makespan_s)}", "\n".join(body))


def save_comparison(
    runs: Mapping[str, tuple[Trace, Plan | None]],
    path: str | Path,
    title: str,
    tables: Iterable[ReportTable] = (),
    notes: Iterable[str] = (),
) -> None:
    """Write one HTML page about several runs or simulations, one above the other on one time axis.

    Parameters
    ----------
    runs : dict of str to (Trace, Plan or None)
        The runs with their plans, by the name to show.
    path : str or Path
        The file to write.
    title : str
        The heading.
    tables : iterable of ReportTable, optional
        Further tables, shown first.
    notes : iterable of str, optional
        Lines below these tables.

    Raises
    ------
    StorageError
        If the file cannot be written.
    """
    from syclsched.tracing.page.document import write_page

    reports = {name: make_report(trace, plan) for name, (trace, plan) in runs.items()}
    drawn = [
        _Chart(measured_panel(trace, name), describe_instructions(trace), find_start_causes(trace, plan))
        for name, (trace, plan) in runs.items()
    ]
    cards = [card(format_seconds(report.makespan_s), name) for name, report in reports.items()]
    body = [
        f"<h1>{text(title)}</h1>",
        f'<div class="cards">{"".join(cards)}</div>',
        section("All that was compared", *(table(each) for each in tables), *map(note, notes), anchor="compared"),
        _timeline(drawn, None),
        section("In numbers", table(_differences(reports)), anchor="numbers"),
    ]
    for name, report in reports.items():
        parts = (
            f"<h3>Why lanes did not compute</h3>{_idle(report)}", table(family_table(report), titled=True),
            table(link_table(report), titled=True), definitions(critical_path_lines(report)),
        )  # fmt: skip
        body.append(section(name, *parts))
    write_page(path, title, "\n".join(body))


# --- inside ---------------------------------------------------------------------------------------


def _described(predicted: Trace, trace: Trace, described: Mapping[int, str]) -> dict[int, str]:
    """Return the histories of a prediction's instructions: that of the run where it executed the same instruction."""

    def identity(span: Span) -> tuple[int, str, str | None, str]:
        return span.instruction, span.kind, span.task, span.lane

    ran = {identity(span) for span in trace.spans}
    own = describe_instructions(predicted)
    return {s.instruction: (described if identity(s) in ran else own)[s.instruction] for s in predicted.spans}


def _heading(report: RunReport, trace: Trace, disturbed: str) -> str:
    tasks = sum(1 for s in trace.spans if s.kind in ("launch", "host"))
    devices = [f"{row.device} ({plural(row.lanes, 'lane')})" for row in report.devices]
    kind = f"simulated{f', {disturbed}' if disturbed else ''}" if trace.simulated else "measured"
    subtitle = f"{plural(tasks, 'task')} on {', '.join(devices) or 'no device'}; {kind}; policy {trace.policy}"
    error = f" ({100 * report.makespan_error:+.1f} %)" if report.complete else ""
    cards = []
    if trace.simulated:
        cards.append(card(format_seconds(report.makespan_s), "makespan by simulation", bad=not report.complete))
        if report.deviates:
            cards.append(card(format_seconds(report.predicted_makespan_s), f"predicted makespan{error}"))
    else:
        cards.append(card(format_seconds(report.makespan_s), "measured makespan", bad=not report.complete))
        cards.append(card(format_seconds(report.predicted_makespan_s), f"predicted makespan{error}"))
    if report.gap is not None:
        label = f"above the lower bound {format_seconds(report.lower_bound_s)} (predicted)"
        cards.append(card(format_excess(report.gap), label))
    done = sum(1 for s in trace.spans if s.kind in ("launch", "host") and s.outcome == "done")
    cards.append(card(f"{done:,}", "tasks executed"))
    cards.append(card(format_bytes(report.copied_bytes), "copied between memory spaces"))
    cards += [card(format_bytes(n), f"peak memory, {space}") for space, n in sorted(report.peak_bytes.items()) if n]
    if not report.complete:
        cards.append(card(f"{report.failed:,}", "tasks failed", bad=True))
        cards.append(card(f"{report.cancelled:,}", "tasks cancelled", bad=True))
    return f'<h1>{text(trace.name)}</h1>\n<p>{text(subtitle)}</p>\n<div class="cards">{"".join(cards)}</div>'


def _timeline(drawn: Sequence[_Chart], plan: Plan | None) -> str:
    """Return the section of the Gantt charts, the memory in use below them, and their legend."""
    from syclsched.tracing.page.document import charts
    from syclsched.tracing.page.figures import Stories, TimeAxis, gantt_chart, memory_chart, shared_lanes

    panels = [each.panel for each in drawn]
    axis, lanes, colours, stories = TimeAxis.of(panels), shared_lanes(panels), family_colours(panels), Stories()
    gantts = [gantt_chart(e.panel, lanes, colours, axis, stories, e.described, e.causes) for e in drawn]
    memory = None
    if plan is not None:
        memory = memory_chart({panel.title: _timed(panel) for panel in panels}, plan, axis)
    remark = (
        "In the chart of memory in use a buffer counts from its first to its last use; in the peak from its allocation."
    )
    remark = remark if memory is not None else ""
    return section(
        "Timeline", _legend(panels, colours), note(remark), charts(gantts, memory, axis, stories), anchor="timeline"
    )


def _timed(panel: Panel) -> list[TimedSpan]:
    found = []
    for bar in panel.bars:
        if bar.span.outcome != "cancelled":
            start_ns = round(bar.start_s * 1e9)
            found.append(TimedSpan(bar.span, start_ns, max(start_ns, round(bar.finish_s * 1e9))))
    return found


def _legend(panels: Sequence[Panel], colours: Mapping[str, str]) -> str:
    named = {short_family(f): colour for f, colour in colours.items() if colour != OTHER_COLOUR}
    if len(named) < len(colours):
        named[f"{len(colours) - len(named)} other families"] = OTHER_COLOUR
    keys = {style_key(bar.span) for panel in panels for bar in panel.bars}
    stripes = f"repeating-linear-gradient(135deg,{COPY_COLOUR} 0 3px,#777 3px 4px)"
    special = {
        "copy": ("!copy", stripes), "failed": ("!failed", FAILED_COLOUR),
        "cancelled": ("!cancelled", f"repeating-linear-gradient(90deg,#fff 0 3px,{FAILED_COLOUR} 3px 4px)"),
    }  # fmt: skip
    named |= {label: colour for label, (key, colour) in special.items() if key in keys}
    named["critical path"] = f"linear-gradient({INK} 0 3px,#eee 3px)"
    return legend(named)


def _idle(report: RunReport) -> str:
    content = idle_table(report)
    if content is None:
        return ""
    why = "Shares of the makespan. The thin bars between tasks in the chart have the same colours."
    return note(why) + share_legend() + table(content)


def _errors_note(report: RunReport) -> str:
    return note(f"The ratio is the predicted time divided by the {_taken(report)} time.") if report.deviates else ""


def _taken(report: RunReport) -> str:
    return "simulated" if report.simulated else "measured"


def _largest_errors(trace: Trace, report: RunReport) -> str:
    """Return the table of the tasks whose durations differ most from the predicted ones."""
    if not report.deviates:
        return ""
    spans = [s for s in trace.spans if s.outcome == "done" and s.kind != "barrier"]
    errors = {s.instruction: s.duration_s - (s.predicted_finish_s - s.predicted_start_s) for s in spans}
    largest = sorted(spans, key=lambda s: (-abs(errors[s.instruction]), s.instruction))[:_MAX_ERRORS]
    rows = [
        TableRow((
            _name(s), s.lane, s.implementation or "-", format_seconds(s.predicted_finish_s - s.predicted_start_s),
            format_seconds(s.duration_s), _signed(errors[s.instruction]),
        ))
        for s in largest
    ]  # fmt: skip
    title = "Largest differences of single tasks"
    numbers = ("predicted", _taken(report), "difference")
    return table(ReportTable(title, ("task", "lane", "by"), numbers, tuple(rows), "task"), titled=True)


def _path_table(report: RunReport) -> ReportTable | None:
    """Return the longest steps of the critical path, in order of time."""
    steps = report.path.steps
    ranked = sorted(
        range(len(steps)), key=lambda n: -(steps[n].running_s + steps[n].submission_s + steps[n].starting_s)
    )
    rows = []
    for place in sorted(ranked[:_MAX_STEPS]):
        step = steps[place]
        numbers = (step.span.start_s, step.submission_s, step.starting_s, step.running_s)
        via = {"lane": "the lane was busy", "wait": "it waited", "memory": "memory was in use", None: "the first"}
        shown = [format_seconds(seconds) if seconds > 0 else "-" for seconds in numbers[1:]]
        cells = (f"{place + 1}", _name(step.span), step.span.lane, via[step.via], format_seconds(numbers[0]), *shown)
        rows.append(TableRow(cells))
    texts = ("step", "task", "lane", "why after the step before")
    heads = ("start", "host submission", "starting", "running")
    more = () if len(steps) <= _MAX_STEPS else (
        TableRow(("", f"and {plural(len(steps) - _MAX_STEPS, 'shorter step')}", *[""] * 6)),
    )  # fmt: skip
    return ReportTable("", texts, heads, tuple(rows), "step", more) if rows else None


def _comparison_of_candidates(plan: Plan) -> str:
    """Return the section on the plans that were compared, and why this one was chosen."""
    ranked, chosen = ranked_candidates(plan)
    parts = []
    if chosen is not None and chosen.makespan_s is not None:
        parts.append(note(_why_chosen(chosen, ranked, plan)))
    if plan.trials:
        parts.append(note(f"Measured: {trials_text(plan)}."))
    if plan.gap is not None:
        parts.append(note(f"The plan is {format_gap(plan.gap, plan.lower_bound_s)}."))
    if plan.recipe:
        parts.append(note(f"The graph was rewritten before planning: {plan.recipe}."))
    rows = [TableRow(_candidate_cells(c, chosen, plan)) for c in ranked]
    content = ReportTable(
        "", ("policy", ""), ("by simulation", "ratio", "by the scheduler's model"), tuple(rows), "candidate"
    )
    positions = [n for n, c in enumerate(ranked) if c is chosen]
    return section("What was compared", *parts, table(content, chosen=positions), anchor="candidates")


def _why_chosen(chosen: Candidate, ranked: Sequence[Candidate], plan: Plan) -> str:
    """Return a sentence on the chosen plan, and on a simulated one that is predicted to be shorter, if there is one."""
    simulated = [(c.makespan_s, c.policy) for c in ranked if c.makespan_s is not None]
    count = plural(len(simulated), "plan")
    first = f"{chosen.policy} was chosen to {plan.aim}: {format_seconds(chosen.makespan_s or 0.0)} by simulation"
    best_s, best = min(simulated)
    if best_s >= (chosen.makespan_s or 0.0):
        return f"{first}, the shortest of the {count} that were simulated."
    return f"{first}. Of the {count} that were simulated, the shortest is {best} with {format_seconds(best_s)}."


def _candidate_cells(candidate: Candidate, chosen: Candidate | None, plan: Plan) -> tuple[str, ...]:
    remark = "chosen" if candidate is chosen else ""
    if candidate.refused is not None:
        remark = f"refused: {candidate.refused}"
    elif candidate.makespan_s is None:
        remark = "not simulated"
    ratio = (
        "" if candidate.makespan_s is None or not plan.makespan_s else f"{candidate.makespan_s / plan.makespan_s:.2f}"
    )
    times = ["" if s is None else format_seconds(s) for s in (candidate.makespan_s, candidate.modelled_s)]
    return candidate.policy, remark, times[0], ratio, times[1]


def _differences(reports: Mapping[str, RunReport]) -> ReportTable:
    """Return a table of key figures with a column for each run."""
    listed = list(reports.values())
    spaces = sorted({space for report in listed for space, nbytes in report.peak_bytes.items() if nbytes})
    devices = list(dict.fromkeys(row.device for report in listed for row in report.devices))
    used = [{row.device: row.utilisation for row in report.devices} for report in listed]
    lines: list[tuple[str, ...]] = [
        ("makespan", *(format_seconds(r.makespan_s) for r in listed)),
        ("above the lower bound", *("-" if r.gap is None else format_excess(r.gap) for r in listed)),
        ("critical path: computing", *(format_seconds(r.path.computing_s) for r in listed)),
        ("critical path: copies", *(format_seconds(r.path.copying_s) for r in listed)),
        ("copied between spaces", *(format_bytes(r.copied_bytes) for r in listed)),
        ("copies", *(f"{sum(link.copies for link in r.links):,}" for r in listed)),
        ("waits between lanes", *(f"{r.waits:,}" for r in listed)),
        *((f"{name} used", *(format_ratio(each.get(name, 0.0)) for each in used)) for name in devices),
        *((f"peak memory, {space}", *(format_bytes(r.peak_bytes.get(space, 0)) for r in listed)) for space in spaces),
    ]
    return ReportTable("", ("",), tuple(reports), tuple(TableRow(line) for line in lines), "line")


def _name(span: Span) -> str:
    return f"copy for {span.task}" if span.kind == "copy" else span.task or span.kind


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{format_seconds(abs(seconds))}"
