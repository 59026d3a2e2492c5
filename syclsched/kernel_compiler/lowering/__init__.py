# SPDX-License-Identifier: Apache-2.0
"""Typing and code generation of the kernel API: indices, arrays, barriers, atomics, mathematics. Internal."""

from importlib import import_module

_MODULES = (
    "index_space",
    "array_indexing",
    "private_arrays",
    "constant_arrays",
    "tuples",
    "half_precision",
    "synchronisation",
    "atomics",
    "mathematics",
)


def load_all() -> None:
    """Import all modules, which register their functions with the target."""
    for name in _MODULES:
        import_module(f"{__name__}.{name}")
