# SPDX-License-Identifier: Apache-2.0
"""Loop and Scan for onnx's reference implementation, in place of its own.

Those (1.23) run no iteration of a Loop without a condition, join scan outputs along their first axis, and refuse
iterations backwards, along other axes, and scan outputs without iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from syclsched.frontends.onnx.model_file.dtypes import DTYPES, numpy_dtype
from syclsched.interrupts import HOST_CALL


@cache
def loop_operators() -> tuple[Any, ...]:
    """Return the operators as classes that onnx's reference implementation takes."""
    from onnx.reference.op_run import OpRun

    class _WithContext(OpRun):
        op_domain = ""

        def need_context(self) -> bool:
            """Return whether the body may read values of outer graphs."""
            return True

    class _ReferenceLoop(_WithContext):
        def _run(self, trips: Any, condition: Any, *states: Any, context: Any = None, **_: Any) -> tuple[Any, ...]:
            body: Any = self.body  # type: ignore[attr-defined]  # an attribute of the node
            counter, going, *names = body.input_names
            goes_on = True if condition is None else bool(np.asarray(condition).reshape(-1)[0])
            most = None if trips is None else int(np.asarray(trips).reshape(-1)[0])
            made: list[list[Any]] = [[] for _ in body.output_names[1 + len(states) :]]
            done, outer = 0, context or {}

            def iteration() -> list[Any]:
                given = {counter: np.array(done, np.int64), going: np.array(goes_on)}
                found: list[Any] = body.run(None, {**outer, **given, **dict(zip(names, states, strict=True))})
                return found

            empty = [] if (goes_on and most != 0) or not made else _empty_results(body, 1 + len(states), iteration)
            while goes_on and (most is None or done < most):
                HOST_CALL.check_cancelled()
                condition, *found = iteration()
                states = tuple(found[: len(states)])
                for values, value in zip(made, found[len(states) :], strict=True):
                    values.append(value)
                goes_on = bool(np.asarray(condition).reshape(-1)[0])
                done += 1
            return (*states, *([np.stack(each) for each in made] if done else empty))

    class _ReferenceScan(_WithContext):
        def _run(self, *inputs: Any, context: Any = None, **_: Any) -> tuple[Any, ...]:
            body: Any = self.body  # type: ignore[attr-defined]  # attributes of the node
            count = int(self.num_scan_inputs)  # type: ignore[attr-defined]
            at = len(inputs) - count
            results = len(body.output_names) - at
            states, outer = tuple(inputs[:at]), context or {}
            lines = [
                np.moveaxis(each, axis, 0)[:: -1 if backwards else 1]
                for each, axis, backwards in zip(
                    inputs[at:],
                    self._list("scan_input_axes", count),
                    self._list("scan_input_directions", count),
                    strict=True,
                )
            ]

            def iteration(slices: Sequence[Any]) -> list[Any]:
                given = dict(zip(body.input_names, (*states, *slices), strict=True))
                found: list[Any] = body.run(None, {**outer, **given})
                return found

            made: list[list[Any]] = [[] for _ in range(results)]
            for number in range(len(lines[0])):
                HOST_CALL.check_cancelled()
                found = iteration([each[number] for each in lines])
                states = tuple(found[:at])
                for values, value in zip(made, found[at:], strict=True):
                    values.append(value)
            if len(lines[0]):
                whole = [np.stack(each) for each in made]
            else:
                zeros = [np.zeros(each.shape[1:], each.dtype) for each in lines]
                whole = _empty_results(body, at, lambda: iteration(zeros))
            axes, ways = self._list("scan_output_axes", results), self._list("scan_output_directions", results)
            turned = [each[:: -1 if way else 1] for each, way in zip(whole, ways, strict=True)]
            return (*states, *(np.moveaxis(each, 0, axis) for each, axis in zip(turned, axes, strict=True)))

        def _list(self, name: str, count: int) -> Sequence[int]:
            return getattr(self, name, None) or (0,) * count

    _ReferenceLoop.__name__, _ReferenceScan.__name__ = "Loop", "Scan"
    return _ReferenceLoop, _ReferenceScan


def _empty_results(body: Any, first: int, iteration: Any) -> list[Any]:
    """Return the results of no iteration: of the shapes that one would make, else as the body declares."""
    try:
        return [np.zeros((0, *np.shape(each)), np.asarray(each).dtype) for each in iteration()[first:]]
    except Exception:  # values that no iteration has may not fit
        found = []
        for each in body.proto_.output[first:]:
            kind = each.type.tensor_type
            extents = (extent.dim_value for extent in kind.shape.dim)
            found.append(np.zeros((0, *extents), numpy_dtype(DTYPES.get(kind.elem_type, "float32"))))
        return found
