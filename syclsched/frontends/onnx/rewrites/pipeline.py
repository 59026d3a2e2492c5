# SPDX-License-Identifier: Apache-2.0
"""Ordered list of all passes, their execution until nothing changes, and the report of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.rewrites import (
    affine,
    algebra,
    averages,
    chains,
    common,
    concats,
    dead_code,
    flattened,
    folding,
    formulas,
    identities,
    in_place,
    joins,
    layout,
    normalisations,
    pads,
    pool_order,
    post_ops,
    shuffles,
    signs,
    transposes,
)
from syclsched.frontends.onnx.rewrites.editing import Draft


@dataclass(frozen=True, slots=True)
class Pass:
    """An optimisation pass."""

    name: str  # for switching it off
    does: str  # one-line description
    change: Callable[[Draft], None]


_TABLE: Final = (
    Pass("dead_code", "leave out what no output needs", dead_code.drop),
    Pass("constant_folding", "compute beforehand what follows from constants", folding.fold),
    Pass("algebra", "write numbers into expressions and make those simpler", algebra.simplify),
    Pass("identities", "leave out what changes nothing", identities.remove),
    Pass("common", "compute the same once", common.share),
    Pass("concats", "join concatenations, slice what slices are cut from", concats.merge),
    Pass("pads", "let convolutions and poolings pad for themselves", pads.absorb),
    Pass("batch_norm", "take batch normalisations into weights", affine.batch_norms),
    Pass("scale_shift", "take scales and shifts into weights", affine.scale_shifts),
    Pass("normalisations", "find layer normalisation and softmax in pieces", normalisations.find),
    Pass("formulas", "find activations in pieces", formulas.find),
    Pass("pool_order", "average before convolutions of single elements", pool_order.average_first),
    Pass("averages", "average behind convolutions of single elements that make fewer channels", averages.average_last),
    Pass("signs", "rectify before joining, and only what can be negative", signs.use),
    Pass("post_ops", "take sums and activations into convolutions and matrix products", post_ops.absorb),
    Pass("shuffles", "make channels in the order in which they are shuffled", shuffles.absorb),
    Pass("transposes", "make one transposition of two", transposes.merge),
    Pass("products", "let matrix products read transposed", transposes.into_products),
    Pass("layout", "store images with channels last between convolutions", layout.propagate),
    Pass("flattened", "permute weights instead of images", flattened.permute_weights),
    Pass("elementwise", "join element-wise nodes", chains.join),
    Pass("joins", "scale and shift what is joined in one pass", joins.melt),
    # Last in every round: it depends on the final readers of residuals.
    Pass("in_place", "let convolutions add to residuals where those are", in_place.mark),
)

#: All passes by name, in execution order.
PASSES: Final[dict[str, Pass]] = {each.name: each for each in _TABLE}
DEFAULT_PASSES: Final = tuple(PASSES)
#: Limit of rounds over all passes; in networks seen so far the third round changed nothing.
_MOST_ROUNDS: Final = 8


@dataclass(frozen=True, slots=True)
class Deed:
    """One kind of change that a pass made."""

    rewrite: str  # name of the pass
    what: str  # description of the change
    nodes: tuple[str, ...]  # the changed nodes or values

    def __str__(self) -> str:
        shown = ", ".join(self.nodes[:3]) + (", ..." if len(self.nodes) > 3 else "")
        return f"{self.rewrite}: {self.what}: {len(self.nodes)} ({shown})"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The result of the optimisation."""

    network: Network  # the optimised network
    deeds: tuple[Deed, ...]  # the changes, in pass order
    nodes_before: int  # number of nodes before
    rounds: int  # number of rounds over all passes; the last round changed nothing

    @property
    def report(self) -> str:
        """Text report with a line for every kind of change."""
        head = f"{self.nodes_before} nodes became {len(self.network.nodes)}"
        return "\n".join([head, *(f"  {deed}" for deed in self.deeds)])


def rewrite(network: Network, *, passes: Sequence[str] = DEFAULT_PASSES, without: Iterable[str] = ()) -> Rewritten:
    """Optimise a network: repeat the passes until nothing changes."""
    without = frozenset([without] if isinstance(without, str) else without)
    unknown = sorted({*passes, *without} - PASSES.keys())
    if unknown:
        raise ArgumentError(
            f"there is no rewrite {', '.join(map(repr, unknown))}",
            where="rewrite()",
            hint=f"There are: {', '.join(PASSES)}",
        )
    wanted = [each for each in _TABLE if each.name in passes and each.name not in without]
    done: dict[tuple[str, str], list[str]] = {}
    current = network
    rounds = 0
    changed = True
    while changed and rounds < _MOST_ROUNDS:
        changed = False
        rounds += 1
        for each in wanted:
            draft = Draft(current)
            each.change(draft)
            current = draft.finish() if draft.deeds else current
            for what, nodes in draft.deeds.items():
                done.setdefault((each.name, what), []).extend(nodes)
                changed = True
    order = list(PASSES)
    deeds = [Deed(name, what, tuple(nodes)) for (name, what), nodes in done.items()]
    deeds.sort(key=lambda deed: order.index(deed.rewrite))
    return Rewritten(current, tuple(deeds), len(network.nodes), rounds)
