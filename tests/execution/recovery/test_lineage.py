# SPDX-License-Identifier: Apache-2.0
"""Remaining work after losses: sufficient, with matching versions, and minimal in simple cases."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from syclsched.execution.recovery.lineage import RemainingWork, find_remaining_work
from syclsched.execution.recovery.versions import GIVEN, Versions, find_contents, find_versions
from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Instruction, PlannedAccess, PlannedArray, PlannedRows, PlannedTask
from syclsched.model.platform import HOST

READ, WRITE, UPDATE = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE


def task(name: str, after: tuple[str, ...] = (), **modes: AccessMode) -> PlannedTask:
    return PlannedTask(name, "kernel", "f", tuple(PlannedAccess(a, m) for a, m in modes.items()), after)


def by_name(*tasks: PlannedTask) -> dict[str, PlannedTask]:
    return {t.name: t for t in tasks}


def left(
    tasks: dict[str, PlannedTask],
    whole: dict[str, set[int]],
    done: str = "",
    failed: str = "",
    wanted: str = "",
    repeatable: set[str] | None = None,
) -> RemainingWork:
    again = set(tasks) if repeatable is None else repeatable
    return find_remaining_work(
        tasks, find_versions(tasks.values()), whole, done.split(), failed.split(), wanted.split(), again
    )


def check(found: RemainingWork, versions: Versions, whole: dict[str, set[int]], wanted: set[str]) -> None:
    """Execute the remaining tasks, and check every version that is read or wanted."""
    state = dict(found.start)
    for array, version in state.items():
        assert version in whole[array], f"{array} begins with a version that is nowhere"
    for name in found.tasks:
        for array, version in versions.read[name].items():
            assert state.get(array) == version, f"{name} reads {array} in the wrong version"
        state.update(versions.written[name])
    for array in wanted - found.lost:
        assert state.get(array) == versions.last(array), f"{array} is not what it should be in the end"


CHAIN = by_name(task("a", x=READ, y=WRITE), task("b", y=UPDATE), task("c", y=UPDATE))


def test_unstarted_tasks_continue_from_the_current_version() -> None:
    found = left(CHAIN, {"x": {0}, "y": {2}}, "a b", wanted="y")
    assert (found.tasks, found.redone, found.start) == (("c",), (), {"y": 2})


def test_array_updated_in_place_is_recomputed() -> None:
    found = left(CHAIN, {"x": {0}, "y": set()}, "a b", wanted="y")
    assert (found.tasks, found.redone, found.start) == (("a", "b", "c"), ("a", "b"), {"x": 0})


def test_an_older_surviving_copy_saves_work() -> None:
    found = left(CHAIN, {"x": {0}, "y": {1}}, "a b", wanted="y")
    assert (found.tasks, found.redone, found.start) == (("b", "c"), ("b",), {"y": 1})


def test_no_work_remains_if_all_results_survive() -> None:
    found = left(CHAIN, {"x": {0}, "y": {3}}, "a b c", wanted="y")
    assert (found.tasks, found.start) == ((), {"y": 3})


def test_recomputing_an_old_version_repeats_later_writers() -> None:
    tasks = by_name(task("a", x=WRITE), task("r", x=READ, z=WRITE), task("u", x=UPDATE))
    found = left(tasks, {"x": {2}, "z": set()}, "a r u", wanted="x z")
    assert found.tasks == ("a", "r", "u")


def test_lost_values_of_unrepeatable_tasks() -> None:
    found = left(CHAIN, {"x": {0}, "y": set()}, "a b", wanted="y", repeatable={"a", "c"})
    assert (found.tasks, found.lost, found.dead) == ((), {"y"}, {"c"})


def test_a_permanent_failure_cancels_only_dependent_tasks() -> None:
    tasks = by_name(
        task("a", x=WRITE), task("b", x=READ, y=WRITE), task("c", ("a",), z=WRITE), task("d", w=WRITE),
        PlannedTask("meet", "barrier", "barrier", (), ("a", "b")), task("e", ("meet",), v=WRITE),
    )  # fmt: skip
    found = left(tasks, {}, "", "a", "x y z w v")
    assert (found.tasks, found.lost, found.dead) == (("d", "meet", "e"), set("xyz"), {"a", "b", "c"})


def test_a_rewritten_value_survives_a_failure() -> None:
    tasks = by_name(task("a", x=WRITE), task("b", x=WRITE))
    found = left(tasks, {}, "", "a", "x")
    assert (found.tasks, found.lost) == (("b",), set())


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, PlannedTask], set[str], set[str], dict[str, set[int]], set[str]]:
    """Draw tasks, those done and those failed, versions that are still stored, and tasks that must not be repeated."""
    arrays = "uvwxyz"[: draw(st.integers(1, 6))]
    tasks: dict[str, PlannedTask] = {}
    for index in range(draw(st.integers(1, 12))):
        chosen = draw(st.lists(st.sampled_from(arrays), min_size=1, max_size=3, unique=True))
        after = tuple(draw(st.lists(st.sampled_from(sorted(tasks)), max_size=1))) if tasks else ()
        modes = {a: draw(st.sampled_from([READ, READ, WRITE, UPDATE])) for a in chosen}
        tasks[f"t{index}"] = task(f"t{index}", after, **modes)
    versions = find_versions(tasks.values())
    done: set[str] = set()
    failed: set[str] = set()
    for name, each in tasks.items():
        makers = {versions.writer(a, v) for a, v in versions.read[name].items()} - {None}
        if makers <= done and set(each.after) <= done:
            what = draw(st.integers(0, 5))
            if what == 0:
                failed.add(name)
            elif what < 5:
                done.add(name)
    whole = {}
    for array in arrays:
        made = [v for v, by in enumerate(versions.writers.get(array, (None,))) if by is None or by in done]
        whole[array] = {GIVEN, *draw(st.sets(st.sampled_from(made)))}
    return tasks, done, failed, whole, draw(st.sets(st.sampled_from(sorted(tasks)), max_size=2))


@given(histories())
def test_remaining_work_produces_every_possible_result(found: tuple[object, ...]) -> None:
    tasks, done, failed, whole, once = found  # type: ignore[misc]
    versions = find_versions(tasks.values())  # type: ignore[has-type]
    wanted = set(whole)  # type: ignore[has-type]
    for repeatable in (set(tasks), set(tasks) - once):  # type: ignore[has-type]
        left = find_remaining_work(tasks, versions, whole, done, failed, wanted, repeatable)  # type: ignore[has-type]
        check(left, versions, whole, wanted)  # type: ignore[has-type]
        assert not failed & set(left.tasks)  # type: ignore[has-type]
        assert set(left.redone) <= done & repeatable  # type: ignore[has-type]
        assert set(tasks) - done - set(left.tasks) == left.dead - done  # type: ignore[has-type]
    if not failed:  # type: ignore[has-type]
        full = find_remaining_work(tasks, versions, whole, done, (), wanted, set(tasks))  # type: ignore[has-type]
        assert not full.lost and not full.dead


def test_contents_follow_copies_updates_and_memory() -> None:
    from support.synthetic import two_devices

    plan = two_devices()
    tasks = [task("first", x=WRITE), task("other", y=UPDATE), task("second", x=UPDATE)]
    versions = find_versions(tasks)
    assert find_contents(plan, versions, (), ()) == {("x", "cpu"): 1, ("x", "gpu"): 2, ("y", "gpu"): 1}
    assert find_contents(plan, versions, (4,), ()) == {("x", "cpu"): 1, ("x", "gpu"): 1, ("y", "gpu"): 1}
    assert find_contents(plan, versions, (), (4,)) == {("x", "cpu"): 1, ("y", "gpu"): 1}
    assert find_contents(plan, versions, (3, 4), (1,)) == {("y", "gpu"): 1}


def test_freed_memory_invalidates_its_segments() -> None:
    from support.synthetic import two_devices

    plan = two_devices()
    part = PlannedArray("x[0:2]", (2,), "float64", 16, is_input=True, rows=PlannedRows("x", 0, 2))
    whole = Instruction(99, "free", uses=(BufferUse("x", HOST, WRITE),))
    lane = plan.lanes[0]
    plan = replace(plan, arrays=(*plan.arrays, part))
    assert find_contents(plan, find_versions(()), range(99), ()).get(("x[0:2]", HOST)) == GIVEN
    freed = replace(plan, lanes=(replace(lane, instructions=(*lane.instructions, whole)), *plan.lanes[1:]))
    assert ("x[0:2]", HOST) not in find_contents(freed, find_versions(()), range(99), ())
