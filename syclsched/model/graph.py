# SPDX-License-Identifier: Apache-2.0
"""The task graph as it is built: logical arrays, tasks in order of submission, and explicit edges."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError, GraphError, UnknownArrayError
from syclsched.model.access import Access, AccessMode
from syclsched.model.adhoc import copy_operation, host_operation
from syclsched.model.binding import Argument, bind, check_data, declare, takes
from syclsched.model.constant import Constant
from syclsched.model.contents import Contents
from syclsched.model.naming import LONGEST_NAME, check_name, like_rows_of
from syclsched.model.operation import Implementation, Operation
from syclsched.model.task import ArrayRows, Joined, LogicalArray, ReshapedArray, Task
from syclsched.model.units import check_seconds
from syclsched.model.usm import UsmKind


class TaskGraph(Contents):
    """Tasks and the arrays they touch.

    Tasks are added in the order a sequential program would run them; what each of them reads and
    writes gives the dependencies (RAW, WAR, WAW), as in StarPU, CUDASTF and Parla. Explicit edges can be
    added. A graph only grows: nothing that was added changes afterwards.

    Parameters
    ----------
    name : str, optional
        Shown in plans, traces and charts.
    longest_name : int, optional
        How many characters names of arrays and tasks may have; more for a graph that is made from another.

    Examples
    --------
    >>> from syclsched import TaskGraph
    >>> graph = TaskGraph("squares")
    >>> x = graph.array("x", (4,), "float64")
    >>> y = graph.array("y", (4,), "float64")
    >>> task = graph.host(lambda x, y: y.__setitem__(slice(None), x * x), x=x.read(), y=y.write(), name="square")
    >>> [t.name for t in graph.tasks]
    ['square']

    A task can be given some rows of an array (``x[0:2]``). It then touches only these: tasks that touch other rows
    neither wait for it nor does it wait for them.
    """

    def __init__(self, name: str = "graph", *, longest_name: int = LONGEST_NAME) -> None:
        super().__init__(name)
        self._longest_name = longest_name

    # --- building ---------------------------------------------------------------------------------

    def array(
        self,
        name: str,
        shape: Iterable[int] | None = None,
        dtype: Any = None,
        *,
        data: Any = None,
        temporary: bool = False,
        usm: UsmKind | None = None,
    ) -> LogicalArray:
        """Declare a logical array.

        Parameters
        ----------
        name : str
            Unique within the graph.
        shape : iterable of int, optional
            Shape in elements; taken from ``data`` if not given.
        dtype : dtype-like, optional
            Element type; taken from ``data``, else float64.
        data : array-like, optional
            Initial value (NumPy, dpnp or usm_ndarray); it is never written to. Can also be given when the graph is run.
        temporary : bool, optional
            True if the value is not asked for after the run.
        usm : str, optional
            ``device``, ``shared`` or ``host``: the kind of USM memory it is to lie in, instead of what plans choose.
            Of ``shared`` and ``host`` inputs are read in place, where the device allows: see the page on memory.

        Returns
        -------
        LogicalArray
            A handle whose ``read()``, ``write()``, ``update()`` and ``reduce()`` say how a task touches it, and of
            which ``[i:j]`` takes some rows.

        Raises
        ------
        GraphError
            If the name is taken or is not a non-empty string.
        ArgumentError
            If shape and dtype are missing, impossible, or contradict ``data``, or the name is too long for plan files.
        """
        check_name(name, self._arrays, "array", self._longest_name)
        alike = like_rows_of(name) if self._ranged else None
        if alike in self._ranged:
            raise GraphError(f"the name could be taken for rows of array {alike!r}", where=f"array {name!r}")
        if data is not None and (not hasattr(data, "shape") or not hasattr(data, "dtype")):
            data = np.asarray(data)
        declared = declare(name, shape, dtype, data, temporary=temporary, usm=usm)
        if data is not None:
            check_data(declared, data)
            self._data[name] = data
        self._arrays[name] = declared
        return declared

    def kernel(
        self,
        operation: Operation,
        *,
        name: str | None = None,
        priority: int = 0,
        deadline_s: float | None = None,
        retries: int = 0,
        **arguments: Argument,
    ) -> Task:
        """Add a task that runs an operation on whatever device the plan chooses.

        Parameters
        ----------
        operation : Operation
            What to compute.
        name : str, optional
            Unique task name; made from the operation's name if not given.
        priority : int, optional
            Larger runs earlier among equals.
        deadline_s : float, optional
            Seconds it may take once it runs. If it takes longer it fails with a `DeadlineError` and what depends on it
            is cancelled, although a kernel that was submitted goes on to its end.
        retries : int, optional
            How often the task is tried again if it fails by itself: its host function raises, or its status says so.
            What it writes in place has its old value each time. When a device or its runtime fails, that is not the
            task's fault, and needs no retries: see ``recover`` of `syclsched.run`.
        **arguments : LogicalArray, ArrayRows, ReshapedArray, Access, Constant or scalar
            One argument per parameter of the operation. Of ``x[0:100]`` the task touches those rows only, and gets
            them as an array of their own, without a copy; ``x.reshaped((8, -1))`` is the same elements under another
            shape. What is only read can be a `syclsched.constant`.

        Returns
        -------
        Task
            The new task.

        Raises
        ------
        ArgumentError
            If a parameter is missing or unknown, there are no such rows, or a shape, dtype or access mode does not fit.
        UnknownArrayError
            If an array is not declared here or has been freed.
        """
        return self._add(operation, "kernel", name, priority, arguments, deadline_s, retries)

    def host(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        priority: int = 0,
        flops: float = 0.0,
        pure: bool = False,
        deadline_s: float | None = None,
        retries: int = 0,
        **arguments: Argument,
    ) -> Task:
        """Add a task that calls a Python function on the host, on NumPy arrays.

        Parameters
        ----------
        function : callable
            Called with the arguments by name; writes results in place into its arrays.
        name, priority, deadline_s
            See `kernel`.
        flops : float, optional
            Its work, for the cost model.
        pure : bool, optional
            True if the function does nothing but write what follows from what it reads: then a plan that is short of
            memory may call it again for a value that was given up.
        retries : int, optional
            How often the function is called again if it raises; see `kernel`.
        **arguments : Access, Constant or scalar
            ``x=x.read()``, ``y=y[0:100].write()``, ``z=z.reshaped((8, -1)).read()``, ``alpha=2.0``.

        Returns
        -------
        Task
            The new task.
        """
        modes: dict[str, AccessMode | None] = {}
        for key, value in arguments.items():
            if isinstance(value, Constant):
                modes[key] = AccessMode.READ
                continue
            if isinstance(value, (LogicalArray, ArrayRows, ReshapedArray)):
                raise ArgumentError(
                    f"argument {key!r} does not say how the array is touched",
                    where=f"host task {name or getattr(function, '__name__', 'host')!r}",
                    hint=f"Write {key}={value.name}.read(), .write() or .update()",
                )
            modes[key] = value.mode if isinstance(value, Access) else None
        operation = host_operation(function, modes, flops, pure=pure)
        return self._add(operation, "host", name, priority, arguments, deadline_s, retries)

    def copy(
        self,
        source: LogicalArray | ArrayRows | ReshapedArray | Constant,
        destination: LogicalArray | ArrayRows | ReshapedArray,
        *,
        name: str | None = None,
    ) -> Task:
        """Add a task that copies one array into another of the same shape and dtype.

        Parameters
        ----------
        source, destination : LogicalArray, ArrayRows or ReshapedArray
            From where to where; the source may be a constant, too.
        name : str, optional
            Unique task name.

        Returns
        -------
        Task
            The new task.
        """
        return self._add(copy_operation(), "copy", name, 0, {"source": source, "destination": destination})

    def barrier(self, *, name: str | None = None) -> Task:
        """Add a barrier: everything added before finishes before anything added after starts.

        Parameters
        ----------
        name : str, optional
            Unique task name.

        Returns
        -------
        Task
            The new task.
        """
        task = Task(self._task_name(name, "barrier"), "barrier")
        return self._append(task)

    def insert(self, task: Task) -> Task:
        """Add a task as it is, for instance one of another graph.

        Parameters
        ----------
        task : Task
            Arrays of the names it accesses are declared here, with the shapes and dtypes of its signature.

        Returns
        -------
        Task
            The same task.

        Raises
        ------
        GraphError
            If the name is taken.
        UnknownArrayError, ArgumentError
            If an array is not declared here, was freed, or differs.
        """
        where = f"task {task.name!r}"
        check_name(task.name, self._tasks, "task", self._longest_name)
        for access in task.accesses:
            self._require(access.array, where)
        for parameter, name in task.arguments.items():
            if not takes(task, parameter, self._arrays[name]):
                raise ArgumentError(f"array {name!r} is not what its argument {parameter!r} takes", where=where)
        return self._append(task)

    def join(self, name: str, parts: Iterable[LogicalArray]) -> None:
        """Say that some arrays hold the rows of one array, so that it can be given and asked for as a whole.

        A value given for the whole when the graph is run is given to the parts, row by row and without a copy. The
        whole's result is put together from the parts' when it is asked for, unless an array of that name is declared.

        Parameters
        ----------
        name : str
            Of the whole.
        parts : iterable of LogicalArray
            At least one, declared here; equal but for their extent along axis 0.

        Raises
        ------
        GraphError
            If the parts do not make up an array, or not one like those of that name.
        UnknownArrayError
            If a part is not declared here.
        """
        given = tuple(self._require(part.name, f"join({name!r})") for part in parts)
        kinds = {(part.shape[1:], part.dtype, bool(part.shape)) for part in given}
        if len(kinds) != 1 or not given[0].shape:
            raise GraphError("the parts differ in more than their extent along axis 0", where=f"array {name!r}")
        whole = LogicalArray(name, (sum(part.shape[0] for part in given), *given[0].shape[1:]), given[0].dtype)
        other = self._arrays.get(name, next((j.whole for j in self._joined.get(name, ())), whole))
        if (other.shape, other.dtype) != (whole.shape, whole.dtype):
            raise GraphError(f"the parts make up {whole.shape}, not {other.shape}", where=f"array {name!r}")
        self._joined.setdefault(name, []).append(Joined(whole, tuple(part.name for part in given)))

    def edge(self, before: Task | str, after: Task | str) -> None:
        """Add an explicit dependency between two tasks.

        Parameters
        ----------
        before, after : Task or str
            Tasks of this graph, in any order of submission.

        Raises
        ------
        GraphError
            If one of them is not in the graph.
        """
        names = [t if isinstance(t, str) else t.name for t in (before, after)]
        for name in names:
            if name not in self._tasks:
                raise GraphError(f"no task {name!r}", where=f"edge {names[0]!r} -> {names[1]!r}")
        self._edges.append((names[0], names[1]))
        self._derived = None

    def free(self, array: LogicalArray | str) -> None:
        """Say that no later task touches an array and nobody asks for its value.

        Parameters
        ----------
        array : LogicalArray or str
            The array.

        Raises
        ------
        UnknownArrayError
            If it is not declared here or was freed before.
        """
        name = array if isinstance(array, str) else array.name
        self._require(name, "free()")
        self._freed[name] = len(self._tasks)

    def with_implementations(self, keep: Callable[[Task, Implementation], bool]) -> TaskGraph:
        """Return the same graph with fewer ways to do its tasks.

        Parameters
        ----------
        keep : callable
            Given a task and an implementation of its operation, whether it may be done so. Of a task for which it
            keeps none, all stay.

        Returns
        -------
        TaskGraph
            Of the same arrays and tasks; this one stays as it is.
        """
        made = copy.copy(self)
        made._arrays, made._freed, made._data = dict(self._arrays), dict(self._freed), dict(self._data)
        made._edges, made._ranged = list(self._edges), set(self._ranged)
        made._joined = {name: list(found) for name, found in self._joined.items()}
        made._tasks = {}
        for name, task in self._tasks.items():
            operation = task.operation
            if operation is not None:
                kept = tuple(each for each in operation.implementations if keep(task, each))
                if kept and kept != operation.implementations:
                    task = replace(task, operation=replace(operation, implementations=kept))
            made._tasks[name] = task
        return made

    # --- inside -----------------------------------------------------------------------------------

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
                if like_rows_of(other) == name:
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
        check_seconds(deadline_s, f"deadline_s of task {name!r}")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ArgumentError(f"retries={retries!r} is not a number of times", where=f"task {name!r}")
        bound = bind(operation, arguments, self._require, f"task {name!r} ({operation.name})")
        return self._append(
            Task(
                name,
                kind,
                bound.accesses,
                operation,
                bound.arguments,
                bound.signature,
                priority,
                bound.rows,
                deadline_s,
                retries,
                bound.constants,
                bound.reshaped,
            )
        )
