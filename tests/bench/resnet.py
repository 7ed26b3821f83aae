# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 in plain PyTorch, as a tenant of a GPU that others use, too.

Usage: resnet.py train|find|infer AT SECONDS [RATE]

train: steps of training with batches of 64, as many as there is time for.
find:  one inference of batch 1 after the other: how many a second.
infer: inferences of batch 1 that come at random times, RATE a second on average; each has waited
       from then until its result is there.

The window begins AT, by the system's clock, and lasts SECONDS; the program begins before and ends
after that. Results are lines "name value unit".
"""

import random
import sys
import time

import torch
from torch import nn

BATCH, SIDE, CLASSES = 64, 224, 1000


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(True), nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.skip = nn.Identity() if inside == out and stride == 1 else nn.Sequential(
            nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
              nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inside, CLASSES))


def sleep_until(moment):
    time.sleep(max(0, moment - time.time()))


def train(model, at, end, device):
    model.train()
    x = torch.randn(BATCH, 3, SIDE, SIDE, device=device)
    y = torch.randint(CLASSES, (BATCH,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    steps, begin = 0, time.time()
    while begin < end + 0.5:
        step()
        over = time.time()
        if begin >= at and over <= end:
            steps += 1
        begin = over
    return [("steps", steps / (end - at), "/s")]


def infer(model, at, end, device, rate):
    model.eval()
    x = torch.randn(1, 3, SIDE, SIDE, device=device)

    def once():
        with torch.no_grad():
            model(x)
        torch.cuda.synchronize()

    for _ in range(20):
        once()
    waits, chance = [], random.Random(1)
    due = begin = time.time()
    while begin < end + 0.5:
        if rate:
            due += chance.expovariate(rate)
            sleep_until(due)
        begin = due if rate else time.time()
        once()
        over = time.time()
        if begin >= at and over <= end:
            waits.append(over - begin)
    waits.sort()
    if not rate:
        return [("rate", len(waits) / (end - at), "/s")]
    if not waits:
        sys.exit("no inference ended in the window")
    return [("inferences", len(waits), "inferences"),
            ("wait.p50", 1e6 * waits[len(waits) // 2], "us"),
            ("wait.p99", 1e6 * waits[len(waits) * 99 // 100], "us")]


def main():
    what, at, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    rate = float(sys.argv[4]) if len(sys.argv) > 4 else 0
    device = torch.device("cuda")
    torch.manual_seed(0)
    model = resnet50().to(device)
    parameters = sum(p.numel() for p in model.parameters())
    if parameters != 25557032:  # what ResNet-50 has
        sys.exit(f"the network has {parameters} parameters")
    if what == "train":
        results = train(model, at, at + seconds, device)
    elif what in ("find", "infer") and (what == "infer") == (rate > 0):
        results = infer(model, at, at + seconds, device, rate)
    else:
        sys.exit(__doc__)
    for name, value, unit in results:
        print(name, f"{value:.6g}", unit, flush=True)


main()
