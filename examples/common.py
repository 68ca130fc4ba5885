"""What the small examples share: options, a progress bar, pictures."""

import argparse
import importlib
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # nets this small lose by threads, in either library


def need(name):
    try:
        return importlib.import_module(name)
    except ImportError as e:
        sys.exit(f"{e}; the examples need: pip install 'tensotron[examples]'")


def options(description, steps, compiles=False):
    """(torch, the parsed options): the library that --lib names, in the state of --seed."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--lib", default="tensotron", help="tensotron or torch")
    parser.add_argument("--steps", type=int, default=steps, help=f"of training ({steps})")
    parser.add_argument("--seed", type=int, default=0)
    picture = os.path.splitext(os.path.basename(sys.argv[0]))[0] + ".png"
    parser.add_argument("--plot", default=picture, metavar="PNG", help=f"where the picture goes ({picture})")
    if compiles:
        parser.add_argument("--compile", action="store_true", help="record the update once, then replay it")
    args = parser.parse_args()
    torch = importlib.import_module(args.lib)
    torch.manual_seed(args.seed)
    return torch, args


def progress(steps):
    """Yields 0, 1, ... and a function that shows numbers beside the bar."""
    bar = need("tqdm").tqdm(total=steps, unit=" steps", mininterval=0.5)
    began = time.perf_counter()
    numbers = {}

    def show(**named):
        numbers.update((name, f"{value:.4g}") for name, value in named.items())
        bar.set_postfix(numbers, refresh=False)

    for step in range(steps):
        yield step, show
        bar.update()
    bar.close()
    text = ", ".join(f"{name} {value}" for name, value in numbers.items())
    print(f"{steps} steps in {time.perf_counter() - began:.1f} s: {text}")


class Picture:
    """with Picture(path, columns) as axes: draw."""

    def __init__(self, path, columns=1):
        self.path = path
        need("matplotlib").use("Agg")
        self.figure, self.axes = need("matplotlib.pyplot").subplots(1, columns, figsize=(5.5 * columns, 4.5))

    def __enter__(self):
        return self.axes

    def __exit__(self, kind, *_):
        if kind is None:
            self.figure.tight_layout()
            self.figure.savefig(self.path, dpi=120)
            print(f"plot: {self.path}")


def plane(torch, low, high, count):
    """The points of a grid over a square, [count * count, 2], and its coordinates for drawing."""
    line = torch.linspace(low, high, count)
    y, x = line[:, None].expand(count, count), line.expand(count, count)
    return torch.stack([x.flatten(), y.flatten()], 1), line.tolist()


def must(condition, text):
    if not condition:
        sys.exit(f"it did not learn: {text}")
