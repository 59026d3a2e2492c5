# SPDX-License-Identifier: Apache-2.0
"""Latency of whole models compared with ONNX Runtime's CPU provider, alternating in one process, on the same cores.

    python benchmarks/onnx_models.py [--models resnet50 bert] [--families] [--runs 30] [--blocks 10] [--operators 12]
                                       [--memory] [--first] [--after MODEL] [--tuned | --untuned]

The models are the networks in the ``onnx`` package with seeded random weights, batch 1, and an encoder of the size of
BERT's base model on 128 tokens; with ``--families`` those of ``model_families.py``: recurrent, with control flow, tiny,
quantised. Both sides take NumPy arrays, different ones in every call, and return NumPy arrays. ONNX Runtime runs with 1
and with 2 threads (or those of ``--threads``) and the faster counts; its threads stop spinning at the end of a run, so
that they do not slow the other side. Results are compared before anything is timed. Where ``openvino`` is installed,
OpenVINO takes turns, too, for latency and in single precision, with the faster number of threads.

``--blocks K`` also times K consecutive calls of one side, with a pause before, in turns: the time of a side that
has the machine for itself. ONNX Runtime's threads may keep spinning then, where that is faster than to stop.

``--operators N`` shows the N slowest operators, from the trace of a run. ``--memory`` runs both in processes
of their own and shows their growth, once loaded, while they run: the memory beyond the weights.

``--first`` shows the time from `syclsched.compile` to the results of the first call: in the first process that
has the model, with only the files that ``syclsched profile`` writes to the user's folders, in a later one, and in a
process that had another model before, that of ``--after``. On a busy machine plans are not tuned, unless ``--tuned`` is
given; with ``--untuned`` they never are (``autotune=False``).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from common import alternating, format_range, parser, print_table, resident_bytes, seconds
from model_families import FAMILIES, saved
from quantised_models import QUANTISED

from syclsched.profiling.statistics import median_absolute_deviation

#: Target ratio to ONNX Runtime's time.
TARGETS = {
    "resnet50": 1.0,
    "vgg19": 1.0,
    "inception_v1": 1.0,
    "inception_v2": 1.0,
    "densenet121": 1.0,
    "bvlc_alexnet": 1.0,
    "zfnet512": 1.0,
    "squeezenet": 1.3,
    "shufflenet": 1.3,
    "bert": 1.1,
    **{name: target for name, (_, target) in FAMILIES.items()},
}
#: Relative difference of quantised models: a value of 8 bits rounded differently changes later ones by a step of 255.
_QUANTISED_ERROR = 0.1
#: Number of sets of inputs, used in turn.
_INPUTS = 5
#: Target for microseconds of processor time per operator of the model, until all is submitted.
TARGET_SUBMISSION_US = 10.0
_SEQUENCE = 128
_WARM_UPS = 3
#: The same of models whose calls take less: their first runs are made in several ways, of which the fastest is kept.
_SHORT_WARM_UPS, _SHORT_S = 60, 4e-3
#: Longer than threads spin: ONNX Runtime's spin for some milliseconds, TBB's for less.
_PAUSE_S = 0.03
_SMALL = Path(__file__).parents[1] / "examples" / "data" / "digits.onnx"

Arrays = Mapping[str, np.ndarray[Any, Any]]


def default_folder() -> Path:
    """Return the folder that keeps models between calls."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "syclsched" / "benchmark-models"


def shapes_of(name: str) -> dict[str, tuple[int, ...]] | None:
    """Return the shapes of a model's inputs where the model leaves them open."""
    if name != "bert":
        return None
    return dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (1, _SEQUENCE))


def given(name: str, folder: Path) -> tuple[Path, list[Arrays]]:
    """Return a model's file and several inputs for it."""
    import onnx

    from syclsched.testing.models import cached, sample_inputs

    path = saved(name, folder) if name in FAMILIES else cached(name, folder)
    model = onnx.load(str(path))
    return path, [sample_inputs(model, shapes_of(name), seed=seed) for seed in range(1, _INPUTS + 1)]


