# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and the ready graph they describe."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syclsched.errors import ArgumentError

if TYPE_CHECKING:
    from syclsched.workloads import Workload

_GRAPH = "The graph"
_FILE = "A graph from a file"
_WHERE = "Where it runs"

WorkloadName = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="[bold]cholesky[/bold], [bold]mlp[/bold], [bold]stencil[/bold], or an ONNX model: a file that ends in "
        "[bold].onnx[/bold].",
    ),
]
GraphName = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="[bold]cholesky[/bold], [bold]mlp[/bold], [bold]stencil[/bold], an ONNX model ([bold].onnx[/bold]), or a "
        "graph file: WfFormat, STG, DOT, GraphML or JSON.",
    ),
]
N = Annotated[
    int | None,
    typer.Option("--n", min=1, help="Matrix order (cholesky), side of the plate (stencil).", rich_help_panel=_GRAPH),
]
Tile = Annotated[
    int | None,
    typer.Option("--tile", min=1, help="Side of a tile (cholesky) or block (stencil).", rich_help_panel=_GRAPH),
]
Steps = Annotated[int | None, typer.Option("--steps", min=1, help="Time steps (stencil).", rich_help_panel=_GRAPH)]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Rows of input (mlp).", rich_help_panel=_GRAPH)]
Chunks = Annotated[
    int | None, typer.Option("--chunks", min=1, help="Parts the batch is cut into (mlp).", rich_help_panel=_GRAPH)
]
Sizes = Annotated[
    str | None,
    typer.Option("--sizes", metavar="WIDTHS", help="Of the layers, as 784,512,10 (mlp).", rich_help_panel=_GRAPH),
]
Softmax = Annotated[
    bool | None,
    typer.Option("--softmax/--no-softmax", help="End in probabilities (mlp).", rich_help_panel=_GRAPH),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights", metavar="FILE", help="Trained weights: .npz with W0, b0, W1, ... (mlp).", rich_help_panel=_GRAPH
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help="Your own matrix, rows or plate, as .npy. Of a model: x.npy, name=x.npy, inputs.npz, or 'random' (what is "
        "not given is random); may be repeated.",
        rich_help_panel=_GRAPH,
    ),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=SHAPE",
        help="Extents that a model leaves open: of an input, 'image=1x3x224x224', or by a dimension's name, 'batch=1'; "
        "may be repeated. Inputs from files have their own.",
        rich_help_panel=_GRAPH,
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="NAME",
        help="Implementations that do none of a model's tasks: opencl-c-winograd, say; may be repeated.",
        rich_help_panel=_GRAPH,
    ),
]
Dtype = Annotated[
    str | None, typer.Option("--dtype", metavar="TYPE", help="float64 or float32.", rich_help_panel=_GRAPH)
]
Seed = Annotated[int | None, typer.Option("--seed", help="Of the random input.", rich_help_panel=_GRAPH)]

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="json, wfformat, stg, dot or graphml; by default what the file's name or content says.",
        rich_help_panel=_FILE,
    ),
]
MaxTasks = Annotated[
    int | None,
    typer.Option("--max-tasks", min=0, help="Refuse files with more tasks (200,000).", rich_help_panel=_FILE),
]
MaxEdges = Annotated[
    int | None,
    typer.Option("--max-edges", min=0, help="Refuse files with more edges (1,000,000).", rich_help_panel=_FILE),
]
MaxFileMib = Annotated[
    int | None,
    typer.Option("--max-file-mib", min=0, help="Refuse larger files (128 MiB).", rich_help_panel=_FILE),
]
TimeUnit = Annotated[
    float | None,
    typer.Option(
        "--time-unit",
        metavar="SECONDS",
        help="What one unit of time is, for costs without a unit (0.001).",
        rich_help_panel=_FILE,
    ),
]
CommunicationUnit = Annotated[
    float | None,
    typer.Option(
        "--communication-unit",
        metavar="BYTES",
        help="What one unit of communication is, for the same (what 10 GB/s move in one unit of time).",
        rich_help_panel=_FILE,
    ),
]
SameSpeed = Annotated[
    bool,
    typer.Option(
        "--same-speed",
        help="Take costs that name no device as they are on every device; by default they are those of a reference "
        "core and are scaled.",
        rich_help_panel=_FILE,
    ),
]

TaskCost = Annotated[
    str | None,
    typer.Option(
        "--task-cost",
        metavar="ATTRIBUTE",
        help="Where a DOT or GraphML file has the costs of tasks, in units of time, if not in seconds, cost or weight.",
        rich_help_panel=_FILE,
    ),
]
EdgeCost = Annotated[
    str | None,
    typer.Option(
        "--edge-cost",
        metavar="ATTRIBUTE",
        help="The same of edges, in units of communication, if not in bytes, cost or weight.",
        rich_help_panel=_FILE,
    ),
]

PolicyName = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="auto (the best by simulation), heft, single:DEVICE, or another registered policy.",
        rich_help_panel=_WHERE,
    ),
]
Minimize = Annotated[
    str,
    typer.Option(
        "--minimize",
        metavar="METRIC",
        help="What policy auto makes small: makespan (latency), throughput (the time between runs), energy, memory or "
        "memory[SPACE].",
        rich_help_panel=_WHERE,
    ),
]
SubjectTo = Annotated[
    list[str] | None,
    typer.Option(
        "--subject-to",
        metavar="LIMIT",
        help="What the plan must keep to: 'makespan <= 20ms', 'memory\\[gpu] <= 1GiB', 'energy <= 5J', "
        "'throughput >= 50 runs/s'; may be repeated.",
        rich_help_panel=_WHERE,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget",
        metavar="SECONDS",
        min=0.0,
        help="How long auto may search for a better plan; by default a number of moves that depends on the graph, so "
        "that the same plan comes out every time. 0 for no search.",
        rich_help_panel=_WHERE,
    ),
]

