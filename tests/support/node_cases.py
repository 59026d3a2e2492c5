# SPDX-License-Identifier: Apache-2.0
"""The backend node tests that the ``onnx`` package ships, and their treatment in this project."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from syclsched.errors import ModelError, ValueNeededError
from syclsched.frontends.onnx.importing import import_model
from syclsched.frontends.onnx.model_file.dtypes import DTYPES, is_narrow, numpy_dtype
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.model_file.model_reader import OPSETS, read_model
from syclsched.frontends.onnx.model_file.tensor_reader import read_tensor
from syclsched.frontends.onnx.network import Network
from syclsched.onnx.call_inputs import CallInputs, CallValues
from syclsched.onnx.model import OnnxModel

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data"
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")

#: Tolerances, relative and absolute, by dtype; all others must be equal.
TOLERANCES = {"bfloat16": (1.6e-2, 1e-5), "float16": (2e-3, 1e-3), "float32": (1e-3, 2e-6), "float64": (1e-6, 1e-9)}


@dataclass(frozen=True)
class NodeCase:
    """A test: a model, and its results for some inputs."""

    name: str
    kind: str
    model: Any
    operators: tuple[str, ...]
    restamped: bool
    older: bool
    #: Inputs and outputs, unless they are in files.
    data_sets: Sequence[tuple[Sequence[Any], Sequence[Any]]] | None = None

    def data(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """Return inputs and outputs as arrays, for each data set; those of a test in scope are tensors."""
        for inputs, outputs in self.data_sets or ():
            yield [_array(value) for value in inputs], [_array(value) for value in outputs]
        for folder in sorted((FOLDER / self.kind / self.name).glob("test_data_set_*")):
            yield _stored(folder, "input", self.model.graph.input), _stored(folder, "output", self.model.graph.output)


def _array(value: Any) -> Any:
    if isinstance(value, list):
        return [_array(each) for each in value]
    if not isinstance(value, onnx.TensorProto):
        return None if value is None else np.asarray(value)
    if VERSION < (1, 19) and is_narrow(DTYPES.get(value.data_type, "")):
        return read_tensor(value, "data", None, ModelLimits())  # onnx had types of its own
    return numpy_helper.to_array(value)


def _stored(folder: Path, what: str, declared: Sequence[Any]) -> list[Any]:
    paths = [folder / f"{what}_{i}.pb" for i in range(len(declared))]
    arrays = [_read(path, value.type) for path, value in zip(paths, declared, strict=True) if path.exists()]
    if VERSION < (1, 19):  # onnx stored bfloat16 as its bits
        for i, value in enumerate(declared[: len(arrays)]):
            if value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 and arrays[i].dtype == np.uint16:
                arrays[i] = arrays[i].view(numpy_dtype("bfloat16"))
    return arrays


def _read(path: Path, kind: Any) -> Any:
    """Return the content of a test's file: a tensor, a sequence, or an optional value."""
    data = path.read_bytes()
    if kind.WhichOneof("value") == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.WhichOneof("value") == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return _array(onnx.TensorProto.FromString(data))


@cache
def cases() -> tuple[NodeCase, ...]:
    """Return all tests that ship with the installed ``onnx``."""
    found = []
    for kind in KINDS:
        found += [
            _case(path.parent.name, kind, onnx.ModelProto.FromString(path.read_bytes()))
            for path in sorted((FOLDER / kind).glob("*/model.onnx"))
        ]
    if not (FOLDER / "node").exists():
        found += _made_cases()
    return tuple(found)


