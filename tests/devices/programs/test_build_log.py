# SPDX-License-Identifier: Apache-2.0
"""Shortened build logs: messages about the source, with the line of the first error."""

from __future__ import annotations

from syclsched.devices.programs.build_log import describe_log

SOURCE = "__kernel void k(__global float *y) {\n    y[0] = no_such_name;\n}\n"


def test_the_source_line_is_added_where_the_compiler_leaves_it_out() -> None:
    log = "Compilation started\n/x.cl:2:12: error: use of undeclared identifier 'no_such_name'\nCompilation failed\n\0"
    assert describe_log(log, SOURCE).splitlines() == [
        "/x.cl:2:12: error: use of undeclared identifier 'no_such_name'",
        "line 2 is: y[0] = no_such_name;",
    ]


def test_the_place_may_follow_the_kind_of_the_diagnostic() -> None:
    log = "error: /c/tempfile_3.cl:2:12: use of undeclared identifier 'no_such_name'\nDevice A failed to build it"
    assert describe_log(log, SOURCE).splitlines()[-1] == "line 2 is: y[0] = no_such_name;"


def test_a_log_that_shows_the_line_is_unchanged() -> None:
    log = "2:12: error: undeclared\n    y[0] = no_such_name;\n           ^"
    assert describe_log(log, SOURCE) == log


def test_the_number_of_the_compilation_is_left_out() -> None:
    log = "17:2:12: error: undeclared\n    y[0] = no_such_name;\n17:1:8: note: declared here"
    assert describe_log(log, SOURCE) == "2:12: error: undeclared\n    y[0] = no_such_name;\n1:8: note: declared here"


def test_a_long_log_is_truncated_with_a_note() -> None:
    log = "\n".join(f"{n}:1: warning: {'x' * 1000}" for n in range(100))
    lines = describe_log(log, SOURCE).splitlines()
    assert len(lines) == 25
    assert lines[-1] == "... (76 more lines)"
    assert max(map(len, lines)) == 300


def test_an_empty_log_gives_nothing() -> None:
    assert describe_log("", SOURCE) == ""
    assert describe_log("99:1: error: beyond the end", SOURCE) == "99:1: error: beyond the end"
