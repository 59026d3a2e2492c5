# SPDX-License-Identifier: Apache-2.0
"""Conversion of task graphs from and to ``networkx.DiGraph``.

Node attributes, all optional except ``operation``; `to_networkx` writes and `from_networkx` reads all of them:

``operation``
    An `Operation`, or a callable that becomes a host task. Not needed for barriers and copies.
``arguments``
    Parameter name to array name or number. For an operation every parameter, as in `TaskGraph.kernel`.
``rows``
    Parameter name to the first row and one past the last, for arguments that are a range of rows of their array.
``shapes``
    Parameter name to the shape an array is passed with, where it differs from the array's own.
``accesses``
    For a callable: array argument to access mode (``"read"``, ``"write"``, ``"update"``, ``"reduce"``).
``kind``
    ``kernel``, ``host``, ``copy`` or ``barrier``; by default ``kernel`` for an operation and ``host`` for a callable.
``priority``
    Larger runs first among otherwise equal tasks.
``retries``, ``deadline_s``
    As in `TaskGraph.kernel`.
``order``
    Position in the submission order, from which dependencies follow. If any node has none, a topological order of
    the digraph is used, with ties broken by insertion order.

The digraph's own attribute ``arrays`` maps array names to `_ArraySpec` mappings (``shape``, ``dtype``, and optionally
``temporary``, ``usm`` and ``data``), to NumPy arrays, which give their own shape, dtype and initial value, or to
`LogicalArray`. Its attribute ``joined`` maps names of joined arrays to tuples of the names of their parts.

A digraph whose nodes have costs instead of operations is read as DOT and GraphML files are: the attributes are those of
`syclsched.frontends.attributes` (``seconds``, ``cost``, ``weight``, ... of nodes, ``bytes``, ``cost`` or ``weight`` of
edges), as numbers or text, in the same units. Its tasks can be planned and simulated, not run. `to_networkx` writes
these attributes, too, for the algorithms of networkx: stated costs of nodes, and of every edge the ``bytes`` of the
arrays that one task writes and the other reads.

Edges are explicit dependencies, except those that `to_networkx` marked as implied by accesses or barriers (``kind``
``RAW``, ``WAR``, ``WAW`` or ``barrier``) if they are still implied.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from syclsched.errors import ArgumentError, GraphError
from syclsched.frontends.assemble import ListedEdge, graph_of_edges
from syclsched.frontends.attributes import AttributeNames, edge_bytes, is_cost, listed_task
from syclsched.frontends.graph_units import Units
from syclsched.model.access import Access, AccessMode
from syclsched.model.constant import Constant
from syclsched.model.cost_only import is_cost_only
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.topological_sort import acyclic_order
from syclsched.model.operation import Operation, Signature
from syclsched.model.task import ArrayRows, LogicalArray, ReshapedArray, Task
from syclsched.model.usm import UsmKind

if TYPE_CHECKING:
    import networkx as nx

_IMPLIED = ("RAW", "WAR", "WAW", "barrier")
#: Names of parameters of `TaskGraph.kernel` and `TaskGraph.host`, which arguments of tasks cannot have.
_OPTIONS = frozenset(
    {"name", "priority", "flops", "pure", "deadline_s", "retries", "self", "operation", "function"}
)  # fmt: skip
#: Node attributes of tasks with code, and of barriers and copies.
_OF_CODE = frozenset({"operation", "arguments", "rows", "shapes", "accesses", "kind"})


class _ArraySpec(TypedDict, total=False):
    """The declaration of one array in a digraph's ``arrays``."""

    shape: tuple[int, ...]
    dtype: str
    temporary: bool
    usm: UsmKind
    donated: bool
    data: Any


