# SPDX-License-Identifier: Apache-2.0
"""Registry of scheduling policies by name: built in, registered at run time, or offered by other packages.

Another package offers a policy by an entry point in the group ``syclsched.policies``. Its name is the policy's name;
its object is the policy, or a class or function that makes it without arguments. It is imported on first use.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from syclsched.errors import PolicyError, did_you_mean
from syclsched.scheduling.dynamic.family import DynamicPolicies
from syclsched.scheduling.policies.baselines import Random, RoundRobin, SingleDevices
from syclsched.scheduling.policies.heft import Clustering, Cpop, Heft, Lookahead, Mcp, Peft
from syclsched.scheduling.policies.ready_tasks import Dls, Etf, MaxMin, MinMin, Sufferage
from syclsched.scheduling.policies.refined import Refined
from syclsched.scheduling.problem import Problem
from syclsched.scheduling.timetable import Timetable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "syclsched.policies"

#: ``max_tasks`` is meant for this many devices; more devices lower it in proportion.
USUAL_DEVICES: Final = 4

#: Reserved for the planner: the best of all candidates by simulation.
AUTO = "auto"


@runtime_checkable
class Policy(Protocol):
    """A named scheduling policy. It must be pure: equal problems give equal timetables.

    A policy that is too slow for large problems has an attribute ``max_tasks``: `candidates` leaves it out of larger
    problems, and of smaller ones with more than `USUAL_DEVICES` devices; it can still be requested by name.
    """

    @property
    def name(self) -> str:
        """Name that users type."""
        ...

    def schedule(self, problem: Problem) -> Timetable:
        """Return a timetable that `syclsched.scheduling.validate` accepts."""
        ...


@runtime_checkable
class PolicyFamily(Protocol):
    """Policies that take an argument: users type ``prefix:argument``."""

    @property
    def prefix(self) -> str:
        """Prefix before the colon."""
        ...

    @property
    def argument(self) -> str:
        """Meaning of the argument, for messages."""
        ...

    def members(self, problem: Problem) -> tuple[str, ...]:
        """Return the full names of the members that suit a problem."""
        ...

    def make(self, argument: str) -> Policy:
        """Return the policy for an argument."""
        ...


_policies: dict[str, Policy] = {}
_families: dict[str, PolicyFamily] = {}


def register(policy: Policy) -> None:
    """Register a policy under its name.

    Parameters
    ----------
    policy : Policy
        The policy.

    Raises
    ------
    PolicyError
        If the name is taken, is `auto`, or holds a colon.
    """
    _check_free(policy.name)
    _policies[policy.name] = policy


def register_family(family: PolicyFamily) -> None:
    """Register a family of policies under its prefix.

    Parameters
    ----------
    family : PolicyFamily
        The family.

    Raises
    ------
    PolicyError
        If the prefix is taken, is `auto`, or holds a colon.
    """
    _check_free(family.prefix)
    _families[family.prefix] = family


def unregister(name: str) -> None:
    """Remove a registered policy or family.

    Parameters
    ----------
    name : str
        Its name or prefix.

    Raises
    ------
    PolicyError
        If nothing is registered under this name.
    """
    if _policies.pop(name, None) is None and _families.pop(name, None) is None:
        raise _unknown(name)


def get(name: str) -> Policy:
    """Return the policy of a name.

    Parameters
    ----------
    name : str
        For instance ``heft`` or ``single:cpu``.

    Returns
    -------
    Policy
        The registered policy, or the one loaded from its entry point.

    Raises
    ------
    PolicyError
        If the name is unknown (the hint lists the known names), or if the package that offers it cannot be imported.
    """
    if name in _policies:
        return _policies[name]
    prefix, colon, argument = name.partition(":")
    if colon and argument and prefix in _families:
        return _families[prefix].make(argument)
    for point in _offered():
        if point.name == name:
            return _load(point)
    raise _unknown(name)


def names() -> tuple[str, ...]:
    """Return the names that users can type, without ``auto``; families as ``prefix:<argument>``.

    Returns
    -------
    tuple of str
        Names from other packages are listed without importing these.
    """
    families = [f"{family.prefix}:<{family.argument}>" for family in _families.values()]
    return tuple(dict.fromkeys([*_policies, *families, *(point.name for point in _offered())]))


def candidates(problem: Problem) -> tuple[str, ...]:
    """Return the names of all policies worth trying on a problem.

    Parameters
    ----------
    problem : Problem
        The problem to schedule.

    Returns
    -------
    tuple of str
        Every policy, then every member of every family that suits the problem, among them each single device, or of
        very many one of each speed. Policies that are too slow for this number of tasks and devices are left out.
    """
    fast = [name for name, policy in _policies.items() if _fits_max_tasks(policy, problem)]
    members = [name for family in _families.values() for name in family.members(problem)]
    return tuple(dict.fromkeys([*fast, *(point.name for point in _offered()), *members]))


# --- inside ---------------------------------------------------------------------------------------


def _offered() -> Sequence[EntryPoint]:
    """Return the policies of other packages."""
    return _found_by(entry_points, tuple(sys.path))


@lru_cache(maxsize=8)
def _found_by(find: Callable[..., Iterable[EntryPoint]], _: tuple[str, ...]) -> Sequence[EntryPoint]:
    """Return the entry points of policies; finding them reads a file of every installed package."""
    return sorted(find(group=ENTRY_POINT_GROUP), key=lambda point: point.name)


def entry_points(*, group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group; see `importlib.metadata`, which is imported only if there may be any."""
    own_finders = any(hasattr(each, "find_distributions") for each in sys.meta_path if each is not PathFinder)
    if not own_finders and not any(_may_offer(folder or os.curdir, group.encode()) for folder in sys.path):
        return ()
    from importlib import metadata  # it imports the package for e-mail, and parses a file of every installed package

    return metadata.entry_points(group=group)


