# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: RNN, GRU and LSTM over all steps of a sequence in one task. Internal."""
