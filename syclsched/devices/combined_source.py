# SPDX-License-Identifier: Apache-2.0
"""Several OpenCL C programs as one: what each declares gets a name of its own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from syclsched.model.operation import OpenCLSource

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)"
    r'|(?P<text>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    r"|(?P<name>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)|(?P<sign>.)",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[^\S\n]*#[^\S\n]*(\w*)[^\S\n]*([^\n]*)$", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_SUFFIX = "_of_part_"
#: Words before parentheses that are not a function's name.
_NO_FUNCTIONS = frozenset({"__attribute__", "__attribute", "_Static_assert", "typeof", "__typeof__", "asm", "__asm__"})


@dataclass(frozen=True, slots=True)
class Part:
    """A program that can be one of several."""

    code: OpenCLSource  # the program
    names: tuple[str, ...]  # what it declares outside of its functions: functions and kernels, types, variables
    macros: tuple[str, ...]  # what it defines for the preprocessor
    #: What only programs that are alike in it may have in common: build options, and pragmas that hold until the end.
    setting: tuple[str, ...]

    def numbered(self, number: int) -> str:
        """Return its text with what it declares renamed, nothing of which is seen by what follows."""
        own = [f"#define {name} {name}{suffix(number)}\n" for name in self.names]
        forget = [f"#undef {name}\n" for name in (*self.names, *self.macros)]
        return f"{''.join(own)}{self.code.source}\n{''.join(forget)}"


def suffix(number: int) -> str:
    """Return what the names of a part end with."""
    return f"{_SUFFIX}{number}"


def combined_source(parts: Sequence[Part]) -> str:
    """Return one program that has the kernels of several.

    What a part declares, kernels included, is renamed by macros around it: `suffix` of its place is added. Its text
    stays.
    """
    return "".join(part.numbered(number) for number, part in enumerate(parts))


def part_of(code: OpenCLSource) -> Part | None:
    """Return a program as a part of a larger one, or None if it must stay alone.

    It stays alone if what it declares cannot be told from its text, or if it could tell that it is not alone:
    it has conditions or includes, or a pragma after its beginning that holds until the end.
    """
    directives = _directives(code.source)
    if directives is None or _SUFFIX in code.source or "??" in code.source:
        return None
    macros, pragmas, text = directives
    names = _declared(text)
    if names is None or code.kernel_name not in names or {*names} & {*macros}:
        return None
    return Part(code, names, macros, (code.options, *pragmas))


def _directives(source: str) -> tuple[tuple[str, ...], tuple[str, ...], str] | None:
    """Return the macros and the pragmas of a program, and its text without directives and comments."""
    source = _COMMENT.sub(" ", source.replace("\\\n", " "))
    macros: list[str] = []
    pragmas: list[str] = []
    for found in _DIRECTIVE.finditer(source):
        kind, rest = found.groups()
        if kind == "define" and (name := re.match(r"[A-Za-z_]\w*", rest)):
            macros.append(name.group())
        elif kind == "pragma" and rest.split()[:1] == ["OPENCL"]:
            if _DIRECTIVE.sub("", source[: found.start()]).strip():
                return None
            pragmas.append(" ".join(rest.split()))
        elif kind != "pragma" or rest.split()[:1] not in (["unroll"], ["nounroll"]):
            return None
    return tuple(dict.fromkeys(macros)), tuple(pragmas), _DIRECTIVE.sub("", source)


def _declared(text: str) -> tuple[str, ...] | None:
    """Return the names that are declared outside of functions; None if that is not plain."""
    names: dict[str, None] = {}
    for declaration in _declarations(text):
        found = None if declaration is None else _names_of(declaration)
        if found is None:
            return None
        names.update(dict.fromkeys(found))
    return tuple(names)


def _declarations(text: str) -> Iterator[list[str] | None]:
    """Yield the words and signs of each declaration, of groups the signs that open them; None for what has no end."""
    declaration: list[str] = []
    closing: list[str] = []
    for found in _TOKEN.finditer(text):
        token, kind = found.group(), found.lastgroup
        if kind == "space":
            continue
        is_sign = kind == "sign"
        if is_sign and token in _CLOSING:
            if not closing:
                declaration.append(token)
            closing.append(_CLOSING[token])
        elif is_sign and token in ")]}":
            if not closing or token != closing.pop():
                yield None
                return
            if token == "}" and not closing and _is_function(declaration):
                yield declaration
                declaration = []
        elif not closing and token == ";":
            yield declaration
            declaration = []
        elif not closing:
            declaration.append(token)
    if closing or declaration:
        yield None


def _is_function(declaration: Sequence[str]) -> bool:
    """Return whether the body that ends here is a function's; groups are told by how they open."""
    return "(" in declaration and "=" not in declaration and not {"struct", "union", "typedef"} & {*declaration}


def _names_of(declaration: Sequence[str]) -> list[str] | None:
    """Return the names of one declaration, whose groups are told by how they open; None if that is not plain."""
    if not declaration:
        return []
    if "enum" in declaration or "," in declaration or "extern" in declaration:
        return None
    names = []
    before_value = list(declaration[: declaration.index("=")] if "=" in declaration else declaration)
    for place, token in enumerate(before_value):
        if token in ("struct", "union"):
            if "{" not in before_value:
                return None
            if before_value[place + 1 : place + 3][1:] == ["{"]:
                names.append(before_value[place + 1])
    called = [
        name
        for name, following in pairwise(before_value)
        if following == "(" and _is_name(name) and name not in _NO_FUNCTIONS
    ]
    if len(called) > 1 or (called and names):
        return None
    if called:
        return called
    # The last word, of a type or a variable, before extents and attributes.
    while before_value and before_value[-1] in ("[", "(", "__attribute__", "__attribute"):
        before_value.pop()
    if not before_value or not _is_name(before_value[-1]):
        return names if names and before_value[-1:] == ["{"] else None
    return [*names, before_value[-1]]


def _is_name(token: str) -> bool:
    return token[0] == "_" or token[0].isalpha()
