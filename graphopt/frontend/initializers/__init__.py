"""First values of parameters. Scripts use these as `paddle.nn.initializer`.

They live outside `nn` because the layer helper, which everything in `nn` imports, needs them.
"""
