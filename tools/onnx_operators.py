# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference/onnx-operators.md: supported operators, their implementations, and passed node tests of onnx.

Usage: ``python tools/onnx_operators.py`` writes the page, and the record of the installed release of onnx, the source
of the tables by release; with ``--record`` the record only, with ``--check`` neither: it ends with 1 if one of them is
out of date. ``tests/frontends/onnx/test_node_conformance.py`` checks that every test counted here passes.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "onnx-operators.md"
#: Release of onnx -> number of its node tests, and the names of those that are out of scope by reason.
RECORD = ROOT / "tools" / "onnx_node_tests.json"

_HEAD = """% Made by tools/onnx_operators.py from the importers and the node tests of onnx {version}; run it again.

# ONNX operators

Models with ONNX's own operators of opset {oldest} to {newest} are supported. The package `onnx` ships tests of its
operators: {total:,} in version {version}. {passed:,} of them are in scope, and **all of these pass**: through the
whole pipeline of a user's model (read, import, rewrite, plan, run) on the CPU device, some of them also on the FPGA
emulator, and as networks evaluated by the host. A test of an older opset counts if its operators are the same in opset
{oldest} ({restamped:,} of them). In {known:,} tests no operator is left to run, since all inputs are constants or
determine shapes. Tolerances, relative and absolute: {tolerances};
all others must be equal.

- **device**: executed by operations of this project, on every SYCL device.
- **beforehand**: evaluated while the model is loaded: its result follows from shapes and constants.
- **definition**: replaced by the other operators with which ONNX defines it.
- **host**: executed by the host with onnx's own reference implementation, which is slow. Loading such a model warns
  (`HostOperatorWarning`) and names the nodes. Any other ONNX operator of the reference implementation is executed
  in this way, too, if the shapes of its results follow from the shapes of its inputs. If they follow from values
  ("constants only"), all inputs must be known when the model is loaded.

Elements of bfloat16, float8, float6, float4, and integers of 2 and 4 bits are held in float32, int8 or uint8. Operators
compute in these, and each result is rounded to its type, ties to even; operators that only move elements need no
rounding. Inputs and outputs are arrays of the package `ml_dtypes`. Operators on bits are refused for them.

An index beyond its axis is refused if it is known when the model is loaded, or is in an input; one that is computed
at run time selects the nearest element, as on every device. All steps of `RNN`, `GRU` and
`LSTM` are one task for each direction. Control flow, and results whose extents follow from values, are
[planned once](../how-to/onnx.md#control-flow-and-results-of-unknown-length).

Any other shape that follows from the *value* of an input is fixed when the model is loaded: that input's value must be
given. The tests do so.

Of the domain of classical machine learning, `ai.onnx.ml`, as exported from scikit-learn, XGBoost and LightGBM, devices
execute {classical}, with exceptions: trees whose
nodes ask for membership of sets run on the host, as do the probabilities that `SVMClassifier` couples from
scores of pairs of classes. Rows traverse all trees at once, level by level. Labels that are
text, of classifiers and of `LabelEncoder` from integers, and the maps of `ZipMap` are made by the host of the outputs.

Of the domain `ai.onnx.preview.training`, devices execute {training} and `Gradient`, which gives
the derivatives of the sum of a value's elements by initialisers, inputs or values between, also where other values are
given for these, and of gradients. A node on the way that has no gradient is refused with its name.

Operators on text and maps are executed by the host in every call: before the devices' tasks where numbers that they
need are made of text, else after them. `OneHotEncoder`, `LabelEncoder`, `CategoryMapper`, `DictVectorizer`,
`StringNormalizer`, `RegexFullMatch` and `Tokenizer` of `com.microsoft` are functions of this project that give what
ONNX Runtime gives; the others, `TfIdfVectorizer` among them, are onnx's reference implementations. Two results differ
from ONNX Runtime's: numbers as text are written as NumPy does (`1.0`, ONNX Runtime writes `1`), and `StringSplit`
makes one part of an empty text, not none. Regular expressions are Python's.

Operators on sequences and optional values are evaluated while the model is loaded, for each number of elements and for
each pattern of missing values anew; sequences of text are lists on the host.

Of the domain `com.microsoft`, in which ONNX Runtime's optimiser (up to `ORT_ENABLE_EXTENDED`) and quantiser write their
operators, devices execute {microsoft}. They are composed of the operations of the others, so an optimised model
becomes the same network as the original. Tests compare them with ONNX Runtime, or with other operators where ONNX
Runtime has them on GPUs only. The weights of `MatMulNBits` must be constant; they are unpacked when the model is
loaded. `DynamicQuantizeLSTM` is an LSTM in float32 with dequantised weights: ONNX Runtime also rounds the input, and
the state before each step, to 8 bits, and without VNNI it saturates sums of two products, so its results differ by as
much. Refused are rotary positions within `Attention`, packed sequences without padding, the input
`past_sequence_length` for a buffer that past and present share, and quantised caches of `GroupQueryAttention`, whose
`total_sequence_length` must be known. Results of other quantised operators may differ from ONNX Runtime's by one unit.
`ORT_ENABLE_ALL` writes operators of `com.microsoft.nchwc`, for one kind of processor; these are refused.
"""


