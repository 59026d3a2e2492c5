# SPDX-License-Identifier: Apache-2.0
"""The shell commands of README, quickstart and tutorials, run literally by a new user with an empty home folder.

Usage: ``python3 tests/newcomer/follow.py``

The commands run in order in one shell, in a fresh clone of this checkout, or with ``--here`` in the checkout itself.
Of the environment they get HOME, which is a new folder, PATH and LANG, and besides these only what this machine needs
to reach package indices. Commands joined by ``&&`` are timed each for itself. A command that was run before is not
repeated. After a command the files that its options name must exist, and what the page shows as printed must have been
printed. The first failure ends it. This file needs nothing but Python's standard library.

Marks in a page: ``<!-- not run: reason -->`` before a block leaves it out. A block of the language ``text`` that
follows a shell block, or a paragraph after it whose last sentence has the word "prints", is what its last command
prints: any two numbers are taken as equal, and ``...`` stands for anything. In a ``console`` block, lines that begin
with ``$`` are commands.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Variables that a machine may need to reach package indices or to compute correctly; they name no part of syclsched.
_MACHINE = re.compile(
    r"(PIP|SSL_CERT|GIT_SSL|OPENBLAS)_\w+|(https?|no|all)_proxy|(REQUESTS|CURL)_CA_BUNDLE", re.IGNORECASE
)
_PIP_SETTINGS = (".config/pip/pip.conf", ".pip/pip.conf")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```\s*$", re.M | re.S)
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>(?:(?!-->).)*?) -->\s*(<!-- command: \w+ -->\s*)?\Z", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
#: A word of a command that names a file, and how a file of that kind begins.
_FILE = re.compile(r"(?:^|\s|=)([\w./-]+\.(png|json|html|svg|csv|txt))(?=\s|$)")
_BEGINS = {"png": b"\x89PNG", "json": b"", "html": b"<", "svg": b"<", "csv": b"", "txt": b""}


@dataclass(frozen=True)
class Step:
    """A command of a page: what it should print, and the reason if it is not run."""

    page: str
    line: int
    command: str
    printed: str = ""
    reason: str = ""


@dataclass(frozen=True)
class StepResult:
    """The result of a step; a failure has a text that does not begin with a word of `FINE`."""

    step: Step
    result: str
    seconds: float | None = None

    FINE = ("passed", "not run", "left out", "run before")

    @property
    def fine(self) -> bool:
        """Whether the step succeeded."""
        return self.result.startswith(self.FINE)


def pages() -> list[str]:
    """Return the pages that a new user follows, in reading order."""
    tutorials = sorted((ROOT / "docs").glob("tutorials/*.md")) + sorted((ROOT / "docs").glob("tutorials/*.ipynb"))
    quickstart = next((ROOT / "docs").rglob("quickstart.md"))
    found = [
        ROOT / "README.md",
        quickstart,
        *(each for each in tutorials if each.name not in ("quickstart.md", "index.md")),
    ]
    return [str(page.relative_to(ROOT)) for page in found]


def read(page: str) -> str:
    """Return the text of a page; of a notebook the text around its code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if not page.endswith(".ipynb"):
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
    return "\n\n".join("".join(cell["source"]) for cell in cells)


def steps(page: str, text: str) -> list[Step]:
    """Return the commands of a page in order."""
    found: list[Step] = []
    shell_end = -1
    for fence in _FENCE.finditer(text):
        language, body = fence["language"], fence["text"]
        line = text.count("\n", 0, fence.start("text")) + 1
        if language == "text" and shell_end >= 0 and _is_printed(text[shell_end : fence.start()]):
            found[-1] = replace(found[-1], printed=body)
        shell_end = -1
        if language not in ("sh", "bash", "shell", "console"):
            continue
        not_run = _NOT_RUN.search(text, 0, fence.start())
        if not_run:
            found.append(Step(page, line, body.strip(), reason=" ".join(not_run["reason"].split())))
            continue
        if language == "console":
            found += _session(page, line, body)
        else:
            found += [Step(page, line + offset, command) for offset, command in _commands(body)]
        shell_end = fence.end()
    return found


def _is_printed(between: str) -> bool:
    """Tell whether the text between a shell block and a text block says that the second is the first's output."""
    words = between.replace("<!-- end -->", "").strip()
    return not words or ("\n\n" not in words and re.search(r"\bprints\b[^.]*\Z", words) is not None)


