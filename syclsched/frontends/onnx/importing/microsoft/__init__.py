# SPDX-License-Identifier: Apache-2.0
"""Importers of the com.microsoft operators, which ONNX Runtime's optimiser and quantiser emit. Internal."""
