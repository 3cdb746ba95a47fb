"""JAX: a compiled training step of a small network. Autotuning is off, so that two runs of the
program choose the same kernels."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true")

import jax
import jax.numpy as jnp
import numpy as np

import pace

args = pace.arguments(200)
digest = pace.new_digest()
assert jax.default_backend() == "gpu", "JAX found no GPU"
keys = jax.random.split(jax.random.PRNGKey(1), 8)
weights = [jax.random.normal(key, (128, 128)) * 0.1 for key in keys[:6]]
x = jax.random.normal(keys[6], (16, 128))
y = jax.random.normal(keys[7], (16, 128))


def loss(parameters, inputs, targets):
    for parameter in parameters[:-1]:
        inputs = jnp.tanh(inputs @ parameter)
    return jnp.mean((inputs @ parameters[-1] - targets) ** 2)


@jax.jit
def step(parameters, inputs, targets):
    gradients = jax.grad(loss)(parameters, inputs, targets)
    return [p - 0.01 * g for p, g in zip(parameters, gradients)]


def repetition(iterations):
    global weights
    with pace.launches:
        for _ in range(iterations):
            weights = step(weights, x, y)
    jax.block_until_ready(weights)
    pace.add(digest, *(np.asarray(weight) for weight in weights))


pace.run("jax_step", args, repetition, digest)
