# SPDX-License-Identifier: Apache-2.0
"""Types of models' values: arrays, and shapes by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Shapes = Mapping[str, tuple[int, ...]]
