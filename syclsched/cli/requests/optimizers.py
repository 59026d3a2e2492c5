# SPDX-License-Identifier: Apache-2.0
"""Optimisers of groups of parameters, on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from syclsched.errors import ArgumentError, did_you_mean

if TYPE_CHECKING:
    from syclsched.training.optimisers import Optimiser


def read_optimizers(text: str, groups: Iterable[str], learning_rate: float | None) -> dict[str, Optimiser]:
    """Return optimisers by patterns of names of parameters; the one of ``text`` is that of the rest.

    They are given as ``NAME,SETTING=NUMBER``, groups as ``PATTERN:NAME,SETTING=NUMBER``. The learning rate is that of
    all that set none.
    """
    found: dict[str, Optimiser] = {}
    for group in groups:
        pattern, colon, given = group.rpartition(":")
        if not (pattern and colon and given):
            raise ArgumentError(f"it is {group!r}", where="--group", hint="Give PATTERN:NAME, such as '*.bias:sgd'")
        if pattern in found:
            raise ArgumentError(f"{pattern!r} is given twice", where="--group")
        found[pattern] = _optimizer(given, "--group", learning_rate)
    return {**found, "*": found.get("*") or _optimizer(text, "--optimizer", learning_rate)}


def _optimizer(text: str, where: str, learning_rate: float | None) -> Optimiser:
    from syclsched.training.optimisers import optimiser_of

    name, *settings = text.split(",")
    optimiser: Any = optimiser_of(name)
    kinds = {each.name: type(getattr(optimiser, each.name)) for each in fields(optimiser)}
    given: dict[str, Any] = {} if learning_rate is None else {"learning_rate": learning_rate}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in kinds:
            hint = f"{did_you_mean(key, kinds)}There are: {', '.join(kinds)}"
            raise ArgumentError(f"{name} has no setting {key!r}", where=where, hint=hint)
        try:
            given[key] = kinds[key](float(value))
        except ValueError:
            raise ArgumentError(f"{key} is {value!r}, expected a number", where=where) from None
    made: Optimiser = replace(optimiser, **given)
    return made
