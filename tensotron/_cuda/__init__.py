"""The CUDA backend, through PyCUDA and scikit-cuda. Nothing of `import tensotron` comes here.

What there is so far is the seam: launch records (`tensotron/_cpu/record.h`) of three families run on
the device, eagerly or from a graph. `tests/test_gpu_seam.py` keeps it working without a GPU.
"""
