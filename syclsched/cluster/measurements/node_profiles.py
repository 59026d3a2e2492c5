# SPDX-License-Identifier: Apache-2.0
"""Device profiles of a cluster's machines: measured on one machine of each kind, and stored on all of that kind."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syclsched.api.device_profiles import measure_profiles, save_profiles
from syclsched.cluster.monitor.remote_steps import kept_steps, result_of
from syclsched.cluster.platforms import kind_of
from syclsched.cluster.workers import ConnectedWorkers
from syclsched.progress import Progress

if TYPE_CHECKING:
    from syclsched.cluster.node import Node
    from syclsched.profiling.session import SessionResult

#: Seconds that measuring a machine may take.
LONGEST_S: Final = 1800.0
_HERE: Final = "syclsched.cluster.measurements.node_profiles"


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """Outcome of measuring one machine of a kind.

    Parameters
    ----------
    measured_on : str
        Name of the machine.
    machines : tuple of str
        All machines of its kind, on which the profiles are stored.
    devices : tuple of str
        Names of the devices that have a profile now.
    notes : tuple of str
        Remarks: that the machine was busy, measurements that failed, profiles that were kept.
    """

    measured_on: str
    machines: tuple[str, ...]
    devices: tuple[str, ...]
    notes: tuple[str, ...]


def profile_machines(
    workers: ConnectedWorkers, *, quick: bool, progress: Progress | None = None
) -> tuple[NodeProfile, ...]:
    """Measure one machine of each kind, those of one host one after another, and store the profiles."""
    facts = {name: each for name, each in workers.describe().items() if each.platform is not None}
    kinds: dict[tuple[object, ...], list[str]] = {}
    for name, each in facts.items():
        assert each.platform is not None
        kinds.setdefault(kind_of(each.platform.devices), []).append(name)
    found: list[NodeProfile] = []
    for number, names in enumerate(kinds.values()):
        first = names[0]
        if progress is not None:
            progress(number, len(kinds), f"measuring {first} on {facts[first].host_name}, for {', '.join(names)}")
        key = uuid.uuid4().hex
        call = workers.start(first, f"{_HERE}:measure_here", quick, key)
        result: SessionResult = result_of(workers, call, key, progress, LONGEST_S)
        said: Mapping[str, list[str]] = workers.broadcast(f"{_HERE}:store_here", result, workers=names)
        devices = tuple(profile.identity.name for profile in result.devices)
        notes = dict.fromkeys([*result.notes, *(line for lines in said.values() for line in lines)])
        found.append(NodeProfile(first, tuple(names), devices, tuple(notes)))
    workers.describe(refresh=True)
    if progress is not None:
        progress(len(kinds), len(kinds), "")
    return tuple(found)


# --- on the workers -------------------------------------------------------------------------------


def measure_here(node: Node, quick: bool, key: str) -> SessionResult:
    """Measure this machine."""
    from syclsched.devices import open_devices

    with open_devices(node.platform) as live, kept_steps(key) as keep:

        def tell(subject: str, done: int, total: int, label: str) -> None:
            keep(done, total, f"{subject}: {label}")

        return measure_profiles(node.platform, live, quick=quick, progress=tell)


def store_here(node: Node, result: SessionResult) -> list[str]:
    """Store profiles on this machine, and find its devices again; return the remarks."""
    from syclsched.profiling import ProfileStore

    said = save_profiles(result, ProfileStore())
    node.find_devices_again()
    return [line for line in said if not line.startswith("saved ")]
