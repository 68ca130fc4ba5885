// Objects that are made and freed all the time, kept for the next one.
#pragma once
#include <Python.h>

#include <cstring>

namespace tensotron {

// tp_alloc and tp_free of a type with garbage collection; TAG tells the types of a module apart. (Cython's own free
// lists do not serve types that are derived from another.)
template <int TAG>
struct Pool {
  static constexpr int ROOM = 128;
  static inline PyObject* items[ROOM];
  static inline int n;
  static inline PyTypeObject* type;

  static PyObject* alloc(PyTypeObject* t, Py_ssize_t more) {
    if (t != type || !n) return PyType_GenericAlloc(t, more);
    PyObject* o = items[--n];
    memset(o, 0, size_t(t->tp_basicsize));
    PyObject_Init(o, t);
    PyObject_GC_Track(o);
    return o;
  }
  static void release(void* p) {
    if (Py_TYPE((PyObject*)p) == type && n < ROOM)
      items[n++] = (PyObject*)p;
    else
      PyObject_GC_Del(p);
  }
  static void serve(PyTypeObject* t) {
    type = t;
    t->tp_alloc = alloc;
    t->tp_free = release;
  }
};

// Objects that wait with all members as in a new one, so that they need no initialisation.
struct Shells {
  static constexpr int ROOM = 512;
  PyObject* items[ROOM];
  int n;
};

inline PyObject* take(Shells* s) {
  PyObject* o = s->items[--s->n];
  Py_SET_REFCNT(o, 1);
  return o;
}

inline PyObject* take_tracked(Shells* s) {
  PyObject* o = take(s);
  PyObject_GC_Track(o);
  return o;
}

inline void clear_weak_references(PyObject* o) {
  if (*(PyObject**)((char*)o + Py_TYPE(o)->tp_weaklistoffset)) PyObject_ClearWeakRefs(o);
}

}  // namespace tensotron
