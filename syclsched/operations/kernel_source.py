# SPDX-License-Identifier: Apache-2.0
"""Analysis of a kernel's source: access modes of its parameters, and arithmetic operations of a work-item."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final

from syclsched.errors import ArgumentError
from syclsched.kernel_compiler.kernel_api import AtomicRef
from syclsched.kernel_compiler.python_kernel import DeviceFunction
from syclsched.model.access import AccessMode

#: Attributes that arrays have and numbers have not.
_OF_ARRAYS: Final = frozenset({"shape", "size", "ndim", "dtype", "strides", "itemsize"})


@dataclass(slots=True)
class ParameterUse:
    """Use of one parameter in a kernel."""

    is_array: bool = False  # whether it is used as an array is
    #: Whether elements are read, and written.
    loaded: bool = False
    stored: bool = False
    #: If every work-item writes the element of its own index, and does nothing else with the array: the number of
    #: dimensions of the index.
    every_item: int | None = None
    passed_to: str | None = None  # a function that it is passed to, and of which the code is not known

    def add(self, *, loaded: bool = False, stored: bool = False) -> None:
        """Note an access to elements."""
        self.is_array = True
        self.loaded |= loaded
        self.stored |= stored


@dataclass(slots=True)
class KernelSource:
    """The definition of a kernel or device function, with the objects that its names refer to."""

    function: FunctionType
    definition: ast.FunctionDef
    parameters: list[str]
    _names: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, function: FunctionType) -> KernelSource | None:
        """Return the source of a function; None if there is no file, as in an interactive session."""
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, SyntaxError, TypeError):
            return None
        found = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)
        if found is None or found.name != function.__name__:
            return None
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        names = {**vars(builtins), **function.__globals__}
        for name, cell in cells:
            try:
                names[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        return cls(function, found, list(inspect.signature(function).parameters), names)

    # --- access modes ---------------------------------------------------------------------------------

    def uses(self) -> dict[str, ParameterUse]:
        """Return the use of each parameter."""
        found = {name: ParameterUse() for name in self.parameters}
        owners = self._aliases()
        for node in ast.walk(self.definition):
            if isinstance(node, ast.Subscript):
                stored = not isinstance(node.ctx, ast.Load)
                for owner in _owners_of(node, owners):
                    found[owner].add(loaded=not stored, stored=stored)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
                for owner in _owners_of(node.target, owners):
                    found[owner].add(loaded=True)
            elif isinstance(node, ast.For) and not isinstance(node.iter, ast.Call):
                for owner in _owners_of(node.iter, owners):
                    found[owner].add(loaded=True)
            elif isinstance(node, ast.Attribute):
                if isinstance(node.value, ast.Name) and node.attr in _OF_ARRAYS and node.value.id in self.parameters:
                    found[node.value.id].is_array = True
            elif isinstance(node, ast.Call):
                self._note_call(node, owners, found)
        for name, dimensions in self._whole_stores().items():
            if not found[name].loaded:
                found[name].every_item = dimensions
        return found

    def _aliases(self) -> dict[str, frozenset[str]]:
        """Return the parameters of which each name may be a view: all that the values given to it mention."""
        owners = {name: frozenset((name,)) for name in self.parameters}
        given: list[tuple[str, ast.expr]] = []
        for node in ast.walk(self.definition):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    pairs = _paired(target, node.value)
                    given += pairs or [(name, node.value) for name in _names_in(target)]
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                given += [(name, node.value) for name in _names_in(node.target)]
            elif isinstance(node, ast.For):
                given += [(name, node.iter) for name in _names_in(node.target)]
        for _ in given:  # a name may be given the value of another
            before = dict(owners)
            for name, value in given:
                owners[name] = owners.get(name, frozenset()).union(_mentioned(value, owners))
            if owners == before:
                break
        return owners

    def _note_call(
        self, call: ast.Call, owners: Mapping[str, frozenset[str]], found: Mapping[str, ParameterUse]
    ) -> None:
        callee = self._object(call.func)
        inner = KernelSource.of(callee.function) if isinstance(callee, DeviceFunction) else None
        uses = inner.uses() if inner is not None else {}
        named: list[tuple[Any, ast.expr]] = [*enumerate(call.args), *((each.arg, each.value) for each in call.keywords)]
        for position, argument in named:
            other = ParameterUse()
            if callee is AtomicRef and position in (0, "ref"):
                other.add(loaded=True, stored=True)
            elif callee is len:
                other.is_array = True
            elif inner is not None:
                name = inner.parameters[position] if isinstance(position, int) else position
                other = uses.get(name, other)
            elif isinstance(argument, ast.Name) and argument.id in self.parameters:  # an element is a number
                found[argument.id].passed_to = ast.unparse(call.func)
            for owner in _owners_of(argument, owners):
                if other.is_array:
                    found[owner].add(loaded=other.loaded, stored=other.stored)
                found[owner].passed_to = found[owner].passed_to or other.passed_to

    def _whole_stores(self) -> dict[str, int]:
        """Return the arrays whose element of its own index every work-item stores, and the index's dimensions."""
        definition = self.definition
        if any(isinstance(node, ast.Return) for node in ast.walk(definition)):
            return {}
        ids: dict[str, int] = {}
        found: dict[str, int] = {}
        for statement in definition.body:
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            target, value = statement.targets[0], statement.value
            for name, single in _paired(target, value):
                ids.pop(name, None)
                axis = self._axis_of_id(single)
                if axis is not None and _assignments(definition, name) == 1:
                    ids[name] = axis
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                indices = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
                axes = [ids.get(each.id) if isinstance(each, ast.Name) else self._axis_of_id(each) for each in indices]
                if axes == list(range(len(axes))) and target.value.id in self.parameters:
                    found[target.value.id] = len(axes)
        return found

    def _axis_of_id(self, node: ast.expr) -> int | None:
        """Return the dimension of ``item.get_id(dimension)``; None for any other expression."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        of_item = isinstance(node.func.value, ast.Name) and node.func.value.id == self.parameters[0]
        constant = node.args[0] if len(node.args) == 1 else None
        if of_item and node.func.attr == "get_id" and isinstance(constant, ast.Constant):
            return constant.value if isinstance(constant.value, int) else None
        return None

    def _object(self, node: ast.expr) -> Any:
        """Return the object that a name, or an attribute of one, stands for outside the function; None if unknown."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self._object(node.value), node.attr, None)
        return None

    # --- work -----------------------------------------------------------------------------------------

    def arithmetic(self, arguments: Mapping[str, Any]) -> float:
        """Return the arithmetic operations of one work-item: operators, and calls of functions, which count as one.

        A loop over a range counts as often as it runs, if that follows from the ``arguments`` (numbers, and objects
        with ``shape`` for arrays), else once; both branches of a condition count.
        """
        return sum(self._count(statement, arguments) for statement in self.definition.body)

    def _count(self, node: ast.AST, arguments: Mapping[str, Any]) -> float:
        if isinstance(node, ast.Subscript):
            return 0.0  # arithmetic of addresses
        inside = sum(self._count(child, arguments) for child in ast.iter_child_nodes(node))
        if isinstance(node, ast.For):
            return inside * self._trips(node.iter, arguments)
        if isinstance(node, (ast.BinOp, ast.AugAssign)):
            return inside + 1
        if isinstance(node, ast.Call):
            callee = self._object(node.func)
            inner = KernelSource.of(callee.function) if isinstance(callee, DeviceFunction) else None
            if inner is not None:
                return inside + inner.arithmetic({})
            of_item = isinstance(node.func, ast.Attribute) and self._object(node.func) is None
            return inside if of_item or callee in (range, len) else inside + 1
        return inside

    def _trips(self, loop: ast.expr, arguments: Mapping[str, Any]) -> float:
        try:
            return float(len(eval(compile(ast.Expression(loop), "<loop>", "eval"), self._names, dict(arguments))))
        except Exception:  # it depends on what the kernel computes
            return 1.0


