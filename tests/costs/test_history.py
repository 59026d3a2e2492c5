# SPDX-License-Identifier: Apache-2.0
"""Keys of measured durations: equal for equal work, different otherwise, the same in every process."""

from __future__ import annotations

from dataclasses import replace

from syclsched.costs.history import MemoryHistory, history_key, signature_text
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, Parameter, Signature, Work
from syclsched.model.profile import Quantity

SIGNATURE = Signature({"b": (3,), "a": (2, 4)}, {"b": "float64", "a": "float32"}, {"n": 2, "alpha": 0.5})


def test_text_is_sorted_and_complete() -> None:
    assert signature_text(SIGNATURE) == "a:float32[2,4] b:float64[3] alpha=0.5 n=2"


def test_text_tells_everything_apart() -> None:
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


def test_memory_history_forgets_older_revisions() -> None:
    first = Implementation("i", "host", load=lambda _: None)
    operation = Operation("op", (Parameter("a", AccessMode.READ),), (first,), work=lambda _: Work(0.0, 0.0))
    history = MemoryHistory({history_key("cpu", operation, first, SIGNATURE): Quantity(2.0)})
    assert history.lookup(history_key("cpu", operation, first, SIGNATURE)) == Quantity(2.0)
    assert history.lookup(history_key("cpu", operation, replace(first, revision="2"), SIGNATURE)) is None
    assert history.lookup(history_key("gpu", operation, first, SIGNATURE)) is None
