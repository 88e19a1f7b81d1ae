"""Nodes of ONNX as `pd` ops: a rule for each operator, in `ops`, one file for each family.

It is `models/export/onnx` read backwards.
"""
