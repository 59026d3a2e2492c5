# SPDX-License-Identifier: Apache-2.0
"""Values known of a plan, by the plan or by the work it does; they live as long as the plan."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import fields
from functools import update_wrapper
from typing import Final, Generic, TypeVar

from syclsched.model.plan import Plan

T = TypeVar("T")

#: Fields that say how a plan was made and how good it is, not what it does.
_DESCRIPTIONS: Final = frozenset(
    {"policy", "candidates", "trials", "options", "refusals", "lower_bound_s", "aim", "energy_j", "interval_s"}
)
_WORK: Final = tuple(each.name for each in fields(Plan) if each.name not in _DESCRIPTIONS)


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
    """Values by what a plan does: they hold for a copy of the plan with another description, too.

    Such a copy shares all other fields with the plan, so these are compared by identity.
    """

    def __init__(self) -> None:
        self._values: dict[int, tuple[weakref.ref[Plan], T]] = {}

    def get(self, plan: Plan) -> T | None:
        """Return the value for a plan; None if there is none."""
        found = self._values.get(id(plan.lanes))
        first = None if found is None else found[0]()
        return None if found is None or first is None or not does_same(first, plan) else found[1]

    def keep(self, plan: Plan, value: T) -> None:
        """Store the value for a plan, for as long as it lives, or the plan of an earlier value that does the same."""
        key = id(plan.lanes)
        found = self._values.get(key)
        first = None if found is None else found[0]()
        if found is not None and first is not None and does_same(first, plan):
            self._values[key] = found[0], value
            return

        def discard(dead: weakref.ref[Plan]) -> None:
            if key in self._values and self._values[key][0] is dead:
                del self._values[key]

        self._values[key] = weakref.ref(plan, discard), value


def does_same(first: Plan, second: Plan) -> bool:
    """Return whether a plan is another one with another description at most."""
    return first is second or all(getattr(first, name) is getattr(second, name) for name in _WORK)
