// How the sequences of a batch become tasks, and weights that all tasks of a group share.
#pragma once
#include <algorithm>
#include <numeric>
#include <vector>

#include "handlers/buffers.h"
#include "kernels/recurrent.h"
#include "scratch.h"

namespace hs {

struct Sizes {
  int64_t groups, sequences, time, units;
  int64_t states() const { return groups * sequences * time * units; }
  int64_t ends() const { return groups * sequences * units; }
};

// From weights [group, ..., units], lengths [group, sequence] and an array [group, sequence, time, numbers].
inline Sizes sizes_of(const Buffer& weight, const Buffer& lengths, const Buffer& steps) {
  const int64_t groups = size_of(weight, 0, 1);
  return {groups, groups ? size_of(lengths) / groups : 0, size_of(steps, -2, -1), size_of(weight, -1)};
}

// Blocks of sequences of one group each. Long and short sequences are dealt out evenly, so that blocks take the same
// time. What a sequence gives does not depend on the block it is in.
class Blocks {
 public:
  Blocks(const int32_t* lengths, const Sizes& n, int64_t threads)
      : time_(n.time), sequences_(n.sequences), parts_(parts(n.groups, n.sequences, threads)) {
    for (int64_t group = 0; group < n.groups; ++group) deal(lengths + group * n.sequences);
  }

  int64_t count() const { return int64_t(begins_.size()); }
  int64_t group(int64_t block) const { return block / parts_; }
  Rows rows(int64_t block) const {
    const int64_t begin = begins_[block], end = block + 1 < count() ? begins_[block + 1] : int64_t(sequence_.size());
    return {end - begin, time_, sequence_.data() + begin, length_.data() + begin};
  }

 private:
  static constexpr int64_t MOST = 32;  // sequences of a block, whose states stay in the cache

  static int64_t parts(int64_t groups, int64_t sequences, int64_t threads) {
    int64_t parts = std::max<int64_t>(1, (sequences + MOST - 1) / MOST);
    while (parts < sequences && groups * parts % threads != 0) ++parts;
    return parts;
  }

  void deal(const int32_t* lengths) {
    std::vector<int64_t> order(static_cast<size_t>(sequences_));
    std::iota(order.begin(), order.end(), 0);
    const auto steps = [&](int64_t i) { return std::min<int64_t>(std::max<int64_t>(lengths[i], 0), time_); };
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return steps(i) > steps(j); });
    for (int64_t part = 0; part < parts_; ++part) {
      begins_.push_back(int64_t(sequence_.size()));
      for (int64_t place = part; place < sequences_; place += parts_) {
        sequence_.push_back(order[size_t(place)]);
        length_.push_back(steps(order[size_t(place)]));
      }
    }
  }

  int64_t time_, sequences_, parts_;
  std::vector<int64_t> sequence_, length_, begins_;
};

// Threads that are worth their start for so many multiplications.
inline int64_t threads_for(const ffi::ThreadPool& pool, int64_t multiplications) {
  return multiplications < 200000 ? 1 : threads_of(pool);
}

// The weights of all groups, packed, one group behind the other.
template <class T>
class Packed {
 public:
  Packed(ffi::ThreadPool& pool, const Packing<T>& packing, const T* weights, int64_t groups, int64_t weight_size,
         int64_t units)
      : size_((packing.numbers(units) + 15) / 16 * 16), numbers_(groups * size_) {
    const int64_t panels = packing.panels(units);
    const auto pack = [&](int64_t task) {
      const int64_t group = task / panels;
      packing.pack(weights + group * weight_size, units, task % panels, numbers_ + group * size_);
    };
    if (groups * weight_size < 50000)
      for (int64_t task = 0; task < groups * panels; ++task) pack(task);
    else
      parallel(pool, groups * panels, pack);
  }
  const T* of(int64_t group) const { return numbers_ + group * size_; }

 private:
  int64_t size_;
  Scratch<T> numbers_;
};