def to_networkx(graph: TaskGraph) -> nx.DiGraph:
    """Convert a task graph to a digraph, which `from_networkx` converts back to an equal graph.

    Parameters
    ----------
    graph : TaskGraph
        Any graph.

    Returns
    -------
    networkx.DiGraph
        A node for each task, by name, with its operation, arguments and accesses, and ``seconds``, ``seconds_<device>``
        and ``cores`` where costs are stated; an edge for each pair of dependent tasks, with all their dependencies and
        the ``bytes`` that one passes to the other.

    Examples
    --------
    >>> import syclsched
    >>> graph = syclsched.TaskGraph("two")
    >>> x = graph.array("x", (1000,), "float64")
    >>> task = graph.host(lambda x: x.fill(1.0), x=x.write(), name="fill")
    >>> task = graph.host(lambda x: x.sum(), x=x.read(), name="sum")
    >>> digraph = syclsched.to_networkx(graph)
    >>> list(digraph.edges(data="bytes"))
    [('fill', 'sum', 8000)]
    >>> syclsched.from_networkx(digraph).fingerprint() == graph.fingerprint()
    True
    """
    import networkx as nx

    data = graph.data
    digraph = nx.DiGraph(name=graph.name)
    digraph.graph["arrays"] = {
        a.name: {"shape": a.shape, "dtype": a.dtype, "temporary": a.temporary}
        | ({"usm": a.usm} if a.usm is not None else {})
        | ({"donated": True} if a.donated else {})
        | ({"data": data[a.name]} if a.name in data else {})
        for a in graph.arrays.values()
    }
    if graph.joined:
        digraph.graph["joined"] = {name: tuple(each.parts for each in them) for name, them in graph.joined.items()}
    for position, task in enumerate(graph.tasks):
        digraph.add_node(task.name, order=position, **_attributes(task))
    for (before, after), nbytes in graph.passed_bytes().items():
        digraph.add_edge(before, after, bytes=nbytes, dependencies=())
    for dependency in graph.dependencies():
        pair = (dependency.kind, dependency.array)
        edge = digraph.edges[dependency.before, dependency.after]
        if not edge["dependencies"]:
            edge.update(kind=pair[0], array=pair[1])
        edge["dependencies"] = (*edge["dependencies"], pair)
    return digraph


def from_networkx(
    digraph: nx.DiGraph,
    operations: Mapping[Hashable, Operation | Callable[..., Any]] | None = None,
    *,
    arrays: Mapping[str, Any] | None = None,
    name: str | None = None,
    units: Units | None = None,
) -> TaskGraph:
    """Convert a digraph to a task graph.

    Parameters
    ----------
    digraph : networkx.DiGraph
        Nodes are tasks. Their attribute ``operation`` is the code; other attributes give arguments, accesses and more
        (see the page on graph files). Nodes may have costs instead, as in GraphML files: ``seconds``,
        ``seconds_<device>``, ``cost``, ``weight``, ``cores``, and edges ``bytes``. Such a graph can be planned and
        simulated, not run.
    operations : mapping, optional
        Operation, or callable for a host task, by node; takes precedence over the attribute.
    arrays : Mapping[str, Any], optional
        Arrays by name, in addition to those of the digraph's attribute ``arrays``: NumPy arrays, or mappings with
        ``shape`` and ``dtype``.
    name : str, optional
        Name of the graph; by default that of the digraph.
    units : Units, optional
        Units of costs without a unit, and names of the attributes that hold them; see `read_graph`.

    Returns
    -------
    TaskGraph
        Edges become dependencies, in addition to those that follow from accesses.

    Raises
    ------
    GraphError, FormatError, ArgumentError
        If the digraph is undirected, a multigraph or has a cycle, or an attribute is wrong; names node and attribute.

    Examples
    --------
    >>> import networkx as nx
    >>> import syclsched
    >>> digraph = nx.DiGraph(name="two")
    >>> digraph.add_node("load", seconds=0.5, seconds_gpu=0.01)
    >>> digraph.add_node("fit", seconds=2.0, cores=4)
    >>> digraph.add_edge("load", "fit", bytes=4_000_000)
    >>> graph = syclsched.from_networkx(digraph)
    >>> [task.name for task in graph.tasks], [array.nbytes for array in graph.arrays.values()]
    (['load', 'fit'], [4000000])
    """
    _check_kind(digraph)
    names = _node_names(digraph)
    known = AttributeNames(*(() if units is None else (units.task_cost, units.edge_cost)))
    if not operations and not arrays and _has_only_costs(digraph, known):
        return _of_costs(digraph, names, known, units or Units(), name)
    edges = [(names[before], names[after]) for before, after in digraph.edges]
    where = f"digraph {_title(digraph, name)!r}"
    order = acyclic_order(names.values(), edges, where, "A task graph is acyclic; remove an edge")
    graph = TaskGraph(_title(digraph, name))
    declared = {**digraph.graph.get("arrays", {}), **(arrays or {})}
    for array, spec in declared.items():
        _declare(graph, array, spec)
    logical = graph.arrays
    nodes = {text: node for node, text in names.items()}
    for text in _submission(digraph, names, order):
        attributes = dict(digraph.nodes[nodes[text]])
        if operations is not None and nodes[text] in operations:
            attributes["operation"] = operations[nodes[text]]
        _add(graph, logical, text, attributes)
    implied = {(d.before, d.after) for d in graph.dependencies()}
    for before, after, attributes in digraph.edges(data=True):
        pair = (names[before], names[after])
        if pair not in implied or not _only_implied(attributes):
            graph.edge(*pair)
    for whole, groups in digraph.graph.get("joined", {}).items():
        for parts in groups:
            graph.join(whole, [_array_named(logical, part, whole) for part in parts])
    graph.validate()
    return graph


