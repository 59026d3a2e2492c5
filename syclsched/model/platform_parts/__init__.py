# SPDX-License-Identifier: Apache-2.0
"""Parts of a platform: names on several machines, links by their ends, routes as arrays. Internal."""
