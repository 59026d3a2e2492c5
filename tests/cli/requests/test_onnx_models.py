# SPDX-License-Identifier: Apache-2.0
"""ONNX models on the command line: run, compare, export and plan; errors that name the mistake."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from support.commands import call
from support.onednn_calls import needs_onednn

from syclsched.cli.requests.onnx_models import write_outputs
from syclsched.errors import StorageError
from syclsched.onnx.tuning import autotune, kernel_selection

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

MODEL = Path(__file__).parents[3] / "examples" / "data" / "digits.onnx"


@pytest.mark.sycl
def test_run_writes_the_results_for_an_input_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    image = np.random.default_rng(0).random((1, 1, 8, 8), dtype=np.float32)
    np.save(tmp_path / "image.npy", image)
    out = tmp_path / "found.npz"
    done = call(
        capsys, "run", MODEL, "--input", tmp_path / "image.npy", "--devices", "cpu", "--no-calibrate", "--top", 3,
        "--output", out, "--compare", "onnxruntime",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "right, largest difference from ONNX Runtime" in " ".join(done.out.split())
    assert "Best of probabilities" in " ".join(done.out.split()) and "Conv 'conv1'" in done.out
    with np.load(out) as found:
        assert found["probabilities"].shape == (1, 10)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_outputs_that_do_not_fit_on_the_disk_are_refused() -> None:
    with pytest.raises(StorageError, match="No space left"):
        write_outputs(Path("/dev/full"), {"y": np.zeros(100_000)})
    gc.collect()  # a half-written file must not cause a second error


@pytest.mark.sycl
@pytest.mark.parametrize("wrong", [b"\x93NUMPY", b"\x00\x01", b"\xe9t\xe9"], ids=["array", "zero", "latin-1"])
def test_labels_in_a_file_that_is_not_text_are_refused(
    wrong: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_bytes(b"cat\n" + wrong)
    done = call(capsys, "run", MODEL, "--shape", "batch=1", "--devices", "cpu", "--top", 3, "--labels", labels)
    assert done.code == 2
    assert f"byte 0x{wrong[0]:02x} is not UTF-8 text where: {labels}, line 2" in " ".join(done.err.split())


@pytest.mark.sycl
def test_an_empty_batch_runs(capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "run", MODEL, "--shape", "batch=0", "--devices", "cpu")
    assert done.code == 0, done.err
    assert "not timed" not in done.out
    assert "0 x 10" in done.out


@pytest.mark.sycl
@pytest.mark.parametrize("sizes", ["4", "1,8", "powers"])
def test_a_batch_runs_in_the_plan_of_its_bucket(sizes: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "found.npz"
    done = call(
        capsys, "run", MODEL, "--shape", "batch=3", "--bucket", f"batch={sizes}", "--devices", "cpu",
        "--no-calibrate", "--output", out, "--compare", "onnxruntime",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "right, largest difference from ONNX Runtime" in " ".join(done.out.split())
    with np.load(out) as found:
        assert found["probabilities"].shape == (3, 10)


@pytest.mark.sycl
@pytest.mark.parametrize(("scheme", "most"), [("static", "0.1"), ("dynamic", "0.1"), ("none", "0.001")])
def test_a_model_with_values_of_8_bits_may_differ_by_a_step(
    scheme: str, most: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    first = {
        "static": helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        "dynamic": helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
    }
    nodes = (
        [first[scheme], helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"])] if scheme in first else []
    )
    nodes.append(helper.make_node("MatMul", ["d" if nodes else "x", "w"], ["y"]))
    constants = {"w": np.ones((4, 2), np.float32)}
    if scheme == "static":
        constants |= {"scale": np.array(0.02, np.float32), "zero": np.array(0, np.int8)}
    graph = helper.make_graph(
        nodes,
        "steps",
        [helper.make_tensor_value_info("x", float32, [3, 4])],
        [helper.make_tensor_value_info("y", float32, [3, 2])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "steps.onnx")
    done = call(
        capsys, "run", tmp_path / "steps.onnx", "--devices", "cpu", "--no-calibrate", "--compare", "onnxruntime"
    )
    assert done.code == 0, done.err
    assert f"at most {most}" in " ".join(done.out.split())


@pytest.mark.sycl
def test_excluded_implementations_are_not_planned(capsys: pytest.CaptureFixture[str]) -> None:
    done = call(
        capsys, "plan", MODEL, "--shape", "batch=1", "--devices", "cpu", "--no-calibrate", "--without", "onednn"
    )
    assert done.code == 0, done.err
    assert "opencl-c" in done.out and "onednn" not in done.out
    done = call(capsys, "plan", "cholesky", "--platform", "cpu", "--without", "onednn")
    assert done.code == 2 and "only ONNX models" in done.err


@needs_onednn
@pytest.mark.sycl
def test_faster_kernels_replace_the_library_in_a_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_selection, "read_times", lambda: None)
    monkeypatch.setattr(autotune, "select_kernels", lambda order, *_: frozenset(order))
    monkeypatch.setattr(autotune, "saved_share", lambda *_: 1.0)
    monkeypatch.setattr(autotune, "is_known_faster", lambda *_: None)
    monkeypatch.setattr(autotune, "measure_is_faster", lambda device, history, mixed, measure, *_: bool(measure()))
    done = call(capsys, "run", MODEL, "--shape", "batch=1", "--devices", "cpu", "--compare", "onnxruntime")
    assert done.code == 0, done.err
    assert "right, largest difference" in " ".join(done.out.split())
    assert "opencl-c" in done.out or "python" in done.out
    assert "onednn" not in done.out


def test_plan_estimates_the_gain_of_further_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "plan", MODEL, "--shape", "batch=64", "--platform", "cpu,max1550")
    assert done.code == 0, done.err
    assert "On cpu alone a run takes" in done.out and "with max1550" in done.out
    assert "host does" not in done.out  # running the model writes none either


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "open: batch"),
        (("--shape", "rows=1"), "no open dimension 'rows'"),
        (("--shape", "batch=1", "--bucket", "rows=8"), "no open dimension 'rows'"),
        (("--shape", "batch=1", "--bucket", "batch=few"), "is no bucket"),
        ((), "--shape batch=1"),
        (("--shape", "batch=100000000000"), "bytes of memory"),
        (("--shape", "batch=a"), "is not a shape"),
        (("--shape", "batch=1x3"), "'1x3' is no extent of the dimension 'batch'"),
        (("--shape", "batch=1", "--shape", "batch=2"), "two values are given for 'batch'"),
        (("--input", "image=one.npy", "--input", "one.npy"), "two values are given for 'image'"),
        (("--input", "one.npy", "--input", "one.npy"), "the model has 1 input, and more"),
        (("--shape", "image=1x1x8x7"), "the model wants"),
        (("--input", "picture=random"), "no input 'picture'"),
        (("--input", "nothing.npy"), "cannot read"),
        (("--n", "3"), "--n does not belong to"),
        (("--shape", "batch=1", "--compare", "rival"), "unknown runtime"),
        (("--shape", "batch=1", "--output", "found.txt"), ".npz"),
        (("--shape", "batch=1", "--without", "onedn"), "Did you mean 'onednn'"),
    ],
)
def test_mistakes_are_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("one.npy", np.ones((1, 1, 8, 8), np.float32))
    done = call(capsys, "run", MODEL, *arguments, "--devices", "cpu")
    assert done.code == 2, done
    assert said in " ".join(done.err.split())


def test_a_damaged_model_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "half.onnx").write_bytes(MODEL.read_bytes()[:60_000])
    done = call(capsys, "plan", tmp_path / "half.onnx", "--platform", "cpu")
    assert done.code == 2, done
    assert "half.onnx" in done.err and "Traceback" not in done.err


def text_model(path: Path) -> Path:
    """Write a model of a column of text, a sequence and an optional value; return its file."""
    from onnx import TensorProto, helper

    node = helper.make_node
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    graph = helper.make_graph(
        [
            node("OneHotEncoder", ["city"], ["hot"], cats_strings=["Bern", "Oslo"], domain="ai.onnx.ml"),
            node("ConcatFromSequence", ["parts"], ["w"], axis=0),
            node("MatMul", ["hot", "w"], ["y"]),
            node("OptionalHasElement", ["o"], ["has"]),
            node("StringConcat", ["city", "city"], ["twice"]),
        ],
        "text",
        [
            helper.make_tensor_value_info("city", TensorProto.STRING, ["n"]),
            helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, [1, 3]),
            helper.make_value_info("o", kind),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("has", TensorProto.BOOL, []),
            helper.make_tensor_value_info("twice", TensorProto.STRING, None),
            helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, [1, 3]),
        ],
    )
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), path)
    return path


@pytest.mark.sycl
def test_text_and_sequences_are_given_by_files_and_shapes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model, out = text_model(tmp_path / "text.onnx"), tmp_path / "found.npz"
    np.save(tmp_path / "city.npy", np.array(["Oslo", "Bern", "?"]))
    parts = ["--shape", "parts[1]=1x3", "--input", f"parts[0]={tmp_path / 'row.npy'}"]
    np.save(tmp_path / "row.npy", np.ones((1, 3), np.float32))
    done = call(
        capsys, "run", model, "--input", f"city={tmp_path / 'city.npy'}", *parts, "--devices", "cpu", "--no-calibrate",
        "--output", out, "--compare", "onnxruntime",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "right, largest difference from ONNX Runtime" in " ".join(done.out.split())
    with np.load(out) as found:
        assert found["twice"].tolist() == ["OsloOslo", "BernBern", "??"]
        assert found["y"][1].tolist() == [1, 1, 1] and found["parts[1]"].shape == (1, 3)
    done = call(capsys, "plan", model, *parts, "--shape", "n=5", "--devices", "cpu", "--no-calibrate")
    assert done.code == 0, done.err
    assert "MatMul" in done.out


@pytest.mark.sycl
def test_missing_inputs_of_a_text_model_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = text_model(tmp_path / "text.onnx")
    done = call(capsys, "plan", model, "--shape", "n=5", "--shape", "part[0]=1x3", "--devices", "cpu")
    assert done.code != 0 and "no input and no open dimension 'part[0]'" in " ".join(done.err.split())
    np.save(tmp_path / "city.npy", np.ones(3))
    done = call(capsys, "run", model, "--input", tmp_path / "city.npy", "--shape", "parts[0]=1x3", "--devices", "cpu")
    assert done.code != 0 and "takes text" in " ".join(done.err.split())
