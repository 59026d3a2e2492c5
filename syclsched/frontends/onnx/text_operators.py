# SPDX-License-Identifier: Apache-2.0
"""Host implementations of operators on text and maps that onnx's reference lacks, or has slowly or with side effects.

Where ONNX's text leaves a choice, they follow ONNX Runtime.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

_ML: Final = "ai.onnx.ml"
#: Marks of `Tokenizer` before and after the tokens of a text.
_START, _END = "\x02", "\x03"


def label_encoder(x: Any, at: Mapping[str, Any]) -> Any:
    """Return the value of each key, or the default of an unknown one."""
    if at.get("classes_strings"):  # the first version of the operator: both ways by one table
        classes = at["classes_strings"]
        if x.dtype.kind in "OU":
            return _looked_up(x, {c: i for i, c in enumerate(classes)}, at.get("default_int64", -1), np.int64)
        return _looked_up(x, dict(enumerate(classes)), at.get("default_string", "_Unused"), object)
    found = {}
    for side in ("keys", "values"):
        lists = (at.get(f"{side}_{kind}") for kind in ("strings", "int64s", "floats"))
        tensor = at.get(f"{side}_tensor")
        found[side] = next((each for each in lists if each), None) if tensor is None else tensor.reshape(-1).tolist()
    keys, values = found["keys"], found["values"]
    if keys is None or values is None or len(keys) != len(values):
        raise ValueError(f"{len(keys or ())} keys and {len(values or ())} values")
    table = dict(zip(reversed(keys), reversed(values), strict=True))  # the first of equal keys counts
    tensor = at.get("values_tensor")
    if tensor is not None:
        default = at.get("default_tensor")
        usual: Any = "_Unused" if tensor.dtype.kind in "OU" else -1 if tensor.dtype.kind in "iu" else -0.0
        kind = object if tensor.dtype.kind in "OU" else tensor.dtype
        return _looked_up(x, table, usual if default is None else default.reshape(-1).tolist()[0], kind)
    if at.get("values_strings"):
        return _looked_up(x, table, at.get("default_string", "_Unused"), object)
    if at.get("values_int64s"):
        return _looked_up(x, table, at.get("default_int64", -1), np.int64)
    return _looked_up(x, table, at.get("default_float", -0.0), np.float32)


def category_mapper(x: Any, at: Mapping[str, Any]) -> Any:
    """Return the number of each text, or the text of each number."""
    texts, numbers = at["cats_strings"], at["cats_int64s"]
    if x.dtype.kind in "OU":
        return _looked_up(x, dict(zip(texts, numbers, strict=True)), at.get("default_int64", -1), np.int64)
    return _looked_up(x, dict(zip(numbers, texts, strict=True)), at.get("default_string", "_Unused"), object)


def _looked_up(x: Any, table: Mapping[Any, Any], default: Any, kind: Any) -> Any:
    found = np.empty(x.size, kind)
    found[:] = [table.get(each, default) for each in x.reshape(-1).tolist()]
    return found.reshape(x.shape)


def one_hot_encoder(x: Any, at: Mapping[str, Any]) -> Any:
    """Return a 1 at the place of each category, and 0 elsewhere."""
    categories = at.get("cats_strings") or at.get("cats_int64s") or ()
    places = _looked_up(x, {each: i for i, each in enumerate(categories)}, -1, np.int64).reshape(-1)
    known = places >= 0
    if not at.get("zeros", 1) and not known.all():
        unknown = x.reshape(-1)[np.argmin(known)]
        raise ValueError(f"{unknown!r} is none of the categories {', '.join(map(repr, categories[:8]))}")
    made = np.zeros((x.size, len(categories)), np.float32)
    made[np.flatnonzero(known), places[known]] = 1.0
    return made.reshape(*x.shape, len(categories))


def dict_vectorizer(x: Any, at: Mapping[str, Any]) -> Any:
    """Return the values of a map, or of each map of a sequence, in the order of the vocabulary; others are left out."""
    vocabulary = at.get("string_vocabulary") or at.get("int64_vocabulary") or ()
    made = np.array([[each.get(key, 0) for key in vocabulary] for each in ([x] if isinstance(x, Mapping) else x)])
    return made.astype(np.float32) if made.dtype.kind == "f" else made


def string_normalizer(x: Any, at: Mapping[str, Any]) -> Any:
    """Return text in lower or upper case, without stop words."""
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise ValueError(f"it takes texts of shape (n,) or (1, n), not {x.shape}")
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(at.get("case_change_action", "NONE"), str)
    is_exact = at.get("is_case_sensitive", 0)
    stops = {each if is_exact else each.lower() for each in at.get("stopwords") or ()}
    kept = [change(each) for each in x.reshape(-1).tolist() if (each if is_exact else each.lower()) not in stops]
    made = np.array(kept or [""], object)
    return made.reshape(1, -1) if x.ndim == 2 else made


def tokenizer(x: Any, at: Mapping[str, Any]) -> Any:
    """Return the tokens of each text along a new last axis, filled up with ``pad_value``."""
    rows = [list(_tokens(each, at)) for each in x.reshape(-1).tolist()]
    if at.get("mark"):
        rows = [[_START, *row, _END] for row in rows]
    most = max(map(len, rows), default=0)
    made = np.full((len(rows), most), at.get("pad_value", ""), object)
    for row, tokens in zip(made, rows, strict=True):
        row[: len(tokens)] = tokens
    return made.reshape(*x.shape, most)


def _tokens(text: str, at: Mapping[str, Any]) -> Iterator[str]:
    least, expression = at.get("mincharnum", 1), at.get("tokenexp")
    separators: Sequence[str] = at.get("separators") or ()
    if expression:
        found: Sequence[str] = [each.group() for each in re.finditer(expression, text)]
    elif list(separators) == [""]:
        found = list(text)
    else:
        found = [text]
        for separator in separators:
            found = [part for each in found for part in _parts(each, separator)]
    return (each for each in found if len(each) >= least)


def _parts(text: str, separator: str) -> Iterator[str]:
    start = 0
    for found in re.finditer(separator, text):
        if found.end() > found.start():
            yield text[start : found.start()]
            start = found.end()
    yield text[start:]


def regex_full_match(x: Any, at: Mapping[str, Any]) -> Any:
    """Return which texts a regular expression matches as a whole."""
    expression = re.compile(at.get("pattern", ""))
    found = [expression.fullmatch(each) is not None for each in x.reshape(-1).tolist()]
    return np.array(found, bool).reshape(x.shape)


#: Operators: domain, name, function of the input and the attributes.
_OPERATORS: Final = (
    (_ML, "LabelEncoder", label_encoder),
    (_ML, "CategoryMapper", category_mapper),
    (_ML, "OneHotEncoder", one_hot_encoder),
    (_ML, "DictVectorizer", dict_vectorizer),
    ("", "StringNormalizer", string_normalizer),
    ("", "RegexFullMatch", regex_full_match),
    ("com.microsoft", "Tokenizer", tokenizer),
)


@cache
def text_operators() -> tuple[Any, ...]:
    """Return the operators as classes that onnx's reference implementation takes."""
    from onnx.helper import get_attribute_value
    from onnx.numpy_helper import to_array
    from onnx.reference.op_run import OpRun

    def value(attribute: Any) -> Any:
        found = get_attribute_value(attribute)
        if attribute.HasField("t"):
            return to_array(found)
        if isinstance(found, bytes):
            return found.decode()
        is_text = isinstance(found, list | tuple) and found and isinstance(found[0], bytes)
        return [each.decode() for each in found] if is_text else found

    def operator(domain: str, name: str, function: Any) -> Any:
        def run(self: Any, x: Any, **_: Any) -> Any:
            at = {each.name: value(each) for each in self.onnx_node.attribute}
            return (function(x, at),)

        return type(name, (OpRun,), {"op_domain": domain, "_run": run})

    return tuple(operator(*each) for each in _OPERATORS)
