# SPDX-License-Identifier: Apache-2.0
"""Split of a model that computes on text or maps: parts for the host, and the rest for devices.

A node on text whose result becomes a number that other nodes read is executed before the rest, with all nodes it
depends on; one whose results only become outputs of the model is executed after it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syclsched.errors import HostOperatorWarning, ModelError
from syclsched.frontends.onnx.model_file.dtypes import DTYPES
from syclsched.frontends.onnx.model_file.graph_reader import check_names, declared_value, needed_names, sorted_nodes
from syclsched.frontends.onnx.model_file.inlined_size import subgraphs
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue, HostPart, HostParts

_ML: Final = "ai.onnx.ml"
_STRING: Final = 8  # TensorProto.STRING
#: Classifiers whose labels may be text; of the other outputs, none is.
_CLASSIFIERS: Final = frozenset({"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"})
#: Operators that count or test: they take text, and make none.
_TO_NUMBERS: Final = frozenset({"OneHotEncoder", "DictVectorizer", "TfIdfVectorizer"})


@dataclass(frozen=True, slots=True)
class TextPartition:
    """A model without the host's parts: its GraphProto, and the numbers of the initialisers that are left."""

    rest: Any
    kept: tuple[int, ...]
    host: HostParts


def partition(
    onnx: Any, graph: Any, opsets: Mapping[str, int], where: str, *, array: Callable[[int], Any]
) -> TextPartition | None:
    """Split a model's GraphProto; None if nothing in it is text. ``array`` reads an initialiser by its number."""
    check_names(graph, where)
    texts = _TextFinder(onnx, opsets, where)
    hosted = {value.name for value in graph.input if is_hosted_type(value.type)}
    hosted |= {tensor.name for tensor in graph.initializer if tensor.data_type == _STRING}
    if not hosted and not texts.may_have_any(graph):
        return None
    given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    given |= {tensor.values.name for tensor in graph.sparse_initializer}
    nodes = sorted_nodes(graph.node, frozenset(given), where)
    on_text = texts.mark(nodes, hosted)
    if not on_text and not hosted:
        return None
    return _Splitter(onnx, graph, nodes, on_text, hosted, opsets, where, array).split()


def is_hosted_type(kind: Any) -> bool:
    """Return whether values of a TypeProto are text or maps, or sequences or optional values of these."""
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        return bool(kind.tensor_type.elem_type == _STRING)
    if which in ("sequence_type", "optional_type"):
        return is_hosted_type(getattr(kind, which).elem_type)
    return bool(which == "map_type")


