"""Programs run plainly and through compile(), compared to the bit."""

import tensotron as t
from tensotron.compiler import stats


def same(a, b):
    """Whether two structures of tensors are equal to the bit."""
    if isinstance(a, t.Tensor):
        return (isinstance(b, t.Tensor) and a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
                and a.requires_grad == b.requires_grad and a.detach().numpy().tobytes() == b.detach().numpy().tobytes())
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and (a == b or a != a)


def frozen(x):
    """A copy of a structure that later calls do not change."""
    if isinstance(x, t.Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    if isinstance(x, list | tuple):
        return type(x)([frozen(item) for item in x])
    if isinstance(x, dict):
        return type(x)([(key, frozen(item)) for key, item in x.items()])
    return x


def run(program, compiled):
    """What a program yields, and the figures of the functions that it compiles."""
    made = []

    def compile_(fn):
        if not compiled:
            return fn
        made.append(t.compile(fn))
        return made[-1]

    t.manual_seed(0)
    out = [frozen(x) for x in program(compile_)]
    return out, [stats(fn) for fn in made]


def check(program, captures=None, eager=0):
    """Compares a program with its compiled self. `captures`: of the first function; None: any number. Figures of it."""
    want, _ = run(program, False)
    got, figures = run(program, True)
    assert len(got) == len(want)
    for k, (a, b) in enumerate(zip(got, want)):
        assert same(a, b), f"yield {k}: {a} instead of {b}"
    if captures is not None:
        assert figures[0]["captures"] == captures and figures[0]["eager_calls"] == eager, figures[0]
        assert figures[0]["replays"] > 0 or not captures
    return figures[0]


def refused(program, reason):
    """Checks a program whose function cannot be captured for that reason."""
    figures = check(program)
    assert figures["captures"] == 0 and reason in figures["reason"], figures
