# SPDX-License-Identifier: Apache-2.0
"""Messages of array data between the processes of a cluster. Internal."""
