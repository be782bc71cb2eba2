"""Stand-ins for functions of scipy, librosa, torchaudio and cv2 that compute constants of models: windows, mel filters,
the matrix of a cosine transform, polynomials, kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def function(name: str) -> Callable[..., Any] | None:
    """The implementation of a function of this dotted name; None if unknown."""
    known = _FUNCTIONS.get(name.partition(".")[0], {})
    return next((each for last, each in known.items() if name.endswith(f".{last}")), None)


def _window(window: Any, Nx: int, fftbins: bool = True) -> Any:
    """Hann and Hamming windows; for others only the length matters, and Hann is used."""
    import numpy as np

    at = 2 * np.pi * np.arange(Nx) / (Nx if fftbins else Nx - 1)
    middle = 0.54 if window == "hamming" else 0.5
    return middle - (1 - middle) * np.cos(at)


def _kaiser(M: int, beta: float, sym: bool = True) -> Any:
    import numpy as np

    return np.kaiser(M + (not sym), beta)[:M]


def _firwin(numtaps: int, cutoff: float, *, window: Any = "hamming", fs: float = 2.0, **_: Any) -> Any:
    """A low-pass filter."""
    import numpy as np

    at = np.arange(numtaps) - (numtaps - 1) / 2
    cutoff = 2 * cutoff / fs
    of_kaiser = isinstance(window, tuple) and window[0] == "kaiser"
    taps = cutoff * np.sinc(cutoff * at)
    taps = taps * (np.kaiser(numtaps, window[1]) if of_kaiser else _window(window, numtaps, False))
    return taps / taps.sum()


def _convolve(in1: Any, in2: Any, mode: str = "full", **_: Any) -> Any:
    """Of any number of dimensions."""
    import numpy as np

    one, other = np.asarray(in1, float), np.asarray(in2, float)
    whole = [m + n - 1 for m, n in zip(one.shape, other.shape, strict=True)]
    axes = range(one.ndim)
    found = np.fft.irfftn(np.fft.rfftn(one, whole, axes) * np.fft.rfftn(other, whole, axes), whole, axes)
    valid = [abs(m - n) + 1 for m, n in zip(one.shape, other.shape, strict=True)]
    sizes = {"same": one.shape, "valid": valid}.get(mode, whole)
    return found[tuple(slice((m - n) // 2, (m - n) // 2 + n) for m, n in zip(whole, sizes, strict=True))]


def _betabinomial(k: Any, n: Any, a: Any, b: Any) -> Any:
    """The probability of each ``k``."""
    import numpy as np

    def one(k: float, n: float, a: float, b: float) -> float:
        def beta(x: float, y: float) -> float:
            return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

        return math.exp(beta(k + a, n - k + b) - beta(a, b) - math.log(n + 1) - beta(n - k + 1, k + 1))

    return np.vectorize(one)(k, n, a, b)


def _polynomial(values: str) -> Callable[..., Any]:
    """An orthogonal polynomial of an integer degree at a point."""

    def function(n: Any, x: Any) -> Any:
        from numpy import polynomial

        module = polynomial.legendre if values == "legval" else polynomial.chebyshev
        return getattr(module, values)(x, [0] * int(n) + [1])

    return function


def _hertz_to_mel(hertz: Any, htk: bool) -> Any:
    import numpy as np

    hertz = np.asarray(hertz, float)
    if htk:
        return 2595 * np.log10(1 + hertz / 700)
    return np.where(hertz < 1000, hertz * 3 / 200, 15 + 27 * np.log(np.maximum(hertz, 1e-9) / 1000) / math.log(6.4))


def _mel_to_hertz(mel: Any, htk: bool) -> Any:
    import numpy as np

    if htk:
        return 700 * (10 ** (mel / 2595) - 1)
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(math.log(6.4) * (mel - 15) / 27))


def _triangles(count: int, low: float, high: float, bins: Any, htk: bool, area: bool) -> Any:
    """One row for each filter."""
    import numpy as np

    edges = _mel_to_hertz(np.linspace(_hertz_to_mel(low, htk), _hertz_to_mel(high, htk), count + 2), htk)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    rows = np.maximum(0, np.minimum(rising, falling))
    return rows * (2 / (edges[2:] - edges[:-2]))[:, None] if area else rows


def _mel(
    sr: float, n_fft: int, n_mels: int = 128, fmin: float = 0.0, fmax: float | None = None, htk: bool = False,
    norm: Any = "slaney", dtype: Any = "float32",
) -> Any:  # fmt: skip
    import numpy as np

    bins = np.linspace(0, sr / 2, 1 + n_fft // 2)
    return _triangles(n_mels, fmin, fmax or sr / 2, bins, htk, norm is not None).astype(dtype)


def _melscale_fbanks(
    n_freqs: int, f_min: float, f_max: float, n_mels: int, sample_rate: int, norm: Any = None, mel_scale: str = "htk"
) -> Any:
    import numpy as np
    import torch

    bins = np.linspace(0, sample_rate // 2, n_freqs)
    rows = _triangles(n_mels, f_min, f_max, bins, mel_scale == "htk", norm is not None)
    return torch.from_numpy(rows.T).float()


def _create_dct(n_mfcc: int, n_mels: int, norm: str | None) -> Any:
    import torch

    rows = torch.cos(math.pi / n_mels * torch.outer(torch.arange(n_mfcc), torch.arange(n_mels) + 0.5))
    if norm is None:
        return (rows * 2).t()
    rows[0] *= 1 / math.sqrt(2)
    return (rows * math.sqrt(2 / n_mels)).t()


def _pad_center(data: Any, size: int, axis: int = -1, **how: Any) -> Any:
    import numpy as np

    sides = [(0, 0)] * np.ndim(data)
    left = (size - np.shape(data)[axis]) // 2
    sides[axis] = left, size - np.shape(data)[axis] - left
    return np.pad(data, sides, **how)


def _tiny(x: Any) -> Any:
    import numpy as np

    kind = np.asarray(x).dtype
    return np.finfo(kind if np.issubdtype(kind, np.floating) else np.float32).tiny


_BINOMIAL = {1: (1.0,), 3: (1.0, 2.0, 1.0), 5: (1.0, 4.0, 6.0, 4.0, 1.0), 7: (2.0, 7.0, 14.0, 18.0, 14.0, 7.0, 2.0)}
"""Gaussian kernels of cv2 for which no width is given."""


def _gaussian_kernel(ksize: int, sigma: float, ktype: Any = None) -> Any:
    import numpy as np

    width = sigma if sigma > 0 else 0.3 * ((ksize - 1) * 0.5 - 1) + 0.8
    values = np.exp(-((np.arange(ksize) - (ksize - 1) / 2) ** 2) / (2 * width**2))
    values = np.array(_BINOMIAL[ksize]) if sigma <= 0 and ksize in _BINOMIAL else values
    return (values / values.sum())[:, None]


_FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "scipy": {
        "get_window": _window, "kaiser": _kaiser, "firwin": _firwin, "convolve": _convolve,
        "betabinom.pmf": _betabinomial,
        "eval_legendre": _polynomial("legval"), "eval_chebyt": _polynomial("chebval"),
    },
    "librosa": {"mel": _mel, "pad_center": _pad_center, "tiny": _tiny, "get_window": _window},
    "cv2": {"getGaussianKernel": _gaussian_kernel},
    "torchaudio": {"create_dct": _create_dct, "melscale_fbanks": _melscale_fbanks},
}  # fmt: skip
