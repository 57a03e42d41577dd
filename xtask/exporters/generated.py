"""Generated models, determined by the seed."""

import numpy as np

import habits
from families import FAMILIES

SHAPES = 8
OPSETS = (11, 13, 17, 18, 20, 21)


class Case:
    """A model, its calls, and the tolerance of each quantised result."""

    def __init__(self, name, family, model, calls, steps):
        self.name, self.family, self.model, self.calls, self.steps = name, family, model, calls, steps


def generate(seed):
    """The model for a seed, with its calls."""
    rng = np.random.default_rng(seed)
    family = FAMILIES[seed % len(FAMILIES)]
    graph, call = family(rng, int(rng.choice(OPSETS)))
    calls = [call(rng) for _ in range(SHAPES)]
    model = graph.model()
    written = habits.apply(rng, model)
    name = "_".join([family.__name__, *written, str(seed)])
    return Case(name, family.__name__, model, calls, graph.steps)


def cases(count, seed):
    return ((f"seed {number}", lambda number=number: generate(number)) for number in range(seed, seed + count))
