# SPDX-License-Identifier: Apache-2.0
"""Time of a training step, compared with PyTorch's CPU build, alternating in one process.

    python benchmarks/training.py [--models mlp cnn lstm transformer] [--samples 32 128] [--runs 30] [--block 10]
    python benchmarks/training.py --models mlp lstm --samples 32 --runs 100 --alone
    python benchmarks/training.py --platforms max1550,max1550 a770,b580 --models wide transformer --samples 8192
    python benchmarks/training.py --platforms a770 --models transformer --samples 256 --limits 200MiB 50MiB
    python benchmarks/training.py --models cnn --samples 64 --shares 0.7 0.5

Both begin with the same weights and get batches that were made before. With ``--block`` each makes this many steps in a
row, after a pause: the other's threads, which spin for work for some time, have then left the cores. The
optimiser is Adam. PyTorch runs eagerly with as many threads as there are cores, and by ``torch.compile`` with
``--compiled``. The first losses are compared before anything is timed. ``handed over`` is the processor time of the
calling thread until a step is handed over, ``submitted`` that and the time of the thread that submits the rest.
``ready`` is the processor time of the first step in this process: import, planning, compiling and timing of
implementations are in it. With ``--alone`` there is no PyTorch.

With ``--shares``, steps within these shares of the planned peak alternate with one that has all its planned memory;
the losses must agree within 1e-5. With ``--platforms`` nothing runs: the table has the predicted times of a step on
described platforms, for each way to divide it among their devices, and the selected way; with ``--limits`` on their
memory, for each number of micro-batches.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import cycle, product
from typing import Any

import numpy as np
from common import alternating, format_quartiles, parser, print_table

import syclsched
from syclsched.testing.training_models import TrainingModel, convolutional, perceptron, recurrent, transformer
from syclsched.training import Trainer
from syclsched.training.splitting.micro_batches import MicroBatchChoice
from syclsched.training.splitting.splits import SplitChoice
from syclsched.training.splitting.task_roles import part_of

MODELS: dict[str, Callable[[], TrainingModel]] = {
    "mlp": perceptron,
    "cnn": convolutional,
    "lstm": recurrent,
    "transformer": transformer,
    "wide": lambda: perceptron((784, 4096, 4096, 4096, 10)),
}
#: Seconds between blocks: threads of OpenMP spin for up to 0.2.
_PAUSE_S = 0.3
#: Initialisers that are no parameters of PyTorch's optimiser.
_MOMENTS = (".mean", ".var")


def torch_step(model: TrainingModel, *, compiled: bool = False) -> Callable[[Any, Any], float]:
    """Return a function that does one step with PyTorch and returns the loss."""
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    weights = {name: torch.from_numpy(array.copy()) for name, array in model.weights.items()}
    trained = [each.requires_grad_() for name, each in weights.items() if not name.endswith(_MOMENTS)]
    optimiser = torch.optim.Adam(trained, lr=1e-3)

    def loss_of(x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(model.forward(torch, weights, x), y)

    made = torch.compile(loss_of) if compiled else loss_of

    def step(x: Any, y: Any) -> float:
        optimiser.zero_grad()
        loss = made(torch.from_numpy(x), torch.from_numpy(y))
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    return step


def batches(model: TrainingModel, samples: int) -> Iterator[tuple[Any, Any]]:
    """Yield batches without end."""
    return cycle([model.batch(samples, seed) for seed in range(1, 17)])


def measured(name: str, samples: int, runs: int, block: int, *, compiled: bool, alone: bool) -> dict[str, Any]:
    """Return the row of a model and a size of batches."""
    model = MODELS[name]()
    rivals = {} if alone else {"PyTorch": torch_step(model)}
    if compiled:
        rivals["compiled"] = torch_step(model, compiled=True)
    begun_s = time.process_time()
    with syclsched.train(model.onnx, devices="cpu", optimizer=syclsched.training.Adam(1e-3)) as trainer:
        given = batches(model, samples)
        x, y = next(given)
        first = trainer.step(x, y)
        ready_s = time.process_time() - begun_s
        for rival in rivals.values():
            other = rival(x, y)
            if abs(first - other) > 1e-4 * abs(other):
                raise SystemExit(f"{name}: the first loss is {first}, PyTorch's {other}")
        handed: list[tuple[float, float]] = []

        def own() -> None:
            x, y = next(given)
            begun_ns = time.thread_time_ns()
            trainer.step(x, y)
            if trainer.compiled is not None and trainer.compiled.handed_over_ns is not None:
                handed.append(tuple(each - begun_ns for each in trainer.compiled.handed_over_ns))

        calls: dict[str, Callable[[], object]] = {"syclsched": own}
        calls |= {each: lambda rival=rival: rival(*next(given)) for each, rival in rivals.items()}  # type: ignore[misc]
        times = alternating(calls, runs, warm_ups=5, pause_s=_PAUSE_S if block > 1 else 0.0, block=block)
    row = {"model": name, "samples": samples}
    row |= {f"{each}, ms": format_quartiles(np.array(taken) * 1e3) for each, taken in times.items()}
    middle = {each: statistics.median(taken) for each, taken in times.items()}
    row |= {f"/ {each}": f"{middle['syclsched'] / middle[each]:.2f}" for each in rivals}
    for column, spent in zip(("handed over, ms", "submitted, ms"), np.array(handed).T, strict=True) if handed else ():
        row[column] = format_quartiles(spent / 1e6)
    return {**row, "ready, s": f"{ready_s:.1f}"}


def divided(name: str, samples: int, platform: str, **options: Any) -> SplitChoice | MicroBatchChoice | None:
    """Return the division of a model's steps on a described platform."""
    from syclsched.training.losses import CrossEntropy
    from syclsched.training.sources.trained_model import trained_model
    from syclsched.training.step_recipe import StepRecipe
    from syclsched.training.steps.step_network import TARGET

    model = MODELS[name]()
    recipe = StepRecipe(
        trained_model(model.onnx), CrossEntropy(), syclsched.training.Adam(1e-3), may_cut=True,
        platform=syclsched.describe(platform), options={"deterministic": True, **options},  # type: ignore[typeddict-item]
    )  # fmt: skip
    step = recipe.model("int64")
    planner = recipe.divided(step)
    assert planner is not None
    return planner.choose(step.full_shapes({"x": (samples, *model.input_shape), TARGET: (samples,)}))


