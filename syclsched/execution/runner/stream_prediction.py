# SPDX-License-Identifier: Apache-2.0
"""Simulated steady state of a stream: interval and times with several plan instances in flight. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from syclsched.execution.core.program import Program
from syclsched.execution.runner.stream_rounds import Rounds, interleaved_rounds, sequential_rounds
from syclsched.model.plan import Instruction, Plan
from syclsched.simulation import predict

#: Generations simulated in addition to those in flight: the last ones are in steady state.
_MORE = 8


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predicted steady state of a stream."""

    rounds: Rounds  # submission order
    in_flight: int
    interval_s: float  # between the ends of successive generations, in steady state
    #: By instruction number, for a first generation shifted to time 0 from steady state.
    start_s: dict[int, float]
    finish_s: dict[int, float]

    def times(self, number: int, later: int) -> tuple[float, float] | None:
        """Return start and finish of an instruction ``later`` generations after the first; None if unknown."""
        if number not in self.start_s:
            return None
        shift_s = later * self.interval_s
        return self.start_s[number] + shift_s, self.finish_s[number] + shift_s


def forecast(program: Program, in_flight: int) -> Forecast:
    """Return the better forecast of sequential and interleaved submission, by simulation; once for each program."""
    derived, of = program.derived, (program.plan, program.further)
    known: tuple[tuple[object, object], dict[int, Forecast]] | None = derived.get("forecasts")
    if known is None or any(a is not b for a, b in zip(known[0], of, strict=True)):
        known = derived["forecasts"] = of, {}
    if in_flight not in known[1]:
        known[1][in_flight] = _forecast(program, in_flight)
    return known[1][in_flight]


def _forecast(program: Program, in_flight: int) -> Forecast:
    plain = _simulated(program, sequential_rounds(program), in_flight)
    rounds = interleaved_rounds(program) if in_flight > 1 else None
    if rounds is None:
        return plain
    better = _simulated(program, rounds, in_flight)
    return better if better.interval_s < plain.interval_s * (1.0 - 1e-6) else plain


def submissions(rounds: Rounds, generations: int, in_flight: int) -> Iterator[tuple[int, int]]:
    """Yield (generation, instruction number) in the order of submission.

    Each round starts a generation, once the generation ``in_flight`` before it is completely submitted.
    """
    begun: list[int] = []
    for generation in range(generations):
        earliest = begun[-1] + 1 if begun else 0
        free_from = begun[generation - in_flight] + rounds.stages if generation >= in_flight else 0
        begun.append(max(earliest, free_from))
    started_in = {first: generation for generation, first in enumerate(begun)}
    for number in range(begun[-1] + rounds.stages if begun else 0):
        done = [_before_stage(rounds, stage) for stage in range(rounds.stages)]
        for stage, end in rounds.pieces:
            generation = started_in.get(number - stage, -1)
            if generation >= 0:
                yield from ((generation, n) for n in rounds.order[done[stage] : end])
                done[stage] = end


def unrolled(program: Program, rounds: Rounds, generations: int, in_flight: int) -> Plan:
    """Return one plan of several generations in submission order, without memory instructions.

    The first instructions of a generation wait for the last ones of the generation whose memory it reuses.
    """
    plan = program.plan
    numbers = {each: new for new, each in enumerate(submissions(rounds, generations, in_flight))}
    ends = {program.nodes[n].lane: n for n in sorted(rounds.order)}
    first = {n for n in rounds.order if not _before(program, n)}
    lanes: list[list[Instruction]] = [[] for _ in plan.lanes]
    for (generation, n), new in numbers.items():
        node = program.nodes[n]
        waits = [numbers[generation, before] for before in _before(program, n)]
        if n in first and generation >= in_flight:
            waits += [numbers[generation - in_flight, last] for last in ends.values()]
        lanes[node.lane].append(replace(node.instruction, id=new, waits=tuple(sorted(waits))))
    platform = plan.platform
    if platform.dispatch_s is not None:  # the compiled loop has no dispatch overhead
        platform = replace(platform, dispatch_s=min(platform.dispatch_s, platform.submission_s))
    made = [replace(lane, instructions=tuple(row)) for lane, row in zip(plan.lanes, lanes, strict=True)]
    return replace(plan, lanes=tuple(made), platform=platform)


# --- inside ---------------------------------------------------------------------------------------


def _before_stage(rounds: Rounds, stage: int) -> int:
    """Return the number of instructions that a generation submits before a stage."""
    return max((end for other, end in rounds.pieces if other < stage), default=0)


def _before(program: Program, number: int) -> list[int]:
    node = program.nodes[number]
    return [*node.events, *node.completed_first]


def _simulated(program: Program, rounds: Rounds, in_flight: int) -> Forecast:
    generations = in_flight + rounds.stages + _MORE
    plan = predict(unrolled(program, rounds, generations, in_flight))
    by_new = {i.id: i for lane in plan.lanes for i in lane.instructions}
    ends = [0.0] * generations
    shown = generations - 2
    start_s: dict[int, float] = {}
    finish_s: dict[int, float] = {}
    for new, (generation, n) in enumerate(submissions(rounds, generations, in_flight)):
        ends[generation] = max(ends[generation], by_new[new].finish_s)
        if generation == shown:
            start_s[n], finish_s[n] = by_new[new].start_s, by_new[new].finish_s
    half = generations // 2
    interval_s = (ends[shown] - ends[shown - half]) / half
    origin_s = min(start_s.values(), default=0.0)
    return Forecast(
        rounds,
        in_flight,
        interval_s,
        {n: s - origin_s for n, s in start_s.items()},
        {n: s - origin_s for n, s in finish_s.items()},
    )
