"""`kiln serve`, called with a third-party client: tritonclient, over HTTP and gRPC."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

MODEL = """graph @scaled(%x: f32[N, 3], %n: i64[N]) -> (f32[N, 3], i64[N]) {
  %y = relu %x
  %m = add %n, %n
  return "y" = %y, "m" = %m
}"""

HALVES = """graph @halves(%x: f16[N], %t: bool[N]) -> (f16[N], bool[N]) {
  %y = neg %x
  %u = not %t
  return "y" = %y, "u" = %u
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The HTTP and gRPC addresses of a server, which must exit by itself when asked to."""
    repository = tmp_path_factory.mktemp("models")
    for name, text in (("scaled", MODEL), ("halves", HALVES)):
        version = repository / name / "1"
        version.mkdir(parents=True)
        (version / "model.kiln").write_text(text)
    (repository / "scaled" / "config.json").write_text(
        '{"batching": {"enabled": true, "max_batch": 64, "max_delay_ms": 20}}'
    )
    (repository / "broken" / "1").mkdir(parents=True)
    (repository / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    command = [os.environ["KILN"], "serve", str(repository), "--device", "interpreter", "--cache", "off"]
    process = subprocess.Popen(
        [*command, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    http, grpc = (process.stdout.readline().split()[1] for _ in range(2))
    yield http, grpc
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0


@pytest.fixture(params=["http", "grpc"])
def client(request, server):
    """The client's module for a protocol, and a client of that protocol, once the server is ready."""
    module = {"http": tritonclient.http, "grpc": tritonclient.grpc}[request.param]
    address = server[0 if request.param == "http" else 1]
    options = {"concurrency": 16} if request.param == "http" else {}
    client = module.InferenceServerClient(address, **options)
    while not client.is_server_ready():
        pass
    yield module, client
    client.close()


def as_dict(module, answer):
    """The responses of both protocols, as dictionaries."""
    if module is tritonclient.grpc:
        from google.protobuf import json_format

        return json_format.MessageToDict(answer, preserving_proto_field_name=True)
    return answer


def scaled(module, x, n, **options):
    """The inputs of a request."""
    inputs = [
        module.InferInput("x", list(x.shape), "FP32"),
        module.InferInput("n", list(n.shape), "INT64"),
    ]
    inputs[0].set_data_from_numpy(x, **options)
    inputs[1].set_data_from_numpy(n, **options)
    return inputs


def test_health_and_metadata(client):
    module, client = client
    assert client.is_server_live()
    assert client.is_model_ready("scaled")
    assert client.is_model_ready("scaled", "1")
    assert not client.is_model_ready("broken")
    server = as_dict(module, client.get_server_metadata())
    assert server["name"] == "kiln"
    assert "binary_tensor_data" in server["extensions"]
    model = as_dict(module, client.get_model_metadata("scaled"))
    assert model["platform"] == "kiln"
    assert [int(size) for size in model["inputs"][0]["shape"]] == [-1, 3]
    assert [tensor["datatype"] for tensor in model["outputs"]] == ["FP32", "INT64"]
    config = as_dict(module, client.get_model_config("scaled"))
    config = config.get("config", config)
    assert config["input"][1]["data_type"] == "TYPE_INT64"


def test_inference(client):
    module, client = client
    x = np.array([[1, -2, 3], [-4, 5, 6.5]], np.float32)
    n = np.array([7, -8], np.int64)
    result = client.infer("scaled", scaled(module, x, n), request_id="seven")
    np.testing.assert_array_equal(result.as_numpy("y"), np.maximum(x, 0))
    np.testing.assert_array_equal(result.as_numpy("m"), 2 * n)
    response = as_dict(module, result.get_response())
    assert (response["id"], response["model_version"]) == ("seven", "1")
    outputs = [module.InferRequestedOutput("m")]
    result = client.infer("scaled", scaled(module, x, n), outputs=outputs, model_version="1")
    np.testing.assert_array_equal(result.as_numpy("m"), 2 * n)
    assert result.as_numpy("y") is None


def test_inference_with_json_and_compression(server):
    module = tritonclient.http
    with module.InferenceServerClient(server[0]) as client:
        x, n = np.ones((1, 3), np.float32), np.array([3], np.int64)
        outputs = [module.InferRequestedOutput(name, binary_data=False) for name in ("y", "m")]
        for algorithm in (None, "gzip", "deflate"):
            result = client.infer(
                "scaled",
                scaled(module, x, n, binary_data=False),
                outputs=outputs,
                request_compression_algorithm=algorithm,
                response_compression_algorithm=algorithm,
            )
            np.testing.assert_array_equal(result.as_numpy("y"), x)
            np.testing.assert_array_equal(result.as_numpy("m"), [6])


def test_halves_and_truth_values(client):
    module, client = client
    x, t = np.array([1.5, -2], np.float16), np.array([True, False])
    inputs = [module.InferInput("x", [2], "FP16"), module.InferInput("t", [2], "BOOL")]
    inputs[0].set_data_from_numpy(x)
    inputs[1].set_data_from_numpy(t)
    result = client.infer("halves", inputs)
    np.testing.assert_array_equal(result.as_numpy("y"), -x)
    np.testing.assert_array_equal(result.as_numpy("u"), ~t)


def test_requests_of_many_lengths_at_once(server):
    module = tritonclient.grpc
    random = np.random.default_rng(7)
    with module.InferenceServerClient(server[1]) as client, ThreadPoolExecutor(16) as pool:

        def ask(rows):
            x = random_rows[rows]
            n = np.full(rows, rows, np.int64)
            result = client.infer("scaled", scaled(module, x, n))
            np.testing.assert_array_equal(result.as_numpy("y"), np.maximum(x, 0))
            np.testing.assert_array_equal(result.as_numpy("m"), 2 * n)

        random_rows = {rows: random.standard_normal((rows, 3)).astype(np.float32) for rows in range(1, 9)}
        before = statistics(module, client)
        list(pool.map(ask, [1 + index % 8 for index in range(64)]))
        after = statistics(module, client)
        assert after["success"] - before["success"] == 64
        assert after["executions"] - before["executions"] < 64


def statistics(module, client):
    """The model's counters."""
    (model,) = as_dict(module, client.get_inference_statistics("scaled"))["model_stats"]
    success = int(model["inference_stats"]["success"].get("count", 0))
    return {"success": success, "executions": int(model.get("execution_count", 0))}


def test_statistics(client):
    module, client = client
    before = statistics(module, client)
    x, n = np.ones((1, 3), np.float32), np.array([3], np.int64)
    client.infer("scaled", scaled(module, x, n))
    assert statistics(module, client)["success"] == before["success"] + 1


def test_repository(client):
    module, client = client
    index = as_dict(module, client.get_model_repository_index())
    index = index["models"] if isinstance(index, dict) else index
    states = {model["name"]: model["state"] for model in index}
    assert states == {"scaled": "READY", "halves": "READY", "broken": "UNAVAILABLE"}
    client.unload_model("halves")
    assert not client.is_model_ready("halves")
    client.load_model("halves")
    assert client.is_model_ready("halves")
    with pytest.raises(InferenceServerException, match=r"\[E1520\].*model\.onnx"):
        client.load_model("broken")
    with pytest.raises(InferenceServerException, match="E1503"):
        client.load_model("nothing")
    with pytest.raises(InferenceServerException, match="E1512"):
        client.load_model("halves", config="{}")


def test_errors_have_codes(client):
    module, client = client
    x, n = np.ones((1, 3), np.float32), np.array([3], np.int64)
    with pytest.raises(InferenceServerException, match="E1503"):
        client.infer("nothing", scaled(module, x, n))
    with pytest.raises(InferenceServerException, match="E1502"):
        client.infer("scaled", scaled(module, x, n)[:1])
    with pytest.raises(InferenceServerException, match="E0"):
        client.infer("scaled", scaled(module, np.ones((1, 4), np.float32), n))
    with pytest.raises(InferenceServerException, match="E1512"):
        client.infer("scaled", scaled(module, x, n), sequence_id=3, sequence_start=True)
