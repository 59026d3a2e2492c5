# SPDX-License-Identifier: Apache-2.0
"""The layers of imports: checked with kernels/ included, and drawn for the documentation.

``python tools/layers.py`` runs import-linter on a tree in which ``kernels/`` and ``device_profiles/`` are in the
package, as in an installation. ``--write`` draws the layers of pyproject.toml, with the first lines of the packages'
docstrings, as docs/pictures/layers.svg; a test compares the two.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
import textwrap
from html import escape
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "layers.svg"
_COMMAND = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as c; c()"

#: Sizes in pixels: the picture, gaps, a line of text, and the width of a character of the small and the bold font.
WIDTH, GAP, LINE, SMALL, BOLD = 960, 8, 16, 6.0, 8.0
#: Packages with subpackages are this many times as wide as the others in their layer.
WIDER = 3.4

Layers = list[list[str]]


def contracts() -> dict[str, Layers]:
    """Return the layers of each package that has some, by its path in the package, the upper ones first."""
    read: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {
        contract["containers"][0].partition(".")[2].replace(".", "/"): [
            layer.split(" | ") for layer in contract["layers"]
        ]
        for contract in read["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    }


def caption(module: str) -> str:
    """Return the first sentence of a package's or module's docstring, up to a semicolon."""
    folder = ROOT / "kernels" if module == "kernels" else ROOT / "syclsched" / module
    source = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    first = (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    return first.partition("; ")[0].partition(". ")[0].rstrip(".").replace("`", "")


class Box:
    """A package or module in the picture: its name, its caption, and the layers of its modules, if any."""

    def __init__(self, path: str, found: dict[str, Layers]) -> None:
        self.name = path.rpartition("/")[2]
        # Only packages have a caption: there are some hundred modules.
        is_room = "/" in path
        self.text = "" if is_room and not (ROOT / "syclsched" / path).is_dir() else caption(path)
        rooms = [] if is_room else found.get(path, [])  # one level deep
        self.rooms = [[Box(f"{path}/{name}", {}) for name in layer] for layer in rooms]

    def _lines(self, width: float) -> list[str]:
        return textwrap.wrap(self.text, max(int((width - 2 * GAP) / SMALL), 8))

    def _is_line(self, width: float) -> bool:
        return not self.rooms and len(self.name) * BOLD + len(self.text) * SMALL + 4 * GAP < width

    def height(self, width: float) -> float:
        """Return the height that the box needs."""
        if self._is_line(width):
            return LINE + GAP
        inside = sum(_height(layer, width) + GAP for layer in self.rooms)
        return GAP + LINE * (1 + len(self._lines(width))) + inside + (GAP if self.rooms else 0)

    def draw(self, x: float, y: float, width: float, height: float, kind: str = "package") -> list[str]:
        """Return the box as SVG."""
        size = f'width="{width:.4g}" height="{height:.4g}"'
        drawn = [f'<rect class="{kind}" x="{x:.4g}" y="{y:.4g}" {size} rx="4"/>']
        beside = f'<tspan dx="{GAP}">{escape(self.text)}</tspan>' if self.text and self._is_line(width) else ""
        name = f'<tspan class="name">{self.name}</tspan>'
        drawn.append(f'<text x="{x + GAP:.4g}" y="{y + LINE:.4g}">{name}{beside}</text>')
        lines = [] if beside or not self.text else self._lines(width)
        for n, line in enumerate(lines):
            drawn.append(f'<text x="{x + GAP:.4g}" y="{y + LINE * (n + 2):.4g}">{escape(line)}</text>')
        top = y + GAP + LINE * (1 + len(lines)) + GAP
        for layer in self.rooms:
            drawn += _row(layer, x, top, width, "room")
            top += _height(layer, width) + GAP
        return drawn


def _widths(boxes: list[Box], width: float) -> list[float]:
    weights = [WIDER if box.rooms else 1.0 for box in boxes]
    unit = (width - GAP * (len(boxes) + 1)) / sum(weights)
    return [unit * weight for weight in weights]


def _height(boxes: list[Box], width: float) -> float:
    return max(box.height(own) for box, own in zip(boxes, _widths(boxes, width), strict=True))


def _row(boxes: list[Box], x: float, y: float, width: float, kind: str = "package") -> list[str]:
    drawn: list[str] = []
    height = _height(boxes, width)
    for box, own in zip(boxes, _widths(boxes, width), strict=True):
        drawn += box.draw(x + GAP, y, own, height, kind)
        x += own + GAP
    return drawn


def picture() -> str:
    """Return the layers of pyproject.toml as SVG, the upper ones first."""
    found = contracts()
    drawn: list[str] = []
    y = float(GAP)
    for layer in found[""]:
        boxes = [Box(name, found) for name in layer]
        drawn += _row(boxes, 0, y, WIDTH)
        y += _height(boxes, WIDTH) + GAP
    style = (
        "text{font-family:sans-serif;font-size:11px;fill:#333}.name{font-weight:bold;font-size:12px;fill:#111}"
        ".page{fill:#fff}.package{fill:#eef3fa;stroke:#7a93b5}.room{fill:#fff;stroke:#b3c2d6}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:g}" width="{WIDTH}" height="{y:g}">'
    background = f'<rect class="page" width="{WIDTH}" height="{y:g}"/>'
    return "\n".join([head, f"<style>{style}</style>", background, *drawn, "</svg>", ""])


def check() -> int:
    """Run import-linter on the package with its top-level folders linked in; return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "syclsched"
        package.mkdir()
        for entry in (*(ROOT / "syclsched").iterdir(), ROOT / "kernels", ROOT / "device_profiles"):
            (package / entry.name).symlink_to(entry)
        (Path(folder) / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
        return subprocess.run([sys.executable, "-c", _COMMAND, "--no-cache"], cwd=folder, check=False).returncode


if __name__ == "__main__":
    if "--write" in sys.argv:
        PICTURE.write_text(picture(), encoding="utf-8")
        sys.exit(0)
    sys.exit(check())
