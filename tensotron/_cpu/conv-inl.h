// 2-d convolution over contiguous NCHW tensors (1-d: H = KH = 1).
//
// Record of the four families, all arguments contiguous and of dtype `compute`:
//   ints[0..15] = N, C, H, W, O, KH, KW, SH, SW, PH, PW, DH, DW, G, OH, OW
//     PH, PW pad top and left only; what OH, OW read beyond the bottom and right edge is zero, so
//     uneven padding needs no copy. C and O count all groups.
//   conv_forward          arg[0] = y [N,O,OH,OW], arg[1] = x [N,C,H,W], arg[2] = w [O,C/G,KH,KW],
//                         arg[3] = bias [O] if nin == 3                 (F32, F64, I64, I32, U8)
//     with op == 1 y is the relu of that, and with nout == 3 the outputs are y and what max_pool2d makes of it with
//     windows of 2 x 2: arg[0] = y, arg[1] = maxima, arg[2] = indices, arg[3] = x ...  (F32, F64)
//   conv_backward_input   arg[0] = gx, arg[1] = gy, arg[2] = w          (F32, F64)
//                         arg[3] = bias [C] if nin == 3: the forward of a transposed convolution
//   conv_backward_weight  arg[0] = gw, arg[1] = gy, arg[2] = x          (F32, F64)
//                         or with nout == 2: arg[0] = gw, arg[1] = gb, arg[2] = gy, arg[3] = x: also what
//                         conv_backward_bias gives, bit for bit
//   conv_backward_bias    arg[0] = gb [O], arg[1] = gy                  (F32, F64)
//
// Methods: lanes over the channels of the result where those fill the vectors (conv_lanes.h), else
// lanes over neighbouring positions (conv_flat.h); for the gradient of the weight also over rows (conv_rows.h).
#pragma once
#include <cstdint>
#include <cstring>

#include "conv_common.h"
#include "conv_flat.h"
#include "conv_lanes.h"
#include "conv_rows.h"
#include "vec.h"

