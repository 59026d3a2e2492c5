# SPDX-License-Identifier: Apache-2.0
"""Text output of plans: ``print(plan)`` and the explanation of a task's placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from syclsched.errors import GraphError, did_you_mean
from syclsched.model.access import AccessMode, row_range_name
from syclsched.model.platform import SEPARATE
from syclsched.model.text.sections import Row, Section, facts, sections_text
from syclsched.model.text.units import format_bytes, format_gap, format_ratio, format_seconds, plural, shortened
from syclsched.model.usm import PoolKey, PoolKeys, default_kind_reason

if TYPE_CHECKING:  # plans print themselves by this module
    from syclsched.model.plan import BufferUse, Candidate, Instruction, Lane, Option, Plan, PlannedRows, PlanTrial
    from syclsched.model.platform import Platform

#: Maximum number of rows shown per section; the rest is counted.
MAX_LANES = 16
MAX_INSTRUCTIONS = 8
MAX_ROWS = 16
MAX_LIST = 6

#: Most names of tasks that a wrong one is compared with.
_MOST_COMPARED = 2000

_MEMORY_KINDS = ("alloc", "free")
_WORK_KINDS = ("launch", "host", "barrier")

#: Row range of each segment, by the segment's name.
_Rows = Mapping[str, "PlannedRows"]

#: Suffix of repeated tasks.
_REPEAT = " (done again)"

#: The default objective.
_DEFAULT_AIM = "minimize makespan"


def plan_text(plan: Plan) -> str:
    """Return a plan as text: predictions, the first instructions of each lane, and the devices of each task family.

    Long lists are truncated, and the number of further items is stated.
    """
    return sections_text(plan_sections(plan))


def plan_sections(plan: Plan) -> list[Section]:
    """Return the sections of `plan_text`."""
    sections = (
        _header(plan), _candidates(plan), _lanes(plan), _families(plan), _memory(plan), _kinds(plan), _counters(plan)
    )  # fmt: skip
    return [section for section in sections if section is not None]


def trials_text(plan: Plan) -> str:
    """Return one line on the plans that runs have tried, with measured times, and why this one is used."""
    first, *others = plan.trials
    each = "; ".join(_trial(trial) for trial in plan.trials[:MAX_LIST])
    count = plural(1 + len(others), "plan")
    if first.kept:
        return f"{each}: the first of them is the fastest of {count} and is kept"
    return f"{each}: {count} within the uncertainty of the predictions, tried in turn until the fastest is known"


def ranked_candidates(plan: Plan) -> tuple[list[Candidate], Candidate | None]:
    """Return the candidates, the best first, and the chosen one of them if it is known."""
    ranked = sorted(plan.candidates, key=_rank)
    return ranked, next((c for c in ranked if plan.policy in (c.policy, f"auto: {c.policy}")), None)


def _trial(trial: PlanTrial) -> str:
    predicted = f"{format_seconds(trial.predicted_s)} predicted"
    if trial.measured_s is None:
        return f"{_clean(trial.policy)} not yet ({predicted})"
    return f"{_clean(trial.policy)} {format_seconds(trial.measured_s)} in {plural(trial.runs, 'run')} ({predicted})"


def explain_task(plan: Plan, task: str) -> str:
    """Return an explanation of a task's placement and times, with its cost on other devices.

    The task is one of the plan, or of the original graph if that was rewritten; raise `GraphError` if there is none.
    """
    planned = {t.name: place for place, t in enumerate(plan.tasks)}
    if task in planned:
        return "\n".join(_task(plan, task, planned[task]))
    holders = plan.recipe.holders(task, planned)
    if not holders:
        hint = f"{did_you_mean(task, planned) if len(planned) <= _MOST_COMPARED else ''}It has {_some(planned)}"
        raise GraphError(f"no task {task!r}", where=f"plan of {plan.name!r}", hint=hint)
    if len(holders) > 1:
        return "\n".join(_chunks(plan, task, holders))
    return "\n".join([f"{_clean(task)}: done as a part of", *_task(plan, holders[0], planned[holders[0]])])


# --- the whole plan -------------------------------------------------------------------------------


def _header(plan: Plan) -> Section:
    devices = [f"{d.name} ({plural(d.lanes, 'lane')})" for d in plan.platform.devices]
    found = [
        ("predicted", f"{_predicted(plan)} for {plural(len(plan.tasks), 'task')} on {plural(len(plan.lanes), 'lane')}")
    ]
    if plan.recipe:
        found.append(("rewritten", str(plan.recipe)))
    if len(plan.trials) > 1:
        found.append(("tried", trials_text(plan)))
    if plan.gap is not None:
        found.append(("gap", format_gap(plan.gap, plan.lower_bound_s)))
    if plan.aim != _DEFAULT_AIM:
        found.append(("aim", _clean(plan.aim, 200)))
    if plan.energy_j is not None:
        found.append(("energy", f"{plan.energy_j:.4g} J"))
    if plan.interval_s > 0.0 and plan.aim != _DEFAULT_AIM:
        rate = f"{1.0 / plan.interval_s:.4g} runs/s"
        found.append(("busiest lane", f"{format_seconds(plan.interval_s)} a run: at most {rate} in steady state"))
    found.append(("platform", f"{_clean(plan.platform.name)}: {_some(devices)}{_of_generation(plan.platform)}"))
    cores = _shared_cores(plan)
    found += [("shared" if n == 0 else "", text) for n, text in enumerate(cores.values())]
    return facts(f"Plan of {_clean(plan.name)}, policy {_clean(plan.policy)}", found)


def _predicted(plan: Plan) -> str:
    """Return the makespan to expect, and by which runs if it is a measured one."""
    if plan.expected_s == plan.makespan_s:
        return format_seconds(plan.makespan_s)
    runs = plural(plan.trials[0].runs, "run")
    return f"{format_seconds(plan.expected_s)} (as in {runs}; by simulation {format_seconds(plan.makespan_s)})"


def _shared_cores(plan: Plan) -> dict[str, str]:
    """Return, by processor, which of the plan's devices compute on the same cores."""
    used = {lane.device for lane in plan.lanes if lane.kind != "copy"}
    found: dict[str, str] = {}
    for processor, cores in plan.platform.processor_cores.items():
        devices = [d for d in plan.platform.devices if d.processor == processor and d.name in used]
        names = [device.name for device in devices]
        crowded = sum(plan.platform.lane_cores(device) for device in devices) > cores
        if len(names) > 1 and (
            crowded or any(plan.platform.interference(*pair) >= SEPARATE for pair in combinations(names, 2))
        ):
            found[processor] = f"{_some(names)} compute on the same {plural(cores, 'core')}"
    return found


