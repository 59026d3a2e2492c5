# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from support.networks import Builder, kinds, rewritten


def shapes() -> dict[str, object]:
    def resize(made: Builder, x: str) -> str:
        return made.add(
            "resize",
            (x,),
            (2, 3, 4, 5),
            mode="nearest",
            coordinates="asymmetric",
            nearest="floor",
            scales=(1.0,) * 4,
        )

    return {
        "elementwise": lambda made, x: made.elementwise(0, x),
        "transpose": lambda made, x: made.transpose(x, 0, 1, 2, 3),
        "reshape": lambda made, x: made.reshape(x, 2, 3, 4, 5),
        "pad": lambda made, x: made.pad(x, (0,) * 8),
        "slice": lambda made, x: made.slice(x, 1, 0, 3),
        "concat": lambda made, x: made.concat(1, x),
        "pool": lambda made, x: made.pool(x, "max", 1, 1),
        "resize": resize,
    }


@pytest.mark.parametrize("kind", list(shapes()))
def test_identity_nodes_are_removed(kind: str) -> None:
    made = Builder(dtype="float64")
    x = made.elementwise(("exp", 0), made.input("x", (2, 3, 4, 5)))
    made.softmax(shapes()[kind](made, x), 1)  # type: ignore[operator]
    assert kinds(rewritten(made, "identities")) == ["elementwise", "softmax"]


def test_a_resize_that_crops_to_the_same_size_stays() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 3, 4, 5))
    how = {"mode": "nearest", "nearest": "floor", "coordinates": "tf_crop_and_resize", "extrapolation": 0.0}
    roi = (0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.5, 1.0)
    made.softmax(made.add("resize", (x,), made.shape(x), scales=(1.0,) * 4, roi=roi, **how), 1)
    assert kinds(rewritten(made, "identities")) == ["resize", "softmax"]


def test_a_removed_output_node_passes_its_name_to_its_input() -> None:
    made = Builder(dtype="float64")
    last = made.elementwise(0, made.softmax(made.input("x", (2, 3)), 1))
    network = rewritten(made, "identities")
    assert kinds(network) == ["softmax"]
    assert network.nodes[0].outputs == (last,)


def test_an_output_that_is_an_input_stays_a_copy() -> None:
    made = Builder(dtype="float64")
    made.elementwise(0, made.input("x", (2, 3)))
    assert kinds(rewritten(made)) == ["elementwise"]


def test_transposition_of_unit_axes_is_a_reshape() -> None:
    made = Builder(dtype="float64")
    made.softmax(made.transpose(made.input("x", (1, 3, 1, 5)), 1, 0, 3, 2), 1)
    assert kinds(rewritten(made, "identities")) == ["reshape", "softmax"]


def test_a_transposition_of_an_empty_value_is_a_reshape() -> None:
    made = Builder(dtype="float64")
    made.softmax(made.transpose(made.input("x", (3, 0, 2)), 2, 1, 0), 0)
    assert kinds(rewritten(made, "identities")) == ["reshape", "softmax"]


def test_a_mean_over_one_element_is_a_reshape() -> None:
    made = Builder(dtype="float64")
    made.softmax(made.reduce(made.input("x", (2, 3, 1, 1)), "mean", 2, 3, keepdims=False), 1)
    assert kinds(rewritten(made, "identities")) == ["reshape", "softmax"]


def test_of_several_reshapes_the_last_stays() -> None:
    made = Builder(dtype="float64")
    flat = made.reshape(made.reshape(made.input("x", (2, 3, 4)), 6, 4), 24)
    made.softmax(made.reshape(flat, 3, 8), 1)
    assert kinds(rewritten(made, "identities")) == ["reshape", "softmax"]


def test_reversing_slices_stay() -> None:
    made = Builder(dtype="float64")
    made.add("slice", (made.input("x", (4, 2)),), (4, 2), starts=(3, 0), steps=(-1, 1))
    assert kinds(rewritten(made, "identities")) == ["slice"]
