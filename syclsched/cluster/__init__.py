# SPDX-License-Identifier: Apache-2.0
"""Runs of one graph on several machines, whose membership and network are Dask's."""
