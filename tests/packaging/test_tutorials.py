# SPDX-License-Identifier: Apache-2.0
"""Tutorials as notebooks: no outputs, any Python 3 kernel, and all of them in the index."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_index_lists_all_tutorials() -> None:
    index = (FOLDER.parent / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^tutorials/([\w-]+)$", index, re.MULTILINE)
    assert [path.stem for path in NOTEBOOKS] == ["first-graph", "model-on-two-devices", "own-kernels"]
    assert sorted(listed) == sorted(path.stem for path in FOLDER.iterdir() if path.suffix in (".md", ".ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_outputs_are_stored(path: Path) -> None:
    code = [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 5
    assert [cell["source"] for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_accept_any_python_3_kernel(path: Path) -> None:
    metadata = read(path)["metadata"]
    assert metadata["kernelspec"]["name"] == "python3"
    assert metadata["language_info"] == {"name": "python"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_to_pages(path: Path) -> None:
    prose = "".join("".join(cell["source"]) for cell in read(path)["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", prose)
    assert links
    assert [link for link in links if not (FOLDER / link).exists()] == []
