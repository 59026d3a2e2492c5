# SPDX-License-Identifier: Apache-2.0
"""Settings shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Helpers are imported as `support.<module>` under importlib mode.
sys.path.insert(0, str(Path(__file__).parent))

from support.repeatable import restart

for _profile, _same_examples, _examples in (("ci", True, 15), ("new examples", False, 40)):
    settings.register_profile(
        _profile,
        deadline=None,
        max_examples=_examples,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=_same_examples,
        database=None,
    )
settings.load_profile("ci")

# Compiling kernels creates many permanent objects: less frequent collection saves a twentieth of the time.
gc.set_threshold(20_000, 20, 20)

# Background processes of a shell ignore Ctrl-C, and so do their children: tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Tests are independent of compiled programs that an earlier run has left; with the value 1 they use them.
os.environ.setdefault("SYCLSCHED_PROGRAM_CACHE", "0")

_KERNELS = Path(__file__).parent / "kernels"
#: Tests with many parameters whose values are seldom wrong only together.
_OF_CHOSEN_CASES = (_KERNELS, Path(__file__).parent / "frontends" / "onnx", Path(__file__).parent / "devices")
#: Number of imported modules at the last `gc.freeze`.
_imported = 0


def _freeze_imported_objects() -> None:
    """Exclude all present objects from garbage collection, which they would make some hundred times slower.

    Tests collect garbage to find leaks; modules, compiled kernels and collected tests are no leaks, and they are
    millions of objects.
    """
    global _imported
    _imported = len(sys.modules)
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _values_of_its_own(request: pytest.FixtureRequest) -> None:
    """Make random values of a test equal in every run, independent of earlier tests."""
    restart(request.node.nodeid)


@pytest.fixture
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory of the user without status files of other processes."""
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--gpu-shape",
        metavar="PLATFORM",
        help="show the devices of the OpenCL platform with this in its name as GPUs (auto: one that is always there)",
    )
    parser.addoption(
        "--all-runtimes",
        action="store_true",
        help="use every OpenCL driver of this machine (default: the installed one, or OCL_ICD_VENDORS)",
    )
    parser.addoption(
        "--all-cases",
        action="store_true",
        help="run tests of kernels and ONNX operators with every combination of parameters (default: each value at "
        "least once, kernels on the CPU device only), every case of tests marked one_case_in, and every node test of "
        "ONNX on the CPU device (default: each operator of each opset with each input dtype); try new random examples "
        "of properties, three times as many",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set up a data folder for the tests, and the GPU-shaped device before a test can load the SYCL stack."""
    if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit the folder
        data = tempfile.TemporaryDirectory(prefix="syclsched-data-")
        config.add_cleanup(data.cleanup)
        # Times measured here must not affect plans of users' graphs, nor theirs the tests.
        os.environ["XDG_DATA_HOME"] = data.name
        named = config.getoption("--gpu-shape") not in (None, "auto")  # the platform may be another driver's
        if not named and not config.getoption("--all-runtimes") and "OCL_ICD_VENDORS" not in os.environ:
            # Tests name the CPU device: another driver may show a second one.
            os.environ["OCL_ICD_VENDORS"] = data.name
    if config.getoption("--all-cases"):
        from support.examples import use_all_examples

        settings.load_profile("new examples")
        use_all_examples()
    platform = config.getoption("--gpu-shape")
    if platform is not None:
        from support.gpu_shape import show_as_gpu

        folder = tempfile.TemporaryDirectory(prefix="gpu-shape-")
        config.add_cleanup(folder.cleanup)
        show_as_gpu(os.environ, platform, Path(folder.name))


def _names_other_device(value: object) -> bool:
    """Return whether a parameter names the device beside the CPU device, as a word or in a list."""
    from support.gpu_shape import OTHER_DEVICE

    if isinstance(value, str):
        return OTHER_DEVICE in value.split(":")
    return isinstance(value, (list, tuple)) and any(map(_names_other_device, value))


def _is_for_other_device(item: pytest.Item) -> bool:
    """Return whether a parameter of a test names the device beside the CPU device."""
    return any(map(_names_other_device, getattr(getattr(item, "callspec", None), "params", {}).values()))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test of two devices where there is one: the FPGA emulator is not in every generation of SYCL packages."""
    if item.get_closest_marker("sycl") is None:
        return
    if _is_for_other_device(item) or item.get_closest_marker("other_device") is not None:
        from support.opened import skip_without_other_device

        skip_without_other_device()


@cache
def _is_below(path: Path, *folders: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select cases of tests with many parameters, and let the second of two processes begin with tests of kernels.

    They need none of the package's own compiled functions, which are cached on disk: the first process has compiled
    these before the second needs them. Otherwise both begin by compiling the same, for more than a minute.
    """
    from support.case_selection import each_choice, one_in

    if not config.getoption("--all-cases"):
        varied = [item for item in items if _is_below(item.path, *_OF_CHOSEN_CASES)]
        # The emulator's compiler is that of the CPU device; tests of execution use its kernels, too.
        if config.getoption("--gpu-shape") is None:
            kept = [item for item in varied if not (_is_below(item.path, _KERNELS) and _is_for_other_device(item))]
        else:
            kept = varied
        chosen = set(items) - set(varied) | set(each_choice(kept))
        chosen = set(one_in([item for item in items if item in chosen]))
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    kernels = [item for item in items if _is_below(item.path, _KERNELS)]
    others = [item for item in items if not _is_below(item.path, _KERNELS)]
    half = min((len(kernels) + len(others)) // 2, len(others))
    items[:] = [*others[:half], *kernels, *others[half:]]


def pytest_collection_finish() -> None:
    _freeze_imported_objects()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is not None and (nextitem.path != item.path or len(sys.modules) > _imported + 50):
        _freeze_imported_objects()


@pytest.fixture(scope="session")
def onednn_on_cpu() -> None:
    """Skip a test where oneDNN is not installed or refuses the CPU device, as it refuses PoCL's."""
    from syclsched import oneapi
    from syclsched.devices.trust.library_check import refusals

    if "onednn" not in oneapi.load().versions:
        pytest.skip("oneDNN is not installed")
    import dpctl

    reason = dict(refusals(dpctl.SyclDevice("cpu"))).get("oneDNN")
    if reason is not None:
        pytest.skip(f"oneDNN refuses the CPU device: {reason}")
