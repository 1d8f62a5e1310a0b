#!/usr/bin/env python3
"""Compares the shapes that ddpc infers with those of ONNX's own inference, and of a run. By hand: it needs onnx.

usage: onnx_shapes.py [--ddpc build/ddpc] [--run] [--verbose] FOLDER...

Each .onnx file below the folders is stripped of its value_info and of what is declared of its outputs, printed as
text, and given to `ddpc check --print-after types`. Per model: how many values of the main graph have a shape that
is not known (no rank, or a '?') to ddpc and to ONNX (strict, with data propagation), and how many contradict: both
know a number, or a rank, and they differ. --run also executes the model with onnx.reference, where its inputs are
of known size, and counts what contradicts that. A line of totals ends the table.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnx.parser
import onnx.printer
import onnx.shape_inference

LARGEST_PAYLOAD = 1024  # elements that are printed; more become external


def strip(model):
    """The model with no shapes but those of its inputs, and with large payloads elsewhere."""
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        del graph.value_info[:]
        for value in graph.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
        for node in graph.node:
            for attribute in node.attribute:
                graphs += [attribute.g] if attribute.HasField("g") else []
                elide(attribute.t)
        for tensor in graph.initializer:
            elide(tensor)
    return model


def elide(tensor):
    if numpy.prod(tensor.dims, dtype=numpy.int64) <= LARGEST_PAYLOAD or not tensor.data_type:
        return
    name, dims, data_type = tensor.name, list(tensor.dims), tensor.data_type
    tensor.Clear()
    tensor.name, tensor.data_type = name, data_type
    tensor.dims.extend(dims)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")


def shape_of(type_proto):
    """A list of sizes, names, and None for '?'; None if there is no shape; absent (False) for no tensor."""
    if not type_proto.HasField("tensor_type"):
        return False
    tensor = type_proto.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]


def shapes_of(model):
    graph = model.graph
    return {v.name: shape_of(v.type) for v in [*graph.value_info, *graph.output] if shape_of(v.type) is not False}


def is_unknown(shape):
    return shape is None or any(d is None or isinstance(d, str) and d.startswith("unk__") for d in shape)


def contradict(a, b):
    if a is None or b is None:
        return False
    pairs = zip(a, b)
    return len(a) != len(b) or any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in pairs)


def of_ddpc(ddpc, text):
    with tempfile.NamedTemporaryFile("w", suffix=".onnxtxt") as file:
        file.write(text)
        file.flush()
        command = [ddpc, "check", file.name, "--print-after", "types", "--assume-differentiable", "*"]
        done = subprocess.run(command, capture_output=True, text=True)
    printed, found, _ = done.stdout.partition("\nVERDICT")
    if not printed.startswith("<"):
        raise ValueError(done.stderr.split("\n")[0])
    warnings = [line for line in done.stderr.split("\n") if "DDP0405" in line or "DDP0406" in line]
    return shapes_of(onnx.parser.parse_model(printed)), warnings


def of_run(model, sizes):
    """Shapes of a run with zeros; {} where onnx.reference cannot."""
    import onnx.reference

    weights = {t.name for t in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        shape = shape_of(value.type)
        if value.name in weights or not shape and shape != []:
            continue
        shape = [sizes.setdefault(d, 3) if not isinstance(d, int) else d for d in shape]
        feeds[value.name] = numpy.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    seen = onnx.ModelProto()
    seen.CopyFrom(model)
    have = {v.name for v in seen.graph.output}
    names = [o for n in model.graph.node for o in n.output if o and o not in have]
    seen.graph.output.extend(onnx.helper.make_empty_tensor_value_info(n) for n in names)
    try:
        results = onnx.reference.ReferenceEvaluator(seen).run(None, feeds)
    except Exception:
        return {}
    names = [v.name for v in seen.graph.output]
    return {n: list(r.shape) for n, r in zip(names, results) if isinstance(r, numpy.ndarray)}


def one(path, options):
    model = onnx.load(path, load_external_data=False)
    actual = of_run(model, {}) if options.run else {}
    strip(model)
    mine, warnings = of_ddpc(options.ddpc, onnx.printer.to_text(model))
    try:
        theirs = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception:
        theirs = onnx.shape_inference.infer_shapes(model, data_prop=True)
    theirs = shapes_of(theirs)
    names = [o for n in model.graph.node for o in n.output if o]
    tensors = [n for n in names if n in mine or n in theirs]
    unknown = [n for n in tensors if is_unknown(mine.get(n))]
    worse = [n for n in unknown if not is_unknown(theirs.get(n))]
    wrong = [n for n in tensors if contradict(mine.get(n), theirs.get(n))]
    wrong_run = [n for n in actual if contradict(mine.get(n), actual[n])]
    made_by = {o: n.op_type for n in model.graph.node for o in n.output}
    if options.verbose:
        for label, listed, other in ("worse", worse, theirs), ("wrong", wrong, theirs), ("run", wrong_run, actual):
            for n in listed[:8]:
                print(f"    {label} {made_by.get(n)} {n}: {mine.get(n)}, not {other.get(n)}")
        for n in unknown[:8]:
            print(f"    unknown {made_by.get(n)} {n}: {mine.get(n)}")
        for line in warnings[:4]:
            print("   ", line)
    others = sum(is_unknown(theirs.get(n)) for n in tensors)
    counts = len(model.graph.node), len(tensors), len(unknown), others, len(worse), len(wrong)
    return *counts, len(warnings), len(actual), len(wrong_run)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ddpc", default="build/ddpc")
    parser.add_argument("--run", action="store_true", help="compare with a run too")
    parser.add_argument("--verbose", action="store_true", help="name values")
    parser.add_argument("--quiet", action="store_true", help="only models with something wrong, and totals")
    parser.add_argument("folder", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    columns = "nodes", "values", "unknown", "to onnx", "worse", "wrong", "warned", "run", "wrong"
    print(" ".join(f"{c:>8}" for c in columns), " model")
    totals, failed = [0] * len(columns), 0
    for path in sorted(p for folder in options.folder for p in ([folder] if folder.is_file() else folder.rglob("*.onnx"))):
        try:
            counts = one(path, options)
        except Exception as error:
            failed += 1
            if not options.quiet:
                print(f"{path.parent.name}/{path.name}: {str(error)[:150]!r}")
            continue
        totals = [a + b for a, b in zip(totals, counts)]
        if not options.quiet or counts[4] or counts[5] or counts[6] or counts[8]:
            print(" ".join(f"{c:>8}" for c in counts), f" {path.parent.name}/{path.name}", flush=True)
    print(" ".join(f"{c:>8}" for c in totals), f" all; {failed} could not be compared")
    sys.exit(1 if totals[5] or totals[8] else 0)


if __name__ == "__main__":
    main()
