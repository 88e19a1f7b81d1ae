"""Comparison of graphopt with numbers recorded from Paddle (`python -m graphopt.conformance`).

A folder of cases holds `cases.jsonl`, one case per line, and the arrays that they refer to, in
`SECTION.npz` files. `cases.py` reads them, `tensors.py` and `trainings.py` run the kinds of cases,
`compare.py` reports differences, `table.py` counts by section and tier.
"""
