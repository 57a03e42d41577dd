"""Training steps of Kiln and its peers in interleaved rounds, on one and two threads.

`python side_by_side.py TRAINING_STEPS [WORD]`: the first argument is Kiln's example `training_steps`, built in release
mode. Each program is confined to as many cores as it has threads. The last line has the geometric mean of the ratio of
Kiln's time to that of the fastest peer, and the worst such ratio.
"""

import importlib.util
import math
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
CASES = ("mlp", "cnn", "transformer", "lstm")
ROUNDS = 3


def programs(kiln, threads, case):
    """The command of each program."""
    python = [sys.executable]
    found = {"kiln": [kiln, str(threads), case]}
    if importlib.util.find_spec("jax"):
        found["jax"] = python + [str(HERE / "steps_jax.py"), case]
    if importlib.util.find_spec("torch"):
        found["torch"] = python + [str(HERE / "steps_torch.py"), case]
        found["torch.compile"] = python + [str(HERE / "steps_torch.py"), case, "compiled"]
    return found


def run(command, threads):
    """The times that a program printed, in ms: the median step, the first step, and the first at another batch size."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    done = subprocess.run(
        command, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cores)
    )
    if done.returncode != 0:
        print(f"{command} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    words = done.stdout.split()
    return tuple(float(words[words.index(name) + 1]) for name in ("median", "first", "another"))


def main():
    kiln, wanted = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    ratios = []
    print("threads  case          program          step ms    first ms  another size ms")
    for threads in (1, 2):
        for case in (case for case in CASES if wanted in case):
            best = {}
            for _ in range(ROUNDS):
                for name, command in programs(kiln, threads, case).items():
                    found = run(command, threads)
                    if found and (name not in best or found[0] < best[name][0]):
                        best[name] = found
            for name, (step, first, another) in best.items():
                print(f"{threads:7}  {case:12}  {name:14}  {step:9.3f}  {first:10.1f}  {another:10.1f}", flush=True)
            peers = [found[0] for name, found in best.items() if name != "kiln"]
            if "kiln" in best and peers:
                ratios.append(best["kiln"][0] / min(peers))
    if not ratios:
        sys.exit("nothing was compared")
    geomean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geomean kiln/fastest peer {geomean:.3f} worst {max(ratios):.3f}")


main()
