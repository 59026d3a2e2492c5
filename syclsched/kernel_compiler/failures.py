# SPDX-License-Identifier: Apache-2.0
"""Failures of compilation, as errors with the line of the kernel and the unsupported construct."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numba

from syclsched.errors import KernelCompilationError, SyclschedError

_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_PLACE: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
#: The same where numba gives only the operation for which it was generating code.
_LOWERED_PLACE: Final = re.compile(r"During: lowering .* at (?P<file>.+) \((?P<line>\d+)\)")
#: The reason of a function that refuses the types of its arguments, among numba's account of all candidates.
_REFUSAL: Final = re.compile(r"raised a specific error:\s+\w+: ([^\n]+)\s+raised from [^\n]*kernel_compiler")
_LIBRARY: Final = os.path.dirname(numba.__file__)


@contextmanager
def explained(function: Callable[..., Any]) -> Iterator[None]:
    """Turn errors of numba and LLVM into an error that names the user's line."""
    try:
        yield
    except SyclschedError:
        raise
    except Exception as error:  # numba raises a dozen unrelated types from as many compiler stages
        raise KernelCompilationError(_reason(error), where=_place(error, function)) from error


def _text(error: BaseException) -> str:
    return _ANSI.sub("", str(error))


def _reason(error: BaseException) -> str:
    said = []
    text = _text(error)
    if refusals := _REFUSAL.findall(text):
        return str(refusals[0]).rstrip(".:")
    lines = [line.strip() for line in text.splitlines()]
    for line in lines:
        if line.startswith(("File ", "During:", "There are ")):
            break
        if line and not line.startswith("Failed in "):
            said.append(line)
    if said and said[0].startswith("No implementation of function"):
        call = next((line.removeprefix(">>> ") for line in said if line.startswith(">>> ")), said[0])
        return f"{call} is not supported in a kernel"
    if said and said[0].startswith("No conversion from ") and "to none for" in said[0]:
        return "a kernel returns nothing"
    return " ".join(said[:3]).rstrip(".:") or type(error).__name__


def _place(error: BaseException, function: Callable[..., Any]) -> str:
    text = _text(error)
    for found in (*_PLACE.finditer(text), *_LOWERED_PLACE.finditer(text)):
        file = os.path.abspath(found["file"])
        if not file.startswith(_LIBRARY):
            return f"{file}, line {found['line']}, in kernel {function.__name__}"
    return place_of(function)


def place_of(function: Callable[..., Any]) -> str:
    """Return the place of a function's first line."""
    code = function.__code__
    return f"{code.co_filename}, line {code.co_firstlineno}, in kernel {function.__name__}"
