# SPDX-License-Identifier: Apache-2.0
"""Values known of a plan, by the plan or by the work it does; they live as long as the plan."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import fields
from functools import update_wrapper
from operator import attrgetter, is_
from typing import Final, Generic, TypeVar

from syclsched.model.plan import Plan
from syclsched.model.schedule import Schedule

T = TypeVar("T")

#: Fields about the making of a plan or its graph and its quality, without effect on its work.
_DESCRIPTIONS: Final = (
    "policy", "candidates", "trials", "options", "refusals", "lower_bound_s", "aim", "energy_j", "interval_s",
    "recipe", "original_fingerprint",
)  # fmt: skip
_work_of = attrgetter(*(each.name for each in fields(Plan) if each.name not in (*_DESCRIPTIONS, "schedule")))


class PlanMemo(Generic[T]):
    """A function of a plan that caches its values for as long as their plans are alive.

    Plans are frozen, so a value stays valid. Plans are compared by identity, as comparing their content takes longer
    than the cache saves.
    """

    def __init__(self, function: Callable[[Plan], T]) -> None:
        self._function = function
        self._values: dict[int, tuple[weakref.ref[Plan], T]] = {}
        update_wrapper(self, function)

    def __call__(self, plan: Plan) -> T:
        """Return the function's value for a plan."""
        found = self._values.get(id(plan))
        if found is not None and found[0]() is plan:
            return found[1]
        value = self._function(plan)
        self.keep(plan, value)
        return value

    def keep(self, plan: Plan, value: T) -> None:
        """Store the value for a plan, if it is known already."""
        key = id(plan)

        def discard(dead: weakref.ref[Plan]) -> None:
            if key in self._values and self._values[key][0] is dead:
                del self._values[key]

        self._values[key] = (weakref.ref(plan, discard), value)


class WorkMemo(Generic[T]):
    """Values by a plan's work: they hold for a copy of the plan with another description, too.

    Such a copy shares all other fields with the plan, so these are compared by identity. A value lives as long as the
    plan's schedule, and must not refer to it.
    """

    def __init__(self) -> None:
        #: By the identity of the schedule: the schedule, the other fields, and the value.
        self._values: dict[int, tuple[weakref.ref[Schedule], tuple[object, ...], T]] = {}

    def get(self, plan: Plan) -> T | None:
        """Return the value for a plan; None if there is none."""
        found = self._values.get(id(plan.schedule))
        if found is None or found[0]() is not plan.schedule or not all(map(is_, found[1], _work_of(plan))):
            return None
        return found[2]

    def keep(self, plan: Plan, value: T) -> None:
        """Store the value for a plan, in place of that of another plan with the same schedule."""
        key = id(plan.schedule)

        def discard(dead: weakref.ref[Schedule]) -> None:
            if key in self._values and self._values[key][0] is dead:
                del self._values[key]

        self._values[key] = weakref.ref(plan.schedule, discard), _work_of(plan), value


def does_same(first: Plan, second: Plan) -> bool:
    """Return whether a plan is another one with another description at most."""
    return first.schedule is second.schedule and all(map(is_, _work_of(first), _work_of(second)))
