# SPDX-License-Identifier: Apache-2.0
"""Synthetic arguments of timed tasks."""

from __future__ import annotations

import numpy as np

from syclsched.model.access import AccessMode
from syclsched.model.operation import Parameter, Signature
from syclsched.profiling.task_timing import synthetic_data


def test_synthetic_matrices_are_well_conditioned() -> None:
    signature = Signature({"a": (32, 32), "out": (4,), "k": (8,)}, {"a": "float64", "out": "float64", "k": "int32"})
    matrix = synthetic_data(Parameter("a", AccessMode.UPDATE), signature)
    lower = np.tril(matrix)
    assert np.linalg.eigvalsh(lower + np.tril(matrix, -1).T).min() > 0
    assert not synthetic_data(Parameter("out", AccessMode.WRITE), signature).any()
    assert set(synthetic_data(Parameter("k", AccessMode.READ), signature)) <= set(range(7))
