# SPDX-License-Identifier: Apache-2.0
"""Consoles of the command line: results on standard output, notices on standard error, and the level of notices.

On a terminal, tables have its width. Elsewhere nothing is wrapped or cut, unless the environment variable COLUMNS sets
a width. Text is wrapped between words only, so that paths and commands stay whole.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from syclsched.errors import ArgumentError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

#: Width in columns where nothing is to be wrapped.
UNLIMITED = 100_000


class Verbosity(IntEnum):
    """Level of notices on standard error."""

    QUIET = -1  # errors only
    NORMAL = 0  # progress, files written, warnings
    VERBOSE = 1  # also decisions, and log messages
    DEBUG = 2  # also the log messages for debugging


_LOG_LEVELS = {Verbosity.VERBOSE: logging.INFO, Verbosity.DEBUG: logging.DEBUG}
_level = Verbosity.NORMAL


def verbosity() -> Verbosity:
    """Return the level of notices."""
    return _level


def set_verbosity(level: Verbosity) -> None:
    """Set the level of notices of this process's commands, and let the library log as much."""
    global _level
    _level = level
    if level in _LOG_LEVELS:
        logging.getLogger("syclsched").setLevel(_LOG_LEVELS[level])


def apply_message_options(*, quiet: bool, verbose: int) -> None:
    """Set the level of notices as --quiet and --verbose say; earlier ones of the same command line hold as well."""
    level = verbosity()
    if (quiet and (verbose or level > Verbosity.NORMAL)) or (verbose and level < Verbosity.NORMAL):
        raise ArgumentError("--quiet and --verbose cannot be combined", where="the command line")
    if quiet:
        set_verbosity(Verbosity.QUIET)
    elif verbose:
        set_verbosity(Verbosity(min(level + verbose, Verbosity.DEBUG)))


def output() -> Console:
    """Return a console for results, on standard output."""
    return _console_class()(highlight=False, width=_width(sys.stdout))


def notices() -> Console:
    """Return a console for progress, notices and warnings, on standard error; it prints nothing under --quiet."""
    quiet = _level <= Verbosity.QUIET
    return _console_class()(stderr=True, highlight=False, width=_width(sys.stderr), quiet=quiet)


def errors() -> Console:
    """Return a console for errors, on standard error."""
    return _console_class()(stderr=True, highlight=False, width=_width(sys.stderr))


def detail(text: str) -> None:
    """Print a line under --verbose: a decision, or where something comes from."""
    if _level >= Verbosity.VERBOSE:
        notices().print(text, style="dim", markup=False)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    if _level > Verbosity.QUIET:
        _print_warning(notices(), text)


def show_pages(blocks: Iterable[RenderableType], *, paged: bool = True) -> None:
    """Print results; on a terminal through a pager (PAGER, or less) if they are longer than the screen."""
    console = output()
    with console.capture() as captured:
        for block in blocks:
            console.print(block)
    text = captured.get()
    if paged and console.is_terminal and sys.stdin.isatty() and text.count("\n") >= console.height:
        import pydoc

        os.environ.setdefault("LESS", "-R")  # colours, as in the terminal
        pydoc.pager(text)
    else:
        console.file.write(text)


@contextmanager
def shown_messages() -> Iterator[None]:
    """Print the library's warnings and log messages as notices while the block runs."""
    logger, handler = logging.getLogger("syclsched"), _NoticeHandler()
    before = logger.level
    logger.addHandler(handler)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)


class _NoticeHandler(logging.Handler):
    """Log handler that prints warnings as notices, and under --verbose other messages, too."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            warn(record.getMessage())
        elif record.levelno >= _LOG_LEVELS.get(_level, logging.WARNING):
            detail(record.getMessage())


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a Python warning, without its source line."""
    warn(str(message))


def _print_warning(console: Console, text: str) -> None:
    from rich.text import Text

    console.print(Text.assemble(("warning: ", "bold yellow"), text))


def _width(stream: Any) -> int | None:
    """Return the width of text on a stream; None for that of the terminal or of COLUMNS."""
    try:
        on_terminal = stream.isatty()
    except (AttributeError, ValueError):  # no stream, or a closed one
        on_terminal = False
    return None if on_terminal or os.environ.get("COLUMNS", "").isdecimal() else UNLIMITED


@cache
def _console_class() -> Callable[..., Console]:
    """Return the class of consoles; rich takes long to import."""
    from rich.console import Console
    from rich.text import Text

    class WordConsole(Console):
        """Console that wraps text between words only; longer words extend beyond the width."""

        def print(self, *objects: Any, **named: Any) -> None:
            if len(objects) == 1 and isinstance(objects[0], (str, Text)) and named.get("soft_wrap") is None:
                markup = {name: named.pop(name) for name in ("markup", "highlight", "emoji") if name in named}
                given = objects[0]
                text = self.render_str(given, **markup) if isinstance(given, str) else given
                objects, named = (wrapped(text, self.width),), {**named, "soft_wrap": True}
            super().print(*objects, **named)

    return WordConsole


def wrapped(text: Text, width: int) -> Text:
    """Return a text with line breaks between words, so that lines have at most ``width`` columns if words allow it."""
    from rich.cells import cell_len
    from rich.text import Text

    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        breaks, begin = [], 0
        for word in re.finditer(r"\S+", line.plain):
            follows_word = bool(line.plain[begin : word.start()].strip())
            if follows_word and cell_len(line.plain[begin : word.end()]) > width:
                begin = word.start()
                breaks.append(begin)
        pieces = list(line.divide(breaks))
        for piece in pieces[:-1]:
            piece.rstrip()
        lines += pieces
    return Text("\n").join(lines)
