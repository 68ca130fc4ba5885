"""Custom functions."""

from tensotron._autograd.custom import CustomNode, apply_function, once_differentiable


class FunctionCtx(CustomNode):
    """What forward leaves for backward, and the node of the call."""


class Function(FunctionCtx):
    """An operation with a backward of its own: subclass it with static methods forward and backward.

    Either `forward(ctx, *args)`, or `forward(*args)` with `setup_context(ctx, inputs, output)`. Call it by
    `MyFunction.apply(*args)`.
    """

    @staticmethod
    def forward(*args, **kwargs):
        """The operation; called without recording."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Leaves in ctx what backward needs, where forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Gradients of the inputs from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @classmethod
    def apply(cls, *args):
        """Calls the function and records its node."""
        return apply_function(cls, args)


__all__ = ["Function", "FunctionCtx", "once_differentiable"]
