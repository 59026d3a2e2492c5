# SPDX-License-Identifier: Apache-2.0
"""Notation of objectives and constraints: every unit, and errors that name the mistake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syclsched.errors import PolicyError
from syclsched.model.text.quantities import UNITS, format_quantity, parse_quantity
from syclsched.scheduling.objectives.aims import Aim, Constraint, minimize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("makespan <= 20ms", Constraint("makespan", 0.02)),
        ("makespan<=1.5 s", Constraint("makespan", 1.5)),
        (" makespan ≤ 250 us ", Constraint("makespan", 250e-6)),
        ("memory[gpu] <= 1GiB", Constraint("memory", 2.0**30, "gpu")),
        ("memory [ gpu:0 ] <= 512 MiB", Constraint("memory", 2.0**29, "gpu:0")),
        ("memory <= 1_000B", Constraint("memory", 1000.0)),
        ("energy <= 5J", Constraint("energy", 5.0)),
        ("energy <= 2.5e3 mJ", Constraint("energy", 2.5)),
        ("interval <= 2ms", Constraint("interval", 0.002)),
        ("throughput >= 50 runs/s", Constraint("interval", 0.02)),
    ],
)
def test_constraints_are_read(text: str, expected: Constraint) -> None:
    found = Constraint.parse(text)
    assert (found.metric, found.space) == (expected.metric, expected.space)
    assert found.limit == pytest.approx(expected.limit)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("makespan", "there is no '<='"),
        ("", "there is no '<='"),
        ("makespan < 20ms", "can be limited by '<=' only, not '<'"),
        ("makespan >= 20ms", "not '>='"),
        ("throughput <= 20 runs/s", "can be limited by '>=' only"),
        ("throughput >= 0 runs/s", "every throughput is at least 0"),
        ("makespan <= 20", "'20' has no unit.*As 20s"),
        ("makespan <= 20GiB", "'20GiB' has the unit 'GiB', which is not one of time"),
        ("makespan <= soon", "'soon' is not a number with a unit"),
        ("makespan <= -1s", "'-1s' is not a number"),
        ("makespan <= 1s <= 2s", "has the unit 's <= 2s'"),
        ("speed <= 3s", "no metric 'speed'.*throughput"),
        ("energy[gpu] <= 3J", "only memory has a space"),
        ("throughput[gpu] >= 3 runs/s", "only memory has a space"),
        ("memory[] <= 3B", "is not a metric"),
        ("memory <= 1e400B", "is too large"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Constraint.parse(text)


def test_aims_collect_constraints() -> None:
    aim = (
        minimize("throughput").subject_to("memory[gpu] <= 1GiB").subject_to(Constraint("energy", 3.0), "makespan <= 1s")
    )
    assert (aim.metric, [c.metric for c in aim.constraints]) == ("interval", ["memory", "energy", "makespan"])
    assert aim.uses("energy")
    assert not minimize("makespan").uses("energy")
    assert minimize("makespan").plain
    assert not aim.plain
    assert minimize("memory[gpu]") == Aim("memory", "gpu")
    assert str(aim) == "minimize interval subject to memory[gpu] <= 1.000 GiB, energy <= 3 J, makespan <= 1.000 s"
    for wrong in ("speed", "", "makespan[gpu]", "memory <= 3B"):
        with pytest.raises(PolicyError):
            minimize(wrong)
    with pytest.raises(PolicyError, match="not a limit of zero or more"):
        Constraint("makespan", float("nan"))


@given(st.sampled_from(sorted(UNITS)), st.floats(0.0, 1e9), st.data())
def test_numbers_survive_every_unit(dimension: str, number: float, data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from(sorted(UNITS[dimension])))
    value = parse_quantity(f"{number!r} {unit}", dimension, where="here")
    assert value == pytest.approx(number * UNITS[dimension][unit])
    assert format_quantity(value, dimension)
