# SPDX-License-Identifier: Apache-2.0
"""Internal. Training steps as networks: forward pass, loss, gradients and updates."""
