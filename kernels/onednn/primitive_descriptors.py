# SPDX-License-Identifier: Apache-2.0
"""Creation of oneDNN primitive descriptors from requests, with one table of its creating functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Final

from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.engines import DnnlEngine
from syclsched.kernels.onednn.handles import Handle
from syclsched.kernels.onednn.post_ops import Binary, Eltwise, PostOp
from syclsched.kernels.onednn.requests import PrimitiveRequest
from syclsched.kernels.onednn.status import check
from syclsched.kernels.onednn.tensors import Tensor

_Dims = ctypes.c_int64 * c_api.MAX_DIMENSIONS
_NONE: Final = ctypes.c_void_p()
#: Kinds of requests whose sums must have a fixed order.
_GRADIENTS: Final = frozenset({"convolution_weights", "pooling_gradient"})


def dims(values: tuple[int, ...]) -> Any:
    """Return extents as oneDNN's fixed-size array."""
    return _Dims(*values)


def descriptor(engine: DnnlEngine, tensor: Tensor) -> Handle:
    """Return a memory descriptor of a tensor."""
    library = engine.library
    handle = Handle(library, "memory_desc")
    what = f"memory descriptor of {tensor.dtype} {tensor.dims}"
    count, data_type = len(tensor.dims), c_api.DATA_TYPES.get(tensor.dtype, 0)
    if tensor.strides is None:
        create = library.dnnl_memory_desc_create_with_tag
        return handle.make(create, count, dims(tensor.dims), data_type, c_api.FORMAT_ANY, what=what)
    create = library.dnnl_memory_desc_create_with_strides
    return handle.make(create, count, dims(tensor.dims), data_type, dims(tensor.strides), what=what)


def attributes(engine: DnnlEngine, request: PrimitiveRequest) -> Handle:
    """Return a primitive's attributes: user-provided scratchpad, strict math mode, scales, zero points, post-ops."""
    post_ops = request.post_ops
    library = engine.library
    handle = Handle(library, "primitive_attr").make(library.dnnl_primitive_attr_create, what="attributes")
    check(library.dnnl_primitive_attr_set_scratchpad_mode(handle.pointer, c_api.USER_SCRATCHPAD), "scratchpad mode")
    # Otherwise an environment variable could allow bfloat16 for float32.
    check(library.dnnl_primitive_attr_set_fpmath_mode(handle.pointer, c_api.STRICT_MATH), "math mode")
    if request.kind in _GRADIENTS:  # on GPUs it may otherwise add with atomics, in any order
        check(library.dnnl_primitive_attr_set_deterministic(handle.pointer, 1), "deterministic")
    for each in request.quantisation:
        kind, base = (
            ("zero_points", c_api.ZERO_POINTS_OF) if each.index & c_api.ZERO_POINTS_OF else ("scales", c_api.SCALES_OF)
        )
        set_mask = getattr(library, f"dnnl_primitive_attr_set_{kind}_mask")
        check(set_mask(handle.pointer, each.index - base, each.mask), kind)
    if post_ops:
        chain = Handle(library, "post_ops").make(library.dnnl_post_ops_create, what="post-ops")
        for op in post_ops:
            _append(engine, chain, op)
        check(library.dnnl_primitive_attr_set_post_ops(handle.pointer, chain.pointer), "post-ops")
    return handle


def _append(engine: DnnlEngine, chain: Handle, op: PostOp) -> None:
    library = engine.library
    if isinstance(op, Eltwise):
        numbers = ctypes.c_float(op.alpha), ctypes.c_float(op.beta)
        status = library.dnnl_post_ops_append_eltwise(chain.pointer, c_api.ELTWISE[op.algorithm], *numbers)
        check(status, f"post-op {op.algorithm}")
    elif isinstance(op, Binary):
        other = descriptor(engine, op.other)
        status = library.dnnl_post_ops_append_binary(chain.pointer, c_api.BINARY[op.algorithm], other.pointer)
        check(status, f"post-op {op.algorithm}")
    else:
        # Scale 1, zero point 0, the result's dtype.
        status = library.dnnl_post_ops_append_sum(chain.pointer, ctypes.c_float(1), ctypes.c_int32(0), c_api.SAME_DTYPE)
        check(status, "post-op sum")


