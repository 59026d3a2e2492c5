# SPDX-License-Identifier: Apache-2.0
"""Identities of processes: living processes and ended ones, also with reused numbers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from syclsched.monitoring.process_identity import ProcessIdentity


def test_this_process_is_alive_and_named_by_its_text() -> None:
    own = ProcessIdentity.own()
    assert own.is_here
    assert own.is_alive
    assert ProcessIdentity.parse(str(own)) == own


def test_a_number_that_is_used_again_is_another_process() -> None:
    own = ProcessIdentity.own()
    assert not replace(own, start_ticks=own.start_ticks - 1).is_alive


def test_a_process_of_another_namespace_is_not_local() -> None:
    own = ProcessIdentity.own()
    assert not replace(own, namespace=own.namespace + 1).is_here


def test_an_ended_process_is_not_alive_even_as_a_zombie() -> None:
    program = "from syclsched.monitoring.process_identity import ProcessIdentity; print(ProcessIdentity.own())"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        identity = ProcessIdentity.parse(process.stdout.read().strip())  # wait for its exit
        assert identity is not None
        assert identity.pid == process.pid
        process.wait()
    assert not identity.is_alive


@pytest.mark.parametrize("text", ["", "1-2", "1-2-3-4", "a-2-3", "1-2-3x", "-1-2-3", "1" * 30 + "-2-3"])
def test_other_texts_name_no_process(text: str) -> None:
    assert ProcessIdentity.parse(text) is None
