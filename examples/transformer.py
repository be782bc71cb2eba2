"""A Transformer encoder of BERT-base's size (Devlin et al., 2018), in plain torch operators and traceable.

Token ids and a mask (1 for a token, 0 for padding), both (N, L), give hidden states (N, L, 768) and a pooled (N, 768).
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Embeddings(nn.Module):
    def __init__(self, vocabulary: int, positions: int, width: int, dropout: float):
        super().__init__()
        self.word = nn.Embedding(vocabulary, width, padding_idx=0)
        self.position = nn.Embedding(positions, width)
        self.segment = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids):
        places = torch.arange(ids.size(1), device=ids.device)
        x = self.word(ids) + self.position(places) + self.segment(torch.zeros_like(ids))
        return self.dropout(self.norm(x))


# fxlens: SelfAttention(768, 12, 0.1) <- torch.randn(1, 128, 768), torch.zeros(1, 1, 1, 128)
class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.head_width = width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def split_heads(self, x):
        return x.view(x.size(0), x.size(1), self.heads, self.head_width).transpose(1, 2)

    def forward(self, x, bias):
        query = self.split_heads(self.query(x))
        key = self.split_heads(self.key(x))
        value = self.split_heads(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(self.head_width) + bias
        weights = self.dropout(torch.softmax(scores, dim=-1))
        mixed = torch.matmul(weights, value).transpose(1, 2).contiguous()
        return self.out(mixed.view(x.size(0), x.size(1), self.heads * self.head_width))


# fxlens: EncoderLayer(768, 12, 3072, 0.1) <- torch.randn(1, 128, 768), torch.zeros(1, 1, 1, 128)
class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, dropout: float):
        super().__init__()
        self.attention = SelfAttention(width, heads, dropout)
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.expand = nn.Linear(width, inner)
        self.contract = nn.Linear(inner, width)
        self.output_norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, bias):
        x = self.attention_norm(x + self.dropout(self.attention(x, bias)))
        inner = F.gelu(self.expand(x))
        return self.output_norm(x + self.dropout(self.contract(inner)))


# fxlens: TransformerEncoder() <- torch.randint(0, 30522, (1, 128)), torch.ones(1, 128)
class TransformerEncoder(nn.Module):
    def __init__(
        self,
        vocabulary: int = 30522,
        positions: int = 512,
        width: int = 768,
        heads: int = 12,
        inner: int = 3072,
        layers: int = 12,
        dropout: float = 0.1,
    ):
        super().__init__()
        self.embeddings = Embeddings(vocabulary, positions, width, dropout)
        self.layers = nn.ModuleList(EncoderLayer(width, heads, inner, dropout) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids, mask):
        bias = (1.0 - mask[:, None, None, :]) * -10000.0
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x, bias)
        return x, torch.tanh(self.pooler(x[:, 0]))
