# SPDX-License-Identifier: Apache-2.0
"""The decorator that makes an operation from a function, and operations to which implementations are added."""

from __future__ import annotations

import hashlib
import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any, Final, overload

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.kernel_compiler.kernel_api import Item, NdItem
from syclsched.kernel_compiler.python_kernel import PythonKernel, kernel
from syclsched.model.access import AccessMode
from syclsched.model.graph_parts.annotations import ArrayAnnotation, annotations_of, array_annotation, shape_error
from syclsched.model.graph_parts.builtin_operations import revision_of
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Parameter,
    Requirements,
    Signature,
    Work,
)
from syclsched.model.platform import OPENCL_C
from syclsched.operations.kernel_source import KernelSource, access_modes

#: An index space: the name of an array whose shape it is, a shape, or a function of the arguments that returns one.
IndexSpace = str | tuple[int, ...] | Callable[..., Any]
#: Work of a task: operations of one work-item, or a function of the arguments that returns `Work`.
WorkEstimate = float | Callable[..., Work]

_SCALARS: Final = {int: "int64", float: "float64", bool: "bool", complex: "complex128"}
#: Names of a first parameter that make a function a kernel, if it has no annotation.
_ITEMS: Final = ("item", "nd_item")
_KERNEL_NAME: Final = re.compile(r"\b(?:__)?kernel\b[^(]*?\b(\w+)\s*\(", re.DOTALL)
_ANY_DEVICE: Final = DeviceLimits(256, 1, 1 << 15)


@dataclass(repr=False, frozen=True, slots=True)
class DefinedOperation(Operation):
    """An operation made by `operation`. Its methods return it with one more implementation.

    Parameters
    ----------
    index_space : Callable[[Signature, DeviceLimits], Launch]
        Index space of its kernels.
    """

    index_space: Callable[[Signature, DeviceLimits], Launch] | None = None

    def opencl(
        self,
        source: str,
        *,
        kernel_name: str | None = None,
        options: str = "",
        name: str = "opencl-c",
        requires: Requirements | None = None,
    ) -> DefinedOperation:
        """Return the operation with a kernel in OpenCL C.

        Parameters
        ----------
        source : str
            The program. Its kernel takes the parameters in order: arrays as pointers, numbers by value, in the dtypes
            of the operation. ``get_global_id(0)`` is the index along axis 0.
        kernel_name : str, optional
            Name of the kernel; that of the only one in the program if not given.
        options : str, optional
            Build options, such as ``-cl-fast-relaxed-math``.
        name : str, optional
            Name of the implementation.
        requires : Requirements, optional
            Device requirements; by default a device that takes OpenCL C.

        Raises
        ------
        ArgumentError
            If the program has no kernel, or several and no name is given.
        """
        found = _KERNEL_NAME.findall(re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL))
        where = f"operation {self.name!r}"
        if kernel_name is None and len(found) != 1:
            said = "no kernel" if not found else f"the kernels {', '.join(found)}"
            raise ArgumentError(f"the OpenCL C program has {said}", where=where, hint="Give kernel_name=")
        if kernel_name is not None and kernel_name not in found:
            raise ArgumentError(f"the OpenCL C program has no kernel {kernel_name!r}", where=where)
        code = OpenCLSource(source, kernel_name or found[0], options)
        needed = requires or OPENCL_C
        return self._with(
            Implementation(name, "opencl-c", lambda _: code, self.index_space, needed, revision=_digest(code))
        )

    def kernel(self, function: Callable[..., None] | PythonKernel, *, name: str = "python") -> DefinedOperation:
        """Return the operation with a kernel in Python, whose parameters are the work-item and the operation's."""
        made = function if isinstance(function, PythonKernel) else kernel(function)
        self._check_parameters(list(inspect.signature(made.function).parameters)[1:], made.name)
        return self._with(
            Implementation(name, "python", lambda _: made, self.index_space, revision=revision_of(made.function))
        )

    def host(self, function: Callable[..., Any], *, name: str = "numpy") -> DefinedOperation:
        """Return the operation with a function that is called on the host with NumPy arrays, by parameter name.

        It writes its results into its arrays in place.
        """
        self._check_parameters(list(inspect.signature(function).parameters), _name_of(function))
        return self._with(Implementation(name, "host", lambda _: function, revision=revision_of(function)))

    def numba(self, function: Callable[..., Any], *, name: str = "numba") -> DefinedOperation:
        """Return the operation with a function that numba compiles for the host when it is first needed.

        It runs without Python's lock, beside other tasks of the host.
        """
        self._check_parameters(list(inspect.signature(function).parameters), _name_of(function))
        compiled: list[Any] = []

        def load(signature: Signature) -> Any:
            if not compiled:
                import numba

                compiled.append(numba.njit(nogil=True)(function))
            # In the order of the parameters, and numbers in the dtypes in which kernels get them.
            numbers = {
                each.name: np.dtype(signature.dtypes[each.like] if each.like else each.dtype).type
                for each in self.parameters
                if not each.is_array
            }
            names = [each.name for each in self.parameters]
            return lambda **arguments: compiled[0](
                *(numbers[each](arguments[each]) if each in numbers else arguments[each] for each in names)
            )

        return self._with(Implementation(name, "host", load, revision=revision_of(function)))

    def library(
        self, submit: Callable[..., Any], *, name: str = "library", requires: Requirements | None = None
    ) -> DefinedOperation:
        """Return the operation with a library call: ``submit(queue, arguments, depends)`` returns an event.

        See kind ``library`` of `syclsched.Implementation`.
        """
        needed, revision = requires or Requirements(), revision_of(submit)
        return self._with(Implementation(name, "library", lambda _: submit, None, needed, revision=revision))

    def _with(self, implementation: Implementation) -> DefinedOperation:
        if any(each.name == implementation.name for each in self.implementations):
            raise ArgumentError(
                f"there is an implementation {implementation.name!r} already",
                where=f"operation {self.name!r}",
                hint="Give another one: name=",
            )
        return replace(self, implementations=(*self.implementations, implementation))

    def _check_parameters(self, given: list[str], function: str) -> None:
        wanted = [parameter.name for parameter in self.parameters]
        if given != wanted:
            raise ArgumentError(
                f"{function} takes {', '.join(given) or 'nothing'}, not {', '.join(wanted)}",
                where=f"operation {self.name!r}",
            )


