# SPDX-License-Identifier: Apache-2.0
"""Lexer of DOT files."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, NoReturn

from syclsched.errors import FormatError

# The repetition ends the pattern, so matching never backtracks: a hostile file cannot make it slow.
_SKIPPED = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|#[^\n]*)*", re.DOTALL)
_TOKEN = re.compile(
    # Graphviz has no exponents and would split 1e-3 into three tokens, which no author intends.
    r"""(?P<word>[^\W\d]\w*|-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?(?![\w.]))"""
    r"""|"(?P<quoted>[^"\\]*(?:\\.[^"\\]*)*)\""""
    r"""|(?P<mark>->|--|[{}\[\];,=:])""",
    re.DOTALL,
)
_ANGLE = re.compile(r"[<>]")
_JOINED = re.compile(r'\s*\+\s*"', re.DOTALL)


def skip(text: str, position: int) -> int:
    """Return the position of the next token, after white space and comments."""
    found = _SKIPPED.match(text, position)
    return position if found is None else found.end()


class Token(NamedTuple):
    """One token: an identifier, a punctuation mark, or the end of the file."""

    kind: Literal["id", "mark", "end"]
    text: str  # an identifier without its quotes
    position: int  # offset of the first character
    quoted: bool = False  # quoted identifiers are never keywords


class Lexer:
    """Lexer with one token of look-ahead."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._at = 0
        # Line numbers are counted on from the last one requested if the position is not before it.
        self._counted = (0, 1)
        self.peek = self._read()

    def where(self, position: int) -> str:
        """Return the file name and line number of a position."""
        start, line = self._counted if self._counted[0] <= position else (0, 1)
        line += self._text.count("\n", start, position)
        self._counted = (position, line)
        return f"{self._name}, line {line}"

    def shown(self) -> str:
        """Return the next token formatted for an error message."""
        token = self.peek
        return "the file ends here" if token.kind == "end" else f"found {token.text[:40]!r}"

    def fail(self, what: str) -> NoReturn:
        """Raise `FormatError` at the next token."""
        raise FormatError(what, where=self.where(self.peek.position))

    def next(self) -> Token:
        """Consume and return the next token."""
        token, self.peek = self.peek, self._read() if self.peek.kind != "end" else self.peek
        return token

    def accept(self, mark: str) -> bool:
        """Consume a punctuation mark if it is next; return whether it was."""
        found = self.peek.kind == "mark" and self.peek.text == mark
        if found:
            self.next()
        return found

    def accept_word(self, word: str) -> bool:
        """Consume a keyword, in any letter case, if it is next; return whether it was."""
        found = self.peek.kind == "id" and not self.peek.quoted and self.peek.text.lower() == word
        if found:
            self.next()
        return found

    def expect(self, mark: str) -> None:
        """Consume a punctuation mark that must be next."""
        if not self.accept(mark):
            self.fail(f"{self.shown()}, expected {mark}")

    def identifier(self, expected: str) -> str:
        """Consume and return an identifier that must be next."""
        if self.peek.kind != "id":
            self.fail(f"{self.shown()}, expected {expected}")
        return self.next().text

    # --- internals --------------------------------------------------------------------------------

    def _read(self) -> Token:
        text = self._text
        start = skip(text, self._at)
        if start == len(text):
            return Token("end", "", start)
        if text[start] == "<":
            return self._html(start)
        found = _TOKEN.match(text, start)
        if found is None:
            shown = "a text in quotes, or a remark, that does not end" if text[start] in '"/' else repr(text[start])
            raise FormatError(f"found {shown}, expected a name, a number or a mark", where=self.where(start))
        self._at = found.end()
        if found["mark"] is not None:
            return Token("mark", found["mark"], start)
        if found["word"] is not None:
            return Token("id", found["word"], start)
        return Token("id", self._joined(_unescaped(found["quoted"])), start, True)

    def _joined(self, first: str) -> str:
        """Append the quoted strings that follow, each after a plus sign."""
        parts = [first]
        while more := _JOINED.match(self._text, self._at):
            found = _TOKEN.match(self._text, more.end() - 1)
            if found is None:
                raise FormatError("found a text in quotes that does not end", where=self.where(more.end() - 1))
            self._at = found.end()
            parts.append(_unescaped(found["quoted"]))
        return "".join(parts)

    def _html(self, start: int) -> Token:
        depth = 0
        for bracket in _ANGLE.finditer(self._text, start):
            depth += 1 if bracket[0] == "<" else -1
            if depth == 0:
                self._at = bracket.end()
                return Token("id", self._text[start + 1 : bracket.start()], start, True)
        raise FormatError("found an HTML text that does not end, expected >", where=self.where(start))


def _unescaped(text: str) -> str:
    """Undo DOT's escapes: escaped quotes, and escaped line breaks, which are removed."""
    return text.replace('\\"', '"').replace("\\\n", "") if "\\" in text else text
