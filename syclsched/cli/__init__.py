# SPDX-License-Identifier: Apache-2.0
"""The command line, based on typer and rich. Internal."""