@overload
def operation(function: Callable[..., None] | PythonKernel, /) -> DefinedOperation: ...


@overload
def operation(
    *,
    name: str | None = ...,
    over: IndexSpace | None = ...,
    group: tuple[int, ...] | None = ...,
    work: WorkEstimate | None = ...,
    pure: bool = ...,
) -> Callable[[Callable[..., None] | PythonKernel], DefinedOperation]: ...


def operation(
    function: Callable[..., None] | PythonKernel | None = None,
    /,
    *,
    name: str | None = None,
    over: IndexSpace | None = None,
    group: tuple[int, ...] | None = None,
    work: WorkEstimate | None = None,
    pure: bool = True,
) -> Any:
    """Make an operation from a function: a decorator, with or without options.

    Parameters
    ----------
    function : function or PythonKernel
        A kernel in Python, whose first parameter is the work-item, called ``item`` or annotated with `Item` or
        `NdItem`; else a function for the host. Its other parameters are the operation's.

        An array parameter may be annotated with `Read`, `Write`, `Update` or `Reduce`. Without an annotation the mode
        follows from the kernel's code: an array that is only read is read; one whose element of its own index every
        work-item writes is written; any other that is written is updated. A number without an annotation is passed in
        the dtype of the first array, ``int``, ``float`` and NumPy's types say another.
    name : str, optional
        Name of the operation; the function's if not given.
    over : str, tuple of int or callable, optional
        Index space of kernels: the array with its shape, a shape, or a function that is called with the arguments it
        names (arrays have ``shape``, ``size``, ``ndim`` and ``dtype``) and returns a shape or a `Launch`. By default
        the shape of the first array that is written, else of the first.
    group : tuple of int, optional
        Work-group size. The index space is rounded up to its multiple; a kernel must leave out what lies beyond.
    work : float or callable, optional
        Operations of one work-item, or a function of the arguments that returns `Work`. By default they are counted in
        the code; measured times replace them.
    pure : bool, optional
        Whether its only effect is to write values that depend on its inputs alone.

    Returns
    -------
    DefinedOperation
        For `TaskGraph.kernel`. Its methods ``opencl``, ``kernel``, ``host``, ``numba`` and ``library`` return it with
        one more implementation.

    Raises
    ------
    ArgumentError
        If the mode of a parameter or the index space does not follow from the code.

    Examples
    --------
    >>> import syclsched
    >>> @syclsched.operation
    ... def rectify(item, x: syclsched.Update, slope):
    ...     i = item.get_id(0)
    ...     if x[i] < 0:
    ...         x[i] = slope * x[i]
    >>> [(parameter.name, parameter.mode) for parameter in rectify.parameters]
    [('x', <AccessMode.UPDATE: 'update'>), ('slope', None)]
    """
    make = partial(_define, name=name, over=over, group=group, work=work, pure=pure)
    return make if function is None else make(function)


