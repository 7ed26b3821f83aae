# SPDX-License-Identifier: Apache-2.0
"""JAX: jit, grad, a training loop, with its allocator's preallocation."""

import os

from sections import imported, run, section

os.environ["JAX_PLATFORMS"] = "cuda"  # and not the CPU where there is no GPU

import jax
import jax.numpy as jnp

imported("import jax")


@section("devices")
def devices():
    return [d.device_kind for d in jax.devices()] + [jax.default_backend()]


@section("jit: matmul and reduction", tolerance=1e-3)
def jit():
    a = jax.random.normal(jax.random.key(1), (512, 512))
    return [float(jax.jit(lambda x: (x @ x).sum())(a)),
            float(jax.jit(lambda x: jnp.sin(x).mean())(a))]


@section("grad", tolerance=1e-4)
def grad():
    return jax.grad(lambda w: jnp.sum((w * 3) ** 2))(jnp.arange(4.0)).tolist()


@section("convolution", tolerance=1e-2)
def convolution():
    x = jax.random.normal(jax.random.key(2), (4, 8, 32, 32))
    k = jax.random.normal(jax.random.key(3), (16, 8, 3, 3))
    return float(jnp.abs(jax.lax.conv(x, k, (1, 1), "SAME")).mean())


@section("training loop: 100 steps", tolerance=2e-2)
def train():
    x = jax.random.normal(jax.random.key(4), (256, 16))
    y = jnp.sin(x.sum(1, keepdims=True))
    p = [jax.random.normal(jax.random.key(5), (16, 64)) * 0.2,
         jax.random.normal(jax.random.key(6), (64, 1)) * 0.1]

    def loss(p):
        return jnp.mean((jnp.tanh(x @ p[0]) @ p[1] - y) ** 2)

    @jax.jit
    def step(p):
        return [w - 0.05 * g for w, g in zip(p, jax.grad(loss)(p))]

    for _ in range(100):
        p = step(p)
    return float(loss(p))


@section("linalg, FFT", tolerance=1e-3)
def linalg():
    a = jax.random.normal(jax.random.key(7), (64, 64))
    m = a @ a.T + 64 * jnp.eye(64)
    return [float(jnp.linalg.cholesky(m).sum()), float(jnp.abs(jnp.fft.fft(a)).mean())]


if __name__ == "__main__":
    run()
