# SPDX-License-Identifier: Apache-2.0
"""ONNX test model: a language model's decoder of any size, as ONNX Runtime GenAI or Optimum exports it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from syclsched.errors import ArgumentError

_MICROSOFT = "com.microsoft"


def decoder_model(
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    *,
    groups: int | None = None,
    vocabulary: int = 32000,
    positions: int = 2048,
    seed: int = 0,
    head: NDArray[np.float32] | None = None,
    growing: bool = False,
) -> Any:
    """Return a decoder with seeded random weights: pre-normalised layers, rotary positions and a cache.

    Parameters
    ----------
    layers, width, heads : int, optional
        Number of layers, size of hidden states, and heads of each attention.
    groups : int, optional
        Heads of keys and values; as many as heads of queries by default.
    vocabulary, positions : int, optional
        Number of tokens, and of positions that have angles.
    seed : int, optional
        Seed of the weights.
    head : numpy.ndarray, optional
        The last matrix (width, any), which makes logits of hidden states; random by default.
    growing : bool, optional
        Whether the caches grow by Concat, as in models that Optimum exports; else the past has room for all tokens, as
        in those of ONNX Runtime GenAI.

    Returns
    -------
    onnx.ModelProto
        Inputs are ``input_ids`` (batch, sequence), ``seqlens_k`` (batch): tokens so far less one,
        ``total_sequence_length``: the largest number of tokens so far, and the caches ``past_key_values.N.key`` and
        ``.value`` (batch, groups, past_sequence_length, width / heads). Outputs are ``logits`` and
        ``present.N.key`` and ``.value``. Growing ones have ``attention_mask`` (batch, all tokens) and ``position_ids``
        (batch, sequence) in place of the lengths.

    Raises
    ------
    ArgumentError
        If heads do not share the width evenly.
    """
    from onnx import TensorProto, helper, numpy_helper

    groups = heads if groups is None else groups
    if width % heads or heads % groups or width // heads % 2:
        raise ArgumentError(f"{heads} heads in {groups} groups do not share a width of {width}")
    if growing:
        return _GrowingDecoder(layers, width, heads, groups, vocabulary, positions, seed, head).model()
    random, size, node = np.random.default_rng(seed), width // heads, helper.make_node

    def matrix(rows: int, columns: int) -> NDArray[Any]:
        return np.asarray(random.standard_normal((rows, columns)) / np.sqrt(rows), np.float32)

    angles = np.arange(positions)[:, None] / 10000.0 ** (np.arange(size // 2) / (size // 2))
    weights: dict[str, NDArray[Any]] = {
        "embeddings": random.standard_normal((vocabulary, width)).astype(np.float32),
        "cosines": np.cos(angles).astype(np.float32),
        "sines": np.sin(angles).astype(np.float32),
        "scale": np.ones(width, np.float32),
    }
    nodes = [
        node("Gather", ["embeddings", "input_ids"], ["hidden"]),
        node("SimplifiedLayerNormalization", ["hidden", "scale"], ["normalised"], axis=-1, epsilon=1e-5),
    ]
    hidden, normalised = "hidden", "normalised"
    inputs: list[Any] = []
    outputs: list[Any] = []

    def product(x: str, name: str, rows: int, columns: int) -> str:
        weights[f"{name}.weight"] = matrix(rows, columns)
        nodes.append(node("MatMul", [x, f"{name}.weight"], [name]))
        return name

    def added(x: str, name: str) -> tuple[str, str]:
        made = [f"{name}.normalised", "", "", f"{name}.hidden"]
        inputs_of = [x, hidden, "scale"]
        nodes.append(node("SkipSimplifiedLayerNormalization", inputs_of, made, name, domain=_MICROSOFT, epsilon=1e-5))
        return made[3], made[0]

    for layer in range(layers):
        past = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        present = [f"present.{layer}.{kind}" for kind in ("key", "value")]
        packed = product(normalised, f"qkv.{layer}", width, (heads + 2 * groups) * size)
        given = [packed, "", "", *past, "seqlens_k", "total_sequence_length", "cosines", "sines"]
        attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": 1}
        made = [f"attention.{layer}", *present]
        nodes.append(node("GroupQueryAttention", given, made, made[0], domain=_MICROSOFT, **attributes))
        hidden, normalised = added(product(made[0], f"joined.{layer}", width, width), f"first.{layer}")
        wide = product(normalised, f"up.{layer}", width, 4 * width)
        nodes.append(node("Gelu", [wide], [f"gelu.{layer}"], domain=_MICROSOFT))
        hidden, normalised = added(product(f"gelu.{layer}", f"down.{layer}", 4 * width, width), f"second.{layer}")
        for names, values, extent in ((past, inputs, "past_sequence_length"), (present, outputs, "total_length")):
            shape: list[str | int | None] = ["batch", groups, extent, size]
            values += [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names]
    weights["head"] = matrix(width, vocabulary) if head is None else np.asarray(head, np.float32)
    nodes.append(node("MatMul", [normalised, "head"], ["logits"]))
    logits: list[str | int | None] = ["batch", "sequence", weights["head"].shape[1]]
    graph = helper.make_graph(
        nodes,
        "decoder",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"]),
            helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, ["batch"]),
            helper.make_tensor_value_info("total_sequence_length", TensorProto.INT32, []),
            *inputs,
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, logits), *outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


class _GrowingDecoder:
    """A decoder whose caches grow by Concat, in the form that Optimum exports."""

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        groups: int,
        vocabulary: int,
        positions: int,
        seed: int,
        head: NDArray[np.float32] | None,
    ) -> None:
        self._layers, self._width, self._heads, self._groups = layers, width, heads, groups
        self._size, self._head = width // heads, head
        self._vocabulary = vocabulary if head is None else head.shape[1]
        self._random = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        half = self._size // 2
        angles = np.arange(positions)[:, None] / 10000.0 ** (np.arange(half) / half)
        angles = np.concatenate([angles, angles], -1)
        integers = {"0": 0, "1": 1, "2": 2}
        lists = {"[0]": [0], "[1]": [1], "[2]": [2], "[-1]": [-1], "[half]": [half], "[end]": [1 << 40]}
        lists |= {"[heads]": [heads], "[groups]": [groups], "[size]": [self._size], "[width]": [width]}
        lists |= {"[each]": [heads // groups], "[1, 2]": [1, 2]}
        self._weights: dict[str, NDArray[Any]] = {
            **{name: np.array(value, np.int64) for name, value in {**integers, **lists}.items()},
            "embeddings": self._random.standard_normal((vocabulary, width)).astype(np.float32),
            "cosines": np.cos(angles).astype(np.float32),
            "sines": np.sin(angles).astype(np.float32),
            "gains": np.ones(width, np.float32),
            "tiny": np.array(1e-5, np.float32),
            "square": np.array(2, np.float32),
            "scale": np.array(self._size**-0.5, np.float32),
            "allowed": np.array(0, np.float32),
            "hidden_score": np.array(np.finfo(np.float32).min, np.float32),
        }

    def _add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def _product(self, x: str, rows: int, columns: int) -> str:
        name = f"weights_{len(self._weights)}"
        self._weights[name] = (self._random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
        return self._add("MatMul", x, name)

    def _normalised(self, x: str) -> str:
        mean = self._add("ReduceMean", self._add("Pow", x, "square"), axes=[-1])
        return self._add("Mul", self._add("Div", x, self._add("Sqrt", self._add("Add", mean, "tiny"))), "gains")

    def _extent(self, x: str, axis: int) -> str:
        return self._add("Gather", self._add("Shape", x), str(axis))

    def _list(self, *extents: str) -> str:
        listed = [each if each.startswith("[") else self._add("Unsqueeze", each, "[0]") for each in extents]
        return self._add("Concat", *listed, axis=0)

    def _split_heads(self, x: str, heads: str) -> str:
        batch, new = self._extent(x, 0), self._extent(x, 1)
        return self._add(
            "Transpose", self._add("Reshape", x, self._list(batch, new, heads, "[size]")), perm=[0, 2, 1, 3]
        )

    def _turned(self, x: str, cosines: str, sines: str) -> str:
        """Return a value with rotary positions."""
        first = self._add("Slice", x, "[0]", "[half]", "[-1]")
        second = self._add("Neg", self._add("Slice", x, "[half]", "[end]", "[-1]"))
        crossed = self._add("Concat", second, first, axis=-1)
        return self._add("Add", self._add("Mul", x, cosines), self._add("Mul", crossed, sines))

    def _repeated(self, x: str) -> str:
        """Return the keys or values of groups for each of their heads."""
        if self._heads == self._groups:
            return x
        batch, whole = self._extent(x, 0), self._extent(x, 2)
        wide = self._list(batch, "[groups]", "[each]", whole, "[size]")
        x = self._add("Expand", self._add("Unsqueeze", x, "[2]"), wide)
        return self._add("Reshape", x, self._list(batch, "[heads]", whole, "[size]"))

    def _mask(self) -> str:
        """Return the addend of the scores: the least number where a token must not be read."""
        past = self._extent("past_key_values.0.key", 2)
        whole = self._add("Add", past, self._extent("input_ids", 1))
        rows = self._add("Unsqueeze", self._add("Range", past, whole, "1"), "[1]")
        causal = self._add("LessOrEqual", self._add("Range", "0", whole, "1"), rows)
        given = self._add("Unsqueeze", self._add("Cast", "attention_mask", to=9), "[1, 2]")
        return self._add("Where", self._add("And", causal, given), "allowed", "hidden_score")

    def model(self) -> Any:
        """Return the model."""
        from onnx import helper, numpy_helper

        width, size = self._width, self._size
        mask = self._mask()
        cosines, sines = (
            self._add("Unsqueeze", self._add("Gather", table, "position_ids"), "[1]") for table in ("cosines", "sines")
        )
        hidden = self._add("Gather", "embeddings", "input_ids")
        caches: list[str] = []
        for layer in range(self._layers):
            x = self._normalised(hidden)
            q = self._turned(self._split_heads(self._product(x, width, width), "[heads]"), cosines, sines)
            rows = self._groups * size
            k = self._turned(self._split_heads(self._product(x, width, rows), "[groups]"), cosines, sines)
            v = self._split_heads(self._product(x, width, rows), "[groups]")
            for kind, new in (("key", k), ("value", v)):
                self._nodes.append(
                    helper.make_node(
                        "Concat", [f"past_key_values.{layer}.{kind}", new], [f"present.{layer}.{kind}"], axis=-2
                    )
                )
                caches.append(f"{layer}.{kind}")
            k, v = (self._repeated(f"present.{layer}.{kind}") for kind in ("key", "value"))
            scores = self._add("MatMul", q, self._add("Transpose", k, perm=[0, 1, 3, 2]))
            scores = self._add("Add", self._add("Mul", scores, "scale"), mask)
            mixed = self._add(
                "Transpose", self._add("MatMul", self._add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3]
            )
            joined = self._list(self._extent("input_ids", 0), self._extent("input_ids", 1), "[width]")
            hidden = self._add("Add", hidden, self._product(self._add("Reshape", mixed, joined), width, width))
            wide = self._product(self._normalised(hidden), width, 4 * width)
            wide = self._add("Mul", wide, self._add("Sigmoid", wide))
            hidden = self._add("Add", hidden, self._product(wide, 4 * width, width))
        self._nodes.append(helper.make_node("MatMul", [self._normalised(hidden), "head"], ["logits"]))
        head = self._random.standard_normal((width, self._vocabulary)) if self._head is None else self._head
        self._weights["head"] = np.asarray(head, np.float32)
        return self._whole(caches, numpy_helper)

    def _whole(self, caches: list[str], numpy_helper: Any) -> Any:
        from onnx import TensorProto, helper

        def declared(name: str, kind: int, *shape: str | int) -> Any:
            return helper.make_tensor_value_info(name, kind, shape)

        batch, new, past = "batch_size", "sequence_length", "past_sequence_length"
        whole, integer, number = f"{past} + {new}", TensorProto.INT64, TensorProto.FLOAT
        graph = helper.make_graph(
            self._nodes,
            "growing decoder",
            [
                declared("input_ids", integer, batch, new),
                declared("attention_mask", integer, batch, whole),
                declared("position_ids", integer, batch, new),
                *(declared(f"past_key_values.{c}", number, batch, self._groups, past, self._size) for c in caches),
            ],
            [
                declared("logits", number, batch, new, self._vocabulary),
                *(declared(f"present.{c}", number, batch, self._groups, whole, self._size) for c in caches),
            ],
            [numpy_helper.from_array(value, name) for name, value in self._weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
