# SPDX-License-Identifier: Apache-2.0
"""Memory of a plan: liveness, footprint, in-place use, USM kinds. Internal."""
