# SPDX-License-Identifier: Apache-2.0
"""A scheduler for Dask: Dask graphs of this process run as host tasks under a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from syclsched.api.platforms import discover
from syclsched.api.running import run
from syclsched.errors import TaskFailedError
from syclsched.frontends.dask_graph import import_graph, this_thread

if TYPE_CHECKING:
    from syclsched.execution import Run
    from syclsched.model.platform import Platform


def dask_scheduler(
    platform: Platform | None = None, *, policy: str = "auto", on_run: Callable[[Run], object] | None = None
) -> Callable[..., Any]:
    """Return a scheduler that Dask can use: it plans Dask's graphs, and runs their tasks as host tasks.

    The tasks run in threads of this process, on the host's lanes of the platform, one for each core by default. Their
    times are measured, and later plans use them.

    Parameters
    ----------
    platform : Platform, optional
        Devices to plan for, found on first use by default. Only the host's lanes have work.
    policy : str, optional
        Policy of the plans; ``heft`` plans graphs of many short tasks faster.
    on_run : callable, optional
        Called with each run when it has ended, for its trace or report.

    Returns
    -------
    callable
        For ``dask.config.set(scheduler=...)`` or ``collection.compute(scheduler=...)``. It raises what a task raises.
        A collection that is computed within a task is computed there, one task after another.

    Examples
    --------
    >>> import dask
    >>> import syclsched
    >>> with dask.config.set(scheduler=syclsched.dask_scheduler()):
    ...     dask.delayed(sum)([dask.delayed(pow)(2, 3), 1]).compute()
    9
    """

    def get(dask_graph: Any, keys: Any, **options: Any) -> Any:
        nonlocal platform
        if getattr(this_thread, "in_task", False):
            from dask.local import get_sync

            return get_sync(dask_graph, keys, **options)
        from dask.core import flatten

        if not isinstance(dask_graph, Mapping):
            dask_graph = dask_graph.__dask_graph__()
        wanted = list(flatten(keys)) if isinstance(keys, list) else [keys]
        graph, result = import_graph(dask_graph, wanted, "dask")
        if graph.tasks:
            if platform is None:
                platform = discover()
            with run(graph, platform, policy=policy, calibrate=False, rewrite="none") as running:
                try:
                    running.wait()
                except TaskFailedError as error:
                    if error.__cause__ is None:
                        raise
                    raise error.__cause__ from None
                if on_run is not None:
                    on_run(running)
        return _nested(result, keys)

    return get


def _nested(result: Callable[[Any], Any], keys: Any) -> Any:
    """Return results in the form of their keys, in which lists may be nested."""
    return tuple(_nested(result, each) for each in keys) if isinstance(keys, list) else result(keys)
