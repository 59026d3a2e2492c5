# SPDX-License-Identifier: Apache-2.0
"""ONNX test models: real architectures with seeded random weights, so that every weight affects the outputs.

The ``onnx`` package ships the graphs of nine well-known networks, with all weights equal; all numbers in an output are
then equal, too. `light_model` gives them weights as for the start of training. `encoder_model` is a text encoder of any
size in the form that exporters write: layer normalisation and GELU as primitive operators, shapes computed from the
inputs' shapes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syclsched.errors import ArgumentError

Array = NDArray[Any]

#: Names of the networks in the ``onnx`` package.
LIGHT_MODELS: Final = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
#: Operators that only change the shape: the use of a weight is searched through them.
_RESHAPING: Final = frozenset({"Unsqueeze", "Squeeze", "Reshape", "Flatten", "Identity"})


def light_model(name: str, seed: int = 0) -> Any:
    """Return one of the networks in the ``onnx`` package, with seeded random weights.

    Convolutions and dense layers get He initialisation (arXiv:1502.01852). Normalisations get scales near 1 and
    statistics near those of their inputs, so that activations keep their magnitude through all layers.

    Parameters
    ----------
    name : str
        One of `LIGHT_MODELS`.
    seed : int, optional
        Seed of the weights.

    Returns
    -------
    onnx.ModelProto
        Model with its weights as initialisers; its only input is an image (1, 3, 224, 224), float32.

    Raises
    ------
    ArgumentError
        If there is no such network, or the installed ``onnx`` does not ship the networks.
    """
    import onnx

    if name not in LIGHT_MODELS:
        raise ArgumentError(f"there is no network {name!r}", where="light_model()", hint=", ".join(LIGHT_MODELS))
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    if not path.is_file():
        raise ArgumentError(
            "the installed onnx does not have the networks",
            where=f"light_model({name!r})",
            hint="Those from 1.17 to 1.23 do",
        )
    return with_seeded_weights(onnx.load(str(path)), seed)


def with_seeded_weights(model: Any, seed: int = 0) -> Any:
    """Replace the weights of a model, made by ConstantOfShape or floating-point initialisers, by random ones.

    Parameters
    ----------
    model : onnx.ModelProto
        Changed in place.
    seed : int, optional
        Seed of the weights.

    Returns
    -------
    onnx.ModelProto
        The same model; all weights are initialisers and none are inputs.
    """
    from onnx import numpy_helper

    graph = model.graph
    random = np.random.default_rng(seed)
    known = {tensor.name: tensor for tensor in graph.initializer}
    generated = {
        node.output[0]: tuple(int(n) for n in numpy_helper.to_array(known[node.input[0]]))
        for node in graph.node
        if node.op_type == "ConstantOfShape" and node.input[0] in known
    }
    floats = {name: tuple(tensor.dims) for name, tensor in known.items() if tensor.data_type == 1}
    uses = _WeightUses(graph)
    kept = [tensor for name, tensor in known.items() if name not in floats]
    for name, shape in sorted((generated | floats).items()):
        value = uses.draw(name, shape, random)
        kept.append(known[name] if value is None else numpy_helper.from_array(value, name))
    nodes = [node for node in graph.node if node.output[0] not in generated]
    needed = {name for node in nodes for name in node.input}
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(tensor for tensor in kept if tensor.name in needed)
    inputs = [value for value in graph.input if value.name not in known and value.name not in generated]
    del graph.input[:]
    graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)  # older versions require every initialiser to be an input, too
    return model


class _WeightUses:
    """Uses of weights, which determine their distribution."""

    def __init__(self, graph: Any) -> None:
        self._by_input: dict[str, list[tuple[Any, int]]] = {}
        self._made_by = {name: node for node in graph.node for name in node.output}
        for node in graph.node:
            for index, name in enumerate(node.input):
                self._by_input.setdefault(name, []).append((node, index))

    def draw(self, name: str, shape: tuple[int, ...], random: np.random.Generator) -> Array | None:
        """Return random values for a weight; None if its use is unknown."""
        used = self._use(name)
        if used is None:
            return None
        node, index = used
        role = (node.op_type, index)
        if role == ("Conv", 1) or role == ("Gemm", 1) or role == ("MatMul", 1):
            transposed = node.op_type == "Conv" or any(a.name == "transB" and a.i for a in node.attribute)
            fan_in = int(np.prod(shape[1:])) if transposed else shape[0]
            # Halve the last layer: with scores far apart, all class probabilities but one would be 0.
            return _normal(random, shape, (2.0 / fan_in) ** 0.5 * (0.5 if self._is_last(node) else 1.0))
        if role == ("BatchNormalization", 1) or node.op_type == "Mul":
            return random.uniform(0.7, 1.3, shape).astype(np.float32) * np.float32(self._share(node))
        if role == ("BatchNormalization", 4):
            return random.uniform(0.7, 1.3, shape).astype(np.float32)
        if node.op_type in ("Conv", "Gemm", "BatchNormalization", "Add", "Sum"):
            return _normal(random, shape, 0.1)
        return None

    def _use(self, name: str) -> tuple[Any, int] | None:
        for node, index in self._by_input.get(name, ()):
            if node.op_type not in _RESHAPING:
                return node, index
            if index == 0:
                return self._use(node.output[0])
        return None

    def _share(self, node: Any) -> float:
        """Return the scale of a normalisation whose output is summed, to keep activations from growing."""
        sums = [user for user, _ in self._by_input.get(node.output[0], ()) if user.op_type in ("Sum", "Add")]
        if node.op_type != "BatchNormalization" or not sums:
            return 1.0
        others = [self._made_by.get(name) for name in sums[0].input]
        normalised = sum(1 for other in others if other is not None and other.op_type == node.op_type)
        return 0.25 if normalised < len(others) else float(normalised**-0.5)

    def _is_last(self, node: Any) -> bool:
        """Return whether no node with weights follows."""
        users = list(self._by_input.get(node.output[0], ()))
        while users:
            user, _ = users.pop()
            if user.op_type in ("Conv", "Gemm", "MatMul"):
                return False
            users += self._by_input.get(user.output[0], ())
        return True


def _normal(random: np.random.Generator, shape: Sequence[int], deviation: float) -> Array:
    return random.standard_normal(tuple(shape), dtype=np.float32) * np.float32(deviation)


def encoder_model(
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    *,
    vocabulary: int = 30522,
    positions: int = 512,
    seed: int = 0,
) -> Any:
    """Return a text encoder like BERT (arXiv:1810.04805) with seeded weights; by default BERT base.

    Parameters
    ----------
    layers, width, heads : int, optional
        Number of encoder layers, hidden size, number of attention heads (a divisor of the hidden size). The inner size
        of a feed-forward block is four times the hidden size.
    vocabulary, positions : int, optional
        Number of tokens in the vocabulary and maximum number of positions.
    seed : int, optional
        Seed of the weights.

    Returns
    -------
    onnx.ModelProto
        Model of opset 14. Inputs ``input_ids``, ``attention_mask``, ``token_type_ids``: int64 (batch, sequence), with
        both extents dynamic.
        Outputs ``last_hidden_state`` (batch, sequence, width), ``pooler_output`` (batch, width), float32.
    """
    if heads < 1 or width % heads:
        raise ArgumentError(f"{heads} heads do not divide a width of {width}", where="encoder_model()")
    writer = _ModelBuilder(seed)
    ids, mask, types = "input_ids", "attention_mask", "token_type_ids"
    hidden = _embeddings(writer, ids, types, width, vocabulary, positions)
    mask_4d = writer.node("Unsqueeze", writer.node("Unsqueeze", mask, writer.ints([1])), writer.ints([2]))
    mask_float = writer.node("Cast", mask_4d, to=1)
    attention_bias = writer.node("Mul", writer.node("Sub", writer.number(1.0), mask_float), writer.number(-10000.0))
    for layer in range(layers):
        hidden = _layer(writer, f"layer.{layer}", hidden, attention_bias, width, heads)
    first = writer.node("Gather", hidden, writer.constant(np.array(0, np.int64)), axis=1)
    pooled = writer.node(
        "Tanh", writer.node("Gemm", first, writer.weight((width, width)), writer.bias(width), transB=1)
    )
    writer.node("Identity", hidden, output="last_hidden_state")
    writer.node("Identity", pooled, output="pooler_output")
    return writer.model(
        f"encoder-{layers}x{width}",
        inputs=dict.fromkeys((ids, mask, types), ("int64", ("batch", "sequence"))),
        outputs={
            "last_hidden_state": ("float32", ("batch", "sequence", width)),
            "pooler_output": ("float32", ("batch", width)),
        },
    )


def _embeddings(writer: _ModelBuilder, ids: str, types: str, width: int, vocabulary: int, positions: int) -> str:
    length = writer.node("Gather", writer.node("Shape", ids), writer.constant(np.array(1, np.int64)), axis=0)
    end = writer.node("Unsqueeze", length, writer.ints([0]))
    places = writer.constant(np.arange(positions, dtype=np.int64)[None])
    position_ids = writer.node("Slice", places, writer.ints([0]), end, writer.ints([1]), writer.ints([1]))
    word_vectors = writer.node("Gather", writer.weight((vocabulary, width), 0.02), ids)
    type_vectors = writer.node("Gather", writer.weight((2, width), 0.02), types)
    position_vectors = writer.node("Gather", writer.weight((positions, width), 0.02), position_ids)
    return _normalised(
        writer, writer.node("Add", writer.node("Add", word_vectors, type_vectors), position_vectors), width
    )


def _layer(writer: _ModelBuilder, name: str, hidden: str, attention_bias: str, width: int, heads: int) -> str:
    writer.prefix = f"{name}.attention"
    query, key, value = (_heads(writer, _dense(writer, hidden, width, width), width, heads, p) for p in ("q", "k", "v"))
    scores = writer.node("Div", writer.node("MatMul", query, key), writer.number((width // heads) ** 0.5))
    weights = writer.node("Softmax", writer.node("Add", scores, attention_bias), axis=-1)
    context = writer.node("Transpose", writer.node("MatMul", weights, value), perm=[0, 2, 1, 3])
    joined = writer.node("Reshape", context, _shape_like(writer, context, [width]))
    attended = _normalised(writer, writer.node("Add", _dense(writer, joined, width, width), hidden), width)
    writer.prefix = f"{name}.mlp"
    inner = _gelu(writer, _dense(writer, attended, width, 4 * width))
    return _normalised(writer, writer.node("Add", _dense(writer, inner, 4 * width, width), attended), width)


def _heads(writer: _ModelBuilder, value: str, width: int, heads: int, part: str) -> str:
    split = writer.node("Reshape", value, _shape_like(writer, value, [heads, width // heads]))
    return writer.node("Transpose", split, perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3])


def _shape_like(writer: _ModelBuilder, value: str, rest: list[int]) -> str:
    """Add nodes that compute a shape as exporters do: two extents of a value, then constants."""
    extents = []
    for axis in (0, 1):
        extent = writer.node("Gather", writer.node("Shape", value), writer.constant(np.array(axis, np.int64)), axis=0)
        extents.append(writer.node("Unsqueeze", extent, writer.ints([0])))
    return writer.node("Concat", *extents, *(writer.ints([n]) for n in rest), axis=0)


def _dense(writer: _ModelBuilder, value: str, inputs: int, outputs: int) -> str:
    weight = writer.weight((inputs, outputs), inputs**-0.5)
    return writer.node("Add", writer.bias(outputs), writer.node("MatMul", value, weight))


def _gelu(writer: _ModelBuilder, value: str) -> str:
    erf = writer.node("Erf", writer.node("Div", value, writer.number(2.0**0.5)))
    return writer.node(
        "Mul", writer.node("Mul", value, writer.node("Add", erf, writer.number(1.0))), writer.number(0.5)
    )


def _normalised(writer: _ModelBuilder, value: str, width: int) -> str:
    centred = writer.node("Sub", value, writer.node("ReduceMean", value, axes=[-1]))
    variance = writer.node("ReduceMean", writer.node("Pow", centred, writer.number(2.0)), axes=[-1])
    deviation = writer.node("Sqrt", writer.node("Add", variance, writer.number(1e-12)))
    scaled = writer.node("Mul", writer.node("Div", centred, deviation), writer.bias(width, 1.0))
    return writer.node("Add", scaled, writer.bias(width))


class _ModelBuilder:
    """Builder of a model, node by node."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self.prefix = "embeddings"

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output, and return the output's name."""
        from onnx import helper

        name = f"{self.prefix}/{kind}_{len(self._nodes)}"
        output = output or f"{name}_output"
        self._nodes.append(helper.make_node(kind, list(inputs), [output], name=name, **attributes))
        return output

    def constant(self, value: Array) -> str:
        """Add an initialiser, and return its name."""
        from onnx import numpy_helper

        name = f"{self.prefix}.constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(value, name))
        return name

    def ints(self, values: list[int]) -> str:
        return self.constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def weight(self, shape: tuple[int, ...], deviation: float | None = None) -> str:
        return self.constant(_normal(self._random, shape, shape[-1] ** -0.5 if deviation is None else deviation))

    def bias(self, width: int, about: float = 0.0) -> str:
        return self.constant(_normal(self._random, (width,), 0.05) + np.float32(about))

    def model(self, name: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
        """Return the model of all nodes added."""
        from onnx import helper

        def declared(values: dict[str, Any]) -> list[Any]:
            return [
                helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
                for key, (dtype, shape) in values.items()
            ]

        graph = helper.make_graph(self._nodes, name, declared(inputs), declared(outputs), self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def sample_inputs(model: Any, shapes: dict[str, Sequence[int]] | None = None, seed: int = 0) -> dict[str, Array]:
    """Return seeded random inputs for a model: normal floats, integers 0 and 1, or booleans.

    Parameters
    ----------
    model : onnx.ModelProto
        Any model.
    shapes : dict of str to sequence of int, optional
        Shapes of inputs with dynamic extents, by name.
    seed : int, optional
        Seed of the values.

    Returns
    -------
    dict of str to numpy.ndarray
        Values by input name. An ``attention_mask`` is all ones except in the last quarter of its last row.

    Raises
    ------
    ArgumentError
        If an input has dynamic extents and no shape is given for it.
    """
    from onnx import helper

    random = np.random.default_rng(seed)
    known = {tensor.name for tensor in model.graph.initializer}
    values: dict[str, Array] = {}
    for declared in model.graph.input:
        if declared.name in known:
            continue
        kind = declared.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
        shape = list((shapes or {}).get(declared.name, shape))
        if any(n < 0 for n in shape):
            raise ArgumentError("some extents are open", where=f"input {declared.name!r}", hint="Give its shape")
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
        if declared.name == "attention_mask":
            value: Array = np.ones(shape, dtype)
            value[-1, (3 * shape[1] + 3) // 4 :] = 0
        elif dtype.kind == "b":
            value = random.integers(0, 2, shape).astype(bool)
        elif dtype.kind in "iu":
            value = random.integers(0, 2, shape).astype(dtype)
        else:
            value = random.standard_normal(shape).astype(dtype)
        values[declared.name] = value
    return values


def cached(name: str, folder: str | os.PathLike[str], seed: int = 0) -> Path:
    """Return the path of a file with a `light_model`, or `encoder_model` for ``"bert"``; written if missing.

    Parameters
    ----------
    name : str
        One of `LIGHT_MODELS`, or ``bert``.
    folder : path
        Folder of the file; created if missing.
    seed : int, optional
        Seed of the weights.

    Returns
    -------
    Path
        Path of the file.
    """
    import onnx

    path = Path(folder) / f"{name}-{seed}.onnx"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        model = encoder_model(seed=seed) if name == "bert" else light_model(name, seed)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        onnx.save(model, str(partial))
        partial.replace(path)
    return path
