# SPDX-License-Identifier: Apache-2.0
"""Reading of plan files without pydantic, compared with pydantic's."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from support.strategies import platforms

from syclsched.model.platform import Platform
from syclsched.model.profile import DeviceProfile
from syclsched.model.text.json_serialisation import to_json
from syclsched.model.text.plain_reading import NotPlainError, read_plainly

PROFILES = sorted((Path(__file__).parents[3] / "device_profiles").glob("*.json"))
BY_PYDANTIC: TypeAdapter[Any] = TypeAdapter(DeviceProfile)
ODD = st.sampled_from(
    [None, True, 0, 1, -1, 2**63, 2**70, 1.0, 1.5, -0.0, "", "x", "x" * 5000, "1", [], [1], {}, {"value": 1.0}]
)


@pytest.mark.parametrize("path", PROFILES, ids=lambda p: p.stem)
def test_shipped_profiles_are_read(path: Path) -> None:
    assert read_plainly(DeviceProfile, path.read_bytes()) == BY_PYDANTIC.validate_json(path.read_bytes(), strict=True)


@given(platforms())
def test_platforms_are_read(platform: Platform) -> None:
    assert read_plainly(Platform, to_json(platform)) == platform


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every path of a document."""
    yield here
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield from places(each, (*here, key))


@given(data=st.data(), path=st.sampled_from(PROFILES))
def test_nothing_is_read_that_pydantic_refuses_or_reads_otherwise(data: st.DataObject, path: Path) -> None:
    document: Any = json.loads(path.read_text())
    *before, last = data.draw(st.sampled_from([place for place in places(document) if place]))
    holder = document
    for key in before:
        holder = holder[key]
    if data.draw(st.booleans()):
        holder[last] = data.draw(ODD)
    elif isinstance(holder, dict):
        holder[data.draw(st.sampled_from(["unknown", "value", "mad"]))] = copy.deepcopy(holder.pop(last))
    text = json.dumps(document)
    try:
        found = read_plainly(DeviceProfile, text)
    except NotPlainError:
        return
    by_pydantic = BY_PYDANTIC.validate_json(text, strict=True)
    assert (found, repr(found)) == (by_pydantic, repr(by_pydantic))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e400", "-1e400", "01", "1_0", "0x1", "1."])
def test_invalid_json_numbers_are_refused_by_pydantic(number: str) -> None:
    text = PROFILES[0].read_text().replace('"value": ', f'"value": {number} , "mad": ', 1)
    with pytest.raises(NotPlainError):
        read_plainly(DeviceProfile, text)
    with pytest.raises(ValidationError):
        BY_PYDANTIC.validate_json(text, strict=True)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", b"\xff", "\ufeff{}", '"\\ud800"', "[" * 50_000])
def test_invalid_documents_are_refused_by_pydantic(text: str | bytes) -> None:
    with pytest.raises(NotPlainError):
        read_plainly(DeviceProfile, text)


def test_a_small_graph_is_planned_without_pydantic() -> None:
    code = """
import sys, syclsched
graph = syclsched.TaskGraph("few")
x = graph.array("x", (8,))
graph.host(lambda x: None, x=x.update())
syclsched.plan(graph, syclsched.describe(["cpu", "max1550"]), policy="heft")
print(sorted({name.partition(".")[0] for name in sys.modules} & {"pydantic", "pydantic_core", "scipy", "networkx"}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
