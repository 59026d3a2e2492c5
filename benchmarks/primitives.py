# SPDX-License-Identifier: Apache-2.0
"""Single operations of neural networks: oneDNN on a SYCL queue, OpenCL C kernels, and ONNX Runtime's CPU provider.

    python benchmarks/primitives.py [--only conv matmul] [--repeats 5]

All in one run, alternating, on the same cores; the best of the repeats of a chain of submissions, in microseconds each.
ONNX Runtime gets its native layout, channels first, and runs one node of the operator. The last column is
the time to submit oneDNN's primitive from compiled code.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import parser

from syclsched.oneapi.dpctl_interface import usm_arrays

#: Enough to hide the cost of a wait, few enough not to pile up host tasks.
CHAIN = 40
REST_S = 0.05
KINDS = ("onednn", "opencl-c", "opencl-c-winograd")


def conv(c: int, size: int, o: int, k: int, s: int = 1, p: int = 0, g: int = 1, d: int = 1) -> dict[str, Any]:
    """Return a convolution of an image, channels last, and the same as an ONNX node, channels first."""
    from syclsched.kernels import nn

    out = (size + 2 * p - d * (k - 1) - 1) // s + 1
    return {
        "operation": nn.conv(2, (s, s), (p,) * 4, (d, d), g, True, (("relu",),), True),
        "arrays": {"y": (1, out, out, o), "x": (1, size, size, c), "w": (o, c // g, k, k), "b": (o,)},
        "constants": ("w", "b"),
        "node": ("Conv", {"strides": [s, s], "pads": [p] * 4, "group": g, "dilations": [d, d]}),
        "first": (1, c, size, size),
    }


def matmul(m: int, k: int, n: int, batch: tuple[int, ...] = (), constant: bool = True) -> dict[str, Any]:
    """Return a product, its b constant or not."""
    from syclsched.kernels import nn

    return {
        "operation": nn.matmul(),
        "arrays": {"y": (*batch, m, n), "a": (*batch, m, k), "b": (*batch, k, n) if not constant else (k, n)},
        "constants": ("b",) if constant else (),
        "node": ("MatMul", {}),
        "first": (*batch, m, k),
    }


def pool(mode: str, c: int, size: int, k: int, s: int, p: int) -> dict[str, Any]:
    """Return a pooling of an image, channels last."""
    from syclsched.kernels import nn

    out = (size + 2 * p - k) // s + 1
    node = "MaxPool" if mode == "max" else "AveragePool"
    return {
        "operation": nn.pool(mode, (k, k), (s, s), (p,) * 4, channels_last=True),
        "arrays": {"y": (1, out, out, c), "x": (1, size, size, c)},
        "node": (node, {"strides": [s, s], "pads": [p] * 4, "kernel_shape": [k, k]}),
        "first": (1, c, size, size),
    }


def training(c: int, size: int, o: int, s: int = 1, batch: int = 16) -> dict[str, dict[str, Any]]:
    """Return a 3x3 convolution with variable weights, and its gradients by data and by weights, channels last."""
    from syclsched.kernels import nn
    from syclsched.kernels.nn.gradients.conv_weights import conv_weights

    out, w = (size - 1) // s + 1, (o, c, 3, 3)
    window, x, y = ((s, s), (1,) * 4), (batch, size, size, c), (batch, out, out, o)
    back = nn.conv_transpose(2, *window, channels_last=True, output_padding=((size - 1) % s,) * 2)
    forward = {"operation": nn.conv(2, *window, channels_last=True), "arrays": {"y": y, "x": x, "w": w}}
    forward |= {"node": ("Conv", {"strides": [s, s], "pads": [1] * 4}), "first": (batch, c, size, size)}
    name = f"3x3{f'/{s}' if s > 1 else ''} {c}-{o} @{size}"
    return {
        f"train {name}": forward,
        f"train {name} by data": {"operation": back, "arrays": {"y": x, "x": y, "w": w}},
        f"train {name} by weights": {
            "operation": conv_weights(2, *window, channels_last=True),
            "arrays": {"y": w, "x": x, "dy": y},
        },
    }


def pool_gradient(mode: str, c: int, size: int, k: int, s: int, p: int, batch: int = 16) -> dict[str, Any]:
    """Return the gradient of a pooling, channels last."""
    from syclsched.kernels.nn.gradients import pool_gradient

    out, x = (size + 2 * p - k) // s + 1, (batch, size, size, c)
    operation = pool_gradient.pool_gradient(mode, (k, k), (s, s), (p,) * 4, channels_last=True)
    return {"operation": operation, "arrays": {"y": x, "x": x, "dy": (batch, out, out, c)}}


def same(operation: Any, shape: tuple[int, ...], node: str, attributes: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """Return an operation that keeps the shape."""
    channels_last = extra.pop("first", None)
    return {
        "operation": operation,
        "arrays": {"y": shape, "x": shape, **extra},
        "constants": tuple(extra),
        "node": (node, attributes),
        "first": channels_last or shape,
    }


def cases() -> dict[str, dict[str, Any]]:
    """Return the measured operations by name."""
    from syclsched.kernels import nn
    from syclsched.kernels.tensor.concat import concat
    from syclsched.kernels.tensor.transpose import transpose

    image = (1, 55, 55, 96)
    return {
        "conv 7x7/2 3-64 @224": conv(3, 224, 64, 7, 2, 3),
        "conv 11x11/4 3-96 @224": conv(3, 224, 96, 11, 4, 2),
        "conv 3x3 64-64 @56": conv(64, 56, 64, 3, 1, 1),
        "conv 3x3 128-128 @28": conv(128, 28, 128, 3, 1, 1),
        "conv 3x3 128-128 @56": conv(128, 56, 128, 3, 1, 1),
        "conv 3x3 48-192 @27": conv(48, 27, 192, 3, 1, 1),
        "conv 3x3 256-256 @14": conv(256, 14, 256, 3, 1, 1),
        "conv 3x3/2 64-64 @56": conv(64, 56, 64, 3, 2, 1),
        "conv 3x3/2 128-128 @56": conv(128, 56, 128, 3, 2, 1),
        "conv 3x3/2 256-256 @28": conv(256, 28, 256, 3, 2, 1),
        "conv 1x1 64-256 @56": conv(64, 56, 256, 1),
        "conv 1x1 256-64 @56": conv(256, 56, 64, 1),
        "conv 1x1 512-128 @28": conv(512, 28, 128, 1),
        "conv 1x1 1024-256 @14": conv(1024, 14, 256, 1),
        "conv 1x1 512-2048 @7": conv(512, 7, 2048, 1),
        "conv 3x3 512-512 @7": conv(512, 7, 512, 3, 1, 1),
        "conv 3x3 groups 2 256 @13": conv(256, 13, 384, 3, 1, 1, 2),
        "conv 3x3 dilated 128 @28": conv(128, 28, 128, 3, 1, 2, 1, 2),
        "conv 3x3 depthwise 136 @28": conv(136, 28, 136, 3, 1, 1, 136),
        "conv 1x1 groups 4 272 @28": conv(272, 28, 272, 1, g=4),
        "matmul 1024": matmul(1024, 1024, 1024),
        "matmul 128x768x768": matmul(128, 768, 768),
        "matmul 128x768x3072": matmul(128, 768, 3072),
        "matmul 197x192x576": matmul(197, 192, 576),
        "matmul 128x3072x768": matmul(128, 3072, 768),
        "matmul 12x128x64x128": matmul(128, 64, 128, (12,), constant=False),
        "matmul 1x4096x4096": matmul(1, 4096, 4096),
        "max pool 3x3/2 64 @112": pool("max", 64, 112, 3, 2, 1),
        "average pool 7x7 2048 @7": pool("average", 2048, 7, 7, 1, 0),
        "lrn 5 96 @55": same(nn.lrn(1e-4, 0.75, 1.0, 5, True), image, "LRN", {"size": 5}, first=(1, 96, 55, 55)),
        "softmax 12x128x128": same(nn.softmax_over(2), (12, 128, 128), "Softmax", {"axis": -1}),
        "layer norm 128x768": same(
            nn.layer_norm(-1, 1e-5, True), (128, 768), "LayerNormalization", {"axis": -1}, scale=(768,), b=(768,)
        ),
        "batch norm 256 @28": same(
            nn.batch_norm(1e-5, True), (1, 28, 28, 256), "BatchNormalization", {},
            scale=(256,), bias=(256,), mean=(256,), variance=(256,), first=(1, 256, 28, 28),
        ),
        "concat 64+32 @56": {
            "operation": concat(3, 2),
            "arrays": {"y": (1, 56, 56, 96), "x0": (1, 56, 56, 64), "x1": (1, 56, 56, 32)},
        },
        "concat 256+256 @28": {
            "operation": concat(3, 2),
            "arrays": {"y": (1, 28, 28, 512), "x0": (1, 28, 28, 256), "x1": (1, 28, 28, 256)},
        },
        "transpose nchw-nhwc 64 @56": {
            "operation": transpose((0, 2, 3, 1)),
            "arrays": {"y": (1, 56, 56, 64), "x": (1, 64, 56, 56)},
        },
        "transpose shuffle 4x68 @28": {
            "operation": transpose((0, 1, 2, 4, 3)),
            "arrays": {"y": (1, 28, 28, 68, 4), "x": (1, 28, 28, 4, 68)},
        },
        "transpose heads 128x12x64": {
            "operation": transpose((0, 2, 1, 3)),
            "arrays": {"y": (1, 12, 128, 64), "x": (1, 128, 12, 64)},
        },
        **training(3, 32, 32),
        **training(32, 32, 32),
        **training(64, 16, 64),
        **training(64, 16, 128, 2),
        **training(128, 8, 128),
        "train max pool 2x2/2 32 @32": pool_gradient("max", 32, 32, 2, 2, 0),
        "train max pool 3x3/2 64 @32": pool_gradient("max", 64, 32, 3, 2, 1),
        "train average 2x2/2 32 @32": pool_gradient("average", 32, 32, 2, 2, 0),
    }  # fmt: skip


def values(case: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return seeded arrays."""
    random = np.random.default_rng(0)
    return {name: np.abs(random.standard_normal(shape)).astype("float32") for name, shape in case["arrays"].items()}


