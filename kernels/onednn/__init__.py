# SPDX-License-Identifier: Apache-2.0
"""oneDNN on the queues of this project: convolutions, products, pooling and the rest at the machine's limit.

The one place that knows oneDNN's C API (3.5, the SYCL build, distribution ``onednn``). From the ground up:

- `library` finds and loads it, `names` has its numbers, `status` turns its statuses into errors;
- `tensors` and `post_ops` describe data and what is fused behind a primitive, as hashable values; a `requests.Request`
  is a whole primitive described so;
- `engines` has oneDNN's engines and streams, `primitives` makes primitives of requests and keeps them, `scratch` what
  they need of memory, `calls` binds them to arrays and submits them;
- one module for each operation says, for its attributes, which request a signature becomes: ``implementation(...)``.

Where the library is absent every implementation here is refused by its `Requirements`, and others are taken.
"""