def _candidates(plan: Plan) -> Section | None:
    if not plan.candidates:
        return None
    ranked, chosen = ranked_candidates(plan)
    # Model times are compared with the model time of the chosen plan, since simulated times include more costs.
    modelled_s = None if chosen is None else chosen.modelled_s
    width = min(40, max(len(c.policy) for c in ranked[:MAX_ROWS]))
    timed = "  {} {:<" + str(width) + "}  {:>9}  {}"
    rows: list[Row] = []
    announced = False
    for candidate in ranked[:MAX_ROWS]:
        label = "*" if candidate is chosen else " ", _clean(candidate.policy, 40)
        if candidate.makespan_s is not None:
            ratio = "" if candidate is chosen else _times(candidate.makespan_s, plan.makespan_s)
            rows.append(Row(timed, (*label, format_seconds(candidate.makespan_s), ratio)))
        elif candidate.refused is None and candidate.modelled_s is not None:
            if not announced:
                by = "" if modelled_s is None else f", which gives the chosen one {format_seconds(modelled_s)}"
                rows.append(Row("  {}", (f"not simulated, by the scheduler's model{by}:",)))
                announced = True
            ratio = _times(candidate.modelled_s, modelled_s)
            rows.append(Row(timed, (*label, format_seconds(candidate.modelled_s), ratio)))
        else:
            reason = _clean(candidate.refused or "no reason given", 90)
            rows.append(Row(timed.replace("{:>9}  {}", "{}: {}"), (*label, "refused", reason)))
    rows += _more_rows(len(ranked) - MAX_ROWS)
    headings = ("", "policy", "makespan", "to the chosen")
    return Section(f"Candidates ({len(ranked)} considered)", rows, headings, frozenset({2}))


def _times(seconds: float, of_s: float | None) -> str:
    return f"{seconds / of_s:.2f}x" if of_s else ""


