# SPDX-License-Identifier: Apache-2.0
"""Turns of runs that share a device: shares by weight, priorities, no starvation; on a virtual clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.execution.dispatch.turns import HELD_S, LINGER_S, QUANTUM_S, Turn, Turns, devices_of
from syclsched.execution.handle import run_observer

CPU, GPU = frozenset({"cpu"}), frozenset({"gpu"})


@dataclass
class ManualClock:
    """A clock that the test advances."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Client:
    """A run that always has more instructions of the same length, of which two may be queued on the device."""

    turn: Turn
    seconds: float
    done_s: float = 0.0
    queued: int = 0
    waits: bool = False
    starts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.turn.has_work = lambda: self.queued > 0

    def wake(self) -> None:
        self.waits = False

    def submits(self, now_s: float) -> bool:
        """Ask for a turn if there is room; return whether an instruction is to be queued."""
        if self.waits or self.queued == 2:
            return False
        self.waits = not self.turn.may_start(self.seconds, self.wake)
        if not self.waits:
            self.queued += 1
            self.starts.append(now_s)
        return not self.waits


def serve(turns: Turns, clock: ManualClock, clients: list[Client], until_s: float) -> None:
    """Execute instructions on one device, in the order of their submission, until a time."""
    queue: list[Client] = []
    end_s = clock.now_s
    while clock.now_s < until_s:
        while submitted := [client for client in clients if client.submits(clock.now_s)]:
            queue += submitted
        if queue:
            end_s = max(end_s, clock.now_s) + queue[0].seconds
        due_s = turns.wake_due()
        assert queue or due_s is not None, "all wait, and nothing will wake them"
        while due_s is not None and due_s < (end_s if queue else until_s):
            clock.now_s = max(clock.now_s, due_s) + 1e-9
            due_s = turns.wake_due()
            for client in clients:
                while client.submits(clock.now_s):
                    queue.append(client)
                    if len(queue) == 1:
                        end_s = clock.now_s + client.seconds
        if not queue:
            clock.now_s = until_s
            return
        clock.now_s = end_s
        done = queue.pop(0)
        done.queued -= 1
        done.done_s += done.seconds
    while queue:
        queue.pop().queued -= 1


@pytest.fixture(autouse=True)
def no_observer_is_left() -> Any:
    before = run_observer.active
    yield
    run_observer.remove_all()
    if before is not None:
        run_observer.add(before)


@given(
    shares=st.lists(st.floats(0.1, 10.0), min_size=1, max_size=4),
    seconds=st.lists(st.floats(1e-4, 5e-3), min_size=4, max_size=4),
)
def test_devices_are_shared_by_weight(shares: list[float], seconds: list[float]) -> None:
    clock = ManualClock()
    turns = Turns(clock, threaded=False)
    clients = [Client(turns.join(0, share, CPU), each) for share, each in zip(shares, seconds, strict=False)]
    serve(turns, clock, clients, 1.0)
    for client in clients:
        expected = clock.now_s * client.turn.share / sum(shares)
        # Others may be ahead by a quantum and an instruction; idle time between turns is short.
        assert client.done_s >= 0.9 * expected - 4 * (QUANTUM_S + max(seconds))


def test_higher_priority_is_preferred_without_starving_others() -> None:
    clock = ManualClock()
    turns = Turns(clock, threaded=False)
    high, low = Client(turns.join(-1, 1.0, CPU), 1e-3), Client(turns.join(-2, 1.0, CPU), 1e-3)
    serve(turns, clock, [high, low], 2.0)
    assert 0.02 * clock.now_s < low.done_s < 0.1 * clock.now_s
    assert high.done_s > 0.9 * clock.now_s
    turns.leave(high.turn)
    before_s, clock_s = low.done_s, clock.now_s
    serve(turns, clock, [low], clock.now_s + 1.0)
    assert low.done_s - before_s > 0.99 * (clock.now_s - clock_s)


def begin_call(name: str) -> run_observer.ObservedCall:
    """Begin a run on a device that takes no turns."""
    device = SimpleNamespace(name=name, key=name, processor=name, is_host=False, message_lanes=0)
    platform = SimpleNamespace(devices=(device,))
    plan: Any = SimpleNamespace(lanes=(SimpleNamespace(device=name),), platform=platform)
    assert run_observer.active is not None
    return run_observer.active.call_began(plan)


def held() -> tuple[ManualClock, Turns, Turn]:
    """Return a run of priority -1 on the CPU that is held while a run of priority 0 continues there."""
    clock = ManualClock(1.0)
    turns = Turns(clock, threaded=False)
    turn = turns.join(-1, 1.0, CPU)
    begin_call("cpu")
    return clock, turns, turn


def test_runs_without_turns_delay_lower_priorities() -> None:
    clock = ManualClock(1.0)
    turns = Turns(clock, threaded=False)
    background, elsewhere, equal = turns.join(-1, 1.0, CPU), turns.join(-1, 1.0, GPU), turns.join(0, 1.0, CPU)
    woken: list[str] = []
    call = begin_call("cpu")
    assert not background.may_start(1e-4, lambda: woken.append("background"))
    assert elsewhere.may_start(1e-4, lambda: woken.append("elsewhere"))
    assert equal.may_start(1e-4, lambda: woken.append("equal"))
    clock.now_s += 5e-3
    call.end(completed=True)
    turns.wake_due()
    assert woken == []  # the next call may follow immediately
    clock.now_s += 1.1 * LINGER_S
    assert turns.wake_due() is None and woken == ["background"]
    assert background.may_start(1e-4, lambda: None)


