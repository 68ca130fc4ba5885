"""compile(module): the module, with its forward captured."""

from tensotron._core.capture import Compiled, CompiledCall, compiled_calls
from tensotron.nn import Module


@compiled_calls
class OptimizedModule(Module):
    """A module whose calls are captured; members, parameters and modes are those of the original."""

    def __init__(self, module, fullgraph):
        super().__init__()
        self._orig_mod = module
        object.__setattr__(self, "_compiled", Compiled(module.__call__, fullgraph))
        self.training = module.training

    __call__ = CompiledCall()

    def forward(self, *args, **kwargs):
        return self._orig_mod(*args, **kwargs)

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name, value):
        if name in ("_orig_mod", "training") or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)
