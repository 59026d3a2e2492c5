# SPDX-License-Identifier: Apache-2.0
"""Loading of the SYCL stack in a process without settings, and with the user's settings kept."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import syclsched
from syclsched.oneapi import built_libraries
from syclsched.oneapi.emulator import supported
from syclsched.oneapi.stack_generation import installed

REPORT = """
import json, sys
from syclsched import oneapi
{before}
runtime = oneapi.load()
assert oneapi.is_loaded() and oneapi.load() is runtime
import dpctl
print(json.dumps({{
    "devices": sorted({{device.device_type.name for device in dpctl.get_devices()}}),
    "icd_files": runtime.icd_files, "layer": runtime.layer, "emulator": runtime.emulator,
    "target_arch": runtime.target_arch, "boot": runtime.boot_environment, "notes": runtime.notes,
    "failed": [each.name for each in runtime.libraries if each.error],
    "versions": runtime.versions, "more": {more},
}}))
"""


def report(before: str = "", more: str = "None") -> str:
    return REPORT.format(before=before, more=more)


#: Whether the installed runtime has an emulator, and the kinds of devices in a process without settings.
EMULATED = supported(metadata.version("intel-opencl-rt"))
DEVICES = ["accelerator", "cpu"] if EMULATED else ["cpu"]

needs_emulator = pytest.mark.skipif(not EMULATED, reason="no FPGA emulator can be made of this generation's runtime")


def test_importing_loads_no_libraries() -> None:
    code = (
        "import os, sys; before = dict(os.environ); import syclsched.oneapi as o; "
        "assert not o.is_loaded() and dict(os.environ) == before; "
        "assert not {'dpctl', 'platformdirs', 'typer', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(syclsched.__file__).parents[1])


@pytest.mark.sycl
def test_without_settings_the_cpu_and_the_emulator_are_found(fresh: Any) -> None:
    found = fresh(report())
    assert found["failed"] == []
    assert found["devices"] == DEVICES
    known = ([] if EMULATED else ["no FPGA emulator"]) + ([] if found["layer"] else ["no OpenCL layer"])
    assert [note for note in found["notes"] if not note.startswith(tuple(known))] == []
    drivers = ["libintelocl.so", *(["libintelocl_emu.so"] if EMULATED else [])]
    assert found["boot"]["OCL_ICD_FILENAMES"].split(":")[: len(drivers)] == drivers
    assert found["boot"].get("CL_CONFIG_CPU_TARGET_ARCH") == found["target_arch"]


_MKL = "any('libmkl_sycl' in line for line in open('/proc/self/maps'))"


@pytest.mark.sycl
@pytest.mark.parametrize(
    "cause", ["import dpnp", "from syclsched.oneapi.loading import load_math_libraries; load_math_libraries()"]
)
def test_the_libraries_of_dpnp_are_loaded_with_it(fresh: Any, cause: str) -> None:
    more = f"[{_MKL}, exec({cause!r}), {_MKL}, __import__('dpnp').arange(3).asnumpy().tolist()]"
    assert fresh(report(more=more))["more"] == [False, None, True, [0, 1, 2]]


@pytest.mark.sycl
def test_looking_whether_dpnp_is_installed_loads_nothing(fresh: Any) -> None:
    more = f"[__import__('importlib.util').util.find_spec('dpnp') is not None, {_MKL}]"
    assert fresh(report(more=more))["more"] == [True, False]


#: A product by oneMKL without dpnp, then one by dpnp.
_PRODUCTS = """
import sys
oneapi.load()
import dpctl, numpy as np
from syclsched.oneapi.dpctl_interface import usm_arrays
dpt = usm_arrays()
from syclsched.kernels.linalg import onemkl
def mapped(name):
    return any(name in line for line in open('/proc/self/maps'))
