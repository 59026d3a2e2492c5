# SPDX-License-Identifier: Apache-2.0
"""The types that a Python kernel is compiled for: of an operation's arguments, by its parameters and signature."""

from __future__ import annotations

from syclsched.devices.programs.arguments import scalar_dtype
from syclsched.kernel_compiler.compiled_kernel import Argument, ArrayArgument, ItemArgument, ScalarArgument
from syclsched.model.operation import Launch, Operation, Signature


def operation_arguments(operation: Operation, signature: Signature, launch: Launch) -> tuple[Argument, ...]:
    """Return the types of the work-item and of an operation's arguments: arrays are C-contiguous."""
    made: list[Argument] = [ItemArgument(len(launch.global_range), grouped=launch.local_range is not None)]
    for parameter in operation.parameters:
        if parameter.is_array:
            made.append(ArrayArgument(signature.dtypes[parameter.name], len(signature.shapes[parameter.name])))
        else:
            made.append(ScalarArgument(scalar_dtype(parameter, signature)))
    return tuple(made)
