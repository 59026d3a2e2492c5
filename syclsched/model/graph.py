# SPDX-License-Identifier: Apache-2.0
"""Task graph construction: logical arrays, tasks in order of submission, and explicit edges."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.model.access import Access, AccessMode
from syclsched.model.constant import Constant
from syclsched.model.graph_parts.argument_validation import Argument
from syclsched.model.graph_parts.builtin_operations import copy_operation, host_operation
from syclsched.model.graph_parts.host_call_tasks import HostCallTasks
from syclsched.model.graph_parts.host_functions import check_names
from syclsched.model.graph_parts.naming import MAX_NAME_LENGTH
from syclsched.model.operation import Implementation, Operation
from syclsched.model.task import ArrayRows, LogicalArray, ReshapedArray, Task


class TaskGraph(HostCallTasks):
    """Tasks and the arrays they access.

    Tasks are added in the order in which a sequential program would run them. Their reads and writes imply the
    dependencies (RAW, WAR, WAW), as in StarPU, CUDASTF and Parla. Explicit edges can be added. A graph only grows: its
    tasks and arrays never change.

    Parameters
    ----------
    name : str, optional
        Name shown in plans, traces and charts.
    longest_name : int, optional
        Maximum length of names of arrays and tasks, in characters. Graphs derived from other graphs need longer names.

    Examples
    --------
    >>> from syclsched import TaskGraph
    >>> graph = TaskGraph("squares")
    >>> x = graph.array("x", (4,), "float64")
    >>> y = graph.array("y", (4,), "float64")
    >>> task = graph.host(lambda x, y: y.__setitem__(slice(None), x * x), x=x.read(), y=y.write(), name="square")
    >>> [t.name for t in graph.tasks]
    ['square']

    A range of rows of an array (``x[0:2]``) can be passed to a task. The task then accesses only these rows and is
    independent of tasks that access other rows.
    """

    def __init__(self, name: str = "graph", *, longest_name: int = MAX_NAME_LENGTH) -> None:
        super().__init__(name, longest_name)
        # Operations of host functions, by identity of the function, which the values keep alive.
        self._hosted: dict[tuple[object, ...], Operation] = {}

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
        """Add a task that runs an operation on a device chosen by the plan.

        Parameters
        ----------
        operation : Operation
            The operation to compute.
        name : str, optional
            Unique task name; made from the operation's name if not given.
        priority : int, optional
            Tie-breaker: higher priorities run first.
        deadline_s : float, optional
            Maximum execution time in seconds. A task that exceeds it fails with a `DeadlineError` and its dependents
            are cancelled; a submitted kernel still runs to its end.
        retries : int, optional
            How often the task is repeated if its host function raises or its status reports a failure. Arrays that it
            updates in place are restored before each retry. Failures of a device or its runtime do not count: see
            ``recover`` of `syclsched.run`.
        **arguments : LogicalArray, ArrayRows, ReshapedArray, Access, Constant or scalar
            One argument per parameter of the operation. ``x[0:100]`` passes only these rows, as a separate array
            without a copy; ``x.reshaped((8, -1))`` passes the same elements under another shape. The argument of a
            parameter that is only read can be a `syclsched.constant`.

        Returns
        -------
        Task
            The new task.

        Raises
        ------
        ArgumentError
            If a parameter is missing or unknown, rows do not exist, or a shape, dtype or access mode does not match.
        UnknownArrayError
            If an array is not declared in this graph or has been freed.

        Examples
        --------
        >>> import numpy as np
        >>> from syclsched import TaskGraph
        >>> from syclsched.kernels import get
        >>> graph = TaskGraph()
        >>> x, y = graph.array("x", data=np.ones(10)), graph.array("y", data=np.zeros(10))
        >>> task = graph.kernel(get("axpy"), name="add", y=y, x=x, alpha=3.0)
        >>> task.name, task.kind
        ('add', 'kernel')
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
        """Add a task that calls a Python function on the host with NumPy arrays.

        Functions of tasks that do not depend on each other may be called at the same time, on several threads: what
        they share besides arrays of the graph must allow that, or an `edge` must order them.

        Parameters
        ----------
        function : callable
            Called with the arguments by name; writes its results into its arrays in place.
        name, priority, deadline_s
            See `kernel`.
        flops : float, optional
            Number of floating-point operations, for the cost model.
        pure : bool, optional
            True if the function's only effect is to write values that depend on its arguments alone. A plan that is
            short of memory may then call it again to recompute a value.
        retries : int, optional
            How often the function is called again if it raises; see `kernel`.
        **arguments : Access, Constant or scalar
            ``x=x.read()``, ``y=y[0:100].write()``, ``z=z.reshaped((8, -1)).read()``, ``alpha=2.0``.

        Returns
        -------
        Task
            The new task.

        Examples
        --------
        >>> import numpy as np
        >>> from syclsched import TaskGraph
        >>> graph = TaskGraph()
        >>> x, total = graph.array("x", data=np.ones(10)), graph.array("total", (1,))
        >>> task = graph.host(lambda x, total: total.fill(x.sum()), name="sum", x=x.read(), total=total.write())
        >>> task.name, task.kind
        ('sum', 'host')
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
        alike = (id(function), *modes, *map(id, modes.values()), flops, pure)
        operation = self._hosted.get(alike)
        if operation is None:
            check_names(function, modes, f"host task {name or getattr(function, '__name__', 'host')!r}")
            operation = self._hosted[alike] = host_operation(function, modes, flops, pure=pure)
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
            The source may also be a constant.
        name : str, optional
            Unique task name.

        Returns
        -------
        Task
            The new task.

        Examples
        --------
        >>> import numpy as np
        >>> from syclsched import TaskGraph
        >>> graph = TaskGraph()
        >>> x, y = graph.array("x", data=np.ones(10)), graph.array("y", (10,))
        >>> graph.copy(x, y).kind
        'copy'
        """
        return self._add(copy_operation(), "copy", name, 0, {"source": source, "destination": destination})

    def barrier(self, *, name: str | None = None) -> Task:
        """Add a barrier: all earlier tasks finish before any later task starts.

        Parameters
        ----------
        name : str, optional
            Unique task name.

        Returns
        -------
        Task
            The new task.

        Examples
        --------
        >>> from syclsched import TaskGraph
        >>> graph = TaskGraph()
        >>> first = graph.host(lambda: None, name="first")
        >>> wall = graph.barrier(name="wall")
        >>> second = graph.host(lambda: None, name="second")
        >>> [(each.before, each.after) for each in graph.dependencies()]
        [('first', 'wall'), ('wall', 'second')]
        """
        task = Task(self._task_name(name, "barrier"), "barrier")
        return self._append(task)

    def with_implementations(self, keep: Callable[[Task, Implementation], bool]) -> TaskGraph:
        """Return a copy of the graph with fewer implementations of its tasks.

        Parameters
        ----------
        keep : callable
            Predicate on a task and an implementation of its operation. A task for which it rejects all implementations
            keeps all of them.

        Returns
        -------
        TaskGraph
            A graph with the same arrays and tasks.
        """
        made = copy.copy(self)
        made._arrays, made._freed, made._data = dict(self._arrays), dict(self._freed), dict(self._data)
        made._edges, made._ranged, made._given = list(self._edges), set(self._ranged), dict(self._given)
        made._joined = {name: list(found) for name, found in self._joined.items()}
        made._tasks = {}
        reduced: dict[tuple[int, ...], Operation] = {}  # which tasks share as they shared the whole one
        for name, task in self._tasks.items():
            operation = task.operation
            if operation is not None:
                kept = tuple([each for each in operation.implementations if keep(task, each)])
                if kept and len(kept) < len(operation.implementations):
                    key = (id(operation), *map(id, kept))
                    if key not in reduced:
                        reduced[key] = replace(operation, implementations=kept)
                    task = replace(task, operation=reduced[key])
            made._tasks[name] = task
        return made
