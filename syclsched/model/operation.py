# SPDX-License-Identifier: Apache-2.0
"""Operations: what a task computes, with one or more implementations and what each needs of a device.

An `Operation` is described once and run anywhere one of its implementations can run. Nothing here
imports a SYCL package: an implementation is *loaded* by calling ``Implementation.load`` when it is
first compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from syclsched.model.access import AccessMode

ImplementationKind = Literal["numba-dpex", "opencl-c", "spirv", "library", "sequence", "host", "cost-only"]
Shape = tuple[int, ...]
Scalar = int | float


@dataclass(frozen=True, slots=True)
class Signature:
    """What one task passes to its operation, without the data.

    Parameters
    ----------
    shapes : Mapping[str, tuple[int, ...]]
        Shape of every array parameter, by parameter name.
    dtypes : Mapping[str, str]
        NumPy dtype name of every array parameter, by parameter name.
    scalars : Mapping[str, int | float]
        Value of every scalar parameter.
    constants : frozenset of str, optional
        The array parameters that are given a `syclsched.model.constant.Constant`.
    """

    shapes: Mapping[str, Shape]
    dtypes: Mapping[str, str]
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    constants: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one task, for the roofline cost model.

    Parameters
    ----------
    flops : float
        Floating-point (or integer) operations.
    bytes : float
        Bytes moved between the device's memory and its cores at least once (compulsory traffic).
    dtype : str
        The dtype the operations are done in.
    parallelism : float, optional
        How many work-items there are to spread over the device; 1 for a sequential task.
    """

    flops: float
    bytes: float
    dtype: str = "float64"
    parallelism: float = float("inf")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation, in the order its kernels take them.

    Parameters
    ----------
    name : str
        Parameter name.
    mode : AccessMode or None
        How an array is touched; None for a scalar.
    ndim : int or None, optional
        Number of dimensions an array must have; None for any.
    dtypes : tuple of str, optional
        NumPy dtype names an array may have; empty for any.
    like : str or None, optional
        For an array: it must have the dtype of this other parameter. For a scalar: it is passed in that
        array's dtype.
    dtype : str, optional
        For a scalar without ``like``: the dtype it is passed in.
    """

    name: str
    mode: AccessMode | None = None
    ndim: int | None = None
    dtypes: tuple[str, ...] = ()
    like: str | None = None
    dtype: str = "int64"

    @property
    def is_array(self) -> bool:
        """Whether the parameter is an array."""
        return self.mode is not None


@dataclass(frozen=True, slots=True)
class Requirements:
    """What an implementation needs of a device.

    Parameters
    ----------
    aspects : tuple of str, optional
        SYCL aspects the device must have (``fp64``, ``fp16``, ...).
        ``fp64``/``fp16`` need not be listed for a kernel that is generic over dtypes: the dtypes of the task's
        arrays add them.
    dtypes : tuple of str, optional
        The only dtypes the arrays may have; empty for any.
    backends : tuple of str, optional
        ``opencl``, ``level_zero``, ``cuda``, ``hip``; empty for any.
    device_kinds : tuple of str, optional
        ``cpu``, ``gpu``, ``accelerator``; empty for any. An implementation of kind ``host`` runs on
        the host device only and need not say so.
    packages : tuple of str, optional
        Python packages, or distributions without one, that must be installed.
    refuses : Callable[[Signature], str | None] or None, optional
        Returns why it does not take a signature: shapes or attributes a library has nothing for; None if it does. Asked
        while a plan is made, so it must be quick and must not load anything.
    backend_packages : tuple of (str, str), optional
        Backends, and the packages that must be installed besides for devices of theirs.
    """

    aspects: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    device_kinds: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    refuses: Callable[[Signature], str | None] | None = None
    backend_packages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What a launch, and code that is `Tailored`, need to know of the device they are made for.

    Of what kind the device is, `Requirements` ask.

    Parameters
    ----------
    max_work_group_size : int
        Largest work-group.
    compute_units : int
        Number of compute units.
    local_memory_bytes : int
        Local memory of a work-group.
    sub_group_sizes : tuple of int, optional
        How many work-items run in lock-step; ascending, empty where the device does not say.
    """

    max_work_group_size: int
    compute_units: int
    local_memory_bytes: int
    sub_group_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """An index space.

    Parameters
    ----------
    global_range : tuple of int
        Work-items per dimension (1 to 3 dimensions).
    local_range : tuple of int or None, optional
        Work-group size per dimension, dividing ``global_range``; None lets the runtime choose.
    """

    global_range: tuple[int, ...]
    local_range: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class OpenCLSource:
    """What ``load`` of an ``opencl-c`` implementation returns.

    Parameters
    ----------
    source : str
        OpenCL C program.
    kernel_name : str
        The kernel in it.
    options : str, optional
        Build options.
    """

    source: str
    kernel_name: str
    options: str = ""