def _rank(candidate: Candidate) -> tuple[int, float]:
    """Rank simulated candidates first, then candidates with a model time only, then refused ones."""
    if candidate.makespan_s is not None:
        return 0, candidate.makespan_s
    return (2, 0.0) if candidate.refused is not None else (1, candidate.modelled_s or 0.0)


def _lanes(plan: Plan) -> Section:
    found, rows = list[Row](), _rows(plan)
    for lane in plan.lanes[:MAX_LANES]:
        work = [i for i in lane.instructions if i.kind not in _MEMORY_KINDS]
        busy_s = sum(i.finish_s - i.start_s for i in work)
        share = f", busy {format_ratio(busy_s / plan.makespan_s)}" if plan.makespan_s > 0 else ""
        memory = len(lane.instructions) - len(work)
        kept = f", {plural(memory, 'alloc or free', 'allocs and frees')}" if memory else ""
        count = plural(len(work), "instruction")
        found.append(Row("  {}", (f"{_clean(lane.name)} ({lane.kind}): {count}{share}{kept}",)))
        found += [_instruction(i, rows) for i in work[:MAX_INSTRUCTIONS]]
        found += _more_rows(len(work) - MAX_INSTRUCTIONS, "    ")
    found += _more_rows(len(plan.lanes) - MAX_LANES)
    return Section("Lanes", found, ("", "start", "takes", "task", "by", ""), frozenset({1, 2}))


def _instruction(instruction: Instruction, rows: _Rows) -> Row:
    span_s = instruction.finish_s - instruction.start_s
    waits = f"after {_some([f'#{w}' for w in instruction.waits], 4)}" if instruction.waits else ""
    what = _clean(instruction.task or instruction.kind, 32 - len(_REPEAT)) + (_REPEAT if instruction.again else "")
    how = _clean(instruction.implementation or instruction.kind, 16)
    if instruction.kind == "copy":
        how, what = "copy", _copy_text(instruction, rows)
    times = format_seconds(instruction.start_s), format_seconds(span_s)
    return Row("    {:<7}{:>9} +{:>9}  {:<32}  {}  {}", (f"#{instruction.id}", *times, what, how, waits))


def _families(plan: Plan) -> Section | None:
    family = {t.name: t.family for t in plan.tasks}
    places: dict[str, Counter[str]] = {}
    for assignment in plan.schedule.assignments:
        how = f" {assignment.implementation}" if assignment.implementation else ""
        places.setdefault(family.get(assignment.task, "?"), Counter())[assignment.device + how] += 1
    if not places:
        return None
    rows = []
    ranked = sorted(places.items(), key=lambda pair: (-pair[1].total(), pair[0]))
    for name, where in ranked[:MAX_ROWS]:
        text = [f"{place}: {count:,}" for place, count in where.most_common()]
        rows.append(Row("  {:<20} {:>7}  {}", (_clean(name, 20), f"{where.total():,}", _some(text))))
    rows += _more_rows(len(ranked) - MAX_ROWS)
    return Section("Where each family of tasks goes", rows, ("family", "tasks", "device and by"), frozenset({1}))


def _memory(plan: Plan) -> Section | None:
    if not plan.peak_bytes and not plan.constant_bytes:
        return None
    constants = [f"{_clean(space, 20)} {format_bytes(n)}" for space, n in sorted(plan.constant_bytes.items())]
    capacity = {s.name: s.capacity_bytes for s in plan.platform.spaces}
    rows = []
    for space, nbytes in sorted(plan.peak_bytes.items())[:MAX_ROWS]:
        of = f"of {format_bytes(capacity[space])}" if capacity.get(space) else ""
        rows.append(Row("  {:<20} {:>11} {}", (_clean(space, 20), format_bytes(nbytes), of)))
    rows += _more_rows(len(plan.peak_bytes) - MAX_ROWS)
    rows += [Row("  {}", (f"and of constants: {_some(constants)}",))] if constants else []
    resident = [f"{_clean(space, 20)} {format_bytes(n)}" for space, n in sorted(plan.resident_bytes.items())]
    rows += [Row("  {}", (f"and of inputs used in place: {_some(resident)}",))] if resident else []
    return Section("Peak memory", rows, numbers=frozenset({1}))


