# SPDX-License-Identifier: Apache-2.0
"""For users' own tests: faults that are injected into real runs."""