#: Behaviours of idle threads of ONNX Runtime, and their options.
SPINNING = {
    "stop": {"session.force_spinning_stop": "1"},
    "spin on": {},
    "sleep": {"session.intra_op.allow_spinning": "0"},
}


def runtime_session(path: Path, threads: int, *, arena: bool = True, spinning: str = "stop") -> Any:
    """Return ONNX Runtime's session of a model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.enable_cpu_mem_arena = arena
    for key, value in SPINNING[spinning].items():
        options.add_session_config_entry(key, value)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def openvino_call(path: Path, shapes: Any, threads: int) -> Callable[[Arrays], Any] | None:
    """Return OpenVINO's call of a model; None if it is not installed or refuses the model."""
    try:
        import openvino
    except ImportError:
        return None
    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    try:
        core = openvino.Core()
        model = core.read_model(str(path))
        if shapes:
            model.reshape({name: list(shape) for name, shape in shapes.items()})
        request = core.compile_model(model, "CPU", options).create_infer_request()
    except RuntimeError as error:
        print(f"OpenVINO refuses {path.name}: {str(error).splitlines()[-1]}", file=sys.stderr)
        return None
    return lambda inputs: request.infer(dict(inputs))


def ours(path: Path, shapes: Any, *, autotune: bool = True) -> Any:
    """Return the model compiled for the CPU device."""
    import syclsched

    return syclsched.compile(path, devices="cpu", shapes=shapes, autotune=autotune)


def difference(found: Arrays, expected: Mapping[str, Any]) -> float:
    """Return the largest difference between two results, relative to the largest number in each output."""
    worst = 0.0
    for name, value in expected.items():
        if found[name].shape != value.shape or not np.isfinite(found[name]).all():
            return float("inf")
        worst = max(worst, float(np.abs(found[name] - value).max() / np.abs(value).max()))
    return worst


