# SPDX-License-Identifier: Apache-2.0
"""A small transformer trained for 100 steps: the loss at some of them."""

from sections import imported, run, section

import torch
from torch import nn

imported("import torch")
STEPS, BATCH, LENGTH, WORDS, WIDTH = 100, 16, 64, 128, 128


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True,
                                           norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.out(self.layers(self.words(x) + self.places, mask=mask, is_causal=True))


@section("transformer: 100 steps", tolerance=2e-2)
def train():
    torch.manual_seed(1)
    model = Model().cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # The next word is a function of the last one, with a little noise.
    x = torch.randint(0, WORDS, (BATCH, LENGTH + 1))
    for i in range(1, LENGTH + 1):
        x[:, i] = torch.where(torch.rand(BATCH) < 0.9, (x[:, i - 1] * 5 + 3) % WORDS, x[:, i])
    x = x.cuda()
    losses = []
    for step in range(STEPS):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 33 == 0:
            losses.append(loss.item())
    return losses


if __name__ == "__main__":
    run(torch.cuda.synchronize)
