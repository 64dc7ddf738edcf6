"""Trains a tiny language model on batches from standard input: an Arrow IPC stream, one record batch a step.

    pip install torch pyarrow
    seqio -f examples/quickstart/seqio.toml stream docs --batch-size 8 --lengths 256 --steps 100 --format arrow \
        | python examples/pytorch_stdin.py
"""
import sys

import pyarrow as pa
import torch
from torch import nn

VOCABULARY, WIDTH = 50257, 64
embed, head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
block = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=256, dropout=0.0, batch_first=True)
place = nn.Embedding(4096, WIDTH)
optimizer = torch.optim.AdamW([p for m in (embed, place, block, head) for p in m.parameters()], lr=1e-3)

stream = pa.ipc.open_stream(sys.stdin.buffer)
step = int(stream.schema.metadata[b"seqio.first_step"])
for step, batch in enumerate(stream, start=step):
    tokens = lambda name: torch.tensor(batch[name].flatten().to_numpy()).view(len(batch), -1)  # rows x length
    inputs, targets = tokens("decoder_input_tokens"), tokens("decoder_target_tokens").long()
    segments, positions = tokens("decoder_segment_ids"), tokens("decoder_positions")
    # A token sees the tokens of its own document that came before it, and itself.
    sees = (segments[:, :, None] == segments[:, None, :]).tril()
    hidden = block(embed(inputs) + place(positions), src_mask=~sees.repeat_interleave(4, dim=0))
    losses = nn.functional.cross_entropy(head(hidden).flatten(0, 1), targets.flatten(), reduction="none")
    weights = tokens("decoder_loss_weights").flatten()
    loss = (losses * weights).sum() / weights.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.3f}", flush=True)
