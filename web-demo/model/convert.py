#!/usr/bin/env python3
"""Writes all-MiniLM-L6-v2 as ONNX (opset 17, f32) from its safetensors file.

    python3 convert.py model.safetensors model.onnx

Needs only Python 3.8: this script encodes the few ONNX messages that a graph needs, so the output does not depend
on the version of any package. The bytes are the same everywhere; a SHA-256 other than the one below is an error.
"""

import hashlib
import json
import os
import struct
import sys
from array import array

INPUT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
OUTPUT_SHA256 = "8ff0b085126379268c094403ef6a14c7ecd5b3836df8e1a203e866055f079252"

LAYERS, HIDDEN, HEADS, INNER = 6, 384, 12, 1536
EPSILON = 1e-12
# Added to the scores of padding, so that its share after softmax is 0 in f32.
MASKED = -10000.0
FLOAT, INT64 = 1, 7


def main(arguments):
    if len(arguments) != 2:
        sys.exit("usage: convert.py model.safetensors model.onnx")
    source, target = arguments
    with open(source, "rb") as file:
        weights = file.read()
    expect("the weights " + source, weights, INPUT_SHA256)
    model = convert(Weights(weights))
    expect("the converted model", model, OUTPUT_SHA256)
    # Renamed when complete, so that an interrupted conversion leaves no file that looks complete.
    incoming = target + ".incoming"
    with open(incoming, "wb") as file:
        file.write(model)
    os.replace(incoming, target)


def expect(what, data, wanted):
    found = hashlib.sha256(data).hexdigest()
    if found != wanted:
        sys.exit(f"{what}: SHA-256 is {found}, not {wanted}; remove the file and fetch it again")


class Weights:
    """A safetensors file: a header in JSON that says where each tensor is."""

    def __init__(self, data):
        length = struct.unpack_from("<Q", data)[0]
        self.header = json.loads(data[8 : 8 + length])
        self.body = memoryview(data)[8 + length :]

    def tensor(self, name, shape):
        entry = self.header[name]
        if entry["dtype"] != "F32" or entry["shape"] != list(shape):
            sys.exit(f"{name} is {entry['dtype']} {entry['shape']}, not F32 {list(shape)}")
        start, end = entry["data_offsets"]
        return self.body[start:end]

    def transposed(self, name, rows, columns):
        """Torch keeps a linear layer as [out, in], MatMul wants [in, out]."""
        words = array("I")
        assert words.itemsize == 4
        words.frombytes(self.tensor(name, (rows, columns)))
        turned = array("I")
        for column in range(columns):
            turned += words[column::columns]
        return turned.tobytes()


def convert(weights):
    graph = Graph()
    x = embeddings(graph, weights)
    mask = graph.node("Cast", ["attention_mask"], to=FLOAT)
    mask = graph.node("Sub", [graph.scalar("one", 1.0), mask])
    mask = graph.node("Mul", [mask, graph.scalar("masked", MASKED)])
    mask = graph.node("Unsqueeze", [mask, graph.integers("mask_axes", [1, 2])])
    for layer in range(LAYERS):
        x = block(graph, weights, f"encoder.layer.{layer}.", x, mask, last=layer == LAYERS - 1)
    return graph.model()


def embeddings(graph, weights):
    table = lambda name, rows: graph.floats(name, (rows, HIDDEN), weights.tensor(name, (rows, HIDDEN)))
    words = graph.node("Gather", [table("embeddings.word_embeddings.weight", 30522), "input_ids"])
    kinds = graph.node("Gather", [table("embeddings.token_type_embeddings.weight", 2), "token_type_ids"])
    length = graph.node("Shape", ["input_ids"], start=1, end=2)
    zero = graph.integers("zero", [0])
    places = graph.node("Slice", [table("embeddings.position_embeddings.weight", 512), zero, length, zero])
    x = graph.node("Add", [graph.node("Add", [words, kinds]), places])
    return norm(graph, weights, "embeddings.LayerNorm", x)


