// ---- Layers. They act on a block: some columns for each of some events, the lanes. ----

// The first column is a value. After it come its derivatives by every parameter (Appendix B); or
// the two are the middle and half the difference between two θ, so that a difference rounds like
// itself, and not like the two large numbers it is made of.
// Many lanes stand innermost, (units, columns, lanes); of one event the units do, (columns, units).
template <int Events, int Columns, bool Difference = false>
struct Block {
  static_assert(!Difference || Columns == 2, "a middle and half a difference");
  static constexpr int lanes = Events, columns = Columns, rows = Events * Columns;
  static constexpr bool difference = Difference;
  static constexpr int at(int unit, int column, int units) noexcept {
    return Events == 1 ? column * units + unit : (unit * Columns + column) * Events;
  }
};

// z[t][l] += Σ_i scalar[i][t] lane[i][l] for a tile that fits into registers.
template <int Steps, int Vectors, int LaneStep, int ScalarStep, int ScalarNext, int OutNext,
          std::size_t... K>
inline void multiply_tile(const float* lanes, const float* scalars, float* z,
                          std::index_sequence<K...>) noexcept {
  Lanes sum[] = {load(z + static_cast<int>(K) / Vectors * OutNext +
                      static_cast<int>(K) % Vectors * width)...};
  for (int i = 0; i < Steps; ++i) {
    const float* lane = lanes + i * LaneStep;
    const float* scalar = scalars + i * ScalarStep;
    ((sum[K] += scalar[static_cast<int>(K) / Vectors * ScalarNext] *
                load(lane + static_cast<int>(K) % Vectors * width)),
     ...);
  }
  (store(z + static_cast<int>(K) / Vectors * OutNext + static_cast<int>(K) % Vectors * width,
         sum[K]),
   ...);
}

// The same for `Height` scalars and all lanes.
template <int Steps, int Height, int LaneCount, int LaneStep, int ScalarStep, int ScalarNext,
          int OutNext>
inline void multiply_strip(const float* INFEROSTATIC_RESTRICT lanes,
                           const float* INFEROSTATIC_RESTRICT scalars,
                           float* INFEROSTATIC_RESTRICT z) noexcept {
  constexpr int vectors = Height > 2 ? 2 : 4;
  constexpr int full = LaneCount / (vectors * width) * (vectors * width);
  constexpr int rest = (LaneCount - full) / width;
  for (int l = 0; l < full; l += vectors * width) {
    multiply_tile<Steps, vectors, LaneStep, ScalarStep, ScalarNext, OutNext>(
        lanes + l, scalars, z + l, std::make_index_sequence<std::size_t{Height} * vectors>());
  }
  if constexpr (rest > 0) {
    multiply_tile<Steps, rest, LaneStep, ScalarStep, ScalarNext, OutNext>(
        lanes + full, scalars, z + full, std::make_index_sequence<std::size_t{Height} * rest>());
  }
  for (int l = full + rest * width; l < LaneCount; ++l) {
    for (int t = 0; t < Height; ++t) {
      float sum = z[t * OutNext + l];
      for (int i = 0; i < Steps; ++i) {
        sum += scalars[i * ScalarStep + t * ScalarNext] * lanes[i * LaneStep + l];
      }
      z[t * OutNext + l] = sum;
    }
  }
}

template <int Steps, int Scalars, int LaneCount, int LaneStep, int ScalarStep, int ScalarNext,
          int OutNext>
inline void multiply_strips(const float* lanes, const float* scalars, float* z) noexcept {
  constexpr int full = Scalars / 4 * 4;
  for (int t = 0; t < full; t += 4) {
    multiply_strip<Steps, 4, LaneCount, LaneStep, ScalarStep, ScalarNext, OutNext>(
        lanes, scalars + t * ScalarNext, z + t * OutNext);
  }
  if constexpr (Scalars > full) {
    multiply_strip<Steps, Scalars - full, LaneCount, LaneStep, ScalarStep, ScalarNext, OutNext>(
        lanes, scalars + full * ScalarNext, z + full * OutNext);
  }
}

// z += W a, with W stored as (in, out).
template <class B, int In, int Out>
inline void multiply(const float* w, const float* a, float* z) noexcept {
  if constexpr (B::lanes == 1) {
    multiply_strips<In, B::columns, Out, Out, 1, In, Out>(w, a, z);
  } else {
    multiply_strips<In, Out, B::rows, B::rows, Out, 1, B::rows>(a, w, z);
  }
}

// Rows of numbers, vector by vector.
template <int Count>
inline void set_row(float* to, float number) noexcept {
  constexpr int full = Count / width * width;
  for (int k = 0; k < full; k += width) store(to + k, fill(number));
  for (int k = full; k < Count; ++k) to[k] = number;
}

