"""Compares modules compiled by Kiln, modules compiled by inductor, and eager mode: `side_by_side.py [WORD…]`.

The modules are those of the backend's tests. Each is called once, which compiles it, then at another size, then
repeatedly, in interleaved rounds. Prints a line per module, and one with the geometric means. Sizes are symbols for
both compilers, and the caches of both are empty.
"""

import math
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "crates/python/tests/torch_backend"))

import torch  # noqa: E402
import torch._inductor.config  # noqa: E402

import kiln.torch  # noqa: E402
from modules import MODULES  # noqa: E402

#: The batch size, and the length or the side of a picture: for the first call, then for all others.
FIRST, OTHER = (6, 48), (16, 64)
ROUNDS, SECONDS = 5, 0.1


def seconds(function, given):
    begin = time.perf_counter()
    function(*given)
    return time.perf_counter() - begin


def median(function, given):
    """The median time of repeated calls."""
    times, end = [], time.perf_counter() + SECONDS
    while len(times) < 5 or time.perf_counter() < end:
        times.append(seconds(function, given))
    return sorted(times)[len(times) // 2]


def measure(make, inputs):
    """The times to compile and per call, by engine."""
    torch._dynamo.reset()
    torch.manual_seed(7)
    module = make().eval()
    compiled = {
        "inductor": torch.compile(module, dynamic=True),
        "kiln": torch.compile(module, backend=kiln.torch.backend, dynamic=True, options={"cache": False}),
    }
    first, calls = {}, {"eager": []}
    given = inputs(*FIRST)
    warm = seconds(module, given)
    for name, function in compiled.items():
        first[name] = seconds(function, given) - warm
    given = inputs(*OTHER)
    functions = {"eager": module, **compiled}
    for function in functions.values():
        function(*given)
    for _ in range(ROUNDS):
        for name, function in functions.items():
            calls.setdefault(name, []).append(median(function, given))
    return first, {name: sorted(times)[ROUNDS // 2] for name, times in calls.items()}


def geometric_mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def main(words):
    torch._inductor.config.force_disable_caches = True
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    names = [name for name in MODULES if not words or any(word in name for word in words)]
    compiles, over_inductor, over_eager = [], [], []
    print(f"{'module':24} {'compile, ms':>22} {'a call, ms':>32}   kiln / inductor, eager")
    print(f"{'':24} {'inductor':>11}{'kiln':>11} {'eager':>11}{'inductor':>11}{'kiln':>10}")
    with torch.no_grad():
        for name in names:
            make, inputs, _ = MODULES[name]
            kiln.torch.reset()
            first, calls = measure(make, inputs)
            compiles.append(first["kiln"] / first["inductor"])
            over_inductor.append(calls["kiln"] / calls["inductor"])
            over_eager.append(calls["kiln"] / calls["eager"])
            times = "".join(f"{1e3 * calls[engine]:11.3f}" for engine in ("eager", "inductor", "kiln"))
            print(
                f"{name:24} {1e3 * first['inductor']:11.0f}{1e3 * first['kiln']:11.0f} {times}"
                f"   {over_inductor[-1]:.2f}  {over_eager[-1]:.2f}",
                flush=True,
            )
    print(
        f"{len(names)} modules: kiln/inductor, compile {geometric_mean(compiles):.2f} (worst {max(compiles):.2f}), "
        f"call {geometric_mean(over_inductor):.2f} (worst {max(over_inductor):.2f}); "
        f"kiln/eager {geometric_mean(over_eager):.2f} (worst {max(over_eager):.2f})"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
