// Copies of a few bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tensotron {
namespace TENSOTRON_ISA {

// Up to 64 bytes without a call. What is copied is no part of where it goes.
static inline void copy_short(char* to, const char* from, size_t n) {
  typedef char Bytes16 __attribute__((vector_size(16)));
  const auto ends = [=](auto part) __attribute__((always_inline)) {  // the first and the last of n bytes, which may overlap
    decltype(part) a, b;
    __builtin_memcpy(&a, from, sizeof a), __builtin_memcpy(&b, from + n - sizeof b, sizeof b);
    __builtin_memcpy(to, &a, sizeof a), __builtin_memcpy(to + n - sizeof b, &b, sizeof b);
  };
  if (n > 64) {
    memcpy(to, from, n);
  } else if (n > 32) {
    Bytes16 a, b, c, d;
    __builtin_memcpy(&a, from, 16), __builtin_memcpy(&b, from + 16, 16);
    __builtin_memcpy(&c, from + n - 32, 16), __builtin_memcpy(&d, from + n - 16, 16);
    __builtin_memcpy(to, &a, 16), __builtin_memcpy(to + 16, &b, 16);
    __builtin_memcpy(to + n - 32, &c, 16), __builtin_memcpy(to + n - 16, &d, 16);
  } else if (n >= 16) {
    ends(Bytes16());
  } else if (n >= 8) {
    ends(uint64_t());
  } else if (n >= 4) {
    ends(uint32_t());
  } else {
    for (size_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
