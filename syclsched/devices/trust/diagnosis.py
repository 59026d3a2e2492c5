# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of the machine: packages, libraries and devices, what is missing and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass

from syclsched.devices.trust.probe import probe
from syclsched.oneapi import diagnosis_rules
from syclsched.oneapi.diagnosis_facts import gather
from syclsched.oneapi.finding import Finding


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, and whether at least one device may be used."""

    findings: tuple[Finding, ...]
    usable: bool


def examine() -> Diagnosis:
    """Diagnose this machine and this Python; works where the SYCL packages are missing or broken."""
    facts = gather(probe())
    return Diagnosis(diagnosis_rules.judge(facts), diagnosis_rules.usable(facts))


def diagnose() -> tuple[Finding, ...]:
    """Return the findings in the order of their dependencies."""
    return examine().findings
