# SPDX-License-Identifier: Apache-2.0
"""The one exception hierarchy: every error says what is wrong, where, and what to do about it."""

from __future__ import annotations


class SyclschedError(Exception):
    """Base of every error this library raises on purpose.

    Parameters
    ----------
    what : str
        What is wrong, as a sentence without a full stop.
    where : str, optional
        The task, array, device, file and field it concerns.
    hint : str, optional
        What the reader can do about it.
    """

    #: Exit code of the command line for this error.
    exit_code: int = 2

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(what)

    def __str__(self) -> str:
        text = self.what if self.where is None else f"{self.where}: {self.what}"
        return text if self.hint is None else f"{text}. {self.hint}"


# --- graphs ---------------------------------------------------------------------------------------


class GraphError(SyclschedError):
    """A task graph that cannot be what was meant."""


class CycleError(GraphError):
    """Explicit edges close a cycle; the message lists its tasks."""


class UnknownArrayError(GraphError):
    """A task names an array that was never declared, or was freed before it."""


class ArgumentError(GraphError):
    """A task's arguments do not fit its operation: a missing or unknown name, shape, dtype or access mode."""


class CapabilityError(SyclschedError):
    """No device can run a task; the message says which device lacks what."""


# --- platforms ------------------------------------------------------------------------------------


class RuntimeMissingError(SyclschedError):
    """The SYCL runtime, or a part of it, is missing or cannot be loaded."""


class PlatformError(SyclschedError):
    """A platform that cannot be used."""


class EmptyPlatformError(PlatformError):
    """No usable device is left after discovery and selection."""


class DeviceNotFoundError(PlatformError):
    """A named device is not on this machine, for instance one a saved plan was made for."""


class ForkedError(PlatformError):
    """Devices were asked for in a process forked from one that had loaded the SYCL runtime."""


class UntrustedDeviceError(PlatformError):
    """A device failed its known-answer test and is refused for work."""


class SelectionError(PlatformError):
    """A device selection that cannot be parsed."""


# --- files ----------------------------------------------------------------------------------------


class FormatError(SyclschedError):
    """A file or document that is not what it claims: names the file, the place and the expectation."""


class ModelError(FormatError):
    """A machine-learning model that cannot be taken as it is: names the model, the place in it and the expectation."""


class OpenDimensionError(ModelError):
    """Extents of a model's inputs that the model leaves open were not given; ``names`` lists those dimensions.

    Parameters
    ----------
    what, where, hint : str
        See `SyclschedError`.
    names : tuple of str
        The open dimensions, as the model or ``input[axis]`` names them.
    """

    def __init__(self, what: str, *, names: tuple[str, ...], where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where=where, hint=hint)
        self.names = names


class ValueNeededError(ModelError):
    """A shape in a model follows from the value of an input; ``inputs`` lists the inputs whose values settle it.

    Parameters
    ----------
    what, where, hint : str
        See `SyclschedError`.
    inputs : tuple of str
        Inputs of the model; with their values known, the model can be imported.
    """

    def __init__(
        self, what: str, *, inputs: tuple[str, ...], where: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.inputs = inputs


class StorageError(SyclschedError):
    """A file or folder that cannot be read or written: missing, read-only, full."""


# --- plans ----------------------------------------------------------------------------------------


class PolicyError(SyclschedError):
    """A scheduling policy that does not exist or cannot be used here."""


class PlanError(SyclschedError):
    """A plan that must not be run."""


class RaceError(PlanError):
    """Two accesses to one array that nothing orders; names both tasks and the array."""


class IncompletePlanError(PlanError):
    """A plan that leaves out, repeats or misplaces work, or reads data that is not there."""


class MemoryLimitError(PlanError):
    """A plan needs more memory in a space than there is; names the sizes."""


class InfeasibleError(PlanError):
    """Nothing that keeps to all constraints was found; names those that bind, and the least that was found."""


# --- execution ------------------------------------------------------------------------------------


class ExecutionError(SyclschedError):
    """Something went wrong while a plan ran."""


class TaskFailedError(ExecutionError):
    """A task failed; ``task`` is its name and ``__cause__`` the reason, if there is a Python one.

    Parameters
    ----------
    what, where, hint : str
        See `SyclschedError`.
    task : str
        The name of the task that failed.
    """

    def __init__(self, what: str, *, task: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where=where or f"task {task!r}", hint=hint)
        self.task = task


class DeviceError(ExecutionError):
    """A device or its runtime broke off what it was to do; it may go better when it is tried again, or elsewhere."""


class UndeclaredWriteError(TaskFailedError):
    """A task changed what it did not declare to write; found by ``debug=True``."""


class NotFiniteError(TaskFailedError):
    """A task wrote a NaN or an infinity; found by ``nan_guard=True``."""


class DeadlineError(TaskFailedError):
    """A task, or its run, took longer than it was allowed to."""


class RunCancelledError(ExecutionError):
    """The result was asked for of a run, or of a task, that was cancelled."""


class WaitTimeoutError(ExecutionError):
    """A wait ended by its time limit before the work was done; the work goes on."""


class MeasurementError(SyclschedError):
    """A measurement could not be made, or gave nothing that can be used."""


# --- warnings -------------------------------------------------------------------------------------


class DeclaredShapeWarning(UserWarning):
    """An output of a model has another shape than the model declares."""


class HostOperatorWarning(UserWarning):
    """Operators of a model that no device does: the host does them with onnx's reference implementation."""


class RemadeModelWarning(UserWarning):
    """A model's shapes follow from values of floating-point inputs: it is planned and bound anew for every value."""
