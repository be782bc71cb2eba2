"""Models as users report them: parts of detectors, decoders, policies and training loops."""

import json
import random
import traceback
import types
import uuid

import torch
import torch.nn.functional as F
from torch import nn


class BoxFilter(nn.Module):
    """Detection head: keep boxes above a score, return what is left."""

    def inputs():
        return (torch.rand(5, 4), torch.tensor([0.9, 0.1, 0.8, 0.2, 0.7]))

    def forward(self, boxes, scores):
        keep = scores > 0.5
        boxes, scores = boxes[keep], scores[keep]
        order = scores.argsort(descending=True)
        if len(order) > 2:
            order = order[:2]
        return boxes[order]


class ScheduledDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.tensor(0))

    def inputs():
        return (torch.rand(2, 3),)

    def forward(self, x):
        p = min(0.5, self.step.item() / 100)
        self.step += 1
        return F.dropout(x, p, self.training)


class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("ready", torch.tensor(False))

    def inputs():
        return (torch.rand(2, 3),)

    def forward(self, x):
        if not self.ready:
            self.mean.copy_(x.mean(0))
            self.ready.fill_(True)
        return x - self.mean


class GradPenalty(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def inputs():
        return (torch.rand(2, 3),)

    def forward(self, x):
        x = x.detach().requires_grad_(True)
        y = self.layer(x).sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        return grad.norm()


class JsonDump(nn.Module):
    def inputs():
        return (torch.rand(2, 3),)

    def forward(self, x):
        self.meta = json.dumps({"shape": list(x.shape)})
        return x - 1


class Identifier(nn.Module):
    def inputs():
        return (torch.rand(2, 3),)

    def forward(self, x):
        self.run = str(uuid.uuid4())
        return x * 2


class RandomChoice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def inputs():
        return (torch.rand(2, 3),)

    def forward(self, x):
        if self.training and random.random() < 2:
            return self.a(x)
        return self.b(x)


class DataRead(nn.Module):
    def inputs():
        return (torch.rand(4, 3),)

    def forward(self, x):
        index = torch.LongTensor([0, 2])
        return x[index].sum() + x.data.mean()


class Traceback(nn.Module):
    def inputs():
        return (torch.rand(4, 3),)

    def forward(self, x):
        try:
            if x.sum() > 1e9:
                raise RuntimeError("large")
        except RuntimeError:
            traceback.print_exc()
        return x * 2


class Policy(nn.Module):
    def inputs():
        return (torch.rand(2, 5),)

    def forward(self, logits):
        dist = torch.distributions.Categorical(logits=logits)
        action = dist.sample()
        return action, dist.log_prob(action), dist.entropy()


class Scatter(nn.Module):
    def inputs():
        return (torch.rand(5, 3), torch.tensor([0, 0, 1, 1, 2]))

    def forward(self, x, batch):
        size = int(batch.max()) + 1
        out = x.new_zeros(size, x.shape[1])
        return out.index_add(0, batch, x)


class MaskToList(nn.Module):
    def inputs():
        return (torch.rand(3, 4), torch.tensor([True, False, True]))

    def forward(self, x, mask):
        rows = []
        for row, keep in zip(x, mask):  # noqa: B905
            if keep:
                rows.append(row)
        return torch.stack(rows)


class NamespaceIn(nn.Module):
    def inputs():
        return (types.SimpleNamespace(image=torch.rand(2, 3)),)

    def forward(self, sample):
        return sample.image * 2


class SliceOut(nn.Module):
    def inputs():
        return (torch.rand(2, 3),)

    def forward(self, x):
        return x.sum(), x.shape, slice(0, 2)
