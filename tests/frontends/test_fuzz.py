# SPDX-License-Identifier: Apache-2.0
"""Damaged files of every format: each is read, or refused with an error of this package."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.graph_files import GRAPH_FILE, SAMPLES, WFFORMAT_14, WFFORMAT_15

from syclsched.errors import SyclschedError
from syclsched.frontends import Limits, parse_graph

LIMITS = Limits(tasks=200, edges=500)

#: Text inserted into files: syntax of all the formats, strange numbers, other encodings.
PIECES = st.one_of(
    st.binary(max_size=4),
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b"<", b">", b'"', b"'", b"&", b"/*", b"//", b"#", b"->", b"--", b"\\", b"\n", b"=",
         b":", b"-1", b"0", b"1e999", b"nan", b"Infinity", b"null", b"true", b"99999999999999999999", b"\xff", b"\x00",
         b"<!DOCTYPE a>", b"<![CDATA[", b"&lt;", b"subgraph", b"digraph", b"node", b"a", b"T1", b"<data key='d0'>"]
    ),
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the content with some parts removed, repeated, swapped or overwritten."""
    data = content
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        kind = draw(st.sampled_from(["cut", "double", "insert", "replace", "truncate"]))
        if kind == "cut":
            data = data[:start] + data[end:]
        elif kind == "double":
            data = data[:end] + data[start:end] + data[end:]
        elif kind == "insert":
            data = data[:start] + draw(PIECES) + data[start:]
        elif kind == "replace":
            data = data[:start] + draw(PIECES) + data[end:]
        else:
            data = data[:start]
    return data


def reads_or_refuses(data: bytes, name: str) -> None:
    try:
        graph = parse_graph(data, where=name, limits=LIMITS)
    except SyclschedError as error:
        assert error.what
        assert len(str(error)) < 4000
        return
    assert len(graph.order()) == len(graph) <= 200
    for task in graph.tasks:
        assert task.name


@pytest.mark.parametrize("name", SAMPLES)
def test_bytes(name: str) -> None:
    @settings(max_examples=examples(150))
    @given(damaged(SAMPLES[name]), st.booleans())
    def check(data: bytes, by_content: bool) -> None:
        reads_or_refuses(data, "x" if by_content else name)

    check()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["split_1", "a", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Yield every container of a document with each of its keys."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [pair for key in keys for pair in [(value, key), *places(value[key])]]


@pytest.mark.parametrize("document", [WFFORMAT_15, WFFORMAT_14, GRAPH_FILE], ids=["1.5", "1.4", "own"])
def test_values_in_json(document: dict[str, Any]) -> None:
    @settings(max_examples=examples(200))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        made = copy.deepcopy(document)
        for _ in range(data.draw(st.integers(1, 2))):
            found = places(made)
            container, key = found[data.draw(st.integers(0, len(found) - 1))]
            container[key] = data.draw(VALUES)
        reads_or_refuses(json.dumps(made).encode("utf-8", "surrogatepass"), "x.json")

    check()


@given(st.binary(max_size=200), st.sampled_from([*SAMPLES, "x"]))
def test_anything(data: bytes, name: str) -> None:
    reads_or_refuses(data, name)
