# SPDX-License-Identifier: Apache-2.0
"""Operations of ``loop`` nodes: one kernel that executes all iterations, or the host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from syclsched.frontends.onnx.loops.host_program import LoopOnHost
from syclsched.frontends.onnx.loops.loop_body import LoopBody
from syclsched.frontends.onnx.loops.loop_kernel import loop_source, own_arrays, step_flops, why_no_kernel
from syclsched.frontends.onnx.network import Value
from syclsched.frontends.onnx.operation_arguments import OperationOf
from syclsched.kernels.common import OPENCL_C
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Launch, Operation, Parameter, Signature, Work

#: Number of iterations assumed for costs where it is known only at run time and has no limit.
_USUAL_ROUNDS = 16


def loop_operation(body: LoopBody, origin: tuple[str, ...], operation_of: OperationOf) -> Operation:
    """Return the operation of a loop: parameters ``y0``, ... (written), ``x0``, ..., and the body's constants."""
    operator = origin[0].split(" ", 1)[0].lower() if origin else "loop"
    parameters = (
        *(Parameter(f"y{i}", AccessMode.WRITE) for i in range(body.output_count)),
        *(Parameter(f"x{i}", AccessMode.READ) for i in range(body.input_count)),
        *(Parameter(name, AccessMode.READ) for name in loop_constants(body)),
        *(Parameter(name, AccessMode.WRITE) for name in loop_scratch(body)),
    )
    return Operation(
        name=f"{operator} of {len(body.network.nodes)} operations {body.digest}",
        parameters=parameters,
        implementations=(
            Implementation(
                "opencl-c",
                "opencl-c",
                partial(loop_source, body, parameters=parameters),
                lambda signature, limits: Launch((1,), (1,)),
                replace(OPENCL_C, device_kinds=("cpu",), refuses=lambda _: why_no_kernel(body)),
                efficiency=0.3,
            ),
            Implementation("numpy", "host", _LoopLoader(body, operation_of), efficiency=0.05),
        ),
        work=partial(_work, body=body),
    )


@dataclass(frozen=True, slots=True)
class _LoopLoader:
    """Loads the host implementation of a loop."""

    body: LoopBody
    operation_of: OperationOf

    def __call__(self, signature: Signature) -> LoopOnHost:
        return LoopOnHost(self.body, self.operation_of)


def loop_body_of(operation: Operation | None) -> LoopBody | None:
    """Return the body of a loop's operation; None for other operations."""
    loads = [each.load for each in operation.implementations] if operation is not None else []
    return next((each.body for each in loads if isinstance(each, _LoopLoader)), None)


def loop_constants(body: LoopBody) -> dict[str, Any]:
    """Return the constants of a body, and of those within it, by parameter."""
    every = [array for each in body.with_inner for array in each.network.constants.values()]
    return {f"c{i}": array for i, array in enumerate(every)}


def loop_scratch(body: LoopBody) -> dict[str, Value]:
    """Return the arrays that a loop's kernel needs for itself, by parameter."""
    return dict(own_arrays(body).values())


def _work(signature: Signature, *, body: LoopBody) -> Work:
    rounds = _USUAL_ROUNDS if body.rounds is None else body.rounds
    flops = rounds * sum(step_flops(each) for each in body.with_inner)
    return Work(flops=flops, bytes=float(signature.nbytes), dtype="float32", parallelism=1)
