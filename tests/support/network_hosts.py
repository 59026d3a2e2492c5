# SPDX-License-Identifier: Apache-2.0
"""Hosts with network addresses of their own on one machine: Linux network namespaces, connected by a bridge.

The bridge is in a namespace, too, so that nothing of the machine's own network changes, and processes of the tests see
the hosts only from within. Each host's port can be limited to a rate, or cut.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def why_not() -> str | None:
    """Return the reason why hosts cannot be created here; None if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"the tool {tool} is not installed"
    name = f"syt{uuid.uuid4().hex[:6]}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return None


class NetworkHosts:
    """Hosts ``0`` to ``count - 1``; host 0 is for a scheduler and a client. A context manager."""

    def __init__(self, count: int) -> None:
        self._tag = f"sy{uuid.uuid4().hex[:6]}"
        self._count = count
        self._switch = f"{self._tag}x"
        self._processes: list[subprocess.Popen[bytes]] = []

    def namespace(self, host: int) -> str:
        """Return the name of a host's network namespace."""
        return f"{self._tag}h{host}"

    def address(self, host: int) -> str:
        """Return a host's address."""
        return f"10.87.0.{host + 1}"

    def __enter__(self) -> NetworkHosts:
        try:
            _ip("netns", "add", self._switch)
            _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
            _ip("-n", self._switch, "link", "set", "bridge", "up")
            for host in range(self._count):
                name, inside = self.namespace(host), ["-n", self.namespace(host)]
                _ip("netns", "add", name)
                _ip(
                    "-n", self._switch, "link", "add", f"port{host}", "type", "veth",
                    "peer", "name", "eth0", "netns", name,
                )  # fmt: skip
                _ip("-n", self._switch, "link", "set", f"port{host}", "master", "bridge", "up")
                _ip(*inside, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
                _ip(*inside, "link", "set", "eth0", "up")
                _ip(*inside, "link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        for name in (*(self.namespace(host) for host in range(self._count)), self._switch):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def start(self, host: int, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process on a host; it is killed at the end."""
        process = subprocess.Popen(["ip", "netns", "exec", self.namespace(host), *command], **options)
        self._processes.append(process)
        return process

    @contextmanager
    def inside(self, host: int) -> Iterator[None]:
        """Move the calling thread, and those it starts, to a host."""
        setns = ctypes.CDLL(None, use_errno=True).setns
        with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{self.namespace(host)}") as there:
            if setns(there.fileno(), 0):
                raise OSError(ctypes.get_errno(), "the network namespace cannot be entered")
            try:
                yield
            finally:
                setns(before.fileno(), 0)

    def limit(self, host: int, megabits: int) -> None:
        """Limit the rates at which a host sends and receives."""
        rate = ["root", "tbf", "rate", f"{megabits}mbit", "burst", "64kb", "latency", "50ms"]
        for namespace, port in ((self.namespace(host), "eth0"), (self._switch, f"port{host}")):
            subprocess.run(["tc", "-n", namespace, "qdisc", "replace", "dev", port, *rate], check=True)

    def cut(self, host: int) -> None:
        """Disconnect a host from the network."""
        _ip("-n", self._switch, "link", "set", f"port{host}", "down")

    def join(self, host: int) -> None:
        """Connect a host to the network again."""
        _ip("-n", self._switch, "link", "set", f"port{host}", "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
