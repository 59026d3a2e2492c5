# SPDX-License-Identifier: Apache-2.0
"""The ground floor: graph, platform, profile, schedule, plan and trace as frozen data; no SYCL, no I/O."""
