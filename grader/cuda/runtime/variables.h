// Variables of the text to which kernels write: on a GPU the host has none of their values, so here
// it finds NaN in them while no kernel runs. g++ puts no call before an access to a place of a
// variable that it knows, which is why they are not watched as arrays are. (For runtime.cpp alone.)
#pragma once
#include "memory.h"

namespace cuda_on_cpu {

inline char* before;  // the values of all variables when a launch began, one after another
inline size_t before_size;

inline size_t size_of(const Array& a) { return a.end - a.begin; }

inline void hide(Array& a) {
  if (!a.of_device || a.hidden || a.kind != Kind::constant) return;
  if (!a.kept) a.kept = static_cast<char*>(malloc(size_of(a)));
  if (!a.kept) return;
  memcpy(a.kept, reinterpret_cast<void*>(a.begin), size_of(a));
  memset(reinterpret_cast<void*>(a.begin), 0xff, size_of(a));
  a.hidden = true;
}

inline void reveal(Array& a) {
  if (a.hidden) memcpy(reinterpret_cast<void*>(a.begin), a.kept, size_of(a));
  a.hidden = false;
}

inline void hide_variables() {
  for (int i = 0; i < static_count; ++i) hide(statics[i]);
}

// Before a launch.
inline void reveal_variables() {
  size_t size = 0;
  for (int i = 0; i < static_count; ++i) reveal(statics[i]), size += size_of(statics[i]);
  if (size > before_size) {
    free(before);
    before = static_cast<char*>(malloc(size));
    before_size = before ? size : 0;
  }
  if (!before) return;
  char* at = before;
  for (int i = 0; i < static_count; at += size_of(statics[i++]))
    memcpy(at, reinterpret_cast<void*>(statics[i].begin), size_of(statics[i]));
}

// After it: what has changed was changed by a kernel.
inline void look_at_variables() {
  const char* at = before;
  for (int i = 0; before && i < static_count; at += size_of(statics[i++]))
    if (memcmp(at, reinterpret_cast<void*>(statics[i].begin), size_of(statics[i])))
      statics[i].of_device = true;
  hide_variables();
}

}  // namespace cuda_on_cpu
