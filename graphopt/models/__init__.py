"""Saved models of any format in one call."""

import graphopt.tensor as _methods  # noqa: F401  (programs and variables get their methods)
from graphopt.models.model import ImportedModel as ImportedModel
from graphopt.models.model import import_model as import_model
