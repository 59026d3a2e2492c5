# SPDX-License-Identifier: Apache-2.0
"""ONNX models to try things with: real architectures with seeded weights, so that every number in them counts.

The ``onnx`` package ships the graphs of nine well-known networks whose weights are all the same number; every output of
such a model is one value. `light_model` gives them weights of the size that training starts from. `encoder_model` is a
text encoder of any size, written down as exporters write it: layer normalisation and Gelu in pieces, shapes computed
from the inputs'.
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

#: Networks of which ``onnx`` has the graph.
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
#: Operators that give their first input another shape, and through which a weight is followed to where it is used.
_SHAPES_ONLY: Final = frozenset({"Unsqueeze", "Squeeze", "Reshape", "Flatten", "Identity"})


def light_model(name: str, seed: int = 0) -> Any:
    """Return one of the networks in the ``onnx`` package, with seeded random weights.

    Convolutions and dense layers get weights as He et al. draw them (arXiv:1502.01852), normalisations scales about 1
    and statistics about those of their input, so that activations keep their size from the first layer to the last.

    Parameters
    ----------
    name : str
        One of `LIGHT_MODELS`.
    seed : int, optional
        Of the weights.

    Returns
    -------
    onnx.ModelProto
        With the weights as constants in it; its only input is an image (1, 3, 224, 224), float32.

    Raises
    ------
    ArgumentError
        If there is no such network, or the installed ``onnx`` has none.
    """
    import onnx

    if name not in LIGHT_MODELS:
        raise ArgumentError(f"there is no network {name!r}", where="light_model()", hint=", ".join(LIGHT_MODELS))
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    if not path.is_file():
        raise ArgumentError(
            "the installed onnx does not have the networks",
            where=f"light_model({name!r})",
            hint="Those from 1.17 to 1.22 do",
        )
    return with_seeded_weights(onnx.load(str(path)), seed)


def with_seeded_weights(model: Any, seed: int = 0) -> Any:
    """Give a model whose weights are made by ConstantOfShape, or are floating-point initialisers, others.

    Parameters
    ----------
    model : onnx.ModelProto
        Changed in place.
    seed : int, optional
        Of the weights.

    Returns
    -------
    onnx.ModelProto
        The model; its weights are initialisers and none of its inputs.
    """
    from onnx import numpy_helper

    graph = model.graph
    random = np.random.default_rng(seed)
    known = {tensor.name: tensor for tensor in graph.initializer}
    made = {
        node.output[0]: tuple(int(n) for n in numpy_helper.to_array(known[node.input[0]]))
        for node in graph.node
        if node.op_type == "ConstantOfShape" and node.input[0] in known
    }
    floats = {name: tuple(tensor.dims) for name, tensor in known.items() if tensor.data_type == 1}
    uses = _Uses(graph)
    kept = [tensor for name, tensor in known.items() if name not in floats]
    for name, shape in sorted((made | floats).items()):
        value = uses.draw(name, shape, random)
        kept.append(known[name] if value is None else numpy_helper.from_array(value, name))
    nodes = [node for node in graph.node if node.output[0] not in made]
    needed = {name for node in nodes for name in node.input}
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(tensor for tensor in kept if tensor.name in needed)
    inputs = [value for value in graph.input if value.name not in known and value.name not in made]
    del graph.input[:]
    graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)  # before that, every initialiser was an input, too
    return model


class _Uses:
    """Where weights are used, which says how large they should be."""

    def __init__(self, graph: Any) -> None:
        self._by_input: dict[str, list[tuple[Any, int]]] = {}
        self._made_by = {name: node for node in graph.node for name in node.output}
        for node in graph.node:
            for index, name in enumerate(node.input):
                self._by_input.setdefault(name, []).append((node, index))

    def draw(self, name: str, shape: tuple[int, ...], random: np.random.Generator) -> Array | None:
        """Return a weight's values, or None if it is none that is known."""
        used = self._use(name)
        if used is None:
            return None
        node, index = used
        role = (node.op_type, index)
        if role == ("Conv", 1) or role == ("Gemm", 1) or role == ("MatMul", 1):
            transposed = node.op_type == "Conv" or any(a.name == "transB" and a.i for a in node.attribute)
            fan_in = int(np.prod(shape[1:])) if transposed else shape[0]
            # Classes whose scores lie far apart would all get the probability 0 but for one.
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
            if node.op_type not in _SHAPES_ONLY:
                return node, index
            if index == 0:
                return self._use(node.output[0])
        return None

    def _share(self, node: Any) -> float:
        """Return by how much what a normalisation makes must be smaller, so that sums do not grow block by block."""
        sums = [user for user, _ in self._by_input.get(node.output[0], ()) if user.op_type in ("Sum", "Add")]
        if node.op_type != "BatchNormalization" or not sums:
            return 1.0
        others = [self._made_by.get(name) for name in sums[0].input]
        alike = sum(1 for other in others if other is not None and other.op_type == node.op_type)
        return 0.25 if alike < len(others) else float(alike**-0.5)

    def _is_last(self, node: Any) -> bool:
        """Return whether nothing with weights comes after a node."""
        following = list(self._by_input.get(node.output[0], ()))
        while following:
            user, _ = following.pop()
            if user.op_type in ("Conv", "Gemm", "MatMul"):
                return False
            following += self._by_input.get(user.output[0], ())
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
    """Return a text encoder like BERT (arXiv:1810.04805) with seeded weights; by default as large as its base model.

    Parameters
    ----------
    layers, width, heads : int, optional
        Encoder layers, width of a token's vector, attention heads (a divisor of the width). The width between the two
        dense layers of a block is four times the width.
    vocabulary, positions : int, optional
        How many different tokens and places there are.
    seed : int, optional
        Of the weights.

    Returns
    -------
    onnx.ModelProto
        Opset 14. Inputs ``input_ids``, ``attention_mask``, ``token_type_ids``: int64 (batch, sequence), both open.
        Outputs ``last_hidden_state`` (batch, sequence, width), ``pooler_output`` (batch, width), float32.
    """
    if heads < 1 or width % heads:
        raise ArgumentError(f"{heads} heads do not divide a width of {width}", where="encoder_model()")
    made = _Writer(seed)
    ids, mask, types = "input_ids", "attention_mask", "token_type_ids"
    hidden = _embeddings(made, ids, types, width, vocabulary, positions)
    spread = made.node("Unsqueeze", made.node("Unsqueeze", mask, made.ints([1])), made.ints([2]))
    wanted = made.node("Cast", spread, to=1)
    hindrance = made.node("Mul", made.node("Sub", made.number(1.0), wanted), made.number(-10000.0))
    for layer in range(layers):
        hidden = _layer(made, f"layer.{layer}", hidden, hindrance, width, heads)
    first = made.node("Gather", hidden, made.constant(np.array(0, np.int64)), axis=1)
    pooled = made.node("Tanh", made.node("Gemm", first, made.weight((width, width)), made.bias(width), transB=1))
    made.node("Identity", hidden, output="last_hidden_state")
    made.node("Identity", pooled, output="pooler_output")
    return made.model(
        f"encoder-{layers}x{width}",
        inputs=dict.fromkeys((ids, mask, types), ("int64", ("batch", "sequence"))),
        outputs={
            "last_hidden_state": ("float32", ("batch", "sequence", width)),
            "pooler_output": ("float32", ("batch", width)),
        },
    )


