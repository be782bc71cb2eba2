"""Programs whose spans are checked: each line ends with what its operations must cover, in the order of the nodes."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.weight = nn.Parameter(torch.ones(2))
        self.layers = nn.Sequential(nn.ReLU(), nn.Tanh())

    def forward(self, x):
        y = self.linear(x) * self.weight  #: self.linear(x) | self.weight | self.linear(x) * self.weight
        return self.layers(y)  #: self.layers(y) | self.layers(y)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor, scale=2, *rest, key=None, **options):
        a, _ = x.shape  #: x.shape | a, _ | a, _
        é = x.view(a, -1) + x.size(0); z = é - 1  # noqa: E702 #: x.view(a, -1) | x.size(0) | x.view(a, -1) + x.size(0) | é - 1
        z = F.relu(torch.cat([z, z], dim=1))  #: torch.cat([z, z], dim=1) | F.relu(torch.cat([z, z], dim=1))
        z = z[0, 1:] if scale is not None else z  #: z[0, 1:]
        z = -z ** 2  #: z ** 2 | -z ** 2
        z += 3  #: z += 3
        w = [v * z for v in (1, 2)]  #: v * z | v * z
        u = z.mT @ (lambda q: q + 1)(z)  #: q + 1 | z.mT | z.mT @ (lambda q: q + 1)(z)
        t = helper(u)
        s = generate(t)
        r = self.block(
            s + w[0]  #: s + w[0]
        )
        p = (r
             .abs()  # a remark
             .neg())
        mode = "tanh"
        p = F.gelu(
            p,
            approximate=mode
        )
        return torch.add(p, r, alpha=scale)  #: torch.add(p, r, alpha=scale)


def helper(v):
    return v * 10  #: v * 10


def generate(v):
    return sum(each(v))


def each(v):
    for i in range(2):
        yield v + i  #: v + i | v + i
