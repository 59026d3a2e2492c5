# SPDX-License-Identifier: Apache-2.0
"""Elements of tuples at an index that is computed in the kernel.

LLVM's SPIR-V target cannot choose between whole tuples, as numba's own code does; here numbers are chosen.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import RefType, iternext_impl

from syclsched.kernel_compiler.lowering.arrays import from_start
from syclsched.kernel_compiler.target.contexts import lowering_registry

_INDEX: Final = ir.IntType(64)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the numbers of nested tuples."""
    if isinstance(value, tuple | list):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _nested(pattern: Any, leaves: Iterator[Any]) -> Any:
    """Return nested tuples like a pattern, of other numbers."""
    return tuple(_nested(each, leaves) for each in pattern) if isinstance(pattern, tuple | list) else next(leaves)


def _element(context: Any, builder: Any, kind: Any, value: Any, place: Any) -> Any:
    """Return the element at an index that is not negative."""
    model = context.data_model_manager[kind.dtype]
    patterns = [model.as_argument(builder, builder.extract_value(value, number)) for number in range(kind.count)]
    chosen, *others = [list(_leaves(pattern)) for pattern in patterns]
    for number, leaves in enumerate(others, 1):
        is_here = builder.icmp_signed("==", place, ir.Constant(_INDEX, number))
        chosen = [builder.select(is_here, this, that) for this, that in zip(leaves, chosen, strict=True)]
    return model.from_argument(builder, _nested(patterns[0], iter(chosen)))


def _getitem(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, index_kind = signature.args
    if kind.count == 0:
        raise IndexError("an empty tuple has no elements")
    place = from_start(context, builder, index_kind, arguments[1], ir.Constant(_INDEX, kind.count))
    return _element(context, builder, kind, arguments[0], place)


for _tuple in (types.UniTuple, types.NamedUniTuple):
    for _index in (types.intp, types.uintp):
        lowering_registry.lower(operator.getitem, _tuple, _index)(_getitem)


@lowering_registry.lower("iternext", types.UniTupleIter)  # type: ignore[untyped-decorator]
@iternext_impl(RefType.BORROWED)  # type: ignore[untyped-decorator]
def _next_element(context: Any, builder: Any, signature: Any, arguments: Any, result: Any) -> None:
    kind = signature.args[0]
    iterator = context.make_helper(builder, kind, value=arguments[0])
    place = builder.load(iterator.index)
    is_valid = builder.icmp_signed("<", place, ir.Constant(_INDEX, kind.container.count))
    result.set_valid(is_valid)
    with builder.if_then(is_valid):
        if kind.container.count:
            result.yield_(_element(context, builder, kind.container, iterator.tuple, place))
        builder.store(cgutils.increment_index(builder, place), iterator.index)
