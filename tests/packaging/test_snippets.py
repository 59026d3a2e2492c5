# SPDX-License-Identifier: Apache-2.0
"""The Python of README and pages, run word for word, with what a reader would have at hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import syclsched

pytestmark = pytest.mark.sycl
ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
SNIPPETS = [
    pytest.param(page, source, id=f"{page}-{number}")
    for page in PAGES
    for number, source in enumerate(
        re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
]
ROWS = np.ones((200, 64), np.float32)


class AtHand(dict[str, Any]):
    """Names of a page's snippet; what it does not define is made when it is asked for."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.made = {**MADE, **OTHERWISE.get(page, {})}

    def __missing__(self, name: str) -> Any:
        self[name] = self.made[name](self)
        return self[name]


def _graph(_: AtHand) -> Any:
    from syclsched.kernels import get

    graph = syclsched.TaskGraph("at hand")
    x, y = graph.array("x", data=ROWS), graph.array("y", ROWS.shape, "float32")
    graph.kernel(get("copy"), name="gemm_3_2", y=y, x=x)
    graph.kernel(get("scale"), x=y, alpha=2.0)
    return graph


def _operation(*names: str) -> dict[str, Any]:
    """Return what an operation has that writes y, for graphs that are not run."""
    from syclsched.model.access import AccessMode
    from syclsched.model.operation import Implementation, Parameter, Work

    modes = [AccessMode.WRITE if name == "y" else AccessMode.READ for name in names]
    return {
        "name": "any",
        "parameters": tuple(Parameter(name, mode) for name, mode in zip(names, modes, strict=True)),
        "implementations": (Implementation("numpy", "host", lambda _: lambda **arrays: None),),
        "work": lambda signature: Work(1.0, 1.0),
    }


def _kernel(*names: str) -> Callable[[AtHand], Any]:
    from syclsched.model.operation import Operation

    return lambda _: Operation(**_operation(*names))


def _network(_: AtHand) -> Any:
    from syclsched.frontends.onnx.importing import import_model
    from syclsched.frontends.onnx.model_file.model_reader import read_model

    return import_model(read_model("resnet50.onnx"))


def _operation_left_out(_: AtHand) -> Any:
    """Return `Operation` that takes "..." for most of what it needs."""
    from syclsched.model.operation import Operation

    return lambda _, **more: Operation(**_operation("y", "x"), **more)


def _gemm(_: AtHand) -> Any:
    from syclsched.kernels import get

    return SimpleNamespace(gemm=get("gemm"))


#: What a snippet may take as there.
MADE: dict[str, Callable[[AtHand], Any]] = {
    "syclsched": lambda _: syclsched,
    "ss": lambda _: syclsched,
    "TaskGraph": lambda _: syclsched.TaskGraph,
    "Operation": _operation_left_out,
    "graph": _graph,
    "network": _network,
    "platform": lambda _: syclsched.discover("cpu"),
    "plan": lambda names: syclsched.plan(names["graph"], names["platform"]),
    "runner": lambda names: syclsched.bind(names["graph"], plan=names["plan"]),
    "run": lambda names: syclsched.run(names["graph"], names["platform"]),
    "inputs": lambda _: {"x": ROWS},
    "image": lambda _: np.ones((1, 3, 8, 8), np.float32),
    "frames": lambda names: [names["image"]] * 3,
    "classify": lambda _: syclsched.compile("resnet50.onnx", devices="cpu"),
    "camera": lambda _: [ROWS] * 3,
    "batches": lambda _: [{"x": ROWS}] * 3,
    "source": lambda _: [SimpleNamespace(read_into=lambda x: x.fill(1))] * 3,
    "value": lambda _: ROWS,
    "values": lambda _: ROWS,
    "show": lambda _: lambda result: None,
    "check": lambda _: lambda **arrays: None,
    "fetch": lambda _: lambda y: None,
    "SQUARE": _kernel("y", "x"),
    "SMOOTH": _kernel("y", "x"),
    "CONV": _kernel("y", "x", "w"),
    "ops": _gemm,
    **{name: lambda names, name=name: names["graph"].array(name, (1, 8, 8, 3), "float32") for name in "xy"},
    **{name: lambda names, name=name: names["graph"].array(name, data=np.eye(8)) for name in "abc"},
}

#: Instead of it, on some pages.
OTHERWISE: dict[str, dict[str, Callable[[AtHand], Any]]] = {
    "docs/explanation/concepts.md": {"graph": lambda _: syclsched.TaskGraph("rows")},
    "docs/how-to/debugging.md": {
        "graph": lambda _: syclsched.TaskGraph("products"),
        "run": lambda names: syclsched.run(_graph(names), names["platform"]),
    },
    "docs/explanation/failures.md": {"y": lambda names: names["graph"].array("z", (8,))},
    "docs/reference/kernels.md": {
        "graph": lambda _: syclsched.TaskGraph("layers"),
        "y": lambda names: names["graph"].array("y", (1, 4, 4, 5), "float32"),
        "weights": lambda _: np.ones((5, 3, 3, 3), np.float32),
        "bias": lambda _: np.ones(5, np.float32),
    },
    "docs/explanation/memory.md": {"graph": lambda _: syclsched.TaskGraph("filled")},
    "docs/explanation/objectives.md": {"platform": lambda _: syclsched.describe(["cpu", "max1550"])},
    "docs/explanation/replay.md": {"batches": lambda _: [ROWS] * 3},
}


def _write_files(folder: Path) -> None:
    import json

    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Conv", ["image", "w"], ["a"]),
        helper.make_node("GlobalAveragePool", ["a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["c"]),
        helper.make_node("Softmax", ["c"], ["probabilities"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 8, 8])
    found = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 4])
    weights = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    words = helper.make_tensor_value_info("words", TensorProto.FLOAT, ["batch", "sequence"])
    means = helper.make_tensor_value_info("means", TensorProto.FLOAT, ["batch", "sequence"])
    for name, graph in {
        "resnet50": helper.make_graph(nodes, "resnet50", [image], [found], [weights]),
        "encoder": helper.make_graph([helper.make_node("Softmax", ["words"], ["means"])], "encoder", [words], [means]),
    }.items():
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    tasks = [{"name": "one", "id": "one", "parents": [], "children": [], "inputFiles": [], "outputFiles": []}]
    done = {
        "makespanInSeconds": 1,
        "executedAt": "2024-01-01T00:00:00Z",
        "tasks": [{"id": "one", "runtimeInSeconds": 1}],
    }
    workflow = {"specification": {"tasks": tasks, "files": []}, "execution": done}
    document = {"name": "one", "schemaVersion": "1.5", "workflow": workflow}
    (folder / "workflow.json").write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize(("page", "source"), SNIPPETS)
def test_it_runs_as_it_stands(page: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    if re.search(r"^\.\.\.$", source, re.MULTILINE):
        pytest.skip("tasks of the reader's are left out")
    _write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = AtHand(page)
    file = tmp_path / f"{Path(page).stem}.py"  # operations are made from the source of functions
    file.write_text(source, encoding="utf-8")
    exec(compile(source, str(file), "exec"), {}, names)


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) > 20
