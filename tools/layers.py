# SPDX-License-Identifier: Apache-2.0
"""The layers of imports: checked with kernels/ included, and written into the documentation.

``python tools/layers.py`` runs import-linter on a tree in which ``kernels/`` and ``device_profiles/`` lie in the
package, as in an installation. ``--write`` writes the layers of pyproject.toml into docs/design.md; a test compares the
two.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "design.md"
_BLOCK = re.compile(r"(<!-- layers -->\n```text\n).*?(```\n<!-- end -->\n)", re.DOTALL)
_COMMAND = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as c; c()"


def contracts() -> list[dict[str, object]]:
    """Return the contracts of import-linter."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]


def drawing() -> str:
    """Return the layers of every contract as text, the upper ones first."""
    lines: list[str] = []
    for contract in contracts():
        if contract["type"] != "layers":
            continue
        prefix = "syclsched." if "containers" not in contract else ""
        lines += [f"{contract['name']}", ""]
        lines += ["    " + str(layer).replace(prefix, "").replace(" | ", "   ") for layer in contract["layers"]]
        lines.append("")
    return "\n".join(lines).strip("\n") + "\n"


def page() -> str:
    """Return docs/design.md with the layers as they are in pyproject.toml."""
    return _BLOCK.sub(lambda found: found[1] + drawing() + found[2], PAGE.read_text(encoding="utf-8"))


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
        PAGE.write_text(page(), encoding="utf-8")
        sys.exit(0)
    sys.exit(check())
