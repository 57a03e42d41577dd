import sys, time


def main():
    model, threads, files = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    for module in ("numpy", "onnxruntime"):
        try:
            __import__(module)
        except ImportError:
            print(f"missing {module}", flush=True)
            return
    import numpy
    import onnxruntime

    try:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        feeds = {}
        for entry in files:
            name, file = entry.rsplit("=", 1)
            feeds[name] = numpy.load(file)
        session.run(None, feeds)
    except Exception as error:
        print("failed " + " ".join(str(error).split()), flush=True)
        return
    print(f"ok onnxruntime {onnxruntime.__version__}", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        session.run(None, feeds)
        print(f"ok {time.perf_counter() - start}", flush=True)


main()
