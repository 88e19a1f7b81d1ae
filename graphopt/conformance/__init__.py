"""Measures graphopt against numbers recorded from real Paddle (`python -m graphopt.conformance`).

A folder of cases holds `cases.jsonl`, one case per line, and the arrays that they refer to, in
`SECTION.npz` files. `cases.py` reads them, `tensors.py` and `trainings.py` run the kinds of cases,
`compare.py` says what differs, `table.py` counts by section and tier.
"""
