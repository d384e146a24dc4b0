// The first thing that is wrong with a call: written down, and the call is left at that place.
#pragma once
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "machine.h"

extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[], _end[];

namespace cuda_on_cpu {

struct Report {
  char kind[32];   // the name of the exception as which the student reads it
  char says[400];  // one sentence that is the same whatever names and lines a student uses
  char more[800];  // lines with names, places and numbers; {line 12} is put into words later
  int line;
};
inline Report found;
inline bool reported;
// What may be wrong, and will be told in other words if an access that is still to come explains it.
inline Report doubted;
inline bool in_doubt;
inline jmp_buf beginning;  // of the call

// Which address of the code belongs to which line of the text: sorted, handed over from outside.
inline const uint32_t* code_places;
inline const uint32_t* code_lines;
inline size_t code_count;

inline int line_of(const void* returns_to) {
  auto at = static_cast<uint32_t>(static_cast<const char*>(returns_to) - 1 - __ehdr_start);
  size_t low = 0, high = code_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    (code_places[middle] <= at ? low : high) = code_places[middle] <= at ? middle + 1 : middle;
  }
  return low ? static_cast<int>(code_lines[low - 1]) : 0;
}

inline bool in_code(const void* at) { return at >= __ehdr_start && at < _end; }

inline void write_down(Report& r, const char* kind, int line, const char* says, const char* more,
                       va_list values) {
  snprintf(r.kind, sizeof r.kind, "%s", kind);
  snprintf(r.says, sizeof r.says, "%s", says);
  vsnprintf(r.more, sizeof r.more, more, values);
  r.line = line;
}

constexpr char RACE[] = "Race";

// Leave everything as it is and tell. `more` is a format.
[[noreturn]] __attribute__((format(printf, 4, 5))) inline void report(
    const char* kind, int line, const char* says, const char* more, ...) {
  if (!reported) {
    va_list values;
    va_start(values, more);
    write_down(found, kind, line, says, more, values);
    va_end(values);
    if (in_doubt && strcmp(kind, RACE) != 0) found = doubted;  // it came first
    reported = true;
  }
  _longjmp(beginning, 1);
}

// Tell it at the next barrier, unless there is more to say by then.
__attribute__((format(printf, 4, 5))) inline void doubt(const char* kind, int line,
                                                        const char* says, const char* more, ...) {
  if (in_doubt) return;
  in_doubt = true;
  va_list values;
  va_start(values, more);
  write_down(doubted, kind, line, says, more, values);
  va_end(values);
}

inline void settle_doubt() {
  if (in_doubt) report(doubted.kind, 0, "", " ");
}

}  // namespace cuda_on_cpu
