# SPDX-License-Identifier: Apache-2.0
"""Names of devices and memory spaces on platforms of several machines: ``node0/cpu``, ``node0/host``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: Between the name of a machine and that of its device or memory space.
SEPARATOR: Final = "/"
#: Name of the host's device and of its memory space on every platform.
HOST: Final = "host"


def qualified(machine: str, name: str) -> str:
    """Return the name of a machine's device or space on the platform of all machines."""
    return f"{machine}{SEPARATOR}{name}"


def machine_of(name: str) -> str:
    """Return the machine of a device or space; the empty string for those of the process that connects."""
    machine, separator, _ = name.partition(SEPARATOR)
    return machine if separator else ""


def local_name(name: str) -> str:
    """Return the name of a device or space on its own machine."""
    return name.partition(SEPARATOR)[2] or name


def machine_numbers(names: Iterable[str]) -> list[int]:
    """Return the number of each name's machine, in order of first use."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(machine_of(name), len(numbers)) for name in names]


def host_space(name: str) -> str:
    """Return the memory of the host of a device's or space's machine."""
    machine = machine_of(name)
    return qualified(machine, HOST) if machine else HOST
