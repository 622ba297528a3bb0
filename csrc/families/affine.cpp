// Diagonal affine recurrences, vectorised over units.
#include "kernels/affine.h"

#include "kernels/decay.h"

namespace hs {
namespace HS_ISA {
namespace {

// A whole vector of units, or the first `lanes` of one.
template <class T, bool whole>
struct Column {
  int lanes;
  HS_INLINE Vec<T> get(const T* p) const { return whole ? load<T>(p) : load_some<T>(p, lanes); }
  HS_INLINE void put(T* p, Vec<T> v) const { whole ? store<T>(p, v) : store_some<T>(p, v, lanes); }
};

template <class T, Form form>
HS_INLINE Vec<T> advanced(Vec<T> h, Vec<T> a, Vec<T> b) {
  if constexpr (form == Form::plain) return a * h + b;
  if constexpr (form == Form::decay) return decayed<T>(h, a, b);
  return decayed<T>(h, a, exp<T>(b));
}

template <class T, Form form, bool whole>
void forward_column(const AffineForward<T>& in, int64_t unit, int lanes) {
  const Column<T, whole> column{lanes};
  Vec<T> h = column.get(in.start + unit);
  for (int64_t t = 0; t < in.length; ++t) {
    const int64_t at = t * in.units + unit;
    column.put(in.states + at, h);
    h = advanced<T, form>(h, column.get(in.a + at), column.get(in.b + at));
  }
  for (int64_t t = in.length; t < in.time; ++t) column.put(in.states + t * in.units + unit, h);
  column.put(in.final + unit, h);
}

template <class T, Form form, bool whole>
void backward_column(const AffineBackward<T>& in, int64_t unit, int lanes) {
  const Column<T, whole> column{lanes};
  const Vec<T> zero = all<T>(T(0));
  Vec<T> s = column.get(in.d_final + unit);
  for (int64_t t = in.time - 1; t >= in.length; --t) {  // behind the end the last state stands
    const int64_t at = t * in.units + unit;
    s += column.get(in.d_states + at);
    column.put(in.d_a + at, zero);
    column.put(in.d_b + at, zero);
  }
  for (int64_t t = in.length - 1; t >= 0; --t) {
    const int64_t at = t * in.units + unit;
    const Vec<T> h = column.get(in.states + at), a = column.get(in.a + at);
    const Vec<T> factor = form == Form::plain ? a : exp<T>(a);
    column.put(in.d_a + at, form == Form::plain ? s * h : s * h * factor);
    column.put(in.d_b + at, form == Form::logarithms ? s * exp<T>(column.get(in.b + at)) : s);
    s = factor * s + column.get(in.d_states + at);
  }
  column.put(in.d_start + unit, s);
}

template <class T, Form form>
void forward_units(const AffineForward<T>& in, int64_t begin, int64_t end) {
  constexpr int width = Lanes<T>::count;
  int64_t unit = begin;
  for (; unit + width <= end; unit += width) forward_column<T, form, true>(in, unit, width);
  if (unit < end) forward_column<T, form, false>(in, unit, int(end - unit));
}

template <class T, Form form>
void backward_units(const AffineBackward<T>& in, int64_t begin, int64_t end) {
  constexpr int width = Lanes<T>::count;
  int64_t unit = begin;
  for (; unit + width <= end; unit += width) backward_column<T, form, true>(in, unit, width);
  if (unit < end) backward_column<T, form, false>(in, unit, int(end - unit));
}

template <class T>
void forward(Form form, const AffineForward<T>& in, int64_t begin, int64_t end) {
  if (form == Form::plain) return forward_units<T, Form::plain>(in, begin, end);
  if (form == Form::decay) return forward_units<T, Form::decay>(in, begin, end);
  forward_units<T, Form::logarithms>(in, begin, end);
}

template <class T>
void backward(Form form, const AffineBackward<T>& in, int64_t begin, int64_t end) {
  if (form == Form::plain) return backward_units<T, Form::plain>(in, begin, end);
  if (form == Form::decay) return backward_units<T, Form::decay>(in, begin, end);
  backward_units<T, Form::logarithms>(in, begin, end);
}

}  // namespace

extern const AffineTable affine_table;
const AffineTable affine_table = {forward<float>, forward<double>, backward<float>, backward<double>};

}  // namespace HS_ISA
}  // namespace hs
