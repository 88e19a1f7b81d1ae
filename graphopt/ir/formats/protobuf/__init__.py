"""Paddle's `.pdmodel`: a ProgramDesc in the wire format of protocol buffers."""
