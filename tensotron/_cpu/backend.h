// The backend seam: every device effect passes through one of these functions.
#pragma once
#include "record.h"

namespace tensotron {

struct Backend {
  int (*launch)(const Record&);
  void* (*alloc)(size_t nbytes, size_t* capacity);
  void (*release)(void* p, size_t capacity);
  // between a tensor's memory and the host's, either way
  void (*copy)(void* dst, const void* src, size_t nbytes);
  // hands memory to the host for good (numpy, DLPack)
  void (*expose)(void* p);
};

extern const Backend cpu_backend;
extern const Backend guard_backend;  // see guard.cpp
extern const Backend* active_backend;

size_t guard_launches();
size_t guard_copies();

}  // namespace tensotron