def _define(
    function: Callable[..., None] | PythonKernel,
    name: str | None,
    over: IndexSpace | None,
    group: tuple[int, ...] | None,
    work: WorkEstimate | None,
    pure: bool,
) -> DefinedOperation:
    given = function.function if isinstance(function, PythonKernel) else function
    if not isinstance(given, FunctionType):
        raise ArgumentError(f"operation decorates a Python function, not {type(function).__name__}")
    annotations = annotations_of(given)
    names = list(inspect.signature(given).parameters)
    is_kernel = isinstance(function, PythonKernel) or _takes_item(names, annotations)
    names = names[1:] if is_kernel else names
    arrays = {each: found for each in names if (found := array_annotation(annotations.get(each))) is not None}
    source = KernelSource.of(given)
    parameters = _parameters(given, names, annotations, arrays, source, is_kernel)
    label = name or given.__name__
    index_space = _index_space(label, parameters, over, group)
    written_whole = [each.name for each in parameters if each.mode is AccessMode.WRITE and each.name not in arrays]

    def check(signature: Signature) -> str | None:
        wrong = shape_error(arrays, signature)
        if wrong is not None or not written_whole:
            return wrong
        items = index_space(signature, _ANY_DEVICE).global_range
        for each in written_whole:
            if group is None and signature.shapes[each] != items:
                return f"the work-items {items} do not write all of {each}, whose shape is {signature.shapes[each]}"
        return None

    made = DefinedOperation(
        name=label,
        parameters=parameters,
        implementations=(),
        work=_work(label, parameters, index_space if is_kernel else None, work, source if is_kernel else None),
        check=check,
        pure=pure,
        index_space=index_space,
    )
    return made.kernel(function) if is_kernel else made.host(given)


def _takes_item(names: list[str], annotations: Mapping[str, Any]) -> bool:
    if not names:
        return False
    annotation = annotations.get(names[0])
    if annotation is None or annotation is Any or isinstance(annotation, str):
        return names[0] in _ITEMS
    return isinstance(annotation, type) and issubclass(annotation, (Item, NdItem))


def _parameters(
    function: FunctionType,
    names: list[str],
    annotations: Mapping[str, Any],
    arrays: Mapping[str, ArrayAnnotation],
    source: KernelSource | None,
    is_kernel: bool,
) -> tuple[Parameter, ...]:
    scalars = {each: dtype for each in names if (dtype := _scalar_dtype(annotations.get(each))) is not None}
    modes: Mapping[str, tuple[AccessMode, int | None] | None] = {}
    if is_kernel:
        modes = access_modes(source, frozenset((*arrays, *scalars)), function)
    else:
        for each in names:
            if each not in arrays and each not in scalars:
                raise ArgumentError(
                    f"parameter {each!r} of a function for the host says neither mode nor type",
                    where=f"operation {function.__name__!r}",
                    hint=f"Annotate it: {each}: syclsched.Read, Write, Update or Reduce; a number: {each}: float",
                )
    like = next((each for each in names if each in arrays or modes.get(each) is not None), None)
    found = []
    for each in names:
        annotation, inferred = arrays.get(each), modes.get(each)
        if annotation is not None:
            ndim = None if annotation.shape is None else len(annotation.shape)
            found.append(Parameter(each, annotation.mode, ndim=ndim, dtypes=annotation.dtypes))
        elif inferred is not None:
            found.append(Parameter(each, inferred[0], ndim=inferred[1]))
        elif each in scalars or like is None:
            found.append(Parameter(each, dtype=scalars.get(each, "float64")))
        else:
            found.append(Parameter(each, like=like))
    return tuple(found)


def _scalar_dtype(annotation: Any) -> str | None:
    if isinstance(annotation, type) and issubclass(annotation, np.generic):
        return np.dtype(annotation).name
    return _SCALARS.get(annotation) if isinstance(annotation, type) else None


