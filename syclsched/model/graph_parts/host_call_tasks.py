# SPDX-License-Identifier: Apache-2.0
"""Tasks from calls of host functions: their arguments become arrays of the graph, and so do their results."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.model.access import Access, AccessMode
from syclsched.model.constant import Constant
from syclsched.model.graph_parts.argument_validation import Argument
from syclsched.model.graph_parts.builtin_operations import host_operation
from syclsched.model.graph_parts.growing_graph import GrowingGraph
from syclsched.model.graph_parts.host_functions import HostCall, declared_result, label_of
from syclsched.model.graph_parts.naming import MAX_NAME_LENGTH, check_name
from syclsched.model.task import ArrayRows, LogicalArray, ReshapedArray


class HostCallTasks(GrowingGraph):
    """The part of `syclsched.TaskGraph` that makes tasks of calls of host functions."""

    def __init__(self, name: str, longest_name: int = MAX_NAME_LENGTH) -> None:
        super().__init__(name, longest_name)
        # Arrays given to `submit`, by identity, which the values keep alive.
        self._given: dict[int, tuple[np.ndarray[Any, Any], LogicalArray]] = {}

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

        The array is a future: it can be passed to other tasks at once, and read from the run. As with `host`, functions
        of independent tasks may be called at the same time.

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
