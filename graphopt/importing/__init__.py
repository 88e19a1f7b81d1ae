"""Saved models of any format in one call."""

from graphopt.importing.model import ImportedModel as ImportedModel
from graphopt.importing.model import import_model as import_model
