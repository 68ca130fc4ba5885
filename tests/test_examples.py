"""The examples learn; the demo goes on after SIGKILL to the same weights."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("gymnasium", reason="the examples need the extra 'examples'")
pytest.importorskip("matplotlib", reason="the examples need the extra 'examples'")
pytest.importorskip("tqdm", reason="the examples need the extra 'examples'")
pytestmark = pytest.mark.unsanitized("the examples start other processes, which are long under the sanitizers")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def command(name, *options):
    return [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, options)]


def run(tmp_path, name, *options):
    """What the example prints; it exits with a status unless it has learned."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", MPLBACKEND="Agg", MPLCONFIGDIR=str(tmp_path))
    done = subprocess.run(
        command(name, *options), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def digest(output):
    return re.search(r"sha256 (\w+)", output)[1]


SMALL = ("--steps", 6144, "--checkpoint-every", 2, "--episodes", 4, "--target", 0)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return digest(run(tmp_path_factory.mktemp("cartpole"), "cartpole_ppo", *SMALL))


def test_cartpole_is_solved(tmp_path):
    output = run(tmp_path, "cartpole_ppo", "--compile", "--steps", 32768, "--episodes", 20, "--target", 475)
    assert "greedy evaluation" in output
    assert (tmp_path / "cartpole.png").stat().st_size > 5000
    assert (tmp_path / "cartpole.pt").exists()


@pytest.mark.parametrize("mode", [(), ("--compile",)], ids=["eager", "compile"])
def test_cartpole_after_sigkill(tmp_path, uninterrupted, mode):
    checkpoint = tmp_path / "cartpole.pt"
    seen = None
    for _ in range(3):  # each time as soon as there is a newer checkpoint
        process = subprocess.Popen(
            command("cartpole_ppo", *SMALL, *mode, "--resume"), cwd=tmp_path,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        while process.poll() is None and (not checkpoint.exists() or checkpoint.stat().st_mtime_ns == seen):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        seen = checkpoint.stat().st_mtime_ns
    output = run(tmp_path, "cartpole_ppo", *SMALL, *mode, "--resume")
    assert re.search(r"resumed at step [1-9]", output)
    assert digest(output) == uninterrupted


@pytest.mark.parametrize(
    "name, options",
    [
        ("xor", ("--steps", 300)),
        ("spiral", ("--steps", 800)),
        ("regression", ("--plot", "regression.png")),
        ("digits_cnn", ("--steps", 150)),
        ("pole_cart", ("--compile",)),
        ("corridor", ("--compile", "--steps", 30)),
    ],
)
def test_example_learns(tmp_path, name, options):
    run(tmp_path, name, *options)
    assert (tmp_path / f"{name}.png").stat().st_size > 5000
