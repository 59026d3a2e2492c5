# SPDX-License-Identifier: Apache-2.0
"""A call like the last one, by the shortest way: when a large model has run, nothing of Python is left in the caches.

Every function and every object touched before the first submission costs microseconds then, tens of them together
more than submitting a small model. So inputs are looked at once, and what else could be in the way by one look each.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from syclsched.onnx.kept import Bound, Kept
from syclsched.onnx.specialised import Array


class Again:
    """Calls of a model with arrays of known shapes; made by `again_for`.

    Parameters
    ----------
    kept : Kept
        Where what is bound for these shapes is kept.
    key : hashable
        Under what.
    bound : Bound
        What is.
    dtypes : Mapping[str, numpy.dtype]
        Of the model's inputs.
    """

    def __init__(self, kept: Kept, key: Hashable, bound: Bound, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self._kept = kept
        self._key = key
        #: What is used.
        self.bound = bound
        specialised = bound.specialised
        self._inputs = [
            (name, dtype, specialised.shapes[name], specialised.inputs.get(name)) for name, dtype in dtypes.items()
        ]
        self._names = tuple(dtypes)
        self._fetched = specialised.fetched

    def __call__(self, given: tuple[Any, ...]) -> dict[str, Array] | None:
        """Return the model's outputs; None, and nothing is done, if these are other inputs or something is unusual.

        Parameters
        ----------
        given : tuple
            What the model was called with: taken if it is arrays as they are needed, or a dict of such.
        """
        if len(given) == 1 and type(given[0]) is dict:
            by_name = given[0]
        elif len(given) == len(self._names):
            by_name = dict(zip(self._names, given, strict=True))
        else:
            return None
        if len(by_name) != len(self._inputs):
            return None
        values: dict[str, Array] = {}
        for name, dtype, shape, array in self._inputs:
            value = by_name.get(name)
            if type(value) is not np.ndarray or value.dtype != dtype or value.shape != shape:
                return None
            if not value.flags.c_contiguous:
                return None
            if array is not None:
                values[array] = value
        slot = self._kept.take_ready(self._key)
        if slot is None:
            return None
        try:
            if slot.bound is not self.bound:
                return None
            found = self.bound.runner.again(values, self._fetched)
            return None if found is None else self.bound.specialised.results(found)
        finally:
            self._kept.give(slot)


def again_for(kept: Kept, key: Hashable, bound: Bound, dtypes: Mapping[str, np.dtype[Any]]) -> Again | None:
    """Return how to call again what was called; None where more has to be looked at than shapes, such as indices.

    Parameters
    ----------
    kept, key, bound, dtypes
        As for `Again`.
    """
    return None if bound.specialised.picked else Again(kept, key, bound, dtypes)