def _index_space(
    label: str, parameters: tuple[Parameter, ...], over: IndexSpace | None, group: tuple[int, ...] | None
) -> Callable[[Signature, DeviceLimits], Launch]:
    where = f"operation {label!r}"
    arrays = [each for each in parameters if each.is_array]
    whole = [each for each in arrays if each.mode in (AccessMode.WRITE, AccessMode.UPDATE)]
    of = over if over is not None else next((each.name for each in (*whole, *arrays)), (1,))
    if isinstance(of, str) and of not in [each.name for each in arrays]:
        raise ArgumentError(
            f"over={of!r} is no array of the operation",
            where=where,
            hint=f"Arrays: {', '.join(a.name for a in arrays)}",
        )
    named = _names_taken(of, parameters, where) if callable(of) else ()

    def index_space(signature: Signature, limits: DeviceLimits) -> Launch:
        if callable(of):
            space = of(**{name: _described(signature, name) for name in named})
        else:
            space = signature.shapes[of] if isinstance(of, str) else of
        if isinstance(space, Launch):
            return space
        extents = tuple(map(int, space)) if isinstance(space, (tuple, list)) else (int(space),)
        if len(extents) > 3:
            raise ArgumentError(
                f"an index space has up to 3 dimensions, not {extents}",
                where=where,
                hint="Give another one: over=lambda x: x.size",
            )
        if group is not None:
            if len(group) != len(extents):
                raise ArgumentError(f"group={group} does not fit the index space {extents}", where=where)
            extents = tuple(-(-extent // size) * size for extent, size in zip(extents, group, strict=True))
        return Launch(extents or (1,), group)

    return index_space


def _work(
    label: str,
    parameters: tuple[Parameter, ...],
    index_space: Callable[[Signature, DeviceLimits], Launch] | None,
    given: WorkEstimate | None,
    source: KernelSource | None,
) -> Callable[[Signature], Work]:
    arrays = [each for each in parameters if each.is_array]
    first = next((each.name for each in arrays if each.mode is not AccessMode.READ), None)
    named = _names_taken(given, parameters, f"operation {label!r}") if callable(given) else ()

    def work(signature: Signature) -> Work:
        if callable(given):
            return given(**{name: _described(signature, name) for name in named})
        if index_space is not None:
            items = math.prod(index_space(signature, _ANY_DEVICE).global_range)
        else:  # on the host, where arrays may have any number of dimensions
            items = math.prod(signature.shapes[first or arrays[0].name]) if arrays else 1
        if given is not None:
            each = float(given)
        elif source is not None:
            each = source.arithmetic({p.name: _described(signature, p.name) for p in parameters})
        else:
            each = 1.0
        moved = 0.0
        for parameter in arrays:
            count = math.prod(signature.shapes[parameter.name])
            twice = parameter.mode in (AccessMode.UPDATE, AccessMode.REDUCE)
            moved += count * np.dtype(signature.dtypes[parameter.name]).itemsize * (2 if twice else 1)
        dtype = "float64" if first is None else signature.dtypes[first]
        return Work(flops=each * items, bytes=moved, dtype=dtype, parallelism=max(1.0, float(items)))

    return work


def _described(signature: Signature, name: str) -> Any:
    """Return a number, or an array's shape and dtype."""
    if name in signature.scalars:
        return signature.scalars[name]
    shape = signature.shapes[name]
    dtype = np.dtype(signature.dtypes[name])
    return SimpleNamespace(shape=shape, size=math.prod(shape), ndim=len(shape), dtype=dtype)


def _names_taken(function: Callable[..., Any], parameters: tuple[Parameter, ...], where: str) -> tuple[str, ...]:
    taken = tuple(inspect.signature(function).parameters)
    known = [each.name for each in parameters]
    for name in taken:
        if name not in known:
            raise ArgumentError(
                f"{_name_of(function)} takes {name!r}, which is no parameter",
                where=where,
                hint=f"Parameters: {', '.join(known)}",
            )
    return taken


def _digest(code: OpenCLSource) -> str:
    """Return a digest that identifies a program, so that different ones do not share measurements."""
    return hashlib.sha256(repr((code.source, code.kernel_name, code.options)).encode()).hexdigest()[:12]


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "the function").replace("<lambda>", "the function")
