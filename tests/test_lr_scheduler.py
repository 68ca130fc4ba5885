"""Schedules of the learning rate against PyTorch's: the same numbers to the last bit."""

import copy
import inspect
import warnings

import pytest
import torch
from _both import same

import tensotron

SCHEDULES = {
    "StepLR": [lambda s, o: s.StepLR(o, 3), lambda s, o: s.StepLR(o, step_size=5, gamma=0.5)],
    "MultiStepLR": [lambda s, o: s.MultiStepLR(o, [3, 7, 7, 12], gamma=0.2)],
    "ExponentialLR": [lambda s, o: s.ExponentialLR(o, 0.9)],
    "CosineAnnealingLR": [
        lambda s, o: s.CosineAnnealingLR(o, 10),
        lambda s, o: s.CosineAnnealingLR(o, T_max=4, eta_min=0.01),
    ],
    "LinearLR": [lambda s, o: s.LinearLR(o), lambda s, o: s.LinearLR(o, 0.1, 0.8, 12)],
    "ConstantLR": [lambda s, o: s.ConstantLR(o, factor=0.3, total_iters=7)],
    "PolynomialLR": [lambda s, o: s.PolynomialLR(o), lambda s, o: s.PolynomialLR(o, total_iters=15, power=2.5)],
    "LambdaLR": [
        lambda s, o: s.LambdaLR(o, lambda e: 0.95**e),
        lambda s, o: s.LambdaLR(o, [lambda e: 1.0 / (1 + e), lambda e: 1.0]),
    ],
    "MultiplicativeLR": [lambda s, o: s.MultiplicativeLR(o, lambda e: 0.9)],
    "CyclicLR": [
        lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=4),
        lambda s, o: s.CyclicLR(o, [0.01, 0.02], 0.1, step_size_up=3, step_size_down=5, mode="triangular2"),
        lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=4, mode="exp_range", gamma=0.9, cycle_momentum=False),
        lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, scale_fn=lambda x: 1 / x, base_momentum=[0.7, 0.8]),
    ],
    "OneCycleLR": [
        lambda s, o: s.OneCycleLR(o, max_lr=0.3, total_steps=25),
        lambda s, o: s.OneCycleLR(o, [0.3, 0.1], epochs=5, steps_per_epoch=5, anneal_strategy="linear", pct_start=0.4),
        lambda s, o: s.OneCycleLR(o, max_lr=0.3, total_steps=25, three_phase=True, cycle_momentum=False),
    ],
    "CosineAnnealingWarmRestarts": [
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 4),
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, T_mult=2, eta_min=0.01),
    ],
    "SequentialLR": [
        lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=5), s.ExponentialLR(o, 0.9)], milestones=[5]),
        lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1), s.StepLR(o, 2), s.CosineAnnealingLR(o, 5)], [3, 9]),
    ],
    "ChainedScheduler": [lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, total_iters=4), s.ExponentialLR(o, 0.9)])],
    "ReduceLROnPlateau": [
        lambda s, o: s.ReduceLROnPlateau(o, patience=2),
        lambda s, o: s.ReduceLROnPlateau(o, "max", 0.5, 1, cooldown=2, min_lr=0.02),
        lambda s, o: s.ReduceLROnPlateau(o, threshold=0.1, threshold_mode="abs", patience=0, min_lr=[0.1, 0.0]),
        lambda s, o: s.ReduceLROnPlateau(o, "max", threshold=0.1, threshold_mode="abs", patience=0),
    ],
}
CASES = [(name, k) for name, makes in SCHEDULES.items() for k in range(len(makes))]
METRICS = [1.0, 0.9, 0.85, 0.86, 0.87, 0.9, 0.84, 0.84, 0.84, 0.84, 0.5, 0.49, 0.6, 0.6, 0.6, 0.6, 0.45, 0.5, 0.5, 0.5]


def optimizer(lib, name="SGD", **options):
    p, q = (lib.zeros(2, requires_grad=True) for _ in range(2))
    if name == "SGD":
        options = {"momentum": 0.9, **options}
    return getattr(lib.optim, name)([{"params": [p]}, {"params": [q], "lr": 0.05}], **{"lr": 0.5, **options})


def advance(scheduler, k):
    scheduler.optimizer.step()
    if type(scheduler).__name__ == "ReduceLROnPlateau":
        scheduler.step(METRICS[k % 20])
    else:
        scheduler.step()


def numbers(scheduler):
    groups = [{k: v for k, v in g.items() if k != "params"} for g in scheduler.optimizer.param_groups]
    return groups, scheduler.get_last_lr()


