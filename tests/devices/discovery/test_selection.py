# SPDX-License-Identifier: Apache-2.0
"""Device selectors: those of ONEAPI_DEVICE_SELECTOR, and the short form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.machines import WORKSTATION

from syclsched.devices.discovery.device_facts import DeviceFacts
from syclsched.devices.discovery.selection import parse_selector
from syclsched.errors import SelectionError

NAMES = ("cpu", "accelerator", "gpu", "gpu1", "gpu", "gpu1")


def selected(text: str | None) -> set[str]:
    """Return the filter strings of the workstation's whole devices that a selector includes."""
    selector = parse_selector(text)
    pairs = zip(NAMES, WORKSTATION, strict=True)
    return {facts.filter_string for name, facts in pairs if selector.selection(name, facts).whole}


ALL = {facts.filter_string for facts in WORKSTATION}
CPU, FPGA = "opencl:cpu:0", "opencl:accelerator:0"
OCL = {"opencl:gpu:0", "opencl:gpu:1"}
ZE = {"level_zero:gpu:0", "level_zero:gpu:1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ALL),
        ("*:*", ALL),
        ("opencl:*", {CPU, FPGA} | OCL),
        ("OpenCL:GPU", OCL),
        ("opencl:0", {CPU}),
        ("opencl:1", {FPGA}),
        ("opencl:cpu,fpga", {CPU, FPGA}),
        ("opencl:cpu,gpu;level_zero:0", {CPU, "level_zero:gpu:0"} | OCL),
        ("opencl:2,3", OCL),
        ("*:gpu", OCL | ZE),
        ("*:0", {CPU, "level_zero:gpu:0"}),
        ("*:gpu;!opencl:*", ZE),
        ("!*:gpu", {CPU, FPGA}),
        ("!opencl:gpu;!*:fpga", {CPU} | ZE),
        ("!opencl:1;*:cpu,fpga", {CPU}),
        (" level_zero : 1 ; ", {"level_zero:gpu:1"}),
        ("native_cpu:*;opencl:0", {CPU}),
        ("cuda:*", set()),
        ("opencl:99", set()),
        ("cpu", {CPU}),
        ("cpu,accelerator", {CPU, FPGA}),
        ("CPU; fpga", {CPU, FPGA}),
        ("gpu", OCL | ZE),
        ("gpu0", {"opencl:gpu:0", "level_zero:gpu:0"}),
        ("gpu1", {"opencl:gpu:1", "level_zero:gpu:1"}),
        ("!accelerator", {CPU} | OCL | ZE),
        ("*,!gpu", {CPU, FPGA}),
    ],
)
def test_whole_devices(text: str | None, expected: set[str]) -> None:
    assert selected(text) == expected


def wish(text: str, facts: DeviceFacts = WORKSTATION[0]) -> tuple[bool, set[int]]:
    """Return whether a selector includes the whole device, and which of its first four parts."""
    found = parse_selector(text).selection("cpu", facts)
    return found.whole, {index for index in range(4) if found.includes_part(index)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("opencl:0.1", (False, {1})),
        ("opencl:0.0,0.3", (False, {0, 3})),
        ("opencl:0.*", (False, {0, 1, 2, 3})),
        ("*:*.*", (False, {0, 1, 2, 3})),
        ("opencl:0.*;!opencl:0.1", (False, {0, 2, 3})),
        ("cpu.1", (False, {1})),
        ("cpu.01", (False, {1})),
        ("cpu,cpu.0", (True, {0})),
        ("cpu.*,!cpu.0", (False, {1, 2, 3})),
        ("cpu.0,!cpu", (False, set())),
        ("opencl:1.0", (False, set())),
    ],
)
def test_parts(text: str, expected: tuple[bool, set[int]]) -> None:
    assert wish(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ; ",
        "foo",
        "foo:cpu",
        "opencl:",
        "opencl:foo",
        "opencl:cpu;gpu",
        "opencl:0.0.0",
        "opencl:-1",
        "opencl:cpu:0",
        "opencl:cpu,,gpu",
        "0",
        "!",
        "cpu.x",
        "gpu 1",
        "opencl:cpu1",
        "c" * 5000,
    ],
)
def test_malformed_selectors_are_refused(text: str) -> None:
    with pytest.raises(SelectionError) as caught:
        parse_selector(text)
    assert "ONEAPI_DEVICE_SELECTOR" in str(caught.value)


def test_the_error_names_the_term() -> None:
    with pytest.raises(SelectionError, match=r"'openc:gpu' names no backend.*opencl, level_zero") as caught:
        parse_selector("opencl:cpu;openc:gpu")
    assert caught.value.where == "selector 'opencl:cpu;openc:gpu'"


def test_only_the_short_form_is_strict_about_missing_devices() -> None:
    devices = tuple(zip(NAMES, WORKSTATION, strict=True))
    short = parse_selector("cpu,gpu2,!accelerator5")
    assert short.strict
    assert [term.text for term in short.unmatched(devices)] == ["gpu2"]
    assert not parse_selector("opencl:cpu;cuda:0").strict


@given(st.text(alphabet="opencl:level_zero*,;!.0123456789gpucf ", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        selector = parse_selector(text)
    except SelectionError:
        return
    assert selector.terms
    for name, facts in zip(NAMES, WORKSTATION, strict=True):
        selector.selection(name, facts)


@given(
    st.lists(st.sampled_from(["*:gpu", "opencl:*", "level_zero:0", "opencl:cpu", "*:1"]), max_size=4),
    st.lists(st.sampled_from(["*:gpu", "opencl:*", "level_zero:0", "opencl:cpu", "*:1"]), min_size=1, max_size=3),
)
def test_discards_win_over_accepts(accepts: list[str], discards: list[str]) -> None:
    text = ";".join([*accepts, *(f"!{each}" for each in discards)])
    base = selected(";".join(accepts)) if accepts else ALL
    assert selected(text) == base - selected(";".join(discards))
