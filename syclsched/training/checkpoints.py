# SPDX-License-Identifier: Apache-2.0
"""Checkpoint files: parameters, the optimiser's state, seed and number of steps, in NumPy's zip format."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from syclsched.atomic_write import write_atomically
from syclsched.errors import FormatError, StorageError
from syclsched.training.parameter_groups import ParameterGroups, slot_name
from syclsched.training.steps.step_network import PARITY

Array = np.ndarray[Any, Any]

_FORMAT: Final = "syclsched checkpoint 1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint."""

    values: Mapping[str, Array]  # parameters and states by name
    steps: int  # done so far
    seed: int  # of dropout


def write_checkpoint(
    path: str | os.PathLike[str], values: Mapping[str, Array], groups: ParameterGroups, *, steps: int, seed: int
) -> None:
    """Write a checkpoint, whole or not at all; raise `StorageError` if that fails."""
    head = {"format": _FORMAT, "steps": steps, "seed": seed, "names": list(values)}
    if any(each.slots for each in groups.optimisers):  # a parameter without gradient has no state either
        without = [name for name in groups.numbers if name in values and not groups.states(name)]
        head |= {"without state": without} if without else {}
    arrays = {f"value{number}": value for number, value in enumerate(values.values())}
    content = io.BytesIO()
    np.savez(content, head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
    try:
        write_atomically(Path(path), content.getvalue(), lasting=True)
    except OSError as error:
        raise StorageError(
            f"the checkpoint cannot be written: {error.strerror or error}",
            where=str(path),
            hint="An older checkpoint of this name is still there" if os.path.isfile(path) else None,
        ) from error


def read_checkpoint(
    path: str | os.PathLike[str], expected: Mapping[str, Array], groups: ParameterGroups, held: Mapping[str, Array]
) -> Checkpoint:
    """Read a checkpoint: values of the expected names, and of their states in the optimisers.

    Raises `StorageError` if the file cannot be read; `FormatError` if a value is missing or has another shape or dtype,
    if values differ from those that the model has ``held`` beside them, or if other optimisers wrote it.
    """
    where = str(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            head = json.loads(bytes(file["head"]))
            if head.get("format") != _FORMAT:
                raise FormatError(f"it says {head.get('format')!r}, expected {_FORMAT!r}", where=where)
            values = {str(name): file[f"value{number}"] for number, name in enumerate(head["names"])}
            steps, seed = int(head["steps"]), int(head["seed"])
            without_state = [str(name) for name in head.get("without state", ())]
    except OSError as error:
        raise StorageError(f"it cannot be read: {error.strerror or error}", where=where) from error
    except (KeyError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise FormatError("it is no checkpoint", where=where, hint="Trainer.checkpoint writes them") from error
    for name, value in expected.items():
        found = values.get(name)
        if found is None or (found.shape, found.dtype) != (value.shape, value.dtype):
            has = "has none" if found is None else f"has {found.dtype} of shape {found.shape}"
            raise FormatError(
                f"the model has a parameter {name!r}, {value.dtype} of shape {value.shape}, and the checkpoint {has}",
                where=where,
                hint="It belongs to another model",
            )
    _check_others(values, expected, held, where)
    trained = [name for name in expected if name in groups.numbers]
    if steps:
        _check_states(values, trained, groups, without_state, where)
    wanted = {*expected, *(state for name in trained for state in groups.states(name))}
    return Checkpoint({name: value for name, value in values.items() if name in wanted}, steps, seed)


def _check_states(
    values: Collection[str], trained: Collection[str], groups: ParameterGroups, without: Collection[str], where: str
) -> None:
    """Raise `FormatError` if the state of a parameter is that of another optimiser.

    A parameter that the loss did not depend on has no state, unless it is one of those ``without`` for its optimiser.
    """
    found = {name: [slot for slot in _slots(values) if slot_name(name, slot) in values] for name in trained}
    has_states = bool(without) or any(found.values())
    for name, slots in found.items():
        optimiser = groups.optimiser(name)
        if {*slots} == {*optimiser.slots} or (not slots and has_states and name not in without):
            continue
        raise FormatError(
            f"of parameter {name!r} it has {_said(slots)}, and {type(optimiser).__name__} here keeps "
            f"{_said(optimiser.slots)}",
            where=where,
            hint="It was written with another optimizer, or other groups: continue with those, or save() that model "
            "and train it",
        )


def _slots(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of all slots that values may be of."""
    return tuple(dict.fromkeys(name[name.rindex(" (") + 2 : -1] for name in names if " (" in name and name[-1] == ")"))


def _said(slots: Collection[str]) -> str:
    return f"the state {' and '.join(sorted(slots))}" if slots else "no state"


def _check_others(
    values: Mapping[str, Array], expected: Mapping[str, Array], held: Mapping[str, Array], where: str
) -> None:
    """Raise `FormatError` if a checkpoint has parameters that are not trained now, and whose values would be lost."""
    states = tuple(f"{name} (" for name in {*expected, *held})
    for name, value in values.items():
        if name in expected or name == PARITY or (name not in held and name.startswith(states)):
            continue
        if name not in held or not np.array_equal(value, held[name], equal_nan=True):
            raise FormatError(
                f"it has {name!r}, which is no trained parameter here"
                + (", and of which the model has another value" if name in held else ""),
                where=where,
                hint="Train the parameters that it was written with, or save() that model and train it",
            )
