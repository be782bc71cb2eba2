"""Features of third-party repositories that were seen last: objects whose methods compute."""

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
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return judged(tmp_path_factory, FILES)


def test_methods_of_an_unknown_object_are_no_layers(checked: dict[str, Any]):
    assert checked["curved.py::Curved"]["status"] == "traced", checked["curved.py"]
    assert "PassThrough()" in checked["curved.py::Curved"]["construct"]["text"]
