// Objects that are made and freed all the time, kept for the next one.
#pragma once
#include <Python.h>

#include <cstring>
#include <vector>

namespace tensotron {

// tp_alloc and tp_free of a type with garbage collection. (Cython's own free lists do not serve types that are derived
// from another.)
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

template <class S> inline PyObject* take(S* s) {
  PyObject* o = s->items[--s->n];
  Py_SET_REFCNT(o, 1);
  return o;
}

template <class S> inline PyObject* take_tracked(S* s) {
  PyObject* o = take(s);
  PyObject_GC_Track(o);
  return o;
}

// The same for a final class of graph nodes, whose deallocation is begin_drop, members as in a new one, end_drop. Graphs
// of any depth are freed on a small stack: a deallocation inside fifty others of the class puts its object aside, for
// the outermost one. The GIL guards the counter; objects that another thread has put aside are freed as well.
struct NodeShells {
  static constexpr int ROOM = 128, DEPTH = 50;
  PyObject* items[ROOM];
  int n, depth;
  std::vector<PyObject*> aside;
};

inline bool begin_drop(NodeShells* s, PyObject* o) {
  PyObject_GC_UnTrack(o);
  if (s->depth == NodeShells::DEPTH) return s->aside.push_back(o), false;
  ++s->depth;
  return true;
}

inline void end_drop(NodeShells* s, PyObject* o) {
  if (s->n < NodeShells::ROOM)
    s->items[s->n++] = o;
  else
    PyObject_GC_Del(o);
  if (s->depth == 1)  // and stays so meanwhile: what is freed here must not come here itself
    while (!s->aside.empty()) {
      PyObject* next = s->aside.back();
      s->aside.pop_back();
      Py_TYPE(next)->tp_dealloc(next);
    }
  --s->depth;
}

inline void clear_weak_references(PyObject* o) {
  if (*(PyObject**)((char*)o + Py_TYPE(o)->tp_weaklistoffset)) PyObject_ClearWeakRefs(o);
}

}  // namespace tensotron
