#!/usr/bin/env python3
"""Runs the conformance suite on the first slice and compares with the committed floor.

    conformance_floor.py                  scores
    conformance_floor.py --check          fail if an entry of the floor is lost or a score falls
    conformance_floor.py --update         raise the floor to what passes now; never lowers it

The suite (tests/conformance) runs from an empty directory, so that the installed package is
imported. The floor (tests/conformance_floor.json) names, for every suite, the entries that pass,
and holds the share of checks that pass.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUITE = HERE / "conformance"
FLOOR = HERE / "conformance_floor.json"


def names(file):
    lines = (SUITE / file).read_text().split("\n")
    return [n.strip() for n in lines if n.strip() and not n.startswith("#")]


RNG = ["rand", "randn", "randint", "randperm", "normal", "normal_", "uniform_", "bernoulli"]
RNG += ["bernoulli_", "random_", "dropout", "sequence", "generator", "utils.data"]
# the modules that exist; a name takes in its variants
MODULES = """Linear Bilinear Identity Flatten Unflatten Embedding Conv1d Conv2d BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm
GroupNorm RMSNorm MaxPool1d MaxPool2d AvgPool1d AvgPool2d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool1d
AdaptiveMaxPool2d Dropout Dropout1d Dropout2d AlphaDropout ReLU ReLU6 RReLU LeakyReLU PReLU ELU CELU SELU GELU GLU SiLU Mish
Sigmoid Tanh LogSigmoid Softmax Softmax2d LogSoftmax Softmin Softplus Softshrink Softsign Tanhshrink Hardshrink Hardsigmoid
Hardswish Hardtanh Threshold L1Loss MSELoss SmoothL1Loss HuberLoss CrossEntropyLoss NLLLoss KLDivLoss BCELoss
BCEWithLogitsLoss Sequential ModuleList ModuleDict ParameterList""".split()
MODULES += """ZeroPad1d ZeroPad2d ZeroPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d ReflectionPad2d
ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d CircularPad1d CircularPad2d CircularPad3d InstanceNorm1d
InstanceNorm2d LocalResponseNorm LPPool1d LPPool2d CosineEmbeddingLoss MarginRankingLoss HingeEmbeddingLoss GaussianNLLLoss
PoissonNLLLoss SoftMarginLoss MultiMarginLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss TripletMarginLoss PixelShuffle
PixelUnshuffle ChannelShuffle CosineSimilarity PairwiseDistance""".split()
MODULES += ["Sequential CNN", "Module behaviour"]

# all but LBFGS, in whose long runs roundings grow beyond the tolerance
OPTIM = """SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam Rprop ASGD StepLR MultiStepLR ExponentialLR
CosineAnnealingLR LinearLR ConstantLR PolynomialLR LambdaLR MultiplicativeLR CyclicLR OneCycleLR
CosineAnnealingWarmRestarts ReduceLROnPlateau SequentialLR ChainedScheduler""".split()

CAPTURED = """mlp_sgd mlp_momentum mlp_adam mlp_adamw mlp_rmsprop cnn_step gradient_clipping dropout_masks batch_norm scheduler
learning_rate_by_hand adam_step_count optimizer_state_loaded target_network accumulation zero_grad_to_none
zero_grad_to_zero scalar_argument scalar_in_update shape_change dtype_change stride_change same_tensor_twice
bool_argument data_dependent_branch item_in_function nested_arguments argument_changed_in_place captured_tensor
parameter_changed_outside parameters_loaded train_and_eval two_functions compiled_and_eager output_structures
results_kept results_changed_by_caller result_differentiated_outside inference reused_input_buffer random_numbers
noise_in_training exception_inside nested_functions graph_not_kept""".split()

# suite -> (script, option that takes the entries, entries, further options)
SUITES = {
    "opinfo": ("opinfo.py", "--ops", names("seed_ops.txt"), ["--double"]),
    "special": ("special.py", "--only", names("seed_special.txt"), []),
    "rng": ("rng.py", "--only", RNG, []),
    "modules": ("modules.py", "--only", MODULES, []),
    "optim": ("optim.py", "--only", OPTIM, []),
    "captured": ("captured_steps.py", "--only", CAPTURED, []),
}


def run(suite, args):
    """The report of one suite; None if it ended without one."""
    script, option, entries, more = SUITES[suite]
    if args.only:
        entries = [e for e in entries if e in args.only.split(",")]
        if not entries:
            return {"results": {}}
    command = [sys.executable, str(SUITE / script), "--lib", args.lib, "--isolate"]
    command += ["--jobs", str(args.jobs), "--time-limit", str(args.time_limit)]
    command += [option, ",".join(entries), *more]
    if args.list_failures:
        command.append("--list-failures")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    env.pop("PYTHONPATH", None)
    if args.path:
        env["PYTHONPATH"] = os.path.abspath(args.path)
    with tempfile.TemporaryDirectory() as empty:
        report = Path(empty, "report.json")
        print(f"\n== conformance: {suite}", flush=True)
        subprocess.run([*command, "--out", str(report)], cwd=empty, env=env, check=False)
        return json.loads(report.read_text()) if report.exists() else None


def score(report):
    """What the floor remembers of a report."""
    passing, checks = [], [0, 0]
    for name, result in report["results"].items():
        apart = result.get("apart", {})
        if result["status"] == "pass":
            passing.append(name)
        # categories that the suite counts apart are entries of their own here
        passing += [f"{name} [{k}]" for k, (p, t) in apart.items() if t and p == t]
        for p, t in [*result["counts"].values(), *apart.values()]:
            checks[0] += p
            checks[1] += t
    return {"passing": sorted(passing), "checks": checks}


def entries(report):
    for name, result in report["results"].items():
        if result["status"] != "empty":
            yield name
        yield from (f"{name} [{k}]" for k in result.get("apart", {}))


def share(checks):
    return checks[0] / checks[1] if checks[1] else 0.0


def compare(suite, floor, now):
    """What is lost against the floor, as sentences."""
    lost = sorted(set(floor["passing"]) - set(now["passing"]))
    told = [f"{suite}/{name}: passes in the floor, fails now" for name in lost]
    if share(now["checks"]) < share(floor["checks"]):
        told.append(
            f"{suite}: {now['checks'][0]}/{now['checks'][1]} checks pass, "
            f"{floor['checks'][0]}/{floor['checks'][1]} in the floor"
        )
    return told


def merge(floor, now):
    best = max(floor["checks"], now["checks"], key=share)
    return {"passing": sorted({*floor["passing"], *now["passing"]}), "checks": best}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if an entry or a score is lost")
    parser.add_argument("--update", action="store_true", help="raise the floor")
    parser.add_argument("--lib", default="tensotron")
    parser.add_argument("--path", help="directory to import the library from")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--only", help="comma-separated entries")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=120, help="seconds for an entry")
    parser.add_argument("--list-failures", action="store_true")
    args = parser.parse_args()
    if args.only and (args.check or args.update):
        parser.error("--only gives no scores to compare")

    began = time.time()
    floor = json.loads(FLOOR.read_text()) if FLOOR.exists() else {}
    lost, lines, passed, failed = [], [], 0, 0
    for suite in args.suites.split(","):
        report = run(suite, args)
        if report is None:
            lost.append(f"{suite}: ended without a report")
            continue
        now = score(report)
        all_entries = set(entries(report))
        missing = sorted(all_entries - set(now["passing"]))
        lines.append(
            f"{suite:8s} {len(now['passing'])}/{len(all_entries)} entries, "
            f"{now['checks'][0]}/{now['checks'][1]} checks"
            + (f"; not passing: {', '.join(missing)}" if missing else "")
        )
        before = floor.get(suite, {"passing": [], "checks": [0, 1]})
        lost_here = [] if args.only else compare(suite, before, now)
        lost += lost_here
        passed += len(now["passing"])
        # without --check everything that fails counts, with it what the floor says
        failed += len(lost_here) if args.check else len(missing)
        floor[suite] = merge(before, now)

    print("\n== conformance: summary")
    for line in lines:
        print("   " + line)
    for line in lost:
        print("LOST " + line)
    if args.update:
        if lost:
            print("the floor is not raised while something of it is lost")
        else:
            FLOOR.write_text(json.dumps(floor, indent=1) + "\n")
            print(f"floor written: {FLOOR.name}")
    failed = max(failed, len(lost)) if args.check else failed
    print(f"== conformance: {passed} passed, {failed} failed in {time.time() - began:.1f}s ==")
    return 1 if lost or (failed and not (args.check or args.update)) else 0


if __name__ == "__main__":
    sys.exit(main())
