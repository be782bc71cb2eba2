"""FX3xx: what stands in the way of a trace: imports, construction, inputs, time, crashes."""

from fxlib.diagnosis.rules.rule import Rule, add

_ROWS = (
    (
        "FX301",
        "import",
        "The file cannot be imported",
        "error",
        "Importing the file raises. The finding stands on the statement that does.",
    ),
    (
        "FX302",
        "construct",
        "The module cannot be constructed",
        "hint",
        "FX Lens does not know how to construct the module, or constructing it raises. Say it in a comment on the "
        "class: `# fxlens: Net(10, 20) <- torch.randn(1, 10)`.",
    ),
    (
        "FX303",
        "inputs",
        "The example inputs do not fit",
        "hint",
        "forward fails on the example inputs, or there are none. Say in a comment on the class what to call it with: "
        "`# fxlens: Net(10, 20) <- torch.randn(1, 10)`.",
    ),
    (
        "FX304",
        "timeout",
        "The trace did not end",
        "error",
        "Importing, constructing or tracing took longer than the deadline, and was stopped. The finding stands on the "
        "line that was running.",
    ),
    (
        "FX305",
        "crash",
        "The interpreter crashed",
        "error",
        "The process that traced the file died of a signal, such as a segmentation fault in native code.",
    ),
    ("FX306", "exit", "The code left the interpreter", "error", "The code called `sys.exit`, `os._exit` or the like."),
    (
        "FX307",
        "memory",
        "The trace ran out of memory",
        "error",
        "The process that traced the file used more memory than it may.",
    ),
    ("FX308", "syntax", "Syntax error", "error", "The text does not parse. The last good trace is kept."),
    (
        "FX309",
        "torch",
        "torch is missing, broken or too old",
        "error",
        "The interpreter that was chosen cannot import torch 2.13 or newer. Choose another interpreter.",
    ),
)

add(*(Rule(code, slug, title, severity, text) for code, slug, title, severity, text in _ROWS))
add(
    Rule(
        "FX310",
        "recursion",
        "Recursion without end",
        "error",
        "Importing, constructing or tracing recursed beyond the limit of the interpreter.",
        "RecursionError: maximum recursion depth exceeded",
    )
)
