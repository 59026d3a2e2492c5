# SPDX-License-Identifier: Apache-2.0
"""Softmax and normalisations by work-groups: a team reduces each line; see `kernels.tensor.reductions`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from syclsched.kernels.common import Ints
from syclsched.kernels.groups import head, implementation
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import channels, size, spatial
from syclsched.kernels.nn.opencl_types import literal, sum_dtype
from syclsched.kernels.tensor.reductions.group_reduction import LineReduction, local_bytes
from syclsched.model.operation import DeviceLimits, Implementation, Launch, OpenCLSource, Signature

#: Signature -> x's shape with the groups as an axis of its own, and the axes along a line.
Form = Callable[[Signature], tuple[Ints, Ints]]


def softmax(axis: int, log: bool) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.normalisation.softmax_over`."""
    form = partial(_along, axis=axis)
    return implementation(partial(_softmax, form=form, log=log), partial(_launch, form=form))


def layer_norm(axis: int, epsilon: float, bias: bool, centred: bool) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.normalisation.layer_norm`."""
    form = partial(_from, axis=axis)
    return implementation(
        partial(_layer, form=form, epsilon=epsilon, bias=bias, centred=centred), partial(_launch, form=form)
    )


def group_norm(groups: int, epsilon: float, last: bool, activation: Activation) -> Implementation:
    """Return the implementation of `syclsched.kernels.nn.normalisation.group_norm`."""
    form = partial(_grouped, groups=groups, last=last)
    source = partial(_group, form=form, groups=groups, epsilon=epsilon, last=last, activation=activation)
    return implementation(source, partial(_launch, form=form))


def _along(signature: Signature, *, axis: int) -> tuple[Ints, Ints]:
    shape = signature.shapes["x"]
    return shape, (axis % len(shape),)


def _from(signature: Signature, *, axis: int) -> tuple[Ints, Ints]:
    shape = signature.shapes["x"]
    return shape, tuple(range(axis % len(shape), len(shape)))


def _grouped(signature: Signature, *, groups: int, last: bool) -> tuple[Ints, Ints]:
    shape = signature.shapes["x"]
    count, pixels = channels(shape, last) // groups, size(spatial(shape, last))
    return ((shape[0], pixels, groups, count), (1, 3)) if last else ((shape[0], groups, count, pixels), (2, 3))


def _lines(signature: Signature, limits: DeviceLimits, form: Form) -> LineReduction:
    return LineReduction.of(*form(signature), limits, local_bytes(sum_dtype(signature.dtypes["y"])))


def _launch(signature: Signature, limits: DeviceLimits, *, form: Form) -> Launch:
    return _lines(signature, limits, form).launch


def _kernel(
    name: str, signature: Signature, lines: LineReduction, parameters: tuple[str, ...], body: str
) -> OpenCLSource:
    dtype = signature.dtypes["y"]
    given = ", ".join(["__global T* restrict y", *(f"__global const T* restrict {each}" for each in parameters)])
    source = f"""{head(dtype, sum_dtype(dtype), size(signature.shapes["x"]))}
__kernel {lines.attributes} void {name}({given}) {{
{lines.local(s="A") if lines.team > 1 else ""}{lines.begin}{lines.loaded()}{body}}}
"""
    return OpenCLSource(source, name)


def _softmax(signature: Signature, limits: DeviceLimits, *, form: Form, log: bool) -> OpenCLSource:
    lines = _lines(signature, limits, form)
    # Subtract the maximum first: adding it to the shift would lose digits.
    result = "(v - most) - shift" if log else "exp(v - most) * shift"
    body = f"""  A s = -INFINITY;
{lines.each("s = v > s ? v : s;")}{lines.shared("s = other_s > s ? other_s : s;", s="A")}  const A most = s;
  s = 0;
{lines.each("s += exp(v - most);")}{lines.shared("s += other_s;", s="A")}  const A shift = {
        "log(s)" if log else "1 / s"
    };
{lines.each(f"WRITE(y, at, {result});")}"""
    return _kernel("softmax", signature, lines, ("x",), body)


def _moments(signature: Signature, lines: LineReduction, epsilon: float, *, centred: bool = True) -> str:
    """Return code that computes a line's mean, 0 unless centred, and the factor 1 / sqrt(variance + epsilon)."""
    length = max(lines.length, 1)
    total = lines.each("s += v;") + lines.shared("s += other_s;", s="A") if centred else ""
    return f"""  A s = 0;
{total}  const A mean = s / {length};
  s = 0;
{lines.each("const A d = v - mean; s = fma(d, d, s);")}{lines.shared("s += other_s;", s="A")}
  const A factor = 1 / sqrt(s / {length} + {literal(epsilon, sum_dtype(signature.dtypes["y"]))});
"""


def _layer(
    signature: Signature, limits: DeviceLimits, *, form: Form, epsilon: float, bias: bool, centred: bool
) -> OpenCLSource:
    lines = _lines(signature, limits, form)
    result = "(v - mean) * factor * READ(scale, k)" + (" + READ(b, k)" if bias else "")
    body = _moments(signature, lines, epsilon, centred=centred) + lines.each(f"WRITE(y, at, {result});")
    return _kernel("layer_norm", signature, lines, ("x", "scale", *(["b"] if bias else [])), body)


def _group(
    signature: Signature,
    limits: DeviceLimits,
    *,
    form: Form,
    groups: int,
    epsilon: float,
    last: bool,
    activation: Activation,
) -> OpenCLSource:
    lines, shape = _lines(signature, limits, form), signature.shapes["x"]
    count, pixels = channels(shape, last) // groups, max(size(spatial(shape, last)), 1)
    within = f"k % {max(count, 1)}" if last else f"k / {pixels}"
    step = act.opencl(activation, "u", sum_dtype(signature.dtypes["y"]))
    finish = f"""const I c = line % {groups} * {count} + {within};
    A u = (v - mean) * factor * READ(scale, c) + READ(bias, c); {step} WRITE(y, at, u);"""
    body = _moments(signature, lines, epsilon) + lines.each(finish)
    return _kernel("group_norm", signature, lines, ("x", "scale", "bias"), body)
