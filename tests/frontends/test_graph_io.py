# SPDX-License-Identifier: Apache-2.0
"""Detection of file formats, limits, and unreadable files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.graph_files import SAMPLES, refused

from syclsched.errors import FormatError, StorageError
from syclsched.frontends import Limits, Units, parse_graph, read_graph


@pytest.mark.parametrize("name", SAMPLES)
def test_the_format_is_detected_by_content_if_not_by_name(name: str) -> None:
    by_name, by_content = (parse_graph(SAMPLES[name], where=where) for where in (name, Path(name).stem))
    assert by_name.fingerprint() == by_content.fingerprint()
    with_mark = parse_graph(b"\xef\xbb\xbf" + SAMPLES[name], where=Path(name).stem)
    assert with_mark.fingerprint() == by_name.fingerprint()


def test_a_format_can_be_given() -> None:
    assert len(parse_graph(SAMPLES["plain.stg"], where="x.dot", format="stg")) == 5
    with pytest.raises(FormatError, match="expected digraph"):
        parse_graph(SAMPLES["plain.stg"], where="x.dot")
    with pytest.raises(FormatError, match="There are json, wfformat, stg, dot, graphml"):
        parse_graph(b"", where="x", format="yaml")  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="schemaVersion"):
        parse_graph(SAMPLES["own.json"], where="x", format="wfformat")


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (b"", "x", "none of the formats"),
        (b"\x00\x01\x02", "x", "none of the formats"),
        (b"hello", "x.txt", "none of the formats"),
        (b" " * 60_000 + b"x", "x", "none of the formats"),
        (b"# x\n" * 16_000, "x", "none of the formats"),
        (b"3\n\xff\n", "x.stg", "line 2: byte 0xff is not UTF-8"),
        (b'{"format": "syclsched-plan/3"}', "x.json", "'syclsched-plan/3', expected 'syclsched-graph/1', or WfFormat"),
        (b'{"format": "syclsched-plan/1"}', "x.json", "it is a plan, not a graph"),
        (b'{"format": "syclsched-plan/2"}', "x.json", "it is a plan, not a graph"),
        (b"{}", "x.json", "'missing', expected"),
        (b"[]", "x.json", "at the whole document"),
        (b'{"schemaVersion": 3}', "x.json", "schemaVersion"),
        (b"{", "x.json", "Invalid JSON"),
        (b'{"schemaVersion": "1.5"} x', "x.json", "trailing characters"),
        (b'{"schemaVersion": "\\ud800"}', "x.json", "Invalid JSON"),
    ],
)
def test_invalid_graph_files_are_refused(data: bytes, name: str, expected: str) -> None:
    assert expected in refused(data, name)


@pytest.mark.parametrize("name", SAMPLES)
def test_only_formats_with_attributes_take_names_of_them(name: str) -> None:
    for units in (Units(task_cost="time"), Units(edge_cost="data")):
        if Path(name).suffix in (".dot", ".graphml"):
            text = SAMPLES[name].replace(b"cost", b"time").replace(b"seconds", b"time").replace(b"weight", b"time")
            parse_graph(text, where=name, units=replace(units, task_cost="time"))
        else:
            with pytest.raises(FormatError, match="are for DOT and GraphML"):
                parse_graph(SAMPLES[name], where=name, units=units)


@pytest.mark.parametrize("name", SAMPLES)
def test_limits_can_be_lowered_and_raised(name: str) -> None:
    graph = parse_graph(SAMPLES[name], where=name)
    exact = Limits(file_bytes=1, tasks=len(graph), edges=100)
    assert len(parse_graph(SAMPLES[name], where=name, limits=exact)) == len(graph)
    assert "--max-tasks" in refused(SAMPLES[name], name, Limits(tasks=1))
    assert "--max-edges" in refused(SAMPLES[name], name, Limits(edges=0))


def test_files_are_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "g.stg"
    path.write_bytes(SAMPLES["plain.stg"])
    size = path.stat().st_size
    assert len(read_graph(path, limits=Limits(file_bytes=size))) == 5
    with pytest.raises(FormatError, match=f"larger than {size - 1} bytes"):
        read_graph(path, limits=Limits(file_bytes=size - 1))


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(FormatError, match="larger than"):
        read_graph("/dev/zero", limits=Limits(file_bytes=1000))


@pytest.mark.parametrize("name", ["missing.json", ".", "a\0b"])
def test_unreadable_files_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        read_graph(os.path.join(tmp_path, name))


@pytest.mark.parametrize("unit", [0.0, -1.0, float("nan"), float("inf")])
def test_units_are_positive_numbers(unit: float) -> None:
    with pytest.raises(FormatError, match="unit of time"):
        Units(time_s=unit)
    with pytest.raises(FormatError, match="unit of communication"):
        Units(communication_bytes=unit)
