# SPDX-License-Identifier: Apache-2.0
"""Operations: the computation of a task, with one or more implementations and their device requirements.

An `Operation` runs on any device that one of its implementations supports. This module imports no SYCL package; an
implementation is loaded by ``Implementation.load`` when it is first compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from syclsched.errors import ArgumentError, did_you_mean
from syclsched.model.access import AccessMode
from syclsched.model.operation_parts.gradient_function import gradient_arguments
from syclsched.model.operation_parts.kernel_code import DeviceLimits, Launch, OpenCLSource, SpirvModule, Tailored
from syclsched.model.operation_parts.library_calls import Copies, NativeCall, ReadingElsewhere

__all__ = [
    "AS_GIVEN",
    "Copies",
    "DeviceLimits",
    "Form",
    "Implementation",
    "ImplementationKind",
    "Launch",
    "NativeCall",
    "OpenCLSource",
    "Operation",
    "OperationStep",
    "Parameter",
    "Prepare",
    "ReadingElsewhere",
    "Requirements",
    "Scalar",
    "Shape",
    "Signature",
    "SpirvModule",
    "Split",
    "Tailored",
    "Work",
]

if TYPE_CHECKING:
    from typing_extensions import Self

ImplementationKind = Literal["python", "numba-dpex", "opencl-c", "spirv", "library", "sequence", "host", "cost-only"]
_KINDS: Final[tuple[str, ...]] = get_args(ImplementationKind)
Shape = tuple[int, ...]
Scalar = int | float


@dataclass(frozen=True, slots=True)
class Signature:
    """Shapes, dtypes and scalars of a task's arguments.

    Parameters
    ----------
    shapes : Mapping[str, tuple[int, ...]]
        Shape of every array parameter, by parameter name.
    dtypes : Mapping[str, str]
        NumPy dtype name of every array parameter, by parameter name.
    scalars : Mapping[str, int | float]
        Value of every scalar parameter.
    constants : frozenset of str, optional
        The array parameters whose argument is a `syclsched.model.constant.Constant`.

    Examples
    --------
    >>> import syclsched
    >>> from syclsched.kernels import get
    >>> graph = syclsched.TaskGraph()
    >>> task = graph.kernel(get("scale"), x=graph.array("x", (10, 10), "float32"), alpha=2.0)
    >>> task.signature.shapes["x"], task.signature.dtypes["x"], task.signature.nbytes
    ((10, 10), 'float32', 400)
    """

    shapes: Mapping[str, Shape]
    dtypes: Mapping[str, str]
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    constants: frozenset[str] = frozenset()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, each counted once."""
        import numpy as np  # not at the start of the command line

        return sum(math.prod(shape) * np.dtype(self.dtypes[name]).itemsize for name, shape in self.shapes.items())


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
        The dtype of the operations.
    parallelism : float, optional
        Number of independent work-items; 1 for a sequential task.

    Examples
    --------
    A million fused multiply-adds in single precision on three arrays:

    >>> import syclsched
    >>> work = syclsched.Work(flops=2e6, bytes=12e6, dtype="float32")
    """

    flops: float
    bytes: float
    dtype: str = "float64"
    parallelism: float = float("inf")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation.

    Parameters
    ----------
    name : str
        Parameter name.
    mode : AccessMode or None
        Access mode of an array; None for a scalar.
    ndim : int or None, optional
        Number of dimensions an array must have; None for any.
    dtypes : tuple of str, optional
        NumPy dtype names an array may have; empty for any.
    like : str or None, optional
        For an array: another parameter whose dtype it must have. For a scalar: the array in whose dtype it is passed.
    dtype : str, optional
        For a scalar without ``like``: the dtype in which it is passed.
    default : int, float or None, optional
        For a scalar: the value where a task gives none; None if every task must give one.

    Examples
    --------
    >>> import syclsched
    >>> x = syclsched.Parameter("x", syclsched.AccessMode.READ, ndim=2, dtypes=("float32", "float64"))
    >>> alpha = syclsched.Parameter("alpha", like="x")  # a scalar, passed in the dtype of x
    >>> x.is_array, alpha.is_array
    (True, False)
    """

    name: str
    mode: AccessMode | None = None
    ndim: int | None = None
    dtypes: tuple[str, ...] = ()
    like: str | None = None
    dtype: str = "int64"
    default: Scalar | None = None

    @property
    def is_array(self) -> bool:
        """Whether the parameter is an array."""
        return self.mode is not None


