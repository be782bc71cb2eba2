"""Makes a virtual environment that has torch and what torch needs, and nothing else: ``bare_venv.py FOLDER``.

The packages are links to those of the running interpreter, since torch is large.
"""

import importlib.metadata
import pathlib
import re
import subprocess
import sys


def closure(name, seen):
    """Distributions that ``name`` needs here, itself included."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return seen
    key = distribution.metadata["Name"].lower()
    if key not in seen:
        seen[key] = distribution
        for requirement in distribution.requires or ():
            if "extra ==" not in requirement:
                closure(re.match(r"[\w.-]+", requirement)[0], seen)
    return seen


folder = pathlib.Path(sys.argv[1])
subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
site = next(folder.glob("lib/python*/site-packages"))
for distribution in closure("torch", {}).values():
    for top in {file.parts[0] for file in distribution.files if file.parts[0] not in ("..", "__pycache__")}:
        link = site / top
        if not link.exists():
            link.symlink_to(distribution.locate_file(top))
