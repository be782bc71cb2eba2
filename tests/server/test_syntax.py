"""The syntax-level analysis: exact places, undecided conditions, half-typed text, silence on models that trace."""

from __future__ import annotations

import inspect
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fxlens import rules
from fxlens.syntax import analyse

ROOT = Path(__file__).resolve().parents[2]
HEAD = "import math\nimport random\nimport numpy as np\nimport torch\nimport torch.nn.functional as F\n"
HEAD += "from torch import nn\n\n"


def file_of(body: str, signature: str = "self, x", before: str = "", init: str = "") -> str:
    start = f"    def __init__(self):\n        super().__init__()\n        {init}\n\n" if init else ""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return f"{HEAD}{before}\nclass Net(nn.Module):\n{start}    def forward({signature}):\n{lines}"


def unmark(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """The text without `«»`, and line, first and end column of what they enclosed."""
    places = []
    for number, line in enumerate(text.split("\n"), 1):
        while "«" in line:
            start = line.index("«")
            end = line.index("»")
            line = line[:start] + line[start + 1 : end] + line[end + 1 :]
            places.append((number, len(line[:start].encode()), len(line[: end - 1].encode())))
    return text.replace("«", "").replace("»", ""), places


# body with the marked expression, code; everything in it is certain
CERTAIN = {
    "if": ("if «x.sum() > 0»:\n    x = x + 1\nreturn x", "FX101"),
    "if name": ("y = x * 2\nif «y»:\n    x = x + 1\nreturn x", "FX101"),
    "if not": ("if not «x.any()»:\n    x = x + 1\nreturn x", "FX101"),
    "while": ("while «x.max() > 1»:\n    x = x / 2\nreturn x", "FX101"),
    "ternary": ("return x if «x.sum() > 0» else -x", "FX101"),
    "or value": ("return «x» or 3", "FX101"),
    "bool": ("return bool(«x.sum()»)", "FX101"),
    "unicode before": ("é, t = 'ü', x\nif «t.sum() > 0»: é = '🙂'\nreturn x", "FX101"),
    "shape": ("if «x.shape[0] == 1»:\n    x = x[0]\nreturn x", "FX102"),
    "dim": ("if «x.dim() == 3»:\n    x = x[0]\nreturn x", "FX102"),
    "dtype": ("if «x.dtype == torch.half»:\n    x = x.float()\nreturn x", "FX102"),
    "unpacked shape": ("b, c = x.shape\nif «b == c»:\n    x = x.t()\nreturn x", "FX102"),
    "assert": ("assert «x.dim() == 2», 'two'\nreturn x", "FX104"),
    "membership": ("if «x.shape[0] in (1, 2)»:\n    x = x + 1\nreturn x", "FX105"),
    "max": ("return x * «max(x.shape[0], 3)»", "FX106"),
    "chained": ("return «0 < x.sum() < 1»", "FX107"),
    "for": ("for row in «x»:\n    pass\nreturn x", "FX110"),
    "comprehension": ("return [r for r in «x.unbind(0)»]", "FX110"),
    "zip": ("return [a + b for a, b in zip(«x», [1, 2])]", "FX110"),
    "list": ("return list(«x.chunk(2)»)", "FX110"),
    "star in a list": ("return [*«x.shape», 1]", "FX110"),
    "unpack": ("a, *b = «x.shape»\nreturn a", "FX111"),
    "star call": ("return x.view(«*x.shape[:2]», -1)", "FX112"),
    "mapping call": ("return torch.add(**«x»)", "FX113"),
    "sum": ("return x / «sum(x.shape)»", "FX114"),
    "len": ("return x / «len(x)»", "FX120"),
    "reversed": ("return «reversed(x)»", "FX121"),
    "int": ("return x[: «int(x.shape[0] / 2)»]", "FX130"),
    "float": ("return «float(x.mean())»", "FX130"),
    "round": ("return «round(x.mean())»", "FX131"),
    "divmod": ("return «divmod(x.shape[0], 2)»", "FX132"),
    "range": ("for i in «range(x.shape[0])»:\n    x = x + i\nreturn x", "FX133"),
    "index": ("s = [1, 2]\nreturn «s[x.shape[0]]»", "FX134"),
    "format": ("n = f'{«x.shape[0]»:3d}'\nreturn x", "FX136"),
    "numpy": ("return «np.sqrt(x)»", "FX140"),
    "setitem": ("«x[0]» = 1\nreturn x", "FX150"),
    "augmented setitem": ("y = x * 2\n«y[:, 0]» += 1\nreturn y", "FX150"),
    "del": ("del «x[0]»\nreturn x", "FX151"),
    "zeros": ("return x + «torch.zeros(x.shape[0], 3)»", "FX160"),
    "is_tensor": ("y = «torch.is_tensor(x)»\nreturn x", "FX202"),
    "isinstance": ("if «isinstance(x, torch.Tensor)»:\n    x = x + 1\nreturn x", "FX202"),
    "hasattr": ("if «hasattr(x, 'tensors')»:\n    x = x + 1\nreturn x", "FX203"),
    "set": ("if «x.shape[0] in {1, 2}»:\n    x = x + 1\nreturn x", "FX204"),
    "text": ("n = f'{«x.shape»}'\nreturn x", "FX205"),
    "randn": ("return x + «torch.randn(3)»", "FX206"),
    "random": ("return x * «random.random()»", "FX206"),
    "dropout": ("return F.dropout(x, 0.5, training=«self.training»)", "FX207"),
    "counter": ("«self.calls» += 1\nreturn x", "FX208"),
    "cache": ("«self.cache» = x * 2\nreturn x", "FX209"),
    "data": ("y = x * 2\n«y.data» = x\nreturn y", "FX211"),
    "no_grad": ("with «torch.no_grad()»:\n    y = x * 2\nreturn y", "FX212"),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_certain(name):
    body, code = CERTAIN[name]
    text, places = unmark(file_of(body))
    found = analyse(text, "net.py")
    assert [(f["code"], (f["span"]["line"], f["span"]["column"], f["span"]["end_column"])) for f in found] == [
        (code, places[0])
    ]
    assert found[0]["severity"] == ("error" if code < "FX2" else "warning")
    assert found[0]["source"] == "syntax" and found[0]["target"] == "Net" and found[0]["span"]["file"] == "net.py"


# Bodies that torch.fx traces: nothing may be found.
SILENT = {
    "shapes pass on": "b, n = x.shape\nreturn x.view(b, n // 2, 2) / math.sqrt(n)",
    "plain flags": "if self.flag and len(self.layers) > 2:\n    x = x + 1\nreturn x",
    "loop over modules": "for layer in self.layers:\n    x = layer(x)\nreturn x",
    "list of results": "out = []\nfor layer in self.layers:\n    x = layer(x)\n    out.append(x)\n"
    "return torch.stack(out), len(out)",
    "starred list": "ys = [x, x + 1]\nreturn torch.cat([*ys, x]), torch.stack(tuple(ys))",
    "none of a local": "y = None\nif y is None:\n    y = x\nreturn y",
    "scripting guard": "if not torch.jit.is_scripting():\n    y = x\nelse:\n    y = x if x.sum() > 0 else -x\nreturn y",
    "shadowed": "x = self.config\nif x:\n    return 1\nreturn 2",
    "dict of results": "out = {'a': x}\nout['b'] = x + 1\nreturn out['a'] * out['b']",
    "assert helper": "torch._assert(x.dim() == 2, f'got {x.shape}')\nreturn x",
    "isinstance of another type": "if isinstance(x, list):\n    x = torch.cat(x)\nreturn x",
    "size as a tuple": "return x + torch.zeros((x.shape[0], 3)) + x.new_ones(x.shape[0], 3)",
    "traced random": "return x + torch.rand((x.shape[0], 1)) + torch.randn_like(x)",
    "where": "return torch.where(x > 0, x, -x)",
    "zip of lists": "return [a(b) for a, b in zip(self.layers, [x, x])]",
    "enumerate": "for i, layer in enumerate(self.layers):\n    x = layer(x) * i\nreturn x",
    "lambda": "f = lambda v: v + 1\nreturn f(x)",
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name):
    assert analyse(file_of(SILENT[name]), "net.py") == []


def codes(text: str) -> list[tuple[str, str, int]]:
    return [(f["code"], f["severity"], f["span"]["line"]) for f in analyse(text, "net.py")]


NEEDED = "needs a tensor's value, which tracing does not have"
SAID = {
    "return x if x.sum() > 0 else -x": f"This conditional expression {NEEDED}: `x.sum() > 0`",
    "if x.sum() > 0:\n    x = x + 1\nreturn x": f"This `if` {NEEDED}: `x.sum() > 0`",
    "while not x.any():\n    x = x + 1\nreturn x": f"This `while` {NEEDED}: `x.any()`",
    "return [y for y in [x] if y.any()]": f"This `if` of a comprehension {NEEDED}: `y.any()`",
    "return x * int(x.sum())": "`int()` cannot convert a traced value: `int(x.sum())`. "
    "Use `//` for sizes, or convert in a wrapped function",
    "return torch.zeros(x.shape[0], 3)": "`torch.zeros` cannot take traced sizes as separate arguments; pass a tuple",
}


@pytest.mark.parametrize("body", SAID)
def test_the_words_are_those_of_the_rules(body):
    (found,) = analyse(file_of(body), "net.py")
    assert found["message"] == SAID[body]
    (said,) = found["related"]
    assert said["kind"] == "torch" and said["message"] == f"torch.fx says: {rules.find(found['code']).torch_text}"


def test_flags_with_defaults_and_star_arguments():
    text = file_of(
        "if flag:\n    x = x + 1\nfor a in more:\n    x = x + a\nreturn x", "self, x, *more, flag: bool = True"
    )
    assert [c[:2] for c in codes(text)] == [("FX103", "error")]


def test_an_identity_test_is_information_since_the_text_does_not_say_what_is_passed():
    text = file_of("return x + 1 if flag is True else x", "self, x, flag=True")
    assert [c[:2] for c in codes(text)] == [("FX231", "info")]


def test_what_depends_on_an_undecided_condition_is_information():
    body = "if self.training:\n    if x.sum() > 0:\n        x = x + 1\nif self.a and x.sum() > 0:\n    return x\n"
    body += "return len(x)"
    assert [c[:2] for c in codes(file_of(body))] == [("FX101", "info"), ("FX101", "info"), ("FX120", "info")]


def test_none_tests_of_arguments_are_decided():
    found = codes(file_of("if mask is None:\n    return len(x)\nreturn x * mask", "self, x, mask=None"))
    assert [c[:2] for c in found] == [("FX201", "warning")]


def test_helpers_methods_and_submodules_are_followed():
    before = (
        "def helper(v, k=None):\n    if k is not None:\n        return len(v)\n    if v.sum() > 0:\n"
        "        return v\n    return -v\n\n"
        "@torch.fx.wrap\ndef opaque(v):\n    return len(v)\n\n"
        "class Part(nn.Module):\n    def forward(self, v):\n        return v.tolist() if v.max() > 1 else v\n\n"
    )
    body = "x = opaque(x)\nx = helper(x)\nx = self.part(x)\nreturn self.go(x)\n"
    text = file_of(body, before=before, init="self.part = Part()") + "\n    def go(self, x):\n        return int(x)\n"
    lines = text.split("\n")
    expected = {"FX101": {"if v.sum() > 0:", "return v.tolist() if v.max() > 1 else v"}, "FX130": {"return int(x)"}}
    found: dict[str, set[str]] = {}
    for code, _, line in codes(text):
        found.setdefault(code, set()).add(lines[line - 1].strip())
    assert found == expected


def test_half_typed_text_keeps_the_other_findings():
    text = file_of("if x.sum() > 0:\n    x = x + 1\ny = x.(\nreturn len(x)")
    assert [c[0] for c in codes(text)] == ["FX101", "FX120"]
    text = file_of("y = len(x)\nif x.sum() >")
    assert [c[0] for c in codes(text)] == ["FX120"]
    for last in ("if (:", "class Other(:"):
        assert [c[0] for c in codes(file_of("return len(x)") + "\n" + last)] == ["FX120"]
    assert analyse("def (((", "a.py") == [] and analyse("", "a.py") == [] and analyse("\0", "a.py") == []


def test_only_the_named_targets():
    text = file_of("return len(x)") + "\n\nclass Other(nn.Module):\n    def forward(self, x):\n        return int(x)\n"
    assert [f["code"] for f in analyse(text, "a.py", ["Other"])] == ["FX130"]


def test_it_imports_no_torch():
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'server')!r}); import fxlens.syntax as s;"
        "s.analyse('import torch', 'a'); assert not {'torch', 'fxlib', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_it_takes_milliseconds():
    block = "    def forward(self, x):\n" + "        x = torch.relu(x + 1)\n" * 100
    text = HEAD + "".join(f"class N{i}(nn.Module):\n{block}        return len(x)\n\n" for i in range(20))
    analyse(text, "a.py")
    times = []
    for _ in range(5):
        start = time.process_time()
        found = analyse(text, "a.py")
        times.append(time.process_time() - start)
    assert len(found) == 20
    assert min(times) < 0.5, f"{min(times) * 1000:.0f} ms for {len(text.splitlines())} lines"


