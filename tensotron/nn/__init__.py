"""Neural networks: modules, their parameters, functions, initialisation."""

from tensotron.nn import functional, init, modules, parameter, utils
from tensotron.nn.modules import *  # noqa: F403
from tensotron.nn.parameter import Buffer, Parameter

__all__ = [*modules.__all__, "Buffer", "Parameter", "functional", "init", "modules", "parameter", "utils"]

_NOT_YET = frozenset(
    """AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool3d AvgPool3d CTCLoss Container Conv3d ConvTranspose1d
    ConvTranspose2d ConvTranspose3d CrossMapLRN2d DataParallel EmbeddingBag Fold FractionalMaxPool2d
    FractionalMaxPool3d GRU GRUCell LPPool3d LSTM LSTMCell LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d
    LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d
    LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LinearCrossEntropyLoss LinearCrossEntropyOptions MaxPool3d
    MaxUnpool1d MaxUnpool2d MaxUnpool3d MultiheadAttention NLLLoss2d RNN RNNBase RNNCell RNNCellBase SyncBatchNorm
    Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer Unfold
    UninitializedBuffer UninitializedParameter Upsample UpsamplingBilinear2d UpsamplingNearest2d attention parallel""".split()
)


class _NotYet(NotImplementedError, AttributeError):
    """A name of torch.nn that is not supported: also an AttributeError, so that hasattr is false."""


def __getattr__(name):
    if name in _NOT_YET:
        raise _NotYet(f"tensotron.nn.{name} is not supported yet (docs/unsupported.md)")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