queue = dpctl.SyclQueue('cpu', property='in_order')
c, a, b = (dpt.asarray(np.full((4, 4), x, 'float32'), sycl_queue=queue) for x in (9, 1, 2))
onemkl.gemm(queue, {'c': c, 'a': a, 'b': b, 'alpha': -1.0, 'beta': 1.0, 'trans_a': 0, 'trans_b': 1}, []).wait()
seen = [mapped('libmkl_sycl_blas'), mapped('libmkl_sycl_vm'), 'dpnp' in sys.modules, float(dpt.asnumpy(c)[0, 0])]
import dpnp
seen += [mapped('libmkl_sycl_vm'), float(dpnp.matmul(*[dpnp.ones((4, 4), sycl_queue=queue)] * 2).asnumpy()[0, 0])]
"""


@pytest.mark.sycl
def test_a_product_by_onemkl_needs_no_dpnp_and_leaves_it_usable(fresh: Any) -> None:
    blas, other, dpnp, first, later, second = fresh(report(_PRODUCTS, "seen"))["more"]
    assert (blas, first, later, second) == (True, 1.0, True, 4.0)
    # dpnp holds the arrays of the current generation.
    assert (other, dpnp) == ((False, False) if installed().array_module == "dpctl.tensor" else (True, True))


@pytest.mark.sycl
def test_many_threads_load_once(fresh: Any) -> None:
    before = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    assert len({id(each) for each in pool.map(lambda _: oneapi.load(), range(16))}) == 1"
    )
    assert "cpu" in fresh(report(before))["devices"]


@needs_emulator
@pytest.mark.sycl
def test_two_processes_start_at_once_with_an_empty_cache(tmp_path: Path, fresh: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: fresh(report(), cache=tmp_path / "shared"), range(2))
    assert one["emulator"] == two["emulator"] is not None
    assert one["devices"] == two["devices"] == ["accelerator", "cpu"]
    assert len(list((tmp_path / "shared" / "syclsched" / "fpga-emulator").iterdir())) == 1


@needs_emulator
@pytest.mark.sycl
def test_a_cache_that_cannot_be_written_costs_the_emulator_only(tmp_path: Path, fresh: Any) -> None:
    (tmp_path / "no-folder").write_text("")
    found = fresh(report(), cache=tmp_path / "no-folder")
    assert found["devices"] == ["cpu"]
    assert any("could not be made" in note for note in found["notes"])


@pytest.mark.sycl
def test_the_emulator_can_be_switched_off(fresh: Any) -> None:
    found = fresh(report(), SYCLSCHED_FPGA_EMULATOR="0")
    assert found["devices"] == ["cpu"] and found["emulator"] is None


@pytest.mark.sycl
def test_an_import_of_dpctl_that_failed_before_does_no_harm(fresh: Any) -> None:
    before = "failed = ''\ntry:\n    import dpctl\nexcept ImportError as error:\n    failed = str(error)"
    found = fresh(report(before, "failed"), SYCLSCHED_FPGA_EMULATOR="0")
    if not found["more"]:
        pytest.skip("dpctl of this generation finds its libraries by itself")
    assert "libintlc.so.5" in found["more"] and found["devices"] == ["cpu"]


@pytest.mark.sycl
def test_settings_of_the_user_are_kept(fresh: Any) -> None:
    driver = fresh(report())["icd_files"][0]
    mine = {"OCL_ICD_FILENAMES": driver, "CL_CONFIG_CPU_TARGET_ARCH": "corei7-avx", "OPENCL_LAYERS": "/absent/layer.so"}
    found = fresh(report(more="dict(__import__('os').environ)"), **mine)
    assert found["devices"] == ["cpu"] and found["target_arch"] == "corei7-avx"
    assert found["more"]["OCL_ICD_FILENAMES"] == driver
    assert found["more"]["OPENCL_LAYERS"].split(":")[0] == "/absent/layer.so"
    assert any("OCL_ICD_FILENAMES" in note for note in found["notes"])


@pytest.mark.sycl
def test_the_device_selector_is_obeyed(fresh: Any) -> None:
    assert fresh(report(), ONEAPI_DEVICE_SELECTOR="opencl:cpu")["devices"] == ["cpu"]
    assert fresh(report(), ONEAPI_DEVICE_SELECTOR="opencl:fpga")["devices"] == ["accelerator"] * EMULATED


@pytest.mark.sycl
def test_a_child_process_sees_the_same_devices_and_no_users_wishes(fresh: Any) -> None:
    # The OpenCL loader truncates its variables in the environment that children inherit.
    child = "__import__('json').loads(__import__('subprocess').check_output([sys.executable, '-c', sys.argv[1]]))"
    script = report().strip()
    before = f"sys.argv.append({script!r})"
    found = fresh(report(before, more=child))
    inner = found.pop("more")
    assert inner.pop("more") is None
    assert inner == found


@needs_emulator
@pytest.mark.sycl
def test_a_child_may_do_without_the_emulator(fresh: Any) -> None:
    before = "import os\noneapi.load()\nos.environ['SYCLSCHED_FPGA_EMULATOR'] = '0'"
    child = "__import__('subprocess').check_output([sys.executable, '-c', sys.argv[1]], text=True)"
    found = fresh(report(before + f"\nsys.argv.append({report().strip()!r})", more=child))
    assert found["devices"] == DEVICES and '"devices": ["cpu"]' in found["more"]


@pytest.mark.sycl
def test_a_working_dpctl_is_left_unchanged(fresh: Any) -> None:
    # The parent's environment lets dpctl import by itself: libraries are found by LD_LIBRARY_PATH.
    folder = str(Path(fresh(report())["icd_files"][0]).parent)
    before = "import os, dpctl\nbefore = dict(os.environ)"
    more = "dict(os.environ) == before"
    found = fresh(report(before, more), LD_LIBRARY_PATH=folder)
    assert found["more"] is True and found["icd_files"] == []
    assert any("dpctl was imported before" in note for note in found["notes"])


@pytest.mark.sycl
def test_python_kernels_run_on_every_device(tmp_path: Path, fresh: Any) -> None:
    if built_libraries.find_layer() is None:
        pytest.skip("the OpenCL layer was not built")
    script = tmp_path / "kernel.py"
    script.write_text(
        "import json\n"
        "from syclsched import oneapi\n"
        "oneapi.load()\n"
        "import dpctl, dpnp, syclsched.dpex as dpex\n"
        "from syclsched.dpex import kernel_api as kapi\n"
        "@dpex.kernel\n"
        "def add(item: kapi.Item, a, b, c):\n"
        "    i = item.get_id(0)\n"
        "    c[i] = a[i] + b[i]\n"
        "right = {}\n"
        "for device in dpctl.get_devices():\n"
        "    a = dpnp.arange(1023, dtype='float32', device=device)\n"
        "    b, c = dpnp.ones_like(a), dpnp.zeros_like(a)\n"
        "    dpex.call_kernel(add, dpex.Range(1023), a, b, c)\n"
        "    right[device.device_type.name] = c.asnumpy().tolist() == [float(i + 1) for i in range(1023)]\n"
        "print(json.dumps(right))\n"
    )
    assert fresh(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')") == dict.fromkeys(DEVICES, True)


def test_numpy_of_another_generation_is_named(tmp_path: Path, fresh: Any) -> None:
    record = tmp_path / "numpy-9.0.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 9.0.0\n")
    code = f"""
import json, sys
sys.path.insert(0, {str(tmp_path)!r})
from syclsched import errors, oneapi
try:
    oneapi.load()
except errors.RuntimeMissingError as error:
    print(json.dumps([error.what, error.hint, "dpctl" in sys.modules]))
"""
    what, hint, imported = fresh(code)
    assert "numpy 9.0.0 beside dpctl" in what and 'pip install "numpy>=1.' in hint and not imported


def test_a_missing_dpctl_is_explained(fresh: Any) -> None:
    code = (
        "import sys, json\n"
        "sys.modules['dpctl'] = None\n"  # Python's own way to say that there is no such module.
        "from syclsched import oneapi\n"
        "from syclsched.errors import RuntimeMissingError\n"
        "try:\n"
        "    oneapi.load()\n"
        "except RuntimeMissingError as error:\n"
        "    print(json.dumps([str(error), oneapi.is_loaded()]))\n"
    )
    text, loaded = fresh(code)
    assert "dpctl" in text and "python -m pip install" in text and "doctor" in text
    assert loaded is False