_TAIL = """
## Where implementations differ

Average pooling is done as the text of the operator says, with any number of dimensions, dilations, `ceil_mode` and
`count_include_pad`: windows begin at the pads given, and pads given are counted, not what `ceil_mode` adds after them.
onnx's reference implementation (1.23) moves the windows if `ceil_mode` adds more than one element. `auto_pad` takes
dilations into account, which the reference implementation and ONNX Runtime (1.32) do not. With `auto_pad=VALID` and
`ceil_mode` the number of windows is rounded up, as onnx's shape inference and ONNX Runtime do; the formula in the text
rounds down.

A window larger than its axis with pads is refused; where the extent follows from values, there are no windows, as the
formula of `MaxPool` says, rounded down. ONNX Runtime (1.32) rounds towards zero: one window if less than a stride is
missing.

A sequence of no steps leaves the initial states of `RNN`, `GRU` and `LSTM`; ONNX Runtime (1.32) returns zeros. Without
`activation_alpha`, `ThresholdedRelu` within these has the default of the operator of this name, 1, and `ScaledTanh` has
factors of 1; ONNX Runtime takes 0 for both.

Numbers of `post_transform` of `TreeEnsemble` are those of ONNX: 1 is SOFTMAX, and 2 LOGISTIC; ONNX Runtime (1.32) takes
them the other way round. A single target is transformed, too, which ONNX Runtime leaves as it is. The label of
`TreeEnsembleClassifier` is that of the largest score, also of two classes with a score each, for which ONNX Runtime
returns 0 or 1, whatever the labels are, and a class to which no leaf gives a score has the score 0. So is the label of
`SVMClassifier` without support vectors; of two classes, ONNX Runtime takes the second if the larger score is positive.
PROBIT of one score for two classes is refused: ONNX Runtime leaves the other score undefined.

Arithmetic of integers wraps around beyond their range, reductions included, as in NumPy. ONNX Runtime (1.32) reduces
integers of 32 and 64 bits in double precision: sums beyond the range become the largest or least number, and those of
64 bits are rounded. Means are never beyond. `ReduceLogSumExp` of integers is the logarithm in double precision,
truncated, as ONNX defines it; ONNX Runtime's follows from exponentials that are truncated first. `Pow` of 0 to a
negative number is 0 for integers; an integer to a whole number is exact, also if that is of floating point.

`Resize` and `Upsample` interpolate integers as floating-point numbers. Linear results are truncated, as ONNX Runtime
does; onnx's reference implementation rounds. Cubic ones, which ONNX Runtime refuses, are rounded and clipped. Where the
exact result is an integer, truncation in other precision may give the one beside it. With `align_corners` and scales,
the extent of the result is the product that is not rounded, as in onnx's node tests; ONNX Runtime rounds it down.

## Refused models

Before anything is computed, with the problem and its place (`ModelError`; `StorageError` for unreadable files):

- files that are no ONNX model, or truncated; other opsets; operators that do not exist, are newer than the model's
  opset, or belong to other domains; nodes that violate their operator's schema; cycles; values
  with no or two producers;
- tensors with more or fewer data than their shape says; complex numbers and float8e8m0; text where an operator takes
  numbers; external data outside the model's folder, with all links followed. Data inside it is memory-mapped, not read;
- a file, an array, or all constants together, larger than this machine's memory (`ModelLimits.memory_bytes`); constants
  that are computed beforehand, by Expand, Tile, Range and so on, larger than {folded} MiB each
  (`ModelLimits.folded_bytes`); loops of more than {rounds:,} rounds that have to be
  unrolled; more than {nodes:,} nodes;
- dimensions left open (`OpenDimensionError`, with their names), inputs with more or fewer dimensions than declared,
  shapes that contradict each other, and shapes that follow from values which are not given (`ValueNeededError`, with
  the inputs' names). Given extents that contradict declared ones are used, with a `DeclaredShapeWarning`.

Unordered nodes are sorted; sparse constants are expanded; functions are inlined.
"""


