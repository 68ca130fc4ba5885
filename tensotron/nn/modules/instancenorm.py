"""Instance normalisation."""

import warnings

from tensotron.nn import functional as F
from tensotron.nn.modules.batchnorm import _need_dim, _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(_NormBase):
    _spatial = 1

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None,
                 dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input):
        _need_dim(input, self._spatial + 1, self._spatial + 2)

    def _normalised(self, input):
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias,
                               self.training or not self.track_running_stats,
                               0.0 if self.momentum is None else self.momentum, self.eps)

    def forward(self, input):
        self._check_input_dim(input)
        dim = input.dim() - self._spatial - 1
        size = input.size(dim)
        if size != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: {size}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing in "
                "num_features, which is not used because affine=False",
                stacklevel=2,
            )
        return self._normalised(input) if dim else self._normalised(input.unsqueeze(0)).squeeze(0)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        if local_metadata.get("version") is None and not self.track_running_stats:
            stale = [k for k in ("running_mean", "running_var") if prefix + k in state_dict]
            for k in stale:
                state_dict.pop(prefix + k)
            if stale:
                names = " and ".join(f'"{prefix}{k}"' for k in stale)
                name = type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {name} with track_running_stats=False. If state_dict is "
                    f"a checkpoint saved before 0.4.0, this may be expected because {name} does not track running stats by "
                    "default since 0.4.0. Please remove these keys from state_dict. If the running stats are actually "
                    f"needed, instead set track_running_stats=True in {name} to enable them. See the documentation of {name} "
                    "for details."
                )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, L) or (C, L)."""


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, H, W) or (C, H, W)."""

    _spatial = 2


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, D, H, W) or (C, D, H, W)."""

    _spatial = 3
