# SPDX-License-Identifier: Apache-2.0
"""Profile files: round trips, and every kind of damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sample_profiles import device_profile, pair_profile

from syclsched.errors import FormatError, StorageError
from syclsched.model.text.json_serialisation import to_json
from syclsched.profiling.storage.files import (
    MAX_FILE_BYTES,
    ProfileSet,
    parse_device_profile,
    parse_pair_profile,
    parse_profile_set,
    read_file,
    write_file,
)

PROFILE = device_profile()
DOCUMENT = json.loads(to_json(PROFILE))


def numbers_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yield the paths of all numbers that are not booleans."""
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in numbers_in(v, (*path, k))]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in numbers_in(v, (*path, i))]
    return [path] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    place = copy
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return copy


def test_a_profile_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "p.json"
    write_file(path, PROFILE)
    assert parse_device_profile(read_file(path), where=str(path)) == PROFILE
    assert [p.name for p in path.parent.iterdir()] == ["p.json"]


def test_sets_and_single_profiles_are_distinguished() -> None:
    several = ProfileSet((PROFILE, device_profile("other")), (pair_profile(PROFILE.key, "other"),))
    assert parse_profile_set(to_json(several), where="set") == several
    assert parse_profile_set(to_json(PROFILE), where="one") == ProfileSet((PROFILE,))


@given(
    st.sampled_from(numbers_in(DOCUMENT)),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "-1", "1e308", '"x"', "null"]),
)
def test_every_hostile_number_is_refused_with_its_place(path: tuple[Any, ...], hostile: str) -> None:
    marker = 123456789.25
    text = json.dumps(replaced(DOCUMENT, path, marker)).replace(str(marker), hostile)
    with pytest.raises(FormatError) as caught:
        parse_device_profile(text, where="bad.json")
    assert caught.value.where == "bad.json"
    if hostile in ("-1", "1e308"):
        assert str(path[0]) in caught.value.what


UNBOUNDED = {"samples", "spikes", "residual", "duration_s"}


def test_numbers_that_drive_plans_have_upper_limits() -> None:
    for path in numbers_in(DOCUMENT):
        if UNBOUNDED.isdisjoint(path):
            with pytest.raises(FormatError, match=r"expected|less|greater|integer"):
                parse_device_profile(json.dumps(replaced(DOCUMENT, path, 10**200)), where="x")


@given(st.integers(0, len(to_json(PROFILE)) - 2))
def test_a_half_written_profile_is_refused(length: int) -> None:
    with pytest.raises(FormatError, match=r"half\.json"):
        parse_device_profile(to_json(PROFILE)[:length], where="half.json")


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(content: bytes) -> None:
    for parse in (parse_device_profile, parse_pair_profile, parse_profile_set):
        with pytest.raises(FormatError):
            parse(content, where="noise")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(sorted(DOCUMENT)), JSON)
def test_any_json_in_any_field_is_read_or_refused(name: str, value: Any) -> None:
    text = json.dumps({**DOCUMENT, name: value})
    try:
        profile = parse_device_profile(text, where="fuzzed")
    except FormatError as error:
        assert error.where == "fuzzed"
    else:
        assert parse_device_profile(to_json(profile), where="again") == profile


def test_unknown_fields_and_other_formats_are_refused() -> None:
    with pytest.raises(FormatError, match="surprise"):
        parse_device_profile(json.dumps({**DOCUMENT, "surprise": 1}), where="x")
    with pytest.raises(FormatError, match="format"):
        parse_device_profile(json.dumps({**DOCUMENT, "format": "syclsched-device-profile/99"}), where="x")


def test_zero_bandwidth_is_refused() -> None:
    text = json.dumps(replaced(DOCUMENT, ("triad_bandwidth_bytes_per_s", "value"), 0.0))
    with pytest.raises(FormatError, match=r"at triad_bandwidth_bytes_per_s\.value: expected 1000 to 1e\+15"):
        parse_device_profile(text, where="x")


def test_deeply_nested_json_is_refused() -> None:
    with pytest.raises(FormatError):
        parse_profile_set("[" * 100_000, where="deep")


def test_missing_and_oversized_files(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        read_file(tmp_path / "absent.json")
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(FormatError, match="at most"):
        read_file(large)


def test_a_place_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        write_file(tmp_path / "file" / "p.json", PROFILE)


def test_a_full_disk_leaves_only_the_old_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    write_file(path, PROFILE)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        write_file(path, device_profile("another"))
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]
    assert parse_device_profile(path.read_bytes(), where="p") == PROFILE
