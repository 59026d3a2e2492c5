# SPDX-License-Identifier: Apache-2.0
"""`train`: a model, a loss, an optimiser and devices made into a trainer."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.onnx.model import GivenShapes
from syclsched.training.losses import Loss, loss_of
from syclsched.training.optimisers import Optimiser
from syclsched.training.sources.trained_graph import trained_graph
from syclsched.training.sources.trained_model import trained_model
from syclsched.training.splitting.splits import AUTO
from syclsched.training.step_recipe import StepOptions, StepRecipe, TrainingOptions
from syclsched.training.trainer import Trainer

if TYPE_CHECKING:
    from typing_extensions import Unpack


def train(
    model: str | os.PathLike[str] | bytes | TaskGraph | Any,
    loss: str | Loss = "cross_entropy",
    optimizer: str | Optimiser | Mapping[str, str | Optimiser] = "adam",
    *,
    devices: str | None = None,
    platform: Platform | None = None,
    parameters: Iterable[str] | None = None,
    frozen: Iterable[str] = (),
    output: str | None = None,
    shapes: GivenShapes | None = None,
    micro_batches: int | Sequence[float] | None = None,
    clip_norm: float | None = None,
    seed: int = 0,
    **options: Unpack[TrainingOptions],
) -> Trainer:
    """Make an ONNX model or a task graph ready to be trained.

    A step - forward pass, loss, backward pass, update - is one task graph. It is planned and bound at the first step,
    and for each further shape of a batch. Parameters and the optimiser's state stay in the devices' memory.

    Parameters
    ----------
    model : path, bytes, onnx.ModelProto or TaskGraph
        The model, as PyTorch and others export it. Its initialisers are the parameters. Or a graph whose operations
        have gradients: arrays that it reads are its inputs, those of them with initial data its parameters.
    loss : str or Loss, optional
        ``cross_entropy``, ``mean_squared_error``, ``mean_absolute_error``, ``binary_cross_entropy`` (of numbers before
        the sigmoid), ``model`` (the model's output is the loss), or one of `syclsched.training`, with its settings.
    optimizer : str, Optimiser or Mapping, optional
        ``sgd``, ``adam``, ``adamw``, ``adagrad``, or one of `syclsched.training`, with its settings. Or optimisers of
        groups of parameters, by names or patterns of names such as ``*.bias``; the first that fits a name is taken.
    devices : str, optional
        A selection of this machine's devices, as for `syclsched.discover`; by default all usable ones.
    platform : Platform, optional
        The devices, in place of ``devices``.
    parameters : iterable of str, optional
        Names of the initialisers, or arrays with initial data, that are trained, or patterns such as ``head.*``; by
        default all floating-point ones with a dimension.
    frozen : iterable of str, optional
        Names or patterns of those that are not trained.
    output : str, optional
        The output that the loss is computed from; by default the first, of a graph its only floating-point result. A
        softmax at the end is part of cross-entropy, a sigmoid of binary cross-entropy.
    shapes : Mapping, optional
        As for `syclsched.onnx.load`; a graph has its own.
    micro_batches : int or sequence of float, optional
        Parts of each batch that are computed apart, and whose gradients are summed in order: a number of equal ones, or
        their shares. On one device they need less memory; by default there are 2, 4 or 8 where memory is short and that
        is predicted to be faster, and on several devices as many as ``split`` wants. Not of a graph, whose shapes are
        fixed.
    clip_norm : float, optional
        If the norm of all gradients together is larger, they are scaled to it.
    seed : int, optional
        Determines what dropout drops.
    activations : str, optional
        As what values are stored that the backward pass reads again: ``float32``, or ``bfloat16``, which takes half the
        memory. Everything is computed in float32; parameters and the optimiser's state are float32, too.
    snapshots : int, optional
        Steps from one copy of the state to the host's memory to the next; 0 for none. By default so many that copies
        take 2 % of the time. Where the host reaches the devices' memory there are none.
    split : str, optional
        How a step is divided among several devices: ``single`` (all on the fastest), ``tasks`` (each task where it ends
        first), ``data`` (samples of the batch, by the devices' speed), ``stages`` (consecutive layers, which
        micro-batches go through as a pipeline). ``auto`` plans all of them for each shape of a batch, and takes the
        shortest prediction: `Trainer.explanation`.
    cluster : Cluster, optional
        A connected cluster, in place of devices; see `syclsched.connect`. Parameters and the optimiser's state stay on
        its workers.
    policy, memory_limit, autotune, deterministic, without, progress, trace
        As for `syclsched.compile`.

    Returns
    -------
    Trainer
        Use it in a ``with`` statement, or `Trainer.close` it.

    Raises
    ------
    StorageError, ModelError
        If the model cannot be read, or is not a supported one.
    ArgumentError
        If arguments contradict the model.

    Examples
    --------
    >>> import syclsched
    >>> with syclsched.train("cnn.onnx", devices="cpu") as trainer:  # doctest: +SKIP
    ...     trainer.fit(batches, epochs=5)
    ...     trainer.save("trained.onnx")
    """
    activations = options.pop("activations", "float32")
    split, cluster = options.pop("split", AUTO), options.pop("cluster", None)
    snapshots = options.pop("snapshots", None)
    compiling: StepOptions = options
    parts, trained = _shares(micro_batches), None
    if isinstance(model, TaskGraph):
        if shapes is not None or len(parts) > 1:
            what = "shapes are given" if shapes is not None else "micro-batches are wanted"
            raise ArgumentError(f"{what}, and the shapes of a task graph are fixed", where="train()")
        trained = trained_graph(model, parameters, frozen, output)
        output = None  # the first
    recipe = StepRecipe(
        trained or trained_model(model, parameters, frozen),
        loss_of(loss),
        optimizer,
        output=output,
        shapes=shapes,
        parts=parts,
        may_cut=micro_batches is None,
        clip_norm=clip_norm,
        platform=platform,
        devices=devices,
        split=split,
        cluster=cluster,
        activations=activations,
        snapshots=snapshots,
        options=compiling,
    )
    recipe.check()
    if not isinstance(seed, int | np.integer):
        raise ArgumentError(f"seed is {seed!r}, expected a whole number", where="train()")
    return Trainer(recipe, named=parameters is not None, seed=int(seed))


def _shares(micro_batches: int | Sequence[float] | None) -> tuple[float, ...]:
    if micro_batches is None:
        return (1.0,)
    if isinstance(micro_batches, int | np.integer) and not isinstance(micro_batches, bool):
        if micro_batches < 1:
            raise ArgumentError(f"micro_batches is {micro_batches}, expected at least 1", where="train()")
        return (1.0,) * int(micro_batches)
    given = tuple(micro_batches) if isinstance(micro_batches, Iterable) else ()
    are_positive = (isinstance(each, int | float | np.number) and math.isfinite(each) and each > 0 for each in given)
    if not given or not all(are_positive):
        raise ArgumentError(
            f"micro_batches is {micro_batches!r}, expected a whole number, or shares, which are positive numbers",
            where="train()",
        )
    return tuple(float(each) for each in given)