def _made_cases() -> list[NodeCase]:
    """Return the node tests of onnx 1.23 and later, which ships the programs that make them instead of files."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = sorted(collect_testcases(None), key=lambda each: each.name)
    return [_case(each.name, "node", each.model, each.data_sets) for each in made]


def _case(
    name: str, kind: str, model: Any, data_sets: Sequence[tuple[Sequence[Any], Sequence[Any]]] | None = None
) -> NodeCase:
    """Return a test; convert one of an older opset to the oldest one supported, if the meaning is the same."""
    operators = tuple(sorted({_operator(node) for node in _nodes(model.graph)}))
    restamped = older = False
    for item in model.opset_import:
        if item.domain in ("", "ai.onnx") and item.version not in OPSETS:
            if all(_unchanged(node, item.version) for node in _nodes(model.graph)):
                item.version = OPSETS.start
                restamped = True
            else:
                older = True
    return NodeCase(name, kind, model, operators, restamped, older, data_sets)


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _nodes(inner)


def _operator(node: Any) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def _unchanged(node: Any, version: int) -> bool:
    """Return whether an operator has the same attributes, inputs and outputs in the oldest opset supported."""
    if node.domain not in ("", "ai.onnx"):
        return True
    try:
        was = onnx.defs.get_schema(node.op_type, version, "")
        became = onnx.defs.get_schema(node.op_type, OPSETS.start, "")
    except onnx.defs.SchemaError:
        return False
    if became.deprecated:
        return False

    def form(schema: Any) -> Any:
        return (
            {
                name: (int(a.type), a.required, a.default_value.SerializeToString())
                for name, a in schema.attributes.items()
            },
            [(value.name, value.option) for value in schema.inputs],
            [(value.name, value.option) for value in schema.outputs],
        )

    return bool(form(was) == form(became))


#: Reasons for tests out of scope: inputs, outputs or nodes.
OTHER_TYPES = {14: "complex numbers", 15: "complex numbers", 24: "float8e8m0"}
#: Operators whose results are random.
RANDOM = frozenset(
    {"Bernoulli", "RandomUniformLike", "RandomNormalLike", "RandomUniform", "RandomNormal", "Multinomial"}
)


#: Tests whose expected results were wrong until a release of onnx: ONNX Runtime agrees with the corrected results,
#: also for the inputs of the older ones.
CORRECTED = {
    (1, 19): re.compile(r"test_attention_(3d|4d_gqa)\w*(?<!_expanded)|test_cast_FLOAT(16)?_to_(U?INT4|FLOAT4E2M1)"),
    (1, 22): re.compile(
        r"test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True|test_l2normalization_axis_0|"
        r"test_adam_multiple|"
        r"test_qlinearmatmul_[23]D_int8_float(16|32)|"
        r"test_attention_[34]d(_with_past_and_present|_with)_qk_matmul_(bias|softcap)\w*(?<!_expanded)"
    ),
}
VERSION = tuple(int(part) for part in onnx.__version__.split(".")[:2])


def out_of_scope(case: NodeCase) -> str | None:
    """Return why a test is out of scope, or None if it is not."""
    if any(release > VERSION and names.fullmatch(case.name) for release, names in CORRECTED.items()):
        return "expected results that later versions of onnx correct"
    if case.older:
        return "forms of operators from before opset 7"
    if "Scan" in case.operators and any(i.domain == "" and i.version < 9 for i in case.model.opset_import):
        return "Scan as it was before opset 9"
    for operator in case.operators:
        if operator.startswith("ai.onnx.preview::"):
            return "preview of operators to come"
        if operator in RANDOM:
            return "random results"
    for value in (*case.model.graph.input, *case.model.graph.output):
        if value.type.tensor_type.elem_type in OTHER_TYPES:
            return OTHER_TYPES[value.type.tensor_type.elem_type]
    for node in _nodes(case.model.graph):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type in OTHER_TYPES:
                return OTHER_TYPES[attribute.t.data_type]
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i in OTHER_TYPES:
                return OTHER_TYPES[attribute.i]
    if case.name.startswith("test_training_dropout") and "zero_ratio" not in case.name:
        return "random results"
    return None


def prepared(case: NodeCase, given: Mapping[str, Any]) -> tuple[CallValues, Network]:
    """Return the inputs of a test's network, and the network; inputs that determine shapes are made constants.

    Raises
    ------
    ModelError
        If it cannot be imported.
    """
    model = read_model(case.model)
    values = CallInputs(OnnxModel(model), ()).values((given,), {})
    shapes = {name: value.shape for name, value in values.items()}
    known: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(8):
            try:
                rest = {name: shape for name, shape in shapes.items() if name not in known}
                return values, import_model(model, rest, known=known)
            except ValueNeededError as error:
                if not error.inputs or all(name in known for name in error.inputs):
                    raise
                known.update({name: values[name] for name in error.inputs})
    raise ModelError("its inputs cannot be known", where=case.name)


def named(case: NodeCase, arrays: Sequence[Any]) -> dict[str, Any]:
    """Return a data set's inputs by name."""
    initialised = {tensor.name for tensor in case.model.graph.initializer}
    names = [value.name for value in case.model.graph.input]
    free = [name for name in names if name not in initialised]
    chosen = names if len(arrays) == len(names) else free
    return {name: array for name, array in zip(chosen, arrays, strict=False) if name not in initialised}


def differences(got: Any, want: Any) -> str | None:
    """Return the difference between a result and the expected one, or None."""
    if isinstance(want, list):
        pairs = zip(got, want, strict=True)
        return next((found for one, other in pairs if (found := differences(one, other)) is not None), None)
    if want is None or got is None:
        return None if want is got else f"{got}, expected {want}"
    got, want = np.asarray(got), np.asarray(want)
    if want.dtype.kind in "OU":
        return None if got.tolist() == want.tolist() and got.shape == want.shape else f"{got!r}, expected {want!r}"
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
    if want.dtype.kind in "iub":
        wrong = int((got != want).sum())
        return f"{wrong} of {want.size} elements differ" if wrong else None
    relative, absolute = TOLERANCES.get(want.dtype.name, (0.0, 0.0))
    if is_narrow(want.dtype.name):
        got, want = got.astype(np.float32), want.astype(np.float32)
    close = np.isclose(got, want, rtol=relative, atol=absolute, equal_nan=True)
    if close.all():
        return None
    with np.errstate(all="ignore"):
        worst = np.nanmax(np.abs(got.astype(np.float64) - want.astype(np.float64)))
    return f"{int((~close).sum())} of {want.size} elements differ, by up to {worst:.3g}"
