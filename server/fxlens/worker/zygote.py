"""The first file of a worker process: imports torch and fxlib, then serves.

Started as a script by the user's interpreter: ``python zygote.py fork|spare <fds> <fxlens> <fxlib> <jobs>``, the last
three being folders: two of packages, one of temporary files. With ``fork`` it forks a process for each job
(``forking``); with ``spare``, for systems where forking with torch is not safe, it runs one job itself and ends.

The folders need not be on the user's path, and user code can import only ``fxlens`` and ``fxlib`` in addition.
"""

import sys

# As a script, the folder of this file comes first on the path, where names like "job" would shadow the user's.
if __name__ == "__main__":
    sys.path.pop(0)

import gc
import importlib
import importlib.util
import os
import socket
import traceback

_exit = os._exit


def load_package(name: str, folder: str) -> None:
    """Makes the package importable from ``folder`` without touching ``sys.path``."""
    init = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def preload() -> dict:
    """Imports what every job needs; returns a description, or the problem in ``"error"``."""
    hello = {"python": "{}.{}.{}".format(*sys.version_info[:3]), "executable": sys.executable, "torch": None}
    gc.disable()  # nearly everything made here is permanent; collections would take a quarter of the time
    importlib.import_module("fxlens.worker.network").turn_off()
    importlib.import_module("fxlens.worker.read_files").note_variables()  # torch reads some, too
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return {**hello, "error": f"torch is broken in {sys.executable}: {type(error).__name__}: {error}"}
        return {**hello, "error": f"torch is not installed in {sys.executable}"}
    except BaseException as error:
        return {**hello, "error": f"torch is broken in {sys.executable}: {type(error).__name__}: {error}"}
    version = getattr(torch, "__version__", None)
    if version is None:
        return {**hello, "error": f"torch in {sys.executable} is an empty package: its installation is damaged"}
    hello["torch"] = str(version)
    numbers = tuple(int(part) for part in str(version).split("+")[0].split(".")[:2] if part.isdigit())
    if numbers < (2, 13):
        return {**hello, "error": f"torch {version} in {sys.executable} is too old: FX Lens needs 2.13 or newer"}
    for name in ("fxlib", "fxlib.diagnosis", "fxlens.worker.preload"):
        try:
            importlib.import_module(name)
        except Exception as error:
            return {**hello, "error": f"{name} cannot be imported in {sys.executable}: {type(error).__name__}: {error}"}
    # Stand-ins for missing packages are not user code.
    importlib.import_module("fxlib.ir.span").hide(os.path.dirname(os.path.dirname(__file__)))
    compiler = importlib.import_module("fxlens.worker.compiler")
    if os.environ.pop("FXLENS_COMPILER", "") != "on" or not compiler.imported():
        compiler.put_off()
    importlib.import_module("fxlens.worker.warmup").run()
    importlib.import_module("fxlens.worker.bytecode").keep_elsewhere()
    importlib.import_module("fxlens.worker.text_warnings").leave_out()
    importlib.import_module("fxlib.diagnosis.fixes.loaded").note()
    gc.freeze()
    gc.enable()
    return hello


def main(arguments: list) -> None:
    if sys.version_info < (3, 10):  # noqa: UP036
        sys.exit("Python {}.{}.{} is too old: FX Lens needs 3.10 or newer".format(*sys.version_info[:3]))
    mode, given, fxlens_folder, fxlib_folder, jobs_folder = arguments
    fds = [int(each) for each in given.split(",") if each]
    load_package("fxlens", fxlens_folder)
    from fxlens.ipc import processes, protocol
    from fxlens.worker import guardian

    # Importing torch takes seconds, or forever; until then nothing else notices the end of the server.
    guard = guardian.during_import(fds[0], jobs_folder) if mode == "fork" else None
    if guard is not None:
        processes.outlive_parent()

    # Loading a package runs code, mostly fxlib's; preload() catches its errors.
    sys.meta_path.insert(0, _Located("fxlib", fxlib_folder))
    from fxlens.worker import forking, process

    if mode == "spare":
        folder, stacks = os.environ.get("TMPDIR", ""), 2
        if fds:
            stacks, lifeline = fds
            guardian.start(lifeline, folder, others=(0, 1, 2, stacks))
            processes.outlive_parent()
            processes.adopt_orphans()  # so that the guardian finds them
        channel = (os.dup(0), os.dup(1))
        os.dup2(2, 1)
        try:
            hello = {**preload(), "protocol": protocol.VERSION}
            process.run_job(*channel, 2, stacks, hello=hello, folder=folder, guarded=bool(fds))
        except BrokenPipeError:  # the server has ended
            from fxlens.ipc import temporary

            temporary.remove(temporary.ours(folder))
        except OSError:  # user code closed our descriptors
            traceback.print_exc()
            _exit(protocol.NO_CHANNEL_STATUS)
        return
    control = socket.socket(fileno=fds[0])
    zygote = forking.Zygote(control)
    zygote.parents.add(jobs_folder)
    hello = {**preload(), "protocol": protocol.VERSION}
    if guard is not None:
        guardian.dismiss(guard)
    try:
        zygote.say({"hello": hello})
    except OSError:  # the server ended while torch was imported
        zygote.end_all()
    else:
        zygote.serve()
    _exit(0)  # torch's own end takes a third of a second: it takes each of its operators apart


class _Located:
    """An import finder for one package at a known place."""

    def __init__(self, name: str, folder: str) -> None:
        self.name, self.folder = name, folder

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        init = os.path.join(self.folder, "__init__.py")
        return importlib.util.spec_from_file_location(name, init, submodule_search_locations=[self.folder])


if __name__ == "__main__":
    main(sys.argv[1:])
