"""Parts of known architectures as issue trackers report them: experts, caches, samplers, aligners, detectors."""

import collections
import functools
import logging
import threading
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

logger = logging.getLogger(__name__)
scale = torch.tensor(3.0)


class ExpertsHit(nn.Module):
    """A loop over the experts that some token was routed to."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def inputs():
        return (torch.linspace(-1, 1, 20).reshape(5, 4),)

    def forward(self, x):
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2)
        mask = F.one_hot(chosen, num_classes=3).permute(2, 1, 0)
        out = torch.zeros_like(x)
        hit = mask.sum(dim=(-1, -2)).gt(0).nonzero()
        for index in hit:
            place, token = torch.where(mask[index].squeeze(0))
            out.index_add_(0, token, self.experts[index](x[token]) * weights[token, place, None])
        return out


class TokensPerExpert(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 4, 4))

    def inputs():
        return (torch.ones(6, 4), torch.tensor([2, 4]))

    def forward(self, x, counts):
        parts = torch.split(x, counts.tolist(), dim=0)
        return torch.cat([part @ self.weight[i] for i, part in enumerate(parts)])


class SeededDropout(nn.Module):
    """Reversible layers draw the same mask twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def inputs():
        return (torch.ones(2, 3),)

    def _seed(self):
        self.seed = int(torch.seed() % 1000)
        torch.manual_seed(self.seed)

    def forward(self, x):
        self._seed()
        return F.dropout(self.layer(x), 0.1, self.training)


def aligned(x, size=16):
    return x if x.data_ptr() % size == 0 else x.clone()


class Aligned(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return aligned(x * 2) + 1


class CacheByTensor(nn.Module):
    """The place to write at is in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("key", torch.zeros(2, 8, 4))
        self.register_buffer("next", torch.zeros(2, dtype=torch.long))

    def inputs():
        return (torch.ones(2, 3, 4),)

    def forward(self, k):
        start = self.next[0]
        end = start + k.shape[1]
        self.key[:, start:end] = k
        self.next += k.shape[1]
        return self.key.sum(1)


class CacheByNumber(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("key", torch.zeros(2, 16, 4))
        self.size = 0

    def inputs():
        return (torch.ones(2, 3, 4),)

    def update(self, k):
        self.key[:, self.size : self.size + k.shape[1]] = k
        self.size += k.shape[1]
        return self.key[:, : self.size]

    def forward(self, k):
        return self.update(k).mean(1)


class LongRope(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("short", torch.ones(2))
        self.register_buffer("long", torch.full((2,), 2.0))

    def inputs():
        return (torch.ones(1, 5, 2), torch.arange(5)[None])

    def forward(self, x, position_ids):
        length = torch.max(position_ids) + 1
        factors = self.long if length > 4 else self.short
        return x * factors * position_ids[..., None]


class TimesGlobal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.scale


class FunctionWithGlobal(nn.Module):
    def inputs():
        return (torch.ones(2, 3, requires_grad=True),)

    def forward(self, x):
        return TimesGlobal.apply(x) + 1


class AxialPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.shape = (4, 3)
        self.rows, self.columns = nn.Parameter(torch.ones(4, 1, 2)), nn.Parameter(torch.ones(1, 3, 2))

    def inputs():
        return (torch.arange(7)[None],)

    def forward(self, position_ids):
        last = position_ids.max().item()
        needed = -(-(last + 1) // self.shape[1])
        grid = (self.rows[:needed] + self.columns).reshape(-1, 2)
        return F.embedding(position_ids, grid)


class InferenceAsked(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        if x.is_inference():
            return x
        return x + 1


class NormalizedWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.old = nn.utils.weight_norm(nn.Linear(3, 3))
        self.new = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return self.new(self.old(x))


class GradByFlag(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x, frozen=True):
        with torch.set_grad_enabled(not frozen):
            y = x * 2
            print("frozen")
            y = y + 1
        return y * x


class NoNan(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        y = x.log()
        assert not torch.isnan(y).any(), f"not a number: {y.shape}"
        return y


class ImagesWithPixels(nn.Module):
    """Padding images are left out before the attention."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)

    def inputs():
        return (torch.ones(3, 4, 8), torch.tensor([True, False, True]))

    def forward(self, x, real):
        x = x[real]
        batch, length = x.shape[:2]
        q = self.q(x).view(batch, length, 2, 4).transpose(1, 2)
        mask = torch.ones(batch, 1, length, length, dtype=torch.bool)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask).sum((1, 2, 3))


def sequence_mask(length, largest=None):
    if largest is None:
        largest = length.max()
    return torch.arange(largest, dtype=length.dtype)[None] < length[:, None]