def _kinds(plan: Plan) -> Section | None:
    """Return the kinds of memory of the arrays with the reasons; arrays of the default kind are counted."""
    if not plan.peak_bytes and not plan.constant_bytes:
        return None
    keys, rows, form = PoolKeys(plan.platform, plan.memory), list[Row](), "  {:<20} {:<7} {}"
    chosen = {(each.array, each.space): each for each in plan.memory}
    parts = {array.name: array.rows.array for array in plan.arrays if array.rows is not None}
    usual: Counter[PoolKey] = Counter()
    for array, space in {(i.uses[0].array, i.uses[0].space) for _, i in plan.instructions() if i.kind == "alloc"}:
        buffer = (parts.get(array, array), space)
        if buffer not in chosen and (key := keys.get(buffer)) is not None:
            usual[key] += 1
    for key, count in sorted(usual.items(), key=lambda each: each[0][:2]):
        reason = f"{plural(count, 'array')}: {default_kind_reason(key)}"
        rows.append(Row(form, (_clean(key.space, 20), key.kind, reason)))
    alike: dict[tuple[str, str, str], list[str]] = {}
    for each in plan.memory:
        alike.setdefault((each.space, each.kind, each.why), []).append(_clean(each.array, 40))
    for (space, kind, why), names in list(alike.items())[:MAX_ROWS]:
        rows.append(Row(form, (_clean(space, 20), kind, f"{_some(names)}: {_clean(why, 160)}")))
    return Section("Memory kinds", rows + _more_rows(len(alike) - MAX_ROWS)) if rows else None


def _counters(plan: Plan) -> Section:
    c = plan.counters
    texts = (
        f"{plural(c.dependencies, 'dependency', 'dependencies')} of the graph; "
        f"{plural(c.edges, 'edge')} between instructions, {plural(c.waits, 'wait')} left after reduction, "
        f"on {plural(c.events, 'event')}; {plural(c.barriers, 'barrier')}",
        f"{plural(c.copies, 'copy', 'copies')} between memory spaces, {format_bytes(c.copied_bytes)}"
        + (f"; {plural(c.recomputed, 'task')} done again for lack of memory" if c.recomputed else ""),
    )
    return Section("Synchronisation", [Row("  {}", (text,)) for text in texts])


# --- one task -------------------------------------------------------------------------------------


def _chunks(plan: Plan, task: str, holders: Sequence[str]) -> list[str]:
    """Return the lines about a split task: the planned tasks that contain its chunks, with times and lanes."""
    wanted = set(holders)
    work = {i.task: (n, i) for n, i in plan.instructions() if i.task in wanted and i.kind in _WORK_KINDS}
    devices = Counter(n.device for n, _ in work.values())
    where = _some([f"{_clean(device)}: {count:,}" for device, count in devices.most_common()])
    lines = [f"{_clean(task)}: cut into chunks, in {plural(len(holders), 'task')} ({where})"]
    width = max(len(_clean(name, 40)) for name in holders[:MAX_ROWS])
    for name in holders[:MAX_ROWS]:
        if name in work:
            lane, i = work[name]
            times = f"{format_seconds(i.start_s):>9} to {format_seconds(i.finish_s):>9}"
            lines.append(f"  {_clean(name, 40):<{width}}  {times}  on lane {_clean(lane.name)}")
    return lines + _more(len(holders) - MAX_ROWS)


def _task(plan: Plan, task: str, place: int) -> list[str]:
    planned = plan.tasks[place]
    lines = [f"{_clean(task)}: {_clean(planned.family)}, {planned.kind} task {place + 1:,} of {len(plan.tasks):,}"]
    if held := plan.recipe.held(task):
        lines.append(f"  does         {plural(len(held), 'task')} one after another: {_some(held)}")
    found = next(((n, i) for n, i in plan.instructions() if i.task == task and i.kind in _WORK_KINDS), None)
    if found is None:
        return [*lines, "  runs         nowhere: the plan leaves it out"]
    lane, instruction = found
    lines += _where(plan, lane, instruction, _rows(plan))
    lines += _waited_for(plan, lane, instruction)
    lines += _copied_for(plan, task)
    lines += _done_again(plan, task)
    lines += _elsewhere(plan, task, lane.device, instruction)
    return lines + ([f"  plans tried  {trials_text(plan)}"] if len(plan.trials) > 1 else [])


