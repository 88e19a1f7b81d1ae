"""Functions of Python as a trace calls them: control flow that may depend on tensors is calls."""
