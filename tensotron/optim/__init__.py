"""Optimisers and learning-rate schedules."""

from tensotron.optim import lr_scheduler
from tensotron.optim.adadelta import Adadelta
from tensotron.optim.adagrad import Adagrad
from tensotron.optim.adam import Adam
from tensotron.optim.adamax import Adamax
from tensotron.optim.adamw import AdamW
from tensotron.optim.asgd import ASGD
from tensotron.optim.lbfgs import LBFGS
from tensotron.optim.nadam import NAdam
from tensotron.optim.optimizer import Optimizer
from tensotron.optim.radam import RAdam
from tensotron.optim.rmsprop import RMSprop
from tensotron.optim.rprop import Rprop
from tensotron.optim.sgd import SGD

__all__ = [
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop",
    "SGD", "lr_scheduler",
]
