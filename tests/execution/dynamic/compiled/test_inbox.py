# SPDX-License-Identifier: Apache-2.0
"""The inbox: messages from many threads to one thread that sleeps in between."""

from __future__ import annotations

import threading

from syclsched.execution.dynamic.compiled.inbox import Inbox

SENDERS, MESSAGES = 3, 4000


def test_messages_wake_the_receiver_complete_and_in_order() -> None:
    inbox: Inbox[tuple[int, int]] = Inbox()
    taken: list[tuple[int, int]] = []

    def take() -> None:
        while len(taken) < SENDERS * MESSAGES:
            inbox.wait(1e-6)  # so short that it ends before the inbox is checked again
            while not inbox.empty():
                taken.append(inbox.get())

    def send(sender: int) -> None:
        for number in range(MESSAGES):
            inbox.put((sender, number))

    threads = [threading.Thread(target=take, daemon=True)]
    threads += [threading.Thread(target=send, args=(sender,)) for sender in range(SENDERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(300)
    assert not any(each.is_alive() for each in threads)
    for sender in range(SENDERS):
        assert [number for who, number in taken if who == sender] == list(range(MESSAGES))


def test_the_shortest_waits_end() -> None:
    def wait() -> None:
        for _ in range(20_000):  # queue.SimpleQueue's failed this after some thousand
            Inbox[str]().wait(1e-6)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(300)
    assert not thread.is_alive()


def test_a_message_ends_a_wait() -> None:
    inbox: Inbox[str] = Inbox()
    ended = threading.Event()

    def wait() -> None:
        while inbox.empty():
            inbox.wait(600)
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    inbox.put("cancel")
    assert ended.wait(60) and inbox.get() == "cancel" and inbox.empty()