def test_a_long_delayed_run_gets_a_quantum() -> None:
    clock, turns, background = held()
    client = Client(background, QUANTUM_S / 2)
    serve(turns, clock, [client], 1.0 + 10.5 * HELD_S)
    assert len(client.starts) == pytest.approx(20, abs=3)


@pytest.mark.parametrize("seconds", [1e-3, 5e-3, 20e-3, 100e-3])
def test_long_tasks_do_not_get_more_than_short_ones(seconds: float) -> None:
    clock, turns, background = held()
    client = Client(background, seconds)
    serve(turns, clock, [client], 21.0)
    assert 0.5 * 20.0 * QUANTUM_S / HELD_S < client.done_s < 1.2 * 20.0 * QUANTUM_S / HELD_S + seconds


def test_excess_over_the_predicted_time_is_charged() -> None:
    clock, turns, turn = held()
    starts = 0
    while clock.now_s < 21.0:
        if turn.may_start(0.0, lambda: None):
            starts += 1
            clock.now_s += 50e-3  # like a host function that was never measured
            turn.took_longer(50e-3)
        else:
            clock.now_s += 5e-3
            turns.wake_due()
    assert starts * 50e-3 < 0.1 * 20.0


def test_work_of_the_predicted_length_is_not_charged_again() -> None:
    clock, turns, turn = held()
    woken: list[float] = []
    assert not turn.may_start(1e-3, lambda: woken.append(clock.now_s))
    for _ in range(10):  # short functions, of which each took hardly longer
        turn.took_longer(1e-9)
    clock.now_s += 1.01 * HELD_S
    turns.wake_due()
    assert woken


def test_run_without_turns_does_not_starve_others() -> None:
    clock = ManualClock(1.0)
    turns = Turns(clock, threaded=False)
    silent, ahead = turns.join(0, 1.0, CPU), Client(turns.join(0, 1.0, CPU), 1e-3)
    assert silent.may_start(1e-3, lambda: None)
    silent.has_work = lambda: True  # a message that depends on the other run
    serve(turns, clock, [ahead], 2.0)
    assert 0.02 < ahead.done_s < 0.2


def test_a_run_waiting_for_another_device_delays_no_peer() -> None:
    clock = ManualClock(1.0)
    turns = Turns(clock, threaded=False)
    both, alone = turns.join(-1, 1.0, CPU | GPU), Client(turns.join(-1, 1.0, CPU), 1e-3)
    begin_call("gpu")
    assert not both.may_start(1e-3, lambda: None)
    serve(turns, clock, [alone], 2.0)
    assert alone.done_s > 0.9


def test_a_newcomer_does_not_starve_among_unequal_shares() -> None:
    clock = ManualClock()
    turns = Turns(clock, threaded=False)
    small, large = Client(turns.join(0, 0.01, CPU), 10e-3), Client(turns.join(0, 10.0, CPU), 10e-3)
    serve(turns, clock, [small, large], 1.0)
    late = Client(turns.join(0, 10.0, CPU), 10e-3)
    serve(turns, clock, [small, large, late], 4.0)
    assert late.done_s > 0.3 * 3.0


def test_runs_that_follow_each_other_keep_their_account() -> None:
    clock = ManualClock()
    turns = Turns(clock, threaded=False)
    other = Client(turns.join(0, 1.0, CPU), 5e-3)
    done_s = 0.0
    while clock.now_s < 4.0:
        client = Client(turns.join(0, 4.0, CPU, owner="bound"), 5e-3)
        serve(turns, clock, [other, client], clock.now_s + 20e-3)  # a short run
        done_s += client.done_s
        client.turn.end()
        clock.now_s += 1e-3
    assert done_s > 2.5 * other.done_s


def test_time_that_a_run_did_not_use_is_not_saved_up() -> None:
    clock = ManualClock()
    turns = Turns(clock, threaded=False)
    early, late = Client(turns.join(0, 1.0, CPU), 1e-3), Client(turns.join(0, 1.0, CPU), 1e-3)
    serve(turns, clock, [early], 1.0)
    serve(turns, clock, [early, late], 2.0)
    assert late.done_s == pytest.approx(0.5, abs=0.02)


def test_the_observer_is_active_only_with_runs_that_take_turns() -> None:
    turns = Turns(ManualClock(), threaded=False)
    before = run_observer.active
    turn = turns.join(-1, 1.0, CPU)
    assert run_observer.active is not before
    turn.end()
    turn.end()
    assert run_observer.active is before


def test_a_run_that_is_decided_later_may_use_all_devices() -> None:
    devices = [SimpleNamespace(name=name, key=f"key of {name}", processor=None) for name in ("cpu", "gpu")]
    plan: Any = SimpleNamespace(lanes=(), platform=SimpleNamespace(devices=devices))
    assert devices_of(plan) == {"key of cpu", "key of gpu"}
    plan.lanes = (SimpleNamespace(device="gpu"),)
    assert devices_of(plan) == {"key of gpu"}
