# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the SYCL runtime in-process; nothing happens until `load` is called."""

from __future__ import annotations

from .libraries import LibraryFound
from .loading import Runtime, is_loaded, load

__all__ = ["LibraryFound", "Runtime", "is_loaded", "load"]
