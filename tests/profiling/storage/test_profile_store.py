# SPDX-License-Identifier: Apache-2.0
"""The user's folder of profiles, and platforms that take their numbers from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sample_profiles import device_profile, pair_profile

from syclsched.errors import FormatError, StorageError
from syclsched.model.platform import HOST, Device, Interference, Link, MemorySpace, Platform
from syclsched.profiling.storage.attaching import attach, with_profiles
from syclsched.profiling.storage.profile_store import ProfileStore, file_stem


def platform() -> Platform:
    """Return CPU and emulator as from discovery: assumed links, assumed interference."""
    names = ("cpu", "accelerator")
    devices = tuple(Device(n, f"key-{n}", n, "opencl", n, n, (n,)) for n in names)  # type: ignore[arg-type]
    spaces = (*names, HOST)
    return Platform(
        "test",
        (*devices, Device(HOST, HOST, "host", "host", "host", HOST, (HOST, *names))),
        tuple(MemorySpace(n, 1 << 30, True) for n in spaces),
        tuple(Link(a, b, 1e-5, 1e9) for a in spaces for b in spaces if a != b),
        (Interference("cpu", "accelerator", 1.0),),
    )


def test_saved_profiles_are_found_again(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    profile, pair = device_profile("a"), pair_profile("a", "b")
    assert store.load("a") is None
    assert store.load_pair("a", "b") is None
    assert store.save(profile).is_relative_to(tmp_path)
    store.save_pair(pair)
    assert ProfileStore(tmp_path).load("a") == profile
    assert ProfileStore(tmp_path).load_pair("a", "b") == pair
    assert store.load_pair("b", "a") is None


@given(st.text(min_size=1, max_size=300))
def test_no_key_leaves_the_folder(key: str) -> None:
    folder = Path("/store")
    path = ProfileStore(folder).path(key)
    assert path.parent == folder / "profiles"
    assert len(path.name) < 200
    assert path.name not in (".json", "..json")


@given(st.lists(st.text(min_size=1, max_size=40), min_size=2, max_size=2, unique=True))
def test_different_keys_have_different_files(keys: list[str]) -> None:
    assert file_stem(keys[0]) != file_stem(keys[1])


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", "{}"])
def test_damaged_stored_profile_is_an_error_with_a_hint(tmp_path: Path, damage: str) -> None:
    store = ProfileStore(tmp_path)
    path = store.save(device_profile("key-cpu"))
    path.write_text(damage)
    with pytest.raises(FormatError) as caught:
        attach(platform(), store)
    assert caught.value.where == str(path)
    assert "python -m syclsched profile" in str(caught.value.hint)


def test_a_profile_of_another_device_is_refused(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.save(device_profile("another")).rename(store.path("key-cpu"))
    with pytest.raises(FormatError, match=r"identity\.key"):
        store.load("key-cpu")


def test_a_damaged_pair_is_refused(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.save_pair(pair_profile("key-cpu", "key-accelerator")).write_text("{")
    with pytest.raises(FormatError, match="JSON"):
        attach(platform(), store)


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        ProfileStore(tmp_path / "file").save(device_profile())


# --- attaching --------------------------------------------------------------------------------------


def test_an_empty_store_changes_nothing(tmp_path: Path) -> None:
    assert attach(platform(), ProfileStore(tmp_path)) == platform()


def test_profiles_give_lanes_links_submission_and_interference(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.save(device_profile("key-cpu", lanes=2))
    store.save_pair(pair_profile("key-cpu", "key-accelerator", interference=0.8))
    attached = attach(platform(), store)
    cpu = attached.device("cpu")
    assert cpu.profile == device_profile("key-cpu", lanes=2)
    assert cpu.lanes == 2
    assert attached.device("accelerator").profile is None
    assert attached.submission_s == 1e-5

    to_cpu, from_cpu = attached.link(HOST, "cpu"), attached.link("cpu", HOST)
    assert to_cpu == Link(HOST, "cpu", 2e-5, 5e9, "measured")
    assert from_cpu == Link("cpu", HOST, 3e-5, 6e9, "measured")
    assert attached.link("cpu", "accelerator") == Link("cpu", "accelerator", 4e-5, 4e9, "measured")
    assert attached.link("accelerator", "cpu") == Link("accelerator", "cpu", 1e-5, 1e9, "assumed")
    assert attached.link(HOST, "accelerator") == Link(HOST, "accelerator", 1e-5, 1e9, "assumed")

    assert attached.interference("accelerator", "cpu") == 0.8
    assert attached.interference("cpu", "cpu") == 0.1  # two lanes of it, as its profile has measured


def test_a_busy_machine_does_not_set_the_number_of_lanes(tmp_path: Path) -> None:
    from dataclasses import replace

    profile = device_profile("key-cpu", lanes=4)
    noisy = replace(profile, provenance=replace(profile.provenance, busy=True))
    assert with_profiles(platform(), {"key-cpu": profile}, ()).device("cpu").lanes == 4
    found = with_profiles(platform(), {"key-cpu": noisy}, ()).device("cpu")
    assert (found.lanes, found.profile) == (1, noisy)


def test_busy_machine_does_not_decide_core_sharing() -> None:
    from dataclasses import replace

    quiet = pair_profile("key-cpu", "key-accelerator", interference=0.0)
    noisy = replace(quiet, provenance=replace(quiet.provenance, busy=True))
    lanes = {"key-cpu": device_profile("key-cpu", lanes=2)}
    assert with_profiles(platform(), lanes, [quiet]).interference("cpu", "accelerator") == 0.0
    assert with_profiles(platform(), {}, [quiet]).interference("cpu", "accelerator") == 1.0  # kernels use all cores
    assert with_profiles(platform(), {}, [noisy]).interference("cpu", "accelerator") == 1.0
    elsewhere = replace(platform(), interferences=())
    assert with_profiles(elsewhere, {}, [noisy]).interferences == (Interference("cpu", "accelerator", 0.0, "measured"),)


def test_spec_sheets_are_not_called_measured() -> None:
    from dataclasses import replace

    published = replace(device_profile("key-cpu"), origin="spec-sheet")
    link = with_profiles(platform(), {"key-cpu": published}, ()).link(HOST, "cpu")
    assert link is not None
    assert link.origin == "spec-sheet"
