# SPDX-License-Identifier: Apache-2.0
"""The exception hierarchy. Every error says what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class SyclschedError(Exception):
    """Base class of all errors that this library raises on purpose.

    Parameters
    ----------
    what : str
        Description of the problem: a sentence without a full stop.
    where : str, optional
        The task, array, device, file or field concerned.
    hint : str, optional
        Suggested remedy.

    Examples
    --------
    >>> import syclsched
    >>> try:
    ...     syclsched.describe("max15500")
    ... except syclsched.SyclschedError as error:
    ...     print(error.where)
    max15500
    """

    #: Exit code of the command line for this error.
    exit_code: int = 2

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(what)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        text = self.what if self.where is None else f"{self.where}: {self.what}"
        return text if self.hint is None else f"{text}. {self.hint}"


def _unpickled(kind: type[SyclschedError], args: tuple[object, ...]) -> SyclschedError:
    """Return an error as it arrives from another process; subclasses have required keyword arguments."""
    return kind.__new__(kind, *args)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the beginning of a hint, with a blank after it, if one of the names is much like a wrong one."""
    import difflib  # only for errors

    near = difflib.get_close_matches(str(name), list(known), 1)
    return f"Did you mean {near[0]!r}? " if near else ""


# --- graphs ---------------------------------------------------------------------------------------


class GraphError(SyclschedError):
    """A task graph is invalid."""


class CycleError(GraphError):
    """Explicit edges form a cycle; the message lists its tasks."""


class UnknownArrayError(GraphError):
    """A task names an array that was never declared or has been freed."""


class ArgumentError(GraphError):
    """A task's arguments do not fit its operation: a missing or unknown name, shape, dtype or access mode."""


def check_kind(given: object, kind: type, option: str, hint: str) -> None:
    """Raise `ArgumentError` if an argument is of another class."""
    if not isinstance(given, kind):
        raise ArgumentError(
            f"expected a {kind.__name__}, got a value of type {type(given).__name__}", where=option, hint=hint
        )


def check_mapping(option: str, given: object, hint: str) -> None:
    """Raise `ArgumentError` if an option that takes values by name is given something else."""
    if not isinstance(given, Mapping):
        raise ArgumentError(f"expected a mapping, got {given!r}", where=option, hint=hint)


