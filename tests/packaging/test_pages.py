# SPDX-License-Identifier: Apache-2.0
"""README and pages: every Python and shell block is executed, or has a reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.documents import ROOT, Page, unknown_languages

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]


#: Pages whose shell commands CI runs as a new user, in this order.
FOLLOWED = ("README.md", "docs/tutorials/quickstart.md", "docs/tutorials/training.md")


@pytest.mark.sycl
@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_pages_run(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
    pytestconfig: pytest.Config,
) -> None:
    monkeypatch.chdir(tmp_path)
    followed = page in FOLLOWED and not pytestconfig.getoption("--all-cases")
    reason = "tests/newcomer/follow.py runs it, and so does pytest --all-cases" if followed else None
    Page(ROOT / page, tmp_path, no_shell=reason).evaluate(subtests)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_supported_language(page: str) -> None:
    assert unknown_languages(ROOT / page) == []


class PageResults:
    """Stand-in for pytest's subtests that keeps their outcomes."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    @contextmanager
    def test(self, msg: str) -> Iterator[None]:
        try:
            yield
        except pytest.skip.Exception as skipped:
            self.ended.append(f"{msg} skipped: {skipped}")
        except Exception as error:
            self.ended.append(f"{msg} failed: {type(error).__name__}")
        else:
            self.ended.append(f"{msg} passed")


@pytest.mark.parametrize(
    ("blocks", "ended"),
    [
        ("```python\nx = 1\n```\n\n```python\nprint(x)\n```\nprints\n```text\n1\n```", ["passed"] * 3),
        ("```python\nprint(2)\n```\n\n```text\n1\n```", ["passed", "failed: SybilFailure"]),
        ("```python\nundefined\n```\n\n```python\nx = 1\n```", ["failed: NameError"]),
        ("```python\nint('x')\n```\n\n```text\nValueError: invalid ... 'x'\n```", ["passed"] * 2),
        ("```sh\npython -c 'print(3)' > three\n```\n```sh\ncat three\n```\n\n```text\n3\n```", ["passed"] * 3),
        ("```sh\nfalse\n```", ["failed: AssertionError"]),
        ("```sh\nfalse | cat\n```", ["failed: AssertionError"]),
        ("```console\n$ echo a \\\n    b\na b\n$ echo c\n```", ["passed"]),
        ("```sh\nseq 3\n```\nThe last line that it prints is\n\n```text\n3\n```", ["passed"] * 2),
        ("```sh\nseq 3\n```\nThe last line that it prints is\n\n```text\n4\n```", ["passed", "failed: SybilFailure"]),
        ("```sh\ntrue\n```\nAnother file:\n\n```text\n4\n```", ["passed"]),
        ("<!-- not run: slow -->\n```sh\nfalse\n```\n\n```sh\ntrue\n```", ["skipped: page.md: slow", "passed"]),
        ("<!-- not run from here on: slow -->\n```sh\na\n```\n\n```sh\nb\n```", ["skipped: page.md: slow"] * 2),
        ("```console\n$ echo a\nb\n```", ["failed: SybilFailure"]),
        (
            '<!-- skip: next "no time" -->\n```sh\nfalse\n```\n\n```text\n1\n```',
            ["skipped: page.md: no time"],
        ),
    ],
)
def test_blocks_of_a_page_are_compared_with_their_output(blocks: str, ended: list[str], tmp_path: Path) -> None:
    page, outcomes = tmp_path / "page.md", PageResults()
    page.write_text(blocks + "\n", encoding="utf-8")
    Page(page, tmp_path).evaluate(outcomes)
    assert [each.split(" ", 2)[2] for each in outcomes.ended] == ended


def test_a_block_of_an_unknown_language_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\n```\n\n```pyhton\n```\n\n~~~bash\n~~~\n", encoding="utf-8")
    assert unknown_languages(page) == ["bash", "pyhton"]
