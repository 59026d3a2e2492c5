# SPDX-License-Identifier: Apache-2.0
"""Construction of an `Implementation` from a function that maps signatures to oneDNN primitives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, Final

from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.errors import CapabilityError
from syclsched.kernels.onednn.library import DISTRIBUTION
from syclsched.kernels.onednn.requests import REFUSED, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Tensor
from syclsched.model.operation import Implementation, Requirements, Signature

NAME: Final = "onednn"


@dataclass(frozen=True, slots=True)
class PrimitiveSpec:
    """A signature's primitive and the preparation of its constants."""

    request: PrimitiveRequest | None  # None if the result has no elements
    #: Parameter whose layout the library chooses -> the layout of its C-contiguous array, in the primitive's logical
    #: order. Constants are packed beforehand, other arrays in each call.
    sources: Mapping[str, Tensor] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)  # constant -> scale applied beforehand


Describe = Callable[[Signature], PrimitiveSpec]
EMPTY_SPEC: Final = PrimitiveSpec(None)


def refuse(reason: str) -> CapabilityError:
    """Return the error for a signature that oneDNN does not support."""
    return CapabilityError(reason, where="oneDNN")


def _is_empty(signature: Signature) -> bool:
    """Return whether the result is empty; refuse signatures with other empty arrays."""
    if prod(signature.shapes["y"]) == 0:
        return True
    for name, shape in signature.shapes.items():
        if prod(shape) == 0:
            raise refuse(f"{name} has no elements")
    return False


def implementation(
    describe: Describe, *, efficiency: float, dtypes: tuple[str, ...] = ("float32",), revision: str = "2"
) -> Implementation:
    """Return the implementation whose signatures ``describe`` maps to primitives."""
    return Implementation(
        NAME,
        "library",
        partial(_load, describe=describe),
        requires=Requirements(
            dtypes=dtypes,
            # oneDNN rejects the FPGA emulator: "bad engine kind".
            device_kinds=("cpu", "gpu"),
            packages=(DISTRIBUTION,),
            libraries=("oneDNN",),
            refuses=partial(_refuses, describe=describe),
        ),
        efficiency=efficiency,
        revision=revision,
        prepare=partial(_prepare, describe=describe),
        form=partial(_form, describe=describe),
    )


def _refuses(signature: Signature, *, describe: Describe) -> str | None:
    try:
        request = _described(signature, describe).request
    except CapabilityError as error:
        return error.what
    return None if request is None else REFUSED.get(request)


def _described(signature: Signature, describe: Describe) -> PrimitiveSpec:
    return EMPTY_SPEC if _is_empty(signature) else describe(signature)


def _load(signature: Signature, *, describe: Describe) -> Any:
    from syclsched.kernels.onednn.calls import LoadedPrimitive, submit_empty

    described = _described(signature, describe)
    if described.request is None:
        return submit_empty
    changing = {name: tensor for name, tensor in described.sources.items() if name not in signature.constants}
    return LoadedPrimitive(described.request, changing)


def _prepare(signature: Signature, queue: SyclQueue, constants: Mapping[str, Any], *, describe: Describe) -> Any:
    from syclsched.kernels.onednn.packing import prepare

    described = _described(signature, describe)
    scaled = {
        name: values * values.dtype.type(described.factors[name]) if name in described.factors else values
        for name, values in constants.items()
    }
    return prepare(described.request, described.sources, queue, scaled)


def _form(signature: Signature, queue: SyclQueue, *, describe: Describe) -> Any:
    from syclsched.kernels.onednn.packing import form

    described = _described(signature, describe)
    factors = tuple(sorted(described.factors.items()))
    return NAME, factors, form(described.request, described.sources, queue, sorted(signature.constants))