def submitters(case: dict[str, Any], queue: Any) -> tuple[dict[str, Callable[[], Any]], str, float]:
    """Return the submission of each implementation, oneDNN's name for its own, and the operations of one."""
    dpt = usm_arrays()

    from syclsched.devices.programs.task_compiler import compile_task
    from syclsched.kernels.onednn.calls import implementation_of
    from syclsched.model.operation import DeviceLimits, Signature

    operation, arrays, constants = case["operation"], values(case), case.get("constants", ())
    signature = Signature(
        {n: a.shape for n, a in arrays.items()}, dict.fromkeys(arrays, "float32"), {}, frozenset(constants)
    )
    device = queue.sycl_device
    limits = DeviceLimits(device.max_work_group_size, device.max_compute_units, device.local_mem_size)
    found: dict[str, Callable[[], Any]] = {}
    name = ""
    for kind in KINDS:
        if kind not in [each.name for each in operation.implementations]:
            continue
        implementation = operation.implementation(kind)
        refuses = implementation.requires.refuses
        if kind == "opencl-c-winograd" and refuses is not None and refuses(signature) is not None:
            continue
        usm = {n: dpt.asarray(a, sycl_queue=queue) for n, a in arrays.items()}
        if implementation.prepare is not None and constants:
            made = implementation.prepare(signature, queue, {n: arrays[n] for n in constants})
            usm.update({n: dpt.asarray(a, sycl_queue=queue) for n, a in made.items()})
        queue.wait()
        if kind == "onednn":
            loaded = implementation.load(signature)
            name = implementation_of(queue, loaded.request)
            made = loaded.native(queue, usm)
            calls = made if isinstance(made, tuple) else (made,)
            word = ctypes.c_size_t
            steps = [(ctypes.CFUNCTYPE(ctypes.c_int32, *[word] * len(c.arguments))(c.function), c) for c in calls]
            found[kind] = lambda steps=steps, keep=usm: [function(*call.arguments) for function, call in steps]
        else:
            bound = compile_task(operation, implementation, signature, queue, limits).bind(usm)
            found[kind] = lambda b=bound: b.submit(queue, [])
    return found, name, operation.work(signature).flops


