# SPDX-License-Identifier: Apache-2.0
"""A call like the last one, by the shortest way: when a large model has run, nothing of Python is left in the caches.

Every function and every object touched before the first submission costs microseconds then, tens of them together
more than submitting a small model. So inputs are looked at once, by C, and what else may be in the way by a look each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.onnx.kept import Bound
from syclsched.onnx.specialised import Array


class Again:
    """Calls of a model with arrays of known shapes; made by `again_for`."""

    def __init__(self, bound: Bound, names: tuple[str, ...], repeat: Any) -> None:
        #: What is used.
        self.bound = bound
        self._names = names
        self._count = len(names)
        self._repeat = repeat
        self._results = bound.specialised.results

    def __call__(self, given: tuple[Any, ...]) -> dict[str, Array] | None:
        """Return the model's outputs; None, and nothing is done, if these are other inputs or something is unusual."""
        if len(given) == 1 and type(given[0]) is dict:
            by_name = given[0]
            if len(by_name) != self._count:
                return None
            given = tuple(map(by_name.get, self._names))
        found = self._repeat(given)
        return None if found is None else self._results(found)


def again_for(bound: Bound, dtypes: Mapping[str, np.dtype[Any]]) -> Again | None:
    """Return how to call again what was called; None where it cannot be, or more has to be looked at, such as indices."""
    specialised = bound.specialised
    inputs = [(specialised.inputs.get(name), dtype, specialised.shapes[name]) for name, dtype in dtypes.items()]
    repeat = None if specialised.picked else bound.runner.repeat(inputs, specialised.fetched)
    return None if repeat is None else Again(bound, tuple(dtypes), repeat)
