# SPDX-License-Identifier: Apache-2.0
"""oneDNN implementations on the project's SYCL queues: convolutions, matrix products, pooling and more.

This package is the only user of oneDNN's C API (3.5, the SYCL build, distribution ``onednn``). Bottom up:

- `library` finds and loads it, `c_api` has its constants, `status` turns statuses into errors;
- `tensors` and `post_ops` describe data and fused post-operations as hashable values; a `requests.Request` describes a
  whole primitive;
- `engines` has oneDNN engines and streams, `primitives` creates and caches primitives, `scratch` their scratchpads,
  `calls` binds primitives to arrays and submits them;
- one module per operation in `operations` maps a signature to a request: ``implementation(...)``.

Without the library, the `Requirements` of these implementations fail, and other implementations are chosen.

Internal.
"""
