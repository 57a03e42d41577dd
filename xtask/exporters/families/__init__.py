"""Families of models, each imitating what an exporter writes. A family gives a graph and a function from a random
generator to the inputs of one call."""

from . import decoder, detector, language, paddle, quantised, sklearn, tensorflow, torch_script, vision

MODULES = [torch_script, decoder, vision, tensorflow, paddle, detector, quantised, sklearn, language]
FAMILIES = [family for module in MODULES for family in module.FAMILIES]
