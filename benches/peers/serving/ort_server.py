"""onnxruntime behind the Open Inference Protocol over gRPC: the server that `kiln serve` is compared with.

Usage: ort_server.py MODELS THREADS

MODELS has a folder for each model, with 1/model.onnx. THREADS is the number of threads per call; calls run
concurrently, up to the number of handlers. Listens on loopback, prints `grpc ADDRESS` once all models are loaded, and
serves until standard input is closed.
"""

import pathlib
import sys
from concurrent import futures

import grpc
import numpy as np
import onnxruntime as ort
from tritonclient.grpc import service_pb2, service_pb2_grpc

HANDLERS = 8
DTYPES = {"FP32": np.float32, "INT64": np.int64}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


class Server(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Handles ModelInfer requests with raw contents."""

    def __init__(self, models, threads):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self.sessions = {
            folder.name: ort.InferenceSession(folder / "1" / "model.onnx", options, providers=["CPUExecutionProvider"])
            for folder in sorted(pathlib.Path(models).iterdir())
        }
        self.outputs = {name: [output.name for output in session.get_outputs()] for name, session in self.sessions.items()}

    def ModelInfer(self, request, context):
        inputs = {
            tensor.name: np.frombuffer(raw, DTYPES[tensor.datatype]).reshape(list(tensor.shape))
            for tensor, raw in zip(request.inputs, request.raw_input_contents)
        }
        names = self.outputs[request.model_name]
        response = service_pb2.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
        for name, array in zip(names, self.sessions[request.model_name].run(names, inputs)):
            response.outputs.add(name=name, datatype=NAMES[array.dtype], shape=array.shape)
            response.raw_output_contents.append(array.tobytes())
        return response


def main():
    models, threads = sys.argv[1], int(sys.argv[2])
    options = [("grpc.max_receive_message_length", 1 << 26), ("grpc.max_send_message_length", 1 << 26)]
    server = grpc.server(futures.ThreadPoolExecutor(HANDLERS), options=options)
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Server(models, threads), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"grpc 127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(None)


main()
