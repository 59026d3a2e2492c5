# SPDX-License-Identifier: Apache-2.0
"""The SYCL runtime: found and loaded in this process, only when `load` is called.

Public are the names in ``__all__``; the modules are Internal.
"""

from __future__ import annotations

from syclsched.oneapi.libraries import LibraryFound
from syclsched.oneapi.loading import Runtime, is_loaded, load

__all__ = ["LibraryFound", "Runtime", "is_loaded", "load"]
