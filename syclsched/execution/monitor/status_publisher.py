# SPDX-License-Identifier: Apache-2.0
"""Publisher of this process's status file, which `syclsched top` reads: one thread, while the user allows it."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from types import TracebackType
from typing import Final

from syclsched.errors import StorageError
from syclsched.execution.handle import run_observer
from syclsched.execution.handle.resources import unfinished
from syclsched.execution.monitor.run_sampler import RunSampler
from syclsched.model.text.units import shortened
from syclsched.monitoring.status import ProcessStatus
from syclsched.monitoring.status_files import StatusFile

_LOGGER = logging.getLogger("syclsched")
#: Seconds between two samples.
SAMPLE_S: Final = 0.125
#: Numbers of samples after which the file is written, with and without changes.
_SAMPLES_PER_WRITE: Final = 2
_SAMPLES_PER_IDLE_WRITE: Final = 8
_MOST_COMMAND: Final = 1000


class _StatusPublisher:
    """Samples the runs of this process, and writes its status file."""

    def __init__(self) -> None:
        self._file = StatusFile()
        self._sampler = RunSampler()
        self._allowed_s = time.time()
        self._ended = threading.Event()
        self._warned = False
        self._written: tuple[object, ...] | None = None
        self._write()  # raises here if that is impossible
        run_observer.add(self._sampler)
        for resources in list(unfinished):
            self._sampler.began(resources)
        self._thread = threading.Thread(target=self._run, name="syclsched monitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and remove the file."""
        run_observer.remove(self._sampler)
        self._ended.set()
        self._thread.join()
        self._file.remove()

    def _run(self) -> None:
        samples = 0
        while not self._ended.wait(SAMPLE_S):
            try:
                self._sampler.sample()
                samples += 1
                if samples >= _SAMPLES_PER_WRITE and self._write(always=samples >= _SAMPLES_PER_IDLE_WRITE):
                    samples = 0
            except Exception as error:  # the monitored program must continue
                if not self._warned:
                    self._warned = True
                    _LOGGER.warning(
                        "`syclsched top` cannot see this process now: %s", error, exc_info=not _is_expected(error)
                    )

    def _write(self, *, always: bool = True) -> bool:
        """Write the file unless nothing has changed; return whether it was written."""
        graphs, memory = self._sampler.status(), self._sampler.memory()
        changed = any(graph.in_flight for graph in graphs) or self._written != (graphs, memory)
        if changed or always:
            self._file.write(ProcessStatus(os.getpid(), _command(), self._allowed_s, time.time(), graphs, memory))
            self._written = graphs, memory
        return changed or always


def _is_expected(error: Exception) -> bool:
    return isinstance(error, StorageError)


def _command() -> str:
    return shortened(" ".join(sys.orig_argv), _MOST_COMMAND)


class Monitoring:
    """Permission for `syclsched top` to show this process's runs; made by `syclsched.monitor`.

    Use it in a ``with`` statement, call `close`, or leave it: it then lasts as long as the process.
    """

    def __init__(self) -> None:
        self._closed = False
        _STATE.open(self)

    @property
    def closed(self) -> bool:
        """Whether the permission was withdrawn."""
        return self._closed

    def close(self) -> None:
        """Withdraw the permission; the process is shown until all permissions are withdrawn."""
        if not self._closed:
            self._closed = True
            _STATE.close(self)

    def __enter__(self) -> Monitoring:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Monitoring of process {os.getpid()}: {'closed' if self._closed else 'allowed'}>"


class _ProcessState:
    """The publisher of this process, and the permissions that hold."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[Monitoring] = set()
        self._publisher: _StatusPublisher | None = None

    def open(self, permission: Monitoring) -> None:
        """Note a permission; start publishing if it is the first."""
        with self._lock:
            if self._publisher is None:
                self._publisher = _StatusPublisher()
            self._held.add(permission)

    def close(self, permission: Monitoring) -> None:
        """Withdraw a permission; stop publishing if it was the last."""
        with self._lock:
            self._held.discard(permission)
            if not self._held:
                self._stop()

    def end(self) -> None:
        """Stop publishing, at the exit of the interpreter."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.close()


_STATE = _ProcessState()


def _forget_after_fork() -> None:
    """Forget everything in a forked child: the thread does not exist there, and the file is the parent's."""
    global _STATE
    run_observer.remove_all()
    _STATE = _ProcessState()


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(lambda: _STATE.end())
