"""Initializers of parameters. Scripts use these as `paddle.nn.initializer`.

They are outside `nn` because the layer helper, which all of `nn` imports, needs them.
"""
