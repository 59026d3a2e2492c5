# SPDX-License-Identifier: Apache-2.0
"""Libraries are asked once whether they compute on a device, and a refusal keeps them out of its plans."""

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
from syclsched.devices.trust import crash_marker, library_check
from syclsched.kernels import get, names, nn
from syclsched.oneapi.cache_folder import cache_root

pytestmark = [pytest.mark.sycl, pytest.mark.gpu_shape]


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device that its libraries are asked about, with a cache of the test's own."""
    oneapi.load()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(library_check, "_MAKER", "another")
    import dpctl

    return next(iter(dpctl.get_devices(device_type="gpu")), dpctl.SyclDevice("cpu"))


def test_each_library_that_an_implementation_needs_has_a_check() -> None:
    operations = (nn.matmul(), *(get(name) for name in names()))
    needed = {library for o in operations for i in o.implementations for library in i.requires.libraries}
    assert needed == library_check.CHECKS.keys()


@pytest.mark.parametrize("name", library_check.CHECKS)
def test_the_runtimes_own_cpu_device_is_taken(name: str) -> None:
    assert library_check.CHECKS[name][1](None) is None


def test_answers_are_remembered_until_the_checks_change(other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refusing(queue: Any) -> str:
        asked.append(queue)
        return "no engine"

    monkeypatch.setattr(library_check, "CHECKS", {"oneDNN": ("onednn", refusing), "absent": ("no-such", refusing)})
    assert [library_check.refusals(other) for _ in range(2)] == [(("oneDNN", "no engine"),)] * 2
    assert len(asked) == 1 and asked[0].sycl_device == other
    (kept,) = (cache_root() / "trust").glob("*.libraries.json")
    kept.write_text(kept.read_text().replace('"checks": "', '"checks": "other'))
    assert library_check.refusals(other) == (("oneDNN", "no engine"),)
    assert len(asked) == 2


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


def test_a_library_that_killed_a_process_is_not_called_again(other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(queue: Any) -> str | None:
        (guard,) = (cache_root() / "trust").glob("*.running")
        kept.append(guard)
        return None

    kept: list[Path] = []
    monkeypatch.setattr(library_check, "CHECKS", {"oneDNN": ("onednn", dying)})
    assert library_check.refusals(other) == ()
    for file in (cache_root() / "trust").glob("*.libraries.json"):
        file.unlink()
    kept[0].write_text("1 0")  # a process that has ended
    assert crash_marker.is_orphaned(kept[0])
    assert library_check.refusals(other) == (("oneDNN", "a process died of it"),)
    assert not kept[0].exists() and len(kept) == 1


@pytest.mark.parametrize("options", [{"autotune": False}, {"deterministic": True}])
def test_a_model_whose_operations_were_never_timed_uses_what_the_device_takes(options: Any) -> None:
    platform = syclsched.discover(where=lambda device: device.kind == OTHER_DEVICE)
    if not platform.compute_devices:
        pytest.skip("there is one device here")
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