def module_classes():
    """The module classes of a cross-section of torchvision, with whether torch.fx traces an instance as a root."""
    import torch
    import torch.fx
    import torchvision

    names = """alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 maxvit_t
    mnasnet0_5 mobilenet_v2 mobilenet_v3_small regnet_y_400mf resnet18 shufflenet_v2_x0_5 squeezenet1_0 swin_t swin_v2_t
    vgg11_bn vit_b_16 deeplabv3_resnet50 fcn_resnet50 lraspp_mobilenet_v3_large r3d_18 mc3_18 r2plus1d_18 s3d mvit_v2_s
    swin3d_t raft_small fasterrcnn_resnet50_fpn retinanet_resnet50_fpn"""
    seen = {}
    for name in names.split():
        options = {"weights": None}
        if "detection" in torchvision.models.get_model_builder(name).__module__ or "segmentation" in (
            torchvision.models.get_model_builder(name).__module__
        ):
            options["weights_backbone"] = None
        if name in ("googlenet", "inception_v3"):
            options["init_weights"] = False
        try:
            with torch.device("meta"):
                model = torchvision.models.get_model(name, **options)
        except (RuntimeError, NotImplementedError):
            model = torchvision.models.get_model(name, **options)
        for module in model.modules():
            kind = type(module)
            if kind not in seen and not kind.__module__.startswith("torch.nn"):
                try:
                    torch.fx.symbolic_trace(module)
                    seen[kind] = True
                except Exception:
                    seen[kind] = False
    return seen


def test_no_false_alarm_on_modules_that_trace():
    found, traced, caught = {}, 0, 0
    for kind, traces in module_classes().items():
        path = inspect.getsourcefile(kind)
        findings = analyse(Path(path).read_text(), path, [kind.__name__])
        loud = [(f["span"]["line"], f["code"]) for f in findings if f["severity"] == "error"]
        traced += traces
        caught += bool(loud) and not traces
        if traces and loud:
            found[kind.__name__] = loud
    assert found == {}
    assert traced > 80 and caught > 5


def test_a_chain_of_branches_at_module_level_is_no_recursion():
    branches = "".join(f"elif X == {i}:\n    Y = {i}\n" for i in range(1, 1200))
    text = file_of("if x.sum() > 0:\n    return x\nreturn -x", before=f"X = 1\nif X == 0:\n    Y = 0\n{branches}")
    assert [each["code"] for each in analyse(text, "net.py")] == ["FX101"]
