# SPDX-License-Identifier: Apache-2.0
"""dpctl's Python interfaces whose place or name depends on the generation of the stack."""

from __future__ import annotations

import importlib
from typing import Any

from syclsched.oneapi import stack_generation


def usm_arrays() -> Any:
    """Return the module of ``usm_ndarray`` and its functions: ``dpctl.tensor``, or ``dpnp.tensor`` since dpctl 0.22."""
    return importlib.import_module(stack_generation.installed().array_module)


def usm_array_extension(name: str) -> Any:
    """Return a private extension module of the module of ``usm_ndarray``, such as ``_tensor_elementwise_impl``."""
    return importlib.import_module(f"{stack_generation.installed().array_module}.{name}")
