"""The errors of public functions for wrong arguments: one sentence with the argument, its value and what is expected.

Each row: a call, the kind of error, and the words that must be in its first line.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
from torch import nn

import fxlib
from fxlib.benchmark import benchmark
from fxlib.lowering import BuildOptions, EngineError, check, load, preview, stages, to_onnx
from fxlib.passes.cost import estimate
from fxlib.passes.cse import eliminate_common_subexpressions
from fxlib.passes.dead_code import eliminate_dead_code
from fxlib.passes.decompose import decompose
from fxlib.passes.devices import calibrated_cpu
from fxlib.passes.dropout import remove_dropout
from fxlib.passes.fold_constants import fold_constants
from fxlib.passes.fuse_conv_bn import find_conv_bn, fuse_conv_bn
from fxlib.passes.graph_drawer import FxGraphDrawer, draw_change
from fxlib.passes.layouts import keep_layouts
from fxlib.passes.no_ops import remove_no_ops
from fxlib.passes.optimize_for_inference import optimize_for_inference, pack_layers
from fxlib.passes.quantize import quantize_dynamic, quantize_static
from fxlib.passes.reinplace import reinplace
from fxlib.passes.replace_activations import replace_activations
from fxlib.passes.schedule_rpc import schedule_rpc
from fxlib.passes.split_module import split_module
from fxlib.passes.stages import run_stages, split_into_stages
from fxlib.shapes import propagate
from fxlib.subgraph_rewriter import replace_pattern

MODEL: Any = timm.create_model("lcnet_050", num_classes=4).eval()
X = torch.randn(2, 3, 32, 32)
GM: Any = fxlib.symbolic_trace(MODEL)
LINEAR = fxlib.lower(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).eval(), (torch.randn(2, 4),))
ROW = torch.randn(2, 4)
lower: Any = fxlib.lower
EIGHT = lambda: quantize_static(fxlib.symbolic_trace(nn.Sequential(nn.Linear(4, 4)).eval()), [ROW])  # noqa: E731

WRONG: list[tuple[str, Callable[[], Any], type[BaseException], str]] = [
    ("a tensor for the tuple", lambda: lower(MODEL, X), TypeError, "must be a tuple .*not a tensor.*(x,)"),
    ("too many inputs", lambda: lower(MODEL, (X, X)), TypeError, "got 2 inputs, but forward takes 1: x"),
    ("a name for the model", lambda: lower("model", (X,)), TypeError, "model must be a torch.nn.Module, not str"),
    ("an input of another name", lambda: lower(MODEL, {"y": X}), TypeError, "an input 'y', .*arguments.* are x"),
    ("arrays as inputs", lambda: lower(MODEL, (X.numpy(),)), TypeError, "'x' as a numpy.ndarray, but takes tensors"),
    ("inputs that do not fit", lambda: lower(MODEL, (X[:, :2],)), ValueError, "itself fails on example_inputs"),
    ("inputs of another dtype", lambda: lower(MODEL, (X.double(),)), ValueError, "itself fails on example_inputs"),
    ("dynamic: no such input", lambda: lower(MODEL, (X,), dynamic={"y": [0]}), ValueError, "no input 'y'.* are in x"),
    ("dynamic: no such dimension", lambda: lower(MODEL, (X,), dynamic={"x": [4]}), ValueError, "dimension 4 of 'x'"),
    ("dynamic: a number", lambda: lower(MODEL, (X,), dynamic=3), TypeError, "dynamic must .*not int"),
    ("dynamic: no integers", lambda: lower(MODEL, (X,), dynamic={"x": "0"}), TypeError, "tuple of integers.*not '0'"),
    ("no such engine", lambda: lower(MODEL, (X,), engine="onnx"), EngineError, "no engine 'onnx'; .*onnxruntime"),
    ("no such precision", lambda: lower(MODEL, (X,), precision="int8"), ValueError, "precision 'int8'; one of fp32"),
    ("no such capture", lambda: lower(MODEL, (X,), capture="jit"), ValueError, "no capture 'jit'; one of 'fx'"),
    ("options of another kind", lambda: lower(MODEL, (X,), options={}), TypeError, "options must .*not dict"),
    ("min_nodes: a string", lambda: lower(MODEL, (X,), min_nodes="3"), TypeError, "min_nodes must .*not str"),
    ("concrete_args: no such name", lambda: lower(MODEL, (X,), concrete_args={"y": 1}), ValueError, "'y' in conc"),
    ("lowered: another shape", lambda: LINEAR(ROW[:1]), ValueError, r"'input' of shape \[1, 4\], .*for \[2, 4\]"),
    ("lowered: another rank", lambda: LINEAR(ROW[0]), ValueError, r"'input' of shape \[4\], .*for \[2, 4\]"),
    ("lowered: another dtype", lambda: LINEAR(ROW.double()), TypeError, "'input' of torch.float64, .*torch.float32"),
    ("lowered: an array", lambda: LINEAR(ROW.numpy()), TypeError, "'input' as a numpy.ndarray, but takes tensors"),
    ("lowered: nothing", lambda: LINEAR(), TypeError, "no input for 'input'"),
    ("lowered: two", lambda: LINEAR(ROW, ROW), TypeError, "got 2 inputs, but forward takes 1: input"),
    ("lowered: another name", lambda: LINEAR(y=ROW), TypeError, "an input 'y', but the arguments .* are input"),
    ("profile: no runs", lambda: LINEAR.profile(ROW, runs=0), ValueError, "runs must be 1 or more, not 0"),
    ("load: no such place", lambda: load("/missing"), FileNotFoundError, "no lowered model at '/missing'"),
    ("load: no path", lambda: load(3), TypeError, "a path, not int"),
    ("check: a tensor", lambda: check(MODEL, X), TypeError, "check..: example_inputs must be a tuple.*not a tensor"),
    ("check: no module", lambda: check("model", (X,)), TypeError, "model must be a torch.nn.Module, not str"),
    ("to_onnx: a tensor", lambda: to_onnx(GM, X), TypeError, "to_onnx..: example_inputs must be a tuple.*not a tensor"),
    ("static: a tensor", lambda: quantize_static(GM, X), TypeError, "a list of .*, not a tensor; pass .x."),
    ("static: nothing", lambda: quantize_static(GM, []), ValueError, "no calibration data"),
    ("static: no data", lambda: quantize_static(GM, None), TypeError, "data must be an iterable .*, not NoneType"),
    ("static: skip", lambda: quantize_static(GM, [X], skip=["nope"]), ValueError, "'nope' in skip, .*conv_stem"),
    ("static: skip a string", lambda: quantize_static(GM, [X], skip="conv_stem"), TypeError, r"pass \['conv_stem'\]"),
    ("static: form", lambda: quantize_static(GM, [X], form="int8"), ValueError, "'kernels' or 'qdq', not 'int8'"),
    ("static: observer", lambda: quantize_static(GM, [X], observer="max"), KeyError, "observer 'max'; known: minmax"),
    ("static: tolerance", lambda: quantize_static(GM, [X], tolerance="1"), TypeError, "tolerance must .*not str"),
    ("static: float64", lambda: quantize_static(doubled(), [X.double()]), ValueError, "a float32 model, not .*float64"),
    ("dynamic int8", lambda: quantize_dynamic(GM, min_weights="1"), TypeError, "min_weights must .*not str"),
    ("stages: a string", lambda: split_into_stages(GM, "2", X), TypeError, "count must be an integer, not str"),
    ("stages: none", lambda: split_into_stages(GM, 0, X), ValueError, "count must be 1 or more, not 0"),
    ("stages: weigh", lambda: split_into_stages(GM, 2, X, weigh="ms"), KeyError, "weigh='ms' must be one of 'flops'"),
    ("stages: run a graph", lambda: run_stages(GM, X), TypeError, "the list that split_into_stages.. returned, not "),
    ("estimate: device", lambda: estimate(GM, X, device="B9"), KeyError, "no device 'B9' in the table; known: V100"),
    ("shapes: nothing", lambda: propagate(GM), Exception, "no value for the placeholder 'x'"),
    ("shapes: two", lambda: propagate(GM, X, X), TypeError, "got 2 inputs, but the graph takes 1"),
    ("diagnose: no module", lambda: fxlib.diagnose("model"), TypeError, "a torch.nn.Module or a function, not str"),
    ("benchmark: a tensor", lambda: benchmark(MODEL, X), TypeError, "inputs must be a tuple of arguments .*not Tensor"),
    ("benchmark: no module", lambda: benchmark("model", (X,)), TypeError, "model must be a torch.nn.Module, not str"),
    ("trace: a string", lambda: fxlib.symbolic_trace("model"), AssertionError, "Module or a function, not of 'model'"),
    ("trace: tensors", lambda: fxlib.symbolic_trace([X, X]), AssertionError, r"not of \[tensor.{,40}, tensor.{,40}\]$"),
    ("pattern: a number", lambda: replace_pattern(GM, 3, 4), AssertionError, "^Expected FunctionType.*not of 3"),
    ("trace: a class", lambda: fxlib.symbolic_trace(nn.ReLU), AssertionError, "ReLU.*make an instance of the class"),
    ("lower: a class", lambda: lower(nn.ReLU, (X,)), TypeError, "model must be a torch.nn.Module, not type"),
    ("lower: nothing", lambda: lower(MODEL, None), TypeError, "example_inputs must be a tuple .*not a NoneType"),
    ("lower: a set", lambda: lower(MODEL, {1, 2}), TypeError, "example_inputs must be a tuple .*not a set"),
    ("lower: training", lambda: lower(nn.Linear(4, 4), (ROW,)), ValueError, "in training mode; call .eval()"),
    ("lower: a dtype", lambda: lower(MODEL, (X,), precision=torch.half), ValueError, "torch.float16; one of fp32"),
    ("lower: a list of concrete", lambda: lower(MODEL, (X,), concrete_args=[1]), ValueError, "got 1 in concrete_args"),
    ("lower: progress", lambda: lower(MODEL, (X,), progress="yes"), TypeError, "progress must be a function .*not str"),
    ("options: threads a string", lambda: BuildOptions(threads="2"), ValueError, "threads must .*not '2'"),
    ("options: no threads", lambda: BuildOptions(threads=0), ValueError, "threads must .*not 0"),
    ("lowered: a list", lambda: LINEAR([ROW]), TypeError, "'input' as a list of 1 tensors, but it was a tensor"),
    ("lowered: train", lambda: LINEAR.train(), RuntimeError, "for inference; train the original model"),
    ("profile: a string", lambda: LINEAR.profile(ROW, runs="3"), ValueError, "runs must be 1 or more, not '3'"),
    ("save: no path", lambda: LINEAR.save(3), TypeError, "save.. takes a path, not int"),
    ("preview: a tensor", lambda: preview(MODEL, X), TypeError, "preview..: example_inputs must be a tuple.*(x,)"),
    ("preview: engine", lambda: preview(MODEL, (X,), engine="onnx"), EngineError, "no engine 'onnx'; .*onnxruntime"),
    ("preview: training", lambda: preview(nn.Linear(4, 4), (ROW,)), ValueError, "in training mode; call .eval()"),
    ("compared stages: a tensor", lambda: stages(MODEL, X), TypeError, "stages..: example_inputs must be a tuple"),
    ("to_onnx: a path", lambda: to_onnx(GM, "x.onnx"), TypeError, "example_inputs must be a tuple .*not a str"),
    ("static: an array", lambda: quantize_static(GM, [X.numpy()]), TypeError, "input is a numpy.ndarray; torch.f"),
    ("static: a mapping", lambda: quantize_static(GM, {"x": X}), TypeError, "a list of examples, not a mapping"),
    ("static: negative", lambda: quantize_static(GM, [X], tolerance=-1), ValueError, "tolerance must .*not -1"),
    ("static: progress", lambda: quantize_static(GM, [X], progress="bar"), TypeError, "progress must .*not str"),
    ("static: an engine", lambda: quantize_static(GM, [X], engine="openvino"), ValueError, "needs form='qdq'"),
    ("stages: a flag", lambda: split_into_stages(GM, True, X), TypeError, "count must be an integer, not bool"),
    ("stages: no device", lambda: split_into_stages(GM, 2, X, weigh="seconds"), ValueError, "needs a device"),
    ("stages: run none", lambda: run_stages([], X), ValueError, "got no stages"),
    ("estimate: a number", lambda: estimate(GM, X, device=3), TypeError, "device must be a name or a Device, not int"),
    ("estimate: an array", lambda: estimate(GM, X.numpy()), TypeError, "example input is a numpy.ndarray; torch.f"),
    ("decompose: a list", lambda: decompose(GM, [torch.relu]), TypeError, "rules must be a mapping .*not list"),
    ("activations: no such", lambda: replace_activations(GM, "reru", nn.GELU()), ValueError, "the operator 'reru'"),
    ("activations: a name", lambda: replace_activations(GM, "relu", "gelu"), TypeError, "a module or .*'gelu'"),
    ("lower: a flag", lambda: lower(MODEL, (X,), min_nodes=True), TypeError, "min_nodes must be an integer, not bool"),
    ("lower: a negative number", lambda: lower(MODEL, (X,), min_nodes=-1), ValueError, "min_nodes must .*not -1"),
    ("static: skip nothing", lambda: quantize_static(GM, [X], skip=None), TypeError, "skip must be a list .*None"),
    ("static: per channel", lambda: quantize_static(GM, [X], per_channel="no"), TypeError, "True or False, not 'no'"),
    ("dynamic: per channel", lambda: quantize_dynamic(GM, per_channel=3), TypeError, "per_channel must be True or"),
    ("stages: weigh by nothing", lambda: split_into_stages(GM, 2, X, weigh=None), TypeError, "weigh must .*None"),
    ("len", lambda: fxlib.symbolic_trace(lambda x: len(x)), RuntimeError, r"'len' .* at module scope"),
    ("static: NaN", lambda: quantize_static(GM, [X, X / 0 * 0]), ValueError, "NaN in data: argument 'x' of example 1"),
    ("static: infinity", lambda: quantize_static(GM, [X / 0]), ValueError, "an infinity in data: argument 'x' of .* 0"),
    ("static: engine", lambda: quantize_static(GM, [X], form="qdq", engine="onnx"), EngineError, "no engine 'onnx'"),
    ("dynamic: negative", lambda: quantize_dynamic(GM, min_weights=-1), ValueError, "min_weights must .*not -1"),
    ("decompose: None", lambda: decompose(GM, {torch.relu: None}), TypeError, "rule of relu must .*not NoneType"),
    ("stages: texts", lambda: split_into_stages(GM, 2, X, weigh=lambda c: "1"), TypeError, "gives a number, .*'1' for"),
    ("stages: run on nothing", lambda: run_stages([GM]), TypeError, "got 0 inputs, but the first stage takes 1: x"),
    ("static: misfit", lambda: quantize_static(GM, [X[:, :2]]), ValueError, "fails on, in example 0, .* 3 channels"),
    ("static: later misfit", lambda: quantize_static(GM, [X, X[:, :2]]), ValueError, "fails on, in example 1, counted"),
    ("static: two inputs", lambda: quantize_static(GM, [(X, X)]), TypeError, "static.. got 2 inputs, but the graph"),
    ("static: observers", lambda: quantize_static(GM, [X], observer=["minmax"]), KeyError, "observer ..minmax.."),
    ("optimize: two inputs", lambda: optimize_for_inference(GM, X, X), TypeError, "inference.. got 2 inputs, but"),
    ("estimate: no inputs", lambda: estimate(GM), TypeError, "estimate.. got 0 inputs, but the graph takes 1: x"),
    ("stages: two inputs", lambda: split_into_stages(GM, 2, X, X), TypeError, "stages.. got 2 inputs, .* takes 1: x"),
    ("stages: not numbers", lambda: split_into_stages(GM, 2, X, weigh=lambda c: X.sum()), TypeError, "a number,"),
    ("fold: a text", lambda: fold_constants(GM, max_growth="1"), TypeError, "max_growth must .*not str"),
    ("rpc: a list", lambda: schedule_rpc(GM, [torch.relu]), TypeError, "blocking must .*not list"),
    ("activations: a class", lambda: replace_activations(GM, "relu", nn.GELU), TypeError, "an instance of the class"),
    ("activations: a list", lambda: replace_activations(GM, ["relu"], nn.GELU()), ValueError, "the operator ..relu.."),
    ("drawing: not traced", lambda: draw_change(MODEL, GM), TypeError, "draw_change.. takes a GraphModule, not a"),
    ("pattern: not traced", lambda: replace_pattern(MODEL, torch.relu, torch.relu), TypeError, "a GraphModule, not a"),
    ("split: a number", lambda: split_module(GM, MODEL, 3), TypeError, "split_callback must .*not int"),
    ("engines: a list", lambda: lower(MODEL, (X,), engine=["openvino"]), EngineError, "no engine ..openvino.."),
    ("dynamic: a flag", lambda: lower(MODEL, (X,), dynamic={"x": [True]}), TypeError, "a tuple of integers.*not .True"),
    ("options: no time", lambda: BuildOptions(timeout_s="1"), ValueError, "timeout_s must .*not '1'"),
    ("options: cache", lambda: BuildOptions(cache_dir=3), TypeError, "cache_dir must be a path, not int"),
    ("options: profiles", lambda: BuildOptions(profiles=[1]), TypeError, "profiles must .*not list"),
    ("save: nowhere", lambda: LINEAR.save(""), ValueError, "the path of a folder, not an empty text"),
    ("save: a file", lambda: LINEAR.save(__file__), FileExistsError, "a folder, and .*test_errors.py. is a file"),
    ("benchmark: a name", lambda: benchmark(MODEL, (X,), "eager"), TypeError, "variants must .*; pass .'eager'."),
    ("benchmark: batches", lambda: benchmark(MODEL, (X,), batches=[0]), ValueError, "batches must .* not .0."),
    ("benchmark: threads", lambda: benchmark(MODEL, (X,), threads=2), ValueError, "threads must be a list of .* not 2"),
    ("benchmark: rounds", lambda: benchmark(MODEL, (X,), rounds="3"), TypeError, "rounds must be an integer, not str"),
    ("benchmark: seconds", lambda: benchmark(MODEL, (X,), seconds="1"), TypeError, "seconds must be a number, not str"),
    ("benchmark: trace", lambda: benchmark(MODEL, (X,), trace=GM.graph), TypeError, "trace must .*, not Graph"),
    ("lower: TorchScript", lambda: lower(torch.jit.script(nn.ReLU().eval()), (X,)), TypeError, "of Python, not a Rec"),
    ("lower: lowered", lambda: lower(LINEAR, (ROW,)), TypeError, "lower.. got a model that is already lowered"),
    ("lowered: on meta", lambda: LINEAR(ROW.to("meta")), TypeError, "'input' on the meta device, but an engine"),
    ("lowered: sparse", lambda: LINEAR(ROW.to_sparse()), TypeError, "'input' in the layout torch.sparse_coo, but an"),
    ("lowered: copied", lambda: copy.deepcopy(LINEAR), TypeError, "cannot be copied or pickled; save.. writes"),
    ("static: quantized", lambda: quantize_static(EIGHT(), [ROW]), ValueError, "'0_int8' is a QuantizedLinear that a"),
    ("optimize: quantized", lambda: optimize_for_inference(EIGHT(), ROW), ValueError, "apply it to the traced model"),
    ("interpreter: not traced", lambda: fxlib.Interpreter(MODEL), TypeError, "Interpreter.. takes a GraphModule, not"),
    ("transformer: not traced", lambda: fxlib.Transformer(MODEL), TypeError, "Transformer.. takes a GraphModule, not"),
    ("calibrated: a text", lambda: calibrated_cpu("1"), ValueError, "seconds must be a number above 0, not '1'"),
]  # fmt: skip

TAKE_A_GRAPH: list[Callable[..., Any]] = [
    fuse_conv_bn, find_conv_bn, pack_layers, quantize_dynamic, eliminate_dead_code, eliminate_common_subexpressions,
    fold_constants, remove_dropout, remove_no_ops, reinplace, schedule_rpc, keep_layouts, optimize_for_inference,
    estimate, propagate,
]  # fmt: skip
WRONG += [
    (f"{take.__name__}: not traced", lambda take=take: take(MODEL), TypeError, "a GraphModule, not .*symbolic_trace")
    for take in TAKE_A_GRAPH
]  # fmt: skip
WRONG += [
    ("static: not traced", lambda: quantize_static(MODEL, [X]), TypeError, "a GraphModule, not .*symbolic_trace"),
    ("stages: not traced", lambda: split_into_stages(MODEL, 2, X), TypeError, "a GraphModule, not .*symbolic_trace"),
    ("decompose: not traced", lambda: decompose(MODEL, {}), TypeError, "a GraphModule, not .*symbolic_trace"),
    ("activations: not traced", lambda: replace_activations(MODEL, "relu", nn.GELU()), TypeError, "a GraphModule, not"),
    ("to_onnx: not traced", lambda: to_onnx(MODEL, (X,)), TypeError, "a GraphModule, not .*symbolic_trace"),
    ("drawer: not traced", lambda: FxGraphDrawer(MODEL, "m"), TypeError, "a GraphModule, not .*symbolic_trace"),
    ("a pass of a string", lambda: fuse_conv_bn("model"), TypeError, "fuse_conv_bn.. takes a GraphModule, not a str"),
]


def doubled() -> fxlib.GraphModule:
    return fxlib.symbolic_trace(timm.create_model("lcnet_050").eval().double())


@pytest.mark.parametrize(("call", "kind", "words"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_argument_is_named(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert re.search(words, text.split("\n")[0]), text
    assert len(text.split("\n")[0]) < 260 and "has no attribute" not in text


def test_len_says_what_to_write_here():
    with pytest.raises(RuntimeError, match=r"fxlib\.wrap\('len'\)"):
        fxlib.symbolic_trace(lambda x: len(x))