def _has_only_costs(digraph: nx.DiGraph, known: AttributeNames) -> bool:
    """Return whether nodes have costs, and no attribute that defines code of a task."""
    nodes = [attributes for _, attributes in digraph.nodes(data=True)]
    if digraph.graph.get("arrays") or any(not _OF_CODE.isdisjoint(attributes) for attributes in nodes):
        return False
    return any(is_cost(attribute) for attributes in nodes for attribute in _texts(attributes, known.of_node))


def _of_costs(
    digraph: nx.DiGraph, names: Mapping[Hashable, str], known: AttributeNames, units: Units, name: str | None
) -> TaskGraph:
    """Return the graph of tasks with costs instead of code."""
    title = _title(digraph, name)
    where = f"digraph {title!r}"
    tasks = [
        listed_task(text, _texts(digraph.nodes[node], known.of_node), units, f"{where}, node {text!r}")
        for node, text in names.items()
    ]
    pairs = [(names[before], names[after]) for before, after in digraph.edges]
    places = [f"{where}, edge {before!r} -> {after!r}" for before, after in pairs]
    edges = [
        ListedEdge(before, after, edge_bytes(_texts(attributes, known.of_edge), units, place))
        for (before, after), place, (_, _, attributes) in zip(pairs, places, digraph.edges(data=True), strict=True)
    ]
    return graph_of_edges(title, tasks, edges, where, places.__getitem__)


def _texts(attributes: Mapping[Any, Any], known: Callable[[str], str | None]) -> dict[str, str]:
    """Return the recognised attributes by their canonical names, as text, as a file has them."""
    named = ((known(key), value) for key, value in attributes.items() if isinstance(key, str))
    return {key: str(value) for key, value in named if key is not None}


# --- to networkx ----------------------------------------------------------------------------------


def _attributes(task: Task) -> dict[str, Any]:
    scalars = {} if task.signature is None else dict(task.signature.scalars)
    found: dict[str, Any] = {"kind": task.kind, "family": task.family, "priority": task.priority}
    found["arguments"] = {**task.arguments, **task.constants, **scalars}
    found["accesses"] = {a.array: a.mode.value for a in task.accesses}
    if task.operation is not None:
        found["operation"] = task.operation
        found["accesses"] = {p.name: p.mode.value for p in task.operation.parameters if p.mode is not None}
    if is_cost_only(task):
        found |= scalars  # they are called as the attributes are
    if task.rows:
        found["rows"] = dict(task.rows)
    if task.retries:
        found["retries"] = task.retries
    if task.deadline_s is not None:
        found["deadline_s"] = task.deadline_s
    if task.reshaped and task.signature is not None:
        found["shapes"] = {name: task.signature.shapes[name] for name in sorted(task.reshaped)}
    return found


# --- from networkx --------------------------------------------------------------------------------


def _refuse(what: str, where: str, hint: str | None = None) -> NoReturn:
    raise GraphError(what, where=where, hint=hint)


