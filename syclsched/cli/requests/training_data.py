# SPDX-License-Identifier: Apache-2.0
"""Training data from NumPy files: arrays by input of a model, in random batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from syclsched.errors import FormatError
from syclsched.workloads.numpy_files import read_arrays

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Data:
    """Samples and their targets."""

    inputs: Mapping[str, Array]  # by input of the model; the first axis counts samples
    target: Array | None  # None if the model's output is the loss

    def __len__(self) -> int:
        return len(next(each for each in (*self.inputs.values(), self.target) if each is not None))

    def taken(self, chosen: Array) -> Data:
        """Return some samples."""
        target = None if self.target is None else self.target[chosen]
        return Data({name: array[chosen] for name, array in self.inputs.items()}, target)

    def divided(self, part: float, seed: int) -> tuple[Data, Data]:
        """Return the samples for training, and a random part of them for testing."""
        order = np.random.default_rng(seed).permutation(len(self))
        count = round(part * len(self))
        return self.taken(np.sort(order[count:])), self.taken(np.sort(order[:count]))

    def batches(
        self, size: int, seed: int | None = None, *, after: int = 0
    ) -> Sequence[tuple[Mapping[str, Array], Array | None]]:
        """Return the batches from a number on, in random order if there is a seed."""
        order = np.arange(len(self)) if seed is None else np.random.default_rng(seed).permutation(len(self))
        return _Batches(self, order[after * size :], size)


@dataclass(frozen=True, slots=True)
class _Batches(Sequence[tuple[Mapping[str, Array], Array | None]]):
    data: Data
    order: Array
    size: int

    def __len__(self) -> int:
        return -(-len(self.order) // self.size)

    def __getitem__(self, number: Any) -> Any:
        taken = self.data.taken(self.order[number * self.size : (number + 1) * self.size])
        return taken.inputs, taken.target

    def __iter__(self) -> Iterator[tuple[Mapping[str, Array], Array | None]]:
        return (self[number] for number in range(len(self)))


def read_data(path: Path, inputs: Sequence[str], *, has_target: bool = True) -> Data:
    """Read the arrays of a .npz file; raise `FormatError` unless it has one for each input, and the target ``y``."""
    where = str(path)
    found = {name or "x": array for name, array in read_arrays(path).items()}
    names = {"x": inputs[0]} if len(inputs) == 1 and inputs[0] not in found else {name: name for name in inputs}
    wanted = [*names, *(["y"] if has_target and "y" not in names else [])]
    missing = [name for name in wanted if name not in found]
    if missing:
        raise FormatError(
            f"it has no array {missing[0]!r}; it has {', '.join(found) or 'none'}",
            where=where,
            hint=f"Write it with numpy.savez(file, {', '.join(f'{name}=...' for name in wanted)})",
        )
    single = next((name for name in wanted if not found[name].ndim), None)
    if single is not None:
        raise FormatError(
            f"{single!r} is a single number",
            where=where,
            hint="The first axis of each array counts samples",
        )
    counts = {name: len(found[name]) for name in wanted}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} has {count:,}" for name, count in counts.items())
        raise FormatError(f"all arrays must have as many samples: {said}", where=where)
    if not all(counts.values()) or not counts:
        raise FormatError("it has no samples", where=where)
    return Data({given: found[name] for name, given in names.items()}, found["y"] if has_target else None)