def recorded() -> dict[str, dict[str, Any]]:
    """Return the record: the results of each release's node tests."""
    found: dict[str, dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
    return dict(sorted(found.items(), key=lambda item: tuple(map(int, item[0].split(".")))))


def measured() -> dict[str, Any]:
    """Return the results of the installed release's node tests."""
    from support import node_cases

    refused: defaultdict[str, list[str]] = defaultdict(list)
    for case in node_cases.cases():
        reason = node_cases.out_of_scope(case)
        if reason is not None:
            refused[reason].append(case.name)
    return {
        "tests": len(node_cases.cases()),
        "refused": {reason: sorted(refused[reason]) for reason in sorted(refused)},
    }


def page() -> str:
    """Return the page as Markdown."""
    import onnx
    from support import node_cases

    from syclsched.frontends.onnx.importing.importer_registry import ML, TRAINING, operators
    from syclsched.frontends.onnx.importing.loops.iteration_counts import LONGEST_LOOP
    from syclsched.frontends.onnx.importing.model_importer import load_families
    from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
    from syclsched.frontends.onnx.model_file.model_reader import OPSETS, read_model
    from syclsched.frontends.onnx.model_file.onnx_model import MICROSOFT

    tested: Counter[str] = Counter()
    on_host: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    passed = restamped = known = 0
    for case in node_cases.cases():
        if node_cases.out_of_scope(case) is not None:
            continue
        passed += 1
        restamped += case.restamped
        given = node_cases.named(case, next(case.data())[0])
        _, network = node_cases.prepared(case, given)
        known += not network.nodes
        done = {label.split(" ", 1)[0] for node in network.nodes if node.kind == "reference" for label in node.origin}
        host = read_model(case.model).host
        parts = () if host is None else (part for part in (host.before, host.after) if part is not None)
        done |= {label.split(" ", 1)[0] for part in parts for label in part.labels}
        for operator in (each for each in case.operators if "::" not in each):
            tested[operator] += 1
            on_host[operator][operator in done] += 1
    tolerances = ", ".join(
        f"{dtype} {relative:g} and {absolute:g}" for dtype, (relative, absolute) in node_cases.TOLERANCES.items()
    )
    load_families()
    head = _HEAD.format(
        classical=", ".join(f"`{operator}`" for operator in operators(ML)),
        training=", ".join(f"`{operator}`" for operator in operators(TRAINING)),
        microsoft=", ".join(f"`{operator}`" for operator in operators(MICROSOFT)),
        version=onnx.__version__,
        total=len(node_cases.cases()),
        passed=passed,
        restamped=restamped,
        oldest=OPSETS.start,
        newest=OPSETS.stop - 1,
        known=known,
        tolerances=tolerances,
    )
    limits = ModelLimits()
    tail = _TAIL.format(folded=limits.folded_bytes >> 20, nodes=limits.nodes, rounds=LONGEST_LOOP)
    return "\n".join([head, *_table(tested, on_host), "", *releases(recorded()), tail])


def _table(tested: Counter[str], on_host: dict[str, Counter[bool]]) -> Iterator[str]:
    from syclsched.frontends.onnx.importing.control_flow import CONTROL_FLOW_IMPORTERS
    from syclsched.frontends.onnx.importing.importer_registry import operators
    from syclsched.frontends.onnx.importing.model_importer import load_families

    load_families()
    ours = set(operators())
    yield "| Operator | Done by | Node tests passed |"
    yield "|---|---|---:|"
    for operator in sorted(ours | set(CONTROL_FLOW_IMPORTERS) | set(tested)):
        by = on_host.get(operator, Counter())
        if operator in _BEFOREHAND:
            how = "beforehand"
        elif operator in ("If", "Loop", "RoiAlign", "Scan"):
            how = "device" + ("" if operator == "Scan" else ", some forms host")
        elif operator in CONTROL_FLOW_IMPORTERS:
            how = "beforehand" + (", else host" if by[True] else "")
        elif operator in ours:
            how = "device" + (", some forms host" if by[True] else "")
        elif not by[True] and _defined(operator):
            how = "definition"
        else:
            how = "host" if by[True] else "host, constants only"
        yield f"| {operator} | {how} | {tested[operator]} |"


def _defined(operator: str) -> bool:
    """Return whether ONNX defines an operator by other operators."""
    import onnx

    schema = onnx.defs.get_schema(operator)
    return bool(schema.function_opset_versions or schema.context_dependent_function_opset_versions)


_BEFOREHAND = frozenset({"Constant", "Shape", "Size", "Range", "Identity"})


def releases(record: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Return the tables by release of onnx: the number of passed tests, and the others with reasons."""
    counts: Counter[str] = Counter()
    names: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for release, found in record.items():
        for reason, refused in found["refused"].items():
            counts[reason] += len(refused)
            for name in refused:
                names[reason].setdefault(name, []).append(release)
    reasons = sorted(counts, key=lambda reason: (-counts[reason], reason))
    yield "## Node tests by release of onnx"
    yield ""
    yield f"| onnx | {' | '.join(record)} |"
    yield f"|---|{'---:|' * len(record)}"
    passed = {r: found["tests"] - sum(map(len, found["refused"].values())) for r, found in record.items()}
    yield f"| Tests | {' | '.join(str(found['tests']) for found in record.values())} |"
    yield f"| **Passed** | {' | '.join(f'**{passed[release]}**' for release in record)} |"
    for reason in reasons:
        yield f"| {reason} | {' | '.join(str(len(found['refused'].get(reason, ()))) for found in record.values())} |"
    yield ""
    yield "The tests that are not passed, with the releases if not in all of them:"
    for reason in reasons:
        yield ""
        shown = (
            f"`{name.removeprefix('test_')}`" + ("" if len(held) == len(record) else f" ({_span(held, list(record))})")
            for name, held in sorted(names[reason].items())
        )
        yield f"- **{reason}**: {', '.join(shown)}"


def _span(held: list[str], known: list[str]) -> str:
    """Return some of the known releases as text: ``1.18.0``, or ``1.19.1 to 1.21.0`` if none between is missing."""
    first, last = known.index(held[0]), known.index(held[-1])
    return f"{held[0]} to {held[-1]}" if len(held) > 1 and last - first + 1 == len(held) else ", ".join(held)


def main() -> int:
    """Write the page and the record, or compare them."""
    sys.path.insert(0, str(ROOT / "tests"))
    import onnx

    record = recorded()
    if "--check" in sys.argv[1:]:
        old = [
            str(path)
            for path, same in (
                (RECORD, lambda: record.get(onnx.__version__) == measured()),
                (PAGE, lambda: PAGE.read_text(encoding="utf-8") == page()),
            )
            if not same()
        ]
        if old:
            print(f"{' and '.join(old)} out of date: run tools/onnx_operators.py", file=sys.stderr)
        return bool(old)
    record[onnx.__version__] = measured()
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if "--record" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
