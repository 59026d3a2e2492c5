# SPDX-License-Identifier: Apache-2.0
"""The doctor: look at the machine, the packages and the devices, and say what is missing and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass

from ..oneapi import findings
from ..oneapi.facts import gather
from ..oneapi.finding import Finding
from .probe import probe


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, and whether at least one device may be given work."""

    findings: tuple[Finding, ...]
    usable: bool


def examine() -> Diagnosis:
    """Examine this machine and this Python; works where the SYCL packages are missing or broken."""
    facts = gather(probe())
    return Diagnosis(findings.judge(facts), findings.usable(facts))


def diagnose() -> tuple[Finding, ...]:
    """Return what was found, in the order in which one thing needs another."""
    return examine().findings
