"""Neural networks: modules, their parameters, functions, initialisation."""

from tensotron.nn import functional, init, modules, parameter, utils
from tensotron.nn.modules import *  # noqa: F403
from tensotron.nn.parameter import Buffer, Parameter

__all__ = [*modules.__all__, "Buffer", "Parameter", "functional", "init", "modules", "parameter", "utils"]

_NOT_YET = frozenset(
    """AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool3d AvgPool3d CTCLoss ChannelShuffle
    CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d Container Conv3d ConvTranspose1d
    ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss CosineSimilarity CrossMapLRN2d DataParallel EmbeddingBag Fold
    FractionalMaxPool2d FractionalMaxPool3d GRU GRUCell GaussianNLLLoss HingeEmbeddingLoss InstanceNorm1d InstanceNorm2d
    InstanceNorm3d LPPool1d LPPool2d LPPool3d LSTM LSTMCell LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d
    LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d
    LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LinearCrossEntropyLoss LinearCrossEntropyOptions LocalResponseNorm
    MarginRankingLoss MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d MultiLabelMarginLoss MultiLabelSoftMarginLoss
    MultiMarginLoss MultiheadAttention NLLLoss2d PairwiseDistance PixelShuffle PixelUnshuffle PoissonNLLLoss RNN RNNBase
    RNNCell RNNCellBase ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d
    ReplicationPad3d SoftMarginLoss SyncBatchNorm Transformer TransformerDecoder TransformerDecoderLayer
    TransformerEncoder TransformerEncoderLayer TripletMarginLoss TripletMarginWithDistanceLoss Unfold
    UninitializedBuffer UninitializedParameter Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d
    ZeroPad3d attention parallel""".split()
)


class _NotYet(NotImplementedError, AttributeError):
    """A name of torch.nn that is not supported: also an AttributeError, so that hasattr is false."""


def __getattr__(name):
    if name in _NOT_YET:
        raise _NotYet(f"tensotron.nn.{name} is not supported yet (docs/unsupported.md)")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
