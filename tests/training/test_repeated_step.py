# SPDX-License-Identifier: Apache-2.0
"""The fast path of steps with batches of equal form: results and refusals of the full path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

import syclsched
from syclsched.errors import ArgumentError, NotFiniteError
from syclsched.testing.training_models import perceptron
from syclsched.training import Adam, Trainer
from syclsched.training.repeated_step import RepeatedStep

pytestmark = pytest.mark.sycl

SIZES = (8, 16, 4)


def trainer(**more: Any) -> Trainer:
    """Return a trainer on the CPU device that compiles no Python kernels."""
    model = perceptron(SIZES).onnx
    return syclsched.train(model, devices="cpu", autotune=False, without=["python"], **more)


def batch(samples: int, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    return random.standard_normal((samples, SIZES[0])).astype("float32"), random.integers(0, SIZES[-1], samples)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an entry for each repeated step."""
    found: list[int] = []
    usual = RepeatedStep.run

    def run(self: RepeatedStep, *arguments: Any) -> Any:
        found.append(1)
        return usual(self, *arguments)

    monkeypatch.setattr(RepeatedStep, "run", run)
    return found


def test_repeated_steps_have_the_losses_and_parameters_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [batch(samples, seed) for seed, samples in enumerate([16, 16, 16, 5, 5, 16, 16])]
    with trainer(optimizer=Adam(0.01)) as usual:
        monkeypatch.setattr(RepeatedStep, "takes", lambda *_: False)
        losses = [usual.step(*each) for each in batches]
        expected = usual.parameters
        monkeypatch.undo()
    repeated = counted(monkeypatch)
    with trainer(optimizer=Adam(0.01)) as found:
        assert [found.step(*each) for each in batches] == losses
        assert found.steps == len(batches) and len(repeated) == 4
        for name, value in found.parameters.items():
            assert value.tobytes() == expected[name].tobytes()


@settings(max_examples=examples(20), deadline=None)
@given(
    st.sampled_from(["same", "double", "list", "mapping", "tuple", "columns", "reversed", "short labels", "one more"]),
    st.integers(0, 100),
)
def test_batches_of_any_form_equal_single_steps(one_trainer: Trainer, form: str, seed: int) -> None:
    x, y = batch(6, seed)
    made: dict[str, tuple[Any, Any]] = {
        "same": (x, y),
        "double": (x.astype("float64"), y),
        "list": (x.tolist(), y.tolist()),
        "mapping": ({"x": x}, y),
        "tuple": ((x,), y),
        "columns": (np.asfortranarray(x), y),
        "reversed": (x[::-1], y[::-1]),
        "short labels": (x, y.astype("int32")),
        "one more": batch(7, seed),
    }
    given_x, given_y = made[form]
    before = one_trainer.parameters
    loss = one_trainer.step(given_x, given_y)
    plain_x = np.asarray(given_x["x"] if isinstance(given_x, dict) else given_x, "float32").reshape(-1, SIZES[0])
    hidden = np.maximum(plain_x @ before["layer0.weight"].T + before["layer0.bias"], 0)
    scores = hidden @ before["layer1.weight"].T + before["layer1.bias"]
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    assert loss == pytest.approx(-logs[np.arange(len(logs)), np.asarray(given_y)].mean(), rel=1e-3)


@pytest.fixture(scope="module")
def one_trainer() -> Any:
    with trainer(optimizer=Adam(1e-4)) as found:
        yield found


def test_repeated_step_refuses_labels_out_of_range() -> None:
    x, y = batch(6)
    with trainer() as found:
        for _ in range(3):
            found.step(x, y)
        before = found.parameters
        wrong = y.copy()
        wrong[2] = SIZES[-1]
        with pytest.raises(ArgumentError, match="label 4 is out of range: the model has 4 classes"):
            found.step(x, wrong)
        ignored = y.copy()
        ignored[:3] = -100
        assert found.steps == 3
        assert all(np.array_equal(value, before[name]) for name, value in found.parameters.items())
        assert np.isfinite(found.step(x, ignored))


def test_repeated_step_names_task_with_non_finite_result() -> None:
    x, y = batch(6)
    with trainer() as found:
        for _ in range(3):
            found.step(x, y)
        with pytest.raises(NotFiniteError, match="not finite in step 4") as raised:
            found.step(np.full_like(x, np.inf), y)
        assert raised.value.task is not None
        assert np.isfinite(found.step(x, y)) and found.steps == 4


def test_probabilities_after_labels_and_a_checkpoint_between_steps(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated = counted(monkeypatch)
    x, y = batch(6)
    shares = np.eye(SIZES[-1], dtype="float32")[y]
    with trainer() as found:
        for _ in range(2):
            found.step(x, y)
        found.checkpoint(tmp_path / "held")
        labels = [found.step(x, y) for _ in range(2)]
        found.restore(tmp_path / "held")
        again = [found.step(x, y) for _ in range(2)]
        assert labels == again and len(repeated) == 5
        assert found.step(x, shares) < again[-1] and len(repeated) == 5
        found.step(x, shares)
        assert len(repeated) == 6