def block(graph, weights, name, x, mask, last):
    heads = graph.integers("heads", [0, 0, HEADS, HIDDEN // HEADS])

    def split(part, order):
        y = linear(graph, weights, f"{name}attention.self.{part}", x, HIDDEN, HIDDEN)
        return graph.node("Transpose", [graph.node("Reshape", [y, heads])], perm=order)

    query, key, value = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1]), split("value", [0, 2, 1, 3])
    scores = graph.node("MatMul", [query, key])
    scores = graph.node("Div", [scores, graph.scalar("scale", (HIDDEN // HEADS) ** 0.5)])
    shares = graph.node("Softmax", [graph.node("Add", [scores, mask])], axis=-1)
    y = graph.node("Transpose", [graph.node("MatMul", [shares, value])], perm=[0, 2, 1, 3])
    y = graph.node("Reshape", [y, graph.integers("joined", [0, 0, HIDDEN])])
    y = linear(graph, weights, name + "attention.output.dense", y, HIDDEN, HIDDEN)
    x = norm(graph, weights, name + "attention.output.LayerNorm", graph.node("Add", [y, x]))
    y = gelu(graph, linear(graph, weights, name + "intermediate.dense", x, HIDDEN, INNER))
    y = linear(graph, weights, name + "output.dense", y, INNER, HIDDEN)
    output = "last_hidden_state" if last else None
    return norm(graph, weights, name + "output.LayerNorm", graph.node("Add", [y, x]), output)


def linear(graph, weights, name, x, inputs, outputs):
    matrix = weights.transposed(name + ".weight", outputs, inputs)
    product = graph.node("MatMul", [x, graph.floats(name + ".weight", (inputs, outputs), matrix)])
    bias = graph.floats(name + ".bias", (outputs,), weights.tensor(name + ".bias", (outputs,)))
    return graph.node("Add", [product, bias])


def norm(graph, weights, name, x, output=None):
    part = lambda end: graph.floats(name + end, (HIDDEN,), weights.tensor(name + end, (HIDDEN,)))
    operands = [x, part(".weight"), part(".bias")]
    return graph.node("LayerNormalization", operands, output, axis=-1, epsilon=EPSILON)


def gelu(graph, x):
    """The exact one, in the form that onnxruntime fuses."""
    y = graph.node("Div", [x, graph.scalar("root_of_two", 2**0.5)])
    y = graph.node("Add", [graph.node("Erf", [y]), graph.scalar("one", 1.0)])
    return graph.node("Mul", [graph.node("Mul", [x, y]), graph.scalar("half", 0.5)])


class Graph:
    """Collects nodes and constants, and encodes them. Numbers of fields are those of onnx.proto."""

    def __init__(self):
        self.nodes = []
        self.constants = {}

    def node(self, kind, inputs, output=None, **attributes):
        number = len(self.nodes)
        output = output or f"t{number}"
        fields = [text(1, name) for name in inputs]
        fields += [text(2, output), text(3, f"n{number}"), text(4, kind)]
        fields += [block_of(5, attribute(name, value)) for name, value in sorted(attributes.items())]
        self.nodes.append(b"".join(fields))
        return output

    def floats(self, name, shape, data):
        return self.constant(name, FLOAT, shape, bytes(data))

    def scalar(self, name, value):
        return self.constant(name, FLOAT, (), struct.pack("<f", value))

    def integers(self, name, values):
        return self.constant(name, INT64, (len(values),), struct.pack(f"<{len(values)}q", *values))

    def constant(self, name, kind, shape, data):
        dimensions = b"".join(number(1, size) for size in shape)
        self.constants[name] = dimensions + number(2, kind) + text(8, name) + block_of(9, data)
        return name

    def model(self):
        fields = [block_of(1, node) for node in self.nodes]
        fields += [text(2, "all-MiniLM-L6-v2")]
        fields += [block_of(5, constant) for constant in self.constants.values()]
        places = ["batch", "sequence"]
        inputs = ["input_ids", "attention_mask", "token_type_ids"]
        fields += [block_of(11, value(name, INT64, places)) for name in inputs]
        fields += [block_of(12, value("last_hidden_state", FLOAT, places + [HIDDEN]))]
        version = text(1, "") + number(2, 17)
        graph = b"".join(fields)
        return number(1, 8) + text(2, "warmstart web-demo") + block_of(7, graph) + block_of(8, version)


def value(name, kind, shape):
    def dimension(size):
        return block_of(1, text(2, size) if isinstance(size, str) else number(1, size))

    tensor = number(1, kind) + block_of(2, b"".join(map(dimension, shape)))
    return text(1, name) + block_of(2, block_of(1, tensor))


def attribute(name, value):
    if isinstance(value, float):
        return text(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, list):
        return text(1, name) + b"".join(number(8, item) for item in value) + number(20, 7)
    return text(1, name) + number(3, value) + number(20, 2)


def number(field, value):
    return varint(field << 3) + varint(value % 2**64)


def text(field, value):
    return block_of(field, value.encode())


def block_of(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def varint(value):
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


if __name__ == "__main__":
    main(sys.argv[1:])
