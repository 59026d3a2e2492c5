# SPDX-License-Identifier: Apache-2.0
"""Extension of a Dask worker that makes it a machine to plan for: its mailbox, its devices, and functions called there.

Dask's event loop only opens connections. Everything else runs in threads of its own, so the worker keeps answering.
Needs the package distributed; `syclsched.cluster.connection` imports it on first use.
"""

from __future__ import annotations

import asyncio
import os
import platform as python_platform
import signal
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from distributed import WorkerPlugin

from syclsched import __version__
from syclsched.api import discover
from syclsched.cluster.calls import NODE_NAME, serve
from syclsched.cluster.transport.comm_sockets import OPERATION, CommSockets, Direction
from syclsched.cluster.transport.mailbox import Mailbox
from syclsched.errors import ClusterError, SyclschedError

if TYPE_CHECKING:
    from distributed import Worker
    from distributed.comm import Comm

    from syclsched.model.platform import Platform

#: Seconds after which a thread that holds the interpreter lets others run. With Python's own 5 ms, a message for a
#: worker that runs a Python function would wait half as long; this costs such functions 1 %.
_SWITCH_S: Final = 2e-4


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts of the machine of a worker, as the worker gives them."""

    address: str
    host_name: str
    process: int
    cores: int  # that the process may use
    python: str
    numpy: str
    version: str
    memory_bytes: int
    generation: str = ""
    platform: Platform | None = None
    problem: str = ""  # why there is no platform


class Node(WorkerPlugin):  # type: ignore[misc]  # distributed is not checked
    """One worker of a cluster; Dask makes a copy of it on each worker.

    ``cores`` are the cores that workers are bound to, by Dask's names of the workers. ``local`` workers were started by
    the process that connects, and leave Ctrl-C to it. ``values`` is free for the functions that are called here; they
    lock it themselves.
    """

    name = NODE_NAME
    idempotent = True

    def __init__(self, cores: dict[str, int] | None = None, *, local: bool = False) -> None:
        self._cores = dict(cores or {})
        self._local = local

    def __getstate__(self) -> dict[str, Any]:
        return {"_cores": self._cores, "_local": self._local}

    # --- life, called by Dask ---------------------------------------------------------------------

    async def setup(self, worker: Worker) -> None:
        """Begin on a worker."""
        self.worker = worker
        self.address: str = worker.address
        self.values: dict[str, Any] = {}
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._platform: Platform | None = None
        if self._local and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        core = self._cores.get(str(worker.name))
        if core is not None:
            _pin(core)
        self.sockets = CommSockets(self.address, self._loop, worker.connection_args)
        self.mailbox = Mailbox(self.address, self.sockets.connect)
        serve(self)
        worker.handlers[OPERATION] = self._accept
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(min(self._switch_s, _SWITCH_S))

    async def teardown(self, worker: Worker) -> None:
        """End on a worker."""
        worker.handlers.pop(OPERATION, None)
        sys.setswitchinterval(self._switch_s)
        self.mailbox.close()
        self.sockets.close()
        with self._lock:
            values, self.values = self.values, {}
        for value in values.values():
            close = getattr(value, "close", None)
            if callable(close):
                await asyncio.to_thread(close)

    async def _accept(self, comm: Comm, sender: str, direction: Direction) -> Any:
        """Take over a connection for messages; an operation of Dask's worker."""
        if direction == "in":
            return await self.sockets.accept(comm, partial(self.mailbox.accept, sender))
        return await self.sockets.accept(comm, partial(self.mailbox.adopt, sender))

    # --- functions called from outside ------------------------------------------------------------

    @property
    def platform(self) -> Platform:
        """The machine's devices, with the profiles stored there; found on first use; `ClusterError` if none."""
        with self._lock:
            if self._platform is None:
                try:
                    self._platform = self._limited(discover())
                except SyclschedError as error:
                    raise ClusterError(f"no device can be used: {error}", worker=self.address) from error
            return self._platform

    def _limited(self, found: Platform) -> Platform:
        """Return a platform whose spaces in the host's memory have no more than Dask lets this worker use."""
        limit = self.worker.memory_manager.memory_limit or 0
        spaces = tuple(
            replace(space, capacity_bytes=min(space.capacity_bytes or limit, limit))
            if limit and space.host_accessible
            else space
            for space in found.spaces
        )
        return replace(found, spaces=spaces)

    def find_devices_again(self) -> None:
        """Find the machine's devices anew when they are asked for: other profiles are stored there."""
        with self._lock:
            self._platform = None

    def describe(self, *, devices: bool = True) -> NodeFacts:
        """Return the description of this machine; without ``devices`` the SYCL runtime is not loaded."""
        found, problem = None, ""
        if devices:
            try:
                found = self.platform
            except ClusterError as error:
                problem = error.what
        return NodeFacts(
            address=self.address,
            host_name=socket.gethostname(),
            process=os.getpid(),
            cores=len(os.sched_getaffinity(0)),
            python=python_platform.python_version(),
            numpy=np.__version__,
            version=__version__,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            generation="" if found is None else found.generation,
            platform=found,
            problem=problem,
        )


def describe(node: Node, *, devices: bool = True) -> NodeFacts:
    """Return the description of a machine; see `Node.describe`."""
    return node.describe(devices=devices)


def _pin(core: int) -> None:
    """Bind all threads of this process to one core."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):
            os.sched_setaffinity(int(thread), {core})
