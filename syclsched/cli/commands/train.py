# SPDX-License-Identifier: Apache-2.0
"""``syclsched train``: train an ONNX model on the data of a NumPy file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syclsched.cli import options as opt
from syclsched.cli.completion import DEVICE_KINDS, LOSSES, OPTIMIZERS, choices
from syclsched.cli.output_files import check_outputs
from syclsched.cli.requests.cluster_connection import connected
from syclsched.cli.requests.optimizers import read_optimizers
from syclsched.cli.requests.training_data import Data, read_data
from syclsched.cli.terminal import Verbosity, notices, output, verbosity
from syclsched.errors import ArgumentError, StorageError
from syclsched.interrupts import INTERRUPTED, interrupts_deferred

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.training.evaluation import Evaluation
    from syclsched.training.trainer import Trainer


def train_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX model; its initialisers are trained.")],
    *,
    machines: opt.ClusterOptions,
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            metavar="FILE",
            help="A .npz file with the arrays [bold]x[/bold] (or one for each input of the model, by name) and "
            "[bold]y[/bold]: labels, or numbers of the output's shape; not with [bold]--loss model[/bold]. The first "
            "axis counts samples.",
        ),
    ],
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="How often the data is gone through.")] = 1,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Samples in a step.")] = 32,
    loss: Annotated[
        str,
        typer.Option(
            "--loss",
            autocompletion=choices(LOSSES),
            metavar="NAME",
            help="cross_entropy, mean_squared_error, mean_absolute_error, binary_cross_entropy, or model: the model's "
            "output is the loss.",
        ),
    ] = "cross_entropy",
    optimizer: Annotated[
        str,
        typer.Option(
            "--optimizer",
            autocompletion=choices(OPTIMIZERS),
            metavar="NAME",
            help="sgd, adam, adamw or adagrad, with settings: 'adamw,weight_decay=0.1'.",
        ),
    ] = "adam",
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            metavar="PATTERN:NAME",
            help="The optimiser of the parameters whose names fit a pattern: '*.bias:adamw,weight_decay=0'; may be "
            "repeated. The first that fits a name is taken, for the rest [bold]--optimizer[/bold].",
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            "--learning-rate",
            help="Of all optimisers that set none. By default theirs: 0.001, sgd and adagrad 0.01.",
        ),
    ] = None,
    clip_norm: Annotated[
        float | None, typer.Option("--clip-norm", help="Scale the gradients if their norm is larger.")
    ] = None,
    micro_batches: opt.MicroBatches = None,
    split: opt.Split = "auto",
    activations: opt.Activations = "float32",
    train_only: Annotated[
        list[str] | None,
        typer.Option("--parameters", metavar="PATTERN", help="Train these initialisers only: 'head.*'."),
    ] = None,
    frozen: Annotated[
        list[str] | None, typer.Option("--frozen", metavar="PATTERN", help="Do not train these initialisers.")
    ] = None,
    test_part: Annotated[
        float, typer.Option("--test-part", min=0.0, max=0.9, help="Part of the data that is kept for testing.")
    ] = 0.1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the order of samples, and of dropout.")] = 0,
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices", autocompletion=choices(DEVICE_KINDS), metavar="SELECTOR", help="Devices to use: cpu."
        ),
    ] = None,
    output_file: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="The trained model; by default MODEL with '-trained' added."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="FILE", help="Write a checkpoint after every epoch and on Ctrl-C."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint.")] = False,
    snapshots: Annotated[
        int | None,
        typer.Option(
            "--snapshots",
            metavar="STEPS",
            min=0,
            help="Copy the state to the host's memory every so many steps, for when a device is lost; 0 for never. By "
            "default as often as takes 2 % of the time. Never where the host reaches the devices' memory.",
        ),
    ] = None,
    chart_file: Annotated[
        Path | None, typer.Option("--chart", metavar="FILE", help="Draw the losses (.png, .svg, .pdf).")
    ] = None,
) -> None:
    """Train an ONNX model on the data of a NumPy file: each step is one task graph on this machine's devices.

    [bold]syclsched train cnn.onnx --data digits.npz --epochs 5[/bold]

    [bold]syclsched train cnn.onnx --data digits.npz --epochs 20 --checkpoint run.ckpt --resume --chart loss.svg[/bold]

    [bold]syclsched train cnn.onnx --data digits.npz --batch 256 --cluster tcp://host:8786[/bold] divides steps among
    the machines of a Dask cluster.

    Ctrl-C stops after the current step; the model and the checkpoint are written then, too.
    """
    from syclsched.training import train

    console = notices()
    target = output_file or Path(f"{model.stem}-trained.onnx")
    check_outputs(target, checkpoint, pictures=[chart_file])
    if resume and checkpoint is None:
        raise ArgumentError("there is nothing to continue from", where="--resume", hint="Add --checkpoint FILE")
    with ExitStack() as stack:
        trainer = stack.enter_context(
            train(
                str(model),
                loss,
                read_optimizers(optimizer, group or (), learning_rate),
                devices=devices,
                cluster=stack.enter_context(connected(machines, console)) if machines.named else None,
                parameters=train_only or None,
                frozen=frozen or (),
                micro_batches=micro_batches,
                split=split,
                activations=activations,
                clip_norm=clip_norm,
                seed=seed,
                snapshots=snapshots,
                progress=False,
            )
        )
        given = read_data(data, [each.name for each in trainer.inputs], has_target=loss != "model")
        training, testing = given.divided(test_part, seed)
        if resume and checkpoint is not None and checkpoint.exists():
            trainer.restore(checkpoint)
            console.print(f"continuing after {trainer.steps:,} steps")
        begun = trainer.steps
        try:
            losses, interrupted = _trained(trainer, training, testing, epochs, batch, seed, checkpoint, console)
        except StorageError:  # of a checkpoint: the trained parameters stay
            with suppress(StorageError):
                trainer.save(target)
                console.print(f"model written to {target}", markup=False)
            raise
        if interrupted:
            console.print("interrupted")
        if not interrupted or trainer.steps > begun:
            with interrupts_deferred():
                if interrupted and checkpoint is not None:
                    trainer.checkpoint(checkpoint)
                trainer.save(target)
            console.print(f"model written to {target}", markup=False)
        if chart_file is not None and any(losses):
            from syclsched.training.loss_chart import draw_losses

            draw_losses(losses, chart_file, title=f"{model.stem}: {loss}")
            console.print(f"chart written to {chart_file}", markup=False)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _trained(
    trainer: Trainer,
    training: Data,
    testing: Data,
    epochs: int,
    batch: int,
    seed: int,
    checkpoint: Path | None,
    console: Console,
) -> tuple[list[Sequence[float]], bool]:
    """Train and print a line after each epoch; return the losses of each, and whether Ctrl-C ended it.

    The epoch of the last step goes on with the batch after it, so that a resumed training does the same steps.
    """
    losses: list[Sequence[float]] = []
    out, shown = output(), verbosity() > Verbosity.QUIET and console.is_terminal
    first, done = divmod(trainer.steps, -(-len(training) // batch))
    try:
        for epoch in range(first, epochs):
            given = training.batches(batch, seed + epoch, after=done if epoch == first else 0)
            record = trainer.fit(given, progress=shown)
            losses.append(record.losses)
            if epoch == first and record.losses and len(trainer.plan.platform.compute_devices) > 1:
                console.print(trainer.explanation, markup=False)
            line = f"epoch {epoch + 1}/{epochs}: loss {record.epochs[0]:.4f}" if record.epochs else "no step"
            if len(testing) and not record.interrupted:
                line += _tested(trainer.evaluate(testing.batches(batch)))
            out.print(f"{line}, {record.samples_per_s:,.0f} samples/s", markup=False)
            if record.interrupted:
                return losses, True
            if checkpoint is not None:
                with interrupts_deferred():
                    trainer.checkpoint(checkpoint)
    except KeyboardInterrupt:
        return losses, True
    return losses, False


def _tested(found: Evaluation) -> str:
    accuracy = "" if found.accuracy is None else f", {found.accuracy:.1%} right"
    return f"; test: loss {found.loss:.4f}{accuracy}"
