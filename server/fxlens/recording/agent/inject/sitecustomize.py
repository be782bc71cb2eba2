"""Python imports a module of this name when it starts.  Starts the recorder, then runs the environment's own module."""

import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_AGENT = "_fxlens_recording"


def _start() -> None:
    folder = os.path.dirname(_HERE)
    spec = importlib.util.spec_from_file_location(
        _AGENT, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        return
    agent = importlib.util.module_from_spec(spec)
    sys.modules[_AGENT] = agent
    spec.loader.exec_module(agent)
    agent.start()


def _run_the_other() -> None:
    """This file hides the environment's own ``sitecustomize``, if there is one: run that as Python would."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    this = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", this)  # Python looks for it there once this file has run


try:
    _start()
except Exception as error:  # recording must not affect the program
    print(f"fxlens record: {type(error).__name__}: {error}", file=sys.stderr)
_run_the_other()
