# SPDX-License-Identifier: Apache-2.0
"""Neural network operations: each is a function of hashable attributes that returns an `Operation`.

Equal attributes return the same operation. Importing this package imports no SYCL package.
"""

from __future__ import annotations

from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.attention.attention import attention
from syclsched.kernels.nn.attention.cache_write import cache_write
from syclsched.kernels.nn.attention.rotary import rotary
from syclsched.kernels.nn.convolution.conv import conv
from syclsched.kernels.nn.convolution.conv_transpose import conv_transpose
from syclsched.kernels.nn.convolution.im2col import im2col
from syclsched.kernels.nn.join import join
from syclsched.kernels.nn.normalisation.batch_norm import batch_norm
from syclsched.kernels.nn.normalisation.group_norm import group_norm
from syclsched.kernels.nn.normalisation.layer_norm import layer_norm
from syclsched.kernels.nn.normalisation.lrn import lrn
from syclsched.kernels.nn.normalisation.softmax_over import softmax_over
from syclsched.kernels.nn.pooling.pool import pool
from syclsched.kernels.nn.pooling.resize import resize
from syclsched.kernels.nn.product.matmul import matmul
from syclsched.kernels.nn.recurrence.recurrent import recurrent

__all__ = [
    "Activation",
    "attention",
    "batch_norm",
    "cache_write",
    "conv",
    "conv_transpose",
    "group_norm",
    "im2col",
    "join",
    "layer_norm",
    "lrn",
    "matmul",
    "pool",
    "recurrent",
    "resize",
    "rotary",
    "softmax_over",
]