class Aligner(nn.Module):
    """Durations decide how long the output is."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv1d(4, 4, 3, padding=1)

    def inputs():
        return (torch.ones(2, 4, 3), torch.tensor([[1.2, 2.0, 0.7], [1.0, 1.5, 2.0]]))

    def forward(self, x, w):
        duration = torch.ceil(w)
        lengths = torch.clamp_min(duration.sum(1), 1).long()
        mask = sequence_mask(lengths)
        ends = duration.cumsum(1)
        steps = torch.arange(mask.shape[1], dtype=x.dtype)
        path = (steps[None, None] < ends[..., None]).to(x.dtype)
        path = path - F.pad(path, (0, 0, 1, 0))[:, :-1]
        return self.layer(x @ path) * mask[:, None]


class ByNumber(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({str(i): nn.Linear(3, 3) for i in range(3)})

    def inputs():
        return (torch.ones(2, 3), torch.tensor(1))

    def forward(self, x, task):
        return self.heads[str(task.item())](x)


def timed(function):
    @functools.wraps(function)
    def run(self, *args):
        start = time.time()
        out = function(self, *args)
        logger.debug("%s took %.3f", function.__name__, time.time() - start)
        return out

    return run


class Timed(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    @timed
    def forward(self, x):
        return x * 2


class AsksTheExporter(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        if torch.jit.is_tracing() or torch.onnx.is_in_onnx_export() or torch.compiler.is_exporting():
            return x * 2
        return x * 2 + (x.sum() * 0)


class Sampler(nn.Module):
    """Denoising steps, with noise of a generator of its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.generator = torch.Generator().manual_seed(0)

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        for step in reversed(range(3)):
            noise = torch.randn(x.shape, generator=self.generator)
            x = self.layer(x) + noise * step / 3
        return x


class NumpyOfSizes(nn.Module):
    def inputs():
        return (torch.ones(2, 3, 4),)

    def forward(self, x):
        count = int(np.prod(x.shape[1:]))
        return x.reshape(-1, count) / np.sqrt(count)


class Locked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        self.layer = nn.Linear(3, 3)

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with self.lock:
            return self.layer(x)


class PaddedAgain(nn.Module):
    def inputs():
        return (torch.ones(3, 4, 2), torch.tensor([2, 4, 3]))

    def forward(self, x, lengths):
        rows = [x[i, :length] * 2 for i, length in enumerate(lengths)]
        return pad_sequence(rows, batch_first=True)


class FeaturesByHook(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.features = collections.OrderedDict()
        self.body[1].register_forward_hook(self._keep)

    def inputs():
        return (torch.ones(2, 3),)

    def _keep(self, module, args, out):
        self.features["relu"] = out

    def forward(self, x):
        y = self.body(x)
        return y, self.features["relu"]


class SameNoise(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            noise = torch.randn_like(x)
        return x + noise


def settled(new, old):
    return (new - old).abs().max() < 1e-2


class FixedPoint(nn.Module):
    """A layer is applied until nothing changes."""

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        z, steps = torch.zeros_like(x), 0
        while steps < 20:
            new = torch.tanh(0.3 * z + x)
            steps += 1
            if settled(new, z):
                break
            z = new
        return new


class Decoded(nn.Module):
    """Best path of a CTC head: repeated labels and blanks are left out."""

    def inputs():
        return (torch.tensor([[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.2, 0.7, 0.1], [0.0, 0.1, 0.9]]),)

    def forward(self, logits):
        labels = torch.unique_consecutive(logits.argmax(-1))
        return [int(label) for label in labels if label != 0]


class TwoStage(nn.Module):
    """Proposals of the first stage are sorted and cut by the second."""

    def inputs():
        return (torch.rand(6, 4), torch.tensor([0.3, 0.9, 0.1, 0.8, 0.5, 0.7]))

    def forward(self, boxes, scores):
        best = sorted(zip(scores.tolist(), range(len(scores)), strict=True), reverse=True)[:3]
        kept = boxes[[index for _, index in best]]
        corners = kept[:, 2:] - kept[:, :2]
        return kept, corners.prod(1)


class Skip(nn.Module):
    """Sizes of both paths are made the same: nothing stops a capture."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 3, 2, 1), nn.ConvTranspose2d(4, 3, 2, 2)

    def inputs():
        return (torch.ones(2, 3, 9, 9),)

    def forward(self, x):
        y = self.up(self.down(x))
        dy, dx = x.size(2) - y.size(2), x.size(3) - y.size(3)
        return torch.cat([x, F.pad(y, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])], dim=1)


class FallsBack(nn.Module):
    """What is not there is made when it is asked for."""

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        for i in range(2):
            name = f"scale{i}"
            try:
                x = x * getattr(self, name)
            except AttributeError:
                setattr(self, name, i + 2)
        return x
