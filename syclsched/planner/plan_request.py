# SPDX-License-Identifier: Apache-2.0
"""Options of planning, shared by the API, compiled models and the command line."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import TypedDict

from syclsched.errors import ArgumentError
from syclsched.model.platform import Platform
from syclsched.scheduling.policies.baselines import Single
from syclsched.scheduling.registry import AUTO, get


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The options of `syclsched.plan` but for the memory limit; its field names are those of the options."""

    policy: str = AUTO
    minimize: str = "makespan"
    subject_to: tuple[str, ...] = ()
    rewrite: str = AUTO
    budget_s: float | None = None
    seed: int = 0
    stay: tuple[tuple[str, str], ...] = ()  # tasks that run on one device only, each with its name; implies no rewrite

    def __post_init__(self) -> None:
        for name in ("policy", "minimize", "rewrite"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise ArgumentError(f"expected a name, got a value of type {type(value).__name__}", where=name)

    def check_names(self, platform: Platform | None = None) -> None:
        """Raise `PolicyError` if the policy, of those that plan, its device, or the rewrite does not exist."""
        from syclsched.planner.rewrite_choice import check_rewrite  # imports much

        policy = None if self.policy == AUTO else get(self.policy)
        if isinstance(policy, Single) and platform is not None:
            policy.check_device([device.name for device in platform.devices])
        check_rewrite(self.rewrite)


class ModelPlanOptions(TypedDict, total=False):
    """The planning options of `syclsched.compile`."""

    policy: str
    minimize: str
    subject_to: Iterable[str]
    rewrite: str | None
    reuse: bool
    deterministic: bool
    buckets: Mapping[str, Iterable[int] | int | str]


def check_flag(option: str, given: object) -> None:
    """Raise `ArgumentError` if an option that is on or off is given something else than a truth value."""
    if not (isinstance(given, Hashable) and given in (0, 1)):
        raise ArgumentError(f"expected True or False, got {given!r}", where=option)


def check_trace(given: object) -> None:
    """Raise `ArgumentError` if ``trace`` is no truth value, number of runs or ``"exact"``."""
    if not (given == "exact" if isinstance(given, str) else isinstance(given, Integral) and int(given) >= 0):
        raise ArgumentError(
            f"{given!r} is no number of runs", where="trace", hint="Give True, False, a number, or 'exact'"
        )
