# SPDX-License-Identifier: Apache-2.0
"""Settings that single drivers need are made for them, and concern no other device."""

from __future__ import annotations

from syclsched.oneapi import environment
from syclsched.oneapi.driver_quirks import QUIRKS, needed_settings, variables_of
from syclsched.oneapi.environment import RequestedSettings
from syclsched.oneapi.opencl_drivers import Driver, DriverDevice

POCL = "Portable Computing Language"


def driver(platform: str, version: str) -> Driver:
    return Driver("lib.so", "a.icd", (DriverDevice("A CPU", platform, version, "OpenCL 3.0", "6.0", "SPIR-V", True),))


def test_only_the_versions_with_the_fault_get_the_setting() -> None:
    faulty = "OpenCL 3.0 PoCL 6.0+debian  Linux, None+Asserts, RELOC, SPIR-V, LLVM 18.1.8, SLEEF"
    assert needed_settings([driver(POCL, faulty)]) == {"POCL_WORK_GROUP_METHOD": "cbs"}
    assert needed_settings([driver(POCL, faulty.replace("18.1.8", "17.0.6"))]) == {}
    assert needed_settings([driver("Another", faulty), Driver("absent.so", "b.icd", (), "no such file")]) == {}
    assert all(quirk.reason for quirk in QUIRKS)


def test_the_users_own_value_is_kept() -> None:
    wanted = RequestedSettings(driver_settings={"POCL_WORK_GROUP_METHOD": "cbs"})
    assert environment.decide({}, wanted) == ({"POCL_WORK_GROUP_METHOD": "cbs"}, ())
    values, notes = environment.decide({"POCL_WORK_GROUP_METHOD": "loopvec"}, wanted)
    assert values == {} and "loopvec" in notes[0]


def test_a_drivers_own_variables_do_not_change_other_devices() -> None:
    boot = {"POCL_WORK_GROUP_METHOD": "cbs", "CL_CONFIG_CPU_TARGET_ARCH": "skx"}
    assert variables_of(f"{POCL} | OpenCL 3.0", boot) == boot
    assert variables_of("Intel(R) OpenCL | OpenCL 3.0", boot) == {"CL_CONFIG_CPU_TARGET_ARCH": "skx"}
