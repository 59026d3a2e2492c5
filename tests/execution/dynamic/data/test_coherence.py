# SPDX-License-Identifier: Apache-2.0
"""The coherence directory: valid copies, and the dependencies of reads, writes and releases of buffers."""

from __future__ import annotations

from syclsched.execution.dynamic.data.coherence import CoherenceDirectory

HOST, GPU = 0, 1


def test_a_write_leaves_one_valid_copy_and_a_copy_adds_one() -> None:
    directory = CoherenceDirectory(1, 2)
    directory.put(0, HOST)
    directory.copied(0, HOST, GPU, (5, 0))
    assert directory.valid[0] == [HOST, GPU]
    directory.written(0, GPU, (0, 0))
    assert directory.valid[0] == [GPU]
    directory.left([0], GPU)
    assert directory.valid[0] == []


def test_reads_depend_on_the_writer_and_writes_also_on_readers() -> None:
    directory = CoherenceDirectory(1, 2)
    directory.written(0, GPU, (0, 3))
    directory.read(0, GPU, (1, 0))
    directory.copied(0, GPU, HOST, (2, 7))
    assert directory.read_dependency(0, GPU) == (0, 3)
    assert sorted(directory.write_dependencies(0, GPU)) == [(0, 3), (1, 0), (2, 7)]
    assert directory.write_dependencies(0, HOST) == [(2, 7)]
    directory.written(0, GPU, (0, 4))
    assert directory.write_dependencies(0, GPU) == [(0, 4)]


def test_of_all_that_touches_memory_the_latest_of_each_lane_counts() -> None:
    directory = CoherenceDirectory(3, 2)
    directory.written(0, GPU, (0, 2))
    directory.written(1, GPU, (0, 9))
    directory.written(2, GPU, (0, 5))
    directory.read(0, GPU, (1, 4))
    directory.read(2, GPU, (1, 1))
    assert directory.users([0, 1, 2], GPU) == {0: 9, 1: 4}
    assert directory.users([0, 1, 2], HOST) == {}
