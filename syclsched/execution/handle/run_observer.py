# SPDX-License-Identifier: Apache-2.0
"""Observer of all runs of this process, for monitoring; without one, a run pays for one comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from syclsched.execution.handle.resources import Resources
    from syclsched.model.plan import Plan


class ObservedCall(Protocol):
    """A run that is one call of compiled code."""

    def end(self, *, completed: bool) -> None:
        """Note the end of the call; a run that it has not completed goes on as one of the others."""


class RunObserver(Protocol):
    """Is told of the runs that begin."""

    def began(self, resources: Resources) -> None:
        """Note a run that is about to start."""

    def call_began(self, plan: Plan) -> ObservedCall:
        """Note a run that is one call of compiled code."""


#: The observer; None if nothing observes runs.
active: RunObserver | None = None
