# SPDX-License-Identifier: Apache-2.0
"""Constants of oneDNN's C headers (3.5): data types, kinds, algorithms, arguments, queries."""

from __future__ import annotations

from typing import Final

MAX_DIMENSIONS: Final = 12
FORWARD_INFERENCE: Final = 96
FORMAT_ANY: Final = 1
IN_USM: Final = 0
USER_SCRATCHPAD: Final = 1
STRICT_MATH: Final = 0

#: NumPy dtype name -> data type. No float64: oneDNN's CPU engine does not compute in it.
DATA_TYPES: Final = {"float16": 1, "float32": 3, "int32": 4, "int8": 5, "uint8": 6}
#: Data type argument: use the tensor's own.
SAME_DTYPE: Final = 0
ITEM_BYTES: Final = {"float16": 2, "float32": 4, "int32": 4, "int8": 1, "uint8": 1}

CONVOLUTION_DIRECT: Final = 1
DECONVOLUTION_DIRECT: Final = 0xA
POOLING: Final = {("max", 0): 0x1FF, ("max", 1): 0x1FF, ("average", 1): 0x2FF, ("average", 0): 0x3FF}
LRN_ACROSS_CHANNELS: Final = 0xAFF
RESAMPLING: Final = {"nearest": 0x2FFF0, "linear": 0x2FFF1}
REDUCTION: Final = {"sum": 0x2FFF4, "mean": 0x2FFF6}
SOFTMAX: Final = {False: 0x30000, True: 0x30001}
BINARY: Final = {"add": 0x1FFF0, "mul": 0x1FFF1, "max": 0x1FFF2, "min": 0x1FFF3, "div": 0x1FFF4, "sub": 0x1FFF5}
ELTWISE: Final = {
    "relu": 0x20,
    "tanh": 0x21,
    "elu": 0x22,
    "square": 0x23,
    "abs": 0x24,
    "sqrt": 0x25,
    "linear": 0x26,
    "soft_relu": 0x27,
    "hardsigmoid": 0x28,
    "logistic": 0x29,
    "exp": 0x2A,
    "gelu_tanh": 0x2B,
    "swish": 0x2C,
    "log": 0x2D,
    "clip": 0x2E,
    "pow": 0x30,
    "gelu_erf": 0x31,
    "round": 0x32,
    "mish": 0x33,
    "hardswish": 0x34,
}

LEFT_TO_RIGHT: Final = 1
RIGHT_TO_LEFT: Final = 2

USE_GLOBAL_STATISTICS: Final = 1
USE_SCALE: Final = 2
USE_SHIFT: Final = 4

SRC: Final = 1
SRC_1: Final = 2
SRC_2: Final = 3
DST: Final = 17
DST_1: Final = 18
DST_2: Final = 19
WEIGHTS: Final = 33
WEIGHTS_1: Final = 34
BIAS: Final = 41
MEAN: Final = 49
VARIANCE: Final = 50
SCALE: Final = 51
SHIFT: Final = 52
SCRATCHPAD: Final = 80
DIFF_SRC: Final = 129
DIFF_DST: Final = 145
DIFF_WEIGHTS: Final = 161
#: Arguments that a primitive writes.
RESULTS: Final = frozenset({DST, DST_1, DST_2, DIFF_SRC, DIFF_WEIGHTS})
#: Added to the number of an argument.
SCALES_OF: Final = 4096
ZERO_POINTS_OF: Final = 8192
MULTIPLE_SRC: Final = 1024

QUERY_IMPLEMENTATION: Final = 8
QUERY_SCRATCHPAD: Final = 136
QUERY_ARGUMENT: Final = 255


def post_op_source(index: int) -> int:
    """Return the argument number of the second operand of the binary post-op at position ``index``."""
    return (32768 * (index + 1)) | SRC_1
