#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's caching allocator beside bench-gpu: allocation and release, and the steps of
bench-shapes in the same order of ops with the same lengths. One JSON object a line.

usage: torch_peer.py LENGTHS [--quick]
Whether segments expand is said by PYTORCH_CUDA_ALLOC_CONF, before the start.
"""
import csv
import json
import os
import statistics
import sys
import time

import torch

LAYERS, WIDTH, HEADS, INNER, VOCABULARY = 3, 256, 4, 768, 512
HEAD_WIDTH = WIDTH // HEADS
MAX_LENGTH, MAX_BATCH = 4096, 4
STEPS, WARM, QUICK_STEPS, QUICK_WARM, QUICK_SHARE = 240, 40, 2, 1, 1024


def report(**row):
    row["torch"] = torch.__version__
    row["conf"] = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    print(json.dumps(row), flush=True)


def time_pairs(size, pairs=64, rounds=21):
    """Nanoseconds of an allocation and its release, as bytes and as a tensor; Python's share is in them."""
    plain, tensors = [], []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(pairs):
            pointer = torch.cuda.caching_allocator_alloc(size)
            torch.cuda.caching_allocator_delete(pointer)
        plain.append((time.perf_counter_ns() - start) / pairs)
    empty = torch.empty
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(pairs):
            empty(size // 4, device="cuda")
        tensors.append((time.perf_counter_ns() - start) / pairs)
    return statistics.median(plain), statistics.median(tensors)


def rope(x, positions):
    """Turns neighbouring pairs of [batch, length, heads, head width]."""
    half = x.shape[-1] // 2
    steps = torch.arange(half, device=x.device, dtype=torch.float32)
    angles = positions[:, None].float() * torch.pow(10000.0, -steps / half)
    cos, sin = angles.cos()[:, None, :], angles.sin()[:, None, :]
    pairs = x.view(*x.shape[:-1], half, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).view(x.shape)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


class Block:
    def __init__(self):
        torch.manual_seed(1)
        matrix = lambda rows, columns: (torch.rand(rows, columns, device="cuda") * 2 - 1) * 0.1
        self.embedding = torch.rand(VOCABULARY, WIDTH, device="cuda") * 2 - 1
        self.layers = [
            {
                "q": matrix(WIDTH, WIDTH),
                "k": matrix(WIDTH, WIDTH),
                "v": matrix(WIDTH, WIDTH),
                "o": matrix(WIDTH, WIDTH),
                "gate": matrix(INNER, WIDTH),
                "up": matrix(INNER, WIDTH),
                "down": matrix(WIDTH, INNER),
                "attention_norm": torch.rand(WIDTH, device="cuda") * 2 - 1,
                "feed_norm": torch.rand(WIDTH, device="cuda") * 2 - 1,
            }
            for _ in range(LAYERS)
        ]

    def attention(self, layer, x, positions, mask):
        batch, length, _ = x.shape
        shape = (batch, length, HEADS, HEAD_WIDTH)
        q = torch.nn.functional.linear(x, layer["q"]).view(shape)
        k = torch.nn.functional.linear(x, layer["k"]).view(shape)
        v = torch.nn.functional.linear(x, layer["v"]).view(shape).transpose(1, 2)
        q = rope(q, positions).transpose(1, 2)
        k = rope(k, positions).transpose(1, 2)
        scores = q @ k.transpose(2, 3)
        del q, k
        scores.mul_(0.125)
        scores.add_(mask)
        scores = torch.softmax(scores, -1)
        seen = scores @ v
        del scores, v
        joined = seen.transpose(1, 2).reshape(batch, length, WIDTH)
        del seen
        return torch.nn.functional.linear(joined, layer["o"])

    def feed_forward(self, layer, x):
        gate = torch.nn.functional.linear(x, layer["gate"])
        up = torch.nn.functional.linear(x, layer["up"])
        gate = torch.nn.functional.silu(gate, inplace=True)
        gate.mul_(up)
        del up
        return torch.nn.functional.linear(gate, layer["down"])

    def run(self, batch, length):
        ids = (torch.arange(batch * length, device="cuda") * 7919 % VOCABULARY).view(batch, length)
        positions = torch.arange(length, device="cuda")
        mask = torch.full((length, length), float("-inf"), device="cuda").triu_(1)
        x = torch.nn.functional.embedding(ids, self.embedding)
        for layer in self.layers:
            normed = rms_norm(x, layer["attention_norm"])
            seen = self.attention(layer, normed, positions, mask)
            del normed
            x.add_(seen)
            del seen
            normed = rms_norm(x, layer["feed_norm"])
            fed = self.feed_forward(layer, normed)
            del normed
            x.add_(fed)
            del fed
        return x


def run_shapes(path, is_quick):
    with open(path, encoding="ascii") as file:
        lengths = [min(int(row["ContextTokens"]), MAX_LENGTH) for row in csv.DictReader(file)]
    block = Block()
    steps, warm = (QUICK_STEPS, QUICK_WARM) if is_quick else (STEPS, WARM)
    reserved, live, seconds = [], [], []
    for step in range(steps):
        length = lengths[step % len(lengths)]
        if is_quick:
            length = 1 + length // QUICK_SHARE
        before = torch.cuda.memory_reserved()
        base = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        states = block.run(1 + 7 * step % MAX_BATCH, length)
        torch.cuda.synchronize()
        if step >= warm:
            seconds.append(time.perf_counter() - start)
            reserved.append(before)
            live.append(torch.cuda.max_memory_allocated() - base)
        del states
    mib = 1048576
    report(
        part="shapes",
        mean_reserved_mib=sum(reserved) / len(reserved) / mib,
        mean_live_peak_mib=sum(live) / len(live) / mib,
        reserved_over_live=sum(reserved) / sum(live),
        most_reserved_mib=torch.cuda.max_memory_reserved() / mib,
        step_ms=1e3 * sum(seconds) / len(seconds),
    )


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    is_quick = "--quick" in sys.argv[2:]
    torch.backends.cuda.matmul.allow_tf32 = False
    with torch.inference_mode():
        for size in (64 << 10, 1 << 20, 16 << 20, 256 << 20):
            plain, tensor = time_pairs(size)
            report(part="allocation", kib=size >> 10, allocator_ns=plain, empty_tensor_ns=tensor)
        run_shapes(sys.argv[1], is_quick)


if __name__ == "__main__":
    main()
