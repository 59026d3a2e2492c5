# SPDX-License-Identifier: Apache-2.0
"""Graph, platform, profile, schedule, plan and trace as frozen data; no SYCL, no I/O."""