def onnx_runtime(case: dict[str, Any]) -> Callable[[], Any] | None:
    """Return a run of ONNX Runtime on the operator alone, or None if it has none to compare with."""
    if "node" not in case:
        return None
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    kind, attributes = case["node"]
    arrays, constants = values(case), case.get("constants", ())
    data = next(n for n in ("x", "a") if n in arrays)
    inputs = [data, *(n for n in arrays if n not in ("y", data))]
    float32 = onnx.TensorProto.FLOAT
    shapes = {data: case["first"], **{n: arrays[n].shape for n in inputs[1:]}}
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, ["y"], **attributes)],
        "one",
        [helper.make_tensor_value_info(n, float32, shapes[n]) for n in inputs if n not in constants],
        [helper.make_tensor_value_info("y", float32, None)],
        [numpy_helper.from_array(arrays[n], n) for n in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {n: np.ascontiguousarray(arrays[n].reshape(shapes[n])) for n in inputs if n not in constants}
    return lambda: session.run(None, feeds)


def per_call(submit: Callable[[], Any], wait: Callable[[], Any], count: int) -> tuple[float, float]:
    """Return seconds of one operation of a chain, and seconds of submitting one."""
    # The threads of the previous runner may still be looking for work on the cores.
    time.sleep(REST_S)
    for _ in range(3):
        submit()
    wait()
    start = time.perf_counter()
    for _ in range(count):
        submit()
    submitted = time.perf_counter()
    wait()
    return (time.perf_counter() - start) / count, (submitted - start) / count


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, repeats=5)
    options.add_argument("--only", nargs="*", default=[], help="parts of names")
    arguments = options.parse_args()
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    queue = dpctl.SyclQueue("opencl:cpu", property="in_order")
    columns = ("oneDNN us", "GFLOP/s", "OpenCL C us", "minimal us", "ONNX RT us", "submit us")
    print(f"{'operation':31s}" + "".join(f"{each:>12s}" for each in columns) + "  implementation")
    for name, case in cases().items():
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        ours, implementation, flops = submitters(case, queue)
        theirs = onnx_runtime(case)
        best: dict[str, list[float]] = {}
        for _ in range(arguments.repeats + 1):
            for kind, submit in ours.items():
                seconds, submitting = per_call(submit, queue.wait, CHAIN)
                found = best.setdefault(kind, [seconds, submitting])
                best[kind] = [min(found[0], seconds), min(found[1], submitting)]
            if theirs is not None:
                seconds, _ = per_call(theirs, lambda: None, CHAIN)
                best["rival"] = [min(best.get("rival", [seconds])[0], seconds)]

        def shown(kind: str, index: int = 0, best: dict[str, list[float]] = best) -> str:
            return f"{best[kind][index] * 1e6:12.1f}" if kind in best else f"{'-':>12s}"

        rate = flops / best["onednn" if "onednn" in best else "opencl-c"][0] / 1e9
        cells = (shown("onednn"), f"{rate:12.0f}", *map(shown, KINDS[1:]), shown("rival"), shown("onednn", 1))
        print(f"{name:31s}{''.join(cells)}  {implementation}", flush=True)


if __name__ == "__main__":
    main()
