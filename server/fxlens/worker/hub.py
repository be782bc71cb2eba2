"""Models that load others from the Hugging Face Hub or torch.hub during construction. Without network, those of
transformers get the default configuration of their type, without weights; other models, tokenizers and processors can
be stored, but not used."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from . import outside
from .stand_ins import unusable

_TEXTS_AND_IMAGES = (
    "AutoTokenizer", "AutoProcessor", "AutoImageProcessor", "AutoFeatureExtractor", "PreTrainedTokenizerBase",
    "ProcessorMixin", "FeatureExtractionMixin", "ImageProcessingMixin",
)  # fmt: skip
"""Classes of transformers whose objects are not part of a graph."""
_OF_FETCHING = (
    "cache_dir", "force_download", "proxies", "token", "local_files_only", "revision", "trust_remote_code", "subfolder",
    "gguf_file", "_from_pipeline", "_from_auto", "_commit_hash", "user_agent",
)  # fmt: skip


def is_about(error: BaseException | None) -> bool:
    """Whether ``from_pretrained`` of transformers has raised this for lack of its files, or ``torch.hub.load``."""
    import torch

    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__ if error is not None else None)]
    if any(each.co_name == "load" and each.co_filename == torch.hub.__file__ for each in codes):
        return isinstance(error, (OSError, RuntimeError))
    package = os.path.dirname(getattr(sys.modules.get("transformers"), "__file__", None) or "")
    of_package = (each for each in codes if package and each.co_filename.startswith(package + os.sep))
    return isinstance(error, OSError) and any(each.co_name == "from_pretrained" for each in of_package)


@contextlib.contextmanager
def without() -> Iterator[None]:
    """Keep ``torch.hub.load`` and ``from_pretrained`` from fetching. They still raise if the name does not show the
    type."""
    import torch

    with contextlib.ExitStack() as stack:

        def change(owner: Any, name: str, value: Any) -> None:
            before = vars(owner).get(name)
            setattr(owner, name, value)
            stack.callback(setattr if before is not None else _delete, owner, name, before)

        change(torch.hub, "load", lambda repo, model, *_, **__: unusable(f"torch.hub.load({repo!r}, {model!r})"))
        if "transformers" in sys.modules:
            for owner, name, function in _of_transformers():
                change(owner, name, classmethod(function))
        yield


def _of_transformers() -> list[tuple[Any, str, Callable[..., Any]]]:
    """The class methods that fetch, and their replacements."""
    import transformers

    base = transformers.PreTrainedConfig if hasattr(transformers, "PreTrainedConfig") else transformers.PretrainedConfig
    get_data = vars(base)["get_config_dict"].__func__

    def usual_data(kind: Any, name: Any, **kwargs: Any) -> Any:
        try:
            return get_data(kind, name, **kwargs)
        except OSError:
            model = getattr(kind, "model_type", "") or _kind_of(str(name))
            if not model:
                raise
            if (asking := outside.asking()) is not None:
                text = f"`{name}` is not on this machine, and FX Lens fetches nothing while it looks at a file"
                outside.note(f"{text}. The default configuration of {model} stands for it, without weights", *asking)
            return {"model_type": model}, {key: each for key, each in kwargs.items() if key not in _OF_FETCHING}

    def usual_model(kind: Any, name: Any = None, *_: Any, config: Any = None, **__: Any) -> Any:
        return kind(config if config is not None else kind.config_class.from_pretrained(name))

    def of_texts(kind: Any, name: Any = None, *_: Any, **__: Any) -> Any:
        return unusable(f"transformers.{kind.__name__}.from_pretrained({name!r})")

    changed = [(base, "get_config_dict", usual_data), (transformers.PreTrainedModel, "from_pretrained", usual_model)]
    for each in _TEXTS_AND_IMAGES:
        with contextlib.suppress(Exception):  # some need packages that are not installed
            changed.append((getattr(transformers, each), "from_pretrained", of_texts))
    return changed


def _delete(owner: Any, name: str, _: None) -> None:
    delattr(owner, name)


def _kind_of(name: str) -> str:
    """``bert`` for ``bert-base-uncased``: the longest model type among the words of a name."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    words = name.lower().replace("_", "-")
    found = [each for each in CONFIG_MAPPING_NAMES if re.search(rf"(?<![a-z]){re.escape(each)}(?![a-z])", words)]
    return max(found, key=len, default="")
