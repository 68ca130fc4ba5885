# The part of numpy's C interface that is used; who imports it calls import_array() first.
from cpython.object cimport PyObject, PyTypeObject

cdef extern from *:
    """
    #define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
    """

cdef extern from "numpy/arrayobject.h":
    ctypedef Py_ssize_t npy_intp
    PyTypeObject PyArray_Type
    ctypedef struct Array "PyArrayObject":
        pass
    enum: NPY_FLOAT, NPY_DOUBLE, NPY_INT64, NPY_INT32, NPY_UINT8, NPY_BOOL
    enum: NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE
    int _import_array() except -1
    bint PyArray_Check(object o)
    int PyArray_NDIM(Array* a)
    npy_intp* PyArray_DIMS(Array* a)
    npy_intp* PyArray_STRIDES(Array* a)
    void* PyArray_DATA(Array* a)
    int PyArray_TYPE(Array* a)
    npy_intp PyArray_ITEMSIZE(Array* a)
    npy_intp PyArray_SIZE(Array* a)
    bint PyArray_ISWRITEABLE(Array* a)
    bint PyArray_ISNOTSWAPPED(Array* a)
    object PyArray_New(PyTypeObject* t, int nd, const npy_intp* dims, int typenum, const npy_intp* strides, void* data,
                       int itemsize, int flags, PyObject* obj)
    int PyArray_SetBaseObject(Array* a, PyObject* base) except -1
