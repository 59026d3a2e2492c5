# SPDX-License-Identifier: Apache-2.0
"""Training steps in which each submission fails in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from syclsched.errors import ExecutionError
from syclsched.testing import faults
from syclsched.training import Trainer


def fail_each_submission(
    found: Trainer,
    other: Trainer,
    batch: Sequence[Any],
    folder: Path,
    check: Callable[[], None] = lambda: None,
    every: int = 1,
) -> list[bool]:
    """Fail submissions of a step in turn; the parameters afterwards are those of the last whole step, or none.

    Return for each failed step whether an update was assumed to have begun. ``other`` does the same steps without
    failures; ``check`` is called after each pair of whole steps.
    """
    begun: list[bool] = []
    for each in (found, other):
        each.step(*batch)
        each.step(*batch)
    for number in count(1, every):
        found.checkpoint(folder / "run.ckpt")
        done = found.steps
        with faults.inject(faults.fail_submission(number)) as seen, suppress(ExecutionError):
            found.step(*batch)
        if not seen.injected:  # the step has fewer
            break
        if found.steps == done:
            try:
                assert parameter_bits(found) == parameter_bits(other)
                begun.append(False)
            except ExecutionError as error:
                begun.append(True)
                assert "failed while it updated" in str(error)
                with pytest.raises(ExecutionError, match="failed while it updated"):
                    found.save(folder / "trained.onnx")
                found.restore(folder / "run.ckpt")
            found.step(*batch)
        other.step(*batch)
        check()
        assert parameter_bits(found) == parameter_bits(other)
    return begun


def parameter_bits(trainer: Trainer) -> dict[str, bytes]:
    """Return the bits of all parameters."""
    return {name: value.tobytes() for name, value in trainer.parameters.items()}
