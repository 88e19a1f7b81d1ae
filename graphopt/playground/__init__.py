"""The page of `graphopt serve`: drop or type a program, and it draws the report of its passes.

`server.py` answers a browser on this machine, `work.py` does the work in a process of its own with
limits, since the file may come from a stranger. The graph is the page of `graphopt report`.
"""