@dataclass(frozen=True, slots=True)
class Requirements:
    """Device requirements of an implementation.

    Parameters
    ----------
    aspects : tuple of str, optional
        SYCL aspects that the device must have (``fp64``, ``fp16``, ...). ``fp64`` and ``fp16`` need not be listed for
        kernels that are generic over dtypes: they follow from the dtypes of the task's arrays.
    dtypes : tuple of str, optional
        Dtypes that the arrays may have; empty for any.
    backends : tuple of str, optional
        ``opencl``, ``level_zero``, ``cuda``, ``hip``; empty for any.
    device_kinds : tuple of str, optional
        ``cpu``, ``gpu``, ``accelerator``; empty for any. Implementations of kind ``host`` always run on the host device
        and leave it empty.
    packages : tuple of str, optional
        Python packages, or distributions without an import package, that must be installed.
    refuses : Callable[[Signature], str | None] or None, optional
        Returns the reason if the implementation does not support a signature (for instance a shape that a library
        lacks), else None. Called during planning, so it must be quick and must not load anything.
    backend_packages : tuple of (str, str), optional
        Pairs of a backend and a further package that must be installed for devices of that backend.
    libraries : tuple of str, optional
        Libraries that must not refuse the device (`Device.refusals`): ``oneDNN``, ``oneMKL``.

    Examples
    --------
    >>> import syclsched
    >>> only_gpus = syclsched.Requirements(device_kinds=("gpu",), aspects=("fp64",))
    >>> small = syclsched.Requirements(refuses=lambda s: "more than 1 MiB" if s.nbytes > 1 << 20 else None)
    """

    aspects: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    device_kinds: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    refuses: Callable[[Signature], str | None] | None = None
    backend_packages: tuple[tuple[str, str], ...] = ()
    libraries: tuple[str, ...] = ()


#: Transforms constants into the layout of an implementation, given the signature, a queue and their values.
Prepare = Callable[[Signature, Any, Mapping[str, Any]], Mapping[str, Any]]
#: Identifies the layout of constants that have been transformed, given the signature and a queue.
Form = Callable[[Signature, Any], Hashable]
#: The form of constants that are not transformed.
AS_GIVEN: Final = "as given"