// The numbers of a buffer from those of this group on; null where it has none.
template <class T>
const T* at_group(const Buffer& buffer, int64_t group, int64_t groups) {
  const int64_t size = size_of(buffer);
  return size == 0 ? nullptr : buffer.typed_data<T>() + group * (size / groups);
}
template <class T>
T* at_group(Out& buffer, int64_t group, int64_t groups) {
  const int64_t size = size_of(*buffer);
  return size == 0 ? nullptr : buffer->typed_data<T>() + group * (size / groups);
}

// The weights that a network reads its inputs with, [group, outputs, inputs], packed, and its bias in whole vectors.
// Without inputs, elements were computed before.
template <class T>
class Reading {
 public:
  Reading(ffi::ThreadPool& pool, const MatrixPacking<T>& packing, const Buffer& weight, const Buffer* bias,
          int64_t groups, int64_t outputs)
      : groups_(groups),
        inputs_(groups > 0 && outputs > 0 ? size_of(weight) / (groups * outputs) : 0),
        size_((packing.numbers(outputs, inputs_) + 15) / 16 * 16),
        padded_((outputs + 15) / 16 * 16),
        biased_(bias && size_of(*bias) > 0),
        weights_(groups * size_),
        biases_(biased_ ? groups * padded_ : 0) {
    if (inputs_ == 0) return;
    const int64_t panels = packing.panels(outputs, inputs_);
    const auto pack = [&](int64_t task) {
      const int64_t group = task / panels;
      packing.pack(weight.typed_data<T>() + group * outputs * inputs_, outputs, inputs_, task % panels,
                   weights_ + group * size_);
    };
    if (groups * size_ < 50000)
      for (int64_t task = 0; task < groups * panels; ++task) pack(task);
    else
      parallel(pool, groups * panels, pack);
    for (int64_t g = 0; biased_ && g < groups; ++g) {
      const T* from = bias->typed_data<T>() + g * outputs;
      std::fill(std::copy(from, from + outputs, biases_ + g * padded_), biases_ + (g + 1) * padded_, T(0));
    }
  }

  int64_t inputs() const { return inputs_; }
  Outside<T> of(int64_t group, const Buffer& elements, const Buffer& rows) const {
    return {inputs_ ? nullptr : at_group<T>(elements, group, groups_), inputs_, at_group<T>(rows, group, groups_),
            weights_ + group * size_, biased_ ? biases_ + group * padded_ : nullptr};
  }
  OutsideBack<T> back(int64_t group, Out& d_rows) const {
    return {inputs_, weights_ + group * size_, inputs_ ? at_group<T>(d_rows, group, groups_) : nullptr};
  }

 private:
  int64_t groups_, inputs_, size_, padded_;
  bool biased_;
  Scratch<T> weights_, biases_;
};

// Whether what is given from outside fits: elements, or inputs by weights [group, outputs, inputs].
inline bool fits_outside(const Buffer& weight, const Buffer& bias, const Buffer& elements, const Buffer& inputs,
                         const Sizes& n, int64_t outputs) {
  if (size_of(weight) == 0) return size_of(elements) == n.states() * (outputs / n.units) && size_of(bias) == 0;
  const int64_t each = size_of(weight) / (n.groups * outputs);
  return size_of(weight) == n.groups * outputs * each && size_of(inputs) == n.groups * n.sequences * n.time * each &&
         (size_of(bias) == 0 || size_of(bias) == n.groups * outputs);
}

// And backward: adjoints of as many inputs as the weights have, or of none.
inline bool fits_back(const Buffer& weight, const Buffer& d_inputs, const Sizes& n, int64_t outputs) {
  if (size_of(weight) == 0 || size_of(d_inputs) == 0) return size_of(d_inputs) == 0;
  const int64_t each = size_of(weight) / (n.groups * outputs);
  return size_of(weight) == n.groups * outputs * each && size_of(d_inputs) == n.groups * n.sequences * n.time * each;
}

}  // namespace hs