def _session(page: str, line: int, body: str) -> Iterator[Step]:
    """Read a block with prompts: commands with what each prints."""
    for part in re.finditer(r"^\$ (?P<command>.*)\n?(?P<printed>(?:(?!\$ ).*\n?)*)", body, re.MULTILINE):
        offset = body.count("\n", 0, part.start())
        *before, last = [command for _, command in _commands(part["command"])]
        yield from (Step(page, line + offset, command) for command in before)
        yield Step(page, line + offset, last, printed=part["printed"])


def _commands(body: str) -> Iterator[tuple[int, str]]:
    """Return the commands of a shell block with the number of lines before each; ``a && b`` is two."""
    lines: list[str] = []
    for offset, line in enumerate(body.splitlines()):
        lines.append(line)
        command = "\n".join(lines).strip()
        if not command or command.startswith("#"):
            lines = []
        elif not line.endswith("\\") and _is_whole(command):
            yield from ((offset + 1 - len(lines), each) for each in _parts(command))
            lines = []
    if lines:
        raise ValueError(f"no shell reads this to its end: {body}")


def _is_whole(command: str) -> bool:
    """Tell whether a shell reads the text as a whole command."""
    read = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True, check=False)
    return read.returncode == 0 and not read.stderr


def _parts(command: str) -> list[str]:
    """Cut a command at ``&&`` where both sides are whole commands, and leave comments at the end out."""
    found: list[str] = []
    rest = ""
    for part in re.sub(r"\s+# [^'\"\n]*$", "", command).split("&&"):
        rest = f"{rest}&&{part}" if rest else part
        if _is_whole(rest):
            found.append(rest.strip())
            rest = ""
    return found if not rest else [command]


def is_printed(expected: str, printed: str) -> bool:
    """Tell whether the lines that a page shows were printed one after another, but for numbers and space.

    >>> is_printed("3 tasks, ... right", "begun\\n4 tasks,\\nall  right\\n")
    True
    """
    pattern = r"\s+".join(
        ".*?" if word == "..." else _NUMBER.sub("\0", re.escape(word).replace(r"\.", ".").replace(r"\-", "-"))
        for word in expected.split()
    )
    return re.search(pattern.replace("\0", _NUMBER.pattern), printed, re.DOTALL) is not None


