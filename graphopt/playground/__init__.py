"""The page of `graphopt serve`: a program is dropped or typed, and the report of its passes drawn.

`server.py` answers a browser on this machine, `work.py` does the work in a process of its own with
limits, as a file of a stranger needs. The graph is the page of `graphopt report`.
"""
