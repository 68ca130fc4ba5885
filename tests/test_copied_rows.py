"""Copies of rows of every short length: reversed, repeated, picked by index, side by side; against PyTorch."""

import numpy as np
import pytest
import torch

import tensotron as tt

DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]
WIDTHS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100]
MADE = {
    "flip": lambda lib, x, i: x.flip(1),
    "flip rows": lambda lib, x, i: x.flip(0),
    "flip both": lambda lib, x, i: x.flip(0, 1),
    "flip of every other": lambda lib, x, i: x[:, ::2].flip(1),
    "expanded": lambda lib, x, i: x[:, :1].expand(-1, 9).contiguous(),
    "expanded twice": lambda lib, x, i: x[:, :1].unsqueeze(1).expand(-1, 3, 5).contiguous(),
    "rows of wider": lambda lib, x, i: lib.cat([x, x], 1)[:, : x.shape[1]].contiguous(),
    "cat": lambda lib, x, i: lib.cat([x, x[:, :1], x + x], 1),
    "stack": lambda lib, x, i: lib.stack([x, x + x, x], -1),
    "stack within": lambda lib, x, i: lib.stack([x, x + x], 1),
    "index_select": lambda lib, x, i: x.index_select(0, i),
    "picked": lambda lib, x, i: x[i],
    "picked by int32": lambda lib, x, i: x.index_select(0, i.int()),
    "gather": lambda lib, x, i: x.gather(0, i.unsqueeze(1).expand(-1, x.shape[1])),
    "assigned": lambda lib, x, i: x.clone().index_copy_(0, i, (x + x)[: i.shape[0]]),
    "filled": lambda lib, x, i: x.clone().index_fill_(0, i, 1),
    "added": lambda lib, x, i: x.clone().index_add_(0, i, x[: i.shape[0]]),
    "put": lambda lib, x, i: x.clone().index_put_((i,), x[0], accumulate=True),
    "scatter_add": lambda lib, x, i: x.scatter_add(0, i.unsqueeze(1).expand(-1, x.shape[1]), x[: i.shape[0]]),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MADE)
def test_rows(name, dtype):
    rs = np.random.RandomState(1)
    for width in WIDTHS:
        a, i = rs.randint(0, 2 if dtype == "bool" else 50, (30, width)).astype(dtype), rs.permutation(30)[:21]
        if name not in ("assigned",):
            i[3] = i[4]
        results = []
        for lib in (tt, torch):
            y = MADE[name](lib, lib.tensor(a), lib.tensor(i))
            results.append((str(y.dtype), y.shape, y.numpy().tobytes()))
        assert results[0] == results[1], width


@pytest.mark.parametrize("dtype", DTYPES)
def test_fill(dtype):
    for value in (0, 1, True):
        results = []
        for lib in (tt, torch):
            x = lib.zeros((40, 70), dtype=getattr(lib, dtype))
            x.fill_(value)
            x[:, :5].fill_(0)
            x[::2, 1::3] = value
            x[3].fill_(value)
            results.append(x.numpy().tobytes())
        assert results[0] == results[1]
