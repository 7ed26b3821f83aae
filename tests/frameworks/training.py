# SPDX-License-Identifier: Apache-2.0
"""Usage: training.py torch|torchgraph|cupy|jax

Trains a model for some seconds, so that the VM can be suspended meanwhile, and prints losses bit
for bit. Two runs on the same GPU print the same: only deterministic algorithms are used.
"""

import os
import sys

from sections import imported, run, section

BATCH, WIDTH = 512, 1024
STEPS = {"torch": 3000, "torchgraph": 40000, "cupy": 6000, "jax": 12000}
LOSSES = 20  # so many are printed


def said(losses):
    """Numbers with all their bits."""
    return [float(loss).hex() for loss in losses]


def wanted(step, steps):
    return step % (steps // LOSSES) == 0


def torch_steps(steps):
    import torch
    from torch import nn

    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    x = torch.randn(BATCH, WIDTH, device="cuda")
    y = x.sin().sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH),
                          nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1), nn.GELU(),
                          nn.Linear(WIDTH, 1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if wanted(step, steps):
            yield loss.item()


def torchgraph_steps(steps):
    """A step is captured, and launched again and again."""
    import torch
    from torch import nn

    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    x = torch.randn(BATCH, WIDTH, device="cuda")
    y = x.sin().sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH),
                          nn.Dropout(0.1), nn.Linear(WIDTH, 1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(other)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    for n in range(steps):
        graph.replay()
        if wanted(n, steps):
            yield loss.item()


def cupy_steps(steps):
    import cupy

    rng = cupy.random.default_rng(1)
    x = rng.standard_normal((BATCH, WIDTH), dtype="float32")
    y = cupy.sin(x).sum(1, keepdims=True)
    a = rng.standard_normal((WIDTH, WIDTH), dtype="float32") / 32
    b = rng.standard_normal((WIDTH, 1), dtype="float32") / 32
    for step in range(steps):
        hidden = cupy.tanh(x @ a)
        off = (hidden @ b - y) / BATCH
        inner = (off @ b.T) * (1 - hidden * hidden)
        a, b = a - 1e-3 * (x.T @ inner), b - 1e-3 * (hidden.T @ off)
        if wanted(step, steps):
            yield (off * off).sum().item()


def jax_steps(steps):
    import jax
    import jax.numpy as jnp

    x = jax.random.normal(jax.random.key(4), (BATCH, WIDTH))
    y = jnp.sin(x).sum(1, keepdims=True)
    p = [jax.random.normal(jax.random.key(5), (WIDTH, WIDTH)) / 32,
         jax.random.normal(jax.random.key(6), (WIDTH, 1)) / 32]

    def loss(p):
        return jnp.mean((jnp.tanh(x @ p[0]) @ p[1] - y) ** 2)

    @jax.jit
    def step(p):
        value, gradient = jax.value_and_grad(loss)(p)
        return [w - 1e-3 * g for w, g in zip(p, gradient)], value

    for n in range(steps):
        p, value = step(p)
        if wanted(n, steps):
            yield value


def main():
    name = sys.argv.pop(1)
    if name == "jax":  # its allocator takes no more than it needs, and it measures no algorithms
        os.environ.setdefault("JAX_PLATFORMS", "cuda")
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true "
                                           "--xla_gpu_autotune_level=0")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    make = {"torch": torch_steps, "torchgraph": torchgraph_steps, "cupy": cupy_steps,
            "jax": jax_steps}[name]
    losses = []

    @section("begins", tolerance=0)
    def begin():
        return said(make(LOSSES))

    @section(f"training: {STEPS[name]} steps", tolerance=0)
    def train():
        losses.extend(said(make(STEPS[name])))
        return losses

    imported(f"import {name}")
    run()


main()
