# SPDX-License-Identifier: Apache-2.0
"""Evaluator of plans: copies run on in-order lanes, as planning issues them, and delay each other. Internal."""
