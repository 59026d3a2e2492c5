# SPDX-License-Identifier: Apache-2.0
"""Keys of the SPIR-V of Python kernels, by content: for packs, and with the compiler's versions for the user's cache.

All that a kernel's code follows from is known without importing a compiler, which takes longer than all else in a short
run. Kernels that refer to what has no description, such as objects of other packages, have no key: every process
compiles them.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from syclsched.devices.programs.python_kernels.code_description import described, sources_digest
from syclsched.kernel_compiler.compiled_kernel import Argument
from syclsched.kernel_compiler.python_kernel import PythonKernel

#: The format of keys and of their contents: another one makes other keys.
_FORMAT: Final = "1"


def content_key(kernel: Any, compiler: str, arguments: tuple[Argument, ...], traits: tuple[str, ...]) -> str | None:
    """Return the key of a kernel's SPIR-V; None if it depends on an object without a description.

    Equal on every machine with one minor version of Python, whose code of functions it is made of.
    """
    if not isinstance(kernel, PythonKernel):
        return None
    text = described(kernel.function, kernel.fastmath, kernel.options)
    if text is None:
        return None
    intrinsics = "" if kernel.intrinsics is None else _sources_beside(kernel.intrinsics)
    python = "{}.{}".format(*sys.version_info)
    return _digest(_FORMAT, compiler, python, text, repr(arguments), intrinsics, *traits)


def cache_key(content: str, versions: tuple[str, ...]) -> str:
    """Return the key in the user's cache: the compiler's versions are part of it."""
    return _digest(content, *versions)


@lru_cache(maxsize=16)
def _sources_beside(function: Callable[..., Any]) -> str:
    """Return a digest of the sources in a function's folder."""
    return sources_digest(Path(inspect.getfile(function)).parent)


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode()
        digest.update(b"%d\0" % len(content) + content)
    return digest.hexdigest()