def cut(name: str, samples: int, platform: str, limit: str) -> list[str]:
    """Return the row of a model, a size of batches, a described platform and a limit of its memory."""
    choice = divided(name, samples, platform, memory_limit=limit)
    if not isinstance(choice, MicroBatchChoice):
        return [platform, name, str(samples), limit, *["-"] * 4, "memory suffices"]
    outcomes = [choice.outcomes.get(count, "-").partition(" (")[0] for count in (1, 2, 4, 8)]
    return [platform, name, str(samples), limit, *outcomes, str(choice.count)]


def predicted(name: str, samples: int, platform: str) -> dict[str, Any]:
    """Return the row of a model, a size of batches and a described platform."""
    from syclsched.training.splitting.splits import SPLITS

    begun_s = time.process_time()
    choice = divided(name, samples, platform)
    if not isinstance(choice, SplitChoice):
        raise SystemExit(f"{platform}: there is one device")
    row: dict[str, Any] = {"platform": platform, "model": name, "samples": samples}
    found = {each.kind: each for each in choice.splits}
    for kind in SPLITS[1:]:
        seconds = found[kind].step_s  # type: ignore[index]  # one of its keys
        row[f"{kind}, ms"] = "-" if seconds is None else f"{seconds * 1e3:.2f}"
    alone_s = found["single"].step_s
    best = choice.best
    row["chosen"] = best.kind
    row["/ single"] = f"{best.step_s / alone_s:.2f}" if best.step_s and alone_s else "-"
    return {**row, "planned in, s": f"{time.process_time() - begun_s:.1f}"}


