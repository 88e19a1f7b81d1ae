"""Paddle's high-level interface: a network with its loops over data (paddle.hapi)."""

from graphopt.frontend.calls import publish
from graphopt.hapi import callbacks as callbacks
from graphopt.hapi import model as model
from graphopt.hapi.model import Model as Model

publish(globals(), __name__)
