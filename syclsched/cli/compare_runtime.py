# SPDX-License-Identifier: Apache-2.0
"""``syclsched run MODEL --compare onnxruntime``: alternating runs with another runtime, with equal inputs."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from syclsched.cli.requests.graph_planning import Planned
from syclsched.errors import ArgumentError, RuntimeMissingError, did_you_mean
from syclsched.model.text.units import format_seconds, plural

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.cli.requests.onnx_models import ModelWithInputs

OTHER_RUNTIMES = ("onnxruntime",)
_TRIES, _LEAST_TURNS = 6, 5


@dataclass(frozen=True, slots=True)
class _RuntimeComparison:
    """Times of alternating calls of two runtimes."""

    #: Seconds of each call, from input arrays to output arrays.
    ours_s: tuple[float, ...]
    theirs_s: tuple[float, ...]
    threads: int  # the other runtime's fastest number of threads

    @property
    def ratio(self) -> float:
        """Our median time divided by the other runtime's."""
        return statistics.median(self.ours_s) / statistics.median(self.theirs_s)


class OtherRuntime:
    """A model in ONNX Runtime's CPU provider, with the fastest number of threads."""

    def __init__(self, given: ModelWithInputs) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise RuntimeMissingError(
                "onnxruntime is not installed", where="--compare", hint="pip install onnxruntime, or leave it out"
            ) from error
        self._inputs = given.given
        best: tuple[float, int, Any] | None = None
        for threads in range(1, (os.cpu_count() or 1) + 1):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            # Threads that spin after a run would take cores from our runs.
            options.add_session_config_entry("session.force_spinning_stop", "1")
            try:
                session = onnxruntime.InferenceSession(given.path, options, providers=["CPUExecutionProvider"])
                found = session.run(None, self._inputs)
            except Exception as error:  # its errors have no common base class
                said = str(error).splitlines()[0]
                raise ArgumentError(f"ONNX Runtime refuses the model: {said}", where="--compare") from error
            names = [output.name for output in session.get_outputs()]
            given.expected = dict(zip(names, found, strict=True))
            took = min(_seconds(partial(session.run, None, self._inputs)) for _ in range(_TRIES))
            if best is None or took < best[0]:
                best = (took, threads, session)
        assert best is not None
        _, self.threads, self._session = best

    def __call__(self) -> None:
        """Run the model once."""
        self._session.run(None, self._inputs)


def measure_alternately(
    planned: Planned, given: ModelWithInputs, rival: OtherRuntime, repeat: int
) -> _RuntimeComparison:
    """Measure both runtimes with alternating calls."""
    from syclsched.execution import bind
    from syclsched.onnx.call_inputs import CallInputs

    specialised = given.specialised
    assert planned.live is not None
    with bind(planned.plan, specialised.graph, planned.live, trace=False, recover=True) as runner:
        inputs = CallInputs(given.model, ())

        def ours() -> None:
            values = given.values if inputs.are_plain else inputs.values((), given.given)
            values.results(specialised.results(runner(specialised.given(values), specialised.fetched)))

        for _ in range(2):
            ours()
            rival()
        turns = [(_seconds(ours), _seconds(rival)) for _ in range(max(repeat, _LEAST_TURNS))]
    return _RuntimeComparison(tuple(a for a, _ in turns), tuple(b for _, b in turns), rival.threads)


def show_runtime_comparison(versus: _RuntimeComparison, console: Console) -> None:
    """Print the times of both runtimes and their ratio."""
    ours, theirs = statistics.median(versus.ours_s), statistics.median(versus.theirs_s)
    console.print(
        f"{len(versus.ours_s)} runs alternating with ONNX Runtime (CPU, {plural(versus.threads, 'thread')}), "
        f"arrays in to arrays out: "
        f"{format_seconds(ours)} (least {format_seconds(min(versus.ours_s))}) to "
        f"{format_seconds(theirs)} (least {format_seconds(min(versus.theirs_s))}), ratio {versus.ratio:.2f}"
    )


def check_other_runtime(name: str | None, *, dry_run: bool, is_model: bool) -> None:
    """Raise `ArgumentError` for an unknown runtime, and if the run cannot be compared with one."""
    if name is None:
        return
    if name not in OTHER_RUNTIMES:
        raise ArgumentError(
            f"unknown runtime {name!r}",
            where="--compare",
            hint=did_you_mean(name, OTHER_RUNTIMES) + f"There is {', '.join(OTHER_RUNTIMES)}",
        )
    if dry_run or not is_model:
        raise ArgumentError("only runs of ONNX models can be compared", where="--compare")


def _seconds(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun
