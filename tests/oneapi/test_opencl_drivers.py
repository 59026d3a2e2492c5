# SPDX-License-Identifier: Apache-2.0
"""OpenCL drivers of other installations: checked before they are loaded, in a process of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from syclsched.oneapi import crash_marker, libraries, loading, opencl_drivers

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler to make a driver with")

LOADED = """
import json, os
from syclsched import oneapi
runtime = oneapi.load()
from syclsched.devices import discover
print(json.dumps({
    "devices": [device.name for device in discover().compute_devices], "notes": runtime.notes,
    "icd_files": runtime.icd_files, "vendors": os.environ.get("OCL_ICD_VENDORS"),
}))
"""


def compiled(folder: Path, source: str) -> Path:
    """Return a shared library compiled from C."""
    (folder / "driver.c").write_text(source)
    library = folder / "libdriver.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "driver.c"], check=True)
    return library


def vendor_file(folder: Path, library: object, name: str = "a.icd") -> Path:
    """Return a folder of vendor files with one that names a library."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"{library}\n")
    return folder


CRASHING = "#include <stdlib.h>\n__attribute__((constructor)) static void start(void) { abort(); }\n"


# --- which drivers are named ----------------------------------------------------------------------------


def test_vendor_files_and_the_variable_name_drivers(tmp_path: Path) -> None:
    folder = vendor_file(tmp_path / "v", "libb.so.2", "b.icd")
    vendor_file(folder, "/l/a.so", "a.icd")
    (folder / "empty.icd").write_text("")
    (folder / "other.txt").write_text("/l/other.so")
    own = {"OCL_ICD_FILENAMES": "/l/mine.so:/l/a.so", "OCL_ICD_VENDORS": str(folder)}
    assert opencl_drivers.named_drivers(own) == (
        ("/l/mine.so", "OCL_ICD_FILENAMES"),
        ("/l/a.so", "OCL_ICD_FILENAMES"),
        ("libb.so.2", str(folder / "b.icd")),
    )
    assert opencl_drivers.named_drivers({"OCL_ICD_VENDORS": opencl_drivers.NO_VENDOR_FILES}) == ()


def test_without_a_name_no_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
    own = {"OCL_ICD_VENDORS": opencl_drivers.NO_VENDOR_FILES}
    assert loading.ask_drivers(own, (), ()) == ()
    assert opencl_drivers.ask([("/l/known.so", "a.icd")], ["libOpenCL.so.1"], ["/l/known.so", None]) == ()


# --- the drivers' answers -------------------------------------------------------------------------------


@pytest.fixture
def loader() -> list[str]:
    """The libraries of the OpenCL loader, the loader last."""
    places = libraries.sources(os.environ)
    names = ("libintlc.so.5", "libsvml.so", "libirng.so", "libimf.so", "libOpenCL.so.1")
    found = [libraries.find_library(name, places) for name in names]
    return [each for each in found if each is not None]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "syclsched" / "opencl-drivers"


