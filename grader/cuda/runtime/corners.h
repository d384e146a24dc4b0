// Of a grid too large to run, the blocks that may have the last row. (For runtime.cpp alone.)
#pragma once
#include "watch.h"

namespace cuda_on_cpu {

constexpr uint64_t MOST_ACCESSES = 25'000'000;  // about half a second
constexpr uint64_t MOST_BLOCKS = 1000;  // that are tried where no corner has written the last row

static uint64_t blocks_in_grid;
static bool all_tried;  // every block of every launch, or those up to the one with the last row

static uint3 block_number(uint64_t i, dim3 n) {
  return {static_cast<unsigned>(i % n.x), static_cast<unsigned>(i / n.x % n.y),
          static_cast<unsigned>(i / (uint64_t{n.x} * n.y))};
}

static uint64_t number_of(uint3 b, dim3 n) { return (uint64_t{b.z} * n.y + b.y) * n.x + b.x; }

// Whether a kernel has written a number of the last array, which is the output.
static bool is_written(size_t number) {
  const Array& out = arrays[array_count - 1];
  uintptr_t at = out.begin + number * sizeof(float);
  for (int p = 0; p < page_count; ++p)
    if (pages[p] == at / PAGE * PAGE)
      return memcmp(reinterpret_cast<void*>(at), &out.filled, sizeof(float)) != 0;
  return false;
}

static size_t last_number() {
  const Array& out = arrays[array_count - 1];
  return (out.end - out.begin) / sizeof(float) - 1;
}
static bool last_is_written() { return is_written(last_number()); }

// Whether something is written where the place of the last number ends up in 32 bits.
static bool is_misplaced() {
  return last_number() >> 32 && is_written(last_number() & 0xffffffff);
}
static bool last_is_lost() { return all_tried || is_misplaced(); }

// The last block that has something to do; then the corners, then the other blocks from the last on.
static void run_some(dim3 n) {
  uint64_t most = blocks_in_grid < MOST_BLOCKS ? blocks_in_grid : MOST_BLOCKS, i = 1;
  for (; i <= most && !workers; ++i) run_block(block_number(blocks_in_grid - i, n));
  for (unsigned c = 0; c < 8 && !last_is_written(); ++c) {
    bool twice = (c & 1 && n.x == 1) || (c & 2 && n.y == 1) || (c & 4 && n.z == 1);
    uint3 b = {c & 1 ? 0 : n.x - 1, c & 2 ? 0 : n.y - 1, c & 4 ? 0 : n.z - 1};
    if (!twice && number_of(b, n) + i <= blocks_in_grid) run_block(b);
  }
  for (; i <= most && !last_is_written() && !is_misplaced(); ++i) {
    uint3 b = block_number(blocks_in_grid - i, n);
    bool corner = (b.x == 0 || b.x == n.x - 1) && (b.y == 0 || b.y == n.y - 1) &&
                  (b.z == 0 || b.z == n.z - 1);
    if (!corner) run_block(b);
  }
  all_tried &= most == blocks_in_grid;
}

}  // namespace cuda_on_cpu