@pytest.mark.parametrize("name,case", CASES)
def test_numbers(name, case):
    def fn(lib):
        scheduler = SCHEDULES[name][case](lib.optim.lr_scheduler, optimizer(lib))
        out = [copy.deepcopy(numbers(scheduler))]
        for k in range(24):
            advance(scheduler, k)
            out.append(copy.deepcopy(numbers(scheduler)))
        return [str(x) for x in out]

    same(fn)


@pytest.mark.parametrize("name", ["CyclicLR", "OneCycleLR"])
def test_beta1_cycles(name):
    def fn(lib):
        scheduler = SCHEDULES[name][0](lib.optim.lr_scheduler, optimizer(lib, "Adam"))
        out = []
        for k in range(10):
            advance(scheduler, k)
            out.append(str(numbers(scheduler)))
        return out

    same(fn)


@pytest.mark.parametrize("name,case", CASES)
def test_state_dict(name, case):
    def fn(lib):
        make = SCHEDULES[name][case]
        scheduler = make(lib.optim.lr_scheduler, optimizer(lib))
        for k in range(6):
            advance(scheduler, k)
        state, rates = scheduler.state_dict(), scheduler.optimizer.state_dict()
        described = sorted((k, str(v)) for k, v in state.items() if not callable(v) and k != "_scale_fn_ref")
        fresh = make(lib.optim.lr_scheduler, optimizer(lib))
        fresh.optimizer.load_state_dict(rates)
        fresh.load_state_dict(copy.deepcopy(state))
        out = []
        for k in range(6, 15):
            advance(fresh, k)
            out.append(str(numbers(fresh)))
        return described, out

    same(fn)


@pytest.mark.parametrize("name,case", [c for c in CASES if c[0] not in ("SequentialLR", "ChainedScheduler", "ReduceLROnPlateau")])
def test_state_from_pytorch(name, case):
    make = SCHEDULES[name][case]
    theirs = make(torch.optim.lr_scheduler, optimizer(torch))
    for k in range(6):
        advance(theirs, k)
    mine = make(tensotron.optim.lr_scheduler, optimizer(tensotron))
    mine.optimizer.load_state_dict(theirs.optimizer.state_dict())
    mine.load_state_dict(copy.deepcopy(theirs.state_dict()))
    for k in range(6, 15):
        advance(theirs, k)
        advance(mine, k)
        assert numbers(mine) == numbers(theirs)


@pytest.mark.parametrize("name", [n for n in SCHEDULES if n not in ("SequentialLR", "ChainedScheduler", "ReduceLROnPlateau")])
def test_epochs_by_number(name):
    def fn(lib):
        scheduler = SCHEDULES[name][0](lib.optim.lr_scheduler, optimizer(lib))
        out = []
        for epoch in (3, 4, 11, 2):
            scheduler.optimizer.step()
            scheduler.step(epoch)
            out.append(str(numbers(scheduler)))
        return out

    same(fn)


@pytest.mark.parametrize("name", ["StepLR", "LinearLR", "ExponentialLR", "CosineAnnealingLR", "ReduceLROnPlateau"])
def test_rates_that_are_tensors(name):
    def fn(lib):
        opt = lib.optim.SGD([lib.zeros(2, requires_grad=True)], lr=lib.tensor(0.5))
        rate = opt.param_groups[0]["lr"]
        scheduler = SCHEDULES[name][0](lib.optim.lr_scheduler, opt)
        out = []
        for k in range(12):
            advance(scheduler, k)
            out.append(rate.item())
        return out, opt.param_groups[0]["lr"] is rate, scheduler.get_last_lr()[0] is rate

    same(fn)


@pytest.mark.parametrize("name", list(SCHEDULES) + ["LRScheduler"])
def test_signatures(name):
    def of(lib):
        cls = getattr(lib.optim.lr_scheduler, name)
        return [(p.name, p.kind, p.default) for p in inspect.signature(cls.__init__).parameters.values()]

    assert of(tensotron) == of(torch)


def s(lib):
    return lib.optim.lr_scheduler


