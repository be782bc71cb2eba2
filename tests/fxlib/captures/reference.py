"""Torch's own results for models, run as by its users. Nothing of this project is imported.

    python reference.py FILE [CLASS ...]

Each model gets a fresh process: torch.export, torch.compile(fullgraph=True), torch.compile with the log of
``TORCH_LOGS=graph_breaks`` and ``torch._dynamo.explain``. One line of JSON for each. Places are lines and columns of
the user's files: those at a path, or under it.
"""

import contextlib
import importlib.util
import json
import os
import re
import sys
import tempfile
import traceback

import torch
import torch._dynamo
import torch.export


def load(path):
    spec = importlib.util.spec_from_file_location("case", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["case"] = module
    spec.loader.exec_module(module)
    return module


def own(file, path):
    return file == path or file.startswith(os.path.join(path, ""))


def last_line(error, path):
    return next((f.lineno for f in reversed(traceback.extract_tb(error.__traceback__)) if own(f.filename, path)), None)


def exported(make, strict):
    model, inputs = make()
    try:
        torch.export.export(model, inputs, strict=strict)
    except Exception as error:
        return error
    return None


def ranges(stack, path):
    """Line and columns of the innermost frame in a file."""
    for frame in reversed(list(stack or ())):
        if own(frame.filename, path):
            return [frame.lineno, getattr(frame, "colno", None), getattr(frame, "end_colno", None)]
    return None


def broken_lines(text, path):
    """The lines of a file at which the log says that the graph broke, one for each record."""
    lines = []
    for record in re.split(r"(?=Graph break (?:\(user|in user))", text)[1:]:
        head = re.match(r"Graph break .*?in user code at (.+):(\d+)", record)
        frames = re.findall(r'File "([^"]+)", line (\d+), in ', record.partition("User code traceback:")[2])
        users = [int(line) for file, line in frames if own(file, path)]
        if users:
            lines.append(users[-1])
        elif head and own(head[1], path):
            lines.append(int(head[2]))
    return lines


def judged(make, path, log, strict=True):
    """Everything about one model; without ``strict``, the slowest part is skipped. Torch's stderr must go to the file
    ``log``."""
    found = {}
    torch._logging.set_logs(graph_breaks=True)
    model, inputs = make()
    model(*inputs)
    torch.compiler.reset()
    for name in ("export", "strict") if strict else ("export",):
        error = exported(make, name == "strict")
        found[name] = None if error is None else type(error).__name__
        if error is not None and name == "export":
            found["export_line"] = last_line(error, path)
        torch.compiler.reset()
    model, inputs = make()
    try:
        torch.compile(model, fullgraph=True, backend="eager")(*inputs)
        found["fullgraph"] = None
    except Exception as error:
        found["fullgraph"] = type(error).__name__
        found["fullgraph_place"] = ranges(getattr(error, "real_stack", None), path)
    torch.compiler.reset()
    graphs = []
    model, inputs = make()
    start = os.fstat(2).st_size
    try:
        torch.compile(model, backend=lambda graph, _: graphs.append(graph) or graph.forward)(*inputs)
        found["compile"] = None
    except Exception as error:
        found["compile"] = type(error).__name__
    sys.stderr.flush()
    with open(log, encoding="utf-8", errors="replace") as file:
        file.seek(start)
        text = "\n".join(re.sub(r"^V.*?\[__graph_breaks\] ?", "", line) for line in file.read().splitlines())
    found["breaks"] = broken_lines(text, path)
    found["graphs"] = len(graphs)
    found["operators"] = sum(node.op.startswith("call_") for graph in graphs for node in graph.graph.nodes)
    torch.compiler.reset()
    reasons = []
    if found["breaks"]:
        model, inputs = make()
        with contextlib.suppress(Exception):
            reasons = torch._dynamo.explain(model)(*inputs).break_reasons
    found["ranges"] = [place for reason in reasons if (place := ranges(reason.user_stack, path))]
    return found


def in_process(make, path):
    """`judged` in a separate process."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with tempfile.NamedTemporaryFile(suffix=".log") as log:
            os.dup2(os.open(log.name, os.O_WRONLY | os.O_APPEND), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            try:
                found = judged(make, path, log.name)
            except Exception as error:
                found = {"error": f"{type(error).__name__}: {error}"}
            os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        answer = json.loads(file.read() or '{"error": "the process ended"}')
    os.waitpid(pid, 0)
    return answer


def main(path, names):
    path = os.path.realpath(path)
    module = load(path)
    classes = {n: c for n, c in vars(module).items() if isinstance(c, type) and hasattr(c, "inputs")}
    for name in names or classes:
        case = classes[name]

        def make(case=case):
            return case(), case.inputs()

        print(json.dumps({"name": name, **in_process(make, path)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