def _embeddings(made: _Writer, ids: str, types: str, width: int, vocabulary: int, positions: int) -> str:
    length = made.node("Gather", made.node("Shape", ids), made.constant(np.array(1, np.int64)), axis=0)
    end = made.node("Unsqueeze", length, made.ints([0]))
    places = made.constant(np.arange(positions, dtype=np.int64)[None])
    used = made.node("Slice", places, made.ints([0]), end, made.ints([1]), made.ints([1]))
    words = made.node("Gather", made.weight((vocabulary, width), 0.02), ids)
    kinds = made.node("Gather", made.weight((2, width), 0.02), types)
    where = made.node("Gather", made.weight((positions, width), 0.02), used)
    return _normalised(made, made.node("Add", made.node("Add", words, kinds), where), width)


def _layer(made: _Writer, name: str, hidden: str, hindrance: str, width: int, heads: int) -> str:
    made.prefix = f"{name}.attention"
    query, key, value = (_heads(made, _dense(made, hidden, width, width), width, heads, p) for p in ("q", "k", "v"))
    scores = made.node("Div", made.node("MatMul", query, key), made.number((width // heads) ** 0.5))
    weights = made.node("Softmax", made.node("Add", scores, hindrance), axis=-1)
    context = made.node("Transpose", made.node("MatMul", weights, value), perm=[0, 2, 1, 3])
    joined = made.node("Reshape", context, _shape_like(made, context, [width]))
    attended = _normalised(made, made.node("Add", _dense(made, joined, width, width), hidden), width)
    made.prefix = f"{name}.mlp"
    inner = _gelu(made, _dense(made, attended, width, 4 * width))
    return _normalised(made, made.node("Add", _dense(made, inner, 4 * width, width), attended), width)


def _heads(made: _Writer, value: str, width: int, heads: int, part: str) -> str:
    split = made.node("Reshape", value, _shape_like(made, value, [heads, width // heads]))
    return made.node("Transpose", split, perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3])


def _shape_like(made: _Writer, value: str, rest: list[int]) -> str:
    """Return a shape computed as exporters do it: the first two extents of a value, then known ones."""
    extents = []
    for axis in (0, 1):
        extent = made.node("Gather", made.node("Shape", value), made.constant(np.array(axis, np.int64)), axis=0)
        extents.append(made.node("Unsqueeze", extent, made.ints([0])))
    return made.node("Concat", *extents, *(made.ints([n]) for n in rest), axis=0)


def _dense(made: _Writer, value: str, inputs: int, outputs: int) -> str:
    weight = made.weight((inputs, outputs), inputs**-0.5)
    return made.node("Add", made.bias(outputs), made.node("MatMul", value, weight))


def _gelu(made: _Writer, value: str) -> str:
    erf = made.node("Erf", made.node("Div", value, made.number(2.0**0.5)))
    return made.node("Mul", made.node("Mul", value, made.node("Add", erf, made.number(1.0))), made.number(0.5))


def _normalised(made: _Writer, value: str, width: int) -> str:
    centred = made.node("Sub", value, made.node("ReduceMean", value, axes=[-1]))
    variance = made.node("ReduceMean", made.node("Pow", centred, made.number(2.0)), axes=[-1])
    deviation = made.node("Sqrt", made.node("Add", variance, made.number(1e-12)))
    scaled = made.node("Mul", made.node("Div", centred, deviation), made.bias(width, 1.0))
    return made.node("Add", scaled, made.bias(width))


class _Writer:
    """Writes a model node by node."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self.prefix = "embeddings"

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output, and return that."""
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
        """Return all of it as a model."""
        from onnx import helper

        def declared(values: dict[str, Any]) -> list[Any]:
            return [
                helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
                for key, (dtype, shape) in values.items()
            ]

        graph = helper.make_graph(self._nodes, name, declared(inputs), declared(outputs), self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def sample_inputs(model: Any, shapes: dict[str, Sequence[int]] | None = None, seed: int = 0) -> dict[str, Array]:
    """Return seeded values for a model's inputs: numbers about 0, small whole numbers, or both truth values.

    Parameters
    ----------
    model : onnx.ModelProto
        Of any kind.
    shapes : dict of str to sequence of int, optional
        Of inputs whose shape is open.
    seed : int, optional
        Of the values.

    Returns
    -------
    dict of str to numpy.ndarray
        By name of the input. An ``attention_mask`` is all ones but for the last quarter of the last row.

    Raises
    ------
    ArgumentError
        If an extent is open and no shape is given.
    """
    from onnx import helper

    random = np.random.default_rng(seed)
    known = {tensor.name for tensor in model.graph.initializer}
    values: dict[str, Array] = {}
    for each in model.graph.input:
        if each.name in known:
            continue
        kind = each.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
        shape = list((shapes or {}).get(each.name, shape))
        if any(n < 0 for n in shape):
            raise ArgumentError("some extents are open", where=f"input {each.name!r}", hint="Give its shape")
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
        if each.name == "attention_mask":
            value: Array = np.ones(shape, dtype)
            value[-1, (3 * shape[1] + 3) // 4 :] = 0
        elif dtype.kind == "b":
            value = random.integers(0, 2, shape).astype(bool)
        elif dtype.kind in "iu":
            value = random.integers(0, 2, shape).astype(dtype)
        else:
            value = random.standard_normal(shape).astype(dtype)
        values[each.name] = value
    return values


def cached(name: str, folder: str | os.PathLike[str], seed: int = 0) -> Path:
    """Return a file with `light_model` of a name, or with `encoder_model` for ``"bert"``; written if it is not there.

    Parameters
    ----------
    name : str
        One of `LIGHT_MODELS`, or ``bert``.
    folder : path
        Where; made if need be.
    seed : int, optional
        Of the weights.

    Returns
    -------
    Path
        The file.
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