@dataclass(frozen=True, slots=True)
class SpirvModule:
    """What ``load`` of a ``spirv`` implementation returns.

    Parameters
    ----------
    code : bytes
        SPIR-V module.
    kernel_name : str
        The kernel in it.
    """

    code: bytes
    kernel_name: str


@dataclass(frozen=True, slots=True)
class Tailored:
    """What ``load`` of a kernel returns whose code depends on the device: sizes of work-groups, and of what they share.

    Parameters
    ----------
    of : Callable[[DeviceLimits], Any]
        Given the device's limits, returns what ``load`` returns otherwise. The launch must agree with it.
    """

    of: Callable[[DeviceLimits], Any]


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A function of a library that is called from the compiled submission loop, without Python.

    The function submits its work to the in-order queue it was made for, and returns at once. It takes up to six machine
    words and returns an ``int32_t``: 0 if all went well.

    Parameters
    ----------
    function : int
        Its address.
    arguments : tuple of int
        What it is called with: numbers and addresses.
    keep : object
        Whatever must stay alive for as long as it may be called, and until its work has completed.
    explain : Callable[[int], str] or None, optional
        Turns what it returned, other than 0, into what went wrong.
    event : int or None, optional
        Which argument takes the address of a ``sycl::event`` that the function assigns (oneDNN's ``return_event``): it
        stands for the call's work. Without it fences are put before and behind the call, which cost more.
    on_queue : bool, optional
        Whether its work gets into the native queue behind the SYCL queue, as kernels do. False for host tasks, which
        threads of the SYCL runtime's do: oneDNN's primitives on CPU devices. What follows other work on its lane is
        then submitted once that has ended.
    reading_elsewhere : Callable[[int], ReadingElsewhere or None] or None, optional
        Given the address of an array that it only reads, returns a call that reads it wherever it is told to; None if
        there is none.
    """

    function: int
    arguments: tuple[int, ...]
    keep: Any
    explain: Callable[[int], str] | None = None
    event: int | None = None
    on_queue: bool = False
    reading_elsewhere: Callable[[int], ReadingElsewhere | None] | None = None


@dataclass(frozen=True, slots=True)
class ReadingElsewhere:
    """A call that does what another does, and can be told where in the host's reach one of the arrays it reads lies.

    Parameters
    ----------
    call : NativeCall
        The call.
    move : int
        Address of a function that is given ``moved`` and the address of the array, before the call is made. It returns
        an ``int32_t``: 0 if all went well.
    moved : int
        A word.
    """

    call: NativeCall
    move: int
    moved: int


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies within a memory space, one after another: what an implementation of kind ``library`` may load.

    Parameters
    ----------
    of : Callable[[Mapping[str, Any]], Sequence[tuple[Any, Any, int]]]
        Given the arguments, returns where to, where from (USM memory) and how many bytes, for each copy; at least one.
    """

    of: Callable[[Mapping[str, Any]], Sequence[tuple[Any, Any, int]]]

    def __call__(self, queue: Any, arguments: Mapping[str, Any], depends: list[Any]) -> Any:
        """Submit them as a library does; see `Implementation`."""
        for to, source, nbytes in self.of(arguments):
            # One after another, whatever kind of queue it is: the last event stands for all.
            depends = [queue.memcpy_async(to, source, nbytes, depends)]
        return depends[0]


#: Makes constants what an implementation wants in their place: given the signature, a queue and their values.
Prepare = Callable[[Signature, Any, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to do an operation.

    Parameters
    ----------
    name : str
        Unique within the operation, for instance ``numba-dpex`` or ``onemkl``.
    kind : str
        What ``load`` returns:

        ``numba-dpex``
            a ``numba_dpex.kernel`` whose parameters are the item followed by the operation's
            parameters in order (``Item`` when the launch has no local range, else ``NdItem``).
        ``opencl-c``
            an `OpenCLSource`; its arguments are the parameters in order, arrays as pointers
            (C-contiguous), scalars by value.
        ``spirv``
            a `SpirvModule`, with arguments as for ``opencl-c``.
        ``library``
            ``submit(queue, arguments, depends) -> SyclEvent``: submits asynchronously to a
            ``dpctl.SyclQueue``; ``arguments`` maps parameter names to ``dpctl.tensor.usm_ndarray`` or Python
            scalars; ``depends`` is a list of events; the returned event completes with the last piece of work.
            If it has a method ``native(queue, arguments) -> NativeCall``, that is asked once for each in-order queue
            and set of arguments, and what it returns is called instead, as often as the task is done, wherever the
            compiled loop submits. What is nothing but copies is `Copies`.
        ``sequence``
            a tuple of `syclsched.model.sequence.Part`: submitted one after another to one in-order queue. Made by
            `syclsched.model.sequence.sequence_operation`.
        ``host``
            ``function(**arguments)`` on NumPy arrays; writes its results in place; may raise.
        ``cost-only``
            nothing: ``load`` raises. What a task takes stands in its signature; see `syclsched.model.costonly`.
    load : Callable[[Signature], Any]
        Makes the implementation for a signature; imports what it needs. Of the kernel kinds it may return a `Tailored`,
        which makes it for a device.
    launch : Callable[[Signature, DeviceLimits], Launch] or None
        Index space, for the kernel kinds; None for all others.
    requires : Requirements, optional
        What it needs of a device.
    efficiency : float, optional
        Prior guess of the fraction of the roofline it reaches, used until it has been measured.
    revision : str, optional
        Changed whenever the code changes enough that old measurements no longer hold.
    parts : tuple of str, optional
        For an operation of several steps: the name of the implementation of each.
    prepare : callable or None, optional
        ``prepare(signature, queue, constants) -> mapping``: given the values of the parameters that are constants
        (read-only NumPy arrays), returns what is passed in their place: under the same names, and for kind
        ``library`` any others besides, ``dpctl.tensor.usm_ndarray`` of the queue's context, ready to be used, or NumPy
        arrays, which are uploaded. Done once for the same constants, signature, implementation and device, and kept for
        as long as something uses it. Without it constants are uploaded as they are. Not for kind ``host``. What a
        ``numba-dpex`` kernel is passed must keep its dtype and number of dimensions.
    form : callable or None, optional
        ``form(signature, queue) -> hashable`` says what ``prepare`` would make: what was made of the same constants is
        shared wherever this is equal, whatever the implementation and the rest of the signature. So weights that are
        packed alike for several sizes of the input are there once. It must name the layout in full, and who it is for.
    """

    name: str
    kind: ImplementationKind
    load: Callable[[Signature], Any]
    launch: Callable[[Signature, DeviceLimits], Launch] | None = None
    requires: Requirements = field(default_factory=Requirements)
    efficiency: float = 0.3
    revision: str = "1"
    parts: tuple[str, ...] = ()
    prepare: Prepare | None = None
    form: Callable[[Signature, Any], Hashable] | None = None

    @property
    def is_kernel(self) -> bool:
        """Whether it is submitted as a kernel with an index space."""
        return self.kind in ("numba-dpex", "opencl-c", "spirv")


@dataclass(frozen=True, slots=True)
class Split:
    """How an operation can be cut into chunks of rows, each done by the same operation on the chunk's arrays.

    Parameters
    ----------
    rows : tuple of str
        The array parameters that are cut along axis 0; all have the same extent there. Everything that is written is
        among them; array parameters that are not are read whole by every chunk.
    grain : Callable[[Signature], int] or None, optional
        Rows a chunk should have a multiple of, and at least; 1 if not given.
    scalars : Callable[[Signature, int, int], Mapping[str, int | float]] or None, optional
        Given the signature of the whole and the first and one past the last row of a chunk, the scalars of the chunk
        that differ from those of the whole.
    whole : Callable[[Signature], Collection[str]] or None, optional
        Given a signature, those of ``rows`` that every chunk reads whole all the same, for instance because they are
        broadcast along axis 0.
    inexact : tuple of str, optional
        Implementations that no chunk is done by, because what they give for a row depends, in its last bits, on how
        many rows there are: libraries choose their blocking so. A result must not depend on how work is dealt out.
    """

    rows: tuple[str, ...]
    grain: Callable[[Signature], int] | None = None
    scalars: Callable[[Signature, int, int], Mapping[str, Scalar]] | None = None
    inexact: tuple[str, ...] = ()
    whole: Callable[[Signature], Collection[str]] | None = None

    def cut(self, signature: Signature) -> tuple[str, ...]:
        """Return the array parameters that are cut along axis 0."""
        if self.whole is None:
            return self.rows
        whole = self.whole(signature)
        return tuple(name for name in self.rows if name not in whole)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an operation that consists of several.

    Parameters
    ----------
    operation : Operation
        What the step computes.
    arguments : tuple of (str, str)
        For each of its parameters, the parameter of the whole that is passed.
    """

    operation: Operation
    arguments: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """What a task computes.

    Parameters
    ----------
    name : str
        Operation name, for instance ``gemm``.
    parameters : tuple of Parameter
        Parameters in the order kernels take them.
    implementations : tuple of Implementation
        At least one; ties in cost go to the earlier one.
    work : Callable[[Signature], Work]
        The work of one task.
    check : Callable[[Signature], str | None] or None, optional
        Returns what is wrong with the shapes and scalars of a signature (relations between parameters that
        ``ndim``, ``dtypes`` and ``like`` cannot say), or None.
    status : str or None, optional
        Name of a one-element int32 ``write`` parameter that a device implementation sets to 0 on success and to another
        number on failure; the run reads it before results are given out.
    explain_status : Callable[[int], str] or None, optional
        Turns a non-zero status into what went wrong.
    split : Split or None, optional
        How it can be cut into chunks that compute the same; None if it cannot.
    steps : tuple of Step, optional
        What it consists of, if it is a sequence of other operations; see `syclsched.model.sequence`.
    pure : bool, optional
        Whether it does nothing but write what follows from what it reads, so that doing it again does no harm.
    """

    name: str
    parameters: tuple[Parameter, ...]
    implementations: tuple[Implementation, ...]
    work: Callable[[Signature], Work]
    check: Callable[[Signature], str | None] | None = None
    status: str | None = None
    explain_status: Callable[[int], str] | None = None
    split: Split | None = None
    steps: tuple[Step, ...] = ()
    pure: bool = True

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        """The array parameters, in order."""
        return tuple(p for p in self.parameters if p.is_array)

    def implementation(self, name: str) -> Implementation:
        """Return the implementation called ``name``.

        Raises
        ------
        KeyError
            If there is none.
        """
        for implementation in self.implementations:
            if implementation.name == name:
                return implementation
        raise KeyError(f"operation {self.name!r} has no implementation {name!r}")
