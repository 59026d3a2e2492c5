# SPDX-License-Identifier: Apache-2.0
"""Device selectors: the syntax of ONEAPI_DEVICE_SELECTOR, and a short form of device names and kinds.

The long form is that of oneAPI DPC++ (its page "Environment Variables"): ``level_zero:0,1;opencl:cpu``,
``*:gpu;!cuda:*``, ``opencl:0.*``; numbers count the devices of a backend. A selector of discards alone starts from all
devices. The short form has no colon: ``cpu,accelerator``, ``gpu1``, ``cpu.0``, ``!accelerator``; a kind means all
devices of that kind, and every term must match a device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from syclsched.devices.discovery.device_facts import DeviceFacts
from syclsched.errors import SelectionError, did_you_mean
from syclsched.model.platform import BACKEND_FACTS

#: Wildcard for a backend, a device or a sub-device.
ANY = "*"

_BACKENDS = (*BACKEND_FACTS, ANY)
#: Backends of the runtime's syntax that are not supported here: valid, but never matched.
_FOREIGN_BACKENDS = ("native_cpu", "esimd_emulator")
_KINDS = {"cpu": "cpu", "gpu": "gpu", "accelerator": "accelerator", "fpga": "accelerator", "acc": "accelerator"}
_DEVICE = re.compile(r"(?P<device>\*|[a-z]+\d*|\d+)(?:\.(?P<part>\*|\d+))?")
_LONGEST = 4096
_HINT = (
    "Write ONEAPI_DEVICE_SELECTOR syntax such as 'level_zero:0,1;opencl:cpu' or '*:gpu;!cuda:*', "
    "or names and kinds such as 'cpu,accelerator' or 'cpu.0'"
)


@dataclass(frozen=True, slots=True)
class _Term:
    """One device pattern of a selector."""

    text: str  # as written
    backend: str  # a backend, or ``*``
    device: str  # ``*``, a kind, a number within the backend (long form) or a device name (short form)
    part: str | None = None  # number of a sub-device, ``*`` for all of them, None for the whole device
    discard: bool = False  # whether matching devices are removed

    def matches(self, name: str, facts: DeviceFacts) -> bool:
        """Return whether a root device with this name on its platform matches."""
        if self.backend not in (ANY, facts.backend):
            return False
        if self.device.isdecimal():
            return int(self.device) == facts.backend_index
        return self.device in (ANY, facts.kind, name) or self.device == f"{name}0"


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """The selected parts of one root device."""

    whole: bool = False  # whether the device itself is selected
    parts: frozenset[int] | None = frozenset()  # numbers of its sub-devices; None for all of them
    without_parts: frozenset[int] = frozenset()  # numbers of removed sub-devices

    def __bool__(self) -> bool:
        return self.whole or self.parts is None or bool(self.parts - self.without_parts)

    @property
    def is_explicit(self) -> bool:
        """Whether sub-devices are selected explicitly."""
        return self.parts is None or bool(self.parts)

    def includes_part(self, index: int) -> bool:
        """Return whether a sub-device is selected explicitly."""
        return (self.parts is None or index in self.parts) and index not in self.without_parts


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector."""

    text: str  # as written
    terms: tuple[_Term, ...]  # in order; discards take precedence over accepts
    strict: bool  # whether a term without a match is an error: in the short form only

    def selection(self, name: str, facts: DeviceFacts) -> DeviceSelection:
        """Return the selected parts of a root device with this name on its platform."""
        fitting = [term for term in self.terms if term.matches(name, facts)]
        discards = [term.part for term in fitting if term.discard]
        accepts = [term.part for term in fitting if not term.discard]
        if all(term.discard for term in self.terms):
            accepts = [None]
        if None in discards or ANY in discards:
            return DeviceSelection(whole=None not in discards and None in accepts)
        return DeviceSelection(
            whole=None in accepts,
            parts=None if ANY in accepts else _numbers(accepts),
            without_parts=_numbers(discards),
        )

    def unmatched(self, devices: Iterable[tuple[str, DeviceFacts]]) -> tuple[_Term, ...]:
        """Return the accepting terms that match none of the named root devices."""
        named = tuple(devices)
        return tuple(t for t in self.terms if not t.discard and not any(t.matches(*device) for device in named))


EVERYTHING = Selector(text="*:*", terms=(_Term("*:*", ANY, ANY),), strict=False)


def parse_selector(text: str | None) -> Selector:
    """Parse a device selector; None selects all devices."""
    if text is None:
        return EVERYTHING
    if len(text) > _LONGEST:
        raise SelectionError(f"a device selector of more than {_LONGEST} characters", hint=_HINT)
    long_form = ":" in text
    filters = [part.strip() for part in re.split(";" if long_form else "[;,]", text)]
    filters = [part for part in filters if part]
    if not filters:
        raise SelectionError("the device selector is empty", where=f"selector {text!r}", hint=_HINT)
    terms = [term for part in filters for term in (_long_terms if long_form else _short_terms)(part, text)]
    return Selector(text=text, terms=tuple(terms), strict=not long_form)


def _long_terms(part: str, text: str) -> list[_Term]:
    body, discard = _without_mark(part)
    backend, colon, devices = (piece.strip().lower() for piece in body.partition(":"))
    if not colon:
        raise _error(part, text, "has no backend; it must be backend:devices")
    if backend not in (*_BACKENDS, *_FOREIGN_BACKENDS):
        meant = did_you_mean(backend, _BACKENDS)
        raise _error(part, text, f"names no backend; there are {', '.join(_BACKENDS)}", meant)
    terms = []
    for piece in devices.split(","):
        device, sub = _device(piece.strip(), part, text)
        if not (device in _KINDS or device == ANY or device.isdecimal()):
            meant = did_you_mean(device, _KINDS)
            raise _error(part, text, f"must name cpu, gpu, fpga, a number or * after {backend}:, not {device!r}", meant)
        terms.append(_Term(part, backend, _KINDS.get(device, device), sub, discard))
    return terms


def _short_terms(part: str, text: str) -> list[_Term]:
    body, discard = _without_mark(part)
    device, sub = _device(body.lower(), part, text)
    word = re.sub(r"\d+$", "", device)
    if device.isdecimal() or (device != ANY and word not in _KINDS):
        meant = did_you_mean(word, _KINDS)
        raise _error(part, text, "is neither a kind (cpu, gpu, accelerator) nor a device's name", meant)
    number = device[len(word) :]
    # The first of a kind is named by the kind alone, which as a selector means all of them: "gpu0" selects the first.
    if number and int(number) == 0:
        return [_Term(part, ANY, f"{_KINDS[word]}0", sub, discard)]
    return [_Term(part, ANY, ANY if device == ANY else f"{_KINDS[word]}{number}", sub, discard)]


def _without_mark(part: str) -> tuple[str, bool]:
    return (part[1:].strip(), True) if part.startswith("!") else (part, False)


def _device(piece: str, part: str, text: str) -> tuple[str, str | None]:
    match = _DEVICE.fullmatch(piece)
    if match is None:
        if piece.count(".") > 1:
            raise _error(part, text, "asks for parts of sub-devices; only one level of partition is supported")
        raise _error(part, text, "cannot be read")
    sub = match["part"]
    return match["device"], sub if sub is None or sub == ANY else str(int(sub))


def _numbers(parts: Iterable[str | None]) -> frozenset[int]:
    return frozenset(int(part) for part in parts if part is not None and part != ANY)


def _error(part: str, text: str, problem: str, meant: str = "") -> SelectionError:
    return SelectionError(f"term {part!r} {problem}", where=f"selector {text!r}", hint=meant + _HINT)
