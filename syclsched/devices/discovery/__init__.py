# SPDX-License-Identifier: Apache-2.0
"""Discovery of devices: facts, identity, selection, sub-devices, topology. Internal."""
