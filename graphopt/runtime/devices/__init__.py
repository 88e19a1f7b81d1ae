"""Devices: places, the kind of machine, the directory of its compiled code."""
