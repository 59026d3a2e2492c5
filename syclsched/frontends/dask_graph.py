# SPDX-License-Identifier: Apache-2.0
"""Task graphs from Dask graphs: every Dask task becomes a host task.

The results of Dask's tasks are Python objects of any kind. They stay in this process, outside the arrays of the task
graph; each task writes an array of its own that stands for its result, so that later tasks wait for it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final

from syclsched.errors import ArgumentError, RuntimeMissingError
from syclsched.model.graph import TaskGraph
from syclsched.model.task import LogicalArray

#: A key of a Dask graph: a string, or a tuple that begins with one.
Key = Hashable
#: Bytes of a result, by the key of its task.
BytesOf = Callable[[Any], int]

#: Names of tasks and arrays are cut to this length.
_LONGEST_NAME: Final = 100

#: Has ``in_task`` while this thread executes a task of a Dask graph.
this_thread = threading.local()


class _Results:
    """The results of a Dask graph's tasks, each kept until its last reader has ended; thread-safe."""

    def __init__(self, readers: Mapping[Key, int]) -> None:
        self._readers = readers
        self._kept: dict[Key, Any] = {}
        self._left: dict[Key, int] = {}
        self._lock = threading.Lock()

    def put(self, key: Key, result: Any) -> None:
        """Keep a result for its readers."""
        with self._lock:
            if self._readers[key]:
                self._kept[key], self._left[key] = result, self._readers[key]

    def of(self, keys: Mapping[Key, Key]) -> dict[Key, Any]:
        """Return results by the keys under which they are asked for."""
        return {asked: self._kept[key] for asked, key in keys.items()}

    def release(self, keys: Iterable[Key]) -> None:
        """Note that a reader of these results has ended."""
        with self._lock:
            for key in keys:
                self._left[key] -= 1
                if not self._left[key]:
                    del self._kept[key], self._left[key]


class _Call:
    """A Dask task as a host function; it has the name and the identity of the function that it calls."""

    def __init__(self, node: Any, label: str, inputs: Mapping[Key, Key], imported: tuple[_Results, dict[Key, Any]]):
        self.__name__ = label
        self.__wrapped__ = getattr(node, "func", node)  # measured times are kept by it
        self._node, self._results, self._constants = node, *imported
        self._made = {asked: key for asked, key in inputs.items() if key not in self._constants}
        self._given = {asked: self._constants[key] for asked, key in inputs.items() if key in self._constants}

    def __call__(self, **arrays: Any) -> None:
        this_thread.in_task = True
        try:
            result = self._node({**self._given, **self._results.of(self._made)})
        finally:
            this_thread.in_task = False
        self._results.put(self._node.key, result)
        self._results.release(set(self._made.values()))
        arrays["result"][...] = 0


def from_dask(
    collection: Any, *, name: str = "dask", optimize: bool = True, nbytes: BytesOf | None = None
) -> TaskGraph:
    """Convert a Dask collection to a task graph, for planning and simulation.

    Every task of the collection's graph becomes a host task that calls the task's function; planning uses the times
    that earlier runs have measured. To compute a collection under a plan, see `dask_scheduler`.

    Parameters
    ----------
    collection : Dask collection, or list of collections
        Such as a ``dask.delayed`` value, a ``dask.array`` or a ``dask.bag``.
    name : str, optional
        Name of the graph.
    optimize : bool, optional
        Whether Dask optimises its graph first, as it does before it computes.
    nbytes : callable, optional
        Returns the size of a task's result in bytes, given the task's key: the bytes that plans and simulations for
        several machines move. By default 1, as the size is unknown before the task has run.

    Returns
    -------
    TaskGraph
        The graph. A run of it calls the functions; two runs at a time would mix up their results.

    Raises
    ------
    RuntimeMissingError
        If Dask is not installed.
    ArgumentError
        If the value is no Dask collection.

    Examples
    --------
    >>> import dask
    >>> import syclsched
    >>> @dask.delayed
    ... def double(x):
    ...     return 2 * x
    >>> graph = syclsched.from_dask(dask.delayed(sum)([double(1), double(2)]))
    >>> sorted(task.name for task in graph.tasks)
    ['double', 'double#1', 'sum']
    >>> syclsched.plan(graph, syclsched.describe("cpu")).peak_bytes["host"] > 0
    True
    """
    dask = _dask()
    collections = list(collection) if isinstance(collection, (list, tuple)) else [collection]
    for each in collections:
        if not dask.is_dask_collection(each):
            raise ArgumentError(
                f"{type(each).__name__} is no Dask collection", where="from_dask", hint="Give what .compute() has"
            )
    if optimize:
        collections = list(dask.optimize(*collections))
    graph: dict[Key, Any] = {}
    keys: list[Key] = []
    for each in collections:
        graph.update(each.__dask_graph__())
        keys += dask.core.flatten(each.__dask_keys__())
    return import_graph(graph, keys, name, nbytes)[0]


def import_graph(
    dask_graph: Mapping[Key, Any], keys: Iterable[Key], name: str, nbytes: BytesOf | None = None
) -> tuple[TaskGraph, Callable[[Key], Any]]:
    """Return the graph of the tasks that some keys need, and a function that returns their results after a run."""
    _dask()
    from dask._task_spec import Alias, DataNode, convert_legacy_graph
    from dask.order import order
    from dask.utils import key_split

    wanted = list(keys)
    nodes = _needed(convert_legacy_graph(dask_graph), wanted)

    def place(key: Key) -> Key:
        """Return the key of the task or constant behind aliases."""
        while isinstance(nodes[key], Alias):
            key = nodes[key].target
        return key

    constants = {key: node() for key, node in nodes.items() if isinstance(node, DataNode)}
    tasks = {key: node for key, node in nodes.items() if key not in constants and not isinstance(node, Alias)}
    readers = Counter(each for node in tasks.values() for each in {place(key) for key in node.dependencies})
    readers.update({place(key) for key in wanted})  # these are never released
    results, graph, taken = _Results(readers), TaskGraph(name), Counter[str]()
    made: dict[Key, LogicalArray] = {}
    for key in sorted(tasks, key=order(nodes).__getitem__):
        node = tasks[key]
        inputs = {each: place(each) for each in node.dependencies}
        label = key_split(key)[:_LONGEST_NAME] or "task"
        unique = f"{label}#{taken[label]}" if taken[label] else label
        taken[label] += 1
        made[key] = graph.array(f"{unique}.result", (1 if nbytes is None else max(1, nbytes(key)),), "uint8")
        before = [made[each] for each in dict.fromkeys(inputs.values()) if each not in constants]
        arguments: dict[str, Any] = {f"input{i}": array.read() for i, array in enumerate(before)}
        call = _Call(node, label, inputs, (results, constants))
        graph.host(call, name=unique, result=made[key].write(), **arguments)

    def result(key: Key) -> Any:
        made_at = place(key)
        return constants[made_at] if made_at in constants else results.of({key: made_at})[key]

    return graph, result


def _needed(nodes: Mapping[Key, Any], keys: Iterable[Key]) -> dict[Key, Any]:
    needed: dict[Key, Any] = {}
    todo = list(keys)
    while todo:
        key = todo.pop()
        if key not in needed:
            needed[key] = nodes[key]
            todo += nodes[key].dependencies
    return needed


def _dask() -> Any:
    """Import and return the package ``dask``; raise `RuntimeMissingError` if that fails."""
    try:
        import dask
        import dask._task_spec
    except ImportError as error:
        raise RuntimeMissingError(
            f"Dask of 2024.12 or later cannot be imported: {error}", hint="pip install 'syclsched[cluster]'"
        ) from error
    return dask
