"""Padding and rearrangement."""

import tensotron as _t

__all__ = [
    "channel_shuffle",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
]


def pad(input, pad, mode="constant", value=None):
    """Pads dimensions from the last on, by pairs (before, after); modes constant, reflect, replicate, circular."""
    pad = tuple(pad)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > input.dim():
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {input.dim()}"
        )
    pairs = [(input.dim() - 1 - i // 2, pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    if mode == "constant":
        return _pad_constant(input, pairs, 0.0 if value is None else float(value))
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _PADDED_INDEX:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pad) not in (2, 4, 6) or input.dim() not in (len(pad) // 2 + 1, len(pad) // 2 + 2):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    copied = False
    for dim, before, after in pairs:
        size = input.size(dim)
        if mode == "reflect" and (before >= size or after >= size):
            raise RuntimeError(
                f"Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) "
                f"at dimension {dim} of input {list(input.shape)}"
            )
        if mode == "circular" and (before > size or after > size):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if mode == "circular":  # around what is left
            input = input.narrow(dim, max(-before, 0), size - max(-before, 0) - max(-after, 0))
            before, after, size = max(before, 0), max(after, 0), input.size(dim)
        if before or after:
            index = _PADDED_INDEX[mode](_t.arange(-before, size + after), size)
            input = input.index_select(dim, index)
            copied = True
    return input if copied else input.clone()


_PADDED_INDEX = {
    "reflect": lambda i, n: (n - 1) - ((n - 1) - i.abs()).abs(),
    "replicate": lambda i, n: i.clamp(0, n - 1),
    "circular": lambda i, n: i.remainder(n),
}


def _pad_constant(input, pairs, value):
    shape = list(input.shape)
    place = [slice(None)] * input.dim()
    for dim, before, after in pairs:
        size = shape[dim]
        shape[dim] = size + before + after
        if shape[dim] < 0:
            raise RuntimeError(
                f"The input size {size}, plus negative padding {before} and {after} resulted in a negative output size, "
                f"which is invalid. Check dimension {dim} of your input."
            )
        start, stop = max(-before, 0), size - max(-after, 0)
        input = input.narrow(dim, start, max(stop - start, 0))
        place[dim] = slice(max(before, 0), max(before, 0) + input.size(dim))
    out = _t.full(shape, value, dtype=input.dtype)
    out[tuple(place)] = input
    return out


def _need_image(name, input):
    if input.dim() < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )


def pixel_shuffle(input, upscale_factor):
    """(*, C * r**2, H, W) -> (*, C, H * r, W * r)."""
    r = upscale_factor
    _need_image("pixel_shuffle", input)
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *batch, c, h, w = input.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={c} is not divisible by {r * r}"
        )
    n = len(batch)
    out = input.reshape(*batch, c // (r * r), r, r, h, w).permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return out.reshape(*batch, c // (r * r), h * r, w * r)


def pixel_unshuffle(input, downscale_factor):
    """(*, C, H * r, W * r) -> (*, C * r**2, H, W)."""
    r = downscale_factor
    _need_image("pixel_unshuffle", input)
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *batch, c, h, w = input.shape
    for what, place, size in (("height", -2, h), ("width", -1, w)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but input.size({place})={size} is not "
                f"divisible by {r}"
            )
    n = len(batch)
    out = input.reshape(*batch, c, h // r, r, w // r, r).permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return out.reshape(*batch, c * r * r, h // r, w // r)


def channel_shuffle(input, groups):
    """Takes one channel of each of the groups in turn."""
    if input.dim() < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    n, c, *rest = input.shape
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    return input.reshape(n, groups, c // groups, *rest).transpose(1, 2).reshape(input.shape)
