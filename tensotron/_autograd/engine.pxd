from tensotron._core.tensor cimport Node

# Whether a backward pass to all leaves, not the user, runs the node; to be asked first thing in its backward.
cdef bint is_running(Node node) noexcept
