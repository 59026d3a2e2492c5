# SPDX-License-Identifier: Apache-2.0
"""Import of operators whose results have a length known only at run time, and of those that need cut inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from syclsched.errors import ValueNeededError
from syclsched.frontends.onnx.importing.import_state import Shape
from syclsched.frontends.onnx.importing.lengths import Length
from syclsched.frontends.onnx.importing.network_builder import NetworkBuilder
from syclsched.frontends.onnx.importing.reference_fallback import NameScope, inferred_shapes, reference_inputs
from syclsched.frontends.onnx.model_file.dtypes import FLOATS
from syclsched.frontends.onnx.model_file.onnx_model import ModelNode
from syclsched.frontends.onnx.shapes import ShapeDtype


def emit_counted(
    b: NetworkBuilder,
    operator: str,
    inputs: Sequence[str | None],
    made: Sequence[tuple[Shape, str, int | None]],
    **attributes: Any,
) -> list[str | None]:
    """Add a counted node; return its results, given as shape, dtype and the axis along which they have a length."""
    given = list(inputs)
    cuts = []
    for position, name in enumerate(inputs):
        for length in () if name is None else b.lengths.get(name, ()):
            cuts.append((position, length.axis, len(given)))
            given.append(length.count)
    results = b.emit_all(
        "counted",
        given,
        shapes=(*((shape, dtype) for shape, dtype, _ in made), ((), "int64")),
        operator=operator,
        cuts=tuple(cuts),
        axes=tuple(axis for _, _, axis in made),
        count=len(inputs),
        **{"options": (), **attributes},
    )
    *found, count = results
    for name, (_, _, axis) in zip(found, made, strict=True):
        if axis is not None and name is not None and count is not None:
            b.give_lengths(name, [Length(axis, count)])
    return found


def _with_extents(
    b: NetworkBuilder,
    node: ModelNode,
    given: Mapping[str, str],
    results: tuple[str, ...],
    extent: Callable[[int], int],
) -> Sequence[ShapeDtype]:
    """Return shapes and dtypes of a node's results if the axes with a length had other extents."""
    changed = {}
    for name, value in given.items():
        counted = {length.axis for length in b.lengths.get(value, ())}
        if counted:
            changed[name] = tuple(extent(n) if axis in counted else n for axis, n in enumerate(b.shape(value)))
    return inferred_shapes(b, node, given, results, changed)


#: Elements of integer inputs for whose values a model is planned, rather than to leave a node to the host.
_FEW: Final = 64


def _deciding(b: NetworkBuilder, values: Iterable[str | None]) -> tuple[str, ...]:
    """Return the inputs of the network on which the lengths of values depend."""
    counts = [length.count for value in values if value is not None for length in b.lengths.get(value, ())]
    return tuple(dict.fromkeys(source for count in counts for source in b.sources(count)))


def _check_deciding(b: NetworkBuilder, values: Iterable[str | None]) -> None:
    """Raise if lengths follow from a few integers: devices execute the node, in a plan for each value."""
    deciding = _deciding(b, values)
    is_small = sum(math.prod(b.shape(name)) for name in deciding) <= _FEW
    if deciding and is_small and b.observed is not None and all(b.dtype(name) not in FLOATS for name in deciding):
        raise ValueNeededError(
            "its input has an extent that follows from values, which it does not take", inputs=deciding, where=b.place()
        )


def import_on_cut_inputs(
    b: NetworkBuilder, node: ModelNode, inputs: Sequence[str | None], scope: NameScope
) -> Sequence[str | None]:
    """Leave a node to onnx's reference implementation on the host, with its inputs cut to their lengths."""
    _check_deciding(b, inputs)
    given = reference_inputs(b, node, inputs, scope)
    results = tuple(name for name in node.outputs if name)
    whole = inferred_shapes(b, node, given, results)
    shorter = [_with_extents(b, node, given, results, extent) for extent in (lambda n: max(n - 1, 0), lambda _: 1)]
    made: list[tuple[Shape, str, int | None]] = []
    for (shape, dtype), *others, name in zip(whole, *shorter, results, strict=True):
        axes = [axis for axis, n in enumerate(shape) if any(other[0][axis] != n for other in others)]
        if len(axes) > 1:
            raise ValueNeededError(
                f"several extents of its result {name!r} are known only at run time",
                inputs=_deciding(b, given.values()),
                where=b.place(),
            )
        made.append((shape, dtype, axes[0] if axes else None))
    found = dict(
        zip(
            results,
            emit_counted(
                b,
                node.operator,
                list(given.values()),
                made,
                node=node.proto,
                opsets=b.opsets,
                names=tuple(given),
                results=results,
            ),
            strict=True,
        )
    )
    return [found.get(name) for name in node.outputs]
