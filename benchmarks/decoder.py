# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of a language model's decoder, compared with ONNX Runtime's CPU provider, alternating.

    python benchmarks/decoder.py [--layers 12] [--width 768] [--prompt 32] [--tokens 128] [--runs 5] [--growth 10000]
                                 [--concat]

The model has seeded random weights: `syclsched.testing.decoder_model`. Both sides decode the same tokens of one
sequence, whose caches stay in memory: ONNX Runtime gets them by IOBinding as one shared buffer of past and present, and
runs with 1 and with 2 threads, of which the faster counts. The sides take turns, a whole sequence each. Logits are
compared before anything is timed.

``--growth N`` decodes N tokens of sequences one after another, and shows by how much the process has grown.

With ``--concat`` the model's caches grow by Concat, as Optimum exports them: each call is given the results of the one
before, and the sides take turns, a whole sequence each. The first sequence is shown by itself, as it makes the plans.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import format_range, parser, print_table, resident_bytes

from syclsched.testing.decoder_model import decoder_model

_VOCABULARY = 8192


def inputs_of(ids: Any, length: int) -> dict[str, Any]:
    """Return the inputs for new tokens of a sequence, with its new length."""
    return {
        "input_ids": np.asarray(ids, np.int64).reshape(1, -1),
        "seqlens_k": np.array([length - 1], np.int32),
        "total_sequence_length": np.array(length, np.int32),
    }


class Runtime:
    """ONNX Runtime's session with caches bound both as inputs and as outputs."""

    def __init__(self, path: Path, threads: int, room: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._caches = {
            each.name: onnxruntime.OrtValue.ortvalue_from_numpy(
                np.zeros((1, each.shape[1], room, each.shape[3]), np.float32)
            )
            for each in self._session.get_inputs()
            if each.name.startswith("past")
        }
        self._bindings: dict[int, Any] = {}  # by number of new tokens

    def _binding(self) -> Any:
        made = self._session.io_binding()
        made.bind_output("logits")
        for name, cache in self._caches.items():
            made.bind_ortvalue_input(name, cache)
            made.bind_ortvalue_output(name.replace("past_key_values", "present"), cache)
        return made

    def __call__(self, inputs: dict[str, Any]) -> Any:
        """Return the logits of new tokens."""
        count = inputs["input_ids"].size
        if count not in self._bindings:
            self._bindings[count] = self._binding()
        binding = self._bindings[count]
        for name, value in inputs.items():
            binding.bind_cpu_input(name, value)
        self._session.run_with_iobinding(binding)
        return binding.get_outputs()[0].numpy()


def decode(call: Any, prompt: Any, tokens: int) -> tuple[Any, float, float]:
    """Return the greedy tokens after a prompt, the seconds of the prompt, and those of the tokens."""
    begun = time.perf_counter()
    token = int(call(inputs_of(prompt, len(prompt)))[0, -1].argmax())
    made, prefilled = [token], time.perf_counter()
    for length in range(len(prompt) + 1, len(prompt) + tokens):
        token = int(call(inputs_of([token], length))[0, 0].argmax())
        made.append(token)
    return made, prefilled - begun, time.perf_counter() - prefilled


def compare(options: Any, path: Path) -> None:
    """Time both sides."""
    import syclsched

    room = options.prompt + options.tokens
    prompt = np.random.default_rng(1).integers(0, _VOCABULARY, options.prompt)
    shapes = {"batch": 1, "past_sequence_length": room}
    with syclsched.compile(path, devices="cpu", shapes=shapes, carried=True) as compiled:
        sides = {"syclsched": lambda given: compiled(given)["logits"]}
        sides |= {f"ONNX Runtime, {n} threads": Runtime(path, n, room) for n in options.threads}
        first = {name: call(inputs_of(prompt, len(prompt))) for name, call in sides.items()}
        expected = next(reversed(first.values()))
        worst = max(float(np.abs(each - expected).max() / np.abs(expected).max()) for each in first.values())
        if worst > 1e-3:
            raise SystemExit(f"the logits differ by {worst:.2g}")
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        made = {name: decode(call, prompt, options.tokens)[0] for name, call in sides.items()}
        same = sum(a == b for a, b in itertools.combinations(made.values(), 2))
        gc.collect()
        gc.disable()
        for _ in range(options.runs):
            for name, call in sides.items():
                _, prefill_s, decode_s = decode(call, prompt, options.tokens)
                found[name].append((prefill_s, (options.tokens - 1) / decode_s))
        gc.enable()
        rows = []
        for name, each in found.items():
            prefill, speed = ([one[at] for one in each] for at in (0, 1))
            median = statistics.median(speed)
            rows.append((name, f"{median:.1f}", f"{max(speed):.1f}", f"{1e3 * statistics.median(prefill):.1f}"))
        title = f"{options.layers} layers of width {options.width}, tokens {options.prompt} to {room}"
        columns = ("", "tokens a second", "most", f"prompt of {options.prompt}, ms")
        print_table(title, columns, rows, ["tokens a second", "most", columns[3]])
        best = max(statistics.median([one[1] for one in found[name]]) for name in list(sides)[1:])
        most = max(one[1] for name in list(sides)[1:] for one in found[name])
        own = [one[1] for one in found["syclsched"]]
        print(f"ratio {statistics.median(own) / best:.2f} of medians, {max(own) / most:.2f} of the most")
        print(f"{same} of {len(sides) * (len(sides) - 1) // 2} pairs of sides made the same tokens")
        if options.operators:
            for each in sorted(compiled.times(inputs_of([1], room)), key=lambda one: -one.seconds)[: options.operators]:
                print(f"{each.seconds * 1e6:9.1f} us  {each.implementation:16} {each.operator}")


class GrowingCaches:
    """A function of inputs with caches: the results of the call before, or None if the model carries them."""

    def __init__(self, call: Any, caches: dict[str, Any] | None) -> None:
        self._call, self._first = call, caches
        self.took: list[float] = []
        self.begin()

    def begin(self) -> None:
        """Begin a sequence."""
        self._past, self._length, self.took = self._first, 0, []

    def __call__(self, ids: Any) -> Any:
        """Return the logits of new tokens."""
        ids = np.asarray(ids, np.int64).reshape(1, -1)
        whole = self._length + ids.size
        given = {"input_ids": ids, "attention_mask": np.ones((1, whole), np.int64)}
        given["position_ids"] = np.arange(self._length, whole)[None]
        begun = time.perf_counter()
        found = self._call({**given, **(self._past or {})})
        self.took.append(time.perf_counter() - begun)
        if self._past is not None:
            self._past = {name: found[name.replace("past_key_values", "present")] for name in self._past}
        self._length = whole
        return found["logits"]


def concat(options: Any) -> None:
    """Time tokens of a decoder whose caches grow by Concat."""
    import onnxruntime

    import syclsched

    model = decoder_model(options.layers, options.width, options.heads, vocabulary=_VOCABULARY, growing=True)
    shape = 1, options.heads, 0, options.width // options.heads
    caches = {each.name: np.zeros(shape, np.float32) for each in model.graph.input if each.name.startswith("past")}
    sides, own = {}, {}
    for name, given in {
        "syclsched": {},
        "syclsched, carried": {"carried": True, "shapes": {"batch_size": 1, "past_sequence_length": 0}},
    }.items():
        own[name] = syclsched.compile(model, devices="cpu", **given)
        sides[name] = GrowingCaches(own[name], None if given else caches)
    for threads in options.threads:
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.add_session_config_entry("session.force_spinning_stop", "1")
        session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]
        call = lambda given, session=session, names=names: dict(zip(names, session.run(None, given), strict=True))  # noqa: E731
        sides[f"ONNX Runtime, {threads} threads"] = GrowingCaches(call, caches)
    prompt = np.random.default_rng(1).integers(0, _VOCABULARY, options.prompt)
    tokens: list[int] = []
    first, took = {}, {name: [] for name in sides}
    for run in range(options.runs + 1):
        for name, side in sides.items():
            side.begin()
            if run and name == "syclsched, carried":
                own[name].reset()
            logits = [side(prompt)[0, -1]]
            for n in range(options.tokens):
                if len(tokens) == n:
                    tokens.append(int(logits[-1].argmax()))
                logits.append(side([tokens[n]])[0, -1])
            expected = first.setdefault("logits", logits)
            if np.abs(np.subtract(logits, expected)).max() > 1e-3 * np.abs(expected).max():
                raise SystemExit(f"the logits of {name} differ")
            if run:
                took[name].append(1e3 * statistics.median(side.took[1:]))
            else:
                first[name] = sum(side.took)
    rows = [
        (name, str(len(own[name].kept_shapes)) if name in own else "", f"{first[name]:.2f}", format_range(each, 2))
        for name, each in took.items()
    ]
    title = (
        f"{options.layers} layers of width {options.width}, {options.tokens} tokens after a prompt of {options.prompt}"
    )
    print_table(title, ("", "plans", "first text, s", "a token of others, ms"), rows, ["plans", "first text, s"])
    for compiled in own.values():
        compiled.close()


