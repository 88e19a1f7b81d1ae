"""Devices: places, the kind of machine, the folder of its compiled code."""
