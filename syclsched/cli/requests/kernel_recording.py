# SPDX-License-Identifier: Apache-2.0
"""Recording of the Python kernels that a program needs, or that the tasks of a graph can be run by."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from syclsched.devices.programs.python_kernels.spirv_packs import Recording, recording
from syclsched.errors import ArgumentError, SyclschedError
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Signature
from syclsched.model.platform import Device


def record_program(path: str, arguments: Sequence[str]) -> Recording:
    """Run a Python program as Python itself would; return the kernels that it needed."""
    if not Path(path).is_file():
        raise ArgumentError("there is no such file", where=path)
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[:] = [path, *arguments], [str(Path(path).resolve().parent), *sys.path]
    try:
        with recording() as found:
            runpy.run_path(path, run_name="__main__")
    except SystemExit as exit_:
        if exit_.code not in (None, 0):
            raise ArgumentError(f"the program ended with {exit_.code}, so no pack was written", where=path) from exit_
    except SyclschedError:
        raise
    except Exception:
        traceback.print_exc()
        typer.echo("The program failed, so no pack was written.", err=True)
        raise typer.Exit(1) from None
    finally:
        sys.argv, sys.path[:] = before
    return found


def record_graph(name: str, arguments: Sequence[str]) -> Recording:
    """Compile the Python kernels of a ready graph or ONNX model for every device; return them."""
    from syclsched.api import discover
    from syclsched.cli.options import FileOptions
    from syclsched.cli.requests.graph_loading import load_graph
    from syclsched.devices.opened_devices import open_devices
    from syclsched.devices.programs.task_compiler import compile_task

    if arguments:
        raise ArgumentError("only a program takes arguments", where=name)
    loaded = load_graph(name, {}, FileOptions())
    if loaded.from_file:
        raise ArgumentError("a graph from a file has no kernels", where=name)
    platform = discover()
    with recording() as found, open_devices(platform) as opened:
        for operation, implementation, signature, device in _uses(loaded.graph, platform.devices):
            queue = opened.queue(device.name)
            compile_task(operation, implementation, signature, queue, device.limits)
    return found


def _uses(graph: TaskGraph, devices: Sequence[Device]) -> Iterator[tuple[Operation, Implementation, Signature, Device]]:
    """Yield the Python kernels by which tasks, or the steps of tasks, can be run on devices."""
    from syclsched.costs.capability import unsupported
    from syclsched.model.sequence import sequence_parts

    for task in graph.tasks:
        if task.operation is None or task.signature is None:
            continue
        for implementation in task.operation.implementations:
            steps = [(task.operation, implementation, task.signature)]
            steps += [
                (each.operation, each.implementation, each.signature)
                for each in sequence_parts(task.operation, implementation, task.signature)
            ]
            for device in devices:
                if not device.is_host and unsupported(task, implementation, device) is None:
                    yield from ((*step, device) for step in steps if step[1].is_python_kernel)
