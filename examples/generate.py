# SPDX-License-Identifier: Apache-2.0
"""Text, character by character, by a small language model whose cache of keys and values stays on the device.

The model is a decoder with random weights; only its last matrix is trained, by least squares, to predict the next
letter of a rhyme from the hidden states.
"""

import time

import numpy as np

import syclsched
from syclsched.testing.decoder_model import decoder_model

TEXT = (
    "Peter Piper picked a peck of pickled peppers. A peck of pickled peppers Peter Piper picked. "
    "If Peter Piper picked a peck of pickled peppers, where is the peck of pickled peppers Peter Piper picked? "
)
LETTERS = sorted(set(TEXT))
IDS = np.array([LETTERS.index(each) for each in TEXT])
ROOM, WIDTH = 256, 256  # tokens in the cache, and numbers in a hidden state


def compiled(head):
    """Compile the decoder with a last matrix; its caches `present*` are the next call's `past*`."""
    model = decoder_model(2, WIDTH, 8, vocabulary=len(LETTERS), positions=ROOM, head=head)
    shapes = {"batch": 1, "past_sequence_length": ROOM}
    return syclsched.compile(model, devices="cpu", shapes=shapes, carried=True, autotune=False)


def logits(model, ids, length):
    """Return the last matrix's results for new tokens of a sequence, with the sequence's new length."""
    ids, lengths = np.asarray(ids, np.int64).reshape(1, -1), np.array([length - 1], np.int32)
    return model(input_ids=ids, seqlens_k=lengths, total_sequence_length=np.array(length, np.int32))["logits"][0]


def sample(scores, random, temperature=0.3, top=5):
    """Choose one of the likeliest tokens."""
    best = np.argsort(scores)[-top:]
    weights = np.exp((scores[best] - scores[best].max()) / temperature)
    return int(random.choice(best, p=weights / weights.sum()))


with compiled(np.eye(WIDTH)) as states:
    hidden = logits(states, IDS[:-1], len(IDS) - 1)
following = np.eye(len(LETTERS))[IDS[1:]]
head = np.linalg.solve(hidden.T @ hidden + 0.1 * np.eye(WIDTH), hidden.T @ following)

random, prompt, count = np.random.default_rng(0), "Peter Piper p", 120
with compiled(head * 4) as model:
    written = [LETTERS.index(each) for each in prompt]
    scores = logits(model, written, len(written))[-1]  # the prompt in one call
    for number in range(count + 1):
        if number == 1:  # the first token's plan is made
            begun = time.perf_counter()
        written.append(sample(scores, random))
        scores = logits(model, written[-1:], len(written))[-1]  # one token; the cache has the others
    seconds, plans = time.perf_counter() - begun, len(model.kept_shapes)
print("".join(LETTERS[each] for each in written))
print(f"{count / seconds:.0f} tokens a second; plans: {plans}, of the prompt and of one token")
