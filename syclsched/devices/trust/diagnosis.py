# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of the machine: packages, libraries and devices, what is missing and how to fix it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from syclsched.devices.trust.probe import probe
from syclsched.oneapi.diagnosis import devices, installation
from syclsched.oneapi.diagnosis.facts import Facts, gather
from syclsched.oneapi.diagnosis.finding import Finding


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, and whether at least one device may be used."""

    findings: tuple[Finding, ...]
    usable: bool


def examine() -> Diagnosis:
    """Diagnose this machine and this Python; works where the SYCL packages are missing or broken."""
    facts = gather(probe())
    return Diagnosis(judge(facts), usable(facts))


def judge(facts: Facts) -> tuple[Finding, ...]:
    """Return all findings in the order of their dependencies."""
    rules: tuple[Callable[[Facts], Iterable[Finding]], ...] = (
        installation.judge_machine,
        installation.judge_packages,
        installation.judge_sycl,
        installation.judge_tbb,
        installation.judge_opencl,
        installation.judge_layer,
        installation.judge_submission,
        installation.judge_machine_code,
        installation.judge_emulator,
        devices.judge_environment,
        devices.judge_instruction_sets,
        devices.judge_loading,
        devices.judge_drivers,
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