class Descriptors:
    """Memory descriptors of a request, alive while its primitive is created."""

    def __init__(self, engine: DnnlEngine, request: PrimitiveRequest) -> None:
        self._made = {a.index: descriptor(engine, a.tensor) for a in request.arguments}

    def __getitem__(self, index: int) -> Any:
        """Return the descriptor of an argument; a null pointer if the request has none."""
        handle = self._made.get(index)
        return _NONE if handle is None else handle.pointer

    def sources(self) -> Any:
        """Return an array of the descriptors of the numbered sources."""
        found = [self._made[i].pointer.value for i in sorted(self._made) if i >= c_api.MULTIPLE_SRC]
        return (ctypes.c_void_p * len(found))(*found)


#: (descriptors, settings) -> the arguments between the engine and the attributes.
_Arguments = Callable[[Descriptors, tuple[Any, ...]], tuple[Any, ...]]


def _convolution(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    strides, dilations, begins, ends = s
    data = d[c_api.SRC], d[c_api.WEIGHTS], d[c_api.BIAS], d[c_api.DST]
    algorithm = c_api.CONVOLUTION_DIRECT
    return (c_api.FORWARD_INFERENCE, algorithm, *data, dims(strides), dims(dilations), dims(begins), dims(ends))


def _convolution_weights(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    strides, dilations, begins, ends = s
    data = d[c_api.SRC], d[c_api.DIFF_WEIGHTS], _NONE, d[c_api.DIFF_DST]
    window = dims(strides), dims(dilations), dims(begins), dims(ends)
    return (c_api.CONVOLUTION_DIRECT, *data, *window, _NONE)


def _deconvolution(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    strides, dilations, begins, ends = s
    data = d[c_api.SRC], d[c_api.WEIGHTS], d[c_api.BIAS], d[c_api.DST]
    algorithm = c_api.DECONVOLUTION_DIRECT
    return (c_api.FORWARD_INFERENCE, algorithm, *data, dims(strides), dims(dilations), dims(begins), dims(ends))


def _matmul(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    return d[c_api.SRC], d[c_api.WEIGHTS], d[c_api.BIAS], d[c_api.DST]


def _pooling(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    algorithm, strides, kernel, dilations, begins, ends = s
    windows = dims(strides), dims(kernel), dims(dilations), dims(begins), dims(ends)
    return (c_api.FORWARD_INFERENCE, algorithm, d[c_api.SRC], d[c_api.DST], *windows)


def _pooling_gradient(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    algorithm, strides, kernel, dilations, begins, ends = s
    windows = dims(strides), dims(kernel), dims(dilations), dims(begins), dims(ends)
    return (algorithm, d[c_api.DIFF_SRC], d[c_api.DIFF_DST], *windows, _NONE)


def _lrn(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    size, alpha, beta, bias = s
    numbers = ctypes.c_int64(size), ctypes.c_float(alpha), ctypes.c_float(beta), ctypes.c_float(bias)
    return (c_api.FORWARD_INFERENCE, c_api.LRN_ACROSS_CHANNELS, d[c_api.SRC], d[c_api.DST], *numbers)


def _batch_normalization(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    epsilon, flags = s
    return c_api.FORWARD_INFERENCE, d[c_api.SRC], d[c_api.DST], ctypes.c_float(epsilon), ctypes.c_uint(flags)


def _layer_normalization(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    epsilon, flags = s
    return c_api.FORWARD_INFERENCE, d[c_api.SRC], d[c_api.DST], _NONE, ctypes.c_float(epsilon), ctypes.c_uint(flags)


def _group_normalization(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    groups, epsilon, flags = s
    numbers = ctypes.c_int64(groups), ctypes.c_float(epsilon), ctypes.c_uint(flags)
    return (c_api.FORWARD_INFERENCE, d[c_api.SRC], d[c_api.DST], *numbers)


def _softmax(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    algorithm, axis = s
    return c_api.FORWARD_INFERENCE, algorithm, d[c_api.SRC], d[c_api.DST], axis


def _resampling(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    (algorithm,) = s
    return c_api.FORWARD_INFERENCE, algorithm, _NONE, d[c_api.SRC], d[c_api.DST]


def _concat(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    (axis,) = s
    sources = d.sources()
    return d[c_api.DST], len(sources), axis, sources


def _reduction(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    (algorithm,) = s
    return algorithm, d[c_api.SRC], d[c_api.DST], ctypes.c_float(0), ctypes.c_float(0)


def _binary(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    (algorithm,) = s
    return algorithm, d[c_api.SRC], d[c_api.SRC_1], d[c_api.DST]


def _eltwise(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    algorithm, alpha, beta = s
    numbers = ctypes.c_float(alpha), ctypes.c_float(beta)
    return (c_api.FORWARD_INFERENCE, algorithm, d[c_api.SRC], d[c_api.DST], *numbers)


def _vanilla_rnn(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    activation, direction = s
    numbers = ctypes.c_uint(0), ctypes.c_float(0), ctypes.c_float(0)
    return (c_api.FORWARD_INFERENCE, activation, direction, *_sequence(d), *numbers)


def _gru(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    (direction,) = s
    return (c_api.FORWARD_INFERENCE, direction, *_sequence(d), ctypes.c_uint(0))


def _lstm(d: Descriptors, s: tuple[Any, ...]) -> tuple[Any, ...]:
    (direction,) = s
    read = d[c_api.SRC], d[c_api.SRC_1], d[c_api.SRC_2], d[c_api.WEIGHTS], d[c_api.WEIGHTS_1], _NONE, _NONE
    written = d[c_api.DST], d[c_api.DST_1], d[c_api.DST_2]
    return (c_api.FORWARD_INFERENCE, direction, *read, d[c_api.BIAS], *written, ctypes.c_uint(0))


def _sequence(d: Descriptors) -> tuple[Any, ...]:
    """Return the descriptors of a recurrent layer that has no cell."""
    read = d[c_api.SRC], d[c_api.SRC_1], d[c_api.WEIGHTS], d[c_api.WEIGHTS_1]
    return (*read, d[c_api.BIAS], d[c_api.DST], d[c_api.DST_1])


#: Kind of request -> name of the creating function, and the function that returns its arguments.
CREATORS: Final[Mapping[str, tuple[str, _Arguments]]] = {
    "convolution": ("convolution_forward", _convolution),
    "convolution_weights": ("convolution_backward_weights", _convolution_weights),
    "deconvolution": ("deconvolution_forward", _deconvolution),
    "matmul": ("matmul", _matmul),
    "pooling": ("pooling_forward", _pooling),
    "pooling_gradient": ("pooling_backward", _pooling_gradient),
    "lrn": ("lrn_forward", _lrn),
    "batch_normalization": ("batch_normalization_forward", _batch_normalization),
    "layer_normalization": ("layer_normalization_forward", _layer_normalization),
    "group_normalization": ("group_normalization_forward", _group_normalization),
    "softmax": ("softmax_forward", _softmax),
    "resampling": ("resampling_forward", _resampling),
    "concat": ("concat", _concat),
    "reduction": ("reduction", _reduction),
    "binary": ("binary", _binary),
    "eltwise": ("eltwise_forward", _eltwise),
    "vanilla_rnn": ("vanilla_rnn_forward", _vanilla_rnn),
    "gru": ("gru_forward", _gru),
    "lbr_gru": ("lbr_gru_forward", _gru),
    "lstm": ("lstm_forward", _lstm),
}


def create(engine: DnnlEngine, request: PrimitiveRequest) -> Handle:
    """Return the primitive descriptor of a request."""
    library = engine.library
    handle = Handle(library, "primitive_desc")
    attr = attributes(engine, request)
    descriptors = Descriptors(engine, request)
    if request.kind == "reorder":
        ends = descriptors[c_api.SRC], engine.handle.pointer, descriptors[c_api.DST], engine.handle.pointer
        return handle.make(library.dnnl_reorder_primitive_desc_create, *ends, attr.pointer, what="reorder")
    function, arguments = CREATORS[request.kind]
    create_one = getattr(library, f"dnnl_{function}_primitive_desc_create")
    given = arguments(descriptors, request.settings)
    return handle.make(create_one, engine.handle.pointer, *given, attr.pointer, what=request.kind)
