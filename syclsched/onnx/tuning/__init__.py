# SPDX-License-Identifier: Apache-2.0
"""Choice of implementations for models by timed runs. Internal."""
