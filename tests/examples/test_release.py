"""Values that must agree for a release. ``scripts/release.sh`` builds and checks the rest."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from fxlens import __version__

ROOT = Path(__file__).parents[2]


def test_versions_agree_and_are_described():
    project = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)
    extension = json.loads((ROOT / "vscode-extension" / "package.json").read_text())["version"]
    assert project is not None and project[1] == extension == __version__
    assert f"\n## {__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_the_workflow_publishes_what_the_script_has_built():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    jobs = workflow["jobs"]
    for name in ("pypi", "extension"):
        assert jobs[name]["needs"] == "build" and jobs[name]["if"] == "github.ref_type == 'tag'"
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert 'scripts/release.sh "$GITHUB_REF_NAME"' in commands
    assert (ROOT / "scripts" / "release.sh").stat().st_mode & 0o111


def test_issue_forms_are_forms():
    for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")):
        form = yaml.safe_load(path.read_text())
        if path.name != "config.yml":
            assert form["name"] and form["description"] and form["body"]
            ids = [field["id"] for field in form["body"]]
            assert len(ids) == len(set(ids)) and all(field["attributes"]["label"] for field in form["body"])
