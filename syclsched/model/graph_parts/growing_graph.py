# SPDX-License-Identifier: Apache-2.0
"""Growth of a task graph: arrays, tasks with their bound arguments, joined arrays, and explicit edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from syclsched.errors import ArgumentError, GraphError, UnknownArrayError
from syclsched.model.graph_parts.argument_validation import (
    Argument,
    ArgumentBinder,
    as_array,
    check_data,
    declare_array,
    matches_signature,
)
from syclsched.model.graph_parts.naming import MAX_NAME_LENGTH, array_of_row_range, check_name
from syclsched.model.graph_parts.readable_graph import ReadableGraph
from syclsched.model.operation import Operation, Signature
from syclsched.model.task import JoinedArray, LogicalArray, Task
from syclsched.model.text.bulk_objects import opened_class
from syclsched.model.text.units import check_seconds
from syclsched.model.usm import UsmKind

_OPEN_TASK = opened_class(Task)


class GrowingGraph(ReadableGraph):
    """The part of `syclsched.TaskGraph` that declares arrays and adds tasks whose operation is known."""

    def __init__(self, name: str, longest_name: int = MAX_NAME_LENGTH) -> None:
        super().__init__(name)
        self._longest_name = longest_name
        # By identity of the operation, which the values keep alive.
        self._binders: dict[int, ArgumentBinder] = {}
        # By content; those of whole arrays are shared by the binders.
        self._signatures: dict[object, Signature] = {}

    def array(
        self,
        name: str,
        shape: Iterable[int] | None = None,
        dtype: Any = None,
        *,
        data: Any = None,
        like: Any = None,
        temporary: bool = False,
        usm: UsmKind | None = None,
        donated: bool = False,
    ) -> LogicalArray:
        """Declare a logical array.

        Parameters
        ----------
        name : str
            Unique within the graph.
        shape : iterable of int, optional
            Shape in elements; that of ``data`` if not given.
        dtype : dtype-like, optional
            Element type; that of ``data`` if not given, else float64.
        data : array-like, optional
            Initial value; never modified. Can also be given when the graph is run. Any array of NumPy, dpnp or dpctl,
            anything with DLPack (``__dlpack__``: PyTorch, JAX) in host memory, columns of pandas, numbers and lists;
            not copied where the host can read it.
        like : array-like or LogicalArray, optional
            Gives shape and dtype, where they are not given.
        temporary : bool, optional
            True if the value is not needed after the run.
        usm : str, optional
            Kind of USM memory: ``device``, ``shared`` or ``host``; by default chosen by the plan. Inputs in ``shared``
            and ``host`` memory are read in place if the device supports it; see the page on memory.
        donated : bool, optional
            True if tasks may overwrite the memory of the value given to a run, so that the next run can begin with what
            this one leaves. Bound plans keep it in the memory of the devices that update it (`Runner.buffer`), if that
            is one memory, and no task accesses a part of its rows.

        Returns
        -------
        LogicalArray
            A handle. ``read()``, ``write()``, ``update()`` and ``reduce()`` make accesses; ``[i:j]`` selects rows.

        Raises
        ------
        GraphError
            If the name is already used or is not a non-empty string.
        ArgumentError
            If shape and dtype are missing, invalid, or differ from ``data``, or the name is too long for plan files.

        Examples
        --------
        >>> import numpy as np
        >>> from syclsched import TaskGraph
        >>> graph = TaskGraph()
        >>> x = graph.array("x", data=np.ones((4, 2)))  # an input with a value
        >>> y = graph.array("y", (100,), "float32")  # a result, or an input whose value each run gets
        >>> x[0:2].name, y.nbytes
        ('x[0:2]', 400)
        """
        check_name(name, self._arrays, "array", self._longest_name)
        alike = array_of_row_range(name) if self._ranged else None
        if alike in self._ranged:
            raise GraphError(f"the name could be taken for rows of array {alike!r}", where=f"array {name!r}")
        if data is not None:
            data = as_array(data, f"array {name!r}")
        if like is not None:
            like = like if isinstance(like, LogicalArray) else as_array(like, f"array {name!r}")
            shape, dtype = (like.shape if shape is None else shape), (like.dtype if dtype is None else dtype)
        declared = declare_array(name, shape, dtype, data, temporary=temporary, usm=usm, donated=donated)
        if data is not None:
            check_data(declared, data)
            self._data[name] = data
        self._arrays[name] = declared
        return declared

    def insert(self, task: Task) -> Task:
        """Add an existing task unchanged, for instance one of another graph.

        Parameters
        ----------
        task : Task
            The arrays it accesses must be declared here by name, with the shapes and dtypes of its signature.

        Returns
        -------
        Task
            The same task.

        Raises
        ------
        GraphError
            If the name is already used.
        UnknownArrayError, ArgumentError
            If an array is not declared here, has been freed, or differs in shape or dtype.
        """
        where = f"task {task.name!r}"
        check_name(task.name, self._tasks, "task", self._longest_name)
        for access in task.accesses:
            self._require(access.array, where)
        for parameter, name in task.arguments.items():
            if not matches_signature(task, parameter, self._arrays[name]):
                raise ArgumentError(f"array {name!r} is not what its argument {parameter!r} takes", where=where)
        return self._append(task)

    def join(self, name: str, parts: Iterable[LogicalArray]) -> None:
        """Declare that arrays hold consecutive rows of one joined array, for whole-array inputs and results.

        An input value of the joined array is distributed over the parts by rows, without a copy. Its result is
        assembled from the parts when requested, unless an array of that name is declared.

        Parameters
        ----------
        name : str
            Name of the joined array.
        parts : iterable of LogicalArray
            At least one array of this graph; equal except for the extent along axis 0.

        Raises
        ------
        GraphError
            If the parts do not form an array, or one that differs from other arrays of that name.
        UnknownArrayError
            If a part is not declared in this graph.
        """
        given = tuple(self._require(part.name, f"join({name!r})") for part in parts)
        kinds = {(part.shape[1:], part.dtype, bool(part.shape)) for part in given}
        if len(kinds) != 1 or not given[0].shape:
            raise GraphError("the parts differ in more than their extent along axis 0", where=f"array {name!r}")
        whole = LogicalArray(name, (sum(part.shape[0] for part in given), *given[0].shape[1:]), given[0].dtype)
        other = self._arrays.get(name, next((j.whole for j in self._joined.get(name, ())), whole))
        if (other.shape, other.dtype) != (whole.shape, whole.dtype):
            raise GraphError(f"the parts make up {whole.shape}, not {other.shape}", where=f"array {name!r}")
        self._joined.setdefault(name, []).append(JoinedArray(whole, tuple(part.name for part in given)))

    def edge(self, before: Task | str, after: Task | str) -> None:
        """Add an explicit dependency between two tasks.

        Parameters
        ----------
        before, after : Task or str
            Tasks of this graph, in any order of submission.

        Raises
        ------
        GraphError
            If a task is not in the graph.

        Examples
        --------
        >>> from syclsched import TaskGraph
        >>> graph = TaskGraph()
        >>> first, second = graph.host(lambda: None, name="first"), graph.host(lambda: None, name="second")
        >>> graph.edge(first, second)
        >>> [(each.before, each.after) for each in graph.dependencies()]
        [('first', 'second')]
        """
        names = [t if isinstance(t, str) else t.name for t in (before, after)]
        for name in names:
            if name not in self._tasks:
                raise GraphError(f"no task {name!r}", where=f"edge {names[0]!r} -> {names[1]!r}")
        self._edges.append((names[0], names[1]))
        self._derived = None

    def free(self, array: LogicalArray | str) -> None:
        """Declare that no later task accesses an array and that its value is not needed after the run.

        Parameters
        ----------
        array : LogicalArray or str
            The array.

        Raises
        ------
        UnknownArrayError
            If it is not declared in this graph or already freed.
        """
        name = array if isinstance(array, str) else array.name
        self._require(name, "free()")
        self._freed[name] = len(self._tasks)

    # --- inside ---------------------------------------------------------------------------------

    def _require(self, name: str, where: str) -> LogicalArray:
        if name not in self._arrays:
            raise UnknownArrayError(
                f"array {name!r} is not declared in graph {self.name!r}",
                where=where,
                hint="Declare it with graph.array(name, shape, dtype)",
            )
        if name in self._freed:
            raise UnknownArrayError(
                f"array {name!r} was freed before", where=where, hint="Call free() after its last use"
            )
        return self._arrays[name]

    def _task_name(self, name: str | None, family: str) -> str:
        if type(name) is str and 0 < len(name) <= self._longest_name and name not in self._tasks:
            return name
        if name is None:
            index = len(self._tasks)
            while (name := f"{family}_{index}") in self._tasks:
                index += 1
        return check_name(name, self._tasks, "task", self._longest_name)

    def _append(self, task: Task) -> Task:
        if task.rows:
            self._note_ranges(task)
        self._tasks[task.name] = task
        self._derived = None
        return task

    def _note_ranges(self, task: Task) -> None:
        for name in sorted({access.array for access in task.accesses if access.rows is not None} - self._ranged):
            for other in self._arrays:
                if array_of_row_range(other) == name:
                    raise GraphError(
                        f"array {other!r} could be taken for rows of array {name!r}",
                        where=f"task {task.name!r}",
                        hint="Call one of the two arrays something else",
                    )
            self._ranged.add(name)

    def _add(
        self,
        operation: Operation,
        kind: Any,
        name: str | None,
        priority: int,
        arguments: Mapping[str, Argument],
        deadline_s: float | None = None,
        retries: int = 0,
    ) -> Task:
        name = self._task_name(name, operation.name)
        if deadline_s is not None:
            check_seconds(deadline_s, f"deadline_s of task {name!r}")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ArgumentError(f"retries={retries!r} is not a number of times", where=f"task {name!r}")
        if operation.variant is not None:
            operation = operation.variant(arguments)
        binder = self._binders.get(id(operation))
        if binder is None:
            binder = self._binders[id(operation)] = ArgumentBinder(operation)
        accesses, passed, signature, rows, constants, reshaped = binder.bind(
            arguments, self._arrays, self._freed, self._require, name
        )
        if constants or reshaped or rows:
            signature = self._shared(signature)
        task = _OPEN_TASK(
            name, kind, accesses, operation, passed, signature, priority, rows, deadline_s, retries, constants, reshaped
        )
        task.__class__ = Task
        made: Task = task
        return self._append(made)

    def _shared(self, signature: Signature) -> Signature:
        """Return the equal signature of an earlier task, so that results computed for one object apply to both.

        1 is another scalar than 1.0, and 0.0 than -0.0.
        """
        scalars = [(name, type(value), repr(value)) for name, value in signature.scalars.items()]
        key = *signature.shapes.items(), *signature.dtypes.items(), *scalars, signature.constants
        return self._signatures.setdefault(key, signature)