namespace tensotron {
namespace TENSOTRON_ISA {

// Any dtype, one multiplication at a time (integers; sums wrap as the storage type does).
template <class T>
static inline void conv_forward_direct(const ConvShape& s, T* y, const T* x, const T* w, const T* bias) {
  const int64_t Cg = s.Cg(), Og = s.Og();
  for (int64_t n = 0; n < s.N; n++)
    for (int64_t o = 0; o < s.O; o++)
      for (int64_t oh = 0; oh < s.OH; oh++)
        for (int64_t ow = 0; ow < s.OW; ow++) {
          uint64_t acc = bias ? uint64_t(bias[o]) : 0;
          for (int64_t c = 0; c < Cg; c++)
            for (int64_t i = 0; i < s.KH; i++)
              for (int64_t j = 0; j < s.KW; j++) {
                int64_t h = oh * s.SH - s.PH + i * s.DH, v = ow * s.SW - s.PW + j * s.DW;
                if (h < 0 || h >= s.H || v < 0 || v >= s.W) continue;
                acc += uint64_t(x[((n * s.C + o / Og * Cg + c) * s.H + h) * s.W + v]) *
                       uint64_t(w[((o * Cg + c) * s.KH + i) * s.KW + j]);
              }
          *y++ = T(acc);
        }
}

template <class T>
static inline int conv_forward(const ConvShape& s, const Record& r) {
  const Arg* in = r.arg + r.nout;
  T* y = (T*)r.arg[0].data;
  const T *x = (const T*)in[0].data, *w = (const T*)in[1].data, *b = r.nin == 3 ? (const T*)in[2].data : nullptr;
  const ConvAfter<T> after(s, r);
  return lanes_fit<T>(s.Og()) ? conv_forward_lanes(s, y, x, w, b, after) : conv_forward_flat(s, y, x, w, b, after);
}

int k_conv_forward(const Record& r) {
  ConvShape s = conv_shape(r);
  if (s.N * s.O * s.OH * s.OW == 0) return OK;
  char *y = r.arg[0].data, *x = r.arg[1].data, *w = r.arg[2].data, *b = r.nin == 3 ? r.arg[3].data : nullptr;
  switch (r.compute) {
    case F32: return conv_forward<float>(s, r);
    case F64: return conv_forward<double>(s, r);
    case I64: conv_forward_direct(s, (int64_t*)y, (const int64_t*)x, (const int64_t*)w, (const int64_t*)b); return OK;
    case I32: conv_forward_direct(s, (int32_t*)y, (const int32_t*)x, (const int32_t*)w, (const int32_t*)b); return OK;
    case U8: conv_forward_direct(s, (uint8_t*)y, (const uint8_t*)x, (const uint8_t*)w, (const uint8_t*)b); return OK;
  }
  return UNSUPPORTED;
}

// Where a non-finite weight would meet the zeros around gy, which are no part of the sum.
template <class T>
static inline void conv_backward_input_direct(const ConvShape& s, T* gx, const T* gy, const T* w, const T* bias) {
  const int64_t Cg = s.Cg(), Og = s.Og();
  conv_fill_bias(s, gx, bias);
  for (int64_t n = 0; n < s.N; n++)
    for (int64_t o = 0; o < s.O; o++)
      for (int64_t oh = 0; oh < s.OH; oh++)
        for (int64_t ow = 0; ow < s.OW; ow++, gy++)
          for (int64_t c = 0; c < Cg; c++)
            for (int64_t i = 0; i < s.KH; i++)
              for (int64_t j = 0; j < s.KW; j++) {
                int64_t h = oh * s.SH - s.PH + i * s.DH, v = ow * s.SW - s.PW + j * s.DW;
                if (h < 0 || h >= s.H || v < 0 || v >= s.W) continue;
                gx[((n * s.C + o / Og * Cg + c) * s.H + h) * s.W + v] += *gy * w[((o * Cg + c) * s.KH + i) * s.KW + j];
              }
}

template <class T>
static inline int conv_backward_input(const Record& r) {
  ConvShape s = conv_shape(r);
  T* gx = (T*)r.arg[0].data;
  const T *gy = (const T*)r.arg[1].data, *w = (const T*)r.arg[2].data, *b = r.nin == 3 ? (const T*)r.arg[3].data : nullptr;
  if (s.N * s.C * s.H * s.W == 0) return OK;
  if (s.O > 0 && conv_all_finite(w, s.O * s.Cg() * s.KH * s.KW))
    return lanes_fit<T>(s.Cg()) ? conv_backward_input_lanes(s, gx, gy, w, b) : conv_backward_input_flat(s, gx, gy, w, b);
  conv_backward_input_direct(s, gx, gy, w, b);
  return OK;
}

int k_conv_backward_input(const Record& r) {
  if (r.compute == F32) return conv_backward_input<float>(r);
  if (r.compute == F64) return conv_backward_input<double>(r);
  return UNSUPPORTED;
}

// Where a non-finite input would meet the zeros put between rows of gy.
template <class T>
static inline void conv_backward_weight_direct(const ConvShape& s, T* gw, const T* gy, const T* x) {
  const int64_t Cg = s.Cg(), Og = s.Og();
  for (int64_t o = 0; o < s.O; o++)
    for (int64_t c = 0; c < Cg; c++)
      for (int64_t i = 0; i < s.KH; i++)
        for (int64_t j = 0; j < s.KW; j++) {
          T sum = 0;
          for (int64_t n = 0; n < s.N; n++)
            for (int64_t oh = 0; oh < s.OH; oh++)
              for (int64_t ow = 0; ow < s.OW; ow++) {
                int64_t h = oh * s.SH - s.PH + i * s.DH, v = ow * s.SW - s.PW + j * s.DW;
                if (h < 0 || h >= s.H || v < 0 || v >= s.W) continue;
                sum += gy[((n * s.O + o) * s.OH + oh) * s.OW + ow] *
                       x[((n * s.C + o / Og * Cg + c) * s.H + h) * s.W + v];
              }
          *gw++ = sum;
        }
}

// ---------------------------------------------------------------- gradient of the bias
template <class T>
static inline int conv_backward_bias(const ConvShape& s, T* gb, const T* gy) {
  const int64_t area = s.OH * s.OW;
  return parallel(team_for(double(s.N) * double(s.O * area) / 8), s.O, 1, [=](int, int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; o++) {
      T total = 0;
      for (int64_t n = 0; n < s.N; n++) total += conv_plane_sum(gy + (n * s.O + o) * area, area);
      gb[o] = total;
    }
    return int(OK);
  });
}

template <class T>
static inline int conv_backward_weight(const Record& r) {
  ConvShape s = conv_shape(r);
  T *gw = (T*)r.arg[0].data, *gb = r.nout == 2 ? (T*)r.arg[1].data : nullptr;
  const T *gy = (const T*)r.arg[r.nout].data, *x = (const T*)r.arg[r.nout + 1].data;
  const bool some = s.N > 0 && s.O * s.Cg() * s.KH * s.KW > 0, lanes = lanes_fit<T>(s.Og());
  if (some && rows_fit<T>(s, lanes)) return conv_backward_weight_rows(s, gw, gb, gy, x);
  if (gb) conv_backward_bias(s, gb, gy);
  if (some && lanes) return conv_backward_weight_lanes(s, gw, gy, x);
  if (some && conv_all_finite(x, s.N * s.C * s.H * s.W)) return conv_backward_weight_flat(s, gw, gy, x);
  conv_backward_weight_direct(s, gw, gy, x);
  return OK;
}

int k_conv_backward_weight(const Record& r) {
  if (r.compute == F32) return conv_backward_weight<float>(r);
  if (r.compute == F64) return conv_backward_weight<double>(r);
  return UNSUPPORTED;
}

template <class T>
static inline int conv_backward_bias(const Record& r) {
  return conv_backward_bias(conv_shape(r), (T*)r.arg[0].data, (const T*)r.arg[1].data);
}

int k_conv_backward_bias(const Record& r) {
  if (r.compute == F32) return conv_backward_bias<float>(r);
  if (r.compute == F64) return conv_backward_bias<double>(r);
  return UNSUPPORTED;
}

}  // namespace TENSOTRON_ISA
}  // namespace tensotron
