# SPDX-License-Identifier: Apache-2.0
"""Device profiles shipped as data; read them with `syclsched.profiling.load_profile`."""
