/** A model that torch.fx and torch.export refuse, and that torch.compile runs in three graphs. */
export const BREAKS = `import torch
from torch import nn


# fxlens: Net() <- torch.randn(4, 3)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        x = self.fc(x)
        if x.sum() > 0:
            x = x + 1
        print("mean", x.shape)
        return x.reshape(x.shape[0], -1)
`;
