# SPDX-License-Identifier: Apache-2.0
"""Convolutions and transposed ones by oneDNN, compared with the host's, over random shapes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import close, numbers, on_host, placed_in, unwritten

from syclsched.devices.memory import usm_memory
from syclsched.errors import CapabilityError
from syclsched.kernels import nn
from syclsched.kernels.nn.activation import STEPS
from syclsched.kernels.nn.convolution.conv_transpose import extents
from syclsched.kernels.nn.geometry import arranged
from syclsched.kernels.nn.gradients.conv_weights import conv_weights
from syclsched.kernels.onednn import calls
from syclsched.kernels.onednn.calls import implementation_of
from syclsched.kernels.windows import Window
from syclsched.oneapi.dpctl_interface import usm_arrays

pytestmark = [pytest.mark.sycl, pytest.mark.instruction_sets]
Case = tuple[Any, dict[str, np.ndarray], list[str]]


def convolution(
    batch: int,
    spatial: tuple[int, ...],
    channels: tuple[int, int, int],
    kernel: tuple[int, ...],
    window: Window,
    *,
    channels_last: bool = True,
    activation: Any = (),
    bias: bool = True,
    residual: bool = False,
    in_place: bool = False,
    constant: bool = True,
) -> Case:
    """Return a convolution, its arrays and the names of constants."""
    groups, inside, outside = channels
    y = arranged(batch, window.extents(spatial, kernel), groups * outside, channels_last)
    arrays = {
        "y": unwritten(y, "float32"),
        "x": numbers(*arranged(batch, spatial, groups * inside, channels_last)),
        "w": numbers(groups * outside, inside, *kernel, seed=1),
    }
    if bias:
        arrays["b"] = numbers(groups * outside, seed=2)
    if residual:
        arrays["r"] = numbers(*y, seed=3)
    operation = nn.conv(
        len(kernel),
        window.strides,
        window.pads,
        window.dilations,
        groups,
        channels_last,
        activation,
        bias,
        residual,
        in_place,
    )
    arrays = placed_in(arrays) if in_place else arrays
    return operation, arrays, [name for name in ("w", "b") if constant and name in arrays]


@st.composite
def windows(draw: st.DrawFn, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...], Window]:
    """Draw spatial extents, a kernel, strides and dilations with at least one window."""

    def each(low: int, high: int, count: int = ndim) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    kernel, strides, dilations, pads = each(1, 3), each(1, 3), each(1, 2), each(0, 2, 2 * ndim)
    window = Window(strides, pads, dilations)
    spatial = tuple(
        max(size, span - a - b, 1)
        for size, span, a, b in zip(each(1, 9), window.reach(kernel), window.begins, window.ends, strict=True)
    )
    return spatial, kernel, window


CHANNELS = [(1, 3, 5), (1, 16, 33), (2, 4, 3), (5, 1, 1), (32, 1, 1), (3, 1, 2), (1, 1, 1), (1, 64, 48), (4, 32, 32)]


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    """Draw a convolution that oneDNN accepts."""
    spatial, kernel, window = draw(windows(draw(st.sampled_from([1, 2, 2, 2, 3]))))
    channels_last = draw(st.booleans())
    residual = channels_last and draw(st.booleans())
    return convolution(
        draw(st.integers(1, 3)),
        spatial,
        draw(st.sampled_from(CHANNELS)),
        kernel,
        window,
        channels_last=channels_last,
        activation=draw(st.sampled_from([(), (("relu",),), (("clip", -0.5, 0.75),), (("silu",), ("scale", 2.0))])),
        bias=draw(st.booleans()),
        residual=residual,
        in_place=residual and draw(st.booleans()),
        constant=draw(st.booleans()),
    )


def chosen_by(onednn: Any, operation: Any, arrays: Any, constants: Any) -> str:
    """Return the name of the implementation that oneDNN selects."""
    loaded = operation.implementation("onednn").load(onednn.signature(operation, arrays, constants))
    return implementation_of(onednn.queue, loaded.request)


@given(convolutions())
@settings(max_examples=examples(60), deadline=None)
def test_convolutions(onednn: Any, case: Case) -> None:
    operation, arrays, constants = case
    onednn.agrees(operation, arrays, constants)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("activation", [(), (("relu",),), (("clip", -0.5, 0.75),)])
def test_in_place_residual_uses_the_same_implementation(
    onednn: Any, channels: tuple[int, int, int], kernel: int, activation: Any
) -> None:
    window, found = Window((1, 1), (kernel // 2,) * 4, (1, 1)), []
    for in_place in (False, True):
        operation, arrays, constants = convolution(
            2, (9, 7), channels, (kernel, kernel), window, activation=activation, residual=True, in_place=in_place
        )
        try:
            chosen = chosen_by(onednn, operation, arrays, constants)
        except CapabilityError as error:
            # Without AVX2, oneDNN's implementation for as many groups as channels would crash.
            assert in_place and channels == (5, 1, 1) and "jit_dw:sse41" in str(error)
            assert onednn.refused(operation, arrays, constants) == error.what
            return
        found.append((chosen, onednn(operation, arrays, constants)))
    (beside, wanted), (there, got) = found
    assert there == beside or beside == "ref:any"  # with AVX2, no other implementation adds a residual with groups
    if there == beside and beside.startswith("brg"):  # others begin their sums with it, with other rounding
        np.testing.assert_array_equal(got, wanted)


@st.composite
def transposed(draw: st.DrawFn) -> Case:
    """Draw a transposed convolution that oneDNN accepts."""
    ndim = draw(st.sampled_from([1, 2, 2, 3]))
    spatial, kernel, window = draw(windows(ndim))
    spatial = tuple(min(4, size) for size in spatial)
    groups, inside, outside = draw(st.sampled_from(CHANNELS))
    extra = tuple(draw(st.integers(0, stride - 1)) for stride in window.strides)
    cut = Window(window.strides, window.pads, window.dilations)
    if min(extents(cut, spatial, kernel, extra)) < 1:
        cut = Window(window.strides, (0,) * 2 * ndim, window.dilations)
        extra = (0,) * ndim
    channels_last, bias = draw(st.booleans()), draw(st.booleans())
    y = arranged(2, extents(cut, spatial, kernel, extra), groups * outside, channels_last)
    arrays = {
        "y": unwritten(y, "float32"),
        "x": numbers(*arranged(2, spatial, groups * inside, channels_last)),
        "w": numbers(groups * inside, outside, *kernel, seed=1),
        **({"b": numbers(groups * outside, seed=2)} if bias else {}),
    }
    operation = nn.conv_transpose(
        ndim, cut.strides, cut.pads, cut.dilations, groups, channels_last, draw(st.sampled_from([(), (("relu",),)])),
        bias, extra,
    )  # fmt: skip
    return operation, arrays, ["w"] if draw(st.booleans()) else []


@given(transposed())
@settings(max_examples=examples(40), deadline=None)
def test_transposed_convolutions(onednn: Any, case: Case) -> None:
    operation, arrays, constants = case
    onednn.agrees(operation, arrays, constants)


def test_a_stride_that_ends_before_the_result_does(onednn: Any) -> None:
    # The gradient by data of a 1x1 convolution with stride 2, and of one whose pads are smaller than the remainder.
    for kernel, pads, extra in (
        ((1, 1), (0, 0, 0, 0), (1, 1)),
        ((2, 3), (0, 1, 0, 0), (2, 1)),
        ((1, 2), (0,) * 4, (1, 0)),
    ):
        window = Window((3, 2), pads, (1, 1))
        y = arranged(2, extents(window, (4, 3), kernel, extra), 17, True)
        arrays = {"y": unwritten(y, "float32"), "x": numbers(2, 4, 3, 20), "w": numbers(20, 17, *kernel, seed=1)}
        operation = nn.conv_transpose(2, window.strides, pads, channels_last=True, output_padding=extra)
        onednn.agrees(operation, arrays)


@st.composite
def weights_of(draw: st.DrawFn) -> Case:
    """Draw a gradient by weights that oneDNN accepts."""
    spatial, kernel, window = draw(windows(draw(st.sampled_from([1, 2, 2, 2, 3]))))
    groups, inside, outside = draw(st.sampled_from(CHANNELS))
    batch, channels_last = draw(st.integers(1, 3)), draw(st.booleans())
    arrays = {
        "y": unwritten((groups * outside, inside, *kernel), "float32"),
        "x": numbers(*arranged(batch, spatial, groups * inside, channels_last)),
        "dy": numbers(*arranged(batch, window.extents(spatial, kernel), groups * outside, channels_last), seed=1),
    }
    operation = conv_weights(len(kernel), window.strides, window.pads, window.dilations, groups, channels_last)
    return operation, arrays, []


@given(weights_of())
@settings(max_examples=examples(40), deadline=None)
def test_gradients_by_weights(onednn: Any, case: Case) -> None:
    operation, arrays, _ = case
    onednn.agrees(operation, arrays)
    np.testing.assert_array_equal(onednn(operation, arrays), onednn(operation, arrays))


def test_weights_are_converted_in_each_call(onednn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    window, dpt = Window((1, 1), (1,) * 4, (1, 1)), usm_arrays()
    operation, arrays, _ = convolution(2, (6, 5), (1, 3, 21), (3, 3), window, bias=False, constant=False)
    loaded = operation.implementation("onednn").load(onednn.signature(operation, arrays, ()))
    usm = {name: dpt.asarray(each, sycl_queue=onednn.queue) for name, each in arrays.items()}

    def filled(queue: Any, nbytes: int, kind: Any) -> Any:
        # Layouts have padding, which must not keep previous contents of the memory.
        made = usm_memory.allocate(queue, nbytes, kind)
        queue.memcpy(made, np.full(nbytes // 4, np.nan, "float32").tobytes(), nbytes)
        return made

    monkeypatch.setattr(calls, "allocate", filled)
    made = loaded.native(onednn.queue, usm)
    assert [call.event for call in made] == [5] * 2
    for turn in range(3):
        weights = numbers(21, 3, 3, 3, seed=turn)
        usm["w"][...] = dpt.asarray(weights, sycl_queue=onednn.queue)
        onednn.queue.wait()
        for call in made:
            function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_size_t] * len(call.arguments))(call.function)
            assert function(*call.arguments) == 0
        onednn.queue.wait()
        wanted = on_host(operation, {**arrays, "w": weights})
        close(np.asarray(dpt.asnumpy(usm["y"])), wanted, "float32")


@pytest.mark.parametrize("name", sorted(STEPS))
def test_every_activation_is_the_hosts_or_is_refused(onednn: Any, name: str) -> None:
    operation, arrays, constants = convolution(
        1, (5, 4), (1, 8, 16), (1, 1), Window((1, 1), (0,) * 4, (1, 1)), activation=((name,),)
    )
    if name in ("log", "sqrt"):  # of positive numbers
        arrays = {key: np.abs(each) for key, each in arrays.items()}
    if name in ("celu", "erf", "reciprocal", "softsign", "thresholded_relu"):
        assert "no post-op" in str(onednn.refused(operation, arrays, constants))
        return
    # Some are approximated by polynomials.
    onednn.agrees(operation, arrays, constants, factor=10)


def test_convolutions_by_the_reference_implementation_are_refused(onednn: Any) -> None:
    window = Window((1, 1), (1,) * 4, (1, 1))
    first = convolution(1, (5, 4), (1, 8, 16), (3, 3), window, channels_last=False, residual=True)
    assert onednn.refused(*first) == "a residual needs channels last"


def test_unsupported_windows_are_refused(onednn: Any) -> None:
    cut = convolution(1, (5, 4), (1, 8, 16), (1, 1), Window((1, 1), (-1, 0, 0, 0), (1, 1)))
    assert "pads are not negative" in str(onednn.refused(*cut))
    many = convolution(1, (3,) * 4, (1, 2, 2), (1,) * 4, Window((1,) * 4, (0,) * 8, (1,) * 4))
    assert "1 to 3 spatial axes" in str(onednn.refused(*many))


def test_empty_batches_give_empty_results(onednn: Any) -> None:
    operation, arrays, constants = convolution(0, (5, 4), (1, 8, 16), (3, 3), Window((1, 1), (1,) * 4, (1, 1)))
    assert onednn.refused(operation, arrays, constants) is None
    assert onednn(operation, arrays, constants).shape == (0, 5, 4, 16)
    operation, arrays, constants = convolution(1, (5, 4), (1, 0, 16), (3, 3), Window((1, 1), (1,) * 4, (1, 1)))
    assert onednn.refused(operation, arrays, constants) == "x has no elements"


def test_images_of_a_batch_have_the_results_of_single_images(onednn: Any) -> None:
    # For the division of a batch among devices: equal bits for any number of images, if oneDNN selects one
    # implementation for all. With AVX2 it has two for 1x1 convolutions of few pixels and many channels.
    for channels, kernel, size, stride in (
        ((1, 64, 64), (3, 3), 14, 1),
        ((1, 256, 64), (1, 1), 14, 1),
        ((64, 1, 1), (3, 3), 14, 1),
        ((1, 3, 64), (3, 3), 14, 2),
        ((1, 2048, 512), (1, 1), 7, 1),
        ((1, 1024, 2048), (1, 1), 14, 2),
        ((1, 512, 512), (3, 3), 7, 1),
        ((4, 68, 68), (1, 1), 28, 1),
    ):
        window = Window((stride, stride), (kernel[0] // 2,) * 4, (1, 1))
        operation, arrays, constants = convolution(5, (size, size), channels, kernel, window)
        whole, chosen = onednn(operation, arrays, constants), chosen_by(onednn, operation, arrays, constants)
        for first, last in ((0, 1), (1, 3), (3, 5)):
            part = {**arrays, **{name: np.ascontiguousarray(arrays[name][first:last]) for name in "xy"}}
            found, wanted = onednn(operation, part, constants), whole[first:last]
            if chosen_by(onednn, operation, part, constants) == chosen:
                np.testing.assert_array_equal(found, wanted)
            else:
                np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())
