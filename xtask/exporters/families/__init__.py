"""Families of models, each imitating the output of an exporter. A family returns a graph, and a function that makes the
inputs of one call from a random generator."""

from . import decoder, detector, language, paddle, quantised, sklearn, tensorflow, torch_script, vision

MODULES = [torch_script, decoder, vision, tensorflow, paddle, detector, quantised, sklearn, language]
FAMILIES = [family for module in MODULES for family in module.FAMILIES]
