"""The table of passes (which flag runs which pass, when and why) and the manager that runs it."""
