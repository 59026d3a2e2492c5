# SPDX-License-Identifier: Apache-2.0
"""Values of constants that the host need not hold: devices have them, and they can be made of the file again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from ctypes import CDLL
from functools import cache, partial
from typing import Final
from weakref import WeakSet, ref

from syclsched.errors import StorageError
from syclsched.model.constant import Constant
from syclsched.onnx.specialised import Array

#: Smaller ones are held: they are no memory to speak of.
LEAST_BYTES: Final = 1 << 16

#: Makes values again: of digests, by digest.
Again = Callable[[Collection[str]], Mapping[str, Array]]


class LetGo:
    """Constants that were computed while a model became tasks, and whose values can be computed again.

    Whoever asks for the value of one, such as another device, gets it, and all of them are held again.
    """

    def __init__(self, again: Again) -> None:
        self._again = again
        self._gone: WeakSet[Constant] = WeakSet()
        self._lock = threading.Lock()

    def let_go(self, constants: Iterable[Constant]) -> None:
        """Hold the values of large constants no more."""
        with self._lock:
            for each in constants:
                if each.is_held and each.was_hashed and each.nbytes >= LEAST_BYTES:
                    self._gone.add(each)
                    each.let_go(partial(self._value, ref(each)))

    def _value(self, asked: ref[Constant]) -> Array:
        wanted = asked()
        assert wanted is not None  # it is what asks
        with self._lock:
            if wanted.is_held:  # another thread was here first
                return wanted.data
            gone = {each.digest: each for each in self._gone if not each.is_held}
            made = self._again({wanted.digest, *gone})
            for digest, constant in gone.items():
                if digest in made:
                    constant.take_back(made[digest])
            self._gone = WeakSet(each for digest, each in gone.items() if digest not in made)
            if wanted.digest not in made:
                raise StorageError(
                    f"the weights {wanted.name or ''!r} came out otherwise than when the model was first read",
                    where="model",
                    hint="Load the model again",
                )
            return made[wanted.digest]


def give_back_free_memory() -> None:
    """Give memory that nobody uses back to the system: the C library keeps some of what planning took."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        return CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library, another system
        return None
