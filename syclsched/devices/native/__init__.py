# SPDX-License-Identifier: Apache-2.0
"""The C parts of submission, and native OpenCL objects, events and wake-ups. Internal."""
