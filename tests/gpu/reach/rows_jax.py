"""Rows in JAX: compiled, operation by operation, scanned, and with optax."""

import jax
import jax.numpy as jnp
import numpy as np

from loop import Loop


def start():
    if jax.default_backend() != "gpu":
        raise ImportError("JAX found no GPU")
    keys = jax.random.split(jax.random.PRNGKey(1), 8)
    weights = [jax.random.normal(key, (128, 128)) * 0.08 for key in keys[:6]]
    return weights, jax.random.normal(keys[6], (8, 16, 128)), jax.random.normal(keys[7], (16, 128))


def loss(weights, x, y):
    for weight in weights[:-1]:
        x = jnp.tanh(x @ weight)
    return jnp.mean((x @ weights[-1] - y) ** 2)


def loop(state, advance):
    """`advance(state, i)` is the state behind step i."""
    kept = [state]

    def step(i):
        kept[0] = advance(kept[0], i)
    return Loop(step, lambda: jax.block_until_ready(kept[0]),
                lambda: [np.asarray(leaf) for leaf in jax.tree.leaves(kept[0])])


def update(weights, x, y):
    return [w - 0.05 * g for w, g in zip(weights, jax.grad(loss)(weights, x, y))]


def jitted():
    weights, x, y = start()
    step = jax.jit(update)
    return loop(weights, lambda state, i: step(state, x[i % 8], y))


def unjitted():
    weights, x, y = start()
    return loop(weights, lambda state, i: update(state, x[i % 8], y))


def scan():
    weights, x, y = start()

    @jax.jit
    def steps(state):
        return jax.lax.scan(lambda carried, one: (update(carried, one, y), None), state, x)[0]
    return loop(weights, lambda state, i: steps(state))


def optax():
    import optax as library
    weights, x, y = start()
    optimizer = library.adamw(1e-3)

    @jax.jit
    def step(state, one):
        gradients = jax.grad(loss)(state[0], one, y)
        change, kept = optimizer.update(gradients, state[1], state[0])
        return library.apply_updates(state[0], change), kept
    return loop((weights, optimizer.init(weights)), lambda state, i: step(state, x[i % 8]))