def growth(options: Any) -> None:
    """Print the growth of the process over many tokens of a small model."""
    import syclsched

    model, room, prompt = decoder_model(2, 64, 4, vocabulary=256, positions=256), 256, np.arange(8)
    with syclsched.compile(model, devices="cpu", shapes={"past_sequence_length": room}, carried=True) as compiled:
        call = lambda given: compiled(given)["logits"]  # noqa: E731
        for _ in range(20):  # fill caches of allocators
            decode(call, prompt, room - 8)
        gc.collect()
        begun, grown = resident_bytes(), []
        for turn in range(1, options.growth // (room - 8) + 1):
            decode(call, prompt, room - 8)
            if turn % 10 == 0:
                gc.collect()
                grown.append((resident_bytes() - begun) // 1024)
        print(f"grown by {', '.join(map(str, grown))} KiB, after each {10 * (room - 8)} tokens")


def main() -> None:
    """Compare, or measure memory."""
    arguments = parser(__doc__, runs=5)
    arguments.add_argument("--layers", type=int, default=12)
    arguments.add_argument("--width", type=int, default=768)
    arguments.add_argument("--heads", type=int, default=12)
    arguments.add_argument("--prompt", type=int, default=32)
    arguments.add_argument("--tokens", type=int, default=128)
    arguments.add_argument("--threads", type=int, nargs="*", default=[1, 2], help="of ONNX Runtime; the best is taken")
    arguments.add_argument("--operators", type=int, default=0, metavar="N", help="show the N tasks that take longest")
    arguments.add_argument("--growth", type=int, default=0, metavar="N", help="decode N tokens and show the growth")
    arguments.add_argument("--concat", action="store_true", help="caches that grow by Concat")
    options = arguments.parse_args()
    if options.concat:
        concat(options)
        return
    if options.growth:
        growth(options)
        return
    import onnx

    model = decoder_model(options.layers, options.width, options.heads, vocabulary=_VOCABULARY)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decoder.onnx"
        onnx.save(model, str(path), save_as_external_data=True, location="decoder.weights")
        del model
        compare(options, path)


if __name__ == "__main__":
    main()
