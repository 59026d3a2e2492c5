# SPDX-License-Identifier: Apache-2.0
"""Canonical nodes for the operations of the library, by the factory that made them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.operations import PARAMETERS
from syclsched.frontends.onnx.shapes import ShapeDtype
from syclsched.kernels.windows import Window
from syclsched.model.operation import Operation

#: Function of a builder, the values that are read, the numbers, and the shapes and dtypes of what is written; it
#: returns the new values by parameter.
Emitter = Callable[[NetworkBuilder, Mapping[str, str], Mapping[str, Any], Mapping[str, ShapeDtype]], dict[str, str]]
#: The same of one factory, after the factory's own arguments.
_RecipeEmitter = Callable[..., dict[str, str]]


def emitter_of(operation: Operation) -> Emitter | None:
    """Return the function that emits canonical nodes for an operation; None if only a node of its own computes it."""
    if operation.recipe is None or operation.gradient_function is not None:
        return None
    name, arguments = operation.recipe
    found = _EMITTERS.get(name)
    return None if found is None else partial(found, arguments)


# --- factories of kernels.tensor and kernels.nn ---------------------------------------------------------


def _elementwise(at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any) -> dict[str, str]:
    shape, dtype = y["y"]
    inputs = [x[f"x{i}"] for i in range(at["inputs"])]
    return {"y": b.elementwise(at["expression"], *inputs, shape=shape, dtype=dtype)}


def _concat(at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any) -> dict[str, str]:
    return {"y": b.concat([x[f"x{i}"] for i in range(at["count"])], at["axis"])}


def _topk(at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any) -> dict[str, str]:
    values, indices = b.emit_all("topk", [x["x"]], **at)
    return {"values": values or "", "indices": indices or ""}


def _recurrent(at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any) -> dict[str, str]:
    names = ("cell", "activations", "reverse", "coupled")
    inputs = [x.get(name) for name in PARAMETERS["recurrent"]]
    made = b.emit_all("recurrent", inputs, **{name: at[name] for name in names})
    return {name: value or "" for name, value in zip(("y", "h", "c"), made, strict=False) if name in y}


def _resize(at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any) -> dict[str, str]:
    shape, dtype = y["y"]
    attributes = {**at, "scales": tuple(at["scales"]), "roi": tuple(at["roi"])}
    return {"y": b.emit("resize", [x["x"]], shape=shape, dtype=dtype, **attributes)}


def _reduce_whole(at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any) -> dict[str, str]:
    made = b.reduce(at["mode"], x["x"], range(len(b.shape(x["x"]))), keepdims=False)
    return {"y": made, "parts": b.filled(*y["parts"])}


def _update(at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any) -> dict[str, str]:
    inputs = [*(x[name] for name in y), *(x[f"x{i}"] for i in range(at["inputs"]))]
    made = zip(y.items(), at["expressions"], strict=True)
    return {
        name: b.elementwise(expression, *inputs, shape=shape, dtype=dtype)
        for (name, (shape, dtype)), expression in made
    }


def _join(at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any) -> dict[str, str]:
    whole = b.concat([x[f"x{i}"] for i in range(at["count"])], len(y["y"][0]) - 1)
    made = b.elementwise(("add", ("mul", 0, 1), 2), whole, x["scale"], x["shift"])
    return {"y": _finished(b, made, None, at["activation"])}


def _plain(
    kind: str, names: Sequence[str], at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any
) -> dict[str, str]:
    """Emit a node whose attributes are arguments of the factory."""
    attributes: dict[str, Any] = {name: tuple(at[name]) if isinstance(at[name], list) else at[name] for name in names}
    shape, dtype = y["y"]
    if "axis" in attributes:
        attributes["axis"] %= max(1, len(b.shape(x["x"])))
    inputs = [x.get(name) for name in PARAMETERS[kind]]
    found = {"y": b.emit(kind, inputs, shape=shape, dtype=dtype, **attributes)}
    # The status is that of success, and partial results are internal to the kernel.
    return found | {name: b.filled(*made) for name, made in y.items() if name != "y"}


def _matmul(at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any) -> dict[str, str]:
    names = ("transpose_a", "transpose_b", "alpha", "beta")

    def swapped(value: str, name: str) -> str:
        """Return a value with the axes swapped that are so in an interleaved array."""
        rank = len(b.shape(value))
        order = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
        return b.transpose(value, order) if name in at["interleaved"] else value

    made = b.matmul(swapped(x["a"], "a"), swapped(x["b"], "b"), x.get("c"), **{name: at[name] for name in names})
    return {"y": _finished(b, swapped(made, "y"), x.get("r"), at["activation"])}


def _finished(b: NetworkBuilder, value: str, residual: str | None, activation: Sequence[Any]) -> str:
    """Return a value with a residual added and an activation applied."""
    if residual is not None:
        value = b.elementwise(("add", 0, 1), value, residual)
    for step in activation:
        value = b.elementwise((*step, 0), value)
    return value


def _channels_first(b: NetworkBuilder, x: str, channels_last: bool) -> str:
    rank = len(b.shape(x))
    return b.transpose(x, (0, rank - 1, *range(1, rank - 1))) if channels_last else x


def _channels_last(b: NetworkBuilder, x: str, channels_last: bool) -> str:
    rank = len(b.shape(x))
    return b.transpose(x, (0, *range(2, rank), 1)) if channels_last else x


def _on_channels(
    kind: str, names: Sequence[str], at: Mapping[str, Any], b: NetworkBuilder, x: Mapping[str, str], _: Any, y: Any
) -> dict[str, str]:
    """Emit a node of images: convolutions, pooling, normalisations of channels."""
    last: bool = at["channels_last"]
    shape, dtype = y["y"]
    attributes: dict[str, Any] = {name: at[name] for name in names}
    if "strides" in at:
        window = Window.of(len(shape) - 2, at["strides"], at["pads"], at["dilations"])
        attributes |= {"strides": window.strides, "pads": window.pads, "dilations": window.dilations}
    for name in ("kernel", "output_padding"):
        if name in attributes:
            attributes[name] = tuple(attributes[name]) or (0,) * (len(shape) - 2)
    inputs = [x.get(name) for name in PARAMETERS[kind] if name != "r"]
    inputs[0] = _channels_first(b, x["x"], last)
    if kind != "lrn":
        attributes["activation"] = ()
    first = (shape[0], shape[-1], *shape[1:-1]) if last else shape
    made = b.emit(kind, inputs, shape=first, dtype=dtype, channels_last=False, **attributes)
    # In place, the result overwrites the residual.
    residual = x.get("r", x.get("y"))
    return {"y": _finished(b, _channels_last(b, made, last), residual, at.get("activation", ()))}


# --- operations of kernels itself -----------------------------------------------------------------------


def _gemm(_: Any, b: NetworkBuilder, x: Mapping[str, str], at: Mapping[str, Any], y: Any) -> dict[str, str]:
    bias = x.get("c")
    beta = {} if bias is None else {"beta": float(at["beta"])}
    turned = {"transpose_a": bool(at["trans_a"]), "transpose_b": bool(at["trans_b"])}
    return {"c": b.matmul(x["a"], x["b"], bias, alpha=float(at["alpha"]), **turned, **beta)}


def _syrk(_: Any, b: NetworkBuilder, x: Mapping[str, str], at: Any, y: Any) -> dict[str, str]:
    product = b.matmul(x["a"], x["a"], transpose_b=True)
    lower = ("greater_equal", ("index", -2), ("index", -1))
    return {"c": b.elementwise(("where", lower, ("sub", 0, 1), 0), x["c"], product)}


def _dense(_: Any, b: NetworkBuilder, x: Mapping[str, str], at: Mapping[str, Any], y: Any) -> dict[str, str]:
    return {"y": _finished(b, b.matmul(x["x"], x["w"], x["b"]), None, (("relu",),) if at["activation"] else ())}


def _softmax(_: Any, b: NetworkBuilder, x: Mapping[str, str], at: Any, y: Any) -> dict[str, str]:
    return {"y": b.emit("softmax", [x["x"]], axis=1, log=False)}


def _heat_step(_: Any, b: NetworkBuilder, x: Mapping[str, str], at: Mapping[str, Any], y: Any) -> dict[str, str]:
    center, (rows, columns) = x["center"], b.shape(x["center"])
    edge = {name: b.shape(x[name])[0 if name == "north" else 1] for name in ("north", "west")}
    above = b.concat([b.part(x["north"], 0, edge["north"] - 1, 1), b.part(center, 0, 0, rows - 1)], 0)
    below = b.concat([b.part(center, 0, 1, rows - 1), b.part(x["south"], 0, 0, 1)], 0)
    left = b.concat([b.part(x["west"], 1, edge["west"] - 1, 1), b.part(center, 1, 0, columns - 1)], 1)
    right = b.concat([b.part(center, 1, 1, columns - 1), b.part(x["east"], 1, 0, 1)], 1)
    around = ("add", ("add", 1, 2), ("add", 3, 4))
    change = ("mul", ("const", float(at["coefficient"])), ("sub", around, ("mul", ("const", 4.0), 0)))
    return {"out": b.elementwise(("add", 0, change), center, above, below, left, right)}


def _axpy(_: Any, b: NetworkBuilder, x: Mapping[str, str], at: Mapping[str, Any], y: Any) -> dict[str, str]:
    return {"y": b.elementwise(("add", 0, ("mul", ("const", at["alpha"]), 1)), x["y"], x["x"])}


def _add(_: Any, b: NetworkBuilder, x: Mapping[str, str], at: Any, y: Any) -> dict[str, str]:
    operator = "or" if b.dtype(x["x"]) == "bool" else "add"
    return {"z": b.elementwise((operator, 0, 1), x["x"], x["y"])}


def _scale(_: Any, b: NetworkBuilder, x: Mapping[str, str], at: Mapping[str, Any], y: Any) -> dict[str, str]:
    return {"x": b.elementwise(("mul", 0, ("const", at["alpha"])), x["x"])}


def _fill(_: Any, b: NetworkBuilder, x: Any, at: Mapping[str, Any], y: Mapping[str, ShapeDtype]) -> dict[str, str]:
    return {"x": b.filled(*y["x"], at["value"])}


def _copy(_: Any, b: NetworkBuilder, x: Mapping[str, str], at: Any, y: Any) -> dict[str, str]:
    return {"y": x["x"]}


_EMITTERS: Final[dict[str, _RecipeEmitter]] = {
    "elementwise": _elementwise,
    "concat": _concat,
    "topk": _topk,
    "join": _join,
    "update": _update,
    "reduce_whole": _reduce_whole,
    "recurrent": _recurrent,
    "resize": _resize,
    "rotary": partial(_plain, "rotary", ("interleaved", "part")),
    "matmul": _matmul,
    "gather": partial(_plain, "gather", ("axis",)),
    "gather_elements": partial(_plain, "gather_elements", ("axis",)),
    "gather_nd": partial(_plain, "gather_nd", ("batch_dims",)),
    "scatter_elements": partial(_plain, "scatter_elements", ("axis", "reduction")),
    "scatter_nd": partial(_plain, "scatter_nd", ("reduction",)),
    "slice_of": partial(_plain, "slice", ("starts", "steps")),
    "transpose": partial(_plain, "transpose", ("permutation",)),
    "pad": partial(_plain, "pad", ("pads", "mode", "value")),
    "reduce": partial(_plain, "reduce", ("mode", "axes", "keepdims")),
    **dict.fromkeys(("scan_sum", "scan_in_parts"), partial(_plain, "scan_sum", ("axis", "exclusive", "reverse"))),
    "softmax_over": partial(_plain, "softmax", ("axis", "log")),
    "layer_norm": partial(_plain, "layer_norm", ("axis", "epsilon", "centred")),
    "conv": partial(_on_channels, "conv", ("groups",)),
    "conv_transpose": partial(_on_channels, "conv_transpose", ("groups", "output_padding")),
    "pool": partial(_on_channels, "pool", ("mode", "kernel", "count_include_pad")),
    "batch_norm": partial(_on_channels, "batch_norm", ("epsilon",)),
    "group_norm": partial(_on_channels, "group_norm", ("groups", "epsilon")),
    "lrn": partial(_on_channels, "lrn", ("alpha", "beta", "bias", "size")),
    "gemm": _gemm,
    "syrk": _syrk,
    "dense": _dense,
    "softmax": _softmax,
    "heat_step": _heat_step,
    "axpy": _axpy,
    "add": _add,
    "scale": _scale,
    "fill": _fill,
    "copy": _copy,
}
