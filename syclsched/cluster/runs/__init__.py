# SPDX-License-Identifier: Apache-2.0
"""Runs of bound plans on several machines: their handles, their attempts and their streams. Internal."""
