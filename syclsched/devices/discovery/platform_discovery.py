# SPDX-License-Identifier: Apache-2.0
"""Device discovery: find devices, select, drop duplicates, split, check trust, and describe them as a platform.

`discover` queries the runtime; `choose` decides on plain data, so that it can be tested for machines that are not here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from syclsched.devices.discovery.device_facts import DeviceFacts, FoundDevice, find_devices, read_host
from syclsched.devices.discovery.duplicates import group_physical
from syclsched.devices.discovery.identity import device_names
from syclsched.devices.discovery.selection import DeviceSelection, Selector, parse_selector
from syclsched.devices.discovery.subdevices import SubDevices, parse_sub_devices, split
from syclsched.devices.discovery.topology import SelectedDevice, build_platform
from syclsched.errors import (
    DeviceNotFoundError,
    EmptyPlatformError,
    SelectionError,
    UntrustedDeviceError,
    did_you_mean,
)
from syclsched.model.platform import Device, Platform

#: Partitions tried for ``cpu.0`` in a selector without an explicit partition: the hardware's own, else halves.
DEFAULT_PARTS = (SubDevices("affinity", "next_partitionable"), SubDevices("count", "2"))

_SELECTOR_VARIABLE = "ONEAPI_DEVICE_SELECTOR"
_DOCTOR = "`python -m syclsched doctor` tells what is missing"

#: Returns why a root device is not trusted; None if it is.
Judge = Callable[[DeviceFacts], str | None]
#: Returns the libraries that refuse a root device, and why.
Asker = Callable[[DeviceFacts], tuple[tuple[str, str], ...]]
#: Returns the sub-devices of a root device, in order; raises SelectionError if it cannot be split so.
_Splitter = Callable[[DeviceFacts, SubDevices], tuple[DeviceFacts, ...]]


@dataclass(frozen=True, slots=True)
class _Root:
    """A physical device: its name, the chosen driver, the selection made of it, and why it is not trusted, if so."""

    name: str
    facts: DeviceFacts
    selection: DeviceSelection
    distrust: str | None
    refusals: tuple[tuple[str, str], ...] = ()  # libraries that refuse it, and why


def discover(
    *,
    selector: str | None = None,
    where: Callable[[Device], bool] | None = None,
    sub_devices: SubDevices | int | None = None,
    include_untrusted: bool = False,
) -> Platform:
    """Describe this machine's SYCL devices, of all backends and kinds, as a platform.

    A device shown by several backends is listed once, under the preferred backend. Every root device must pass a
    known-answer test; its sub-devices inherit the result. Two runtimes for one processor, such as Intel's and PoCL,
    are two devices.
    """
    from syclsched import oneapi
    from syclsched.devices.trust import library_check

    wanted = parse_selector(selector)
    how = parse_sub_devices(sub_devices) if isinstance(sub_devices, int) else sub_devices
    runtime = oneapi.load()
    found = {each.facts: each for each in find_devices()}
    if not found:
        raise _nothing_found(os.environ.get(_SELECTOR_VARIABLE))
    candidates = choose(
        tuple(found),
        wanted,
        how,
        judge=lambda facts: distrust(found[facts]),
        asker=lambda facts: library_check.refusals(found[facts].sycl_device),
        splitter=lambda root, how: tuple(part.facts for part in split(found[root], how)),
        include_untrusted=include_untrusted,
    )
    host = read_host(runtime.boot_environment, runtime.generation)
    platform = build_platform(candidates, host, name=host.processor)
    if where is None:
        return platform
    kept = [c for c in candidates if where(platform.device(c.name))]
    if not kept:
        raise EmptyPlatformError(
            "no device is left after selection",
            where="the predicate",
            hint=f"There were {', '.join(c.name for c in candidates)}",
        )
    return build_platform(kept, host, name=host.processor)


def without_emulators(platform: Platform) -> Platform:
    """Return a platform without emulators, which use the cores of its CPU device and so add no speed.

    These are emulators, unless the user's environment names one, and further runtimes for the processor, such as PoCL
    beside Intel's. A platform without another device keeps them.
    """
    named = os.environ.get(_SELECTOR_VARIABLE, "").lower()
    keep_emulators = "acc" in named or "fpga" in named
    devices = platform.compute_devices
    cpu = next((each for each in devices if each.kind == "cpu"), None)
    kept = [
        each.name
        for each in devices
        if (each.kind != "cpu" or _is_of_driver(each, cpu))
        and (keep_emulators or each.kind != "accelerator" or "Emulation" not in each.description)
    ]
    return platform.select(kept) if kept else platform


def _is_of_driver(device: Device, other: Device | None) -> bool:
    return other is not None and (device.vendor, device.driver_version) == (other.vendor, other.driver_version)


def distrust(device: FoundDevice) -> str | None:
    """Return why a root device must not be used; None if it passed its known-answer test."""
    missing = missing_memory(device.facts)
    if missing is not None:
        return missing
    from dpctl import SyclContextCreationError, SyclQueueCreationError

    from syclsched.devices.trust import trust_check

    try:
        verdict = trust_check.check(device.sycl_device)
    except (SyclContextCreationError, SyclQueueCreationError) as error:
        return f"its driver makes no queue ({type(error).__name__})"
    return None if verdict.trusted else verdict.reason or "it failed its known-answer test"


def missing_memory(facts: DeviceFacts) -> str | None:
    """Return which USM kinds a device lacks of those that plans allocate; None if it has all."""
    needed = ["usm_device_allocations", "usm_host_allocations"]
    if facts.host_accessible:
        needed.append("usm_shared_allocations")
    missing = [aspect for aspect in needed if aspect not in facts.aspects]
    return f"it has no unified shared memory ({', '.join(missing)})" if missing else None


def choose(
    devices: Sequence[DeviceFacts],
    wanted: Selector,
    how: SubDevices | None,
    *,
    judge: Judge,
    splitter: _Splitter,
    asker: Asker = lambda _: (),
    include_untrusted: bool = False,
) -> tuple[SelectedDevice, ...]:
    """Choose the devices and sub-devices of the platform, and their names.

    Names are given before the selection, so a device has the same name whatever else is selected.
    """
    groups = group_physical(devices)
    named = tuple(zip(device_names(group[0].kind for group in groups), groups, strict=True))
    if wanted.strict:
        _check_terms_match(wanted, named)
    roots = [root for name, group in named if (root := _pick(name, group, wanted, judge)) is not None]
    if not roots:
        raise EmptyPlatformError(
            "no device is left after selection",
            where=f"selector {wanted.text!r}",
            hint=f"There are {', '.join(_label(name, group[0]) for name, group in named)}",
        )
    if not include_untrusted:
        roots = _trusted(roots, wanted)
    roots = [root if root.distrust is not None else replace(root, refusals=asker(root.facts)) for root in roots]
    return _parts(roots, how, splitter)


def _check_terms_match(wanted: Selector, named: Sequence[tuple[str, tuple[DeviceFacts, ...]]]) -> None:
    missing = wanted.unmatched((name, facts) for name, group in named for facts in group)
    if missing:
        raise DeviceNotFoundError(
            f"no device {missing[0].text!r}",
            where=f"selector {wanted.text!r}",
            hint=f"{did_you_mean(missing[0].text, (name for name, _ in named))}"
            f"There are {', '.join(_label(name, group[0]) for name, group in named)}",
        )


def _pick(name: str, group: Sequence[DeviceFacts], wanted: Selector, judge: Judge) -> _Root | None:
    """Choose one driver of a physical device: the first that is selected and trusted, else the first selected."""
    first: _Root | None = None
    for facts in group:
        selection = wanted.selection(name, facts)
        if not selection:
            continue
        root = _Root(name, facts, selection, judge(facts))
        if root.distrust is None:
            return root
        first = first or root
    return first


def _trusted(roots: Sequence[_Root], wanted: Selector) -> list[_Root]:
    trusted = [root for root in roots if root.distrust is None]
    reasons = "; ".join(f"{r.name} ({r.facts.name}): {r.distrust}" for r in roots if r.distrust is not None)
    if not trusted:
        raise EmptyPlatformError(
            f"no device can be trusted: {reasons}", where=f"selector {wanted.text!r}", hint=_DOCTOR
        )
    lost = wanted.unmatched((root.name, root.facts) for root in trusted) if wanted.strict else ()
    if lost:
        raise UntrustedDeviceError(
            f"{lost[0].text!r} is not to be trusted: {reasons}", where=f"selector {wanted.text!r}", hint=_DOCTOR
        )
    return trusted


def _parts(roots: Sequence[_Root], how: SubDevices | None, splitter: _Splitter) -> tuple[SelectedDevice, ...]:
    """Split the devices to be split. A device that cannot be split stays whole, unless that holds for all."""
    candidates: list[SelectedDevice] = []
    refusals: list[SelectionError] = []
    for root in roots:
        if root.selection.is_explicit:
            candidates += [_whole(root)] if root.selection.whole else []
            candidates += _named_parts(root, how, splitter)
            continue
        try:
            parts = splitter(root.facts, how) if how is not None else ()
        except SelectionError as error:
            refusals.append(error)
            parts = ()
        wanted = [c for i, c in enumerate(_cut(root, parts)) if i not in root.selection.without_parts]
        candidates += wanted if parts else [_whole(root)]
    if refusals and not any(c.facts.partition for c in candidates):
        raise refusals[0]
    if not candidates:
        raise EmptyPlatformError("no device is left: every sub-device is discarded by the selector")
    return tuple(candidates)


def _named_parts(root: _Root, how: SubDevices | None, splitter: _Splitter) -> list[SelectedDevice]:
    parts = splitter(root.facts, how) if how is not None else _default_split(root, splitter)
    beyond = sorted(index for index in root.selection.parts or () if index >= len(parts))
    if beyond:
        raise SelectionError(
            f"no sub-device {root.name}.{beyond[0]}",
            where=f"device {root.name!r}",
            hint=f"It has {', '.join(each.name for each in _cut(root, parts))}",
        )
    return [each for index, each in enumerate(_cut(root, parts)) if root.selection.includes_part(index)]


def _default_split(root: _Root, splitter: _Splitter) -> tuple[DeviceFacts, ...]:
    *attempts, last = DEFAULT_PARTS
    for how in attempts:
        try:
            return splitter(root.facts, how)
        except SelectionError:
            continue  # the error of the last attempt is the one to show
    return splitter(root.facts, last)


def _whole(root: _Root) -> SelectedDevice:
    return SelectedDevice(root.name, root.name, root.facts, root.distrust, root.refusals)


def _cut(root: _Root, parts: Sequence[DeviceFacts]) -> list[SelectedDevice]:
    return [
        SelectedDevice(f"{root.name}.{i}", root.name, part, root.distrust, root.refusals)
        for i, part in enumerate(parts)
    ]


def _nothing_found(own_selector: str | None) -> EmptyPlatformError:
    if own_selector is None:
        return EmptyPlatformError("the SYCL runtime shows no device", hint=_DOCTOR)
    return EmptyPlatformError(
        "the SYCL runtime shows no device",
        where=f"{_SELECTOR_VARIABLE}={own_selector!r}",
        hint=f"Unset the variable, which some runtimes read more strictly than documented, and select with "
        f"`--select` or `discover(selector=...)`, which take the same syntax; or {_DOCTOR}",
    )


def _label(name: str, facts: DeviceFacts) -> str:
    return f"{name} ({facts.backend}:{facts.backend_index}, {facts.name})"
