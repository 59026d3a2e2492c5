# SPDX-License-Identifier: Apache-2.0
"""Profiles that should be measured again, and those that may replace others."""

from __future__ import annotations

import datetime
from itertools import combinations

from syclsched.errors import FormatError
from syclsched.model.platform import Platform
from syclsched.model.profile import Provenance
from syclsched.profiling.storage.profile_store import ProfileStore

#: Age from which a profile is old: drivers, firmware and cooling change.
OLD = datetime.timedelta(days=90)

#: A quick measurement on a busy machine is not repeated by a run for this time.
_AGAIN = datetime.timedelta(minutes=10)


def why_stale(provenance: Provenance, now: datetime.datetime) -> str | None:
    """Return why a profile should be measured again; None if it is complete, of a quiet machine, and not old."""
    if not provenance.complete:
        return "incomplete"
    if provenance.busy:
        return "measured on a busy machine"
    return "old" if _age(provenance, now) > OLD else None


def is_worth_repeating(provenance: Provenance, now: datetime.datetime) -> bool:
    """Return whether a run should first measure a profile again: one of a busy machine, not just tried."""
    tried = "budget: quick" in provenance.notes and _age(provenance, now) < _AGAIN
    return provenance.busy and not tried


def stale_subjects(platform: Platform, store: ProfileStore, now: datetime.datetime) -> dict[frozenset[str], str]:
    """Return the devices, and pairs of them, without a good profile, by their names, with the reason."""
    devices = platform.compute_devices
    stored = {frozenset((d.name,)): device_provenance(store, d.key) for d in devices}
    for first, second in combinations(devices, 2):
        stored[frozenset((first.name, second.name))] = pair_provenance(store, first.key, second.key)
    whys = {names: "missing" if found is None else why_stale(found, now) for names, found in stored.items()}
    return {names: why for names, why in whys.items() if why is not None}


def device_provenance(store: ProfileStore, key: str) -> Provenance | None:
    """Return the provenance of a stored profile; None if there is none that can be read."""
    try:
        found = store.load(key)
    except FormatError:
        return None
    return None if found is None else found.provenance


def pair_provenance(store: ProfileStore, first: str, second: str) -> Provenance | None:
    """Return the provenance of a pair's stored profile; None if there is none that can be read."""
    try:
        found = store.load_pair(first, second)
    except FormatError:
        return None
    return None if found is None else found.provenance


def may_replace(new: Provenance, stored: Provenance | None) -> bool:
    """Return whether a new profile may replace the stored one: complete ones are kept, and those of a quiet machine."""
    if stored is None or not stored.complete:
        return True
    return new.complete and (stored.busy or not new.busy)


def _age(provenance: Provenance, now: datetime.datetime) -> datetime.timedelta:
    try:
        made = datetime.datetime.fromisoformat(provenance.date)
    except ValueError:
        return OLD  # of unknown age
    return now - (made if made.tzinfo is not None else made.replace(tzinfo=datetime.timezone.utc))
