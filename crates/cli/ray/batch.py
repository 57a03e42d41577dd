"""A batch job on Ray: many tasks on two workers that share nothing but a store of compiled code.

Usage: batch.py KILN WORK

KILN is the command, WORK a folder for files. Each task calls a model on a shard of inputs with different sizes, in its
own process and without a local cache. The first job compiles each kernel once, on the worker that needs it first; the
second, with new workers and with compilation forbidden, compiles nothing. Ray retries a task if the store is late.
Results are checked. Everything runs on one machine, on loopback only; on a cluster the store is a bucket, and nothing
else changes.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import ray

SHARDS = 12
WORKERS = 2
MODEL = """graph @batch(%x: f32[N, 16], %w: f32[16, 8]) -> f32[N, 8] {
  %h = matmul %x, %w
  %y = tanh %h
  return "y" = %y
}"""


@ray.remote(num_cpus=1, max_retries=5, retry_exceptions=True)
def run(kiln, work, shard, job, extra):
    """Calls the model on a shard; returns the process id, and the numbers of kernels compiled and found."""
    out = pathlib.Path(work, job, shard)
    command = [kiln, "bench", f"{work}/model.kiln", "--device", "cpu", "--once", "--json", "--cache", "off"]
    command += ["--cases", f"{work}/shards/{shard}", "--out", str(out)]
    command += ["--store", f"file://{work}/store", "--cache-key", f"{work}/key", *extra]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return os.getpid(), sum(line["compiles"] for line in lines), sum(line["disk_hits"] for line in lines)


def job(kiln, work, name, *extra):
    """Runs all shards with new workers; returns the total numbers of kernels compiled and found."""
    ray.init(
        num_cpus=WORKERS,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        object_store_memory=80 << 20,
        logging_level="ERROR",
        configure_logging=False,
    )
    try:
        shards = sorted(folder.name for folder in pathlib.Path(work, "shards").iterdir())
        done = ray.get([run.remote(kiln, work, shard, name, extra) for shard in shards])
    finally:
        ray.shutdown()
    workers = len({worker for worker, _, _ in done})
    compiles, found = (sum(line[column] for line in done) for column in (1, 2))
    print(f"{name} job: {len(done)} tasks on {workers} workers compiled {compiles} and loaded {found} kernels")
    check(work, name, shards)
    return compiles, found


def check(work, name, shards):
    """Compares every result with numpy's."""
    for shard in shards:
        for case in pathlib.Path(work, "shards", shard).iterdir():
            x, w = (np.load(case / f"{name}.npy") for name in ("x", "w"))
            found = np.load(pathlib.Path(work, name, shard, case.name, "y.npy"))
            np.testing.assert_allclose(found, np.tanh(x @ w), rtol=1e-4, atol=1e-5)


def prepare(work):
    """The model, the key, an empty store and the shards."""
    shutil.rmtree(work, ignore_errors=True)
    rng = np.random.default_rng(7)
    pathlib.Path(work, "store").mkdir(parents=True)
    pathlib.Path(work, "model.kiln").write_text(MODEL)
    key = pathlib.Path(work, "key")
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    for shard in range(SHARDS):
        for rows in rng.integers(1, 40, 3):
            case = pathlib.Path(work, "shards", f"{shard:03}", f"rows-{rows}")
            case.mkdir(parents=True, exist_ok=True)
            np.save(case / "x.npy", rng.standard_normal((rows, 16)).astype(np.float32))
            np.save(case / "w.npy", rng.standard_normal((16, 8)).astype(np.float32))


def main():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    kiln, work = (os.path.abspath(word) for word in sys.argv[1:3])
    prepare(work)
    first, _ = job(kiln, work, "first")
    second, found = job(kiln, work, "second", "--no-compile")
    kernels = len(list(pathlib.Path(work, "store").glob("kiln/*/kernel/*/*")))
    # If the store was late, a kernel may have been compiled twice.
    if not (first >= kernels > 0 and second == 0 and found > 0):
        sys.exit(f"expected at least {kernels} compiles in the first job and none in the second, found {first} and {second}")
    print(f"{kernels} kernels were stored once, for all workers")


main()
