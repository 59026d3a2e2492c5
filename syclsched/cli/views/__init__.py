# SPDX-License-Identifier: Apache-2.0
"""Tables, charts and sentences that commands print. Internal."""
