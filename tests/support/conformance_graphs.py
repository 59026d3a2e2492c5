# SPDX-License-Identifier: Apache-2.0
"""Graphs of the conformance suite whose tasks can be made to fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from support.conformance import platform_of, spread
from support.library_calls import Called, with_library
from support.running import DTYPE, JUDGE, MIX
from syclsched.model.graph import TaskGraph

SIZE = 96
#: `MIX` without a host implementation.
DEVICE_MIX = replace(MIX, implementations=MIX.implementations[:1])


class CountingHostFunction:
    """A host function that counts its calls, and raises an error while it is armed."""

    def __init__(self) -> None:
        self.armed, self.calls = False, 0

    def __call__(self, y: Any) -> None:
        self.calls += 1
        if self.armed:
            raise ValueError("no good")
        y += 1


class Library(Called):
    """A library that fails with its status, called from C and from Python alike."""

    def __call__(self, queue: Any, arguments: Any, depends: list[Any]) -> Any:
        if self.status:
            raise RuntimeError(f"it has no mood for {self.status}")
        return queue.submit_barrier(depends)


class Failing:
    """A graph with a task that can be made to fail, a chain behind it, and another chain."""

    def __init__(self, case: str) -> None:
        self.graph = graph = TaskGraph("failing")
        self.bad, self.behind, self.apart = CountingHostFunction(), CountingHostFunction(), CountingHostFunction()
        self.library = Library(0)
        w, x, y, z = (graph.array(name, (SIZE,), DTYPE) for name in "wxyz")
        status = graph.array("status", (1,), "int32", temporary=True)
        self.inputs = {name: np.arange(1, SIZE + 1) * n for n, name in enumerate("wxyz", 1)}
        self.cause = "no good"
        graph.kernel(MIX, name="before", x=x, y=y, a=2)
        self.errors = {"raises": "no good", "status": "x is negative", "library": "it has no mood for 3"}
        if case.startswith("raises"):
            graph.host(self.bad, name="bad", y=y.update())
        elif case.startswith("status"):
            graph.kernel(JUDGE, name="bad", x=x, status=status)
            graph.host(lambda y, status: self.bad(y), name="checked", y=y.update(), status=status.read())
        else:
            graph.kernel(with_library(self.library), name="bad", x=w, y=y)
        self.message = next(text for key, text in self.errors.items() if case.startswith(key))
        graph.kernel(MIX, name="after", x=y, y=x, a=1)
        graph.host(self.behind, name="behind", y=x.update())
        graph.kernel(MIX, name="apart", x=z, y=w, a=3)
        graph.host(self.apart, name="apart end", y=w.update())
        self.plan = spread(graph, platform_of(2 if case.endswith("two contexts") else 1))
        self._case = case

    def arm(self, armed: bool) -> dict[str, Any]:
        """Return the inputs of the next run, which fails if it is armed."""
        self.bad.armed = armed and self._case.startswith("raises")
        self.library.status = 3 if armed else 0
        sign = -1 if armed and self._case.startswith("status") else 1
        return self.inputs | {"x": sign * self.inputs["x"]}

    @property
    def wanted(self) -> dict[str, Any]:
        """The values of a run that is not armed, as far as they are known."""
        x, y, z, w = (self.inputs[name].astype(DTYPE) for name in "xyzw")
        i = np.arange(SIZE)
        values = {"w": 3 * z + 3 * w + i + 1}
        if self._case != "library":  # it leaves its output unchanged
            y = 2 * x + 3 * y + i + 1
            values |= {"y": y, "x": y + 3 * x + i + 1}
        return values
