"""What the benchmarks decide, apart from what they measure."""

import sys
from pathlib import Path

import pytest
import torch

import tensotron as tt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
import counts  # noqa: E402
import harness  # noqa: E402
import ops  # noqa: E402
import plot  # noqa: E402

HERE = sys.version
LIMITS = {"interpreter": HERE, "paths": {"add": [1000, 1500], "view": [500, 800]}}
ELSEWHERE = {**LIMITS, "interpreter": "another build"}


@pytest.mark.parametrize(
    "limits, now, told",
    [
        (LIMITS, {"add": [1030, 1545], "view": [1, 1]}, []),
        (LIMITS, {"add": [1031, 1500], "view": [500, 800]}, ["add: 1031 instructions (own), the limit is 1000"]),
        (LIMITS, {"add": [1000, 1546], "view": [500, 800]}, ["add: 1546 instructions (all), the limit is 1500"]),
        (LIMITS, {"add": [1000, 1500]}, ["view: counted no longer"]),
        (LIMITS, {"add": [1000, 1500], "view": [500, 800], "new": [9, 9]}, []),
        (ELSEWHERE, {"add": [1000, 9999], "view": [500, 800]}, []),
        (ELSEWHERE, {"add": [1031, 1500], "view": [500, 800]}, ["add: 1031 instructions (own), the limit is 1000"]),
        ({}, {"add": [1000, 1500]}, []),
    ],
)
def test_counts_above_their_limits(limits, now, told):
    assert counts.above(limits, now) == told


def test_limits_only_fall():
    now = {"add": [900, 1600], "view": [600, 700], "new": [10, 20]}
    assert counts.lowered(LIMITS, now)["paths"] == {"add": [900, 1500], "view": [500, 700], "new": [10, 20]}
    assert counts.lowered({}, now) == {"interpreter": HERE, "paths": now}
    # another build of the interpreter says nothing about what was counted under the first
    assert counts.lowered(ELSEWHERE, now) == {
        "interpreter": "another build", "paths": {"add": [900, 1500], "view": [500, 800], "new": [10, 20]},
    }


def test_costs_are_read_without_those_of_callees(tmp_path):
    file = tmp_path / "counts.1"
    file.write_text(
        "# callgrind format\nversion: 1\npositions: line\nevents: Ir\nsummary: 24\n\n"
        "ob=/site/package/a.so\nfl=???\nfn=f\n0 5\ncob=/lib/libc.so.6\ncfn=g\ncalls=2 0 \n0 12\n0 7\n\n"
        "ob=/lib/libc.so.6\nfl=g.c\nfn=g\n10 4\nfi=h.h\n11 8\n"
    )
    assert counts.cost(file, "/site/package") == (12, 24)


@pytest.mark.filterwarnings("ignore")
def test_every_row_of_the_tables_can_be_timed():
    """And what is timed is the same in both libraries."""
    expressions = dict(ops.table(tt))
    assert len(expressions) > 110 and set(ops.CALLS) <= set(expressions)
    for name, expression in expressions.items():
        results = [eval(expression, ops.operands(lib, 8)) for lib in (tt, torch)]
        for ours, theirs in zip(*([r] if not isinstance(r, tuple) else r for r in results)):
            assert ours.tolist() == pytest.approx(theirs.tolist(), rel=1e-5, abs=1e-6), name


def test_gradients_that_can_be_timed():
    names = ops.operands(tt, 8)
    assert ops.with_gradient("T.mul(a, b)", names) == "T.autograd.grad(T.mul(a, b), (a, b,), g)"
    assert names["a"].requires_grad
    assert ops.with_gradient("T.isnan(a)", ops.operands(tt, 8)) is None


ROWS = [
    {"part": "steps", "name": "train", "unit": "us", "torch": 40.0, "tensotron": 4.0, "captured": 2.0, "floor": 1.0},
    {"part": "steps", "name": "alone", "unit": "us", "tensotron": 4.0},
    {"part": "threads", "name": "train, two threads", "unit": "share", "torch": 0.5, "tensotron": 0.9},
    {"part": "build", "name": "wheel", "note": "skipped: takes minutes"},
    {"part": "ops", "name": "add 64", "unit": "us", "size": 64, "gradient": False, "torch": 3.0, "tensotron": 0.5},
]


def test_table(capsys):
    assert harness.show(iter(ROWS)) == ROWS
    lines = {line.split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert lines["train"][1:] == ["us", "40", "4", "2", "1", "10.00", "20.00"]
    assert lines["alone"][1:] == ["us", "-", "4", "-", "-", "-", "-"]
    assert lines["train, two threads"][3:] == ["share", "0.5", "0.9", "-", "-", "-", "-"]
    assert lines["wheel"][1:] == ["skipped:", "takes", "minutes"]


def test_points_of_the_plot():
    found = dict(plot.points(ROWS))
    assert found["train"] == {"tensotron": 10.0, "captured": 20.0}
    assert found["operators of 64 elements: median"] == {"tensotron": 6.0}
    assert "alone" not in found and "train, two threads" not in found
