# SPDX-License-Identifier: Apache-2.0
"""Write docs/onnx-operators.md: which operators are taken, what does them, and which of onnx's node tests pass.

Usage: ``python tools/onnx_operators.py`` writes the page; with ``--check`` it ends with 1 if the page is out of date.
The tests of ``tests/frontends/onnx/test_node_conformance.py`` hold that every test that is counted here passes.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "onnx-operators.md"

_HEAD = """% Made by tools/onnx_operators.py from the importers and the node tests of onnx {version}; run it again.

# ONNX operators

Models of opset {oldest} to {newest} of ONNX's own operators are taken. The package `onnx` ships tests of its operators:
{total:,} in version {version}. {passed:,} of them are within what is claimed here, and **all of these pass**: by the
road that a user's model takes (read, import, rewrite, plan, run) on the CPU device, some of them on the FPGA emulator,
too, and as networks evaluated by the host. A test of an older opset counts where its operators are the same in opset
{oldest} ({restamped:,} of them). In {known:,} tests nothing is left to run, since what is given is constants, or
values that shapes follow from. Tolerances, relative and absolute: {tolerances};
whole numbers and truth values must be equal.

- **device**: operations of this project do it, on every SYCL device.
- **beforehand**: it is done while the model is loaded: what it gives follows from shapes and constants.
- **definition**: ONNX defines it by other operators, and these are done.
- **host**: the host does it with onnx's own reference implementation, which is slow. Loading such a model warns
  (`HostOperatorWarning`) and says which nodes. Any other operator of ONNX's own that the reference implementation
  knows is done so, too, if the shapes of its results follow from the shapes of what it is given. Where they follow
  from values ("constants only"), all it is given must be known when the model is loaded.

An index beyond its axis is refused where it is known when the model is loaded, or is in an input; one that is computed
at run time picks the nearest element there is, as on every device. `RNN`, `GRU` and `LSTM` are done step by step; `If`,
`Loop` and `Scan` become what they do, where conditions and lengths are known when the model is loaded.

A shape that follows from the *value* of an input is settled when the model is loaded: that input's value has to be
given. In tests such inputs are given so.

Of the domain of classical machine learning, `ai.onnx.ml`, as scikit-learn, XGBoost and LightGBM are exported, devices
do {classical}; not all their forms: trees whose nodes
ask different kinds of questions, the transforms SOFTMAX_ZERO and PROBIT, and probabilities of support vectors are left
to the host. Rows go down all trees at once, one level after another. Text is not supported: train with whole numbers as
labels, and export with `options={{"zipmap": False}}`.
"""


_TAIL = """
## What is refused

Before anything is computed, with what is wrong and where (`ModelError`; `StorageError` for files that cannot be read):

- what is no ONNX model, or was cut short; other opsets; operators that do not exist, came later than the model's opset,
  or are other makers'; nodes that do not fit their operator's schema; circles; values that nobody makes, or two do;
- tensors with more or fewer data than their shape says; element types other than those of NumPy; external data outside
  the model's folder, with all links followed. Inside it they are mapped, not read;
- a file, an array, or all constants together, larger than this machine's memory (`ModelLimits.memory_bytes`); constants
  that are computed beforehand, by Expand, Tile, Range and so on, larger than {folded} MiB each
  (`ModelLimits.folded_bytes`); loops of known length with more than {rounds:,} rounds; more than {nodes:,} nodes;
- dimensions left open (`OpenDimensionError`, with their names), shapes that contradict what the model declares or each
  other, and shapes that follow from values which are not given (`ValueNeededError`, with the inputs' names).

Nodes that are not in order are brought into order; sparse constants are filled with their zeros; functions are inlined.
"""


def page() -> str:
    """Return the page as Markdown."""
    sys.path.insert(0, str(ROOT / "tests" / "frontends" / "onnx"))
    import node_cases
    import onnx

    from syclsched.frontends.onnx.importing.control import LONGEST_LOOP
    from syclsched.frontends.onnx.importing.driver import load_families
    from syclsched.frontends.onnx.importing.registry import ML, operators
    from syclsched.frontends.onnx.limits import ModelLimits
    from syclsched.frontends.onnx.reading import OPSETS

    tested: Counter[str] = Counter()
    on_host: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    refused: Counter[str] = Counter()
    passed = restamped = known = 0
    for case in node_cases.cases():
        reason = node_cases.out_of_scope(case)
        if reason is not None:
            refused[reason] += 1
            continue
        passed += 1
        restamped += case.restamped
        given = node_cases.named(case, next(case.data())[0])
        _, network = node_cases.prepared(case, given)
        known += not network.nodes
        done = {label.split(" ", 1)[0] for node in network.nodes if node.kind == "reference" for label in node.origin}
        for operator in case.operators:
            tested[operator] += 1
            on_host[operator][operator in done] += 1
    tolerances = ", ".join(
        f"{dtype} {relative:g} and {absolute:g}" for dtype, (relative, absolute) in node_cases.TOLERANCES.items()
    )
    load_families()
    head = _HEAD.format(
        classical=", ".join(f"`{operator}`" for operator in operators(ML)),
        version=onnx.__version__,
        total=passed + sum(refused.values()),
        passed=passed,
        restamped=restamped,
        oldest=OPSETS.start,
        newest=OPSETS.stop - 1,
        known=known,
        tolerances=tolerances,
    )
    limits = ModelLimits()
    tail = _TAIL.format(folded=limits.folded_bytes >> 20, nodes=limits.nodes, rounds=LONGEST_LOOP)
    return "\n".join([head, *_table(tested, on_host), "", *_refused(refused), tail])


def _table(tested: Counter[str], on_host: dict[str, Counter[bool]]) -> Iterator[str]:
    from syclsched.frontends.onnx.importing.control import CONTROL
    from syclsched.frontends.onnx.importing.driver import load_families
    from syclsched.frontends.onnx.importing.registry import operators

    load_families()
    ours = set(operators())
    yield "| Operator | Done by | Node tests passed |"
    yield "|---|---|---:|"
    for operator in sorted(ours | set(CONTROL) | set(tested)):
        by = on_host.get(operator, Counter())
        if operator in _BEFOREHAND:
            how = "beforehand"
        elif operator in CONTROL:
            how = "beforehand" + (", else host" if by[True] or operator in ("If", "Loop") else "")
        elif operator in ours:
            how = "device" + (", some forms host" if by[True] else "")
        elif not by[True] and _defined(operator):
            how = "definition"
        else:
            how = "host" if by[True] else "host, constants only"
        yield f"| {operator} | {how} | {tested[operator]} |"


def _defined(operator: str) -> bool:
    """Return whether ONNX defines an operator by others."""
    import onnx

    schema = onnx.defs.get_schema(operator)
    return bool(schema.function_opset_versions or schema.context_dependent_function_opset_versions)


_BEFOREHAND = frozenset({"Constant", "Shape", "Size", "Range", "Identity"})


def _refused(reasons: Counter[str]) -> Iterator[str]:
    yield "## Out of scope"
    yield ""
    yield "| Tests | Why |"
    yield "|---:|---|"
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {count} | {reason} |"


def main() -> int:
    """Write the page, or compare it."""
    made = page()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") != made:
            print(f"{PAGE} is out of date: run tools/onnx_operators.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
