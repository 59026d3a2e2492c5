# SPDX-License-Identifier: Apache-2.0
"""Several OpenCL C programs combined into one, with every declared name made unique. Pure."""

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
#: A comment of C.
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_SUFFIX = "_of_part_"
#: Words before parentheses that are not function names.
_NO_FUNCTIONS = frozenset({"__attribute__", "__attribute", "_Static_assert", "typeof", "__typeof__", "asm", "__asm__"})


@dataclass(frozen=True, slots=True)
class ProgramPart:
    """A program that can be combined with others."""

    code: OpenCLSource  # the program
    names: tuple[str, ...]  # names declared at file scope: functions and kernels, types, variables
    macros: tuple[str, ...]  # names of its preprocessor macros
    #: Only programs equal in this can be combined: build options, and pragmas that hold until the end of the source.
    setting: tuple[str, ...]

    def numbered(self, number: int) -> str:
        """Return the source with its declared names suffixed by the number, and all its macros undefined at the end."""
        own = [f"#define {name} {name}{suffix(number)}\n" for name in self.names]
        undefined = [f"#undef {name}\n" for name in (*self.names, *self.macros)]
        return f"{''.join(own)}{self.code.source}\n{''.join(undefined)}"


def suffix(number: int) -> str:
    """Return the suffix of the names declared by a part."""
    return f"{_SUFFIX}{number}"


def combined_source(parts: Sequence[ProgramPart]) -> str:
    """Return one program with the kernels of all parts, each kernel's name suffixed with its part's number.

    The names a part declares are renamed by macros around its text, which is not changed.
    """
    return "".join(part.numbered(number) for number, part in enumerate(parts))


def program_part(code: OpenCLSource) -> ProgramPart | None:
    """Return a program as a part of a combined one, or None if it must be built alone.

    It must be built alone if its declarations cannot be read from its text, or if the combination would change its
    meaning: it has conditions or includes, or a pragma after its beginning that holds until the end.
    """
    directives = _directives(code.source)
    if directives is None or _SUFFIX in code.source or "??" in code.source:
        return None
    macros, pragmas, text = directives
    names = _declared(text)
    if names is None or code.kernel_name not in names or {*names} & {*macros}:
        return None
    return ProgramPart(code, names, macros, (code.options, *pragmas))


def _directives(source: str) -> tuple[tuple[str, ...], tuple[str, ...], str] | None:
    """Return the macros and pragmas of a program, and its text without directives and comments; None if unsupported."""
    source = COMMENT.sub(" ", source.replace("\\\n", " "))
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
    """Return the names declared at file scope; None if the text is too complex to tell."""
    names: dict[str, None] = {}
    for declaration in _declarations(text):
        found = None if declaration is None else _names_of(declaration)
        if found is None:
            return None
        names.update(dict.fromkeys(found))
    return tuple(names)


def _declarations(text: str) -> Iterator[list[str] | None]:
    """Yield the tokens of each declaration, a group as its opening sign only; None for an unfinished one."""
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
    """Return whether the body that ends here is a function's."""
    return "(" in declaration and "=" not in declaration and not {"struct", "union", "typedef"} & {*declaration}


def _names_of(declaration: Sequence[str]) -> list[str] | None:
    """Return the names of one declaration from `_declarations`; None if it is too complex to tell."""
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
    # The last word before extents and attributes names the type or variable.
    while before_value and before_value[-1] in ("[", "(", "__attribute__", "__attribute"):
        before_value.pop()
    if not before_value or not _is_name(before_value[-1]):
        return names if names and before_value[-1:] == ["{"] else None
    return [*names, before_value[-1]]


def _is_name(token: str) -> bool:
    return token[0] == "_" or token[0].isalpha()
