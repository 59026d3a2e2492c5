# SPDX-License-Identifier: Apache-2.0
"""Options shared by several commands, option groups as dataclasses, and the ready graphs built from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from syclsched.cli import completion as names
from syclsched.cli.completion import choices
from syclsched.errors import ArgumentError, did_you_mean

if TYPE_CHECKING:
    from syclsched.planner import PlanRequest
    from syclsched.workloads import Workload

# Options by their panel in the help.
graph_option = partial(typer.Option, rich_help_panel="The graph")
file_option = partial(typer.Option, rich_help_panel="A graph from a file")
plan_option = partial(typer.Option, rich_help_panel="Platform and planning")
output_option = partial(typer.Option, rich_help_panel="Output")
cluster_option = partial(typer.Option, rich_help_panel="Several machines")

WorkloadName = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        autocompletion=names.graph_or_file,
        help="[bold]cholesky[/bold], [bold]mlp[/bold], [bold]stencil[/bold], or an ONNX model: a file that ends in "
        "[bold].onnx[/bold].",
    ),
]
GraphName = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        autocompletion=names.graph_or_file,
        help="[bold]cholesky[/bold], [bold]mlp[/bold], [bold]stencil[/bold], an ONNX model ([bold].onnx[/bold]), or a "
        "graph file: WfFormat, STG, DOT, GraphML or JSON.",
    ),
]
Without = Annotated[
    list[str] | None,
    graph_option(
        "--without",
        autocompletion=choices(names.implementations),
        metavar="NAME",
        help="Implementation not to use for a model's tasks, such as opencl-c-winograd; may be repeated.",
    ),
]
Seed = Annotated[int | None, graph_option("--seed", help="Seed of the random input.")]
Minimize = Annotated[
    str,
    plan_option(
        "--minimize",
        autocompletion=choices(names.METRICS),
        metavar="METRIC",
        help="Objective of policy auto: makespan (latency), throughput (the time between runs), energy, memory or "
        "memory[SPACE].",
    ),
]
SubjectTo = Annotated[
    list[str] | None,
    plan_option(
        "--subject-to",
        metavar="LIMIT",
        help="Constraint on the plan: 'makespan <= 20ms', 'memory\\[gpu] <= 1GiB', 'energy <= 5J', "
        "'throughput >= 50 runs/s'; may be repeated.",
    ),
]
Rewrite = Annotated[
    str,
    plan_option(
        "--rewrite",
        autocompletion=choices(names.REWRITES),
        metavar="HOW",
        help="Change the granularity of tasks before planning: coarsen (merge tiny ones), split (divide large ones by "
        "rows), both, or none. auto plans with none and with both under policy auto and keeps the better plan; for "
        "simulate with --noise or --wrong it means none. --wrong FAMILY allows only auto and none.",
    ),
]
Split = Annotated[
    str,
    typer.Option(
        "--split",
        autocompletion=choices(names.SPLITS),
        metavar="HOW",
        help="What each of several devices gets of a training step: data (samples), stages (layers), tasks, or single "
        "(one gets all). By default the way with the shortest predicted step.",
    ),
]
MicroBatches = Annotated[
    int | None,
    typer.Option(
        "--micro-batches",
        min=1,
        help="Parts of a batch in training that are computed apart. By default several where memory is short.",
    ),
]
Activations = Annotated[
    str,
    typer.Option(
        "--activations",
        metavar="TYPE",
        help="As what values are stored for the backward pass: float32, or bfloat16, which takes half the memory.",
    ),
]
Lanes = Annotated[
    str | None,
    plan_option(
        "--lanes",
        metavar="COUNT",
        help="Compute queues per device: '2', or 'cpu=2,accelerator=1'. By default as recommended by the profile.",
    ),
]
MemoryLimit = Annotated[
    str | None,
    plan_option(
        "--memory-limit",
        metavar="SIZES",
        help="Limit on the memory of live arrays: 'cpu=64MiB', 'cpu=1GiB,host=2GiB', or '64MiB' for every device. "
        "Arrays that do not fit are evicted to host memory and copied back.",
    ),
]
Policies = Annotated[
    list[str] | None,
    plan_option(
        "--policies",
        autocompletion=choices(names.POLICIES),
        metavar="NAMES",
        help="heft,cpop,...; 'all' (the default) for all policies. May be repeated.",
    ),
]


@dataclass(frozen=True, slots=True)
class ReadyOptions:
    """Options of a ready graph, and of a model's inputs."""

    n: Annotated[
        int | None, graph_option("--n", min=1, help="Matrix order (cholesky), side of the plate (stencil).")
    ] = None
    tile: Annotated[int | None, graph_option("--tile", min=1, help="Side of a tile (cholesky) or block (stencil).")] = (
        None
    )
    steps: Annotated[int | None, graph_option("--steps", min=1, help="Time steps (stencil).")] = None
    batch: Annotated[int | None, graph_option("--batch", min=1, help="Rows of input (mlp).")] = None
    chunks: Annotated[int | None, graph_option("--chunks", min=1, help="Parts the batch is split into (mlp).")] = None
    sizes: Annotated[
        str | None, graph_option("--sizes", metavar="WIDTHS", help="Layer widths, as 784,512,10 (mlp).")
    ] = None
    softmax: Annotated[bool | None, graph_option("--softmax/--no-softmax", help="Output probabilities (mlp).")] = None
    weights: Annotated[
        Path | None, graph_option("--weights", metavar="FILE", help="Trained weights: .npz with W0, b0, W1, ... (mlp).")
    ] = None
    input_file: Annotated[
        list[str] | None,
        graph_option(
            "--input",
            metavar="FILE",
            help="Input matrix, rows or plate, as .npy. For a model: x.npy, name=x.npy, inputs.npz, or 'random' (the "
            "default of every input); may be repeated.",
        ),
    ] = None
    shape: Annotated[
        list[str] | None,
        graph_option(
            "--shape",
            metavar="NAME=SHAPE",
            help="Sizes of a model's symbolic dimensions: of an input, 'image=1x3x224x224', or by a dimension's name, "
            "'batch=1'; may be repeated. Not needed for inputs from files.",
        ),
    ] = None
    bucket: Annotated[
        list[str] | None,
        graph_option(
            "--bucket",
            metavar="NAME=SIZES",
            help="Plan a model for the next larger size of a symbolic dimension: 'batch=1,8,32', 'sequence=64' for "
            "multiples of 64, or 'batch=powers' of two; may be repeated.",
        ),
    ] = None
    dtype: Annotated[
        str | None,
        graph_option("--dtype", autocompletion=choices(names.DTYPES), metavar="TYPE", help="float64 or float32."),
    ] = None

    def given(self, seed: int | None = None) -> dict[str, Any]:
        """Return the option values by option name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["input"] = values.pop("input_file")
        return {**values, "seed": seed}


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Options of a graph from a file."""

    format: Annotated[
        str | None,
        file_option(
            "--format",
            autocompletion=choices(names.FORMATS),
            metavar="NAME",
            help="json, wfformat, stg, dot or graphml; by default detected from the file's name or content.",
        ),
    ] = None
    max_tasks: Annotated[
        int | None, file_option("--max-tasks", min=0, help="Refuse files with more tasks (200,000).")
    ] = None
    max_edges: Annotated[
        int | None, file_option("--max-edges", min=0, help="Refuse files with more edges (1,000,000).")
    ] = None
    max_file_mib: Annotated[int | None, file_option("--max-file-mib", min=0, help="Refuse larger files (128 MiB).")] = (
        None
    )
    time_unit: Annotated[
        float | None,
        file_option(
            "--time-unit", metavar="SECONDS", help="Seconds per unit of time, for costs without a unit (0.001)."
        ),
    ] = None
    communication_unit: Annotated[
        float | None,
        file_option(
            "--communication-unit",
            metavar="BYTES",
            help="Bytes per unit of communication, for costs without a unit (the bytes that a link of 10 GB/s moves "
            "in one unit of time).",
        ),
    ] = None
    same_speed: Annotated[
        bool,
        file_option(
            "--same-speed",
            help="Use costs that name no device unchanged on every device; by default they refer to a reference core "
            "and are scaled.",
        ),
    ] = False
    task_cost: Annotated[
        str | None,
        file_option(
            "--task-cost",
            metavar="ATTRIBUTE",
            help="Attribute of a DOT or GraphML file for task costs, in units of time; by default seconds, cost or "
            "weight.",
        ),
    ] = None
    edge_cost: Annotated[
        str | None,
        file_option(
            "--edge-cost",
            metavar="ATTRIBUTE",
            help="Attribute for edge costs, in units of communication; by default bytes, cost or weight.",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """Return the option values by option name; unset flags are None."""
        values = {field.name.replace("_", "-"): getattr(self, field.name) for field in fields(self)}
        return {**values, "same-speed": self.same_speed or None}


Policy = Annotated[
    str,
    plan_option(
        "--policy",
        autocompletion=choices(names.POLICIES),
        metavar="NAME",
        help="auto (the best by simulation), heft, single:DEVICE, or another registered policy.",
    ),
]
Budget = Annotated[
    float | None,
    plan_option(
        "--budget",
        metavar="SECONDS",
        min=0.0,
        help="Time limit of the search of policy auto. By default the number of search moves depends only on the "
        "graph, so that the plan is reproducible. 0 for no search.",
    ),
]


PlanGantt = Annotated[
    Path | None,
    typer.Option("--gantt", metavar="FILE", help="Draw the predicted Gantt chart (.png, .svg, .pdf)."),
]
PlanReport = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write an HTML page about the plan, to open in a browser."),
]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of planning."""

    policy: Policy = "auto"
    minimize: Minimize = "makespan"
    subject_to: SubjectTo = None
    rewrite: Rewrite = "auto"
    budget: Budget = None
    reuse: Annotated[
        bool,
        plan_option(
            "--reuse/--no-reuse",
            help="Use the plan of an earlier call again, if graph, platform, options and measured times are the same.",
        ),
    ] = True

    @property
    def request(self) -> PlanRequest:
        """The options as the planner takes them."""
        from syclsched.planner import PlanRequest

        return PlanRequest(self.policy, self.minimize, tuple(self.subject_to or ()), self.rewrite, self.budget)


@dataclass(frozen=True, slots=True)
class PlatformOptions:
    """Options of the platform that a graph is planned for."""

    devices: Annotated[
        str | None,
        plan_option(
            "--devices",
            autocompletion=choices(names.DEVICE_KINDS),
            metavar="SELECTOR",
            help="Devices to use: 'cpu,accelerator', or as in ONEAPI_DEVICE_SELECTOR: 'opencl:cpu'.",
        ),
    ] = None
    sub_devices: Annotated[
        str | None,
        plan_option(
            "--sub-devices",
            autocompletion=choices(names.SUB_DEVICES),
            metavar="HOW",
            help="Split devices: '2' (equal parts), numa, l3, ...",
        ),
    ] = None
    lanes: Lanes = None
    one_core_lanes: Annotated[
        bool,
        plan_option(
            "--one-core-lanes",
            help="Restrict each queue of the CPU device to one core, so that several kernels run concurrently.",
        ),
    ] = False
    memory_limit: MemoryLimit = None
    platform: Annotated[
        str | None,
        plan_option(
            "--platform",
            autocompletion=choices(names.PROFILES),
            metavar="NAMES",
            help="Plan for other hardware: shipped profiles (cpu,max1550,a770) or profile files.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of the machines of a Dask cluster."""

    cluster: Annotated[
        str | None,
        cluster_option(
            "--cluster",
            metavar="ADDRESS",
            help="Use the workers of this Dask scheduler as machines: tcp://host:8786. Needs the extra 'cluster'.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        cluster_option(
            "--workers",
            metavar="N",
            min=1,
            help="Start N workers on this machine, each on a core of its own, and use them as machines.",
        ),
    ] = None

    @property
    def named(self) -> bool:
        """Whether one of them was given."""
        return self.cluster is not None or self.workers is not None


@dataclass(frozen=True, slots=True)
class ClusterPlanOptions:
    """Options of planning for several machines."""

    policy: Policy = "auto"
    budget: Budget = None


#: Options of this machine's devices.
LOCAL_OPTIONS = ("devices", "sub_devices", "one_core_lanes", "calibrate")


def tell_unused(context: typer.Context, parameters: Iterable[str], why: str) -> None:
    """Print a note for options that were given and have no effect."""
    from syclsched.cli.terminal import notices

    given = _given(context, parameters)
    if given:
        have = "has" if len(given) == 1 else "have"
        notices().print(f"note: {' and '.join(given)} {have} no effect {why}", markup=False)


def refuse_given(context: typer.Context, parameters: Iterable[str], why: str) -> None:
    """Raise `ArgumentError` if an option was given that cannot be used."""
    given = " and ".join(_given(context, parameters))
    if given:
        raise ArgumentError(f"{given} cannot be used {why}", where="the command line", hint=f"Leave {given} out")


def _given(context: typer.Context, parameters: Iterable[str]) -> list[str]:
    """Return those of some options that stand on the command line."""
    wanted = set(parameters)
    return [
        each.opts[0]
        for each in context.command.params
        if each.name in wanted
        and (source := context.get_parameter_source(each.name)) is not None
        and source.name == "COMMANDLINE"
    ]


#: Bytes at the beginning and at the end of a file in which its format is looked for.
_ENDS = 4096
#: How plan files give their format.
PLAN_FILE = b'"format": "syclsched-plan/'
#: Kinds of files of this package, by the beginning of their format, and the commands for them.
_FILES = {
    PLAN_FILE: ("it is a plan", "Name its graph, too: syclsched run GRAPH --plan {path}"),
    b'"format": "syclsched-trace/': ("it is a recorded run", "Use syclsched trace {path}"),
}


def refuse_other_files(path: Path, *, but: bytes | None = None) -> None:
    """Raise `ArgumentError` for a plan or a recorded run, which other commands take, but for one kind."""
    try:
        with path.open("rb") as file:
            found = file.read(_ENDS)
            file.seek(max(0, path.stat().st_size - _ENDS))
            found += file.read(_ENDS)
    except OSError:
        return
    for form, (what, hint) in _FILES.items():
        if form in found and form != but:
            raise ArgumentError(what, where=str(path), hint=hint.format(path=path))


def unknown_graph(name: str, files: str) -> ArgumentError:
    """Return the error for a name that is neither a ready graph nor a file of these kinds."""
    from syclsched import workloads

    known = workloads.names()
    return ArgumentError(
        f"there is no ready graph and no file {name!r}",
        where="GRAPH",
        hint=f"{did_you_mean(name, known)}Ready graphs: {', '.join(known)}. Or give a file: {files}",
    )


def build_workload(name: str, **given: Any) -> Workload:
    """Build a ready graph from command-line options."""
    from syclsched import workloads

    if name not in workloads.names() and Path(name).is_file():
        refuse_other_files(Path(name))
        raise ArgumentError(
            "a graph from a file has costs only: it can be planned and simulated, not run",
            where=name,
            hint="Use syclsched plan, compare, or simulate with --platform",
        )
    if name not in workloads.names():
        raise unknown_graph(name, "an ONNX model, which ends in .onnx")
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
    options = recipe.options(**said)
    _tell_about_tiles(options)
    return recipe.build(options)


def _tell_about_tiles(options: Any) -> None:
    """Print a note on a tile that is larger than the matrix, or does not divide it."""
    from syclsched.cli.terminal import notices

    n, tile = getattr(options, "n", None), getattr(options, "tile", None)
    if getattr(options, "input", None) is not None or n is None or tile is None or n < 1 or n % tile == 0:
        return
    if tile > n:
        text = f"--tile {tile} is larger than --n {n}: there is a single tile, so nothing can run at the same time"
    else:
        text = f"--tile {tile} does not divide --n {n}: the last tiles have {n % tile} rows or columns"
    notices().print(f"note: {text}", markup=False)


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
    """Parse ``64MiB`` or ``cpu=64MiB,accelerator=1GiB``."""
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
    """Parse ``2`` or ``cpu=2,accelerator=1``."""
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
