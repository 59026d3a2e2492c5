# SPDX-License-Identifier: Apache-2.0
"""Eviction of constant values from host memory: devices hold them, and the model file can recompute them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final
from weakref import WeakSet, ref

from numpy.typing import NDArray

from syclsched.errors import StorageError
from syclsched.model.constant import Constant

#: Smaller constants stay in host memory.
LEAST_BYTES: Final = 1 << 16

#: Recomputes values, by digest.
Recompute = Callable[[Collection[str]], Mapping[str, NDArray[Any]]]


class EvictableConstants:
    """Constants computed during lowering whose values can be evicted from host memory and recomputed.

    A read of one evicted value, such as an upload to another device, recomputes all of them.
    """

    def __init__(self, recompute: Recompute) -> None:
        self._recompute = recompute
        self._evicted: WeakSet[Constant] = WeakSet()
        self._lock = threading.Lock()

    def evict(self, constants: Iterable[Constant]) -> None:
        """Evict the values of large constants from host memory."""
        with self._lock:
            for each in constants:
                if each.is_host_resident and each.has_digest and each.nbytes >= LEAST_BYTES:
                    self._evicted.add(each)
                    each.evict(partial(self._value, ref(each)))

    def _value(self, asked: ref[Constant]) -> NDArray[Any]:
        wanted = asked()
        assert wanted is not None  # the constant itself calls this
        with self._lock:
            if wanted.is_host_resident:  # another thread has recomputed it
                return wanted.data
            evicted = {each.digest: each for each in self._evicted if not each.is_host_resident}
            made = self._recompute({wanted.digest, *evicted})
            for digest, constant in evicted.items():
                if digest in made:
                    constant.restore(made[digest])
            self._evicted = WeakSet(each for digest, each in evicted.items() if digest not in made)
            if wanted.digest not in made:
                raise StorageError(
                    f"the weights {wanted.name or ''!r} recomputed from the model differ from those first read",
                    where="model",
                    hint="Load the model again",
                )
            return made[wanted.digest]
