"""`kiln serve` compared with onnxruntime behind the same protocol, with clients that send mixed shapes.

Usage: side_by_side.py KILN MODELS WORK [rounds=N] [requests=N]

KILN is the command, MODELS the folder of example models, WORK a folder for files. Eight clients each send a request,
wait for the response, and send the next. Every server gets the same random sequence of shapes, in interleaved rounds
whose order of servers alternates. onnxruntime is served with one thread per call and with all threads; the comparison
uses the one with more throughput. The load is bounded (ROUNDS x REQUESTS), and goes to loopback only.

The last line has the ratios for the worse model, the bar, and whether it is met.
"""

import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

CLIENTS = 8
WARM_UP = 2
TIMEOUT = 60
BAR = 1.5
METHOD = "/inference.GRPCInferenceService/ModelInfer"
HERE = pathlib.Path(__file__).parent
rng = np.random.default_rng(7)


def recogniser(shape):
    """A picture of text with a given width."""
    return {"x": rng.standard_normal(shape).astype(np.float32)}


def sentence(shape):
    """Token ids, and a mask without padding."""
    ids = rng.integers(1000, 30000, shape).astype(np.int64)
    return {"ids": ids, "mask": np.ones(shape, np.int64)}


# Each model with the shapes of its requests: one picture of a text line of any width, one sentence of any length.
MODELS = {
    "ocr-rec": (recogniser, [(1, 3, 48, width) for width in (96, 128, 160, 192, 224, 256, 320, 384, 448, 512)]),
    "minilm": (sentence, [(1, length) for length in (6, 9, 13, 17, 24, 31, 40, 52, 67, 90)]),
}


def message(model, arrays):
    """A serialised request."""
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, array in arrays.items():
        datatype = {np.dtype(np.float32): "FP32", np.dtype(np.int64): "INT64"}[array.dtype]
        request.inputs.add(name=name, datatype=datatype, shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    return request.SerializeToString()


def outputs(answer):
    """The arrays in a serialised response, by name."""
    response = service_pb2.ModelInferResponse.FromString(answer)
    pairs = zip(response.outputs, response.raw_output_contents)
    return {tensor.name: np.frombuffer(raw, np.float32).reshape(list(tensor.shape)) for tensor, raw in pairs}


class Server:
    """A server process, and a client that sends it serialised requests."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            kind, address = line.split()
            if kind == "grpc":
                break
        else:
            sys.exit(f"{name} did not start")
        if not address.startswith("127.0.0.1:"):
            sys.exit(f"expected an address on loopback, found {address}")
        options = [("grpc.max_receive_message_length", 1 << 26), ("grpc.max_send_message_length", 1 << 26)]
        self.channel = grpc.insecure_channel(address, options)
        self.call = self.channel.unary_unary(METHOD)

    def ask(self, request):
        """The response to a request, and the time in seconds."""
        begin = time.perf_counter()
        answer = self.call(request, timeout=TIMEOUT, wait_for_ready=True)
        return answer, time.perf_counter() - begin

    def ready(self, model, request):
        """Waits until the model is loaded."""
        for _ in range(600):
            try:
                return self.ask(request)
            except grpc.RpcError as error:
                if "E1504" not in (error.details() or ""):
                    raise
                time.sleep(0.1)
        sys.exit(f"{self.name}: {model} is not ready after a minute")

    def round(self, requests):
        """Requests per second, and the time of each request, with all clients busy."""
        begin = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as clients:
            times = list(clients.map(lambda request: self.ask(request)[1], requests))
        return len(requests) / (time.perf_counter() - begin), times

    def stop(self):
        self.channel.close()
        self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def compare(servers, model, rounds, count):
    """Measures a model on all servers; returns the ratios of throughput and p99 to those of the best peer."""
    make, shapes = MODELS[model]
    requests = [message(model, make(shape)) for shape in shapes]
    for server in servers:
        server.ready(model, requests[0])
    worst = check(servers, requests)
    order = random.Random(7)
    for _ in range(WARM_UP):
        for server in servers:
            server.round([order.choice(requests) for _ in range(count)])
    rates, times = {server.name: [] for server in servers}, {server.name: [] for server in servers}
    for number in range(rounds):
        sequence = [order.choice(requests) for _ in range(count)]
        for server in servers if number % 2 == 0 else reversed(servers):
            rate, took = server.round(sequence)
            rates[server.name].append(rate)
            times[server.name] += took
    for server in servers:
        p50, p99 = quantile(times[server.name], 0.5), quantile(times[server.name], 0.99)
        rate = statistics.median(rates[server.name])
        print(f"{model:<8} {server.name:<28} {rate:8.1f} requests/s   p50 {p50 * 1e3:7.1f} ms   p99 {p99 * 1e3:7.1f} ms")
    peer = max(servers[1:], key=lambda server: statistics.median(rates[server.name])).name
    kiln = servers[0].name
    throughput = statistics.median(ours / theirs for ours, theirs in zip(rates[kiln], rates[peer]))
    ratio = {share: quantile(times[kiln], share) / quantile(times[peer], share) for share in (0.5, 0.99)}
    print(f"{model:<8} against {peer}: throughput {throughput:.2f}x, p50 {ratio[0.5]:.2f}x, p99 {ratio[0.99]:.2f}x, "
          f"largest difference of an output {worst:.1e}", flush=True)
    return throughput, ratio[0.99]


def check(servers, requests):
    """The largest difference between two servers' responses, relative to the largest value; exits if they disagree."""
    worst = 0
    for request in requests:
        ours, theirs = (outputs(server.ask(request)[0]) for server in servers[:2])
        for name, array in theirs.items():
            difference = np.abs(ours[name] - array).max() / np.abs(array).max()
            worst = max(worst, float(difference))
    if not worst < 1e-3:
        sys.exit(f"the servers disagree by {worst:.1e}")
    return worst


def quantile(values, share):
    """The quantile: the value that this share of all values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main():
    kiln, models, work = (pathlib.Path(word) for word in sys.argv[1:4])
    words = dict(word.split("=") for word in sys.argv[4:])
    rounds, count = min(int(words.get("rounds", 7)), 100), min(int(words.get("requests", 160)), 10_000)
    shutil.rmtree(work, ignore_errors=True)
    for model in MODELS:
        (work / model).mkdir(parents=True)
        (work / model / "1").symlink_to((models / model).resolve())
    serve = [kiln, "serve", work, "--device", "cpu", "--http", "off", "--grpc", "127.0.0.1:0"]
    peer = [sys.executable, HERE / "ort_server.py", work]
    cores = len(os.sched_getaffinity(0))
    servers = []
    try:
        servers.append(Server("kiln serve", serve))
        for threads in sorted({1, cores}):
            servers.append(Server(f"onnxruntime, {threads} thread(s) a call", [*peer, str(threads)]))
        found = [compare(servers, model, rounds, count) for model in MODELS]
    finally:
        for server in servers:
            server.stop()
    throughput, p99 = min(found)[0], max(p99 for _, p99 in found)
    is_met = throughput >= BAR and p99 <= 1
    print(f"serving: throughput {throughput:.2f}x and p99 {p99:.2f}x of onnxruntime's, for the worse model of each   "
          f"bar: at least {BAR}x, p99 at most 1x   {'met' if is_met else 'MISSED'}")


main()
