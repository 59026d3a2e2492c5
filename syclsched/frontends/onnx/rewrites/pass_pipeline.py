# SPDX-License-Identifier: Apache-2.0
"""Ordered list of all passes, their execution until nothing changes, and the report of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from syclsched.errors import ArgumentError, did_you_mean
from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.rewrites import common_subexpressions, dead_code, folding, identities
from syclsched.frontends.onnx.rewrites.data_layout import (
    channel_shuffles,
    concats,
    dense_weight_order,
    disjoint_kernels,
    in_place_residuals,
    layout_propagation,
    pads,
    transposes,
)
from syclsched.frontends.onnx.rewrites.fusion import (
    activation_patterns,
    affine,
    algebra,
    column_reductions,
    concat_scale_shift,
    elementwise_fusion,
    integer_products,
    normalisation_patterns,
    pool_order,
    post_op_fusion,
    quantised_movement,
    redundant_relus,
)
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


@dataclass(frozen=True, slots=True)
class Pass:
    """An optimisation pass."""

    name: str  # for switching it off
    does: str  # one-line description
    change: Callable[[NetworkDraft], None]


_TABLE: Final = (
    Pass("dead_code", "leave out what no output needs", dead_code.remove_dead_nodes),
    # Before dequantised weights are computed beforehand.
    Pass("quantised_movement", "move quantised values, dequantise later", quantised_movement.move_quantised),
    Pass("integers", "multiply integers instead of dequantised numbers", integer_products.fuse_integer_products),
    Pass("constant_folding", "compute beforehand what follows from constants", folding.fold_constants),
    Pass("algebra", "write numbers into expressions and make those simpler", algebra.simplify),
    Pass("identities", "leave out what changes nothing", identities.remove_identities),
    Pass("common", "compute the same once", common_subexpressions.merge_common),
    Pass("concats", "join concatenations, slice what slices are cut from", concats.merge_concats),
    Pass("pads", "let convolutions and poolings pad for themselves", pads.fuse_pads),
    Pass("batch_norm", "take batch normalisations into weights", affine.fold_batch_norms),
    # Before their factors are taken into weights.
    Pass("formulas", "find activations in pieces", activation_patterns.replace_activations),
    Pass("scale_shift", "take scales and shifts into weights", affine.fold_scale_shifts),
    Pass(
        "normalisations",
        "find layer normalisation and softmax in pieces",
        normalisation_patterns.replace_normalisations,
    ),
    Pass("pool_order", "average before convolutions of single elements", pool_order.move_average_first),
    Pass(
        "averages",
        "average behind convolutions of single elements that make fewer channels",
        pool_order.move_average_last,
    ),
    Pass("signs", "rectify before joining, and only what can be negative", redundant_relus.simplify_rectifiers),
    Pass("post_ops", "take sums and activations into convolutions and matrix products", post_op_fusion.fuse_post_ops),
    Pass("requantised", "quantise where integers are multiplied", integer_products.quantise_results),
    Pass("shuffles", "make channels in the order in which they are shuffled", channel_shuffles.permute_channels),
    Pass("transposes", "make one transposition of two", transposes.merge_transposes),
    Pass("products", "let matrix products read transposed", transposes.fuse_into_products),
    Pass("interleaved", "let matrix products read and write heads where they are", transposes.interleave_products),
    Pass("layout", "store images with channels last between convolutions", layout_propagation.propagate_layouts),
    Pass(
        "disjoint_kernels",
        "make matrix products of transposed convolutions whose kernels do not overlap",
        disjoint_kernels.multiply_pixels,
    ),
    Pass("flattened", "permute weights instead of images", dense_weight_order.permute_weights),
    Pass("elementwise", "join element-wise nodes", elementwise_fusion.fuse_elementwise),
    Pass("columns", "add along columns what is computed in one pass", column_reductions.fuse_column_reductions),
    Pass("joins", "scale and shift what is joined in one pass", concat_scale_shift.fuse_scale_shift),
    # Last in every round: it depends on the final readers of residuals.
    Pass("in_place", "let convolutions add to residuals where those are", in_place_residuals.mark_in_place),
)

#: All passes by name, in execution order.
PASSES: Final[dict[str, Pass]] = {each.name: each for each in _TABLE}
DEFAULT_PASSES: Final = tuple(PASSES)
#: Passes that make nodes which kernels of loops do not compute.
_NOT_IN_BODIES: Final = ("interleaved", "columns")
#: Limit of rounds over all passes; in networks seen so far the third round changed nothing.
_MOST_ROUNDS: Final = 8


@dataclass(frozen=True, slots=True)
class NetworkChange:
    """One kind of change that a pass made."""

    rewrite: str  # name of the pass
    what: str  # description of the change
    nodes: tuple[str, ...]  # the changed nodes or values

    def __str__(self) -> str:
        shown = ", ".join(self.nodes[:3]) + (", ..." if len(self.nodes) > 3 else "")
        return f"{self.rewrite}: {self.what}: {len(self.nodes)} ({shown})"


@dataclass(frozen=True, slots=True)
class OptimisedNetwork:
    """The result of the optimisation."""

    network: Network  # the optimised network
    changes: tuple[NetworkChange, ...]  # the changes, in pass order
    nodes_before: int  # number of nodes before
    rounds: int  # number of rounds over all passes; the last round changed nothing

    @property
    def report(self) -> str:
        """Text report with a line for every kind of change."""
        head = f"{self.nodes_before} nodes became {len(self.network.nodes)}"
        return "\n".join([head, *(f"  {deed}" for deed in self.changes)])


def check_passes(names: Iterable[str]) -> None:
    """Raise `ArgumentError` for names of unknown passes."""
    unknown = sorted(set(names) - PASSES.keys())
    if unknown:
        raise ArgumentError(
            f"there is no rewrite {', '.join(map(repr, unknown))}",
            where="rewrites",
            hint=f"{did_you_mean(unknown[0], PASSES)}There are: {', '.join(PASSES)}",
        )


def rewrite(
    network: Network, *, passes: Sequence[str] = DEFAULT_PASSES, without: Iterable[str] = ()
) -> OptimisedNetwork:
    """Optimise a network: repeat the passes until nothing changes."""
    without = frozenset([without] if isinstance(without, str) else without)
    check_passes({*passes, *without})
    wanted = [each for each in _TABLE if each.name in passes and each.name not in without]
    done: dict[tuple[str, str], list[str]] = {}
    current = _with_rewritten_bodies(network, passes, without)
    draft, idle = NetworkDraft(current), set[str]()  # passes that find nothing to change in the network as it is
    rounds = 0
    while len(idle) < len(wanted) and rounds < _MOST_ROUNDS:
        rounds += 1
        for each in wanted:
            if each.name in idle:
                continue
            each.change(draft)
            idle.add(each.name)
            if draft.changes:
                for what, nodes in draft.changes.items():
                    done.setdefault((each.name, what), []).extend(nodes)
                current = draft.finish()
                draft, idle = NetworkDraft(current), set()
    order = list(PASSES)
    deeds = [NetworkChange(name, what, tuple(nodes)) for (name, what), nodes in done.items()]
    deeds.sort(key=lambda deed: order.index(deed.rewrite))
    return OptimisedNetwork(current, tuple(deeds), len(network.nodes), rounds)


def _with_rewritten_bodies(network: Network, passes: Sequence[str], without: Iterable[str]) -> Network:
    """Return a network with the bodies of its loops rewritten."""
    if not any(node.kind == "loop" for node in network.nodes):
        return network
    nodes = list(network.nodes)
    for number, node in enumerate(nodes):
        if node.kind == "loop":
            body = node.attributes["body"]
            found = rewrite(body.network, passes=passes, without={*without, *_NOT_IN_BODIES})
            body = replace(body, network=found.network)
            nodes[number] = replace(node, attributes={**node.attributes, "body": body})
    return replace(network, nodes=tuple(nodes))
