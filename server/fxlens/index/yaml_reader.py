"""YAML configurations as plain data.

``1e-4`` is a number, as users expect. ``!new:models.Net`` becomes a ``_target_``, other tags are ignored; of several
documents the first is read.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_FLOAT = re.compile(
    r"""^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+
    |[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?
    |[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$""",
    re.VERBOSE,
)


class CannotRead(ValueError):
    """The text is not YAML."""


class _Loader(yaml.SafeLoader):
    """Reads plain data; a time stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":float", ":timestamp"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def _tagged(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    data: Any = None
    if isinstance(node, yaml.MappingNode):
        data = loader.construct_mapping(node, deep=True)
    elif isinstance(node, yaml.SequenceNode):
        data = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.ScalarNode):
        data = loader.construct_scalar(node)
    if suffix.startswith("new:"):
        return {"_target_": suffix.removeprefix("new:"), **(data if isinstance(data, dict) else {})}
    return data


_Loader.add_multi_constructor("!", _tagged)
_Loader.add_multi_constructor("tag:", _tagged)


def read(text: str) -> Any:
    """The data of the first document.  Raises CannotRead."""
    loader = _Loader(text.replace("\t", "    "))
    try:
        return loader.get_data() if loader.check_data() else None
    except (yaml.YAMLError, ValueError, TypeError, KeyError) as error:
        raise CannotRead(str(error)) from None
    finally:
        loader.dispose()
