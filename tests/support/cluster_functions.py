# SPDX-License-Identifier: Apache-2.0
"""Functions that tests call on the workers of a cluster."""

from __future__ import annotations

import os
import resource
import threading
import time
from dataclasses import replace

import numpy as np

from syclsched.cluster import part_runner
from syclsched.cluster.node import Node
from syclsched.errors import DeadlineError


def thread_and_cores(node: Node) -> tuple[str, int, set[int]]:
    """Return the name of the thread, the process and the cores of the caller."""
    return threading.current_thread().name, os.getpid(), os.sched_getaffinity(0)


def sleep(node: Node, seconds: float) -> float:
    """Sleep and return the time."""
    time.sleep(seconds)
    return seconds


def fill_disk(node: Node) -> None:
    """Let every write to a file fail in this process, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def late(node: Node) -> None:
    """Raise an error that has required keyword arguments."""
    raise DeadlineError("too late", task="t7", hint="Wait longer")


def divide(node: Node, dividend: int, divisor: int) -> int:
    """Return a quotient; by zero, an error of Python's own."""
    return dividend // divisor


class Unpicklable(Exception):
    """An error that cannot be sent to another process."""

    def __init__(self) -> None:
        super().__init__("it has a lock")
        self.lock = threading.Lock()


def unsendable(node: Node) -> None:
    """Raise an error that cannot be sent to another process."""
    raise Unpicklable


def send_numbers(node: Node, peer: str, run: str, count: int, size: int) -> None:
    """Send arrays, each with the message's number."""
    for number in range(count):
        node.mailbox.send(run, number, peer, np.full(size, float(number)))


def sum_numbers(node: Node, peer: str, run: str, count: int, size: int) -> float:
    """Receive arrays and return the sum of all their elements."""
    total, into = 0.0, np.zeros(size)
    for number in range(count):
        node.mailbox.receive(run, number, into, 20.0, source=peer)
        total += float(into.sum())
    node.mailbox.end(run)
    return total


def receive_nothing(node: Node, peer: str) -> None:
    """Wait for a message that never comes."""
    node.mailbox.receive("endless", 0, None, 60.0, source=peer)


def lose_peer(node: Node, peer: str, cause: str) -> None:
    """Let waits for messages of another worker fail."""
    node.mailbox.lose(peer, cause)


def cancel_run(node: Node, run: str, cause: str) -> None:
    """End all waits for messages of a run."""
    node.mailbox.cancel(run, cause)


def is_encrypted(node: Node) -> bool:
    """Return whether the connections for messages are encrypted."""
    return not any(link.is_plain for link in node.sockets)


def send_back(node: Node, peer: str, run: str, size: int) -> None:
    """Receive an array, and send twice its elements back."""
    into = np.zeros(size)
    node.mailbox.receive(run, 0, into, 20.0, source=peer)
    node.mailbox.send(run, 1, peer, 2 * into)
    node.mailbox.end(run)


def doubled(node: Node, data: np.ndarray) -> np.ndarray:
    """Return twice an array."""
    return 2 * data


def limit_memory(node: Node, nbytes: int | None) -> None:
    """Limit the memory that the machine reports; None for all of it."""
    node.find_devices_again()
    if nbytes is not None:
        found = node.platform
        node._platform = replace(found, spaces=tuple(replace(each, capacity_bytes=nbytes) for each in found.spaces))


def await_clients(node: Node, seconds: float) -> None:
    """Set how long the parts of a lost client are kept."""
    part_runner.CLIENT_GONE_S = seconds