class Shell:
    """A shell that commands are typed into, in which a folder or variable that one sets stays for the next."""

    def __init__(self, folder: Path, environment: dict[str, str], live: bool) -> None:
        self._live = live
        self._end = f"end of command {os.urandom(8).hex()}"
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def run(self, command: str) -> tuple[int | None, str]:
        """Return the exit code and what was printed; a shell that has ended has no code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{{\n{command}\n}} </dev/null\nprintf '\\n%s %s\\n' '{self._end}' $?\n")
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            if line.startswith(self._end):
                return int(line.split()[-1]), "".join(printed).removesuffix("\n")
            printed.append(line)
            if self._live:
                print(line, end="", flush=True)
        return None, "".join(printed)

    def close(self) -> None:
        """End the shell."""
        self._process.communicate()


def files_of(command: str) -> list[str]:
    """Return the files that a command names."""
    return [match[1] for match in _FILE.finditer(command)]


def missing(command: str, folder: Path) -> str:
    """Return what is wrong with a file that a command names, or nothing."""
    for name in files_of(command):
        path = folder / name
        if not path.is_file() or not path.stat().st_size:
            return f"{name} does not exist or is empty"
        begin = _BEGINS[path.suffix[1:]]
        with path.open("rb") as file:
            if not file.read(100).lstrip().startswith(begin):
                return f"{name} is no {path.suffix[1:].upper()}"
        if path.suffix == ".json":
            try:
                json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                return f"{name} is no JSON: {error}"
    return ""


def _say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def follow(
    todo: Sequence[Step],
    folder: Path,
    environment: dict[str, str],
    left_out: str = "",
    live: bool = False,
    say: Callable[[str], None] = _say,
) -> list[StepResult]:
    """Run the commands in a folder until one fails; return the outcome of each command that was reached."""
    found: list[StepResult] = []
    done: dict[str, Step] = {}
    with closing(Shell(folder, environment, live)) as shell:
        for step in todo:
            say(f"\n{step.page}:{step.line}: {step.command}")
            started_s = time.monotonic()
            seconds: float | None = None
            if step.reason:
                result = f"not run: {step.reason}"
            elif left_out and re.search(left_out, step.command):
                result = "left out, as asked for"
            elif step.command in done:
                result = f"run before, {done[step.command].page}:{done[step.command].line}"
            else:
                code, printed = shell.run(step.command)
                seconds = time.monotonic() - started_s
                result = _result(step, code, printed, folder)
                done[step.command] = step
                if not result.startswith("passed") and not live:
                    say("\n".join(printed.splitlines()[-30:]))
            say(f"-- {result}" + ("" if seconds is None else f" ({seconds:.1f} s)"))
            found.append(StepResult(step, result, seconds))
            if not found[-1].fine:
                break
    return found


def _result(step: Step, code: int | None, printed: str, folder: Path) -> str:
    """Say how a command ended."""
    if code is None:
        return "FAILED: the command ended the shell"
    if code:
        return f"FAILED: exit code {code}"
    problem = missing(step.command, folder)
    if problem:
        return f"FAILED: {problem}"
    if step.printed and not is_printed(step.printed, printed):
        return f"FAILED: the page says that it prints\n{step.printed}\nbut it printed\n{printed[-3000:]}"
    checked = [*files_of(step.command), *(["what is printed"] if step.printed else [])]
    return "passed" + (f", with {', '.join(checked)}" if checked else "")


def table(outcomes: Sequence[StepResult], todo: Sequence[Step]) -> str:
    """Return a table of all steps."""
    rows = [(each.step, each.result.split("\n")[0], each.seconds) for each in outcomes]
    rows += [(step, "not come to", None) for step in todo[len(outcomes) :]]
    width = max(len(f"{step.page}:{step.line}") for step, *_ in rows)
    lines = [f"{'step':{width}}  {'seconds':>8}  {'command':60}  result"]
    for step, result, seconds in rows:
        command = step.command.split("\n")[0]
        command = command if len(command) <= 60 else f"{command[:57]}..."
        took = "" if seconds is None else f"{seconds:.1f}"
        lines.append(f"{f'{step.page}:{step.line}':{width}}  {took:>8}  {command:60}  {result}")
    return "\n".join(lines)


def new_user(home: Path) -> dict[str, str]:
    """Return the environment of a user whose home folder has nothing but the machine's settings of pip."""
    for name in _PIP_SETTINGS:
        settings = Path.home() / name
        if settings.is_file():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(settings, home / name)
    passed = {name: value for name, value in os.environ.items() if _MACHINE.fullmatch(name)}
    base = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": os.environ.get("LANG", "C.UTF-8")}
    return {**passed, **base}


def main(arguments: Sequence[str]) -> int:
    """Follow the pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="pages of this checkout; default: README, quickstart, tutorials")
    parser.add_argument("--here", action="store_true", help="use this checkout and leave .venv in it; default: a clone")
    parser.add_argument("--left-out", default="", metavar="PATTERN", help="leave commands out that match this")
    parser.add_argument("--live", action="store_true", help="show all that the commands print, while they run")
    parser.add_argument("--list", action="store_true", help="print the commands and run none")
    options = parser.parse_args(arguments)
    todo = [step for page in options.pages or pages() for step in steps(page, read(page))]
    if options.list:
        print(table([StepResult(step, f"not run: {step.reason}" if step.reason else "") for step in todo], todo))
        return 0
    if options.here and (ROOT / ".venv").exists():
        print("Remove .venv first: a new user has none.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="newcomer-", ignore_cleanup_errors=True) as scratch:
        folder = ROOT if options.here else Path(scratch) / "checkout"
        if not options.here:
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        home = Path(scratch) / "home"
        home.mkdir()
        environment = new_user(home)
        print(f"In {folder}, with the variables {', '.join(sorted(environment))}")
        before = {name for step in todo for name in files_of(step.command) if (folder / name).exists()}
        outcomes = follow(todo, folder, environment, options.left_out, options.live)
        for name in {name for step in todo for name in files_of(step.command)} - before:
            (folder / name).unlink(missing_ok=True)
    print(f"\n{table(outcomes, todo)}")
    return 0 if len(outcomes) == len(todo) and all(each.fine for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
