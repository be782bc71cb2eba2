"""Operators and modules: shapes that depend on values, recurrent layers, custom functions, other libraries."""

import einops
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@torch.jit.script
def scripted(x):
    return x * 2


@torch.compiler.disable
def excluded(x):
    return x + 1


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < 1)


class Nonzero(nn.Module):
    def inputs():
        return (torch.tensor([0.0, 1.0, 2.0]),)

    def forward(self, x):
        return x.nonzero().sum()


class MaskIndex(nn.Module):
    def inputs():
        return (torch.tensor([0.0, 1.0, 2.0]),)

    def forward(self, x):
        return x[x > 0].sum()


class MaskWrite(nn.Module):
    def inputs():
        return (torch.tensor([0.0, 1.0, 2.0]),)

    def forward(self, x):
        y = x.clone()
        y[y > 1] = 0
        return y


class MaskedSelectShape(nn.Module):
    def inputs():
        return (torch.tensor([0.0, 1.0, 2.0]),)

    def forward(self, x):
        kept = x.masked_select(x > 0)
        if kept.shape[0] > 1:
            kept = kept * 2
        return kept


class MaskedNumel(nn.Module):
    def inputs():
        return (torch.tensor([0.0, 1.0, 2.0]),)

    def forward(self, x):
        kept = x[x > 0]
        if kept.numel() == 0:
            return x.sum()
        return kept.mean()


class Unique(nn.Module):
    def inputs():
        return (torch.tensor([0, 1, 1]),)

    def forward(self, x):
        return torch.unique(x).float().mean()


class OneHot(nn.Module):
    def inputs():
        return (torch.tensor([0, 1, 2]),)

    def forward(self, x):
        return nn.functional.one_hot(x).float()


class RepeatInterleave(nn.Module):
    def inputs():
        return (torch.ones(2, 3), torch.tensor([1, 2]))

    def forward(self, x, counts):
        return x.repeat_interleave(counts, 0) * 2


class Bincount(nn.Module):
    def inputs():
        return (torch.tensor([0, 1, 1]),)

    def forward(self, x):
        return torch.bincount(x) * 2


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def inputs():
        return (torch.ones(2, 5, 3),)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.head(out[:, -1])


class LstmCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def inputs():
        return (torch.ones(2, 5, 3),)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 4)
        c = torch.zeros_like(h)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return h


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4, batch_first=True)

    def inputs():
        return (torch.ones(2, 5, 3), torch.tensor([5, 3]))

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        out, _ = self.rnn(packed)
        return pad_packed_sequence(out, batch_first=True)[0]


class Scripted(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return scripted(x) + 1


class Excluded(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        x = x * 2
        x = excluded(x)
        return x * 3


class CustomFunction(nn.Module):
    def inputs():
        return (torch.ones(2, 3, requires_grad=True),)

    def forward(self, x):
        return Clip.apply(x * 2)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def inputs():
        return (torch.ones(2, 3, requires_grad=True),)

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.linear, x, use_reentrant=False)


class Einops(nn.Module):
    def inputs():
        return (torch.ones(2, 4, 3),)

    def forward(self, x):
        return einops.rearrange(x, "b (h w) c -> b c h w", h=2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def inputs():
        return (torch.ones(2, 5, 8),)

    def forward(self, x):
        return self.attention(x, x, x)[0]


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return self.linear(x)


class Mapped(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return torch.vmap(lambda row: row / row.norm())(x)


class SparseProduct(nn.Module):
    def inputs():
        return (torch.ones(3, 3),)

    def forward(self, x):
        return torch.sparse.mm(torch.eye(3).to_sparse(), x)


class PlainList(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.Linear(3, 3), nn.ReLU()]

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.seen = []
        self.linear.register_forward_hook(lambda module, args, out: self.seen.append(out))

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return self.linear(x)


class TensorHook(nn.Module):
    def inputs():
        return (torch.ones(2, 3, requires_grad=True),)

    def forward(self, x):
        y = x * 2
        y.register_hook(lambda gradient: gradient.clamp(-1, 1))
        return y.sum()


class Device(nn.Module):
    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        offset = torch.zeros(x.shape[1], device=x.device, dtype=x.dtype)
        return x + offset if x.device.type == "cpu" else x


class Pointer(nn.Module):
    def inputs():
        return (torch.ones(2, 3), torch.ones(2, 3))

    def forward(self, x, y):
        return x * 2 if x.data_ptr() == y.data_ptr() else x + y


class Resize(nn.Module):
    def inputs():
        return (torch.ones(1, 3, 8, 8),)

    def forward(self, x):
        h, w = x.shape[-2:]
        return nn.functional.interpolate(x, size=(h // 2, w // 2), mode="bilinear", align_corners=False)


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(nn.Linear(3, 3))

    def inputs():
        return (torch.ones(2, 3),)

    def forward(self, x):
        return self.inner(x) * 2
