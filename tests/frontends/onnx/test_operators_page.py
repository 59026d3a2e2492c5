# SPDX-License-Identifier: Apache-2.0
"""The page docs/reference/onnx-operators.md, compared with the importers and the node tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    found = importlib.util.spec_from_file_location("onnx_operators", ROOT / "tools" / "onnx_operators.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(tool: ModuleType) -> None:
    text = tool.PAGE.read_text(encoding="utf-8")
    if f"onnx {onnx.__version__};" not in text:
        pytest.skip(f"the page was made with another version of onnx than {onnx.__version__}, which has other tests")
    assert text == tool.page(), "run tools/onnx_operators.py"


def test_the_record_of_this_release_is_up_to_date(tool: ModuleType) -> None:
    record = tool.recorded()
    assert "\n".join(tool.releases(record)) in tool.PAGE.read_text(encoding="utf-8"), "run tools/onnx_operators.py"
    if onnx.__version__ not in record:
        pytest.skip(f"onnx {onnx.__version__} is not among the releases that were run: {', '.join(record)}")
    assert record[onnx.__version__] == tool.measured(), "run tools/onnx_operators.py --record"
