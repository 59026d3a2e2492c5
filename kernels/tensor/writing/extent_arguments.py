# SPDX-License-Identifier: Apache-2.0
"""Numbers that an OpenCL C kernel takes as arguments instead of containing them, so that operations share its code.

These are extents of arrays, and constants such as the scales of quantised values, which differ from layer to layer.
"""

from __future__ import annotations


class ExtentArguments:
    """The last parameters of a kernel, of type ``int``, with their arguments; see `syclsched.OpenCLSource`."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}

    def __call__(self, name: str, value: int) -> str:
        """Return the text of a number: the parameter's name, or the number itself if 32 bits do not hold it."""
        if not -(1 << 31) <= value < 1 << 31:
            return f"({value}L)"
        assert self._values.setdefault(name, value) == value, name
        return name

    def real(self, name: str, value: float) -> str:
        """Return the text of a number of single precision, whose bits are the argument."""
        import numpy as np

        self._values[name] = int(np.float32(value).view(np.int32))
        return f"as_float({name})"

    @property
    def declared(self) -> str:
        """The parameters, behind others."""
        return "".join(f", const int {name}" for name in self._values)

    @property
    def values(self) -> tuple[int, ...]:
        """The arguments, in the parameters' order."""
        return tuple(self._values.values())
