# SPDX-License-Identifier: Apache-2.0
"""Self-contained HTML pages of plans, runs and comparisons, with zoomable charts by Bokeh. Internal."""
