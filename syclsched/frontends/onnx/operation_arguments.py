# SPDX-License-Identifier: Apache-2.0
"""The operation of a canonical node and its arguments, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from syclsched.frontends.onnx.network import CanonicalNode, Value
from syclsched.model.operation import Operation, Scalar, Shape


class OperationCall(NamedTuple):
    """An operation and its arguments."""

    operation: Operation
    reads: dict[str, str]  # parameter -> value
    writes: dict[str, str | None]  # parameter -> value; None for an unused result
    #: Parameter -> description of a scratch array.
    scratch: Mapping[str, Value] = MappingProxyType({})
    #: Parameter -> shape it is passed with, where that differs from the value's own.
    reshaped: Mapping[str, Shape] = MappingProxyType({})
    #: Written parameter -> the value that is updated in place and overwritten.
    updated: Mapping[str, str] = MappingProxyType({})
    #: Parameter -> constant of the operation's own.
    constants: Mapping[str, Any] = MappingProxyType({})
    #: Parameter -> number.
    scalars: Mapping[str, Scalar] = MappingProxyType({})


#: Function that returns the operation of a node.
OperationOf = Callable[[CanonicalNode, Mapping[str, Value]], OperationCall]