REFUSALS = [
    lambda lib: s(lib).StepLR(3, 3),
    lambda lib: s(lib).StepLR(optimizer(lib), 3, last_epoch=2),
    lambda lib: s(lib).LambdaLR(optimizer(lib), [len]),
    lambda lib: s(lib).MultiplicativeLR(optimizer(lib), 3),
    lambda lib: s(lib).ConstantLR(optimizer(lib), factor=1.5),
    lambda lib: s(lib).LinearLR(optimizer(lib), start_factor=0),
    lambda lib: s(lib).LinearLR(optimizer(lib), end_factor=2),
    lambda lib: s(lib).SequentialLR(optimizer(lib), [], []),
    lambda lib: s(lib).SequentialLR(optimizer(lib), [3], []),
    lambda lib: (lambda o: s(lib).SequentialLR(o, [s(lib).StepLR(o, 3)], [1]))(optimizer(lib)),
    lambda lib: (lambda o: s(lib).SequentialLR(o, [s(lib).ReduceLROnPlateau(o)], []))(optimizer(lib)),
    lambda lib: s(lib).SequentialLR(optimizer(lib), [s(lib).StepLR(optimizer(lib), 3)], []),
    lambda lib: s(lib).ChainedScheduler([]),
    lambda lib: s(lib).ReduceLROnPlateau(optimizer(lib), factor=1.0),
    lambda lib: s(lib).ReduceLROnPlateau(optimizer(lib), mode="up"),
    lambda lib: s(lib).ReduceLROnPlateau(optimizer(lib), threshold_mode="up"),
    lambda lib: s(lib).ReduceLROnPlateau(optimizer(lib), min_lr=[1]),
    lambda lib: s(lib).ReduceLROnPlateau(3),
    lambda lib: s(lib).CyclicLR(optimizer(lib), 0.1, [0.2]),
    lambda lib: s(lib).CyclicLR(optimizer(lib), 0.1, 0.2, mode="up"),
    lambda lib: s(lib).CyclicLR(optimizer(lib, "Adagrad"), 0.1, 0.2),
    lambda lib: s(lib).CosineAnnealingWarmRestarts(optimizer(lib), 0),
    lambda lib: s(lib).CosineAnnealingWarmRestarts(optimizer(lib), 2, T_mult=0),
    lambda lib: s(lib).CosineAnnealingWarmRestarts(optimizer(lib), 2, eta_min="1"),
    lambda lib: s(lib).CosineAnnealingWarmRestarts(optimizer(lib), 2).step(-1),
    lambda lib: s(lib).OneCycleLR(optimizer(lib), 0.1),
    lambda lib: s(lib).OneCycleLR(optimizer(lib), 0.1, total_steps=-1),
    lambda lib: s(lib).OneCycleLR(optimizer(lib), 0.1, epochs=0, steps_per_epoch=1),
    lambda lib: s(lib).OneCycleLR(optimizer(lib), 0.1, epochs=1, steps_per_epoch=1.5),
    lambda lib: s(lib).OneCycleLR(optimizer(lib), 0.1, total_steps=5, pct_start=2),
    lambda lib: s(lib).OneCycleLR(optimizer(lib), 0.1, total_steps=5, anneal_strategy="up"),
    lambda lib: s(lib).LRScheduler(optimizer(lib)),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals(number):
    same(REFUSALS[number])


def test_too_many_steps_of_one_cycle():
    def fn(lib):
        scheduler = s(lib).OneCycleLR(optimizer(lib), 0.1, total_steps=3)
        for k in range(5):
            advance(scheduler, k)

    same(fn)


def caught(fn):
    texts = []
    for lib in (tensotron, torch):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            fn(lib)
        texts.append([(w.category, str(w.message)) for w in seen])
    assert texts[0] == texts[1]
    return texts[0]


def test_warning_of_the_wrong_order():
    def fn(lib):
        scheduler = s(lib).StepLR(optimizer(lib), 3)
        scheduler.step()
        scheduler.step()

    assert len(caught(fn)) == 1


def test_no_warning_in_the_right_order():
    def fn(lib):
        scheduler = s(lib).StepLR(optimizer(lib), 3)
        advance(scheduler, 0)
        advance(scheduler, 1)

    assert caught(fn) == []


def test_warning_of_a_replaced_step():
    def fn(lib):
        scheduler = s(lib).StepLR(optimizer(lib), 3)
        scheduler.optimizer.step = lambda: None
        scheduler.step()

    assert len(caught(fn)) == 1


def test_warnings_of_get_lr_and_of_epochs():
    def fn(lib):
        scheduler = s(lib).StepLR(optimizer(lib), 3)
        scheduler.optimizer.step()
        scheduler.get_lr()
        scheduler.step(4)

    assert len(caught(fn)) == 2


def test_resuming_with_last_epoch():
    def fn(lib):
        opt = optimizer(lib)
        for group in opt.param_groups:
            group["initial_lr"] = group["lr"] * 2
        scheduler = s(lib).CosineAnnealingLR(opt, 10, last_epoch=4)
        out = [str(numbers(scheduler))]
        advance(scheduler, 0)
        return [*out, str(numbers(scheduler))]

    same(fn)


def test_callable_objects_keep_their_attributes():
    class Decay:
        def __init__(self):
            self.factor = 0.5

        def __call__(self, epoch):
            return self.factor**epoch

    def fn(lib):
        decay, other = Decay(), Decay()
        scheduler = s(lib).LambdaLR(optimizer(lib), decay)
        decay.factor = 0.25
        state = scheduler.state_dict()
        fresh = s(lib).LambdaLR(optimizer(lib), other)
        fresh.load_state_dict(state)
        return state["lr_lambdas"], other.factor

    same(fn)
