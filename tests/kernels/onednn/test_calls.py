# SPDX-License-Identifier: Apache-2.0
"""Submitted primitives: order, threads, lanes, retained and released objects, and calls from compiled code."""

from __future__ import annotations

import ctypes
import gc
import threading
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
from support.gpu_shape import OTHER_DEVICE
from support.onednn_calls import needs_onednn

from syclsched.devices.native.queue_release import tell_released
from syclsched.errors import CapabilityError
from syclsched.kernels.onednn import c_api, calls, engines, handles, primitives
from syclsched.kernels.onednn.calls import BoundPrimitive, LoadedPrimitive, implementation_of
from syclsched.kernels.onednn.engines import engine_of, stream_of
from syclsched.kernels.onednn.handles import Handle
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Tensor, plain
from syclsched.oneapi.dpctl_interface import usm_arrays

pytestmark = [pytest.mark.sycl, needs_onednn]


def doubled(count: int, beta: float = 1.0) -> PrimitiveRequest:
    """Return y = 2 x + beta."""
    line = plain((count,), "float32")
    ends = PrimitiveArgument("x", c_api.SRC, line), PrimitiveArgument("y", c_api.DST, line)
    return PrimitiveRequest("eltwise", ends, (c_api.ELTWISE["linear"], 2.0, beta))


def product(m: int, n: int, k: int) -> PrimitiveRequest:
    """Return y = a b, which needs scratch memory where m is large."""
    return PrimitiveRequest(
        "matmul",
        (
            PrimitiveArgument("a", c_api.SRC, plain((k, m), "float32").permuted((1, 0))),
            PrimitiveArgument("b", c_api.WEIGHTS, plain((k, n), "float32")),
            PrimitiveArgument("y", c_api.DST, plain((m, n), "float32")),
        ),
    )


def array(values: Any, queue: Any) -> Any:
    dpt = usm_arrays()

    return dpt.asarray(np.asarray(values, "float32"), sycl_queue=queue)


def values_of(usm: Any) -> np.ndarray:
    dpt = usm_arrays()

    return np.asarray(dpt.asnumpy(usm))


def lanes(queue: Any) -> tuple[Any, Any]:
    from syclsched.devices.native.fences import lane_queue

    return lane_queue(queue), lane_queue(queue)


def test_one_primitive_behind_another_on_a_queue_and_across_queues(cpu: Any) -> None:
    first, second = lanes(cpu)
    loaded, count = LoadedPrimitive(doubled(1 << 16)), 1 << 16
    for turn in range(20):
        x, y, z = array(np.full(count, turn), cpu), array(np.zeros(count), cpu), array(np.zeros(count), cpu)
        cpu.wait()
        loaded.submit(first, {"x": x, "y": y}, [])
        event = loaded.submit(first, {"x": y, "y": z}, [])
        loaded.submit(second, {"x": z, "y": x}, [event]).wait()
        assert (values_of(x) == 8 * turn + 7).all()


def test_kernels_of_the_package_run_before_and_after_a_primitive(cpu: Any) -> None:
    import dpctl.program

    source = "__kernel void more(__global const float* x, __global float* y) { size_t i = get_global_id(0); float s = x[i]; for (int k = 0; k < 2000; ++k) s = s * 1.0f; y[i] = s + 1; }"  # noqa: E501
    lane, _ = lanes(cpu)
    kernel = dpctl.program.create_program_from_source(lane, source).get_sycl_kernel("more")
    loaded = LoadedPrimitive(doubled(4096))
    for turn in range(20):
        a, b, c, d = (array(np.full(4096, turn), cpu) for _ in range(4))
        cpu.wait()
        lane.submit_async(kernel, [a.usm_data, b.usm_data], [4096], None, [])
        loaded.submit(lane, {"x": b, "y": c}, [])
        lane.submit_async(kernel, [c.usm_data, d.usm_data], [4096], None, []).wait()
        assert (values_of(d) == 2 * (turn + 1) + 2).all()


def test_compiled_code_calls_primitives_without_python(cpu: Any) -> None:
    lane, _ = lanes(cpu)
    x, y = array(np.arange(100), cpu), array(np.zeros(100), cpu)
    call = LoadedPrimitive(doubled(100)).native(lane, {"x": x, "y": y})
    assert len(call.arguments) <= 6
    assert call.event == 5
    assert not call.on_queue
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_size_t] * len(call.arguments))(call.function)
    for _ in range(3):
        assert function(*call.arguments) == 0
    lane.wait()
    np.testing.assert_array_equal(values_of(y), 2 * np.arange(100) + 1)
    assert call.explain is not None
    assert call.explain(3) == "oneDNN says dnnl_unimplemented"
    assert "status 77" in call.explain(77)


