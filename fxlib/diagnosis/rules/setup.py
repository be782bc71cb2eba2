"""FX3xx: what keeps a file from being traced: imports, construction, inputs, time, crashes."""

from fxlib.diagnosis.rules.rule import Example, Rule, add


def _one(bad: str, good: str, how: str = "") -> Example:
    return Example({"net.py": bad}, {"net.py": good}, how)


_HEAD = "import torch\nfrom torch import nn\n\n\n"
_NET = "class Net(nn.Module):\n    def forward(self, x):\n        return x * 2\n"
_READING = (
    "class Net(nn.Module):\n    def __init__(self, stem):\n        super().__init__()\n"
    "        self.scale = len(open(stem + '.py').read())\n\n    def forward(self, x):\n        return x * self.scale\n"
)
_TABLE = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.table = bytearray({size})\n\n    def forward(self, x):\n        return x * len(self.table)\n"
)
_TRACER = 'tracer = "tracing:LayerTracer"\n'
_TRACING = (
    "import torch.fx\nfrom torch import nn\n\n\nclass LayerTracer(torch.fx.Tracer):\n"
    "    def is_leaf_module(self, m, module_qualified_name):\n        return not isinstance(m, nn.Sequential)\n"
)
_WAITING = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.ready = {ready}\n\n"
    "    def forward(self, x):\n        while not self.ready:\n            pass\n        return x * 2\n"
)

