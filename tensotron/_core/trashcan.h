// Graphs of any depth are freed on a small stack: a deallocator that runs inside fifty others puts its object
// aside, for the outermost one. Until Python 3.12 that is what Python's own macros do; those of 3.13 go as deep
// as ten thousand, which is more than the stack of a thread may hold.
#pragma once
#include <Python.h>

#if PY_VERSION_HEX >= 0x030D0000
#include <vector>

namespace {
struct Trashcan {
  int depth = 0;
  std::vector<PyObject*> waiting;
  void empty() {
    while (!waiting.empty()) {
      PyObject* o = waiting.back();
      waiting.pop_back();
      Py_TYPE(o)->tp_dealloc(o);
    }
  }
};
thread_local Trashcan tt_trashcan;
}  // namespace

#undef Py_TRASHCAN_BEGIN
#undef Py_TRASHCAN_END
#define Py_TRASHCAN_BEGIN(op, dealloc)                                                                  \
  do {                                                                                                  \
    if (tt_trashcan.depth >= 50 && Py_TYPE(op)->tp_dealloc == (destructor)(dealloc)) {                  \
      tt_trashcan.waiting.push_back((PyObject*)(op));                                                   \
      break;                                                                                            \
    }                                                                                                   \
    ++tt_trashcan.depth;
#define Py_TRASHCAN_END                                                                                 \
    if (tt_trashcan.depth == 1) tt_trashcan.empty();                                                    \
    --tt_trashcan.depth;                                                                                \
  }                                                                                                     \
  while (0);
#endif
