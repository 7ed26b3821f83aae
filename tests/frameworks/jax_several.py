# SPDX-License-Identifier: Apache-2.0
"""JAX with all GPUs in one process: copies between them, collectives, work that is divided."""

import os

from sections import imported, run, section

os.environ["JAX_PLATFORMS"] = "cuda"  # and not the CPU where there is no GPU
os.environ["NCCL_NVLS_ENABLE"] = "0"  # no multicast object is made
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.3")

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

imported("import jax")
GPUS = jax.devices()
MESH = Mesh(GPUS, ("gpu",))
PARTS = NamedSharding(MESH, PartitionSpec("gpu"))
WHOLE = NamedSharding(MESH, PartitionSpec())


def on_each(f, parts_in, parts_out):
    """A function of the part that each GPU has."""
    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    return jax.jit(shard_map(f, mesh=MESH, in_specs=parts_in, out_specs=parts_out))


@section("devices")
def devices():
    return [len(GPUS), *(d.device_kind for d in GPUS)]


@section("copies from GPU to GPU", repeat=2)
def copies():
    x = jax.device_put(jnp.arange(1 << 20, dtype=jnp.float32), GPUS[0])
    for gpu in [*GPUS[1:], GPUS[0]]:
        x = jax.device_put(x, gpu) + 1
    return [float(x[0]), float(x[-1]), len(x.devices())]


@section("psum, all_gather, ppermute", repeat=2)
def collectives():
    spec, n = PartitionSpec("gpu"), len(GPUS)
    x = jax.device_put(jnp.arange(n * 1024, dtype=jnp.float32), PARTS)
    total = on_each(lambda x: jax.lax.psum(x, "gpu"), spec, PartitionSpec())(x)
    gathered = on_each(lambda x: jax.lax.all_gather(x, "gpu").sum(0), spec, spec)(x)
    ring = [(i, (i + 1) % n) for i in range(n)]
    moved = on_each(lambda x: jax.lax.ppermute(x, "gpu", ring), spec, spec)(x)
    return [float(total.sum()), float(gathered.sum()), float(moved[0]), float(moved[-1])]


@section("a matrix product that is divided", tolerance=1e-3, repeat=2)
def product():
    n = len(GPUS) * 512
    a = jax.device_put(jax.random.normal(jax.random.key(1), (n, n)), PARTS)
    b = jax.device_put(jax.random.normal(jax.random.key(2), (n, n)),
                       NamedSharding(MESH, PartitionSpec(None, "gpu")))
    c = jax.jit(lambda a, b: a @ b, out_shardings=PARTS)(a, b)
    return [float(jnp.abs(c).mean()), len(c.sharding.device_set)]


@section("training, the batch divided: 50 steps", tolerance=2e-2)
def training():
    x = jax.device_put(jax.random.normal(jax.random.key(4), (len(GPUS) * 128, 16)), PARTS)
    y = jnp.sin(x.sum(1, keepdims=True))
    p = jax.device_put([jax.random.normal(jax.random.key(5), (16, 64)) * 0.2,
                        jax.random.normal(jax.random.key(6), (64, 1)) * 0.1], WHOLE)

    def loss(p, x, y):
        return jnp.mean((jnp.tanh(x @ p[0]) @ p[1] - y) ** 2)

    @jax.jit
    def step(p, x, y):
        return [w - 0.05 * g for w, g in zip(p, jax.grad(loss)(p, x, y))]

    for _ in range(50):
        p = step(p, x, y)
    return float(loss(p, x, y))


if __name__ == "__main__":
    run()