def _where(plan: Plan, lane: Lane, instruction: Instruction, rows: _Rows) -> list[str]:
    keys = PoolKeys(plan.platform, plan.memory)
    span_s = instruction.finish_s - instruction.start_s
    how = f", implementation {_clean(instruction.implementation)}" if instruction.implementation else ""
    lines = [
        f"  runs         on {_clean(lane.device)}, lane {_clean(lane.name)}{how}",
        f"  predicted    {format_seconds(instruction.start_s)} to {format_seconds(instruction.finish_s)}: takes "
        f"{format_seconds(span_s)}, {format_seconds(instruction.duration_s)} alone on the machine",
    ]
    processor = next((d.processor for d in plan.platform.devices if d.name == lane.device), None)
    if processor is not None and (cores := _shared_cores(plan).get(processor)):
        lines.append(f"  shared       {cores}: what runs at the same time is slower")
    uses = [
        f"{mode.value} {array} in {space}" + (f" ({key.kind})" if (key := keys.get((whole, space))) else "")
        for array, space, mode, whole in _joined(instruction.uses, rows)
    ]
    lines += [f"  touches      {_some(uses)}"] if uses else []
    touched = {(rows[u.array].array if u.array in rows else u.array, u.space) for u in instruction.uses}
    whys = [f"{c.array} is {c.kind} memory: {c.why}" for c in plan.memory if (c.array, c.space) in touched]
    return lines + [f"  {'memory' if n == 0 else '':<12} {_clean(why, 200)}" for n, why in enumerate(whys[:MAX_LIST])]


def _waited_for(plan: Plan, lane: Lane, instruction: Instruction) -> list[str]:
    """Return the predecessors of an instruction: the one before it on its lane, and awaited ones of other lanes."""
    by_id = {i.id: (n, i) for n, i in plan.instructions()}
    before = [i for i in lane.instructions if i.id < instruction.id and i.kind not in _MEMORY_KINDS]
    first: list[tuple[Lane, Instruction]] = [(lane, before[-1])] if before else []
    first += [by_id[w] for w in instruction.waits if w in by_id]
    if not first:
        return ["  waits for    nothing"]
    first.sort(key=lambda pair: -pair[1].finish_s)
    lines, rows = [], _rows(plan)
    for position, (where, other) in enumerate(first[:MAX_LIST]):
        what = _copy_text(other, rows) if other.kind == "copy" else _clean(other.task or other.kind)
        why = "before it on the lane" if where is lane else f"on {_clean(where.name)}"
        last = "; the last to finish" if position == 0 and len(first) > 1 else ""
        lead = "  waits for    " if position == 0 else " " * 15
        lines.append(f"{lead}{what} {why}, until {format_seconds(other.finish_s)}{last}")
    return lines + _more(len(first) - MAX_LIST, " " * 13)


def _copied_for(plan: Plan, task: str) -> list[str]:
    copies = [i for _, i in plan.instructions() if i.kind == "copy" and i.task == task]
    if not copies:
        return ["  copied       nothing: every array is where it is needed"]
    total = f"{format_bytes(sum(c.nbytes for c in copies))} in {plural(len(copies), 'copy', 'copies')}"
    rows = _rows(plan)
    each = [
        f"{_copy_text(c, rows)} {format_bytes(c.nbytes)} in {format_seconds(c.finish_s - c.start_s)}" for c in copies
    ]
    return [f"  copied       {total}: {_some(each)}"]


def _done_again(plan: Plan, task: str) -> list[str]:
    """Return the times of repeated executions of a task, which recompute results dropped for lack of memory."""
    more = [i for _, i in plan.instructions() if i.task == task and i.again]
    times = [f"{format_seconds(i.start_s)} to {format_seconds(i.finish_s)}" for i in more]
    return [f"  done again   {plural(len(more), 'time')} for lack of memory: {_some(times)}"] if more else []


