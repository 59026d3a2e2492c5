# SPDX-License-Identifier: Apache-2.0
"""Shell completion of values: names of graphs, policies, platforms and devices, without importing the library.

A test compares these names with those of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from glob import escape, glob
from os.path import isdir

GRAPHS = ("cholesky", "mlp", "stencil")
POLICIES = (
    "auto", "heft", "cpop", "peft", "lookahead", "dls", "etf", "mcp", "min-min", "max-min", "sufferage", "clustering",
    "round-robin", "random", "refine",
)  # fmt: skip
DYNAMIC_POLICIES = ("eager", "priority", "dmdas", "stealing", "hybrid")
METRICS = ("makespan", "interval", "energy", "memory", "latency", "throughput")
REWRITES = ("auto", "none", "coarsen", "split", "both")
PROFILES = (
    "a100", "a770", "b580", "cpu", "cpu-subdevice", "emulator", "flex170", "h100", "iris-xe", "max1100", "max1550",
    "mi250x", "pocl", "xeon-8480",
)  # fmt: skip
DEVICE_KINDS = ("cpu", "gpu", "accelerator")
SUB_DEVICES = ("numa", "l4", "l3", "l2", "l1", "next")
FORMATS = ("json", "wfformat", "stg", "dot", "graphml")
CONTENTIONS = ("none", "one-port", "fair")
LOSSES = ("cross_entropy", "mean_squared_error", "mean_absolute_error", "binary_cross_entropy", "model")
SPLITS = ("auto", "single", "tasks", "data", "stages")
OPTIMIZERS = ("sgd", "adam", "adamw", "adagrad")
DTYPES = ("float64", "float32")

#: File names that a graph can have.
_GRAPH_FILES = (".onnx", ".json", ".stg", ".dot", ".graphml", ".gv")


def choices(names: Iterable[str] | Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a completion function for one of several names, or for a list of them joined by commas."""

    def complete(incomplete: str) -> list[str]:
        known = names() if callable(names) else names
        begun, comma, last = incomplete.rpartition(",")
        taken = begun.split(",") if comma else []
        return [f"{begun}{comma}{name}" for name in known if name.startswith(last) and name not in taken]

    return complete


def graph_or_file(incomplete: str) -> list[str]:
    """Complete the name of a ready graph, or of a file with a graph or a model."""
    return [*(name for name in GRAPHS if name.startswith(incomplete)), *_files(incomplete, _GRAPH_FILES)]


def _files(incomplete: str, endings: tuple[str, ...]) -> list[str]:
    found = sorted(glob(f"{escape(incomplete)}*"))
    return [f"{path}/" if isdir(path) else path for path in found if isdir(path) or path.lower().endswith(endings)]


def implementations() -> Iterable[str]:
    """Return the names of implementations of models' tasks."""
    from syclsched.onnx.tuning.implementations import IMPLEMENTATIONS

    return IMPLEMENTATIONS
