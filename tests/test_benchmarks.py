"""What the benchmarks decide, apart from what they measure."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
import counts  # noqa: E402

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