def limited(name: str, samples: int, runs: int, shares: Sequence[float]) -> list[list[str]]:
    """Return a row for all memory, and for each share of the planned peak."""
    model = MODELS[name]()
    mebibyte = float(1 << 20)
    first = [model.batch(samples, seed) for seed in range(3)]
    with ExitStack() as stack:

        def trainer(**more: Any) -> Trainer:
            return stack.enter_context(
                syclsched.train(model.onnx, devices="cpu", optimizer=syclsched.training.Adam(1e-3), **more)
            )

        tried = {"all": trainer()}
        losses = [tried["all"].step(*each) for each in first]
        (space,) = {device.space for device in tried["all"].plan.platform.compute_devices}
        peak = tried["all"].plan.peak_bytes[space]
        for share in shares:
            found = tried[f"{share:.2f}"] = trainer(memory_limit=int(share * peak))
            # Within this tolerance, as other implementations may be chosen.
            if not np.allclose([found.step(*each) for each in first], losses, rtol=1e-5):
                raise SystemExit(f"{name}: with {share} of the memory the losses differ")
        given = batches(model, samples)
        calls = {how: lambda found=found: found.step(*next(given)) for how, found in tried.items()}
        times = alternating(calls, runs, warm_ups=3)  # type: ignore[arg-type]
        middle = statistics.median(times["all"])
        rows = []
        for how, found in tried.items():
            plan = found.plan
            held = [f"{nbytes / mebibyte:.1f} {where}" for where, nbytes in plan.peak_bytes.items()]
            parts = len({part_of(task.name) for task in plan.tasks} - {None}) or 1
            done = [str(parts), str(plan.counters.recomputed), str(plan.counters.copies)]
            ratio = f"{statistics.median(times[how]) / middle:.2f}"
            rows.append(
                [name, str(samples), how, ", ".join(held), *done, format_quartiles(np.array(times[how]) * 1e3), ratio]
            )
        return rows


def main() -> None:
    """Print the table."""
    given = parser(__doc__, models=[*MODELS][:4], samples=[32, 128], runs=30, compiled=False)
    given.add_argument("--block", type=int, default=1, help="steps of each side in a row")
    given.add_argument("--alone", action="store_true", help="without PyTorch")
    given.add_argument("--platforms", nargs="*", default=[], help="described ones: predict instead of measuring")
    given.add_argument("--shares", type=float, nargs="*", help="of the planned peak, as memory limits")
    given.add_argument("--limits", nargs="*", default=[], help="of the memory of described platforms")
    options = given.parse_args()
    if options.limits:
        ways = product(options.platforms, options.models, options.samples, options.limits)
        found = [cut(name, samples, platform, limit) for platform, name, samples, limit in ways]
        columns = ["platform", "model", "samples", "limit", *(f"{count} parts" for count in (1, 2, 4, 8)), "chosen"]
        print_table("Predicted steps of micro-batches", columns, found, left=["platform", "model"])
        return
    if options.platforms:
        rows = [
            predicted(name, samples, platform)
            for platform in options.platforms
            for name in options.models
            for samples in options.samples
        ]
        cells = [[*map(str, row.values())] for row in rows]
        print_table("Predicted steps", [*rows[0]], cells, left=["platform", "model", "chosen"])
        return
    if options.shares:
        found = [limited(name, n, options.runs, options.shares) for name in options.models for n in options.samples]
        columns = ["model", "samples", "of the peak", "planned, MiB", "parts", "recomputed", "copies", "ms", "ratio"]
        print_table("Steps within less memory", columns, [row for rows in found for row in rows], left=["model"])
        return
    rows = [
        measured(name, samples, options.runs, options.block, compiled=options.compiled, alone=options.alone)
        for name in options.models
        for samples in options.samples
    ]
    columns = [*rows[0]]
    print_table("Training steps", columns, [[*map(str, row.values())] for row in rows], left=["model"])


if __name__ == "__main__":
    main()
