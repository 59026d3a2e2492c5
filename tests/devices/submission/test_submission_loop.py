# SPDX-License-Identifier: Apache-2.0
"""The compiled submission loop, compared with submission from Python: results, order, and stopping."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.running import DTYPE, MIX, SPIN

from syclsched.devices import discover, open_devices
from syclsched.devices.memory import usm_memory
from syclsched.devices.native import submission_library
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.native.submission_library import load_library
from syclsched.devices.programs.executables import KernelSubmission
from syclsched.devices.programs.task_compiler import compile_task
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.errors import RuntimeMissingError
from syclsched.execution.lanes.eventfd_wakeup import EventFd
from syclsched.model.operation import NativeCall, Signature
from syclsched.oneapi.built_libraries import find_submission_loop

pytestmark = pytest.mark.sycl
SIZE = 1000

SOURCE = """
__kernel void where_am_i(__global long *out) {
    size_t at = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);
    out[at] = 1000000 * (long)get_local_size(0) + 10000 * (long)get_global_size(0) + 100 * (long)get_global_size(1)
            + (long)get_global_size(2);
}
__kernel void scalars(__global double *out, uchar a, short b, ushort c, int d, uint e, long f, ulong g, float h,
                      double i) {
    out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = g; out[7] = h; out[8] = i;
}
"""


NewLoop = Callable[..., SubmissionLoop]


def array(queue: Any, count: int, dtype: str = DTYPE) -> tuple[Any, np.ndarray[Any, Any]]:
    storage = usm_memory.allocate(queue, 8 * count, "shared")
    view = usm_memory.as_numpy(storage, (count,), dtype)
    view[...] = -1
    return storage, view


def spinning(queue: Any, turns: int) -> Any:
    """Return a submission of a kernel on a CPU queue that takes some nanoseconds for each turn."""
    signature = Signature({"y": (1,)}, {"y": DTYPE}, {"turns": turns})
    spin = compile_task(SPIN, SPIN.implementations[0], signature, queue, discover().device("cpu").limits)
    storage, _ = array(queue, 1)
    return spin.bind({"y": MemoryRange.around(storage).usm_array((1,), DTYPE, queue)})


@pytest.mark.parametrize(
    ("global_range", "local_range"),
    [([24], None), ([6, 4], None), ([2, 3, 4], None), ([24], [6]), ([6, 4], [3, 2]), ([2, 4, 6], [1, 2, 3])],
)
def test_index_ranges_equal_those_of_python_submissions(
    queues: list[Any], new_loop: NewLoop, global_range: list[int], local_range: list[int] | None
) -> None:
    from dpctl.program import create_program_from_source

    kernel = create_program_from_source(queues[0], SOURCE).get_sycl_kernel("where_am_i")
    size = int(np.prod(global_range))
    (expected_memory, expected), (found_memory, found) = array(queues[0], size), array(queues[0], size)
    queues[0].submit_async(kernel, [expected_memory], global_range, local_range, []).wait()
    loop = new_loop(queues)
    batch = loop.submit([loop.kernel(0, 0, [], KernelSubmission(kernel, [found_memory], global_range, local_range))])
    loop.wait(batch)
    assert batch.done == 1
    if local_range is not None:  # without one the runtime chooses
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found % 1_000_000, expected % 1_000_000)


def test_scalars_of_every_type(queues: list[Any], new_loop: NewLoop) -> None:
    import ctypes as c

    from dpctl.program import create_program_from_source

    kernel = create_program_from_source(queues[0], SOURCE).get_sycl_kernel("scalars")
    storage, view = array(queues[0], 9, "float64")
    values = [
        c.c_uint8(250), c.c_int16(-300), c.c_uint16(65000), c.c_int32(-70000), c.c_uint32(4_000_000_000),
        c.c_int64(-5_000_000_000), c.c_uint64(2**53), c.c_float(0.5), c.c_double(1e-300),
    ]  # fmt: skip
    loop = new_loop(queues)
    loop.wait(loop.submit([loop.kernel(0, 0, [], KernelSubmission(kernel, [storage, *values], [1], None))]))
    np.testing.assert_array_equal(view, [v.value for v in values])


def test_lanes_wait_for_each_other(queues: list[Any], new_loop: NewLoop) -> None:
    platform = discover()
    signature = Signature({"x": (SIZE,), "y": (SIZE,)}, {"x": DTYPE, "y": DTYPE}, {"a": 2})
    limits = platform.device("cpu").limits
    mix = [compile_task(MIX, MIX.implementations[0], signature, queue, limits) for queue in queues]
    (x, _), (y, y_view) = array(queues[0], SIZE), array(queues[0], SIZE)
    start = np.arange(SIZE)
    loop = new_loop(queues)
    commands = [
        loop.copy(0, 0, [], x, usm_memory.as_bytes(start), start.nbytes),
        loop.copy(1, 0, [], y, usm_memory.as_bytes(start), start.nbytes),
    ]
    expected = start.copy()
    for turn in range(100):  # alternate queues: each command waits for the one before
        lane = turn % 2
        arrays = {
            name: MemoryRange.around(m).usm_array((SIZE,), DTYPE, queues[lane]) for name, m in (("x", x), ("y", y))
        }  # fmt: skip
        submission = mix[lane].bind(arrays)
        assert isinstance(submission, KernelSubmission)
        commands.append(loop.kernel(2 + turn, lane, [1 + turn], submission))
        expected = 2 * start + 3 * expected + np.arange(SIZE)
    result = np.empty(SIZE, DTYPE)
    commands.append(loop.copy(102, 0, [101], usm_memory.as_bytes(result), y, result.nbytes))
    for begin in range(0, len(commands), 7):
        part = loop.submit(commands[begin : begin + 7])
        assert part.done == len(commands[begin : begin + 7])
        assert part.submit_ns == sorted(part.submit_ns)
        loop.wait(part)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(y_view, expected)
    times = loop.times(list(range(103)))
    assert all(start_ns <= end_ns for start_ns, end_ns in times)
    assert loop.is_complete(102)
    assert loop.event(102).execution_status.name == "complete"
    assert loop.failed() == {}


def test_a_kernel_starts_after_a_long_one_of_the_other_lane(queues: list[Any], new_loop: NewLoop) -> None:
    """Without a fence, through SYCL, it starts at once (`syclsched.devices.native.fences`)."""
    limits = discover().device("cpu").limits
    long = Signature({"y": (1,)}, {"y": DTYPE}, {"turns": 300_000})
    spin = compile_task(SPIN, SPIN.implementations[0], long, queues[0], limits)
    signature = Signature({"x": (1,), "y": (1,)}, {"x": DTYPE, "y": DTYPE}, {"a": 2})
    mix = compile_task(MIX, MIX.implementations[0], signature, queues[1], limits)
    pieces = [array(queues[0], 1)[0] for _ in range(3)]
    waited, x, y = (
        MemoryRange.around(piece).usm_array((1,), DTYPE, queue)
        for piece, queue in zip(pieces, (queues[0], queues[1], queues[1]), strict=True)
    )
    late, after = spin.bind({"y": waited}), mix.bind({"x": x, "y": y})
    assert isinstance(late, KernelSubmission)
    assert isinstance(after, KernelSubmission)
    loop = new_loop(queues)
    for turn in range(0, 60, 2):
        loop.wait(loop.submit([loop.kernel(turn, 0, [], late), loop.kernel(turn + 1, 1, [turn], after)]))
        (begin_ns, end_ns), (start_ns, _) = loop.times([turn, turn + 1])
        # SYCL converts event times on the emulator to the calendar by its own clock reading, some 60 us off.
        assert end_ns - (end_ns - begin_ns) // 4 <= start_ns, f"turn {turn}"


def test_waits_for_events_submitted_from_python(queues: list[Any], new_loop: NewLoop) -> None:
    event = spinning(queues[0], 2_000_000).submit(queues[0], [])
    loop = new_loop(queues)
    loop.adopt(0, 0, event)
    batch = loop.submit([loop.fence(1, 1, [0])])
    loop.wait(batch)
    assert event.execution_status.name == "complete"


def test_python_and_loop_submissions_keep_order(queues: list[Any], new_loop: NewLoop) -> None:
    """After a refusal the rest is submitted from Python; SYCL does not see commands on the native queue."""
    loop = new_loop(queues)
    loop.use_native_queues()
    if not loop.native:
        pytest.skip("SYCL knows of all commands here")
    loop.call(0, 0, [], NativeCall(1 << 20, (), keep=None))  # never submitted; its lane uses both queues
    loop.submit([loop.kernel(1, 0, [], spinning(queues[0], 50_000_000))])
    loop.finish_lane(0)
    assert loop.is_complete(1)
    from_python = spinning(queues[1], 50_000_000).submit(queues[1], [])
    loop.adopt(2, 0, from_python)
    loop.wait(loop.submit([loop.fence(3, 0, [])]))
    assert from_python.execution_status.name == "complete"


def test_a_stopped_loop_submits_nothing(queues: list[Any], new_loop: NewLoop) -> None:
    loop = new_loop(queues)
    assert loop.submit([loop.fence(0, 0, [])]).done == 1
    loop.stop()
    assert loop.submit([loop.fence(1, 0, []), loop.fence(2, 0, [])]).done == 0
    assert loop.has_event(0)
    assert not loop.has_event(1)


def test_a_failed_batch_reports_the_number_of_submissions(queues: list[Any], new_loop: NewLoop) -> None:
    from dpctl.program import create_program_from_source

    kernel = create_program_from_source(queues[0], SOURCE).get_sycl_kernel("where_am_i")
    storage, _ = array(queues[0], 4)
    loop = new_loop(queues)
    wrong = KernelSubmission(kernel, [storage], [4], [3])  # three do not divide four
    batch = loop.submit([loop.fence(0, 0, []), loop.kernel(1, 0, [], wrong), loop.fence(2, 0, [])])
    loop.wait(batch)
    assert batch.done == 1


def test_slots_of_a_shared_event_signal_its_completion(queues: list[Any], new_loop: NewLoop) -> None:
    loop = new_loop(queues)
    loop.use_native_queues()
    loop.share([0, 1])
    batch = loop.submit([loop.fence(0, 0, [])])
    alarm = EventFd()
    assert alarm.fd is not None and loop.signal_eventfd(1, alarm.fd) == loop.native
    loop.wait(batch)
    alarm.sleep(0.0, has_signals=loop.native)
    assert not loop.is_pending(1)
    alarm.close()


def test_a_missing_library_raises_one_error_with_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert find_submission_loop(tmp_path) is None
    broken = tmp_path / "_submit.so"
    broken.write_text("not a library")
    for path, what in ((None, "was not built"), (str(broken), "cannot be loaded")):
        load_library.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(submission_library, "find_submission_loop", lambda path=path: path)
            with pytest.raises(RuntimeMissingError, match=f"submission loop: .*{what}.* Install a C compiler"):
                open_devices(discover())
    assert load_library() is not None
