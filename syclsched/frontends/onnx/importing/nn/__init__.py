# SPDX-License-Identifier: Apache-2.0
"""Importers of neural-network operators. Internal."""