template <int Count>
inline void add_number(float* to, float number) noexcept {
  constexpr int full = Count / width * width;
  for (int k = 0; k < full; k += width) store(to + k, load(to + k) + number);
  for (int k = full; k < Count; ++k) to[k] += number;
}

template <int Count>
inline void add_row(float* to, const float* from) noexcept {
  constexpr int full = Count / width * width;
  for (int k = 0; k < full; k += width) store(to + k, load(to + k) + load(from + k));
  for (int k = full; k < Count; ++k) to[k] += from[k];
}

template <int Count>
inline void add_product(float* to, const float* a, const float* b) noexcept {
  constexpr int full = Count / width * width;
  for (int k = 0; k < full; k += width) store(to + k, load(to + k) + load(a + k) * load(b + k));
  for (int k = full; k < Count; ++k) to[k] += a[k] * b[k];
}

// The bias where the value is, and 0 elsewhere.
template <class B, int Units>
inline void start(const float* bias, float* z) noexcept {
  for (int c = 0; c < B::columns; ++c) {
    if constexpr (B::lanes == 1) {
      set_row<Units>(z + c * Units, 0.0f);
      if (c == 0) std::memcpy(z + c * Units, bias, Units * sizeof(float));
    } else {
      for (int u = 0; u < Units; ++u) {
        set_row<B::lanes>(z + B::at(u, c, Units), c == 0 ? bias[u] : 0.0f);
      }
    }
  }
}

template <class B, int Units>
inline void add_bias(const float* bias, float* z) noexcept {
  if constexpr (B::lanes == 1) {
    add_row<Units>(z, bias);
  } else {
    for (int u = 0; u < Units; ++u) add_number<B::lanes>(z + B::at(u, 0, Units), bias[u]);
  }
}

// σ of the first of some columns, each of so many numbers; the others are multiplied by σ'.
template <class Activation, int Count, int Columns>
inline void activate_columns(const float* z, float* a) noexcept {
  constexpr int full = Count / width * width, rest = Count - full;
  for (int k = 0; k < full; k += width) {
    const Point point = Activation::at(load(z + k));
    store(a + k, point.value);
    for (int c = 1; c < Columns; ++c) {
      store(a + c * Count + k, point.slope * load(z + c * Count + k));
    }
  }
  if constexpr (rest > 0) {
    float padded[width] = {};
    std::memcpy(padded, z + full, rest * sizeof(float));
    const Point point = Activation::at(load(padded));
    store(padded, point.value);
    std::memcpy(a + full, padded, rest * sizeof(float));
    store(padded, point.slope);
    for (int c = 1; c < Columns; ++c) {
      for (int k = 0; k < rest; ++k) {
        a[c * Count + full + k] = padded[k] * z[c * Count + full + k];
      }
    }
  }
}

// The middle and half the difference of σ(z + h) and σ(z - h), of columns of so many numbers.
template <class Activation>
inline void activate_pair(Lanes middle, Lanes half, float* a, float* b) noexcept {
  const Lanes above = Activation::at(middle + half).value;
  const Lanes below = Activation::at(middle - half).value;
  store(a, 0.5f * (above + below));
  store(b, 0.5f * (above - below));
}

template <class Activation, int Count>
inline void activate_pairs(const float* z, float* a) noexcept {
  constexpr int full = Count / width * width, rest = Count - full;
  for (int k = 0; k < full; k += width) {
    activate_pair<Activation>(load(z + k), load(z + Count + k), a + k, a + Count + k);
  }
  if constexpr (rest > 0) {
    float middle[width] = {}, half[width] = {};
    std::memcpy(middle, z + full, rest * sizeof(float));
    std::memcpy(half, z + Count + full, rest * sizeof(float));
    activate_pair<Activation>(load(middle), load(half), middle, half);
    std::memcpy(a + full, middle, rest * sizeof(float));
    std::memcpy(a + Count + full, half, rest * sizeof(float));
  }
}

// a = σ(z); derivatives are multiplied by σ'(z), differences are those of σ.
template <class Activation, class B, int Units>
inline void activate(const float* z, float* a) noexcept {
  // Of one event the units of a column stand side by side, otherwise the events.
  constexpr int count = B::lanes == 1 ? Units : B::lanes;
  if constexpr (B::columns == 1) {
    activate_columns<Activation, Units * B::rows, 1>(z, a);
  } else {
    for (int k = 0; k < Units * B::rows; k += count * B::columns) {
      if constexpr (B::difference) {
        activate_pairs<Activation, count>(z + k, a + k);
      } else {
        activate_columns<Activation, count, B::columns>(z + k, a + k);
      }
    }
  }
}
