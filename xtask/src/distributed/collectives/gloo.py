"""A rank that adds through PyTorch's Gloo, as `reduce_rank` does through Adamant's engines: the same lines, the same numbers."""
import os
import socket
import sys
import time

import numpy as np
import torch
import torch.distributed as dist

port, cores = int(sys.argv[1]), [int(core) for core in sys.argv[2].split(",")]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
os.sched_setaffinity(0, {cores[rank % len(cores)]})
torch.set_num_threads(1)
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
dist.init_process_group("gloo", rank=rank, world_size=size)


def element(rank, n, seed):
    with np.errstate(over="ignore"):
        k = np.arange(n, dtype=np.uint64)
        x = k * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(rank << 32) ^ np.uint64((seed << 48) & (2**64 - 1))
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = x ^ (x >> np.uint64(27))
        fraction = (x >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23) - np.float32(1.0)
        return fraction * (np.uint64(1) << (x % np.uint64(12))).astype(np.float32)


def answer(way, n, rounds, seed):
    own = torch.from_numpy(element(rank, n, seed))
    if (way, n) not in judged:
        judged.add((way, n))
        tensor = own.clone()
        dist.all_reduce(tensor)
        brought = np.stack([element(r, n, seed).astype(np.float64) for r in range(size)])
        wrong = np.abs(tensor.numpy() - brought.sum(0)) > 1e-6 * np.abs(brought).sum(0)
        if wrong.any():
            raise ValueError(f"element {int(wrong.argmax())} of {n} is wrong")
        return 0.0
    # It adds in place: numbers grow, and take no longer for it.
    tensor = own
    dist.all_reduce(tensor)
    start = time.perf_counter()
    for _ in range(rounds):
        dist.all_reduce(tensor)
    return time.perf_counter() - start


judged = set()
stream = socket.create_connection(("127.0.0.1", port))
stream.sendall(f"{rank}\n".encode())
for line in stream.makefile("r"):
    way, size_in_bytes, rounds, seed = line.split()
    try:
        said = f"ok {answer(way, int(size_in_bytes) // 4, int(rounds), int(seed))!r}"
    except Exception as e:  # what went wrong is told, whatever it is
        said = f"error {e}".replace("\n", " ")
    stream.sendall(f"{said}\n".encode())