def test_lanes_work_in_memory_of_their_own(cpu: Any) -> None:
    m, n, k = 300, 200, 500
    request = product(m, n, k)
    loaded = LoadedPrimitive(request)
    primitive = primitives.primitive_of(engine_of(cpu), request)
    queues = lanes(cpu)
    cases = []
    for seed, lane in enumerate(queues):
        a, b = (np.random.default_rng([seed, i]).random((k, s), "float32") for i, s in enumerate((m, n)))
        cases.append((lane, {"a": array(a, cpu), "b": array(b, cpu), "y": array(np.zeros((m, n)), cpu)}, a.T @ b))
    cpu.wait()
    wrong = []

    def work(lane: Any, arrays: dict[str, Any], wanted: np.ndarray) -> None:
        for _ in range(25):
            loaded.submit(lane, arrays, []).wait()
            if not np.allclose(values_of(arrays["y"]), wanted, rtol=1e-4):
                wrong.append(lane)

    threads = [threading.Thread(target=work, args=case) for case in cases]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    first, second = (stream_of(lane).arena for lane in queues)
    if primitive.scratchpad_bytes:
        assert first.piece(1)._pointer != second.piece(1)._pointer


def test_working_memory_is_shared_in_order_only(cpu: Any) -> None:
    import dpctl

    arena = stream_of(lanes(cpu)[0]).arena
    piece = arena.piece(1000)
    assert arena.piece(500) is piece
    larger = arena.piece(1 << 20)
    assert larger is not piece
    assert arena.held_bytes >= 1 << 20
    assert arena.piece(0) is None
    free = stream_of(dpctl.SyclQueue(cpu.sycl_context, cpu.sycl_device)).arena
    assert free.piece(1000) is not free.piece(1000)


