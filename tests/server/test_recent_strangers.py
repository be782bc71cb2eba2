"""Features of third-party repositories that were seen last: objects whose methods compute, and options of groups of
configurations."""

from __future__ import annotations

from typing import Any

import pytest
from strangers import HEAD, judged

FILES = {
    # an object with methods, of which nothing is known: those are functions, no layers that are not registered
    "curved.py": HEAD
    + """

class Curved(nn.Module):
    def __init__(self, manifold, width, curvature):
        super().__init__()
        self.manifold, self.curvature = manifold, curvature
        self.weight = nn.Parameter(torch.ones(width, width))

    def forward(self, x):
        x = self.manifold.project(x @ self.weight, c=self.curvature)
        return self.manifold.to_tangent(x, c=self.curvature) * 2
""",
    # a model that an option of hydra's group describes, with options of its own and values of other groups
    "composed.py": HEAD
    + """

class Composed(nn.Module):
    def __init__(self, classes, encoder):
        super().__init__()
        layers = {"swish": nn.SiLU, "plain": nn.ReLU}
        self.encoder = nn.Sequential(nn.Linear(encoder.width, encoder.width), layers[encoder.inner.kind]())
        self.head = nn.Linear(encoder.width, classes)

    def forward(self, x):
        return self.head(self.encoder(x))
""",
    "configs/eval.yaml": "defaults:\n  - model: other\n",
    "configs/train.yaml": "defaults:\n  - _self_\n  - data: small\n  - model: other\n",
    "configs/data/small.yaml": "classes: 7\nseed: ${seed}\n",
    "configs/model/composed.yaml": "defaults:\n  - _self_\n  - encoder: default.yaml\n\n_target_: composed.Composed\n"
    "classes: ${data.classes}\nwidth: 24\n",
    "configs/model/encoder/default.yaml": "width: ${model.width}\ninner:\n  kind: swish\n",
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return judged(tmp_path_factory, FILES)


def test_methods_of_an_unknown_object_are_no_layers(checked: dict[str, Any]):
    assert checked["curved.py::Curved"]["status"] == "traced", checked["curved.py"]
    assert "PassThrough()" in checked["curved.py::Curved"]["construct"]["text"]


def test_an_option_of_a_group_has_its_own_options_and_values_of_others(checked: dict[str, Any]):
    found = checked["composed.py::Composed"]
    assert found["status"] == "traced" and found["construct"]["source"] == "workspace", found
    assert found["construct"]["text"] == (
        "Composed(classes=7, encoder=AttrDict({'width': 24, 'inner': AttrDict({'kind': 'swish'})}))"
    )
