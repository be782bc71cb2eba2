// A model that lowers in parts: one of its operators has no converter.
export const ENCODER = `import torch
from torch import nn


# fxlens: Encoder() <- torch.randn(4, 16, 64)
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(64, 64)
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, x):
        q = self.norm(x + torch.tanh(self.query(x)))
        distance = torch.logcumsumexp(q @ q.mT, 1)
        y = torch.softmax(-distance, dim=-1) @ q
        return x + self.down(torch.relu(self.up(y)))
`;