def _check_kind(digraph: Any) -> None:
    import networkx as nx

    if not isinstance(digraph, nx.Graph):
        _refuse(f"a networkx.DiGraph is needed, not {type(digraph).__name__}", "from_networkx")
    if not digraph.is_directed():
        _refuse("an undirected graph does not say which task comes first", "from_networkx", "Give a networkx.DiGraph")
    if digraph.is_multigraph():
        _refuse(
            "a multigraph has several edges between two tasks",
            "from_networkx",
            "Make it a networkx.DiGraph(multigraph): one dependency between two tasks says all",
        )


def _node_names(digraph: nx.DiGraph) -> dict[Hashable, str]:
    names: dict[Hashable, str] = {node: str(node) for node in digraph.nodes}
    if len(set(names.values())) < len(names):
        seen: set[str] = set()
        twice = next(text for text in names.values() if text in seen or seen.add(text))  # type: ignore[func-returns-value]
        _refuse(f"two nodes are both named {twice!r}", "from_networkx", "Task names are unique: rename one")
    return names


def _title(digraph: nx.DiGraph, name: str | None) -> str:
    return name or str(digraph.graph.get("name") or "graph")


def _submission(digraph: nx.DiGraph, names: Mapping[Hashable, str], order: tuple[str, ...]) -> list[str]:
    places = {text: digraph.nodes[node].get("order") for node, text in names.items()}
    if not all(isinstance(place, int) for place in places.values()):
        return list(order)
    return sorted(order, key=lambda text: places[text])


def _declare(graph: TaskGraph, name: str, spec: Any) -> None:
    where = f"array {name!r}"
    if isinstance(spec, LogicalArray):
        graph.array(name, spec.shape, spec.dtype, temporary=spec.temporary, usm=spec.usm, donated=spec.donated)
    elif isinstance(spec, Mapping):
        unknown = sorted(set(spec) - set(_ArraySpec.__annotations__))
        if unknown:
            _refuse(f"unknown key {unknown[0]!r}", where, f"It takes {', '.join(_ArraySpec.__annotations__)}")
        graph.array(name, **{"shape": None, "dtype": None, **spec, "temporary": bool(spec.get("temporary"))})
    elif hasattr(spec, "shape") and hasattr(spec, "dtype"):
        graph.array(name, data=spec)
    else:
        _refuse(f"an array is declared by its shape and dtype or by its data, not by {spec!r}", where)


def _array_named(arrays: Mapping[str, LogicalArray], name: str, whole: str) -> LogicalArray:
    if name not in arrays:
        _refuse(f"part {name!r} is not declared", f"joined array {whole!r}")
    return arrays[name]


def _add(graph: TaskGraph, arrays: Mapping[str, LogicalArray], name: str, attributes: Mapping[str, Any]) -> None:
    where = f"node {name!r}"
    operation = attributes.get("operation")
    kind = attributes.get("kind") or ("kernel" if isinstance(operation, Operation) else "host")
    priority = attributes.get("priority", 0)
    if not isinstance(priority, int):
        _refuse(f"attribute 'priority' is {priority!r}, not an integer", where)
    options = {key: attributes[key] for key in ("retries", "deadline_s") if key in attributes}
    if kind == "barrier":
        graph.barrier(name=name)
        return
    arguments = {key: _argument(arrays, value) for key, value in _mapping(attributes, "arguments", where).items()}
    rows, shapes = _mapping(attributes, "rows", where), _mapping(attributes, "shapes", where)
    if kind == "copy":
        arguments = _with_shapes(_with_rows(arguments, rows, where), shapes, where)
        if arguments.keys() != {"source", "destination"}:
            _refuse("a copy has the arguments 'source' and 'destination'", where)
        graph.copy(arguments["source"], arguments["destination"], name=name)
        return
    if operation is None:
        _refuse(
            "attribute 'operation' is missing",
            where,
            "Set it on the node, or pass operations={node: operation or callable}",
        )
    modes = {key: _mode(mode, key, where) for key, mode in _mapping(attributes, "accesses", where).items()}
    for parameter in modes.keys() - arguments.keys():
        # An access without an argument of the same name gives both the parameter and the array.
        arguments[parameter] = _argument(arrays, parameter)
    arguments = _with_shapes(_with_rows(arguments, rows, where), shapes, where)
    accesses = {key: _access(value, modes[key]) if key in modes else value for key, value in arguments.items()}
    taken = _OPTIONS & accesses.keys()
    if taken:
        raise ArgumentError(f"an argument cannot be called {sorted(taken)[0]!r}", where=where)
    if kind == "kernel" and isinstance(operation, Operation):
        graph.kernel(operation, name=name, priority=priority, **options, **accesses)
    elif kind == "host":
        function, flops = _host_function(operation, arguments, where)
        pure = isinstance(operation, Operation) and operation.pure
        graph.host(function, name=name, priority=priority, flops=flops, pure=pure, **options, **accesses)
    else:
        _refuse(f"a {kind!r} task cannot be made of {operation!r}", where, "Give an Operation, or a callable")


