# SPDX-License-Identifier: Apache-2.0
"""Internal. Batches of training data: conversion, loading ahead of the computation, and copies to devices."""
