"""Programs that misbehave: one row each, with what must be found and at which line."""

# ruff: noqa: E501  (a table)

from __future__ import annotations

from dataclasses import dataclass

HEAD = """import atexit, ctypes, os, signal, sys, threading, time, warnings
import torch
from torch import nn


AT_IMPORT
class Bad(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        IN_INIT

    def forward(self, x):
        x = self.linear(x)
        IN_FORWARD
        return x


class Good(nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""
_HOLES = {"import": "AT_IMPORT", "init": "IN_INIT", "forward": "IN_FORWARD"}


@dataclass(frozen=True)
class Case:
    """``codes`` are exactly the findings; empty if the model is traced normally."""

    name: str
    where: str
    statement: str
    codes: tuple[str, ...] = ()
    says: str = ""
    """Required parts of the message."""
    line_known: bool = True
    offset: int = 0
    """The line of the finding, from the first of the statement."""

    @property
    def text(self) -> str:
        made = HEAD
        for where, hole in _HOLES.items():
            indent = next(line for line in HEAD.splitlines() if hole in line).split(hole)[0]
            statement = self.statement if where == self.where else "pass"
            made = made.replace(hole, f"\n{indent}".join(statement.splitlines()))
        return made

    @property
    def line(self) -> int:
        """From 0."""
        before = HEAD.split(_HOLES[self.where])[0]
        return before.count("\n") + self.offset


def _everywhere(name: str, statement: str, code: str, says: str = "", line_known: bool = True) -> list[Case]:
    return [Case(f"{name}, {where}", where, statement, (code,), says, line_known) for where in _HOLES]


_TORCH_FUNCTION = """class Odd(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        MISBEHAVE
torch.relu(torch.ones(2).as_subclass(Odd))"""


def _in_torch_function(name: str, statement: str, code: str, offset: int = 3) -> Case:
    return Case(f"{name}, __torch_function__", "import", _TORCH_FUNCTION.replace("MISBEHAVE", statement), (code,), "",
                True, offset)  # fmt: skip


FATAL = [
    *_everywhere("endless loop in Python", "while True: pass", "FX304", "stopped after 1 s"),
    *_everywhere("endless loop in C", "sum(iter(int, 1))", "FX304", "stopped after 1 s"),
    *_everywhere("sleep", "time.sleep(1000)", "FX304", "stopped after 1 s"),
    *_everywhere("segmentation fault", "ctypes.string_at(0)", "FX305", "SIGSEGV"),
    *_everywhere("abort", "os.abort()", "FX305", "SIGABRT"),
    *_everywhere("os._exit", "os._exit(3)", "FX306", "status 3"),
    *_everywhere("sys.exit", "sys.exit(5)", "FX306", "5"),
    *_everywhere("killed by a signal", "os.kill(os.getpid(), signal.SIGKILL)", "FX305", "SIGKILL", False),
    *_everywhere("endless recursion", "(lambda f: f(f))(lambda f: f(f))", "FX310", "ecurs"),
    _in_torch_function("endless loop", "while True: pass", "FX304"),
    _in_torch_function("segmentation fault", "ctypes.string_at(0)", "FX305"),
    _in_torch_function("sys.exit", "sys.exit(2)", "FX306", 4),  # the statement that is skipped
    Case("regular expression without end", "forward", "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')", ("FX304",)),
    Case("deadlock", "forward", "lock = threading.Lock(); lock.acquire(); lock.acquire()", ("FX304",)),
    Case("waits for a child", "forward", "ctypes.CDLL(None).system(b'sleep 60')", ("FX304",), "", False),
    Case("recursion in C", "init",
         "sys.setrecursionlimit(10**9)\na, b = [], []\nfor _ in range(2 * 10**5): a, b = [a], [b]\na == b",
         ("FX305",), "SIGSEGV", True, 3),
    Case("recursion limit lifted", "forward", "sys.setrecursionlimit(10**9)\n(lambda f: f(f))(lambda f: f(f))",
         ("FX304",), "", True, 1),
    Case("terminated by itself", "forward", "os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", ("FX305",), "SIGTERM", False),
    Case("interrupted by itself", "forward", "raise KeyboardInterrupt", ("FX199",), "KeyboardInterrupt"),
    Case("raises what is no Exception", "forward", "raise type('Strange', (BaseException,), {})('why')", ("FX199",), "Strange"),
    Case("raises what has no text", "init",
         "class E(Exception):\n    def __str__(self): raise ValueError\nraise E", ("FX302",), "cannot be read", False),
    Case("exit handler after os._exit", "init", "atexit.register(time.sleep, 99); os._exit(4)", ("FX306",), "4"),
    Case("signals masked, loop in C", "forward",
         "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); sum(iter(int, 1))", ("FX304",)),
    Case("thread that exits the process", "forward",
         "threading.Thread(target=os._exit, args=(7,)).start()\nwhile True: time.sleep(0.001)", ("FX306",), "7", False),
    Case("thread that crashes", "forward",
         "threading.Thread(target=ctypes.string_at, args=(0,)).start()\nwhile True: time.sleep(0.001)", ("FX305",), "SIGSEGV", False),
    Case("left its group, hangs", "forward", "os.fork() or os.setsid(); time.sleep(99)", ("FX304",), "", True),
    Case("private descriptors closed", "forward", "os.closerange(3, 65536); time.sleep(0.3)", ("FX305",), "", False),
    Case("private descriptors written", "forward",
         "for fd in range(600, 720):\n    try: os.write(fd, b'junk' * 99)\n    except OSError: pass\ntime.sleep(0.2)",
         ("FX305",), "", False),
    Case("endless loop that prints", "forward", "while True:\n    print('x' * 1000, flush=True)", ("FX304",), "", True, 1),
    Case("a memory of its own too large", "init", "bytearray(1 << 60)", ("FX307",)),
    Case("stopped by a signal", "forward", "os.kill(os.getpid(), signal.SIGSTOP)", ("FX304",), "", False),
    Case("signals masked, asleep", "forward",
         "signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals()); signal.alarm(1); time.sleep(99)", ("FX304",)),
    Case("child processes that hang", "forward", "os.fork() and os.fork() and os.fork(); time.sleep(99)", ("FX304",)),
    Case("a syntax error with odd places", "import",
         "e = SyntaxError('x'); e.lineno, e.offset, e.filename = '7', [], __file__\nraise e", ("FX308",), "", False),
    *[
        Case(f"an exception with {name}", "import", f"class E(Exception):\n    {body}\n{raised}", ("FX301",), "", False)
        for name, (body, raised) in {
            "no text": ("def __str__(self): raise ValueError", "raise E"),
            "a text that is none": ("def __str__(self): return 3", "raise E"),
            "attributes that raise": ("def __getattribute__(self, name): raise ValueError(name)", "raise E"),
            "a class of another name": ("__class__ = property(lambda self: 1 / 0)", "raise E"),
            "causes in a circle": ("pass", "a, b = E(1), E(2); a.__cause__, b.__cause__ = b, a\nraise a"),
            "no traceback": ("def with_traceback(self, tb): raise ValueError", "raise E('x')"),
        }.items()
    ],
    Case("functions of Python replaced", "import",
         "import ast, traceback\nast.parse = traceback.format_exc = lambda *a, **k: 1 / 0", ("FX199",), "replaces something", True, 1),
    Case("a module that is missing", "import", "import no_such_module_here", ("FX311",)),
    Case("an error at import", "import", "1 / 0", ("FX301",)),
]  # fmt: skip

HARMLESS = [
    Case("thread that calls sys.exit", "forward", "t = threading.Thread(target=sys.exit); t.start(); t.join()"),
    Case("thread that raises", "forward", "t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()"),
    Case("exit handler that hangs", "import", "atexit.register(time.sleep, 99)"),
    Case("exit handler that crashes", "import", "atexit.register(ctypes.string_at, 0)"),
    Case("thread left running", "import", "threading.Thread(target=lambda: [time.sleep(0.01) for _ in iter(int, 1)]).start()"),
    Case("child left behind in its own session", "init", "os.fork() or (os.setsid(), time.sleep(99))"),
    Case("daemon forked twice", "init", "os.fork() or (os.setsid(), os.fork() or time.sleep(99), os._exit(0))"),
    Case("program left running", "init", "ctypes.CDLL(None).system(b'setsid sleep 99 &')"),
    Case("child left behind", "forward", "os.fork() or time.sleep(99)"),
    Case("descriptor 1 closed", "forward", "os.close(1)"),
    Case("protocol written, forward", "forward", "os.write(1, b'Content-Length: 5\\r\\n\\r\\nhello' * 1000)"),
    Case("megabytes of output", "forward", "sys.stdout.write('x' * (5 << 20))"),
    Case("protocol written to standard output", "import", "os.write(1, b'Content-Length: 2\\r\\n\\r\\n{}' * 999)"),
    Case("standard input read", "import", "sys.stdin.read(); input_ = sys.stdin.readline()"),
    Case("descriptors 0, 1, 2 closed", "import", "os.closerange(0, 3)"),
    Case("streams replaced", "import", "sys.stdin = sys.stdout = sys.stderr = sys.__stdout__ = None"),
    Case("another folder", "import", "os.chdir('/')"),
    Case("its folder removed", "import", "import tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)"),
    Case("sys.path mangled", "import", "sys.path[:] = [None, 3, '/nowhere']"),
    Case("sys.modules emptied of json and os", "import", "[sys.modules.pop(n) for n in ('json', 'struct', 'inspect')]"),
    Case("import hook that raises", "import", "sys.meta_path.insert(0, type('H', (), {'find_spec': lambda *a: None})())"),
    Case("environment emptied", "import", "os.environ.clear()"),
    Case("default dtype", "import", "torch.set_default_dtype(torch.float64)"),
    Case("default device", "import", "torch.set_default_device('meta')"),
    Case("threads", "import", "torch.set_num_threads(7)"),
    Case("gradients off", "import", "torch.set_grad_enabled(False)"),
    Case("warnings as errors", "import", "warnings.simplefilter('error')"),
    Case("warnings shown by a broken function", "import", "warnings.showwarning = lambda *a: 1 / 0; warnings.warn('x') if 0 else None"),
    Case("print replaced", "import", "import builtins; builtins.print = lambda *a: 1 / 0"),
    Case("len and isinstance replaced in the file", "import", "len = isinstance = lambda *a: 1 / 0"),
    Case("torch.relu replaced", "import", "relu_ = torch.relu; torch.relu = lambda x: relu_(x)"),
    Case("Module.__call__ replaced", "import", "call_ = nn.Module.__call__\nnn.Module.__call__ = lambda self, *a, **k: call_(self, *a, **k)"),
    Case("time stands still", "import", "time.time = time.monotonic = time.perf_counter = lambda: 0.0"),
    Case("os._exit replaced", "import", "os._exit = os.write = os.read = lambda *a: 1 / 0"),
    Case("faulthandler off", "import", "import faulthandler; faulthandler.disable(); faulthandler.cancel_dump_traceback_later()"),
    Case("exception hooks replaced", "import", "sys.excepthook = threading.excepthook = sys.unraisablehook = lambda *a: os._exit(1)"),
    Case("trace function", "import", "sys.settrace(lambda *a: None); sys.setprofile(lambda *a: None)"),
    Case("garbage collector off and debugged", "import", "import gc; gc.disable(); gc.set_debug(gc.DEBUG_STATS)"),
    Case("signals ignored", "import", "[signal.signal(s, signal.SIG_IGN) for s in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR1)]"),
    Case("all signals masked", "import", "signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())"),
    Case("low recursion limit", "import", "sys.setrecursionlimit(400)"),
    Case("umask and limits", "import", "import resource; os.umask(0o777); resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))"),
    Case("locale", "import", "import locale; locale.setlocale(locale.LC_ALL, 'C')"),
    Case("random seeded", "import", "import random; random.seed(0); torch.manual_seed(0)"),
    Case("a module of its own called as ours", "import", "sys.modules['fxlens'] = sys.modules['fxlib'] = None"),
    Case("temporary files", "forward", "import tempfile; keep = tempfile.mkstemp()[1]; os.unlink(keep)"),
]  # fmt: skip

LEAVES_FILES = (
    "import tempfile; os.mkdir(os.path.join(tempfile.mkdtemp(), 'd'), 0); tempfile.mkstemp(); "
    "os.symlink('/', tempfile.gettempdir() + '/link'); "
    "ctypes.CDLL(None).system(b'echo > $TMPDIR/of-a-child'); "
)
