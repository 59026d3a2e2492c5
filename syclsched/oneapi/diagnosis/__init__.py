# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of an installation: facts about it, and the findings that rules derive from them. Internal."""
