# SPDX-License-Identifier: Apache-2.0
"""Tuples of devices or memory spaces, found by their names at once."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol, TypeVar


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """Its name."""


Item = TypeVar("Item", bound=Named)


class NamedTable(tuple[Item, ...]):
    """Items that are found by their names: platforms of many machines have thousands of them."""

    @cached_property
    def by_name(self) -> dict[str, Item]:
        """The first item of each name."""
        return {each.name: each for each in reversed(self)}

    def __reduce__(self) -> tuple[type[NamedTable[Item]], tuple[list[Item]]]:
        return NamedTable, ([*self],)
