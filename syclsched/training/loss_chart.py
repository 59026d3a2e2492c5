# SPDX-License-Identifier: Apache-2.0
"""Chart of the losses of a training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.tracing.charts.output import INK, PALETTE, save_chart, set_title


def draw_losses(epochs: Sequence[Sequence[float]], path: str | Path, *, title: str = "loss") -> None:
    """Draw the loss of each step, and its mean over each epoch, to a .png, .svg or .pdf file."""
    from matplotlib.figure import Figure

    parts = [np.array(part) for part in epochs if len(part)]
    if not parts:
        raise ArgumentError("there was no step", where="draw_losses()")
    losses = np.concatenate(parts)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    steps = np.arange(1, len(losses) + 1)
    axes.plot(steps, losses, color=PALETTE[4], linewidth=0.8, label="each step")
    means = [float(part.mean()) for part in parts]
    ends = np.cumsum([0, *map(len, parts)])
    middles = [(a + b + 1) / 2 for a, b in pairwise(ends)]
    axes.plot(middles, means, "o-", color=PALETTE[0], linewidth=1.8, markersize=4, label="mean of epoch")
    if min(losses) > 0 and max(losses) > 20 * min(means):
        axes.set_yscale("log")
    axes.set_xlabel("step", color=INK)
    axes.set_ylabel("loss", color=INK)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    set_title(figure, title)
    save_chart(figure, path)
