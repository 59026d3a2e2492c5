# SPDX-License-Identifier: Apache-2.0
"""Monitoring of this process's runs: samples of their progress, written to the process's status file. Internal."""