@pytest.mark.sycl
def test_devices_of_a_driver_are_queried_once_and_cached(
    loader: list[str], own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = libraries.find_library(libraries.CPU_ICD_LIBRARY, libraries.sources(os.environ))
    (driver,) = opencl_drivers.ask([(str(path), "a.icd")], loader)
    assert driver.failure is None and not driver.crashes
    assert [(each.platform, each.usm) for each in driver.devices] == [("Intel(R) OpenCL", True)]
    assert driver.devices[0].spirv.startswith("SPIR-V") and driver.devices[0].version.startswith("OpenCL 3")
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
        assert opencl_drivers.ask([(str(path), "a.icd")], loader) == (driver,)
    (kept,) = own_cache.glob("*.json")
    kept.write_text(kept.read_text().replace('"state": [', '"state": [1, '))
    assert opencl_drivers.ask([(str(path), "a.icd")], loader) == (driver,)
    assert '"state": [1, ' not in kept.read_text()


@pytest.mark.sycl
def test_a_missing_driver_is_reported(loader: list[str], own_cache: Path) -> None:
    (driver,) = opencl_drivers.ask([("/absent/driver.so", "a.icd")], loader)
    assert driver.devices == () and not driver.crashes
    assert driver.failure is not None and "/absent/driver.so" in driver.failure
    assert not own_cache.exists()


@needs_compiler
@pytest.mark.sycl
def test_a_crash_of_a_driver_is_described(loader: list[str], tmp_path: Path) -> None:
    source = "#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void start(void)\n"
    library = compiled(tmp_path, source + '{ puts("not on this machine"); fflush(stdout); abort(); }\n')
    (driver,) = opencl_drivers.ask([(str(library), "a.icd")], loader)
    assert driver.crashes and driver.failure is not None
    assert "SIGABRT" in driver.failure and "not on this machine" in driver.failure


# --- effects on the process -----------------------------------------------------------------------------


@needs_compiler
@pytest.mark.sycl
def test_a_driver_that_crashes_is_left_out(tmp_path: Path, fresh: Any) -> None:
    library = compiled(tmp_path, CRASHING)
    folder = vendor_file(tmp_path / "vendors", library)
    vendor_file(folder, "/absent/driver.so", "b.icd")
    found = fresh(LOADED, OCL_ICD_VENDORS=str(folder), SYCLSCHED_FPGA_EMULATOR="0")
    assert found["devices"] == ["cpu"]
    assert any(str(library) in note and "SIGABRT" in note for note in found["notes"])
    assert [Path(each).name for each in found["icd_files"]] == ["libintelocl.so", "driver.so"]
    assert found["vendors"] == opencl_drivers.NO_VENDOR_FILES


@needs_compiler
@pytest.mark.sycl
def test_the_users_own_list_loses_only_the_driver_that_crashes(tmp_path: Path, fresh: Any) -> None:
    intel = libraries.find_library(libraries.CPU_ICD_LIBRARY, libraries.sources(os.environ))
    library = compiled(tmp_path, CRASHING)
    empty = tmp_path / "vendors"
    empty.mkdir()
    found = fresh(LOADED, OCL_ICD_FILENAMES=f"{library}:{intel}", OCL_ICD_VENDORS=str(empty))
    assert found["devices"] == ["cpu"] and found["icd_files"] == [intel]


@needs_compiler
@pytest.mark.sycl
def test_a_driver_that_begins_to_crash_kills_one_process_only(tmp_path: Path, fresh: Any, own_cache: Path) -> None:
    # It passed the check before; then a process that loaded it died, as the marker file shows.
    library = compiled(tmp_path, "int nothing;\n")
    folder = vendor_file(tmp_path / "vendors", library)
    assert fresh(LOADED, OCL_ICD_VENDORS=str(folder), SYCLSCHED_FPGA_EMULATOR="0")["devices"] == ["cpu"]
    (kept,) = own_cache.glob("*.json")
    content = kept.read_text()
    marker = opencl_drivers.guard_file()
    assert not marker.exists()
    with crash_marker.mark(marker):
        left = marker.read_text().split()
    marker.write_text(f"{left[0]} 1")  # of an earlier process with this identifier
    other = opencl_drivers.DriverDevice("B", "P", "", "", "", False)
    kept.write_text(content.replace('"devices": []', f'"devices": [{json.dumps(asdict(other))}]'))
    assert fresh(LOADED, OCL_ICD_VENDORS=str(folder), SYCLSCHED_FPGA_EMULATOR="0")["devices"] == ["cpu"]
    assert kept.read_text() == content and not marker.exists()


@pytest.mark.sycl
def test_same_intel_driver_twice_is_one_device(tmp_path: Path, fresh: Any) -> None:
    intel = Path(str(libraries.find_library(libraries.CPU_ICD_LIBRARY, libraries.sources(os.environ))))
    copy = tmp_path / "copy"
    copy.mkdir()
    for each in intel.parent.iterdir():
        if each.name.startswith(("clbltfn", "cllibrary", "__ocl_svml_", "libcommon_clang", "cl.cfg")):
            (copy / each.name).symlink_to(each)
    shutil.copyfile(intel, copy / intel.name)  # not a link, which the loader would recognise
    folder = vendor_file(tmp_path / "vendors", copy / intel.name)
    shown = LOADED.replace("print(", "import dpctl; assert len(dpctl.get_devices()) == 2\nprint(")
    found = fresh(shown, OCL_ICD_VENDORS=str(folder), SYCLSCHED_FPGA_EMULATOR="0")
    assert found["devices"] == ["cpu"]
