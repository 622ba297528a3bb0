// Sequences of any lengths that advance together, some at a time: where one ends the next takes its place.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/vec.h"

namespace hs {
namespace HS_ISA {

constexpr int TOGETHER = 4;

// For the sequences from `begin` on, up to `end`: start(slot, sequence) sets slot.left, the steps that it has;
// advance(slots, count) runs some steps of each, as many of one as of another, and takes them off, or none where one has
// none left; finish(slot) ends it.
template <class Slot, class Start, class Advance, class Finish>
void run_together(Slot* slots, int64_t begin, int64_t end, Start&& start, Advance&& advance, Finish&& finish) {
  Slot* active[TOGETHER];
  Slot* idle[TOGETHER];
  int64_t running = 0, waiting = TOGETHER;
  for (int i = 0; i < TOGETHER; ++i) idle[i] = slots + i;
  while (true) {
    while (waiting > 0 && begin < end) start(*(active[running++] = idle[--waiting]), begin++);
    if (running == 0) return;
    advance(active, running);
    int64_t left = 0;
    for (int64_t i = 0; i < running; ++i) {
      Slot* const one = active[i];
      if (one->left > 0) {
        active[left++] = one;
      } else {
        finish(*one);
        idle[waiting++] = one;
      }
    }
    running = left;
  }
}

// The fewest steps that any of the slots has left.
template <class Slot>
int64_t fewest_left(Slot* const* slots, int64_t count) {
  int64_t steps = slots[0]->left;
  for (int64_t i = 1; i < count; ++i) steps = std::min(steps, slots[i]->left);
  return steps;
}

}  // namespace HS_ISA
}  // namespace hs
