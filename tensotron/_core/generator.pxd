from tensotron._cpu.backend cimport GeneratorState

cdef class Generator:
    cdef GeneratorState state
    cdef object __weakref__

# The generator of an op's argument: None is the default one.
cdef Generator generator_of(object g, str op)
