"""Batch normalisation."""

from tensotron import empty, ones, zeros
from tensotron._core.dtype import int64
from tensotron.nn import functional as F
from tensotron.nn import init
from tensotron.nn.modules.module import Module
from tensotron.nn.parameter import Parameter

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"]


class _NormBase(Module):
    """Weight, bias and running statistics of num_features channels."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None,
                 *, bias=True):
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(empty(num_features, device=device, dtype=dtype)) if wanted else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", zeros((), device=device, dtype=int64) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self):
        """Sets the running mean to 0, the variance to 1 and the number of batches to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Sets weight, bias and running statistics to their initial values."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        version = local_metadata.get("version")
        if self.track_running_stats and (version is None or version < 2):  # which did not count the batches
            count = self.num_batches_tracked
            state_dict.setdefault(prefix + "num_batches_tracked", zeros((), dtype=int64) if count is None else count)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input):
        self._check_input_dim(input)
        training, momentum = self.training, self.momentum
        if training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # cumulative average
                momentum = 1.0 / float(self.num_batches_tracked)
        mean, var = self.running_mean, self.running_var
        if training and not self.track_running_stats:
            use_mean, use_var = None, None
        else:
            use_mean, use_var = mean, var
        return F.batch_norm(input, use_mean, use_var, self.weight, self.bias, training or (mean is None and var is None),
                            0.0 if momentum is None else momentum, self.eps)


def _need_dim(input, *dims):
    if input.dim() not in dims:
        raise ValueError(f"expected {' or '.join(f'{d}D' for d in dims)} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Normalises the channels of (N, C) or (N, C, L)."""

    def _check_input_dim(self, input):
        _need_dim(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises the channels of (N, C, H, W)."""

    def _check_input_dim(self, input):
        _need_dim(input, 4)


class BatchNorm3d(_BatchNorm):
    """Normalises the channels of (N, C, D, H, W)."""

    def _check_input_dim(self, input):
        _need_dim(input, 5)
