# SPDX-License-Identifier: Apache-2.0
"""OpenCL C source of a kernel that does the work of several launches of another kernel. Pure."""

from __future__ import annotations

import re

from syclsched.model.operation import OpenCLSource

#: Features a kernel to be joined may not use: queries that show the added dimension, local memory (guaranteed only in a
#: kernel that is launched itself: OpenCL C 3.0, 6.7.1), synchronisation of work-items (a group chosen by the runtime
#: could contain work-items of two launches).
_NOT_JOINED = re.compile(
    r"\b(?:__local|local|reqd_work_group_size|work_group_size_hint|vec_type_hint|get_work_dim|get_global_linear_id"
    r"|get_global_offset|barrier|work_group_\w+|sub_group_\w+|printf|image[123]d\w*|sampler_t|pipe)\b"
    r"|\bget_(?:global_id|local_id|group_id|num_groups|global_size|local_size|enqueued_local_size)\b(?!\s*\(\s*[01]\s*\))"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_NAME = re.compile(r"([A-Za-z_]\w*)\s*$")


def joined_source(code: OpenCLSource, count: int) -> OpenCLSource | None:
    """Return a program with a kernel that does the work of several launches of one kernel; None if impossible.

    The kernel takes the arguments of all launches, one after another, and is launched over one more dimension, the
    slowest: its index selects the launch. The first two dimensions are unchanged.
    """
    plain = _COMMENT.sub(" ", code.source)
    parameters = _parameters(plain, code.kernel_name)
    if parameters is None or _NOT_JOINED.search(plain):
        return None
    name = f"syclsched_{count}_{code.kernel_name}"
    declared = [f"{head}{own}_{n}" for n in range(count) for head, own in parameters]
    cases = [
        f"    case {n}: {code.kernel_name}({', '.join(f'{own}_{n}' for _, own in parameters)}); break;"
        for n in range(count)
    ]
    text = "\n".join(
        (
            code.source,
            f"__kernel void {name}({', '.join(declared)}) {{",
            "    switch (get_global_id(2)) {",
            *cases,
            "    }",
            "}",
        )
    )
    return OpenCLSource(text, name, code.options)


def _parameters(source: str, kernel: str) -> list[tuple[str, str]] | None:
    """Return declaration and name of each kernel parameter; None if the text is too complex."""
    found = re.findall(rf"\b(?:__)?kernel\s+void\s+{re.escape(kernel)}\s*\(([^()]*)\)\s*\{{", source)
    if len(found) != 1:
        return None
    parameters = []
    for text in found[0].split(","):
        name = _LAST_NAME.search(text)
        if name is None or not text[: name.start()].strip():
            return None
        parameters.append((text[: name.start()], name.group(1)))
    return parameters
