#!/usr/bin/env python3
"""Every row of the operator tables (tensotron/_ops): us for one call on contiguous float32, one thread.

By default with 64 and with 65536 elements; --full adds 1, 4096 and a million, and gradients: the call and
autograd.grad of its result.
"""

import re
import time
from importlib import import_module
from pathlib import Path

from harness import libraries, main, repeat

# rows that are called by another name or with parameters; a, b, c float32, i, j int64, m bool
CALLS = {
    "cube": "a ** 3",
    "pow_half": "a ** 0.5",
    "pow_minus_half": "a ** -0.5",
    "pow_minus_one": "a ** -1.0",
    "pow_minus_two": "a ** -2.0",
    "pow_three_halves": "a ** 1.5",
    "pow_four": "a ** 4",
    "pow_scalar": "a ** 2.5",
    "ipow_scalar": "i ** 4",
    "ipow": "T.pow(i, j)",
    "leaky_relu_result": "F.leaky_relu(a, inplace=True)",
    "threshold": "F.threshold(a, 0.5, 0.2)",
    "log_sigmoid": "F.logsigmoid(a)",
    "prelu": "F.prelu(a, b[:1])",
    "glu": "F.glu(a, 0)",
    "elu_result": "F.elu(a, inplace=True)",
    "hardtanh_result": "F.hardtanh(a, inplace=True)",
    "gelu_tanh": "F.gelu(a, approximate='tanh')",
    "clamp": "T.clamp(a, 0.2, 0.8)",
    "clamp_min": "T.clamp(a, min=0.2)",
    "clamp_max": "T.clamp(a, max=0.8)",
    "clamp_tensor": "T.clamp(a, b, c)",
    "clamp_low_tensor": "T.clamp(a, min=b)",
    "clamp_high_tensor": "T.clamp(a, max=b)",
    "bitwise_not": "T.bitwise_not(i)",
    "bitwise_and": "T.bitwise_and(i, j)",
    "bitwise_or": "T.bitwise_or(i, j)",
    "bitwise_xor": "T.bitwise_xor(i, j)",
    "add_alpha": "T.add(a, b, alpha=3)",
    "sub_alpha": "T.sub(a, b, alpha=3)",
    "rsub_alpha": "T.rsub(a, b, alpha=2)",
    "div_floor": "T.div(a, b, rounding_mode='floor')",
    "div_trunc": "T.div(a, b, rounding_mode='trunc')",
    "where": "T.where(m, a, b)",
    "masked_fill": "a.masked_fill(m, 2.0)",
    "acosh": "T.acosh(c)",
    "sum_squares": "T.linalg.vector_norm(a)",
    "norm_1": "T.linalg.vector_norm(a, 1)",
    "norm_inf": "T.linalg.vector_norm(a, float('inf'))",
    "norm_2": "T.norm(a)",
    "logsumexp": "T.logsumexp(a, 0)",
    "mse": "F.mse_loss(a, b)",
    "l1": "F.l1_loss(a, b)",
    "smooth_l1": "F.smooth_l1_loss(a, b)",
    "huber": "F.huber_loss(a, b)",
    "bce_with_logits": "F.binary_cross_entropy_with_logits(a, b)",
}
OPERANDS = {"UNARY": "a", "BINARY": "a, b", "TERNARY": "a, b, c"}
ROUNDS = 5
MILLISECONDS = 2e-3  # of one round of one library


def table(tensotron):
    """(row, expression) of every row of every table; rows that end in _backward are derivatives of others."""
    directory = Path(tensotron.__path__[0], "_ops")
    for file in ("elementwise.def", "reduce.def", "loss.def"):
        text = re.sub(r"//.*|#.*", "", (directory / file).read_text())
        for kind, name in re.findall(r"^([A-Z_]+)\(\s*(\w+)", text, re.M):
            if not name.endswith("_backward"):
                where = "T" if hasattr(tensotron, name) else "F"
                yield name, CALLS.get(name, f"{where}.{name}({OPERANDS.get(kind, 'a')})")


def operands(T, size):
    """The names that an expression may use; the same values for every library."""
    steps = T.arange(size)
    a, b = (steps % 97 + 1) / 100.0, (steps % 89 + 1) / 90.0
    names = {"a": a, "b": b, "c": b + 1, "i": steps % 5 + 1, "j": steps % 3 + 1, "m": a > 0.5}
    return {"T": T, "F": T.nn.functional, **names, "g": T.ones(size)}


def with_gradient(expression, names):
    """The expression and its derivative, or None where there is none."""
    leaves = [name for name in "abc" if re.search(rf"\b{name}\b", expression)]
    for name in leaves:
        names[name] = names[name].clone().requires_grad_()
    statement = f"T.autograd.grad({expression}, ({', '.join(leaves)},), g)"
    try:
        eval(statement, names)
    except RuntimeError:  # not differentiable, or the result has another shape than g
        return None
    return statement


def best(runs):
    """us of one call for each library: rounds in turn, the fastest of each."""
    pc, calls, fastest = time.perf_counter, {}, dict.fromkeys(runs, float("inf"))
    for lib, run in runs.items():
        calls[lib], elapsed = 1, 0.0
        while elapsed < MILLISECONDS / 2:
            calls[lib] *= 2 if elapsed else 1
            began = pc()
            run(calls[lib])
            elapsed = pc() - began
    for _ in range(ROUNDS):
        for lib, run in runs.items():
            began = pc()
            run(calls[lib])
            fastest[lib] = min(fastest[lib], (pc() - began) / calls[lib] * 1e6)
    return fastest


def rows(full):
    libs = {lib: import_module(lib) for lib in libraries()}
    for lib in libs.values():
        if hasattr(lib, "set_num_threads"):
            lib.set_num_threads(1)
    for size in (1, 64, 4096, 65536, 1 << 20) if full else (64, 65536):
        for gradient in (False, True) if full else (False,):
            for name, expression in table(libs["tensotron"]):
                runs = {}
                for lib, T in libs.items():
                    names = operands(T, size)
                    statement = with_gradient(expression, names) if gradient else expression
                    if statement:
                        runs[lib] = repeat(statement, **names)
                if runs:
                    label = f"{name} {size}" + (" gradient" if gradient else "")
                    yield {"part": "ops", "name": label, "unit": "us", "size": size, "gradient": gradient, **best(runs)}


if __name__ == "__main__":
    main(rows, __doc__)
