"""compile(module): the module, with its forward captured."""

from tensotron._core.capture import Compiled, CompiledObject, called_by_vector
from tensotron.nn import Module


@called_by_vector
class OptimizedModule(Module, CompiledObject):
    """A module whose calls are captured; members, parameters and modes are those of the original."""

    def __init__(self, module, fullgraph=False):
        super().__init__()
        self._orig_mod = module
        self._call_by(Compiled(module.__call__, fullgraph))
        self.training = module.training

    __call__ = CompiledObject.__call__

    def __reduce__(self):
        return type(self), (self._orig_mod, self._compiled.fullgraph)

    def forward(self, *args, **kwargs):
        return self._orig_mod(*args, **kwargs)

    def __getattr__(self, name):
        original = self.__dict__.get("_modules", {}).get("_orig_mod")
        if original is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return original if name == "_orig_mod" else getattr(original, name)

    def __setattr__(self, name, value):
        if name in ("_orig_mod", "training") or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)