def _with_shapes(arguments: Mapping[str, Any], shapes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the arguments with arrays reshaped as given."""
    found = dict(arguments)
    for key, shape in shapes.items():
        array = found.get(key)
        if not isinstance(array, LogicalArray):
            _refuse(f"a shape is given for {key!r}, which is not a whole array", where)
        found[key] = array.reshaped(shape)
    return found


def _with_rows(arguments: Mapping[str, Any], rows: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the arguments with arrays restricted to rows as given."""
    found = dict(arguments)
    for key, ends in rows.items():
        array = found.get(key)
        pair = isinstance(ends, (tuple, list)) and len(ends) == 2 and all(isinstance(end, int) for end in ends)
        if not isinstance(array, LogicalArray) or not pair:
            _refuse(
                f"rows of {key!r} are {ends!r}",
                where,
                "Give the first and one past the last, for an argument that is an array",
            )
        found[key] = ArrayRows(array, *ends)
    return found


#: Types of arguments with a shape and a dtype.
_ARRAYS = (LogicalArray, ArrayRows, ReshapedArray, Constant)


def _access(value: Any, mode: AccessMode) -> Any:
    if isinstance(value, ArrayRows):
        return Access(value.array.name, mode, value.rows)
    if isinstance(value, ReshapedArray):
        return Access(value.array.name, mode, shape=value.shape)
    return Access(value.name, mode) if isinstance(value, LogicalArray) else value


def _host_function(operation: Any, arguments: Mapping[str, Any], where: str) -> tuple[Callable[..., Any], float]:
    """Return the function of a host task and its flops."""
    if not isinstance(operation, Operation):
        if not callable(operation):
            _refuse(f"attribute 'operation' is {operation!r}, neither an Operation nor a callable", where)
        return operation, 0.0
    arrays = {key: value for key, value in arguments.items() if isinstance(value, _ARRAYS)}
    signature = Signature(
        {key: a.shape for key, a in arrays.items()},
        {key: a.dtype for key, a in arrays.items()},
        {key: value for key, value in arguments.items() if key not in arrays},
    )
    for implementation in operation.implementations:
        if implementation.kind == "host":
            return implementation.load(signature), operation.work(signature).flops
    _refuse(f"operation {operation.name!r} has no implementation for the host", where)


def _mode(value: Any, parameter: str, where: str) -> AccessMode:
    try:
        return AccessMode(value)
    except ValueError:
        _refuse(
            f"access of {parameter!r} is {value!r}", where, f"It is one of {', '.join(m.value for m in AccessMode)}"
        )


def _argument(arrays: Mapping[str, LogicalArray], value: Any) -> Any:
    """Return the array for a name, and any other value unchanged."""
    if not isinstance(value, str):
        return value
    # An undeclared name becomes an access, for which the graph raises its own error.
    return arrays[value] if value in arrays else Access(value, AccessMode.READ)


def _mapping(attributes: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = attributes.get(key, {})
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        _refuse(f"attribute {key!r} must map names, it is {value!r}", where)
    return value


def _only_implied(attributes: Mapping[str, Any]) -> bool:
    """Return whether `to_networkx` marked an edge as implied, without an explicit dependency."""
    kinds = [pair[0] for pair in attributes.get("dependencies", ())] or [attributes.get("kind")]
    return all(kind in _IMPLIED for kind in kinds)