def several(option: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of an option that takes several; raise `ArgumentError` if it is given something else."""
    if isinstance(given, str):
        raise ArgumentError(f"{given!r} is one text", where=option, hint=f"Give a list: [{given!r}]")
    if not isinstance(given, Iterable):
        raise ArgumentError(f"expected a list of texts, got {given!r}", where=option)
    return tuple(given)


class CapabilityError(SyclschedError):
    """No device can run a task; the message says what each device lacks."""


class ProgramBuildError(CapabilityError):
    """A device's compiler refuses a kernel's OpenCL C or SPIR-V; the message has its log."""


# --- platforms ------------------------------------------------------------------------------------


class RuntimeMissingError(SyclschedError):
    """The SYCL runtime, or a part of it, is missing or cannot be loaded."""


class PlatformError(SyclschedError):
    """A platform cannot be used."""


class EmptyPlatformError(PlatformError):
    """No usable device is left after discovery and selection."""


class DeviceNotFoundError(PlatformError):
    """A named device is not on this machine, for instance a device of a saved plan."""


class ForkedError(PlatformError):
    """Devices were requested in a process forked from one that had loaded the SYCL runtime."""


class UntrustedDeviceError(PlatformError):
    """A device failed its known-answer test and is not used."""


class SelectionError(PlatformError):
    """A device selection cannot be parsed."""


# --- files ----------------------------------------------------------------------------------------


class FormatError(SyclschedError):
    """A file or document violates its format; names the file, the place and what is expected there."""


#: What to do about a model, if an error does not say more.
_MODEL_HINT = (
    "onnx.checker.check_model(model, full_check=True) says whether the model is valid; onnx.utils.extract_model takes "
    "the part of a model before or after a node"
)


class ModelError(FormatError):
    """A machine-learning model cannot be imported; names the model, the place in it and what is expected there."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where=where, hint=hint or _MODEL_HINT)


class OpenDimensionError(ModelError):
    """Sizes of a model's symbolic input dimensions are missing; ``names`` lists the dimensions.

    Parameters
    ----------
    what, where, hint : str
        See `SyclschedError`.
    names : tuple of str
        The symbolic dimensions, named as in the model or as ``input[axis]``.
    """

    def __init__(self, what: str, *, names: tuple[str, ...], where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where=where, hint=hint)
        self.names = names


class ValueNeededError(ModelError):
    """A shape in a model depends on the value of an input; ``inputs`` lists the inputs whose values are needed.

    Parameters
    ----------
    what, where, hint : str
        See `SyclschedError`.
    inputs : tuple of str
        Inputs of the model whose values must be given before it can be imported.
    """

    def __init__(
        self, what: str, *, inputs: tuple[str, ...], where: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.inputs = inputs


class GradientError(ModelError):
    """A model cannot be trained: an operation on the way from a parameter to the loss has no gradient."""


class StorageError(SyclschedError):
    """A file or folder cannot be read or written: it is missing, read-only or full."""


# --- plans ----------------------------------------------------------------------------------------


class PolicyError(SyclschedError):
    """A scheduling policy does not exist or cannot be used here."""


class PlanError(SyclschedError):
    """A plan must not be run."""


class RaceError(PlanError):
    """Two conflicting accesses to one array are unordered; names both tasks and the array."""


class IncompletePlanError(PlanError):
    """A plan omits, repeats or misplaces tasks, or reads data that is not present."""


class MemoryLimitError(PlanError):
    """A plan needs more memory than a space has, or an allocation failed; names the sizes.

    Parameters
    ----------
    what, where, hint : str
        See `SyclschedError`.
    space : str, optional
        The memory space in which an allocation failed.
    """

    def __init__(
        self, what: str, *, where: str | None = None, hint: str | None = None, space: str | None = None
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.space = space


class InfeasibleError(PlanError):
    """No plan that satisfies all constraints was found; names the binding ones and the smallest values found."""


# --- execution ------------------------------------------------------------------------------------


class ExecutionError(SyclschedError):
    """A run failed."""


class KernelCompilationError(ExecutionError):
    """A kernel's Python function cannot be compiled; names the line and what is not supported there."""


class TaskFailedError(ExecutionError):
    """A task failed; ``task`` is its name and ``__cause__`` the Python exception behind it, if there is one.

    Parameters
    ----------
    what, where, hint : str
        See `SyclschedError`.
    task : str or None
        The name of the task that failed; None if a run passed its deadline while none of its tasks was running.
    """

    def __init__(self, what: str, *, task: str | None, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, where=where or (None if task is None else f"task {task!r}"), hint=hint)
        self.task = task


class DeviceError(ExecutionError):
    """A device or its runtime failed; the work may succeed if repeated or moved to another device."""


class UndeclaredWriteError(TaskFailedError):
    """A task changed memory that it does not declare to write; detected with ``debug=True``."""


class NotFiniteError(TaskFailedError):
    """A task wrote a NaN or an infinity; detected with ``nan_guard=True``."""


class DeadlineError(TaskFailedError):
    """A task or a run exceeded its deadline."""


class RunCancelledError(ExecutionError):
    """The result of a cancelled run or task was requested."""


class WaitTimeoutError(ExecutionError):
    """A wait timed out before the work was done; the work continues."""


class ClusterError(ExecutionError):
    """A cluster of machines, or one of its workers, failed or cannot be used; ``worker`` names the worker.

    Parameters
    ----------
    what, where, hint : str
        See `SyclschedError`.
    worker : str, optional
        Name or address of the worker concerned.
    """

    def __init__(
        self, what: str, *, worker: str | None = None, where: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(what, where=where or (None if worker is None else f"worker {worker}"), hint=hint)
        self.worker = worker


class WorkerLostError(ClusterError):
    """A worker of a cluster ended, froze or cannot be reached."""


class MeasurementError(SyclschedError):
    """A measurement could not be made or gave no usable value."""


# --- warnings -------------------------------------------------------------------------------------


class DeclaredShapeWarning(UserWarning):
    """An input is given, or an output has, a different shape than the model declares."""


class HostOperatorWarning(UserWarning):
    """No device supports some operators of a model; they run on the host with onnx's reference implementation."""


class KernelCompilationWarning(UserWarning):
    """A kernel cannot be compiled, and other implementations of its operation are used; has the compiler's message."""


class UnseenFailureWarning(RuntimeWarning):
    """A run failed, and nothing has waited for it, asked for its results or closed it."""


class RemadeModelWarning(UserWarning):
    """A model is planned and bound anew for every value of a floating-point input, or extent of a cache that grows."""
