# SPDX-License-Identifier: Apache-2.0
"""Mutations of ONNX models: small random changes that invalidate most of them in one place."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

_NUMBERS: Final = (0, 1, -1, 2, 3, 7, -2, 100, 1 << 31, -(1 << 63), (1 << 63) - 1)
_FLOATS: Final = (0.0, -1.0, 1e-30, 1e30, float("nan"), float("inf"), -float("inf"))
_TEXTS: Final = ("", "none", "linear", "SAME_UPPER", "reflect", "add", "\ufffd")

Mutation = Callable[[random.Random, ModelProto], None]


def mutated(model: ModelProto, chance: random.Random, count: int = 1) -> tuple[ModelProto | bytes, str]:
    """Return a model with some changes, and their names; a truncated model is returned as bytes."""
    made = ModelProto()
    made.CopyFrom(model)
    names = []
    for _ in range(count):
        change = chance.choice(MUTATIONS)
        names.append(change.__name__.strip("_"))
        change(chance, made)
    if chance.random() < 0.06:
        data = bytearray(made.SerializeToString())
        if chance.random() < 0.5:
            return bytes(data[: chance.randrange(len(data) + 1)]), "cut short"
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data), "bytes changed"
    return made, " and ".join(names)


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and its subgraphs."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _node(chance: random.Random, model: ModelProto) -> tuple[GraphProto, NodeProto] | None:
    found = [(graph, node) for graph in _graphs(model.graph) for node in graph.node]
    return chance.choice(found) if found else None


def _values(graph: GraphProto) -> list[str]:
    names = [value.name for value in graph.input] + [tensor.name for tensor in graph.initializer]
    return [*names, *(name for node in graph.node for name in node.output if name)]


def _remove_input(chance: random.Random, model: ModelProto) -> None:
    if (found := _node(chance, model)) and found[1].input:
        del found[1].input[chance.randrange(len(found[1].input))]


def _empty_input(chance: random.Random, model: ModelProto) -> None:
    if (found := _node(chance, model)) and found[1].input:
        found[1].input[chance.randrange(len(found[1].input))] = ""


def _duplicate_input(chance: random.Random, model: ModelProto) -> None:
    if (found := _node(chance, model)) and found[1].input:
        found[1].input.append(chance.choice(list(found[1].input)))


def _rewire_input(chance: random.Random, model: ModelProto) -> None:
    """Replace an input by another value, which may be computed later: cycles are possible."""
    if (found := _node(chance, model)) and found[1].input:
        found[1].input[chance.randrange(len(found[1].input))] = chance.choice([*_values(found[0]), "nothing"])


def _swap_inputs(chance: random.Random, model: ModelProto) -> None:
    if (found := _node(chance, model)) and len(found[1].input) > 1:
        inputs = list(found[1].input)
        chance.shuffle(inputs)
        del found[1].input[:]
        found[1].input.extend(inputs)


def _change_outputs(chance: random.Random, model: ModelProto) -> None:
    if found := _node(chance, model):
        graph, node = found
        change = chance.randrange(4)
        if change == 0:
            node.output.append("one more")
        elif change == 1 and node.output:
            del node.output[-1]
        elif change == 2 and node.output:
            node.output[0] = chance.choice(_values(graph))
        elif node.output:
            node.output[chance.randrange(len(node.output))] = ""


def _remove_node(chance: random.Random, model: ModelProto) -> None:
    if found := _node(chance, model):
        found[0].node.remove(found[1])


def _duplicate_node(chance: random.Random, model: ModelProto) -> None:
    if found := _node(chance, model):
        found[0].node.add().CopyFrom(found[1])


def _change_operator(chance: random.Random, model: ModelProto) -> None:
    if found := _node(chance, model):
        others = ("Add", "Relu", "Concat", "MatMul", "Reshape", "Softmax", "Gather", "TopK", "Nothing", "SequenceAt",
                  "ReduceLogSum", "Cast", "NonZero", "Det", "Where", "Identity", "Loop")  # fmt: skip
        found[1].op_type = chance.choice(others)


def _change_domain(chance: random.Random, model: ModelProto) -> None:
    if found := _node(chance, model):
        found[1].domain = chance.choice(["ai.onnx", "ai.onnx.ml", "com.microsoft", "other"])


def _attribute(chance: random.Random, node: NodeProto) -> AttributeProto | None:
    return chance.choice(node.attribute) if node.attribute else None


def _change_attribute(chance: random.Random, model: ModelProto) -> None:
    """Change the value of an attribute."""
    found = _node(chance, model)
    attribute = None if found is None else _attribute(chance, found[1])
    if attribute is None:
        return
    if attribute.type == AttributeProto.INT:
        attribute.i = chance.choice(_NUMBERS)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = chance.choice(_FLOATS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = chance.choice(_TEXTS).encode()
    elif attribute.type == AttributeProto.INTS:
        values = [chance.choice([*_NUMBERS, *attribute.ints]) for _ in range(chance.randrange(5))]
        del attribute.ints[:]
        attribute.ints.extend(values)
    elif attribute.type == AttributeProto.FLOATS:
        del attribute.floats[:]
        attribute.floats.extend(chance.choice(_FLOATS) for _ in range(chance.randrange(4)))
    elif attribute.type == AttributeProto.TENSOR:
        _spoil_tensor(chance, attribute.t)
    elif attribute.type == AttributeProto.GRAPH:
        _spoil_graph(chance, attribute.g)


def _change_attribute_type(chance: random.Random, model: ModelProto) -> None:
    found = _node(chance, model)
    attribute = None if found is None else _attribute(chance, found[1])
    if attribute is None:
        return
    name, value = attribute.name, chance.choice([3, 0.5, "text", [1, 2], [0.5], ["a", "b"]])
    attribute.CopyFrom(helper.make_attribute(name, value))


def _remove_attribute(chance: random.Random, model: ModelProto) -> None:
    if (found := _node(chance, model)) and found[1].attribute:
        del found[1].attribute[chance.randrange(len(found[1].attribute))]


def _add_attribute(chance: random.Random, model: ModelProto) -> None:
    if found := _node(chance, model):
        names = ("axis", "axes", "keepdims", "to", "alpha", "mode", "pads", "group", "nonsense")
        value: Any = chance.choice([*_NUMBERS[:8], 0.5, [0], [0, 1], [-1, 1 << 40]])
        found[1].attribute.append(helper.make_attribute(chance.choice(names), value))


def _spoil_tensor(chance: random.Random, tensor: TensorProto) -> None:
    change = chance.randrange(6)
    if change == 0:
        tensor.data_type = chance.choice([0, 1, 2, 6, 7, 8, 9, 10, 11, 14, 16, 17, 22, 99])
    elif change == 1 and tensor.dims:
        tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice([0, -1, 1, 2, 1 << 40])
    elif change == 2:
        del tensor.dims[:]
    elif change == 3:
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data"):
            tensor.ClearField(field)
    elif change == 4 and tensor.raw_data:
        data = bytearray(tensor.raw_data)
        for _ in range(4):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 127, 128, 255))
        tensor.raw_data = bytes(data)
    else:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=chance.choice(["missing.bin", "", "../w.bin", "/etc/passwd"]))


def _change_initialiser(chance: random.Random, model: ModelProto) -> None:
    tensors = [tensor for graph in _graphs(model.graph) for tensor in graph.initializer]
    if tensors:
        _spoil_tensor(chance, chance.choice(tensors))


def _remove_initialiser(chance: random.Random, model: ModelProto) -> None:
    if model.graph.initializer:
        del model.graph.initializer[chance.randrange(len(model.graph.initializer))]


def _change_input(chance: random.Random, model: ModelProto) -> None:
    """Change the declared type or shape of an input."""
    if not model.graph.input:
        return
    value = chance.choice(model.graph.input)
    tensor, change = value.type.tensor_type, chance.randrange(5)
    if change == 0:
        tensor.elem_type = chance.choice([0, 1, 2, 3, 6, 7, 9, 10, 11, 12, 13])
    elif change == 1 and tensor.shape.dim:
        tensor.shape.dim[chance.randrange(len(tensor.shape.dim))].dim_value = chance.choice([0, 1, 2, 5, -1])
    elif change == 2:
        tensor.shape.dim.add(dim_value=chance.choice([0, 1, 2]))
    elif change == 3 and tensor.shape.dim:
        del tensor.shape.dim[-1]
    else:
        value.type.Clear()


def _change_output(chance: random.Random, model: ModelProto) -> None:
    if model.graph.output:
        value = chance.choice(model.graph.output)
        if chance.random() < 0.5:
            value.name = chance.choice([*_values(model.graph), "nothing"])
        else:
            value.type.tensor_type.elem_type = chance.choice([1, 7, 8, 11])


def _change_opset(chance: random.Random, model: ModelProto) -> None:
    if model.opset_import:
        entry = chance.choice(model.opset_import)
        entry.version = chance.choice([0, 1, 6, 7, 9, 11, 13, 18, 21, 22, 99, -3])
        if chance.random() < 0.1:
            entry.domain = "other"


def _spoil_graph(chance: random.Random, graph: GraphProto) -> None:
    """Change the inputs or outputs of a subgraph."""
    change = chance.randrange(5)
    if change == 0 and graph.output:
        del graph.output[chance.randrange(len(graph.output))]
    elif change == 1 and graph.input:
        del graph.input[chance.randrange(len(graph.input))]
    elif change == 2 and graph.output:
        graph.output.add().CopyFrom(graph.output[0])
    elif change == 3 and graph.output:
        graph.output[0].name = chance.choice([*_values(graph), "nothing"])
    else:
        graph.input.add().CopyFrom(helper.make_tensor_value_info("more", 1, (2,)))


def _change_subgraph(chance: random.Random, model: ModelProto) -> None:
    inner = list(_graphs(model.graph))[1:]
    _spoil_graph(chance, chance.choice(inner or [model.graph]))


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *(_remove_input, _empty_input, _duplicate_input, _rewire_input, _rewire_input, _swap_inputs, _change_outputs),
    *(_remove_node, _duplicate_node, _change_operator, _change_domain, _change_attribute, _change_attribute),
    *(_change_attribute, _change_attribute_type, _remove_attribute, _add_attribute, _change_initialiser),
    *(_change_initialiser, _remove_initialiser, _change_input, _change_input, _change_output, _change_opset),
    _change_subgraph,
)
