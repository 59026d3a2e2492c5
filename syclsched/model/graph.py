# SPDX-License-Identifier: Apache-2.0
"""Task graph construction: logical arrays, tasks in order of submission, and explicit edges."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError, GraphError, UnknownArrayError
from syclsched.model.access import Access, AccessMode
from syclsched.model.constant import Constant
from syclsched.model.graph_parts.argument_validation import (
    Argument,
    ArgumentBinder,
    as_array,
    check_data,
    declare_array,
    matches_signature,
)
from syclsched.model.graph_parts.builtin_operations import copy_operation, host_operation
from syclsched.model.graph_parts.host_functions import HostCall, check_names, declared_result, label_of
from syclsched.model.graph_parts.naming import MAX_NAME_LENGTH, array_of_row_range, check_name
from syclsched.model.graph_parts.readable_graph import ReadableGraph
from syclsched.model.operation import Implementation, Operation
from syclsched.model.task import ArrayRows, JoinedArray, LogicalArray, ReshapedArray, Task
from syclsched.model.text.bulk_objects import opened_class
from syclsched.model.text.units import check_seconds
from syclsched.model.usm import UsmKind

_OPEN_TASK = opened_class(Task)


class TaskGraph(ReadableGraph):
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
        super().__init__(name)
        self._longest_name = longest_name
        # By identity of the operation, and of the host function, which the values keep alive.
        self._binders: dict[int, ArgumentBinder] = {}
        self._hosted: dict[tuple[object, ...], Operation] = {}
        # Arrays given to `submit`, by identity, which the values keep alive.
        self._given: dict[int, tuple[np.ndarray[Any, Any], LogicalArray]] = {}

    # --- building ---------------------------------------------------------------------------------

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
        declared = declare_array(name, shape, dtype, data, temporary=temporary, usm=usm)
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

    def submit(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        shape: int | Iterable[int] | None = None,
        dtype: Any = None,
        like: LogicalArray | None = None,
        name: str | None = None,
        priority: int = 0,
        flops: float = 0.0,
        deadline_s: float | None = None,
        retries: int = 0,
        **kwargs: Any,
    ) -> LogicalArray:
        """Add a task that calls a Python function on the host, and return the array that will hold its result.

        The array is a future: it can be passed to other tasks at once, and read from the run.

        Parameters
        ----------
        function : callable
            Called with the arguments, in place of whose arrays it gets NumPy arrays. It returns an array or a number.
            A parameter with the annotation `syclsched.Update`, `Write` or `Reduce` is written in place.
        *args, **kwargs
            Arrays of the graph, also rows and other shapes of them, accesses, constants, NumPy arrays, lists and tuples
            of these; anything else is passed as it is. Parameters called like an option of this method are given by
            position, or by `functools.partial`.
        shape, dtype, like : optional
            Shape and dtype of the result, or an array that has them. If they are not given, those of the function's
            annotation (``-> int``, ``-> Write["float32", 3]``), else one number in float64.
        name, priority, flops, deadline_s, retries
            See `host`.

        Returns
        -------
        LogicalArray
            The result.

        Raises
        ------
        ArgumentError
            If the function does not take the arguments, or shape or dtype are invalid.

        Examples
        --------
        >>> import numpy as np
        >>> from syclsched import TaskGraph
        >>> graph = TaskGraph("sums")
        >>> sums = graph.map(np.sum, [np.ones(3), np.ones(4)])
        >>> total = graph.submit(np.add, *sums)
        >>> [task.name for task in graph.tasks], total.name
        (['sum', 'sum_1', 'add'], 'add.result')
        """
        call = HostCall.of(function, args, kwargs)
        extents, kind = declared_result(function, shape, dtype, like)
        task = self._free_name(name, label_of(function))
        declared = set(self._arrays)
        try:
            result = self.array(f"{task}.result", extents, kind)
            out = "result"
            while out in call.arrays:
                out += "_"
            arguments: dict[str, Argument] = {out: result.write()}
            for parameter, value in call.arrays.items():
                mode = call.modes.get(parameter, AccessMode.READ)
                arguments[parameter] = self._accessed(value, mode, f"{task}.{parameter}")
            modes = {
                parameter: value.mode if isinstance(value, Access) else AccessMode.READ
                for parameter, value in arguments.items()
            }
            operation = host_operation(call.returning(out), modes, flops)
            self._add(operation, "host", task, priority, arguments, deadline_s, retries)
        except Exception:
            for array in self._arrays.keys() - declared:
                del self._arrays[array]
                self._data.pop(array, None)
            self._given = {key: known for key, known in self._given.items() if known[1].name in self._arrays}
            raise
        return result

    def map(self, function: Callable[..., Any], *iterables: Iterable[Any], **options: Any) -> list[LogicalArray]:
        """Add a task for each item, and return the arrays of their results.

        Parameters
        ----------
        function : callable
            See `submit`.
        *iterables
            As for Python's ``map``: an argument of each call from each of them. They must have the same length.
        **options
            Options of `submit`, and arguments by name that all calls get; a ``name`` is numbered.

        Returns
        -------
        list of LogicalArray
            The results, in the order of the items.

        Raises
        ------
        ArgumentError
            See `submit`; and if the iterables differ in length.

        Examples
        --------
        >>> import numpy as np
        >>> import syclsched
        >>> graph = syclsched.TaskGraph()
        >>> sums = graph.map(np.sum, [np.ones(3), np.ones(4)])
        >>> with syclsched.run(graph) as run:
        ...     print([float(run.result(each)) for each in sums])
        [3.0, 4.0]
        """
        name = options.pop("name", None)
        items = [list(each) for each in iterables]
        if len({len(each) for each in items}) != 1:
            raise ArgumentError(f"map needs iterables of one length, not {[len(each) for each in items]}")
        return [
            self.submit(function, *each, name=None if name is None else f"{name}_{index}", **options)
            for index, each in enumerate(zip(*items, strict=True))
        ]

    def task(self, function: Callable[..., Any] | str | None = None, /, **options: Any) -> Any:
        """Make a function add a task to this graph when it is called: a decorator, with or without options.

        Parameters
        ----------
        function : callable
            See `submit`.
        **options
            Options of `submit` for all its tasks.

        Returns
        -------
        callable
            Takes the function's arguments, and returns the array of its result.

        Examples
        --------
        >>> import syclsched
        >>> graph = syclsched.TaskGraph()
        >>> @graph.task
        ... def increased(value) -> float:
        ...     return float(value) + 1
        >>> three = increased(increased(1.0))
        >>> with syclsched.run(graph) as run:
        ...     print(float(run.result(three)))
        3.0
        """

        def make(decorated: Callable[..., Any]) -> Callable[..., LogicalArray]:
            @wraps(decorated)
            def submit(*args: Any, **kwargs: Any) -> LogicalArray:
                return self.submit(decorated, *args, **options, **kwargs)

            return submit

        if isinstance(function, str):
            said = "TaskGraph.task(name) is called find_task(name) now"
            warnings.warn(said, DeprecationWarning, stacklevel=2)
            return self.find_task(function)
        return make if function is None else make(function)

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

    def _accessed(self, value: Any, mode: AccessMode, name: str) -> Argument:
        """Return an argument of a task for a value given to `submit`; a NumPy array becomes one of the graph."""
        if isinstance(value, (Access, Constant)):
            return value
        if isinstance(value, np.ndarray):
            known = None if mode.writes else self._given.get(id(value))
            if known is None:
                known = value, self.array(name, data=value)
                if not mode.writes:
                    self._given[id(value)] = known
            value = known[1]
        accessible: LogicalArray | ArrayRows | ReshapedArray = value
        return accessible._access(mode)

    def _free_name(self, name: str | None, family: str) -> str:
        """Return the name of a task, and of arrays that are named after it."""
        if name is not None:
            return check_name(name, self._tasks, "task", self._longest_name)
        index, found = 0, family
        while found in self._tasks or f"{found}.result" in self._arrays:
            index += 1
            found = f"{family}_{index}"
        return found

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
        task = _OPEN_TASK(
            name, kind, accesses, operation, passed, signature, priority, rows, deadline_s, retries, constants, reshaped
        )
        task.__class__ = Task
        made: Task = task
        return self._append(made)
