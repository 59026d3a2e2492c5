# SPDX-License-Identifier: Apache-2.0
"""Disturbance options of simulations: noise, wrong costs, device slow-downs and failures, and link contention."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from syclsched.cli.completion import CONTENTIONS, choices
from syclsched.errors import ArgumentError, PlanError, did_you_mean
from syclsched.model.text.units import format_seconds, listed

if TYPE_CHECKING:
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform
    from syclsched.simulation import Disturbance, Event, Noise

_option = partial(typer.Option, rich_help_panel="Disturbances")

NoiseSigma = Annotated[
    float | None,
    _option(
        "--noise",
        metavar="SIGMA",
        help="Multiply the duration of each task and copy by a lognormal random factor with mean 1; SIGMA is the "
        "standard deviation of its logarithm. With 0.1 most factors are within 10 %, with 0.3 within 30 %.",
    ),
]
Wrong = Annotated[
    list[str] | None,
    _option(
        "--wrong",
        metavar="FAMILY=FACTOR",
        help="Wrong costs: tasks of a family ('gemm=2'; for copies 'copy=1.5') take FACTOR times as long as planned; "
        "with 'random:3' every task takes between a third of and three times its planned duration. "
        "Graphs are then not rewritten (--rewrite). May be repeated.",
    ),
]
Slow = Annotated[
    list[str] | None,
    _option(
        "--slow",
        metavar="DEVICE@TIME=FACTOR",
        help="From TIME on, work on a device takes FACTOR times as long: 'max1550@2ms=4'; '=1' restores normal speed. "
        "Seconds, or with a unit (s, ms, us, ns). May be repeated.",
    ),
]
Fail = Annotated[
    list[str] | None,
    _option(
        "--fail",
        metavar="DEVICE@TIME",
        help="At TIME a device fails and its memory is lost: 'a770@500us'. Static plans stop there; dynamic policies "
        "continue with the remaining tasks on the other devices. May be repeated.",
    ),
]
Contention = Annotated[
    str | None,
    _option(
        "--contention",
        autocompletion=choices(CONTENTIONS),
        metavar="HOW",
        help="Model of concurrent copies on one link: none (independent), one-port (serialised) or fair (they share "
        "its bandwidth). By default that of the platform.",
    ),
]
Seed = Annotated[int | None, _option("--seed", min=0, metavar="N", help="Seed of all random numbers (0).")]
Runs = Annotated[
    int | None,
    _option(
        "--runs",
        min=1,
        max=100_000,
        metavar="N",
        help="Repeat with N consecutive seeds from --seed on; show median, MAD (median absolute deviation) and worst.",
    ),
]

_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_NUMBER = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([^\W\d]*)\s*")
_RANDOM = "random"

#: Maximum number of disturbances named in titles, and of alternatives in hints; the rest is counted.
_MOST_NAMED, _MOST_SHOWN = 5, 20


def parse_disturbance(
    sigma: float | None, wrong: Sequence[str] | None, slow: Sequence[str] | None, fail: Sequence[str] | None
) -> Disturbance | None:
    """Return the disturbance that the options describe; None if there is none."""
    from syclsched.simulation import Disturbance

    if sigma is None and not wrong and not slow and not fail:
        return None
    return Disturbance(_noise(sigma, wrong or ()), (*map(_slow_down, slow or ()), *map(_failure, fail or ())))


def parse_seeds(disturbance: Disturbance | None, sigma: float | None, seed: int | None, runs: int | None) -> range:
    """Return the seeds to simulate with; raise `ArgumentError` if --seed or --runs is given and nothing is random."""
    # A sigma of 0 may be the start of a sweep, so it is accepted.
    draws = sigma is not None or (disturbance is not None and disturbance.noise.random)
    for option, value in (("--seed", seed), ("--runs", runs)):
        if value is not None and not draws:
            raise ArgumentError("nothing is random", where=option, hint="Add --noise SIGMA or --wrong random:FACTOR")
    first = seed or 0
    return range(first, first + (runs or 1))


def with_contention(platform: Platform, how: str | None) -> Platform:
    """Return a platform with the requested contention model."""
    if how is None:
        return platform
    if how not in CONTENTIONS:
        raise ArgumentError(
            f"{how!r} is not a contention model",
            where="--contention",
            hint=did_you_mean(how, CONTENTIONS) + "There are none, one-port and fair",
        )
    return replace(platform, contention=how)  # type: ignore[arg-type]  # checked above


def describe_disturbance(disturbance: Disturbance | None) -> str:
    """Return a short description of a disturbance, similar to the options; empty if there is none."""
    if disturbance is None:
        return ""
    from syclsched.simulation import SlowDown

    noise = disturbance.noise
    parts = [f"noise {noise.sigma:g}"] if noise.sigma else []
    parts += [f"wrong {family}={factor:g}" for family, factor in noise.families.items()]
    parts += [f"wrong {_RANDOM}:{noise.spread:g}"] if noise.spread != 1.0 else []
    for event in disturbance.events:
        when = f"{event.device}@{format_seconds(event.at_s)}"
        parts.append(f"slow {when}={event.factor:g}" if isinstance(event, SlowDown) else f"fail {when}")
    return listed(parts, _MOST_NAMED)


def comparable_rewrite(disturbance: Disturbance | None, sigma: float | None, rewrite: str) -> str:
    """Return the rewrite option for a comparison of plans under equal disturbances.

    Random factors and wrong costs belong to tasks and families of the original graph; merged and split tasks would get
    different ones.
    """
    from syclsched.simulation import Noise

    noise = Noise() if disturbance is None else disturbance.noise
    if rewrite == "auto":
        return "auto" if sigma is None and noise == Noise() else "none"
    families = _task_families(noise)
    if rewrite != "none" and families:
        raise _lost_family_error(families[0], f"--wrong with --rewrite {rewrite}")
    return rewrite


def check_rewritten(disturbance: Disturbance | None, plan: Plan) -> None:
    """Raise `ArgumentError` if wrong costs name task families and the plan's tasks were merged or split."""
    families = [] if disturbance is None else _task_families(disturbance.noise)
    if plan.recipe and families:
        raise _lost_family_error(families[0], f"--wrong with a plan that was rewritten ({plan.recipe})")