def test_devices_may_be_closed_while_a_primitive_is_submitted(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by the garbage collector on the submitting thread, or on another thread."""
    loaded, lane = LoadedPrimitive(doubled(100)), lanes(cpu)[0]
    x, y = array(np.arange(100), cpu), array(np.zeros(100), cpu)
    submit = BoundPrimitive.submit

    def closing(self: BoundPrimitive) -> Any:
        tell_released()
        return submit(self)

    def work() -> None:
        loaded.submit(lane, {"x": x, "y": y}, []).wait()

    with monkeypatch.context() as patch:
        patch.setattr(BoundPrimitive, "submit", closing)
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(20)
    assert not thread.is_alive()
    np.testing.assert_array_equal(values_of(y), 2 * np.arange(100) + 1)
    held = ref(stream_of(lane))
    tell_released()  # its submissions are released now
    gc.collect()
    assert held() is None


def test_a_stream_in_use_is_found_again_when_devices_were_closed(cpu: Any) -> None:
    lane = lanes(cpu)[0]
    stream = stream_of(lane)
    tell_released()
    assert stream_of(lane) is stream


def test_a_cache_may_be_emptied_while_it_makes_a_value() -> None:
    cache: handles.DnnlCache[int | None] = handles.DnnlCache(2)

    def make(value: int | None) -> int | None:
        cache.clear()
        return value

    assert [cache.get(each, lambda each=each: make(each)) for each in (1, 2, 3)] == [1, 2, 3]
    assert cache.get("none", lambda: None) is None
    assert cache.get("none", lambda: pytest.fail("made twice")) is None
    for each in (4, 5):
        cache.get(each, lambda each=each: each)
    assert len(cache) == 2 and cache.get("none", lambda: 7) == 7


def test_primitives_run_on_out_of_order_queues(cpu: Any) -> None:
    import dpctl

    queue = dpctl.SyclQueue(cpu.sycl_context, cpu.sycl_device)
    loaded = LoadedPrimitive(doubled(1000))
    x, y = array(np.arange(1000), cpu), array(np.zeros(1000), cpu)
    events = [loaded.submit(queue, {"x": x, "y": y}, []) for _ in range(10)]
    for event in events:
        event.wait()
    np.testing.assert_array_equal(values_of(y), 2 * np.arange(1000) + 1)


def test_sub_devices_are_supported_and_the_emulator_refused(cpu: Any) -> None:
    import dpctl

    for part in cpu.sycl_device.create_sub_devices(partition=1):
        queue = dpctl.SyclQueue(dpctl.SyclContext([part]), part, property="in_order")
        x, y = array(np.arange(10), queue), array(np.zeros(10), queue)
        LoadedPrimitive(doubled(10)).submit(queue, {"x": x, "y": y}, []).wait()
        np.testing.assert_array_equal(values_of(y), 2 * np.arange(10) + 1)
    for device in dpctl.get_devices(device_type=OTHER_DEVICE):
        with pytest.raises(CapabilityError, match=r"engine on .*dnnl_invalid_arguments"):
            engine_of(dpctl.SyclQueue(device, property="in_order"))


def test_an_engine_in_use_outlives_many_others(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import dpctl

    monkeypatch.setattr(engines._engines, "capacity", 2)
    x, y = array(np.arange(10), cpu), array(np.zeros(10), cpu)
    LoadedPrimitive(doubled(10)).submit(cpu, {"x": x, "y": y}, []).wait()
    device = cpu.sycl_device
    for _ in range(4):  # contexts of their own
        engine_of(dpctl.SyclQueue(dpctl.SyclContext([device]), device, property="in_order"))
    # A primitive made earlier, on a stream made now.
    queue = dpctl.SyclQueue(cpu.sycl_context, device, property="in_order")
    LoadedPrimitive(doubled(10)).submit(queue, {"x": x, "y": y}, []).wait()
    np.testing.assert_array_equal(values_of(y), 2 * np.arange(10) + 1)


def test_unsupported_primitives_raise_an_error_with_the_status(cpu: Any, capfd: pytest.CaptureFixture[str]) -> None:
    line = Tensor((4,), "float64", (1,))
    wrong = PrimitiveRequest(
        "softmax", (PrimitiveArgument("x", c_api.SRC, line), PrimitiveArgument("y", c_api.DST, line)), (0x30000, 0)
    )
    with pytest.raises(CapabilityError, match=r"oneDNN says dnnl_(unimplemented|invalid_arguments)"):
        implementation_of(cpu, wrong)
    crossed = product(3, 4, 5)
    other = (*crossed.arguments[:2], PrimitiveArgument("y", c_api.DST, plain((4, 4), "float32")))
    with pytest.raises(CapabilityError, match="matmul: oneDNN says dnnl_invalid_arguments"):
        implementation_of(cpu, PrimitiveRequest("matmul", other))
    # Without settings the library prints such messages to stdout.
    assert "onednn_verbose" not in capfd.readouterr().out


def test_equal_requests_are_one_primitive(cpu: Any) -> None:
    engine = engine_of(cpu)
    made = primitives.primitive_of(engine, doubled(33))
    assert primitives.primitive_of(engine, doubled(33)) is made
    assert primitives.primitive_of(engine, doubled(33, beta=0.5)) is not made
    assert made.implementation.startswith("jit")


def test_only_so_many_primitives_are_kept(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(cpu)
    monkeypatch.setattr(primitives._primitives, "capacity", 8)
    for count in range(1, 30):
        primitives.primitive_of(engine, doubled(count))
    assert len(primitives._primitives) == 8


def test_only_so_many_sets_of_arrays_stay_bound(cpu: Any) -> None:
    loaded = LoadedPrimitive(doubled(64))
    arrays = [(array(np.full(64, i), cpu), array(np.zeros(64), cpu)) for i in range(200)]
    for x, y in arrays:
        loaded.submit(cpu, {"x": x, "y": y}, [])
    cpu.wait()
    assert len(loaded._bound) == 64
    for index, (_, y) in enumerate(arrays):
        assert (values_of(y) == 2 * index + 1).all()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4096


def test_dropped_primitives_are_freed(cpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primitives._primitives, "capacity", 4)
    x, y = array(np.arange(1 << 12), cpu), array(np.zeros(1 << 12), cpu)

    def turns(count: int) -> None:
        for turn in range(count):
            LoadedPrimitive(doubled(1 << 12, beta=turn % 16)).submit(cpu, {"x": x, "y": y}, []).wait()

    turns(200)
    gc.collect()
    before = resident_bytes()
    turns(2000)
    gc.collect()
    # 2,000 leaked primitives or memory objects would be larger.
    assert resident_bytes() - before < 4 << 20


def test_finalisers_at_interpreter_exit_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = Handle.__new__(Handle)
    handle.pointer = ctypes.c_void_p(1)  # nothing to destroy: the library must not be called
    bound = BoundPrimitive.__new__(BoundPrimitive)
    monkeypatch.setattr(handles, "sys", None)
    monkeypatch.setattr(calls, "sys", None)
    handle.__del__()
    bound.__del__()
    handle.pointer = ctypes.c_void_p()
