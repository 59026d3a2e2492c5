# SPDX-License-Identifier: Apache-2.0
"""Memoised functions of a plan, with values that live as long as the plan."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import update_wrapper
from typing import Generic, TypeVar

from syclsched.model.plan import Plan

T = TypeVar("T")


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