def check_disturbed_names(
    disturbance: Disturbance | None, families: Iterable[str], platforms: Iterable[Platform]
) -> None:
    """Raise `ArgumentError` for task families and devices that do not exist."""
    if disturbance is None:
        return
    from syclsched.simulation import SlowDown
    from syclsched.simulation.noise import COPIES

    known = sorted({*families, COPIES})
    for family in disturbance.noise.families:
        if family not in known:
            raise ArgumentError(
                f"no task is of family {family!r}",
                where="--wrong",
                hint=did_you_mean(family, known) + f"There are {listed(known, _MOST_SHOWN)}",
            )
    devices = list(dict.fromkeys(device.name for platform in platforms for device in platform.devices))
    for event in disturbance.events:
        if event.device not in devices:
            where = "--slow" if isinstance(event, SlowDown) else "--fail"
            raise ArgumentError(
                f"there is no device {event.device!r}",
                where=where,
                hint=did_you_mean(event.device, devices) + f"There are {listed(devices, _MOST_SHOWN)}",
            )


def restrict_to_platform(
    disturbance: Disturbance | None, platform: Platform
) -> tuple[Disturbance | None, tuple[Event, ...]]:
    """Return the part of a disturbance that concerns a platform's devices, and the events of other devices."""
    if disturbance is None:
        return None, ()
    here = {device.name for device in platform.devices}
    events = tuple(event for event in disturbance.events if event.device in here)
    return replace(disturbance, events=events), tuple(e for e in disturbance.events if e.device not in here)


def parse_seconds(text: str, option: str) -> float:
    """Parse a time such as ``0.5``, ``2.5ms`` or ``300us``."""
    match = _NUMBER.fullmatch(text)
    if match is not None and match[2] in _UNITS:
        try:
            return float(match[1]) * _UNITS[match[2]]
        except ValueError:
            pass  # such as 1.2.3: refused below
    raise ArgumentError(f"{text!r} is not a time", where=option, hint="Seconds, or with a unit: 0.5, 20ms, 300us")


def _noise(sigma: float | None, wrong: Sequence[str]) -> Noise:
    from syclsched.simulation import Noise

    families: dict[str, float] = {}
    spread = 1.0
    for text in wrong:
        if text.startswith(f"{_RANDOM}:"):
            if spread != 1.0:
                raise ArgumentError("'random' is given twice", where="--wrong", hint="Once, with one factor")
            spread = _factor(
                text.partition(":")[2], text, "--wrong", "FAMILY=FACTOR or random:FACTOR, as gemm=2, random:3"
            )
            continue
        family, equals, factor = text.rpartition("=")
        if not equals or not family.strip():
            raise ArgumentError(
                f"{text!r} cannot be read", where="--wrong", hint="FAMILY=FACTOR or random:FACTOR, as gemm=2, random:3"
            )
        if family.strip() in families:
            raise ArgumentError(f"family {family.strip()!r} is given twice", where="--wrong", hint="Once for a family")
        families[family.strip()] = _factor(factor, text, "--wrong", "FAMILY=FACTOR, as gemm=2")
    try:
        return Noise(sigma=sigma or 0.0, families=families, spread=spread)
    except PlanError as error:
        where = "--noise" if error.what.startswith("sigma") else "--wrong"
        raise ArgumentError(error.what, where=where, hint=error.hint) from None


def _task_families(noise: Noise) -> list[str]:
    """Return the task families with wrong costs, without copies."""
    from syclsched.simulation.noise import COPIES

    return [family for family in noise.families if family != COPIES]


def _lost_family_error(family: str, where: str) -> ArgumentError:
    return ArgumentError(
        f"merged and split tasks are no longer of family {family!r}",
        where=where,
        hint="Plan with --rewrite none, or use --wrong random:FACTOR",
    )


def _slow_down(text: str) -> Event:
    from syclsched.simulation import SlowDown

    shape = "DEVICE@TIME=FACTOR, as max1550@2ms=4"
    rest, equals, factor = text.rpartition("=")
    if not equals:
        raise ArgumentError(f"{text!r} cannot be read", where="--slow", hint=shape)
    device, at_s = _when(rest, text, "--slow", shape)
    return SlowDown(device, at_s, _factor(factor, text, "--slow", shape))


def _failure(text: str) -> Event:
    from syclsched.simulation import Failure

    return Failure(*_when(text, text, "--fail", "DEVICE@TIME, as a770@500us"))


def _when(text: str, whole: str, option: str, shape: str) -> tuple[str, float]:
    device, at, time = text.rpartition("@")
    if not at or not device.strip():
        raise ArgumentError(f"{whole!r} cannot be read", where=option, hint=shape)
    return device.strip(), parse_seconds(time, option)


def _factor(text: str, whole: str, option: str, shape: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        raise ArgumentError(f"{text!r} in {whole!r} is not a factor", where=option, hint=shape) from None
    if not 0.0 < factor < math.inf:
        raise ArgumentError(f"the factor in {whole!r} must be positive and finite", where=option, hint=shape)
    return factor