add(
    Rule(
        "FX301",
        "import",
        "The file cannot be imported",
        "The file cannot be imported: {error}",
        "error",
        """Importing the file raises. The finding is on the statement that raises. It is only a warning if the classes
of the file could be traced without that statement, unless the statement reads a name that is not defined.""",
        example=_one(_HEAD + 'WIDTH = int("wide")\n\n\n' + _NET, _HEAD + "WIDTH = 8\n\n\n" + _NET),
    ),
    Rule(
        "FX302",
        "construct",
        "The module cannot be constructed",
        "The module cannot be constructed: {error}",
        "hint",
        "FX Lens does not know how to construct the module: the workspace has no call to learn from, and the "
        "arguments that it tried fail. Or the arguments that you gave raise. Write a comment above the class: "
        "`# fxlens: Net(10, 20) <- torch.randn(1, 10)`.",
        example=_one(_HEAD + _READING, _HEAD + "# fxlens: Net(__file__[:-3]) <- torch.randn(1, 8)\n" + _READING),
    ),
    Rule(
        "FX303",
        "inputs",
        "The example inputs do not fit",
        "The example inputs do not fit {it}: {error}",
        "hint",
        "forward fails on the example inputs, or there are none. Give inputs in a comment above the class: "
        "`# fxlens: Net(10, 20) <- torch.randn(1, 10)`.",
        example=_one(
            _HEAD + "# fxlens: Net() <- torch.randn(1, 3), torch.randn(1, 3)\n" + _NET,
            _HEAD + "# fxlens: Net() <- torch.randn(1, 3)\n" + _NET,
        ),
    ),
    Rule(
        "FX304",
        "timeout",
        "The trace did not end",
        "The trace did not end",
        "error",
        "Importing, constructing or tracing took longer than the deadline, and was stopped. The finding is on the "
        "line that was running. After six such classes of a file, the others are not traced any more.",
        example=_one(
            _HEAD + _WAITING.format(ready=False),
            _HEAD + _WAITING.format(ready=True),
            "Seen sooner with `fxlens check --deadline 3`.",
        ),
    ),
    Rule(
        "FX305",
        "crash",
        "The interpreter crashed",
        "The interpreter crashed",
        "error",
        "The process that traced the file was killed by a signal, such as a segmentation fault in native code.",
        example=_one(
            "import ctypes\n\n" + _HEAD + _NET.replace("return x * 2", "return x * ctypes.string_at(0)"),
            _HEAD + _NET,
        ),
    ),
    Rule(
        "FX306",
        "exit",
        "The code ended the process",
        "The code ended the process",
        "error",
        "The code called `sys.exit`, `os._exit` or the like.",
        example=_one(
            "import sys\n\n" + _HEAD + _NET + "\n\nsys.exit(Net()(torch.ones(1)).item() > 0)\n",
            "import sys\n\n"
            + _HEAD
            + _NET
            + '\n\nif __name__ == "__main__":\n    sys.exit(Net()(torch.ones(1)).item() > 0)\n',
        ),
    ),
    Rule(
        "FX307",
        "memory",
        "The trace ran out of memory",
        "The trace ran out of memory",
        "error",
        "The process that traced the file exceeded its memory limit.",
        example=_one(_HEAD + _TABLE.format(size="1 << 60"), _HEAD + _TABLE.format(size="1 << 10")),
    ),
    Rule(
        "FX308",
        "syntax",
        "Syntax error",
        "Python cannot parse this: {error}",
        "error",
        "The text does not parse. The last good trace is kept.",
        example=_one(_HEAD + _NET.replace("x * 2", "x * (2"), _HEAD + _NET),
    ),
    Rule(
        "FX309",
        "torch",
        "torch is missing, broken or too old",
        "Nothing can be traced: {error}",
        "error",
        "The selected interpreter cannot import torch 2.13 or newer. Select another interpreter.",
        example=_one(
            _HEAD + _NET,
            _HEAD + _NET,
            "Nothing is wrong with the file. Seen with an interpreter that has no torch: "
            "`fxlens check --python /usr/bin/python3`.",
        ),
    ),
    Rule(
        "FX310",
        "recursion",
        "Recursion without end",
        "{it} recurses without end",
        "error",
        "Importing, constructing or tracing recursed beyond the limit of the interpreter. Layers nested a thousand "
        "deep exceed it too: torch walks through them by recursion, as in `eval()`.",
        "RecursionError: maximum recursion depth exceeded",
        example=_one(_HEAD + _NET.replace("return x * 2", "return self.forward(x * 2)"), _HEAD + _NET),
    ),
    Rule(
        "FX311",
        "replaced",
        "A placeholder replaces an import",
        "Placeholders replace {it}, which cannot be imported.",
        "info",
        "A module that the file imports is not installed, or the `__init__` of its package or a statement in another "
        "file raises. The classes are traced without it, except those that really use it. Imports in `try` fail as "
        "they do in Python. The finding is a warning if the fault is in another file of the project.",
        example=_one("import torch_that_is_not_there\n" + _HEAD + _NET, _HEAD + _NET),
    ),
    Rule(
        "FX312",
        "tracer",
        "The project's tracer cannot be used",
        "The project's tracer cannot be used: {error}",
        "error",
        "`tracer` of `[tool.fxlens]` names a class that cannot be imported, cannot be constructed with "
        "`tracer-arguments`, or is no tracer. The classes are traced with torch.fx's default tracer instead.",
        example=Example(
            {"net.py": _HEAD + _NET, "fxlens.toml": _TRACER},
            {"net.py": _HEAD + _NET, "fxlens.toml": _TRACER, "tracing.py": _TRACING},
        ),
    ),
    Rule(
        "FX313",
        "outside",
        "Nothing is fetched or started",
        "{it} was not fetched or started",
        "info",
        "FX Lens looks at files without network, and starts none of the programs that they start. A model of the "
        "Hugging Face Hub that is not on this machine has the default configuration of its kind, so its sizes may "
        "differ from the real ones. A program (`git`, `pip`, `nvcc`) seems to have ended well and to have said "
        "nothing, or to be missing where the code handles that.",
        example=_one(
            "import subprocess\n\n"
            + _HEAD
            + 'VERSION = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True)\n\n\n'
            + _NET,
            _HEAD + _NET,
        ),
    ),
)
