# SPDX-License-Identifier: Apache-2.0
"""Compilation of ONNX models: the options, and the compiled model that they make."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from syclsched.errors import ArgumentError, check_kind, several
from syclsched.model.platform import Platform
from syclsched.onnx.carried_state import carried_pairs, customary_pairs
from syclsched.onnx.compiled_model import KEPT, CompiledModel
from syclsched.onnx.model import GivenShapes, OnnxModel, load
from syclsched.onnx.model_build import ModelBuilder, default_platform
from syclsched.onnx.shapes.buckets import Buckets
from syclsched.onnx.tuning.implementations import check_names
from syclsched.onnx.tuning.kernel_selection import default_rewrite
from syclsched.planner.memory_limit import MemoryLimit
from syclsched.progress import Progress, shown
from syclsched.scheduling.objectives import minimize as aim_at

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from syclsched.planner import ModelPlanOptions, PlanRequest


def compile(
    model: OnnxModel | str | os.PathLike[str] | bytes | Any,
    platform: Platform | None = None,
    *,
    devices: str | None = None,
    shapes: GivenShapes | None = None,
    rewrites: bool | Iterable[str] = True,
    memory_limit: MemoryLimit | None = None,
    autotune: bool = True,
    without: Iterable[str] = (),
    progress: Progress | bool | None = None,
    keep: int = KEPT,
    trace: bool | int = False,
    carried: Mapping[str, str] | bool = False,
    **planning: Unpack[ModelPlanOptions],
) -> CompiledModel:
    """Make an ONNX model ready to be called with inputs.

    It is planned and bound at the first call, and again at the first call with other shapes; or beforehand by
    `CompiledModel.load`, if the model or ``shapes`` gives all shapes.

    Parameters
    ----------
    model : OnnxModel, path, bytes or onnx.ModelProto
        The model; see `load`.
    platform : Platform, optional
        The devices to use; by default every usable device of this machine except emulators.
    devices : str, optional
        A selection of this machine's devices in place of ``platform``, as for `syclsched.discover`.
    shapes, rewrites
        As for `load`; not allowed with an `OnnxModel`.
    minimize : str, optional
        ``latency`` (of one run), ``throughput`` (the time between runs of a stream), ``energy`` or ``memory``.
    policy, rewrite, subject_to, memory_limit
        As for `syclsched.plan`. By default tasks are split and merged only if there is more than one lane.
    autotune : bool, optional
        Time the implementations of every operation on every device, once per shape; the times are stored. Without, the
        first call is ready earlier, and later ones may take longer.
    reuse : bool, optional
        Use plans of earlier processes again; and as `syclsched.run`, try the plans whose predictions lie within their
        uncertainty, one in each process or set of shapes, and keep the fastest. Of the calls of a model, the first five
        are measured for this. By default true.
    deterministic : bool, optional
        Plan by the device profiles alone, without measured times: the implementations are the same in every process,
        and so are the bits of the results. Nothing is timed beforehand. By default false.
    buckets : Mapping[str, iterable of int, int or str], optional
        For open dimensions, by name (``"x[0]"`` for axis 0 of input ``x``, if it has none), the extents for which plans
        are made: ``{"batch": (1, 8, 32)}``, a number for its multiples, or ``"powers of two"``. A call runs in the plan
        of the next larger extents, with the same results; above the largest, in one of its own. Values that are carried
        and elements of sequences have no buckets.
    without : iterable of str, optional
        Names of implementations not to use: ``["opencl-c-winograd"]``. Tasks that no other can run on the devices keep
        them.
    progress : callable or bool, optional
        Called with (done, total, next step) while the model is prepared; both numbers are 0 if the amount of work is
        unknown. ``True`` shows a bar, as notebooks do if nothing is given; ``False`` shows none. The next step is also
        logged by ``syclsched`` as INFO.
    keep : int, optional
        Number of sets of input shapes in the cache, evicted least recently used.
    trace : bool or int, optional
        Record traces of runs; see `syclsched.bind`.
    carried : Mapping[str, str] or bool, optional
        Outputs that are inputs of the next call, such as a language model's cache of keys and values:
        ``{"present.0.key": "past_key_values.0.key"}``; ``True`` for those with such names. They stay in the device's
        memory, 0 or the model's default values at first, and are neither given to calls nor returned; see
        `CompiledModel.reset`.

    Returns
    -------
    CompiledModel
        Call it; use it in a ``with`` statement, or `CompiledModel.close` it.

    Raises
    ------
    StorageError, ModelError
        As `load`.
    ArgumentError
        If arguments contradict the model or each other, or name an unknown implementation.
    PolicyError
        If there is no such policy, or its device is not one of the platform.

    Examples
    --------
    >>> import numpy as np, syclsched
    >>> with syclsched.compile("resnet50.onnx", devices="cpu") as classify:  # doctest: +SKIP
    ...     classify(np.zeros((1, 3, 224, 224), "float32"))
    """
    from syclsched.planner.plan_request import check_flag, check_trace

    if platform is not None and devices is not None:
        raise ArgumentError("both a platform and devices are given", where="compile()", hint="Leave one of them out")
    if platform is not None:
        check_kind(platform, Platform, "platform", "Give devices='cpu', or a platform of syclsched.discover()")
    without = frozenset(several("without", without))
    check_names(without)
    shown("preparation", progress)  # refuse a wrong one now, as all names, not at the first call
    request, rewrite = _request(planning)
    deterministic, reuse = planning.get("deterministic", False), planning.get("reuse", True)
    for option, given in (("autotune", autotune), ("deterministic", deterministic), ("reuse", reuse)):
        check_flag(option, given)
    check_trace(trace)
    aim_at(request.minimize).subject_to(*request.subject_to)
    if isinstance(model, OnnxModel):
        if shapes is not None or rewrites is not True:
            raise ArgumentError(
                "shapes and rewrites are given when a model is loaded, not when it is compiled", where="compile()"
            )
        loaded = model
    else:
        loaded = load(model, shapes=shapes, rewrites=rewrites)
    pairs = carried_pairs(carried, (*loaded.inputs, *loaded.defaulted), loaded.outputs)
    loaded, first = loaded.requiring(pairs.values())
    growing = pairs or customary_pairs(loaded.inputs, loaded.outputs)
    buckets = Buckets(planning.get("buckets") or {}, loaded, pairs.values(), growing)
    platform = default_platform(devices) if platform is None else platform
    request.check_names(platform)
    builder = ModelBuilder(
        loaded,
        platform,
        replace(request, rewrite=default_rewrite(platform, request.policy) if rewrite is None else rewrite),
        memory_limit=memory_limit,
        autotune=autotune and not deterministic,
        reuse=reuse and not deterministic,
        deterministic=deterministic,
        without=without,
        progress=progress,
        trace=trace,
        carried=pairs,
    )
    return CompiledModel(
        loaded, builder, keep=keep, carried=pairs, first=first, buckets=buckets if buckets.are_any else None
    )


def _request(planning: ModelPlanOptions) -> tuple[PlanRequest, str | None]:
    """Return the planning request of `compile`, and its rewrite if one was given."""
    from syclsched.planner import PlanRequest

    given = {"minimize": "latency", **planning}
    rewrite = given.get("rewrite")
    if rewrite is None:
        given.pop("rewrite", None)
    for name in ("reuse", "deterministic", "buckets"):
        given.pop(name, None)
    for name in given:
        if name not in ("policy", "minimize", "subject_to", "rewrite"):
            raise TypeError(f"compile() got an unexpected keyword argument {name!r}")
    request = PlanRequest(**given)  # type: ignore[arg-type]  # the values have the types of ModelPlanOptions
    return replace(request, subject_to=several("subject_to", request.subject_to)), cast("str | None", rewrite)
