# SPDX-License-Identifier: Apache-2.0
"""Fusion of padding into the convolution or pooling after it."""

from __future__ import annotations

from typing import Any

import numpy as np

from syclsched.frontends.onnx.network import CanonicalNode
from syclsched.frontends.onnx.rewrites.network_draft import NetworkDraft


def fuse_pads(draft: NetworkDraft) -> None:
    """Fuse pads into the convolutions and poolings that read them.

    Convolutions pad with zeros. Maximum pooling pads with the smallest number, so only such a pad is fused. An average
    over a padded array counts the padding; the pooling then does so, too (``count_include_pad``), which is correct only
    if it has no padding of its own or counts that already.
    """
    for node in draft.each("pad"):
        source, output = node.inputs[0], node.outputs[0]
        if source is None or output is None or node.attributes["mode"] != "constant" or draft.is_output(output):
            continue
        for reader in draft.readers(output):
            if reader.kind in ("conv", "pool") and reader.inputs[0] == output and reader.inputs.count(output) == 1:
                _absorb(draft, node, reader, source)
        draft.remove_unread(output)


def _absorb(draft: NetworkDraft, pad: CanonicalNode, reader: CanonicalNode, source: str) -> None:
    rank = len(draft.shape(source))
    first = 1 if reader.attributes.get("channels_last") else 2
    spatial = range(first, first + rank - 2)
    pads = pad.attributes["pads"]
    if any(pads[axis] or pads[axis + rank] for axis in range(rank) if axis not in spatial):
        return
    own = tuple(reader.attributes.get("pads") or (0,) * (2 * (rank - 2)))
    added = (*(pads[axis] for axis in spatial), *(pads[axis + rank] for axis in spatial))
    changes: dict[str, Any] = {"pads": tuple(int(a + b) for a, b in zip(own, added, strict=True))}
    value = float(pad.attributes.get("value", 0.0))
    if reader.kind == "conv":
        valid = value == 0
    elif reader.attributes["mode"] == "max":
        dtype = np.dtype(draft.dtype(source))
        valid = dtype.kind == "f" and value <= float(np.finfo(dtype).min)
    else:
        valid = value == 0 and (not any(own) or bool(reader.attributes["count_include_pad"]))
        changes["count_include_pad"] = True
    # A window entirely in the padding has no maximum, and libraries refuse it.
    if not valid or (reader.kind == "pool" and not _smaller(changes["pads"], reader)):
        return
    draft.change(
        reader,
        inputs=(source, *reader.inputs[1:]),
        attributes={**reader.attributes, **changes},
        origin=(*pad.origin, *reader.origin),
    )
    draft.record_change(f"padded by the {reader.kind} after it", pad.name)


def _smaller(pads: tuple[int, ...], pool: CanonicalNode) -> bool:
    kernel = pool.attributes["kernel"]
    dilations = pool.attributes.get("dilations") or (1,) * len(kernel)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    return all(pad < extent for pad, extent in zip(pads, (*extents, *extents), strict=True))
