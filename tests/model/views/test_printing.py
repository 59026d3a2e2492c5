# SPDX-License-Identifier: Apache-2.0
"""Plans as text: complete for every plan, and of limited length."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from support.strategies import ScheduledGraph, cases
from support.synthetic import two_devices

from syclsched.errors import GraphError
from syclsched.model.plan import (
    Candidate,
    Instruction,
    Lane,
    Option,
    PlannedTask,
)
from syclsched.model.platform import Interference
from syclsched.model.schedule import Assignment, Schedule
from syclsched.model.views.printing import explain_task, plan_text
from syclsched.planning import build_plan
from syclsched.simulation import predict


def test_unsimulated_candidates_are_compared_by_the_model() -> None:
    candidates = (
        Candidate("heft", 0.004, None, 0.002), Candidate("peft", None, None, 0.003), Candidate("mcp", None, None, 0.005)
    )  # fmt: skip
    lines = plan_text(replace(two_devices(), candidates=candidates)).splitlines()
    start = lines.index("Candidates (3 considered)")
    assert lines[start + 1 : start + 5] == [
        "  * heft   4.000 ms",
        "  not simulated, by the scheduler's model, which gives the chosen one 2.000 ms:",
        "    peft   3.000 ms  1.50x",
        "    mcp    5.000 ms  2.50x",
    ]


def test_the_whole_plan() -> None:
    assert plan_text(two_devices()).splitlines() == [
        "Plan of small, policy auto: heft",
        "  predicted    4.000 ms for 3 tasks on 3 lanes",
        "  platform     desk: cpu (1 lane), gpu (2 lanes), host (1 lane)",
        "Candidates (3 considered)",
        "  * heft         4.000 ms",
        "    single:cpu   8.000 ms  2.00x",
        "    single:gpu  refused: needs fp64",
        "Lanes",
        "  cpu:0 (compute): 1 instruction, busy 50.0 %, 1 alloc or free",
        "    #1           0 s + 2.000 ms  first                             opencl-c",
        "  gpu:0 (compute): 2 instructions, busy 37.5 %",
        "    #2           0 s + 500.0 µs  other                             onemkl",
        "    #4      3.000 ms + 1.000 ms  second                            onemkl  after #3",
        "  gpu:copy (copy): 1 instruction, busy 25.0 %",
        "    #3      2.000 ms + 1.000 ms  x cpu -> gpu                      copy  after #1",
        "Where each family of tasks goes",
        "  use                        2  gpu onemkl: 2",
        "  make                       1  cpu opencl-c: 1",
        "Peak memory",
        "  cpu                    2.000 KiB",
        "  gpu                    4.000 KiB of 1.000 MiB",
        "Memory kinds",
        "  cpu                  device  1 array: the device's own; shared pages would move at times no plan knows",
        "Synchronisation",
        "  7 dependencies of the graph; 6 edges between instructions, 5 waits left after reduction, on 4 events; "
        "3 barriers",
        "  1 copy between memory spaces, 2.000 KiB",
    ]


def test_devices_on_the_same_cores_are_named() -> None:
    plan = two_devices()
    devices = tuple(replace(d, processor="p", compute_units=4) for d in plan.platform.devices)
    shared = replace(plan, platform=replace(plan.platform, devices=devices))
    assert "  shared       cpu, gpu compute on the same 4 cores" in plan_text(shared).splitlines()
    line = "  shared       cpu, gpu compute on the same 4 cores: what runs at the same time is slower"
    assert line in explain_task(shared, "second").splitlines()
    apart = replace(plan, platform=replace(plan.platform, devices=(devices[0], *plan.platform.devices[1:])))
    assert "same 4 cores" not in plan_text(apart) + explain_task(apart, "first")
    halves = tuple(replace(d, compute_units=2) for d in devices[:2])
    parts = replace(plan.platform, devices=(*halves, *devices[2:]), interferences=())
    assert parts.processor_cores["p"] == 4
    assert "same 4 cores" not in plan_text(replace(plan, platform=parts))
    turns = replace(parts, interferences=(Interference(devices[0].name, devices[1].name, 1.0),))
    assert "same 4 cores" in plan_text(replace(plan, platform=turns))


def test_print_and_explain_of_a_plan_are_these() -> None:
    plan = two_devices()
    assert str(plan) == plan_text(plan)
    assert plan.explain("second") == explain_task(plan, "second")


def test_explanation_of_the_placement_of_a_task() -> None:
    assert explain_task(two_devices(), "second").splitlines() == [
        "second: use, kernel task 3 of 3",
        "  runs         on gpu, lane gpu:0, implementation onemkl",
        "  predicted    3.000 ms to 4.000 ms: takes 1.000 ms, 1.000 ms alone on the machine",
        "  touches      update x in gpu (device)",
        "  waits for    x cpu -> gpu on gpu:copy, until 3.000 ms; the last to finish",
        "               other before it on the lane, until 500.0 µs",
        "  copied       2.000 KiB in 1 copy: x cpu -> gpu 2.000 KiB in 1.000 ms",
        "  would cost, alone on the machine",
        "    * gpu                  onemkl            1.000 ms  measured",
        "      cpu                  opencl-c          3.000 ms  modelled  3.00x",
        "  margin       2.000 ms to the second best, cpu, 3.00 times as long",
    ]


def test_uncertain_costs_say_how_uncertain_they_are() -> None:
    plan = two_devices()
    uncertain = tuple(replace(option, uncertainty=0.25) for option in plan.options)
    lines = explain_task(replace(plan, options=uncertain), "second").splitlines()
    assert [line.split("ms")[1].strip() for line in lines if "opencl-c   " in line] == ["modelled ±25%  3.00x"]


def test_explanations_name_faster_devices() -> None:
    slower = explain_task(two_devices(), "other")
    assert "alone, cpu would be faster by 400.0 µs" in slower
    only = explain_task(two_devices(), "first")
    assert "waits for    nothing" in only
    assert "copied       nothing" in only
    assert "no other device can run it" in only


def test_explanations_without_options_are_marked() -> None:
    assert "does not record" in explain_task(replace(two_devices(), options=()), "first")


def test_a_task_left_out_by_an_edited_plan() -> None:
    plan = two_devices()
    assert "nowhere" in explain_task(replace(plan, lanes=plan.lanes[:1]), "second")


def test_an_unknown_task_is_an_error_that_names_some() -> None:
    with pytest.raises(GraphError, match=r"no task 'third'.*first, other, second"):
        explain_task(two_devices(), "third")


@given(cases())
def test_any_plan_can_be_printed_and_every_task_explained(case: ScheduledGraph) -> None:
    plan = predict(build_plan(case.graph, case.platform, case.schedule, case.durations_s))
    text = plan_text(plan)
    assert all(lane.name in text for lane in plan.lanes)
    assert all(task.family in text for task in case.graph.tasks)
    unpredicted = replace(plan, makespan_s=0.0, lanes=(), schedule=Schedule("none", ()), peak_bytes={})
    assert plan_text(unpredicted)
    where = {a.task: a.device for a in plan.schedule.assignments}
    for task in case.graph.tasks:
        explained = explain_task(plan, task.name)
        assert f"on {where[task.name]}, lane" in explained
        copies = [i for _, i in plan.instructions() if i.kind == "copy" and i.task == task.name]
        assert ("copied       nothing" in explained) == (not copies)


def test_a_large_plan_stays_readable() -> None:
    plan = two_devices()
    many = tuple(Instruction(i, "launch", f"t{i}", "k", waits=tuple(range(100))) for i in range(20_000))
    lanes = tuple(Lane(f"cpu:{n}", "cpu", "compute", many) for n in range(40))
    big = replace(
        plan,
        lanes=lanes,
        candidates=tuple(Candidate(f"p{n}", float(n)) for n in range(100)),
        tasks=tuple(PlannedTask(f"t{i}", "kernel", f"f{i}") for i in range(1000)),
        schedule=Schedule("s", tuple(Assignment(f"t{i}", "cpu", 0, "k", 0.0, 0.0) for i in range(1000))),
        peak_bytes={f"m{n}": n for n in range(100)},
    )
    lines = plan_text(big).splitlines()
    assert len(lines) < 250
    assert max(len(line) for line in lines) < 200
    assert any("19,992 more" in line for line in lines)
    assert any("24 more" in line for line in lines)
    assert len(explain_task(big, "t999").splitlines()) < 40


def test_names_from_a_file_cannot_steer_a_terminal() -> None:
    nasty = "\x1b[31m\n" + "x" * 500
    plan = two_devices()
    task = replace(plan.tasks[0], name=nasty, family=nasty)
    lane = replace(plan.lanes[0], name=nasty, instructions=(Instruction(0, "launch", nasty, nasty),))
    plan = replace(
        plan, name=nasty, policy=nasty, tasks=(task,), lanes=(lane,), candidates=(Candidate(nasty, None, nasty),),
        options=(Option(nasty, nasty, nasty, 1.0, "measured"),), peak_bytes={nasty: 1},
    )  # fmt: skip
    for text in (plan_text(plan), explain_task(plan, nasty)):
        assert "\x1b" not in text
        assert max(len(line) for line in text.splitlines()) < 300
