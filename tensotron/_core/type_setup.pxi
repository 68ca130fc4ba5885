# The instance dict and the name of the type Tensor. Included by tensor.pyx.

cdef extern from *:
    """
    // The instance dict of Tensor: Cython would make one for every tensor, most of which need none.
    static traverseproc tt_traverse;
    static inquiry tt_clear;
    static destructor tt_dealloc;
    static Py_ssize_t tt_dict_offset, tt_parked_offset, tt_accumulator_offset;
    static PyObject** tt_dict(PyObject* o) { return (PyObject**)((char*)o + tt_dict_offset); }
    static int tt_traverse_dict(PyObject* o, visitproc visit, void* arg) {
      Py_VISIT(*tt_dict(o));
      return tt_traverse(o, visit, arg);
    }
    static int tt_clear_dict(PyObject* o) {
      Py_CLEAR(*tt_dict(o));
      return tt_clear(o);
    }
    static void tt_dealloc_dict(PyObject* o) {
      if (*tt_dict(o)) {
        PyObject_GC_UnTrack(o);
        Py_CLEAR(*tt_dict(o));
      }
      if (*(int*)((char*)o + tt_parked_offset)) Py_DECREF(*(PyObject**)((char*)o + tt_accumulator_offset));
      tt_dealloc(o);
    }
    static PyGetSetDef tt_dict_getset = {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr};
    static int tt_add_dict(PyTypeObject* t, Py_ssize_t offset, Py_ssize_t parked, Py_ssize_t accumulator) {
      tt_dict_offset = t->tp_dictoffset = offset;
      tt_parked_offset = parked, tt_accumulator_offset = accumulator;
      tt_traverse = t->tp_traverse, t->tp_traverse = tt_traverse_dict;
      tt_clear = t->tp_clear, t->tp_clear = tt_clear_dict;
      tt_dealloc = t->tp_dealloc, t->tp_dealloc = tt_dealloc_dict;
      PyObject* d = PyDescr_NewGetSet(t, &tt_dict_getset);
      if (!d) return -1;
      const int rc = PyDict_SetItemString(t->tp_dict, "__dict__", d);
      Py_DECREF(d);
      PyType_Modified(t);
      return rc;
    }
    """
    int tt_add_dict(PyTypeObject* t, Py_ssize_t offset, Py_ssize_t parked, Py_ssize_t accumulator) except -1

cdef extern from *:
    """
    static void tt_name_type(PyTypeObject* t, PyObject* meta) {
      t->tp_name = "Tensor";
      Py_INCREF(meta);
      Py_SET_TYPE((PyObject*)t, (PyTypeObject*)meta);
    }
    """
    void tt_name_type(PyTypeObject* t, object meta)

cdef Tensor _probe = Tensor.__new__(Tensor)
tt_add_dict(<PyTypeObject*>Tensor, <char*>&_probe.attributes - <char*><void*>_probe,
            <char*>&_probe.parked - <char*><void*>_probe, <char*>&_probe.accumulator - <char*><void*>_probe)
_probe = None
tt_name_type(<PyTypeObject*>Tensor, geometry._TensorMeta)
free_shells()
