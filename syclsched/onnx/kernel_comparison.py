# SPDX-License-Identifier: Apache-2.0
"""Comparison of kernels with the library on this machine, by networks of common layers.

First calls of models choose kernels by it, without runs by the library and by kernels of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from syclsched.errors import CapabilityError
from syclsched.onnx.lru_cache import BoundModel
from syclsched.onnx.model import load
from syclsched.onnx.model_build import ModelBuilder
from syclsched.onnx.tuning.autotune import VariantBuilder, compare_all_kernels
from syclsched.onnx.tuning.compared_networks import further_networks, networks
from syclsched.onnx.tuning.implementations import on_devices
from syclsched.onnx.tuning.kernel_selection import is_worth_mixing
from syclsched.planner import PlanRequest

if TYPE_CHECKING:
    from syclsched.model.graph import TaskGraph
    from syclsched.model.platform import Platform
    from syclsched.onnx.specialised import Array

#: As models are compiled by default on one lane.
_REQUEST = PlanRequest(minimize="latency", rewrite="none")


def can_compare(platform: Platform) -> bool:
    """Return whether models on a platform choose between kernels and the library, and ONNX models can be read."""
    return find_spec("onnx") is not None and is_worth_mixing(platform, _REQUEST)


def compare_kernels(platform: Platform) -> bool:
    """Run networks by the library and by kernels, and store how they compare; False if the machine is busy.

    The kernels of these and of further networks are stored, too.

    Raises
    ------
    CapabilityError
        The library does not run on the device.
    """
    refused: CapabilityError | None = None
    is_quiet, has_compared = True, False
    for network in networks():
        try:
            is_quiet = _made(_Comparison(platform, network))
        except CapabilityError as error:  # for instance no instructions for 8-bit numbers
            refused = error
            continue
        if not is_quiet:
            break
        has_compared = True
    for network in further_networks():
        _made(_Kernels(platform, network))
    if refused is not None and is_quiet and not has_compared:
        raise refused
    return is_quiet


def _made(builder: _Kernels) -> bool:
    """Make a plan and close it; return whether no other processes used the machine."""
    try:
        builder.make({}, {}).close()
    finally:
        builder.close()
    return builder.is_quiet


class _Kernels(ModelBuilder):
    """A builder of a plan of a network by kernels, which are stored."""

    def __init__(self, platform: Platform, network: Any) -> None:
        super().__init__(
            load(network),
            platform,
            _REQUEST,
            memory_limit=None,
            autotune=True,
            reuse=False,
            deterministic=False,
            without=frozenset({"python"}),  # compiling them takes longer than all else
            progress=False,
            trace=False,
            carried={},
        )
        #: Whether no other processes used the machine.
        self.is_quiet = True

    def _bound(
        self, variants: VariantBuilder, graph: TaskGraph, values: Mapping[str, Array], *, is_known: bool
    ) -> tuple[BoundModel, bool]:
        tasks = [task.name for task in graph.tasks]
        return variants.plan_and_bind(on_devices(graph, self.platform, tasks)), True


class _Comparison(_Kernels):
    """A builder of a plan of a network, which times its tasks by the library and by kernels."""

    def _bound(
        self, variants: VariantBuilder, graph: TaskGraph, values: Mapping[str, Array], *, is_known: bool
    ) -> tuple[BoundModel, bool]:
        bound = variants.plan_and_bind(on_devices(graph, self.platform))
        try:
            self.is_quiet = compare_all_kernels(bound, graph, values, variants)
        except BaseException:
            bound.close()
            raise
        return bound, True
