# SPDX-License-Identifier: Apache-2.0
"""All findings of the diagnosis: what is available or missing, the consequences, and the commands that fix it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from syclsched.oneapi import findings_devices as devices
from syclsched.oneapi import findings_installation as installation
from syclsched.oneapi.diagnosis_facts import Facts
from syclsched.oneapi.finding import Finding


def judge(facts: Facts) -> tuple[Finding, ...]:
    """Return all findings in the order of their dependencies."""
    rules: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
        installation.judge_machine,
        installation.judge_packages,
        installation.judge_sycl,
        installation.judge_opencl,
        installation.judge_layer,
        installation.judge_submission,
        installation.judge_emulator,
        devices.judge_environment,
        devices.judge_loading,
        devices.judge_devices,
        devices.judge_gpu,
        installation.judge_models,
        devices.judge_load,
        devices.judge_folders,
    )
    return tuple(finding for each in rules for finding in each(facts))


def usable(facts: Facts) -> bool:
    """Return whether there is at least one trusted device."""
    return any(each.trusted for each in facts.probe.devices)