def in_blocks(compiled: Any, path: Path, inputs: Arrays, options: argparse.Namespace) -> dict[str, Any]:
    """Time each side in blocks of calls, with ONNX Runtime's best setting for blocks."""

    def block(call: Callable[[], Any]) -> list[float]:
        time.sleep(_PAUSE_S)
        call()
        return [1e3 * seconds(call) for _ in range(options.blocks)]

    tries: dict[tuple[int, str], float] = {}
    for threads in options.threads:
        for spinning in SPINNING if threads > 1 else ("stop",):
            session = runtime_session(path, threads, spinning=spinning)
            times = [ms for _ in range(3) for ms in block(lambda s=session: s.run(None, inputs))]
            tries[threads, spinning] = statistics.median(times)
            del session  # the memory of its weights
    best = min(tries, key=lambda each: tries[each])
    session = runtime_session(path, best[0], spinning=best[1])
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(max(3, options.runs // options.blocks)):
        mine += block(lambda: compiled(inputs))
        theirs += block(lambda: session.run(None, inputs))
    return {
        "ours_ms": statistics.median(mine),
        "ours_spread_ms": median_absolute_deviation(mine),
        "runtime_ms": statistics.median(theirs),
        "runtime_spread_ms": median_absolute_deviation(theirs),
        "runtime_threads": best[0],
        "runtime_spinning": best[1],
        "ratio": statistics.median(mine) / statistics.median(theirs),
        "tries_ms": {f"{threads}, {spinning}": ms for (threads, spinning), ms in tries.items()},
    }


def compare(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Time one model on both sides."""
    path, several = given(name, options.folder)
    inputs = several[0]
    sessions = {threads: runtime_session(path, threads) for threads in options.threads}
    names = [output.name for output in next(iter(sessions.values())).get_outputs()]
    tries = {
        threads: statistics.median([seconds(lambda s=session: s.run(None, inputs)) for _ in range(8)][2:])
        for threads, session in sessions.items()
    }
    threads = min(tries, key=lambda each: tries[each])
    session = sessions[threads]
    sessions.clear()
    vino = fastest([openvino_call(path, shapes_of(name), each) for each in options.threads], inputs)
    begun = time.perf_counter()
    with ours(path, shapes_of(name)) as compiled:
        compiling_s = time.perf_counter() - begun
        error = difference(compiled(inputs), dict(zip(names, session.run(None, inputs), strict=True)))
        if not error < (_QUANTISED_ERROR if name in QUANTISED and "int8" in name else 1e-3):
            raise SystemExit(f"{name}: wrong by {error:.3g}")
        gc.collect()
        gc.disable()
        turns = {side: itertools.cycle(several) for side in ("ours", "runtime", "openvino")}
        calls = {
            "ours": lambda: compiled(next(turns["ours"])),
            "runtime": lambda: session.run(None, next(turns["runtime"])),
            **({"openvino": lambda: vino(next(turns["openvino"]))} if vino else {}),
        }
        is_short = min(seconds(calls["ours"]) for _ in range(3)) < _SHORT_S
        warm_ups = _SHORT_WARM_UPS if is_short else _WARM_UPS
        timed = alternating(calls, options.runs, warm_ups, 1e-3 * options.pause)
        mine, theirs, others = ([1e3 * s for s in timed.get(side, ())] for side in turns)
        blocks = in_blocks(compiled, path, inputs, options) if options.blocks else None
        gc.enable()
        submission = submission_us(compiled, inputs)
        counts = {"tasks": len(compiled.graph), "nodes": nodes_of(path)}
        return {
            "model": name,
            "ours_ms": statistics.median(mine),
            "ours_spread_ms": median_absolute_deviation(mine),
            "ours_least_ms": min(mine),
            "runtime_ms": statistics.median(theirs),
            "runtime_spread_ms": median_absolute_deviation(theirs),
            "runtime_least_ms": min(theirs),
            "runtime_threads": threads,
            "openvino_ms": statistics.median(others) if others else None,
            "openvino_ratio": statistics.median(mine) / statistics.median(others) if others else None,
            "ratio": statistics.median(mine) / statistics.median(theirs),
            "least_ratio": min(mine) / min(theirs),
            "target": TARGETS[name],
            "blocks": blocks,
            **counts,
            "submission_us": submission,
            **{f"submission_us_of_{each}": submission and submission / count for each, count in counts.items()},
            "compiling_s": compiling_s,
            "error": error,
            "planned_peak_bytes": compiled.peak_bytes,
            "operators": compiled.times(inputs, repeat=5) if options.operators else [],
        }


def fastest(calls: list[Callable[[Arrays], Any] | None], inputs: Arrays) -> Callable[[Arrays], Any] | None:
    """Return the call with the shortest median of a few."""
    known = [call for call in calls if call is not None]
    tries = [statistics.median([seconds(lambda c=call: c(inputs)) for _ in range(8)][2:]) for call in known]
    return known[tries.index(min(tries))] if known else None


def nodes_of(path: Path) -> int:
    """Return the number of a model's operators."""
    import onnx

    return len(onnx.load(str(path), load_external_data=False).graph.node)


def submission_us(compiled: Any, inputs: Arrays) -> float | None:
    """Return the processor time from a call's beginning until its last task is submitted: the median of twenty.

    This is the host's work before the devices have everything: checks of the inputs, and the runtime's time for
    each submission, on whatever thread. None if calls are not one call of C.
    """
    found = []
    for _ in range(20):
        begun = time.thread_time_ns()
        compiled(inputs)
        if compiled.handed_over_ns is not None:
            found.append(compiled.handed_over_ns[1] - begun)
    return statistics.median(found) * 1e-3 if found else None


def trim() -> None:
    """Release free memory, so that its reuse is visible as growth."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)


def forget_peak() -> None:
    """Reset the peak of resident memory."""
    Path("/proc/self/clear_refs").write_text("5")


def measure_memory(name: str, side: str, folder: Path) -> None:
    """Print, as JSON, the growth of this process while one side runs."""
    path, (inputs, *_) = given(name, folder)
    planned = 0
    # A small model first: libraries are loaded and devices are open before the measurement.
    if side == "ours":
        small = ours(_SMALL, {"batch": 1})
        small.load()
    else:
        small = runtime_session(_SMALL, 2)
    trim()
    empty = resident_bytes("RssAnon")
    if side == "ours":
        compiled = ours(path, shapes_of(name))
        call, planned = (lambda: compiled(inputs)), compiled.peak_bytes
        compiled.load()
    else:
        session = runtime_session(path, 2, arena=side == "arena")
        call = lambda: session.run(None, inputs)  # noqa: E731
    trim()
    before = resident_bytes()
    forget_peak()
    for _ in range(3):
        call()
    grown = resident_bytes("VmHWM") - before
    trim()
    whole = resident_bytes("RssAnon") - empty
    print(json.dumps({"grown_bytes": grown, "planned_bytes": planned, "whole_bytes": whole}))


def memory(name: str, folder: Path) -> dict[str, Any]:
    """Return the memory that both sides need after loading, each in a process of its own."""
    found: dict[str, Any] = {"model": name}
    for side in ("ours", "arena", "plain"):
        command = [sys.executable, __file__, "--models", name, "--folder", str(folder), "--memory-of", side]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}, {side}: {done.stderr}")
        told = json.loads(done.stdout.splitlines()[-1])
        found[side], found[f"{side}_whole"] = told["grown_bytes"], told["whole_bytes"]
        if side == "ours":
            found["planned"] = told["planned_bytes"]
    return found


def tune_all() -> None:
    """Let other load have no effect on tuning."""
    from syclsched.onnx.tuning import kernel_selection, plan_comparison

    plan_comparison.is_disturbed = kernel_selection.is_disturbed = lambda before: False


def measure_first(names: list[str], folder: Path, *, tuned: bool, untuned: bool) -> None:
    """Print, as JSON, the time of the first call of each model, one after another, compilation included."""
    if tuned:
        tune_all()
    files = [given(name, folder) for name in names]
    found, kept = [], []
    for name, (path, (inputs, *_)) in zip(names, files, strict=True):
        before, begun, begun_cpu = resident_bytes(), time.perf_counter(), time.process_time()
        compiled = ours(path, shapes_of(name), autotune=not untuned)
        compiled(inputs)
        took = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - begun_cpu}
        found.append({**took, "bytes": resident_bytes(), "grown_bytes": resident_bytes() - before})
        kept.append(compiled)  # models stay open
    print(json.dumps(found))


def compare_as_profile_does() -> None:
    """Compare kernels with the library as `syclsched profile` does."""
    from syclsched.api import discover
    from syclsched.onnx.kernel_comparison import compare_kernels

    tune_all()
    compare_kernels(discover("cpu"))


def surroundings(data: Path) -> dict[str, str]:
    """Return the environment of a process whose user has these files alone."""
    return {**os.environ, "XDG_DATA_HOME": str(data), "XDG_CACHE_HOME": str(data / "cache")}


def fill_folder(data: Path, *, compared: bool) -> None:
    """Write what `syclsched profile` leaves: profiles, the devices' passed tests, and the comparison of kernels."""
    from syclsched.oneapi.cache_folder import cache_root
    from syclsched.profiling.storage.profile_store import data_folder

    cache = cache_root()
    for kept, copied in (
        (data_folder() / "profiles", data / "syclsched" / "profiles"),
        (cache / "trust", data / "cache" / "syclsched" / "trust"),
        (cache / "fpga-emulator", data / "cache" / "syclsched" / "fpga-emulator"),
    ):
        if kept.exists():
            shutil.copytree(kept, copied, ignore_dangling_symlinks=True)
    if compared:
        subprocess.run([sys.executable, __file__, "--compare-kernels"], check=True, env=surroundings(data))


def first(name: str, options: argparse.Namespace, profiled: Path) -> dict[str, Any]:
    """Return times of first calls in processes without knowledge of a model, in others, and after another model."""
    found: dict[str, Any] = {"model": name, "first": [], "second": [], "after": []}
    command = [sys.executable, __file__, "--folder", str(options.folder), "--first-of"]
    command += ["--tuned"] * options.tuned + ["--untuned"] * options.untuned + ["--models"]

    def measured(names: list[str], data: Path) -> Any:
        done = subprocess.run([*command, *names], capture_output=True, text=True, check=False, env=surroundings(data))
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])[-1]

    for _ in range(options.repeat):
        for kinds, names in ((("first", "second"), [name]), (("after",), [options.after, name])):
            with tempfile.TemporaryDirectory() as folder:
                data = Path(shutil.copytree(profiled, Path(folder) / "data", ignore_dangling_symlinks=True))
                for which in kinds:
                    found[which].append(measured(names, data))
    return found


def show_first(rows: list[dict[str, Any]], after: str) -> None:
    """Print the times of first calls."""

    def told(row: dict[str, Any], which: str, key: str, unit: float = 1.0, digits: int = 1) -> str:
        return format_range([each[key] / unit for each in row[which]], digits, 0)

    columns = ("model", "first process, s", "wall, s", "memory, MiB", "second process, s", "memory, MiB")
    columns += (f"after {after}, s", "it adds, MiB")
    lines = [
        (
            row["model"],
            told(row, "first", "cpu_seconds"),
            told(row, "first", "seconds"),
            told(row, "first", "bytes", 2**20, 0),
            told(row, "second", "cpu_seconds"),
            told(row, "second", "bytes", 2**20, 0),
            told(row, "after", "cpu_seconds"),
            told(row, "after", "grown_bytes", 2**20),
        )
        for row in rows
    ]
    title = "From compile to the first results, processor time unless told otherwise: median (least to most)"
    print_table(title, columns, lines, ["model"])


def show(rows: list[dict[str, Any]], operators: int) -> None:
    """Print the measured times."""
    columns = ("model", "ours, ms", "ONNX Runtime, ms", "ratio", "of the least", "wanted", "OpenVINO, ms", "ratio")
    columns += ("submitting, µs", "a task", "an operator", "tasks", "operators")
    lines = []
    for row in rows:
        met = row["ratio"] <= row["target"]
        each = [row["submission_us"], row["submission_us_of_tasks"], row["submission_us_of_nodes"]]
        quick = each[2] is not None and each[2] <= TARGET_SUBMISSION_US
        told = ["-" if us is None else f"{us:.{digits}f}" for us, digits in zip(each, (0, 1, 1), strict=True)]
        sides = [
            f"{row[f'{side}_ms']:.2f} ± {row[f'{side}_spread_ms']:.2f} ({row[f'{side}_least_ms']:.2f})"
            for side in ("ours", "runtime")
        ]
        lines.append(
            (
                row["model"],
                sides[0],
                f"{sides[1]}, {row['runtime_threads']} thr.",
                f"[{'green' if met else 'red'}]{row['ratio']:.2f}[/]",
                f"{row['least_ratio']:.2f}",
                f"{row['target']:.1f}",
                *(
                    "-" if row[f"openvino_{each}"] is None else f"{row[f'openvino_{each}']:.2f}"
                    for each in ("ms", "ratio")
                ),
                *told[:2],
                f"[{'green' if quick else 'red'}]{told[2]}[/]",
                str(row["tasks"]),
                str(row["nodes"]),
            )
        )
    print_table("Latency, batch 1: median ± median absolute deviation (least)", columns, lines, ["model"])
    for row in rows:
        if not row["operators"]:
            continue
        total = sum(each.seconds for each in row["operators"])
        longest = sorted(row["operators"], key=lambda one: -one.seconds)[:operators]
        print_table(
            f"{row['model']}: where the time goes, µs (median of 5 runs, with tracing)",
            ("operator", "task", "device", "by", "µs", "%"),
            [
                (
                    *(each.operator, each.task, each.device, each.implementation),
                    *(f"{each.seconds * 1e6:.0f}", f"{100 * each.seconds / total:.1f}"),
                )
                for each in longest
            ],
            ["operator", "task", "device", "by"],
        )
        print(f"operators together {total * 1e3:.2f} ms of {row['ours_ms']:.2f} ms\n")


def show_blocks(rows: list[dict[str, Any]]) -> None:
    """Print the times of blocks."""
    lines = [
        (
            row["model"],
            *(f"{found[f'{side}_ms']:.2f} ± {found[f'{side}_spread_ms']:.2f}" for side in ("ours", "runtime")),
            str(found["runtime_threads"]),
            found["runtime_spinning"],
            f"{found['ratio']:.2f}",
            "; ".join(f"{each}: {ms:.2f}" for each, ms in found["tries_ms"].items()),
        )
        for row in rows
        for found in (row["blocks"],)
    ]
    columns = ("model", "ours, ms", "ONNX Runtime, ms", "threads", "which then", "ratio", "its other settings, ms")
    title = "In blocks of calls, each side for itself: median ± median absolute deviation"
    print_table(title, columns, lines, ["model", "which then"])


def show_memory(rows: list[dict[str, Any]]) -> None:
    """Print the memory in use."""
    columns = ("model", "ours, planned", "grown", "ONNX Runtime, arena", "without", "ours, all", "ONNX Runtime, all")
    keys = ("planned", "ours", "arena", "plain", "ours_whole", "arena_whole")
    lines = [(row["model"], *(f"{row[key] / 2**20:.1f}" for key in keys)) for row in rows]
    title = "Memory, MiB: while it runs, beyond what was loaded; and of all that came with the model"
    print_table(title, columns, lines, ["model"])


def main() -> None:
    """Compare the selected models."""
    arguments = parser(__doc__, runs=30, memory=False)
    arguments.add_argument("--models", nargs="*", choices=list(TARGETS))
    arguments.add_argument("--families", action="store_true", help="the models of model_families.py")
    arguments.add_argument("--threads", type=int, nargs="*", default=[1, 2], help="of ONNX Runtime; the best is taken")
    arguments.add_argument("--blocks", type=int, default=0, metavar="K", help="also time blocks of K calls")
    arguments.add_argument("--pause", type=float, default=0.0, metavar="MS", help="between two calls")
    arguments.add_argument("--operators", type=int, default=0, metavar="N")
    arguments.add_argument("--memory-of", choices=("ours", "arena", "plain"), help=argparse.SUPPRESS)
    arguments.add_argument("--first", action="store_true", help="time first calls")
    arguments.add_argument("--first-of", action="store_true", help=argparse.SUPPRESS)
    tuning = arguments.add_mutually_exclusive_group()
    tuning.add_argument("--tuned", action="store_true", help="with --first: tune plans on a busy machine, too")
    tuning.add_argument("--untuned", action="store_true", help="with --first: tune no plans")
    arguments.add_argument(
        "--uncompared", action="store_true", help="with --first: the profile has compared no kernels"
    )
    arguments.add_argument("--compare-kernels", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("--repeat", type=int, default=3, metavar="N", help="time first calls so often")
    arguments.add_argument(
        "--after", choices=list(TARGETS), default="perceptron, 64", help="the model that is called before, with --first"
    )
    arguments.add_argument("--folder", type=Path, default=default_folder(), help="where models are kept")
    arguments.add_argument("--json", type=Path, help="write what was found to this file")
    options = arguments.parse_args()
    options.models = options.models or [name for name in TARGETS if (name in FAMILIES) == options.families]
    if options.memory_of:
        measure_memory(options.models[0], options.memory_of, options.folder)
        return
    if options.compare_kernels:
        compare_as_profile_does()
        return
    if options.first_of:
        measure_first(options.models, options.folder, tuned=options.tuned, untuned=options.untuned)
        return
    if options.first:
        with tempfile.TemporaryDirectory() as folder:
            profiled = Path(folder)
            fill_folder(profiled, compared=not options.uncompared)
            rows = [first(name, options, profiled) for name in options.models]
        show_first(rows, options.after)
    elif options.memory:
        rows = [memory(name, options.folder) for name in options.models]
        show_memory(rows)
    else:
        rows = [compare(name, options) for name in options.models]
        show(rows, options.operators)
        if options.blocks:
            show_blocks(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1, default=str))


if __name__ == "__main__":
    main()
