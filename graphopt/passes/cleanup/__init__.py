"""Passes that remove or fold ops on any platform."""
