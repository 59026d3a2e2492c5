# SPDX-License-Identifier: Apache-2.0
"""Task graphs planned, verified and executed asynchronously on every SYCL device of a machine.

Names are imported on first use, so ``import syclsched`` is fast and needs no SYCL runtime.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# In a checkout, kernels/ and device_profiles/ lie beside this package; in an installation, inside it. `python -m
# syclsched` in a checkout imports this folder even if the package is installed elsewhere.
_above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if not os.path.isdir(os.path.join(__path__[0], "kernels")) and os.path.isfile(os.path.join(_above, "pyproject.toml")):
    __path__.append(_above)
del _above

#: Public name to defining module.
_LAZY = {
    "AccessMode": "syclsched.model.access",
    "Adagrad": "syclsched.training",
    "Adam": "syclsched.training",
    "AdamW": "syclsched.training",
    "Constant": "syclsched.model.constant",
    "Copies": "syclsched.model.operation",
    "DeviceLimits": "syclsched.model.operation",
    "DeviceProfile": "syclsched.model.profile",
    "Implementation": "syclsched.model.operation",
    "Launch": "syclsched.model.operation",
    "NativeCall": "syclsched.model.operation",
    "OpenCLSource": "syclsched.model.operation",
    "Operation": "syclsched.model.operation",
    "Parameter": "syclsched.model.operation",
    "Plan": "syclsched.model.plan",
    "Platform": "syclsched.model.platform",
    "Read": "syclsched.model.graph_parts.annotations",
    "ReadingElsewhere": "syclsched.model.operation",
    "Reduce": "syclsched.model.graph_parts.annotations",
    "Requirements": "syclsched.model.operation",
    "SGD": "syclsched.training",
    "Signature": "syclsched.model.operation",
    "SpirvModule": "syclsched.model.operation",
    "Split": "syclsched.model.operation",
    "SyclschedError": "syclsched.errors",
    "TaskGraph": "syclsched.model.graph",
    "Tailored": "syclsched.model.operation",
    "Trace": "syclsched.model.trace",
    "Update": "syclsched.model.graph_parts.annotations",
    "Work": "syclsched.model.operation",
    "Write": "syclsched.model.graph_parts.annotations",
    "calibrate": "syclsched.api",
    "compile": "syclsched.onnx",
    "connect": "syclsched.cluster",
    "dask_scheduler": "syclsched.api.dask_scheduling",
    "describe": "syclsched.api",
    "device_func": "syclsched.kernel_compiler.python_kernel",
    "discover": "syclsched.api",
    "from_dask": "syclsched.frontends",
    "from_networkx": "syclsched.frontends",
    "kernel": "syclsched.kernel_compiler.python_kernel",
    "load_pack": "syclsched.devices.programs.python_kernels.spirv_packs",
    "operation": "syclsched.operations",
    "monitor": "syclsched.api",
    "memory_info": "syclsched.devices.memory.space_pools",
    "plan": "syclsched.api",
    "plan_front": "syclsched.planner",
    "read_graph": "syclsched.frontends",
    "bind": "syclsched.api",
    "constant": "syclsched.model.constant",
    "run": "syclsched.api",
    "simulate": "syclsched.api",
    "to_networkx": "syclsched.frontends",
    "train": "syclsched.training",
    "verify": "syclsched.api",
    "with_memory_limit": "syclsched.planner",
    "write_graph": "syclsched.frontends",
}

#: Public modules that are imported on first use.
_ROOMS = ("cluster", "dpex", "kernel_api", "onnx", "training")

__all__ = ["__version__", *sorted((*_LAZY, *_ROOMS))]

if TYPE_CHECKING:
    from syclsched import cluster, dpex, kernel_api, onnx, training
    from syclsched.api import bind, calibrate, describe, discover, monitor, plan, run, simulate, verify
    from syclsched.api.dask_scheduling import dask_scheduler
    from syclsched.cluster import connect
    from syclsched.devices.memory.space_pools import memory_info
    from syclsched.devices.programs.python_kernels.spirv_packs import load_pack
    from syclsched.errors import SyclschedError
    from syclsched.frontends import from_dask, from_networkx, read_graph, to_networkx, write_graph
    from syclsched.kernel_compiler.python_kernel import device_func, kernel
    from syclsched.model.access import AccessMode
    from syclsched.model.constant import Constant, constant
    from syclsched.model.graph import TaskGraph
    from syclsched.model.graph_parts.annotations import Read, Reduce, Update, Write
    from syclsched.model.operation import (
        Copies,
        DeviceLimits,
        Implementation,
        Launch,
        NativeCall,
        OpenCLSource,
        Operation,
        Parameter,
        ReadingElsewhere,
        Requirements,
        Signature,
        SpirvModule,
        Split,
        Tailored,
        Work,
    )
    from syclsched.model.plan import Plan
    from syclsched.model.platform import Platform
    from syclsched.model.profile import DeviceProfile
    from syclsched.model.trace import Trace
    from syclsched.onnx import compile
    from syclsched.operations import operation
    from syclsched.planner import plan_front, with_memory_limit
    from syclsched.training import SGD, Adagrad, Adam, AdamW, train


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name in _ROOMS:
        return importlib.import_module(f"syclsched.{name}")
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'syclsched' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