Rewrite = Annotated[
    str,
    typer.Option(
        "--rewrite",
        metavar="HOW",
        help="Change the sizes of tasks before planning: coarsen (merge tiny ones), split (cut large ones into rows), "
        "both, or none. auto, with policy auto, plans without and with both and keeps the better; simulate "
        "with --noise or --wrong then takes none, and --wrong FAMILY no other.",
        rich_help_panel=_WHERE,
    ),
]
Devices = Annotated[
    str | None,
    typer.Option(
        "--devices",
        metavar="SELECTOR",
        help="Only these: 'cpu,accelerator', or as in ONEAPI_DEVICE_SELECTOR: 'opencl:cpu'.",
        rich_help_panel=_WHERE,
    ),
]
SubDevices = Annotated[
    str | None,
    typer.Option(
        "--sub-devices", metavar="HOW", help="Split devices: '2' (equal parts), numa, l3, ...", rich_help_panel=_WHERE
    ),
]
Lanes = Annotated[
    str | None,
    typer.Option(
        "--lanes",
        metavar="COUNT",
        help="Compute queues per device: '2', or 'cpu=2,accelerator=1'. By default as the profile advises.",
        rich_help_panel=_WHERE,
    ),
]
OneCoreLanes = Annotated[
    bool,
    typer.Option(
        "--one-core-lanes",
        help="Make each queue of the CPU device one core, so that several run side by side.",
        rich_help_panel=_WHERE,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZES",
        help="Memory that arrays may take at once: 'cpu=64MiB', 'cpu=1GiB,host=2GiB', or '64MiB' for every device. "
        "What does not fit goes to the host's memory and comes back.",
        rich_help_panel=_WHERE,
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policies",
        metavar="NAMES",
        help="heft,cpop,...; 'all' (the default) for every one there is. May be repeated.",
        rich_help_panel=_WHERE,
    ),
]
PlatformNames = Annotated[
    str | None,
    typer.Option(
        "--platform",
        metavar="NAMES",
        help="Plan for hardware that is not here: shipped profiles (cpu,max1550,a770) or profile files.",
        rich_help_panel=_WHERE,
    ),
]


def build_workload(name: str, **given: Any) -> Workload:
    """Build a ready graph from command-line options."""
    from syclsched import workloads

    if name not in workloads.names() and Path(name).is_file():
        raise ArgumentError(
            "a graph from a file has costs only: it can be planned and simulated, not run",
            where=name,
            hint="Use syclsched plan, compare, or simulate with --platform",
        )
    recipe = workloads.get(name)
    if given.get("input") is not None:
        given["input"] = _one_file(given["input"], name)
    if given.get("sizes") is not None:
        given["sizes"] = _widths(given["sizes"])
    known = {field.name for field in dataclasses.fields(recipe.options)}
    said = {option: value for option, value in given.items() if value is not None}
    for option in said:
        if option not in known:
            raise ArgumentError(
                f"--{option} does not belong to {name}",
                where="the command line",
                hint="It takes " + ", ".join(f"--{k}" for k in sorted(known)),
            )
    return recipe.build(recipe.options(**said))


def _one_file(files: list[str], name: str) -> Path:
    if len(files) != 1:
        raise ArgumentError(f"{name} takes one input", where="--input", hint="Several are for ONNX models")
    return Path(files[0])


def _widths(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) < 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ArgumentError(f"{text!r} is not a list of widths", where="--sizes", hint="As 784,512,10: input first")
    return tuple(int(part) for part in parts)


def parse_memory_limit(text: str | None) -> dict[str, str] | str | None:
    """Read ``64MiB`` or ``cpu=64MiB,accelerator=1GiB``."""
    if text is None or "=" not in text:
        return text
    sizes: dict[str, str] = {}
    for part in text.split(","):
        name, equals, size = (each.strip() for each in part.partition("="))
        if not (name and equals and size) or name in sizes:
            raise ArgumentError(
                f"{text!r} is not a list of sizes by name",
                where="--memory-limit",
                hint="As cpu=64MiB,host=1GiB; or 64MiB for every device",
            )
        sizes[name] = size
    return sizes


def parse_lanes(text: str | None) -> dict[str, int] | int | None:
    """Read ``2`` or ``cpu=2,accelerator=1``."""
    if text is None:
        return None
    counts: dict[str, int] = {}
    for part in text.split(","):
        name, equals, count = part.rpartition("=")
        if not count.strip().isdecimal() or not 1 <= int(count) <= 64 or bool(equals) != bool(name.strip()):
            raise ArgumentError(
                f"{text!r} is not a number of lanes", where="--lanes", hint="As 2, or cpu=2,accelerator=1"
            )
        counts[name.strip()] = int(count)
    if "" in counts and len(counts) > 1:
        raise ArgumentError(f"{text!r} mixes both forms", where="--lanes", hint="As 2, or cpu=2,accelerator=1")
    return counts.get("", counts)