class _TextFinder:
    """Finds the values of a graph that are text or maps, and the nodes that only the host executes."""

    def __init__(self, onnx: Any, opsets: Mapping[str, int], where: str) -> None:
        self._onnx, self._opsets, self._where = onnx, opsets, where

    def may_have_any(self, graph: Any) -> bool:
        """Return whether a node of a graph, or within it, could make text."""
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i == _STRING:
                    return True
                if attribute.HasField("t") and attribute.t.data_type == _STRING:
                    return True
                if str(attribute.name).endswith(("_strings", "value_string")) or node.op_type == "ZipMap":
                    return True
                if any(self.may_have_any(inner) for inner in subgraphs(attribute)):
                    return True
        return False

    def mark(self, nodes: Iterable[Any], hosted: set[str]) -> list[Any]:
        """Add the values that nodes make of text to ``hosted``; return the nodes that only the host executes."""
        found = []
        for node in nodes:
            given = [name for name in needed_names(node) if name in hosted]
            made, is_inside = self._made(node, hosted, given)
            hosted.update(made)
            if given:
                self._check(node, hosted)
            if given or is_inside or (made and node.op_type != "Constant" and not _is_decoded(node)):
                found.append(node)
        return found

    def _made(self, node: Any, hosted: set[str], given: Sequence[str]) -> tuple[list[str], bool]:
        """Return the outputs of a node that are text, and whether text is within its subgraphs."""
        at, outputs = {each.name: each for each in node.attribute}, [name for name in node.output if name]
        inner = [graph for each in node.attribute for graph in subgraphs(each)]
        if inner:
            made: set[int] = set()
            is_inside = False
            for graph in inner:
                own = hosted | {value.name for value in graph.input if is_hosted_type(value.type)}
                own |= {tensor.name for tensor in graph.initializer if tensor.data_type == _STRING}
                if given:
                    own |= {value.name for value in graph.input if not value.type.WhichOneof("value")}
                before = len(own)
                is_inside = bool(self.mark(graph.node, own)) or len(own) > before or is_inside
                extra = 1 if node.op_type == "Loop" else 0  # the condition
                made |= {i - extra for i, value in enumerate(graph.output) if value.name in own}
            return [name for i, name in enumerate(node.output) if name and i in made], is_inside
        if node.op_type == "Constant":
            return (outputs if _is_text_constant(at) else []), False
        if node.op_type == "Cast":
            return (outputs if at["to"].i == _STRING else []), False
        if node.op_type == "CastLike":
            return (outputs if node.input[1] in hosted else []), False
        if node.domain == _ML:
            return self._made_by_ml(node, at, given), False
        if not given or node.op_type in _TO_NUMBERS:
            return [], False
        formals = self._formals(node, "outputs")
        return [
            name
            for i, name in enumerate(node.output)
            if name and (not formals or _takes_text(formals[min(i, len(formals) - 1)]))
        ], False

    def _made_by_ml(self, node: Any, at: Mapping[str, Any], given: Sequence[str]) -> list[str]:
        operator = node.op_type
        if operator == "LabelEncoder":
            table = at.get("values_tensor")
            is_text = bool(at["values_strings"].strings) if "values_strings" in at else False
            # Before the second version of the domain it had one table for both ways.
            if "classes_strings" in at:
                is_text = not given
            return list(node.output) if is_text or (table is not None and table.t.data_type == _STRING) else []
        if operator in _CLASSIFIERS:
            return [node.output[0]] if "classlabels_strings" in at and at["classlabels_strings"].strings else []
        if operator == "CategoryMapper":
            return [] if given else list(node.output)
        if operator == "ZipMap" or (operator == "ArrayFeatureExtractor" and node.input[0] in given):
            return list(node.output)
        return list(node.output) if operator == "CastMap" and given and _casts_to_text(at) else []

    def _check(self, node: Any, hosted: set[str]) -> None:
        """Raise if an input of a node is text and its operator does not take text."""
        formals = self._formals(node, "inputs")
        for position, name in enumerate(node.input if formals else ()):
            if name in hosted and not _takes_text(formals[min(position, len(formals) - 1)]):
                raise ModelError(
                    f"its input {name!r} is text or a map, and {node.op_type} takes numbers",
                    where=f"{self._where}, node {_label(node)}",
                    hint="Make it an output of the model, and do the rest with the result",
                )

    def _formals(self, node: Any, side: str) -> list[tuple[str, ...]]:
        """Return the types that each input or output of an operator may have; nothing if ONNX does not say."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            schema = self._onnx.defs.get_schema(node.op_type, self._opsets.get(domain, 1), domain)
        except Exception:  # SchemaError, or a decoding error: names in a damaged model may not be valid text
            return []
        allowed = {each.type_param_str: tuple(each.allowed_type_strs) for each in schema.type_constraints}
        return [allowed.get(each.type_str, (each.type_str,)) for each in getattr(schema, side)]


def _takes_text(types: Iterable[str]) -> bool:
    return any("string" in each or "map" in each for each in types)


def _is_text_constant(at: Mapping[str, Any]) -> bool:
    return any(
        name in ("value_string", "value_strings") or (name == "value" and each.t.data_type == _STRING)
        for name, each in at.items()
    )


def _casts_to_text(at: Mapping[str, Any]) -> bool:
    return "cast_to" in at and at["cast_to"].s == b"TO_STRING"


def _is_decoded(node: Any) -> bool:
    """Return whether devices execute a node that makes text of numbers: its outputs are decoded."""
    at = {each.name for each in node.attribute}
    if node.domain != _ML:
        return False
    if node.op_type == "LabelEncoder":
        return {"keys_int64s", "values_strings"} <= at
    return node.op_type in _CLASSIFIERS or node.op_type == "ZipMap"


def _label(node: Any) -> str:
    return f"{node.op_type} {node.name or node.output[0]!r}"


class _Splitter:
    """Builds the parts of a model of which the values and nodes on text are known."""

    def __init__(
        self,
        onnx: Any,
        graph: Any,
        nodes: Sequence[Any],
        on_text: Sequence[Any],
        hosted: set[str],
        opsets: Mapping[str, int],
        where: str,
        array: Callable[[int], Any],
    ) -> None:
        self._onnx, self._graph, self._where, self._array = onnx, graph, where, array
        self._hosted = hosted
        self._opsets = opsets
        self._constants = {name: node for node in nodes if node.op_type == "Constant" for name in node.output}
        self._initialisers = {tensor.name: number for number, tensor in enumerate(graph.initializer)}
        self._nodes = [node for node in nodes if node.op_type != "Constant"]
        self._inputs = [value for value in graph.input if value.name not in self._initialisers]
        #: Initialisers that the host reads: they are constants, though they may be default values of inputs.
        self._read_by_host: set[str] = set()
        texts = {id(node) for node in on_text}
        self._on_text = [id(node) in texts for node in self._nodes]

    def split(self) -> TextPartition:
        """Return the parts."""
        graph, nodes = self._graph, self._nodes
        producer = {name: i for i, node in enumerate(nodes) for name in node.output if name}
        needs = [needed_names(node) for node in nodes]
        before, after = self._stages(needs, producer)
        rest = [i for i in range(len(nodes)) if i not in before and i not in after]
        asked = [value.name for value in graph.output]
        for name in asked:
            if name in self._hosted and (name in self._initialisers or name in self._constants):
                raise ModelError("it is constant text, which is not supported", where=f"{self._where}, output {name!r}")
        made_before = {name for i in before for name in nodes[i].output if name}
        made_after = {name for i in after for name in nodes[i].output if name}
        read_by_rest = {name for i in rest for name in needs[i]}
        read_after = {name for i in after for name in needs[i]}
        boundary = [name for name in made_before if name in read_by_rest]
        first = self._part(before, needs, [n for n in made_before if n in {*boundary, *read_after, *asked}])
        last = self._part(after, needs, [n for n in made_after if n in asked])
        elsewhere = made_before | made_after | {value.name for value in self._inputs} & self._hosted
        outputs = [value for value in graph.output if value.name not in elsewhere]
        here = {name for i in rest for name in nodes[i].output if name}
        outputs += [
            self._onnx.ValueInfoProto(name=name)
            for name in sorted(read_after & here)
            if name not in {value.name for value in outputs}
        ]
        host = HostParts(
            inputs=tuple(self._declared(value, "input") for value in self._inputs),
            outputs=tuple(self._declared(value, "output") for value in graph.output),
            before=first,
            after=last,
        )
        return self._rest(rest, boundary, outputs, read_by_rest | {*asked}, first, host)

    def _stages(self, needs: Sequence[Sequence[str]], producer: Mapping[str, int]) -> tuple[set[int], set[int]]:
        """Return the nodes that the host executes before the rest, and those after it."""
        count, on_text = len(self._nodes), self._on_text
        is_read = [False] * count  # by a node that devices execute, directly or not
        for i in reversed(range(count)):
            for name in needs[i]:
                if name in producer and (not on_text[i] or is_read[i]):
                    is_read[producer[name]] = True
        before: set[int] = set()
        for i in reversed(range(count)):
            if (on_text[i] and is_read[i]) or i in before:
                before.add(i)
                before.update(producer[name] for name in needs[i] if name in producer)
        slow = [self._nodes[i] for i in sorted(before) if not on_text[i]]
        if slow:
            warnings.warn(
                f"{self._where}: text is computed from the results of {', '.join(map(_label, slow))}: the host runs "
                "onnx's reference implementation, which is slow",
                HostOperatorWarning,
                stacklevel=2,
            )
        after: set[int] = set()
        for i in range(count):
            if on_text[i] and i not in before:
                sources = {producer[name] for name in needs[i] if name in producer}
                (before if sources <= before else after).add(i)
        return before, after

    def _part(self, chosen: set[int], needs: Sequence[Sequence[str]], outputs: Sequence[str]) -> HostPart | None:
        """Return a part for the host: nodes with the constants they need."""
        if not outputs:
            return None
        onnx = self._onnx
        used = dict.fromkeys(name for i in sorted(chosen) for name in needs[i])
        self._read_by_host.update(name for name in used if name in self._initialisers)
        nodes = [self._constants[name] for name in used if name in self._constants]
        nodes += [self._nodes[i] for i in sorted(chosen)]
        made = {name for node in nodes for name in node.output}
        tensors = [self._tensor(self._initialisers[name]) for name in used if name in self._initialisers]
        given = [name for name in used if name not in made and name not in self._initialisers]
        types = {value.name: value for value in self._inputs}
        graph = onnx.helper.make_graph(
            nodes,
            "host",
            [types.get(name, onnx.ValueInfoProto(name=name)) for name in given],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            tensors,
        )
        opsets = dict(self._opsets)
        opsets.setdefault("", 17)
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid(*each) for each in opsets.items()]
        )
        labels = tuple(_label(self._nodes[i]) for i in sorted(chosen))
        return HostPart(model.SerializeToString(), tuple(given), tuple(outputs), labels, self._where)

    def _tensor(self, number: int) -> Any:
        tensor = self._graph.initializer[number]
        if tensor.data_type == _STRING:
            return tensor
        return self._onnx.numpy_helper.from_array(np.asarray(self._array(number)), tensor.name)

    def _declared(self, value: Any, what: str) -> DeclaredValue:
        """Return the declaration of an input or output, also of text and maps."""
        if not is_hosted_type(value.type):
            return declared_value(value, self._where, what)
        inner, flags = value.type, []
        for kind in ("optional_type", "sequence_type"):
            flags.append(inner.WhichOneof("value") == kind)
            inner = getattr(inner, kind).elem_type if flags[-1] else inner
        if inner.WhichOneof("value") == "map_type":
            return DeclaredValue(value.name, "map", None, flags[1], flags[0])
        copied = self._onnx.ValueInfoProto(name=value.name)
        copied.type.tensor_type.CopyFrom(inner.tensor_type)
        copied.type.tensor_type.elem_type = 1
        said = declared_value(copied, self._where, what)
        return DeclaredValue(value.name, "text", said.dimensions, flags[1], flags[0])

    def _rest(
        self,
        chosen: Sequence[int],
        boundary: Sequence[str],
        outputs: Sequence[Any],
        used: set[str],
        first: HostPart | None,
        host: HostParts,
    ) -> TextPartition:
        """Return the model of the nodes that devices execute."""
        graph, whole = self._onnx.GraphProto(name=self._graph.name), self._graph
        graph.node.extend(node for name, node in self._constants.items() if name not in self._hosted)
        graph.node.extend(self._nodes[i] for i in chosen)
        kept = [number for name, number in self._initialisers.items() if name in used and name not in self._hosted]
        graph.initializer.extend(whole.initializer[number] for number in kept)
        graph.sparse_initializer.extend(whole.sparse_initializer)
        graph.input.extend(value for value in self._inputs if value.name not in self._hosted)
        graph.input.extend(self._boundary_values(boundary, first))
        numbers = {whole.initializer[number].name for number in kept} - self._read_by_host
        graph.input.extend(value for value in whole.input if value.name in numbers)
        graph.output.extend(outputs)
        return TextPartition(graph, tuple(kept), host)

    def _boundary_values(self, names: Sequence[str], part: HostPart | None) -> Iterator[Any]:
        if not names or part is None:
            return
        inferred = inferred_outputs(self._onnx, part, {})
        for name in names:
            value = inferred.get(name)
            if value is None or value.type.tensor_type.elem_type not in DTYPES:
                raise ModelError(
                    f"the type of {name!r}, which is computed from text, cannot be inferred", where=self._where
                )
            for dimension in value.type.tensor_type.shape.dim:
                if dimension.dim_param.startswith("unk__"):
                    dimension.Clear()
            yield value


def inferred_outputs(onnx: Any, part: HostPart, shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the ValueInfoProtos of a part's outputs as onnx's shape inference finds them, for shapes of its inputs."""
    model = onnx.ModelProto.FromString(part.model)
    for value in model.graph.input:
        if value.name in shapes:
            elements = value.type.tensor_type.elem_type
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, elements, list(shapes[value.name])))
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # of any kind: nothing is known then
        return {}
    return {value.name: value for value in inferred.graph.output}
