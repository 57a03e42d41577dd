"""Writes the test cases of the pinned `onnx` package as folders, with one line of JSON per case.

    generate.py OUT

A case is OUT/SET/NAME: `model.onnx` and `test_data_set_N/{input,output}_M.pb`, in the layout of the package's own
tools, except that each file contains one tensor: a sequence is a folder `input_M` of its entries, and an empty optional
is an empty file `input_M.none`. OUT/cases.jsonl has each case's set, name, operator, domain, tolerances, and whether it
is the `_expanded` copy of another: the same operator, expanded to the nodes of its function body.
"""

import json
import os
import re
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import OptionalProto, SequenceProto, TensorProto, numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests

SETS = ("simple", "pytorch-operator", "pytorch-converted")
EXPANDED = re.compile(r"_expanded(_ver\d+)?$")


def write(path, message):
    with open(path, "wb") as file:
        file.write(message.SerializeToString())


def write_value(path, value, name):
    """Writes a test value: a tensor, a list of tensors for a sequence, or None."""
    if value is None:
        open(f"{path}.none", "wb").close()
    elif isinstance(value, list):
        os.makedirs(path)
        for index, entry in enumerate(value):
            write_value(os.path.join(path, str(index)), entry, name)
    elif isinstance(value, TensorProto):
        write(f"{path}.pb", value)
    elif not isinstance(value, dict):
        write(f"{path}.pb", numpy_helper.from_array(np.asarray(value), name))


def unpack_values(folder, graph):
    """Rewrites test values other than tensors, stored as one message each, in the form of `write_value`."""
    for data in os.listdir(folder):
        if not data.startswith("test_data_set_"):
            continue
        for what, infos in (("input", graph.input), ("output", graph.output)):
            for index, info in enumerate(infos):
                path = os.path.join(folder, data, f"{what}_{index}")
                readers = {
                    "sequence_type": (SequenceProto, numpy_helper.to_list),
                    "optional_type": (OptionalProto, numpy_helper.to_optional),
                }
                kind = info.type.WhichOneof("value")
                if kind in readers and os.path.exists(f"{path}.pb"):
                    message, read = readers[kind]
                    with open(f"{path}.pb", "rb") as file:
                        value = read(message.FromString(file.read()))
                    os.remove(f"{path}.pb")
                    write_value(path, value, info.name)


def write_case(folder, case):
    write(os.path.join(folder, "model.onnx"), case.model)
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data = os.path.join(folder, f"test_data_set_{number}")
        os.makedirs(data)
        graph = case.model.graph
        for index, (value, info) in enumerate(zip(inputs, graph.input)):
            write_value(os.path.join(data, f"input_{index}"), value, info.name)
        for index, (value, info) in enumerate(zip(outputs, graph.output)):
            write_value(os.path.join(data, f"output_{index}"), value, info.name)


def domain_of(domain):
    return domain or "ai.onnx"


def operator(model):
    """The operator that a case tests: that of its first node which is not a helper."""
    helpers = {"Constant", "Cast", "Identity", "SequenceConstruct"}
    nodes = [node for node in model.graph.node if node.op_type not in helpers] or list(model.graph.node)
    node = nodes[0]
    return domain_of(node.domain), node.op_type


def main(out):
    warnings.simplefilter("ignore")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    lines = []
    nodes = load_model_tests(kind="node")
    tested = {case.name: operator(case.model) for case in nodes}
    for case in nodes:
        folder = os.path.join(out, "node", case.name)
        os.makedirs(folder)
        write_case(folder, case)
        base = EXPANDED.sub("", case.name)
        domain, op = tested.get(base, tested[case.name])
        lines.append(
            {"set": "node", "name": case.name, "op": op, "domain": domain, "expanded": base != case.name,
             "rtol": case.rtol, "atol": case.atol}
        )
    for kind in SETS:
        for case in load_model_tests(kind=kind):
            folder = os.path.join(out, kind, case.name)
            shutil.copytree(os.path.join(DATA_DIR, kind, case.name), folder)
            model = onnx.load(os.path.join(folder, "model.onnx"))
            unpack_values(folder, model.graph)
            domain, op = operator(model)
            lines.append(
                {"set": kind, "name": case.name, "op": op, "domain": domain, "expanded": False,
                 "rtol": case.rtol, "atol": case.atol}
            )
    lines.sort(key=lambda line: (line["set"], line["name"]))
    with open(os.path.join(out, "cases.jsonl"), "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
    print(f"{len(lines)} cases, {sum(line['set'] == 'node' for line in lines)} of them node tests")


if __name__ == "__main__":
    main(sys.argv[1])
