# SPDX-License-Identifier: Apache-2.0
"""Memory and time of a training step with activations stored in float32 and in bfloat16, alternating in one process.

    python benchmarks/training_memory.py [--models cnn transformer] [--samples 64] [--runs 15] [--share 0.6]

Peaks are those of plans, without parameters and the optimiser's state: of plans without a memory limit, and of plans
with a limit of a share of the float32 plan's peak, parameters and state added. The optimiser is Adam. "Loss apart" is
the largest difference of the losses of all steps, relative to the first loss.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
from common import alternating, format_quartiles, parser, print_table
from training import MODELS, batches

import syclsched

TYPES = ("float32", "bfloat16")


def measured(name: str, samples: int, runs: int, share: float) -> list[str]:
    """Return the row of a model and a size of batches."""
    model = MODELS[name]()
    first = model.batch(samples)
    with ExitStack() as stack:

        def trainer_of(activations: str, **more: Any) -> Any:
            trainer = syclsched.train(
                model.onnx,
                devices="cpu",
                optimizer=syclsched.training.Adam(1e-3),
                activations=activations,  # type: ignore[arg-type]
                **more,
            )
            stack.enter_context(trainer)
            return trainer

        trainers = {each: trainer_of(each) for each in TYPES}
        losses = {each: [trainer.step(*first)] for each, trainer in trainers.items()}
        peaks = {each: _peak(trainer) for each, trainer in trainers.items()}
        given = {each: batches(model, samples) for each in TYPES}

        def call(each: str) -> Any:
            return lambda: losses[each].append(trainers[each].step(*next(given[each])))

        times = alternating({each: call(each) for each in TYPES}, runs, warm_ups=2)
        resident = sum(map(int, trainers["float32"].plan.resident_bytes.values()))
        limited = trainer_of("bfloat16", memory_limit=int(share * peaks["float32"]) + resident)
        limited.step(*first)
        peaks["limited"] = _peak(limited)
    apart = np.abs(np.subtract(*losses.values())).max() / losses["float32"][0]
    middle = {each: float(np.median(taken)) for each, taken in times.items()}
    shown = [f"{peaks[each] / 1e6:.1f}" for each in (*TYPES, "limited")]
    ratio = f"{middle['bfloat16'] / middle['float32']:.2f}"
    return [
        name,
        str(samples),
        *shown,
        *(format_quartiles(np.array(times[each]) * 1e3) for each in TYPES),
        ratio,
        f"{apart:.4f}",
    ]


def _peak(trainer: Any) -> int:
    return int(trainer.plan.peak_bytes["cpu"])


def main() -> None:
    """Print the table."""
    options = parser(__doc__, models=["cnn", "transformer"], samples=[64], runs=15, share=0.6).parse_args()
    rows = [measured(name, n, options.runs, options.share) for name in options.models for n in options.samples]
    columns = [
        "model",
        "samples",
        "peak, MB",
        "bfloat16",
        "with a limit",
        "step, ms",
        "bfloat16, ms",
        "ratio",
        "loss apart",
    ]
    print_table("Activations in bfloat16", columns, rows, left=["model"])


if __name__ == "__main__":
    main()