@dataclass(frozen=True, slots=True)
class Implementation:
    """One implementation of an operation.

    Parameters
    ----------
    name : str
        Unique within the operation, for instance ``python`` or ``onemkl``.
    kind : str
        Type of the result of ``load``:

        ``python``
            a `syclsched.kernel` whose parameters are the item followed by the operation's
            parameters in order (``Item`` when the launch has no local range, else ``NdItem``). It may be a
            ``numba_dpex.kernel``; the older name ``numba-dpex`` means the same.
        ``opencl-c``
            an `OpenCLSource`; its arguments are the parameters in order, arrays as pointers
            (C-contiguous), scalars by value, a complex one as its real and its imaginary part, a half as ``ushort``.
        ``spirv``
            a `SpirvModule`, with arguments as for ``opencl-c``.
        ``library``
            ``submit(queue, arguments, depends) -> SyclEvent``: submits asynchronously to a
            ``dpctl.SyclQueue``; ``arguments`` maps parameter names to ``usm_ndarray`` or Python
            scalars; ``depends`` is a list of events; the returned event completes with the last submitted command.
            If it has a method ``native(queue, arguments) -> NativeCall``, the compiled submission loop calls that once
            per in-order queue and set of arguments, and then the returned function for every execution of the task.
            It may return a tuple of several calls, which are made one after another.
            If it has a method ``check(queue)``, that is called before anything is submitted to the queue's device, and
            raises `syclsched.errors.CapabilityError` if the library refuses it there.
            Implementations that only copy return `Copies`.
        ``sequence``
            a tuple of `syclsched.model.sequence.SequencePart`, submitted in order to one in-order queue. Made by
            `syclsched.model.sequence.sequence_operation`.
        ``host``
            ``function(**arguments)`` on NumPy arrays; writes its results in place; may raise.
        ``cost-only``
            nothing: ``load`` raises. The cost is stored in the signature; see `syclsched.model.cost_only`.
    load : Callable[[Signature], Any]
        Makes the implementation for a signature; imports the packages it needs. For kernel kinds it may return a
        `Tailored`, which makes the code for a device.
    launch : Callable[[Signature, DeviceLimits], Launch] or None
        Index space, for the kernel kinds; None for all others.
    requires : Requirements, optional
        Device requirements.
    efficiency : float, optional
        Prior estimate of the fraction of the roofline it reaches, used until it has been measured.
    revision : str, optional
        Version of the code; changed when old measurements no longer apply.
    parts : tuple of str, optional
        For an operation of several steps: the name of each step's implementation.
    prepare : callable or None, optional
        ``prepare(signature, queue, constants) -> mapping``: transforms constants (given as read-only NumPy arrays by
        parameter name), for instance into a packed layout. Returns the arguments passed in their place under the same
        names; kind ``library`` may add further names. The values are ``usm_ndarray`` of the queue's
        context, ready for use, or NumPy arrays, which are uploaded. Called once per constants, signature (or ``form``),
        implementation and device; the result is kept while it is used. Without it constants are uploaded unchanged. Not
        for kind ``host``. Arguments of a ``python`` kernel must keep their dtype and number of dimensions.
    form : callable or None, optional
        ``form(signature, queue) -> hashable``: identifies the layout that ``prepare`` would produce. Prepared constants
        are shared between all implementations and signatures with an equal form, so that weights packed alike for
        several input sizes exist once. It must identify the layout completely, and the library it belongs to.
    same_code_as : str, optional
        Name of another implementation with the same code in another language. One that has not been measured is
        expected to take as long as the other, so that it is not compiled only to be tried.

    Examples
    --------
    >>> import numpy as np
    >>> import syclsched
    >>> way = syclsched.Implementation("numpy", "host", lambda signature: lambda y, x: np.square(x, out=y))
    >>> way.is_kernel
    False
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
    form: Form | None = None
    same_code_as: str = ""

    def __repr__(self) -> str:
        return f"<Implementation {self.name!r} of kind {self.kind!r}>"

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ArgumentError(
                f"there is no implementation of kind {self.kind!r}",
                where=f"implementation {self.name!r}",
                hint=f"{did_you_mean(self.kind, _KINDS)}There are: {', '.join(_KINDS)}",
            )

    @property
    def is_kernel(self) -> bool:
        """Whether it is submitted as a kernel with an index space."""
        return self.is_python_kernel or self.kind in ("opencl-c", "spirv")

    @property
    def is_python_kernel(self) -> bool:
        """Whether it is a kernel written in Python."""
        return self.kind in ("python", "numba-dpex")


@dataclass(frozen=True, slots=True)
class Split:
    """Rules for splitting an operation into chunks of rows, each computed by the same operation.

    Parameters
    ----------
    rows : tuple of str
        The array parameters that are split along axis 0, where all have the same extent. They include all written
        arrays; every chunk reads the other array parameters whole.
    grain : Callable[[Signature], int] or None, optional
        Granularity: a chunk should have a multiple of this many rows; 1 if not given.
    scalars : Callable[[Signature, int, int], Mapping[str, int | float]] or None, optional
        Given the signature of the whole and the first and one past the last row of a chunk, returns the scalars of the
        chunk that differ from those of the whole.
    whole : Callable[[Signature], Collection[str]] or None, optional
        Given a signature, returns those of ``rows`` that every chunk still reads whole, for instance because they are
        broadcast along axis 0.
    inexact : tuple of str, optional
        Implementations not used for chunks, because the last bits of a row depend on the number of rows (libraries
        choose their blocking by it). Results must not depend on the split.

    Examples
    --------
    Rows of ``y`` depend on the same rows of ``x``, and chunks have a multiple of eight rows:

    >>> import syclsched
    >>> split = syclsched.Split(rows=("y", "x"), grain=lambda signature: 8)
    """

    rows: tuple[str, ...]
    grain: Callable[[Signature], int] | None = None
    scalars: Callable[[Signature, int, int], Mapping[str, Scalar]] | None = None
    inexact: tuple[str, ...] = ()
    whole: Callable[[Signature], Collection[str]] | None = None

    def cut(self, signature: Signature) -> tuple[str, ...]:
        """Return the array parameters that are split along axis 0."""
        if self.whole is None:
            return self.rows
        whole = self.whole(signature)
        return tuple(name for name in self.rows if name not in whole)


@dataclass(frozen=True, slots=True)
class OperationStep:
    """One step of a sequence operation.

    Parameters
    ----------
    operation : Operation
        The step's operation.
    arguments : tuple of (str, str)
        Pairs of a parameter of the step and the parameter of the sequence passed for it.
    """

    operation: Operation
    arguments: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """The computation of a task.

    Parameters
    ----------
    name : str
        Operation name, for instance ``gemm``.
    parameters : tuple of Parameter
        Parameters in the order kernels take them.
    implementations : tuple of Implementation
        At least one; of two with equal cost the earlier one is preferred.
    work : Callable[[Signature], Work]
        Returns the work of one task.
    check : Callable[[Signature], str | None] or None, optional
        Returns what is wrong with the shapes and scalars of a signature, or None; for relations between parameters that
        ``ndim``, ``dtypes`` and ``like`` cannot express.
    status : str or None, optional
        Name of a one-element int32 ``write`` parameter that a device implementation sets to 0 on success and to another
        number on failure; the run checks it before it hands out results.
    explain_status : Callable[[int], str] or None, optional
        Translates a non-zero status into a description of the error.
    split : Split or None, optional
        Rules for splitting into chunks with the same results; None if it cannot be split.
    steps : tuple of Step, optional
        Its steps, if it is a sequence of other operations; see `syclsched.model.sequence`.
    pure : bool, optional
        Whether its only effect is to write values that depend on its inputs alone, so that it may be repeated.
    variant : Callable[[Mapping[str, Any]], Operation] or None, optional
        Given the arguments of a task, returns the operation that the task gets: one with this name and these parameters
        whose access modes, implementations or rules for splitting depend on scalars, and with no ``variant``. `gemm`
        with ``beta=0`` writes ``c``, and updates it otherwise.
    gradient_function : callable or None, optional
        Its vector-Jacobian product; see `gradient`, which sets it.
    recipe : (str, Mapping[str, Any]) or None, optional
        Name and arguments of the factory in `syclsched.kernels` that made it: training knows those by name.

    Examples
    --------
    With one implementation in NumPy; the decorator `operation` writes the same from a function.

    >>> import numpy as np
    >>> import syclsched
    >>> square = syclsched.Operation(
    ...     "square",
    ...     (
    ...         syclsched.Parameter("y", syclsched.AccessMode.WRITE, like="x"),
    ...         syclsched.Parameter("x", syclsched.AccessMode.READ),
    ...     ),
    ...     (syclsched.Implementation("numpy", "host", lambda signature: lambda y, x: np.square(x, out=y)),),
    ...     work=lambda signature: syclsched.Work(signature.shapes["x"][0], signature.nbytes),
    ... )
    >>> graph = syclsched.TaskGraph()
    >>> x, y = graph.array("x", data=np.arange(3.0)), graph.array("y", (3,))
    >>> task = graph.kernel(square, y=y, x=x)
    >>> with syclsched.run(graph) as run:
    ...     print(run.result(y))
    [0. 1. 4.]
    """

    name: str
    parameters: tuple[Parameter, ...]
    implementations: tuple[Implementation, ...]
    work: Callable[[Signature], Work]
    check: Callable[[Signature], str | None] | None = None
    status: str | None = None
    explain_status: Callable[[int], str] | None = None
    split: Split | None = None
    steps: tuple[OperationStep, ...] = ()
    pure: bool = True
    variant: Callable[[Mapping[str, Any]], Operation] | None = None
    gradient_function: Callable[..., Any] | None = None
    recipe: tuple[str, Mapping[str, Any]] | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        taken = ", ".join(f"{each.name}: {each.mode.value}" if each.mode else each.name for each in self.parameters)
        ways = ", ".join(each.name for each in self.implementations)
        return f"<Operation {self.name!r} ({taken}): {ways or 'no implementation'}>"

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        """The array parameters, in order."""
        return tuple(p for p in self.parameters if p.is_array)

    def gradient(self, function: Callable[..., Any]) -> Self:
        """Return the operation with a gradient, for graphs that are trained; a decorator.

        Parameters
        ----------
        function : callable
            Returns the gradient of each array that is read or updated, in order: one value, or a tuple of several; None
            for one that is 0. What it needs are its parameters: ``dy`` is the gradient of the written array ``y``;
            ``x`` and ``y`` are the arrays themselves, an updated one as it was before the task, and ``new_x`` as it is
            after; numbers are those of the task.

            Arrays take Python's operators, functions of NumPy (``np.exp``, ``np.where``, ``np.sum``, ``@``), and calls
            of operations: ``step(y=np.empty_like(x), x=x, share=0.5)`` returns what the operation writes.

        Returns
        -------
        Operation
            The operation, which is now called as the function is.

        Raises
        ------
        ArgumentError
            If the function takes what the operation does not have.

        Examples
        --------
        >>> import syclsched
        >>> @syclsched.operation
        ... def softsign(item, y, x):
        ...     i = item.get_id(0)
        ...     y[i] = x[i] / (1 + abs(x[i]))
        >>> @softsign.gradient
        ... def softsign(dy, x):
        ...     return dy / (1 + abs(x)) ** 2
        """
        if self.variant is not None:
            raise ArgumentError(
                "which operation a task gets depends on its arguments",
                where=f"gradient of operation {self.name!r}",
                hint="Give a gradient to each of the operations that its variant returns",
            )
        gradient_arguments(self.name, {each.name: each.mode for each in self.parameters}, function)
        return replace(self, gradient_function=function)

    def __call__(self, **arguments: Any) -> Any:
        """Return what the operation writes, within a gradient; several arrays as a tuple.

        Parameters
        ----------
        **arguments : array or number
            One argument per parameter; for arrays that are written, ``np.empty_like(x)`` or
            ``np.empty_like(x, shape=...)``.

        Raises
        ------
        ArgumentError
            If it is called elsewhere: tasks of a graph are added by `TaskGraph.kernel`.
        """
        array = next((each for each in arguments.values() if hasattr(type(each), "apply")), None)
        if array is None:
            raise ArgumentError(
                "only gradients call operations",
                where=f"operation {self.name!r}",
                hint="Add a task to a graph: graph.kernel(operation, ...)",
            )
        return array.apply(self, arguments)

    def implementation(self, name: str) -> Implementation:
        """Return the implementation called ``name``.

        Raises
        ------
        KeyError
            If the operation has no such implementation.
        """
        for implementation in self.implementations:
            if implementation.name == name:
                return implementation
        raise KeyError(f"operation {self.name!r} has no implementation {name!r}")
