# SPDX-License-Identifier: Apache-2.0
"""Keys of measured durations: equal for equal work, different otherwise, the same in every process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syclsched.costs.history import (
    HistoryKey,
    MemoryHistory,
    history_key,
    in_run_key,
    is_provisional,
    measured_seconds,
    signature_text,
)
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, Parameter, Signature, Work
from syclsched.model.profile import Quantity

SIGNATURE = Signature({"b": (3,), "a": (2, 4)}, {"b": "float64", "a": "float32"}, {"n": 2, "alpha": 0.5})


def test_text_is_sorted_and_complete() -> None:
    assert signature_text(SIGNATURE) == "a:float32[2,4] b:float64[3] alpha=0.5 n=2"


def test_signature_text_is_unique() -> None:
    others = [
        replace(SIGNATURE, shapes={"b": (3,), "a": (4, 2)}),
        replace(SIGNATURE, dtypes={"b": "float64", "a": "float64"}),
        replace(SIGNATURE, scalars={"n": 2, "alpha": 0.25}),
        replace(SIGNATURE, scalars={"n": 2.0, "alpha": 0.5}),
    ]
    assert len({signature_text(s) for s in [SIGNATURE, *others]}) == 5


def test_order_of_parameters_does_not_matter() -> None:
    turned = Signature(
        dict(reversed(SIGNATURE.shapes.items())), SIGNATURE.dtypes, dict(reversed(SIGNATURE.scalars.items()))
    )
    assert signature_text(turned) == signature_text(SIGNATURE)


def test_memory_history_drops_older_revisions() -> None:
    first = Implementation("i", "host", load=lambda _: None)
    operation = Operation("op", (Parameter("a", AccessMode.READ),), (first,), work=lambda _: Work(0.0, 0.0))
    history = MemoryHistory({history_key("cpu", operation, first, SIGNATURE): Quantity(2.0)})
    assert history.lookup(history_key("cpu", operation, first, SIGNATURE)) == Quantity(2.0)
    assert history.lookup(history_key("cpu", operation, replace(first, revision="2"), SIGNATURE)) is None
    assert history.lookup(history_key("gpu", operation, first, SIGNATURE)) is None


KEY = HistoryKey("cpu", "op", "i", "1", "s")


@pytest.mark.parametrize(
    ("alone", "in_run", "expected"),
    [
        (Quantity(1.0), None, 1.0),
        (None, Quantity(2.0), 2.0),
        (Quantity(1.0, samples=9, uncertainty=0.02), Quantity(2.0, samples=1, uncertainty=0.5), 1.0),
        (Quantity(1.0, samples=9, uncertainty=0.02), Quantity(2.0, samples=2, uncertainty=0.25), 2.0),
        (Quantity(1.0, samples=9, uncertainty=0.02), Quantity(2.0, samples=2, uncertainty=0.9), 1.0),
        (Quantity(1.0, samples=9, uncertainty=1.0), Quantity(2.0, samples=1, uncertainty=0.5), 2.0),
    ],
)
def test_agreeing_times_of_runs_are_preferred(alone: Quantity | None, in_run: Quantity | None, expected: float) -> None:
    both = {KEY: alone, in_run_key(KEY): in_run}
    history = MemoryHistory({key: quantity for key, quantity in both.items() if quantity is not None})
    found = measured_seconds(history, KEY)
    assert found is not None
    assert found.value == expected
    assert measured_seconds(MemoryHistory(), KEY) is None


def test_numbers_without_a_stated_uncertainty_are_not_provisional() -> None:
    assert not is_provisional(Quantity(1.0, mad=0.9, samples=1))
