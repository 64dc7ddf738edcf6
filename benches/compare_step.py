"""The training step of `trainer/benches/step.rs` in JAX and in PyTorch, on the processor: tokens per wall and CPU second.

    pip install "jax[cpu]" torch numpy
    python benches/compare_step.py jax torch
"""

import math
import sys
import time

import numpy as np

ROWS, LENGTH, VOCABULARY = 8, 256, 4096
EMB, HEADS, KV, MLP, LAYERS = 256, 4, 64, 1024, 4
STEPS = 8


def batch():
    i = np.arange(ROWS * LENGTH, dtype=np.int64)
    targets = 1 + (i * 7919 + (i // 13) * 104_729) % (VOCABULARY - 1)
    inputs = np.roll(targets, 1)
    inputs[::LENGTH] = 0
    return inputs.reshape(ROWS, LENGTH).astype(np.int32), targets.reshape(ROWS, LENGTH).astype(np.int32)


def buckets():
    """T5's causal buckets of key - query."""
    distance = np.maximum(np.arange(LENGTH)[:, None] - np.arange(LENGTH)[None, :], 0)
    large = 16 + (np.log(np.maximum(distance, 1) / 16) / math.log(128 / 16) * 16).astype(np.int64)
    return np.where(distance < 16, distance, np.minimum(large, 31))


def shapes():
    named = {"embedding": (VOCABULARY, EMB), "relpos": (HEADS, 32), "norm": (EMB,)}
    for layer in range(LAYERS):
        for name, shape in {
            "norm_a": (EMB,), "q": (EMB, HEADS * KV), "k": (EMB, HEADS * KV), "v": (EMB, HEADS * KV),
            "o": (HEADS * KV, EMB), "norm_m": (EMB,), "wi_0": (EMB, MLP), "wi_1": (EMB, MLP), "wo": (MLP, EMB),
        }.items():
            named[f"{name}{layer}"] = shape
    return named


def first_values():
    random = np.random.default_rng(0)
    values = {}
    for name, shape in shapes().items():
        if name.startswith("norm"):
            values[name] = np.ones(shape, np.float32)
        else:
            scale = 1.0 if name == "embedding" else shape[0] ** -0.5
            if name.startswith("q"):
                scale /= KV ** 0.5
            values[name] = (random.standard_normal(shape) * scale).astype(np.float32)
    return values


def report(name, step):
    step()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        loss = step()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    tokens = STEPS * ROWS * LENGTH
    print(f"{name}: {tokens / wall:.0f} tokens/s, {tokens / cpu:.0f} tokens a CPU second, "
          f"{1e3 * wall / STEPS:.1f} ms a step, loss {loss:.4f}")


def with_jax():
    import jax
    import jax.numpy as jnp

    inputs, targets = map(jnp.asarray, batch())
    bucket, causal = jnp.asarray(buckets()), jnp.tril(jnp.ones((LENGTH, LENGTH), bool))

    def norm(x, scale):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    def loss(p):
        x = p["embedding"][inputs]
        bias = p["relpos"][:, bucket][None] + jnp.where(causal, 0.0, -1e10)
        for i in range(LAYERS):
            h = norm(x, p[f"norm_a{i}"])
            q, k, v = ((h @ p[f"{n}{i}"]).reshape(ROWS, LENGTH, HEADS, KV) for n in "qkv")
            weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias)
            x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(ROWS, LENGTH, HEADS * KV) @ p[f"o{i}"]
            h = norm(x, p[f"norm_m{i}"])
            x = x + (jax.nn.gelu(h @ p[f"wi_0{i}"]) * (h @ p[f"wi_1{i}"])) @ p[f"wo{i}"]
        logits = norm(x, p["norm"]) / EMB ** 0.5 @ p["embedding"].T
        log_z = jax.nn.logsumexp(logits, -1)
        target = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
        return jnp.mean(log_z - target + 1e-4 * log_z ** 2)

    @jax.jit
    def update(p, m, v, t):
        value, g = jax.value_and_grad(loss)(p)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        p = jax.tree.map(
            lambda p, m, v: p - 1e-3 * (m / (1 - 0.9 ** t) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8) + 1e-4 * p), p, m, v)
        return p, m, v, value

    p = {name: jnp.asarray(value) for name, value in first_values().items()}
    state = [p, jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), 0]

    def step():
        state[3] += 1
        *state[:3], value = update(*state[:3], float(state[3]))
        return float(value)

    report(f"JAX {jax.__version__}", step)


def with_torch():
    import torch
    from torch.nn import functional as F

    inputs, targets = (torch.from_numpy(a).long() for a in batch())
    bucket, causal = torch.from_numpy(buckets()), torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool))
    mask = torch.where(causal, 0.0, -1e10)
    p = {name: torch.from_numpy(value).requires_grad_() for name, value in first_values().items()}
    optimizer = torch.optim.AdamW(p.values(), lr=1e-3, weight_decay=1e-4)

    def norm(x, scale):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * scale

    def step():
        x = F.embedding(inputs, p["embedding"])
        bias = p["relpos"][:, bucket][None] + mask
        for i in range(LAYERS):
            h = norm(x, p[f"norm_a{i}"])
            q, k, v = ((h @ p[f"{n}{i}"]).view(ROWS, LENGTH, HEADS, KV).transpose(1, 2) for n in "qkv")
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(ROWS, -1, -1, -1), scale=1.0)
            x = x + y.transpose(1, 2).reshape(ROWS, LENGTH, HEADS * KV) @ p[f"o{i}"]
            h = norm(x, p[f"norm_m{i}"])
            x = x + (F.gelu(h @ p[f"wi_0{i}"], approximate="tanh") * (h @ p[f"wi_1{i}"])) @ p[f"wo{i}"]
        logits = norm(x, p["norm"]) / EMB ** 0.5 @ p["embedding"].T
        log_z = torch.logsumexp(logits, -1)
        loss = (log_z - logits.gather(-1, targets[..., None])[..., 0] + 1e-4 * log_z ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    report(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", step)


for wanted in sys.argv[1:] or ["jax", "torch"]:
    {"jax": with_jax, "torch": with_torch}[wanted]()
