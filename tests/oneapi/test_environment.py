# SPDX-License-Identifier: Apache-2.0
"""Environment variables: the user's values have precedence, and child processes tell them from their parent's."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from syclsched.oneapi import environment
from syclsched.oneapi.environment import (
    HOST_TASK_THREADS_VARIABLE,
    ICD_VARIABLE,
    RECORD_VARIABLE,
    VENDORS_VARIABLE,
    RequestedSettings,
)

WISHES = RequestedSettings(icd_files=("/lib/cpu.so", "/cache/emu.so"), layer="/pkg/layer.so", target_arch="skx")
NAMES = (ICD_VARIABLE, "OPENCL_LAYERS", "CL_CONFIG_CPU_TARGET_ARCH", HOST_TASK_THREADS_VARIABLE)


def test_everything_is_set_where_the_user_set_nothing() -> None:
    values, notes = environment.decide({}, WISHES)
    assert values == {
        ICD_VARIABLE: "/lib/cpu.so:/cache/emu.so",
        "OPENCL_LAYERS": "/pkg/layer.so",
        "CL_CONFIG_CPU_TARGET_ARCH": "skx",
        HOST_TASK_THREADS_VARIABLE: "1",
    }
    assert notes == ()


def test_values_of_the_user_are_kept_and_noted() -> None:
    own = {ICD_VARIABLE: "/my/driver.so", "CL_CONFIG_CPU_TARGET_ARCH": "corei7", "OPENCL_LAYERS": "/my/layer.so"}
    own[HOST_TASK_THREADS_VARIABLE] = "4"
    values, notes = environment.decide(own, WISHES)
    assert values == {"OPENCL_LAYERS": "/my/layer.so:/pkg/layer.so"}
    assert any("/my/driver.so" in note for note in notes)
    assert any("corei7" in note for note in notes)
    assert any(HOST_TASK_THREADS_VARIABLE in note and "(4)" in note for note in notes)


def test_harmless_drivers_are_listed_in_place_of_the_vendor_files() -> None:
    some = RequestedSettings(icd_files=("/lib/cpu.so",), harmless_drivers=("libpocl.so",), no_vendor_files="/none")
    values, _ = environment.decide({}, some)
    assert values.pop(HOST_TASK_THREADS_VARIABLE) == "1"
    assert values == {ICD_VARIABLE: "/lib/cpu.so:libpocl.so", VENDORS_VARIABLE: "/none"}
    values, _ = environment.decide({ICD_VARIABLE: "/bad.so:/good.so"}, replace(some, harmless_drivers=("/good.so",)))
    assert values[ICD_VARIABLE] == "/good.so"


def test_a_drivers_own_variables_do_not_concern_other_devices() -> None:
    own = {"POCL_WORK_GROUP_METHOD": "cbs", "CL_CONFIG_CPU_TARGET_ARCH": "skx", "HOME": "/"}
    boot = environment.boot_environment(own)
    assert environment.variables_for("Portable Computing Language | OpenCL 3.0", boot) == boot
    assert environment.variables_for("Intel(R) OpenCL | 3", boot) == {"CL_CONFIG_CPU_TARGET_ARCH": "skx"}


def test_nothing_found_sets_the_number_of_host_task_threads_only() -> None:
    assert environment.decide({}, RequestedSettings()) == ({HOST_TASK_THREADS_VARIABLE: "1"}, ())


@given(st.dictionaries(st.sampled_from((*NAMES, "HOME")), st.text("abc/:", max_size=6)))
def test_a_child_process_decides_like_its_parent(own: dict[str, str]) -> None:
    environ = dict(own)
    values, notes = environment.decide(environment.user_environment(environ), WISHES)
    environment.apply(environ, values)
    assert environment.user_environment(environ) == own
    assert environment.decide(environment.user_environment(environ), WISHES) == (values, notes)
    environment.apply(environ, {})
    assert {name: value for name, value in environ.items() if name != RECORD_VARIABLE} == own


def test_values_changed_in_a_child_process_belong_to_the_user() -> None:
    environ: dict[str, str] = {}
    environment.apply(environ, {ICD_VARIABLE: "/ours.so"})
    environ[ICD_VARIABLE] = "/theirs.so"
    assert environment.user_environment(environ) == {ICD_VARIABLE: "/theirs.so"}


def test_an_invalid_record_changes_nothing() -> None:
    for nonsense in ("", "[1]", "{", '{"A": 3}', '{"A": ["x"]}'):
        own = {"A": "x", ICD_VARIABLE: "/d.so"}
        assert environment.user_environment({**own, RECORD_VARIABLE: nonsense}) == own


def test_boot_environment_has_code_settings_and_file_names() -> None:
    environ = {
        "HOME": "/home/u",
        "CL_CONFIG_CPU_VECTORIZER_MODE": "1",
        "ONEAPI_DEVICE_SELECTOR": "opencl:cpu",
        ICD_VARIABLE: "/a/x.so:/b/y.so",
    }
    assert environment.boot_environment(environ) == {
        "CL_CONFIG_CPU_VECTORIZER_MODE": "1",
        "ONEAPI_DEVICE_SELECTOR": "opencl:cpu",
        ICD_VARIABLE: "x.so:y.so",
    }


def test_layers_of_the_user_precede_the_added_layer() -> None:
    assert environment.appended(None, "/l.so") == "/l.so"
    assert environment.appended("/a.so:/b.so", "/l.so") == "/a.so:/b.so:/l.so"
    assert environment.appended("/l.so", "/l.so") == "/l.so"
