"""Classes whose construction is recorded if an argument is traced."""

from __future__ import annotations

from typing import Any

from fxlib.capture.wrapping import find_proxy, is_fx_tracing

__all__ = ["ProxyableClassMeta"]

_proxyable_classes: dict[type, None] = {}


class ProxyableClassMeta(type):
    """The metaclass of classes whose construction can be recorded in a graph::

        class Boxes(metaclass=fxlib.ProxyableClassMeta):
            def __init__(self, corners, image_size):
                self.corners, self.image_size = corners, image_size

            def scaled(self, factor):
                return Boxes(self.corners * factor, self.image_size)

    In a trace, ``Boxes(x, 512)`` with a traced ``x`` becomes a ``call_function`` node that calls the class.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes[cls] = None
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer._emit("call_function", cls, args, kwargs)
        instance = cls.__new__(cls)  # type: ignore[call-overload]
        instance.__init__(*args, **kwargs)  # type: ignore[misc]
        return instance