def _elsewhere(plan: Plan, task: str, device: str, instruction: Instruction) -> list[str]:
    options = sorted((o for o in plan.options if o.task == task), key=lambda o: o.seconds)
    refused = [
        f"  refused      by {_clean(r.device, 20)}: {_clean(r.implementation, 16)}: "
        f"{_clean('; '.join(r.reason.splitlines()), 200)}"
        for r in plan.refusals
        if r.task == task
    ]
    if not options:
        return ["  elsewhere    the plan does not record what it would cost elsewhere", *refused]
    here = [o for o in options if o.device == device and o.implementation == instruction.implementation]
    here_s = here[0].seconds if here else instruction.duration_s
    lines = ["  would cost, alone on the machine"]
    for option in options[:MAX_ROWS]:
        chosen = bool(here) and option is here[0]
        ratio = f"  {option.seconds / here_s:.2f}x" if here_s > 0 and not chosen else ""
        lines.append(
            f"    {'*' if chosen else ' '} {_clean(option.device, 20):<20} {_clean(option.implementation, 16):<16} "
            f"{format_seconds(option.seconds):>9}  {option.origin}{_uncertainty(option)}{ratio}"
        )
    lines += _more(len(options) - MAX_ROWS, "    ") + refused[:MAX_ROWS] + _more(len(refused) - MAX_ROWS, "    ")
    return lines + _margin(options, device, here_s, _clean(plan.policy))


def _uncertainty(option: Option) -> str:
    return f" ±{option.uncertainty:.0%}" if option.uncertainty else ""


def _margin(options: Sequence[Option], device: str, here_s: float, policy: str) -> list[str]:
    others = [o for o in options if o.device != device]
    if not others:
        return ["  margin       no other device can run it"]
    best = others[0]
    name, gap_s = _clean(best.device), best.seconds - here_s
    if gap_s >= 0:
        ratio = f", {best.seconds / here_s:.2f} times as long" if here_s > 0 else ""
        return [f"  margin       {format_seconds(gap_s)} to the second best, {name}{ratio}"]
    return [
        f"  margin       alone, {name} would be faster by {format_seconds(-gap_s)}; "
        f"policy {policy} counts waiting and copies, too"
    ]


# --- text -----------------------------------------------------------------------------------------


def _rows(plan: Plan) -> _Rows:
    return {a.name: a.rows for a in plan.arrays if a.rows is not None}


def _joined(uses: Iterable[BufferUse], rows: _Rows) -> list[tuple[str, str, AccessMode, str]]:
    """Return (name, space, mode, whole array) of each buffer use, with adjacent segments merged into one range."""
    found: list[tuple[str, str, AccessMode, PlannedRows | None]] = []
    for use in uses:
        mine = rows.get(use.array)
        before = found[-1] if found else None
        if mine is not None and before is not None and before[3] is not None:
            range_before, same = before[3], before[1:3] == (use.space, use.mode)
            if same and (range_before.array, range_before.stop) == (mine.array, mine.start):
                joined = replace(mine, start=range_before.start)
                found[-1] = (row_range_name(mine.array, (joined.start, joined.stop)), use.space, use.mode, joined)
                continue
        found.append((use.array, use.space, use.mode, mine))
    return [(array, space, mode, array if mine is None else mine.array) for array, space, mode, mine in found]


def _copy_text(instruction: Instruction, rows: _Rows) -> str:
    source = next((u for u in instruction.uses if not u.mode.writes), None)
    target = _joined((u for u in instruction.uses if u.mode.writes), rows)
    if source is None or not target:
        return "copy"
    return _clean(f"{target[0][0]} {source.space} -> {target[0][1]}", 60)


def _clean(text: str, width: int = 80) -> str:
    """Escape control characters of text from a file, which could control the terminal, and shorten it."""
    safe = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[: width + 1])
    return shortened(safe, width)


def _some(items: Iterable[str], limit: int = MAX_LIST) -> str:
    """Join the first few items and state the number of further ones."""
    listed = list(items)
    shown = ", ".join(_clean(i, 120) for i in listed[:limit])
    return shown if len(listed) <= limit else f"{shown} and {len(listed) - limit:,} more"


def _more(count: int, indent: str = "  ") -> list[str]:
    return [f"{indent}  … {count:,} more"] if count > 0 else []


def _more_rows(count: int, indent: str = "  ") -> list[Row]:
    return [Row("{}", (line,)) for line in _more(count, indent)]


def _of_generation(platform: Platform) -> str:
    """Return which SYCL packages showed the devices, if it is known."""
    return f" (SYCL packages: {_clean(platform.generation)})" if platform.generation else ""