def access_modes(
    source: KernelSource | None, annotated: frozenset[str], function: FunctionType
) -> dict[str, tuple[AccessMode, int | None] | None]:
    """Return mode and dimensions (None: any) of each array parameter that is not annotated, and None for numbers.

    Raises `ArgumentError` if the mode of a parameter does not follow from the source.
    """
    names = [name for name in list(inspect.signature(function).parameters)[1:] if name not in annotated]
    if source is None:
        if names:
            raise _undecided(function, names[0], "its source cannot be read")
        return {}
    uses = source.uses()
    found: dict[str, tuple[AccessMode, int | None] | None] = {}
    for name in names:
        use = uses[name]
        if use.is_array and use.passed_to is not None:
            raise _undecided(function, name, f"it is passed to {use.passed_to}")
        if not use.is_array:
            found[name] = None
        elif use.every_item is not None:
            found[name] = AccessMode.WRITE, use.every_item
        else:
            found[name] = (AccessMode.UPDATE if use.stored else AccessMode.READ), None
    return found


def _undecided(function: FunctionType, name: str, reason: str) -> ArgumentError:
    return ArgumentError(
        f"how parameter {name!r} is accessed does not follow from the code: {reason}",
        where=f"operation {function.__name__!r}",
        hint=f"Annotate it: {name}: syclsched.Read, Write, Update or Reduce; a number: {name}: float",
    )


def _owners_of(node: ast.expr, owners: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the parameters that an expression may be a view of; of ``x[i]`` those of ``x``, not those of ``i``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return owners.get(node.id, frozenset())
    return frozenset() if isinstance(node, (ast.Constant, ast.BinOp, ast.Compare)) else _mentioned(node, owners)


def _mentioned(node: ast.AST, owners: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the parameters that an expression mentions, but for their shapes and dtypes, and for indices."""
    if isinstance(node, ast.Name):
        return owners.get(node.id, frozenset())
    if isinstance(node, ast.Attribute) and node.attr in _OF_ARRAYS:
        return frozenset()
    inside = [node.value] if isinstance(node, ast.Subscript) else list(ast.iter_child_nodes(node))
    return frozenset().union(*(_mentioned(each, owners) for each in inside))


def _names_in(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _paired(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    """Return the names that an assignment gives values, with these: of ``a = x`` and of ``a, b = x, y``."""
    targets, values = [target], [value]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        targets, values = target.elts, value.elts
    return [(each.id, given) for each, given in zip(targets, values, strict=True) if isinstance(each, ast.Name)]


def _assignments(definition: ast.FunctionDef, name: str) -> int:
    return sum(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(definition)
    )
