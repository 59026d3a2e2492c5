# SPDX-License-Identifier: Apache-2.0
"""Findings of the doctor, each from made-up facts instead of a broken machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from syclsched.devices.trust import diagnosis
from syclsched.oneapi.diagnosis import devices, installation
from syclsched.oneapi.diagnosis.facts import DeviceFact, Facts, Folder, Probe, RenderNode
from syclsched.oneapi.diagnosis.finding import Finding
from syclsched.oneapi.libraries import LibraryFound
from syclsched.oneapi.loading import explain_import_failure
from syclsched.oneapi.opencl_drivers import Driver, DriverDevice
from syclsched.oneapi.stack_generation import CURRENT, NUMBA_DPEX

CPU = DeviceFact("A CPU", "opencl", "cpu", "2024.18", True)
HEALTHY = Facts(
    system="Linux",
    machine="x86_64",
    python=(3, 11),
    versions={**NUMBA_DPEX.pins, "numpy": "1.26.4", "onnx": "1.22.0"},
    needed_sycl="libsycl.so.7",
    sycl_library="/v/lib/libsycl.so.7",
    adapter="/v/lib/libpi_opencl.so",
    tbb=("/v/lib/libtbb.so.12",),
    opencl_loader="/v/lib/libOpenCL.so.1",
    cpu_driver="/v/lib/libintelocl.so",
    named_drivers=(),
    layer="/v/_il_layer.so",
    submission="/v/_submit.so",
    machine_code="v3",
    no_machine_code="",
    emulator_off=False,
    users_variables={},
    target_arch="skx",
    instruction_sets=("AVX2", "AVX-512"),
    render_nodes=(),
    busy_fraction=0.01,
    load_average=0.1,
    processors=8,
    folders=(Folder("/home/u/.cache/syclsched", "cache", "XDG_CACHE_HOME", True, 10**8, 10**10),),
    probe=Probe(devices=(CPU,), emulator="/c/libintelocl_emu.so", onednn=""),
)


def troubles(**changes: Any) -> list[Finding]:
    """Return the findings about a healthy machine after some changes."""
    judged = diagnosis.judge(replace(HEALTHY, **changes))
    return [each for each in judged if each.status in {"warning", "missing"}]


def only(**changes: Any) -> Finding:
    found = troubles(**changes)
    assert len(found) == 1, found
    assert found[0].meaning, "a trouble without its meaning helps nobody"
    return found[0]


def test_a_healthy_machine_has_no_trouble() -> None:
    assert troubles() == []
    assert diagnosis.usable(HEALTHY)


def test_wrong_pair_of_dpctl_and_numba_dpex() -> None:
    found = only(versions={**HEALTHY.versions, "dpctl": "0.22.1"})
    assert found.status == "missing" and "dpctl 0.22.1" in found.what
    assert found.mend == 'python -m pip install "dpctl==0.17.0" "numpy>=1.24,<2"'


def test_numba_dpex_left_over_in_the_current_generation() -> None:
    found = only(versions={**CURRENT.pins, "numpy": "2.1.0", "onnx": "1.22.0", "numba-dpex": "0.23.0"})
    assert found.status == "missing" and "numba-dpex 0.23.0 beside dpctl 0.22.1" in found.what
    assert found.mend == "python -m pip uninstall -y numba-dpex"


def test_a_release_that_was_not_tested_with_the_rest() -> None:
    versions = {**CURRENT.pins, "numpy": "2.1.0", "onnx": "1.22.0", "intel-sycl-rt": "2026.2.0"}
    found = only(versions=versions)
    assert found.status == "warning" and "intel-sycl-rt 2026.2.0" in found.what
    assert found.mend == 'python -m pip install "intel-sycl-rt==2026.1.2" "numpy>=1.26,<3"'


def test_the_generation_is_named_with_advantages_of_the_other() -> None:
    found = about("generation")
    assert found.what.startswith("numba-dpex; the other, current, offers NumPy 2") and "-C generation=" in found.what
    found = about("generation", versions=CURRENT.pins, python=(3, 13))
    assert found.what.startswith("current; the other, numba-dpex, offers") and "Python 3.10 to 3.11" in found.what


def test_two_copies_of_onetbb() -> None:
    found = only(tbb=("/opt/lib/libtbb.so.12", "/v/lib/libtbb.so.12"))
    assert found.status == "warning" and "/opt/lib/libtbb.so.12" in found.what


def test_wrong_numba_and_wrong_numpy() -> None:
    assert "numba==0.59.1" in str(only(versions={**HEALTHY.versions, "numba": "0.68.0"}).mend)
    assert only(versions={**HEALTHY.versions, "numpy": "2.1.0"}).mend == 'python -m pip install "numpy>=1.24,<2"'


def test_the_current_generation_may_have_numpy_2() -> None:
    versions = {"dpctl": "0.22.1", "numpy": "2.1.0"}
    assert not [
        each for each in installation.judge_packages(replace(HEALTHY, versions=versions)) if "NumPy" in each.what
    ]


def test_packages_that_are_not_installed() -> None:
    versions = {name: version for name, version in HEALTHY.versions.items() if name not in {"dpctl", "dpnp"}}
    found = only(versions=versions)
    assert found.what == "not installed: dpctl, dpnp"
    assert found.mend == 'python -m pip install "dpctl==0.17.0" "dpnp==0.15.0" "numpy>=1.24,<2"'


def test_no_opencl_library() -> None:
    found = only(opencl_loader=None)
    assert found.status == "missing" and "no OpenCL library" in found.what and "intel-opencl-rt" in str(found.mend)


def test_no_opencl_driver_unless_the_user_names_one() -> None:
    assert "no OpenCL driver" in only(cpu_driver=None).what
    assert troubles(cpu_driver=None, users_variables={"OCL_ICD_FILENAMES": "mine.so"}) == []


def test_the_2026_2_wheel_without_adapter() -> None:
    none = Probe(emulator="", onednn="")
    versions = {**HEALTHY.versions, "intel-sycl-rt": "2026.2.0"}
    _, found, devices = troubles(adapter=None, versions=versions, probe=none)
    assert found.status == "missing" and "2026.2 wheel" in str(found.meaning) and found.mend is not None
    assert devices.topic == "devices"
    assert "2026.2" not in str(troubles(adapter=None, probe=none)[0].meaning)
    assert troubles(adapter=None) == [], "the loader of some releases has the adapter within"


def test_no_sycl_library_of_the_generation_dpctl_needs() -> None:
    strange, found = troubles(sycl_library=None, versions={**HEALTHY.versions, "intel-sycl-rt": "2025.0.0"})
    assert strange.topic == "packages"
    assert "libsycl.so.7" in found.what and "2025.0.0" in found.what


def test_the_submission_loop_was_not_built() -> None:
    found = only(submission=None)
    assert found.status == "missing" and found.is_blocking
    assert "gcc" in str(found.mend) and "no device can be opened" in str(found.meaning)


def test_the_machine_code_was_not_built() -> None:
    found = only(machine_code=None, no_machine_code="not built")
    assert found.status == "warning" and "g++" in str(found.mend) and "first plans" in str(found.meaning)


def test_the_layer_was_not_built() -> None:
    found = only(layer=None)
    assert found.status == "warning" and "gcc" in str(found.mend) and "FPGA emulator" in str(found.meaning)


def test_a_gpu_that_may_not_be_opened() -> None:
    found = only(render_nodes=(RenderNode("/dev/dri/renderD128", False, "render", "0x8086"),))
    assert found.status == "missing" and str(found.mend).startswith("sudo usermod -aG render $USER")


def test_an_intel_gpu_without_its_driver() -> None:
    node = RenderNode("/dev/dri/renderD128", True, "render", "0x8086")
    assert "does not show it" in only(render_nodes=(node,)).what
    assert troubles(render_nodes=(replace(node, vendor="0x1af4"),)) == []
    gpu = DeviceFact("A GPU", "level_zero", "gpu", "1.3", True)
    assert troubles(render_nodes=(node,), probe=replace(HEALTHY.probe, devices=(CPU, gpu))) == []


@pytest.mark.parametrize(("vendor", "maker", "backend"), [("0x10de", "NVIDIA", "cuda"), ("0x1002", "AMD", "hip")])
def test_a_gpu_without_packaged_adapter_is_reported(vendor: str, maker: str, backend: str) -> None:
    node = RenderNode("/dev/dri/renderD128", True, "render", vendor)
    found = only(render_nodes=(node, node))
    assert maker in found.what and f"libur_adapter_{backend}.so" in str(found.mend)
    assert NUMBA_DPEX.pins["intel-sycl-rt"] in str(found.mend)
    gpu = DeviceFact("A GPU", backend, "gpu", "1.3", True)
    assert troubles(render_nodes=(node,), probe=replace(HEALTHY.probe, devices=(CPU, gpu))) == []


def said_of(driver: Driver, **changes: Any) -> Finding:
    found = list(devices.judge_drivers(replace(HEALTHY, named_drivers=(driver,), **changes)))
    assert len(found) == 1, found
    return found[0]


def test_the_use_of_other_opencl_drivers_is_reported() -> None:
    device = DriverDevice("A CPU", "Portable Computing Language", "OpenCL 3.0", "2024.18", "SPIR-V_1.2", True)
    driver = Driver("libpocl.so.2", "/etc/OpenCL/vendors/pocl.icd", (device,))
    assert said_of(driver).status == "ok"
    for lacking, reason in (
        (replace(device, driver="3.1", spirv=""), "not shown by the SYCL runtime: it does not take SPIR-V"),
        (replace(device, driver="3.1", usm=False), "it has no unified shared memory"),
        (replace(device, driver="3.1", platform="NVIDIA CUDA"), "through its CUDA adapter only"),
        (replace(device, driver="3.1"), "does not give a reason (OpenCL 3.0)"),
    ):
        found = said_of(replace(driver, devices=(lacking,)))
        assert found.status == "info" and reason in found.what and "pocl.icd" in found.what
    hidden = said_of(replace(driver, devices=(replace(device, name="B"),)), users_variables={
        "ONEAPI_DEVICE_SELECTOR": "opencl:0"
    })  # fmt: skip
    assert "ONEAPI_DEVICE_SELECTOR=opencl:0" in hidden.what
    assert "has no device" in said_of(replace(driver, devices=())).what


def test_a_driver_that_crashes_and_one_that_is_not_there() -> None:
    crashing = Driver("/l/driver.so", "/etc/OpenCL/vendors/a.icd", (), "it ended the process (SIGABRT)", True)
    found = only(named_drivers=(crashing,))
    assert "left out" in found.what and "SIGABRT" in found.what and "a.icd" in str(found.mend)
    absent = said_of(replace(crashing, failure="no such file", crashes=False))
    assert absent.status == "info" and "does not load: no such file" in absent.what


def test_a_device_without_usm_is_no_fault() -> None:
    lacking = replace(CPU, name="B", trusted=False, reason="no memory", has_usm=False, skipped=("x: y",))
    assert troubles(probe=replace(HEALTHY.probe, devices=(CPU, lacking))) == []


def test_a_device_that_computes_wrong_results() -> None:
    wrong = replace(CPU, trusted=False, reason="wrong results: arange of float32")
    facts = replace(HEALTHY, probe=replace(HEALTHY.probe, devices=(wrong,)))
    assert not diagnosis.usable(facts)
    found = only(probe=facts.probe)
    assert "arange of float32" in found.what and "VECTORIZER_MODE" in str(found.mend)
    mine = only(probe=facts.probe, users_variables={"CL_CONFIG_USE_FAST_RELAXED_MATH": "True"})
    assert mine.mend == "unset CL_CONFIG_USE_FAST_RELAXED_MATH"


def test_no_devices_at_all() -> None:
    nothing = replace(HEALTHY.probe, devices=())
    assert "pip install" in str(only(probe=nothing).mend)
    selector = {"ONEAPI_DEVICE_SELECTOR": "cuda:*"}
    assert only(probe=nothing, users_variables=selector).mend == "unset ONEAPI_DEVICE_SELECTOR"


def test_a_killed_check_process_is_reported_with_its_device() -> None:
    died = Probe(devices=(replace(CPU, trusted=None),), emulator="/e", died="SIGILL", stderr="last words")
    found = troubles(probe=died)
    assert ["SIGILL" in found[0].what, "last words" in str(found[0].meaning)] == [True, True]
    assert "did not end" in found[1].what
    assert str(found[0].mend).startswith("ONEAPI_DEVICE_SELECTOR='!opencl:cpu' ")
    before = troubles(probe=Probe(emulator="/e", died="SIGSEGV"))
    assert str(before[0].mend).startswith("python -m pip install")


def test_loading_that_failed_is_not_reported_as_no_devices() -> None:
    found = only(probe=Probe(emulator="/e", error="dpctl is not installed", hint="More is known. Run: pip"))
    assert (found.topic, found.mend) == ("loading", "pip")


def test_a_library_that_did_not_load_names_its_package() -> None:
    broken = LibraryFound("libmkl_sycl_blas.so.4", None, "nowhere", "no such file")
    assert "onemkl-sycl-blas==2024.2.2" in str(only(probe=replace(HEALTHY.probe, libraries=(broken,))).mend)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"emulator_off": True}, "switched off"),
        ({"users_variables": {"OCL_ICD_FILENAMES": "x.so"}}, "OCL_ICD_FILENAMES is set"),
        ({"versions": {**HEALTHY.versions, "intel-opencl-rt": "2026.1.2"}}, "not available with"),
    ],
)
def test_why_there_is_no_emulator(changes: dict[str, Any], said: str) -> None:
    facts = replace(HEALTHY, probe=replace(HEALTHY.probe, emulator=None), **changes)
    found = next(each for each in diagnosis.judge(facts) if each.topic == "FPGA emulator")
    assert found.status == "info" and said in found.what


def test_an_emulator_that_could_not_be_made() -> None:
    probe = replace(HEALTHY.probe, emulator=None, notes=("no FPGA emulator: disk full",))
    assert only(probe=probe).what == "no FPGA emulator: disk full"


def test_an_architecture_the_runtime_does_not_know() -> None:
    assert only(users_variables={"CL_CONFIG_CPU_TARGET_ARCH": "znver5"}).mend == "unset CL_CONFIG_CPU_TARGET_ARCH"
    assert troubles(users_variables={"CL_CONFIG_CPU_TARGET_ARCH": "core-avx2"}) == []
    assert "fit none" in only(target_arch=None).what


def test_instruction_sets_found_and_used() -> None:
    probe = replace(HEALTHY.probe, compiles_for="skx", onednn_uses="avx512_core", blas_uses="SkylakeX (openblas 0.3)")
    said = "found: AVX2, AVX-512; used by the OpenCL CPU device skx, oneDNN avx512_core, NumPy's BLAS SkylakeX"
    assert about("instruction sets", probe=probe).what.startswith(said)
    unknown = about("instruction sets", instruction_sets=()).what
    assert unknown == "found: none that is known; used by nothing that could be asked"


def test_a_busy_machine() -> None:
    found = only(busy_fraction=0.8, load_average=6.5)
    assert "80% busy" in found.what and "6.50" in found.what
    assert troubles(busy_fraction=None, load_average=None) == []


def test_folders_that_cannot_take_anything() -> None:
    folder = HEALTHY.folders[0]
    read_only = only(folders=(replace(folder, writable=False),))
    assert "cannot be written" in read_only.what and str(read_only.mend).startswith("export XDG_CACHE_HOME=")
    assert "5 MB of free space" in only(folders=(replace(folder, free_bytes=5_000_000),)).what


@pytest.mark.parametrize(("python", "machine"), [((3, 9), "x86_64"), ((3, 11), "aarch64")])
def test_a_python_or_machine_the_packages_are_not_made_for(python: tuple[int, int], machine: str) -> None:
    assert only(python=python, machine=machine).status == "missing"


def test_import_failures_are_explained() -> None:
    what, hint = explain_import_failure("No module named 'dpctl'", {}, (), (3, 11))
    assert what == "dpctl is not installed" and '"dpctl==0.17.0"' in hint
    assert '"dpctl==0.22.1"' in explain_import_failure("No module named 'dpctl'", {}, (), (3, 13))[1]
    message = "libsycl.so.7: cannot open shared object file: No such file or directory"
    lost = LibraryFound("libsycl.so.7", None, "nowhere", "x")
    what, hint = explain_import_failure(message, {"dpctl": "0.17.0"}, (lost,), (3, 11))
    assert what.startswith("libsycl.so.7 could not be loaded") and '"intel-sycl-rt==2024.2.1"' in hint
    what, hint = explain_import_failure("numpy.core failed", {**NUMBA_DPEX.pins, "numpy": "2.1.0"}, (), (3, 11))
    assert "numpy 2.1.0 beside dpctl 0.17.0" in what and hint == 'python -m pip install "numpy>=1.24,<2"'
    what, hint = explain_import_failure("something else", {"dpctl": "0.17.0"}, (), (3, 11))
    assert "something else" in what and "pip install" in hint


def about(topic: str, **changes: Any) -> Finding:
    return next(each for each in diagnosis.judge(replace(HEALTHY, **changes)) if each.topic == topic)


def test_models_can_be_read_and_onednn_computes() -> None:
    assert about("ONNX models").what == "onnx 1.22.0"
    assert about("oneDNN").what == "onednn 2024.2.1, computes on the CPU device"
    assert about("oneDNN", probe=replace(HEALTHY.probe, onednn=None)).what == "onednn 2024.2.1"


def test_missing_packages_for_models_are_no_fault() -> None:
    bare = {name: version for name, version in HEALTHY.versions.items() if name not in ("onnx", "onednn")}
    assert troubles(versions=bare) == []
    for topic in ("ONNX models", "oneDNN"):
        found = about(topic, versions=bare)
        assert found.status == "info" and "pip install 'syclsched[onnx]'" in found.what


def test_a_failing_onednn_is_reported_with_its_error() -> None:
    found = only(probe=replace(HEALTHY.probe, onednn="libdnnl.so.3 needs libsycl.so.8"))
    assert found.topic == "oneDNN" and "libsycl.so.8" in found.what and "syclsched[onnx]" in str(found.mend)


def test_a_cpu_device_refused_by_onednn_is_no_fault() -> None:
    other = replace(CPU, refusals=("oneDNN: no engine there",))
    assert about("oneDNN", probe=replace(HEALTHY.probe, devices=(other,), onednn="no engine there")).status == "info"
