// Python objects read as the numbers of one step of all streams, without NumPy.
#pragma once
#include <Python.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace hs {

// What one step looks like, and which values it may hold.
enum class Kind { symbol, bit, real, count };

struct Form {
  Kind kind;
  int64_t streams, entries;  // streams is 0 where there is one, and no axis for it
  bool vector;               // an observation is a vector of its entries, not a single number
  bool partial;              // entries may be missing, which is said by NaN
  int64_t levels;            // of symbols
  double largest;            // that the model's precision holds

  int64_t count() const { return (streams ? streams : 1) * entries; }

  bool allows(double value, bool whole) const {
    if (value != value) return partial;
    switch (kind) {
      case Kind::symbol: return whole && value >= 0 && value < double(levels) && value == std::floor(value);
      case Kind::bit: return value == 0 || value == 1;
      case Kind::count: return value >= 0 && value <= largest && value == std::floor(value);
      case Kind::real: return std::fabs(value) <= largest;
    }
    return false;
  }
};

// One entry of a buffer by its format, whole where it is an integer.
inline bool read_number(const char* at, char format, double& value, bool& whole) {
  const auto as = [&](auto example, bool integer) {
    std::memcpy(&example, at, sizeof example);
    value = double(example), whole = integer;
    return true;
  };
  switch (format) {
    case 'd': return as(double(), false);
    case 'f': return as(float(), false);
    case 'i': return as(int(), true);
    case 'l': return as(long(), true);
    case 'q': return as((long long)0, true);
    case 'h': return as(short(), true);
    case 'b': return as((signed char)0, true);
    case 'B': return as((unsigned char)0, true);
    case 'H': return as((unsigned short)0, true);
    case 'I': return as(unsigned(), true);
    case '?': return as((unsigned char)0, true);
    default: return false;
  }
}

inline bool read_python_number(PyObject* x, double& value, bool& whole) {
  if (PyFloat_Check(x)) {
    value = PyFloat_AS_DOUBLE(x), whole = false;
    return true;
  }
  if (!PyLong_Check(x)) return false;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(x, &overflow);
  value = double(number), whole = true;
  return overflow == 0 && number < (1LL << 31) && number > -(1LL << 31);
}

// The numbers of an array of the right shape; `accept(value, whole)` says whether one is allowed.
template <class Accept>
bool read_buffer(PyObject* x, const int64_t* shape, int rank, double* out, Accept accept) {
  if (PyBytes_Check(x) || PyByteArray_Check(x)) return false;
  Py_buffer view;
  if (PyObject_GetBuffer(x, &view, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return false;
  }
  bool good = view.ndim == rank && view.format != nullptr && view.format[0] != 0 && view.format[1] == 0;
  for (int axis = 0; good && axis < rank; ++axis) good = view.shape[axis] == shape[axis];
  const int64_t rows = rank == 2 ? shape[0] : 1, columns = rank == 0 ? 1 : shape[rank - 1];
  for (int64_t i = 0; good && i < rows; ++i)
    for (int64_t j = 0; good && j < columns; ++j) {
      const char* at = static_cast<const char*>(view.buf);
      if (rank == 2) at += i * view.strides[0];
      if (rank > 0) at += j * view.strides[rank - 1];
      double& value = out[i * columns + j];
      bool whole;
      good = read_number(at, view.format[0], value, whole) && accept(value, whole);
    }
  PyBuffer_Release(&view);
  return good;
}

// The numbers of an object of this shape (rank at most 2): a number, a list or tuple of numbers, or an array.
template <class Accept>
bool read_numbers(PyObject* x, const int64_t* shape, int rank, double* out, Accept accept) {
  bool whole;
  if (rank == 0 && read_python_number(x, out[0], whole)) return accept(out[0], whole);
  if (rank == 1 && (PyList_CheckExact(x) || PyTuple_CheckExact(x))) {
    if (PySequence_Fast_GET_SIZE(x) != shape[0]) return false;
    for (int64_t i = 0; i < shape[0]; ++i)
      if (!read_python_number(PySequence_Fast_GET_ITEM(x, i), out[i], whole) || !accept(out[i], whole)) return false;
    return true;
  }
  return PyObject_CheckBuffer(x) && read_buffer(x, shape, rank, out, accept);
}

// Whether the object is an observation of the form, and then its numbers. `checked` says that symbols were whole numbers
// before, so that they may be floats beside missing ones.
inline bool read_observation(const Form& form, PyObject* x, bool checked, double* out) {
  if (x == Py_None) {
    if (form.partial)
      for (int64_t i = 0; i < form.count(); ++i) out[i] = NAN;
    return form.partial;
  }
  int64_t shape[2];
  int rank = 0;
  if (form.streams) shape[rank++] = form.streams;
  if (form.vector) shape[rank++] = form.entries;
  return read_numbers(x, shape, rank, out,
                      [&](double value, bool whole) { return form.allows(value, whole || checked); });
}

}  // namespace hs
