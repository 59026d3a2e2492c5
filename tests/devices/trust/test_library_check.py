# SPDX-License-Identifier: Apache-2.0
"""Checks of libraries on a device: made once; a refusal excludes the library from plans for the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from support.gpu_shape import OTHER_DEVICE
from support.small_models import model_of

import syclsched
from syclsched import oneapi
from syclsched.devices.trust import library_check
from syclsched.kernels import get, names, nn
from syclsched.oneapi.cache_folder import cache_root

pytestmark = [pytest.mark.sycl, pytest.mark.gpu_shape]


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device on which libraries are checked, with a cache folder for the test."""
    oneapi.load()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(library_check, "_MAKER", "another")
    import dpctl

    return next(iter(dpctl.get_devices(device_type="gpu")), dpctl.SyclDevice("cpu"))


def test_each_library_that_an_implementation_needs_has_a_check() -> None:
    operations = (nn.matmul(), *(get(name) for name in names()))
    needed = {library for o in operations for i in o.implementations for library in i.requires.libraries}
    assert needed == library_check.CHECKS.keys()


@pytest.mark.usefixtures("intel_cpu")
@pytest.mark.parametrize("name", library_check.CHECKS)
def test_the_runtimes_own_cpu_device_is_taken(name: str) -> None:
    assert library_check.CHECKS[name][1](None) is None


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Record the checked libraries and devices; each is refused."""
    found: list[tuple[str, str]] = []

    def refusing(name: str, filter_string: str) -> str:
        found.append((name, filter_string))
        return "no engine"

    monkeypatch.setattr(library_check, "_ask", refusing)
    monkeypatch.setattr(library_check, "CHECKS", {"oneDNN": ("dpctl", None), "absent": ("no-such", None)})
    return found


def test_answers_are_remembered_until_the_checks_change(other: Any, asked: list[tuple[str, str]]) -> None:
    assert [library_check.refusals(other) for _ in range(2)] == [(("oneDNN", "no engine"),)] * 2
    assert asked == [("oneDNN", other.filter_string)]
    (kept,) = (cache_root() / "trust").glob("*.libraries.json")
    kept.write_text(kept.read_text().replace('"checks": "', '"checks": "other'))
    assert library_check.refusals(other) == (("oneDNN", "no engine"),)
    assert len(asked) == 2


def test_an_unfinished_check_is_repeated(other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_check, "_TIMEOUT_S", 0.01)
    monkeypatch.setattr(library_check, "CHECKS", {"oneDNN": ("dpctl", None)})
    assert library_check.refusals(other) == (("oneDNN", "its check did not end within 120 s"),)
    assert not list((cache_root() / "trust").glob("*.libraries.json"))


def test_a_wrong_result_and_any_error_are_refusals() -> None:
    oneapi.load()

    class Wrong:
        def implementation(self, _: str) -> Any:
            return self

        def load(self, _: Any) -> Any:
            import dpctl

            return lambda queue, arguments, depends: dpctl.SyclEvent()

    arrays = {"y": np.zeros(2, np.float32)}
    assert library_check._error(None, Wrong(), "any", arrays, np.ones(2)) == (  # type: ignore[arg-type]
        "a product of matrices is [0.0, 0.0], not [1.0, 1.0]"
    )
    assert library_check._error(None, object(), "any", arrays, None) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("child", "answer"),
    [
        ("print('a driver says this'); print('null')", None),
        ("print('\"no engine\"')", "no engine"),
        (
            "import os, sys; print('why', file=sys.stderr, flush=True); os.abort()",
            "its process ended with SIGABRT: why",
        ),
    ],
)
def test_a_library_is_checked_in_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, child: str, answer: str | None
) -> None:
    monkeypatch.setattr(library_check, "_CHILD", child)
    assert library_check._ask("oneDNN", "opencl:cpu:0") == answer


@pytest.mark.usefixtures("intel_cpu")
def test_the_check_process_accepts_the_cpu_device() -> None:
    assert library_check._ask("oneDNN", "opencl:cpu:0") is None


@pytest.mark.other_device
@pytest.mark.parametrize("options", [{"autotune": False}, {"deterministic": True}])
def test_an_untimed_model_avoids_refused_implementations(options: Any) -> None:
    platform = syclsched.discover(where=lambda device: device.kind == OTHER_DEVICE)
    random = np.random.default_rng(3)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"], name="relu"),
    ]
    weights = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    x = random.standard_normal((1, 3, 9, 9)).astype(np.float32)
    model = model_of(nodes, {"x": x.shape}, ["y"], {"w": weights})
    with syclsched.onnx.compile(model, platform, reuse=False, **options) as compiled:
        found = compiled({"x": x})["y"]
    with syclsched.onnx.compile(model, devices="cpu", reuse=False, **options) as compiled:
        np.testing.assert_allclose(found, compiled({"x": x})["y"], atol=1e-5)
