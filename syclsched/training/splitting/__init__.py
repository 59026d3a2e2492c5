# SPDX-License-Identifier: Apache-2.0
"""Internal. Division of training steps among devices: by samples, by layers, or not at all."""
