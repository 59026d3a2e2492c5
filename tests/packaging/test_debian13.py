# SPDX-License-Identifier: Apache-2.0
"""The tool that tests in a Debian 13: it reports missing requirements before it begins."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "debian13.sh"


def run(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": os.environ["PATH"] if path is None else path}
    return subprocess.run(
        ["bash", TOOL, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_help_names_every_part() -> None:
    said = run("--help")
    assert said.returncode == 0 and said.stderr == ""
    assert all(f"\n  {part} " in said.stdout for part in ("run", "tests", "intel", "pocl", "both"))


def test_unknown_arguments_parts_and_releases_are_refused() -> None:
    for arguments, message in (
        (("--parts", "run,all"), "no part 'all'"),
        (("--fast",), "--fast"),
        (("--release", "etch"), "'etch'"),
    ):
        said = run(*arguments)
        assert said.returncode == 2 and message in said.stderr


def test_without_root_or_debootstrap_nothing_is_made(tmp_path: Path) -> None:
    root = tmp_path / "root"
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "id").write_text("#!/bin/sh\necho 1000\n")
    (tools / "id").chmod(0o755)
    said = run("--root", str(root), path=f"{tools}:{os.environ['PATH']}")
    assert said.returncode == 2 and "needs root" in said.stderr and not root.exists()
    (tools / "id").write_text("#!/bin/sh\necho 0\n")
    for name in ("bash", "cat", "sh"):
        found = next(Path(each) / name for each in os.environ["PATH"].split(":") if (Path(each) / name).exists())
        (tools / name).symlink_to(found)
    said = run("--root", str(root), path=str(tools))
    assert said.returncode == 2 and "debootstrap" in said.stderr and not root.exists()