def _may_offer(folder: str, group: bytes) -> bool:
    """Return whether a package in a folder of the search path may have entry points of a group."""
    try:
        names = os.listdir(folder)
    except OSError:
        return os.path.isfile(folder)  # an archive
    for name in names:
        if name.lower().endswith(".egg"):
            return True
        if name.lower().endswith((".dist-info", ".egg-info")):
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                    if group in file.read():
                        return True
            except OSError:
                continue  # it has no entry points
    return False


def _load(point: EntryPoint) -> Policy:
    where = f"policy {point.name!r} ({point.value})"
    try:
        found = point.load()
        policy = found() if isinstance(found, type) or not hasattr(found, "schedule") else found
    except Exception as error:  # foreign code may raise anything; the message names the package
        raise PolicyError(
            f"cannot be loaded: {type(error).__name__}: {error}",
            where=where,
            hint="Fix or uninstall the package that offers it",
        ) from error
    if not isinstance(policy, Policy):
        raise PolicyError("is not a policy", where=where, hint="It must have a name and schedule(problem)")
    return policy


def _fits_max_tasks(policy: Policy, problem: Problem) -> bool:
    most: int | None = getattr(policy, "max_tasks", None)
    return most is None or len(problem) * max(1.0, len(problem.devices) / USUAL_DEVICES) <= most


def _check_free(name: str) -> None:
    where = f"policy {name!r}"
    if not name or name == AUTO or ":" in name:
        raise PolicyError("cannot be the name of a policy", where=where, hint="Not empty, not 'auto', no colon")
    if name in _policies or name in _families:
        raise PolicyError("the name is taken", where=where, hint="Choose another, or unregister the first")


def _unknown(name: str) -> PolicyError:
    known = [AUTO, *names()]
    prefix, colon, argument = name.partition(":")
    meant = did_you_mean(name, [*known, *(f"{family}:{argument}" for family in _families if colon and prefix)])
    return PolicyError(f"no policy {name!r}", hint=f"{meant}There are {', '.join(known)}")


for _policy in (
    Heft(),
    Cpop(),
    Peft(),
    Lookahead(),
    Dls(),
    Etf(),
    Mcp(),
    MinMin(),
    MaxMin(),
    Sufferage(),
    Clustering(),
    RoundRobin(),
    Random(),
    Refined(),
):
    register(_policy)
register_family(SingleDevices())
register_family(DynamicPolicies())
