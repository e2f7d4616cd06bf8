// ---- Features of x: columns as (column, lane). ----

template <int Dim>
struct Identity {
  static constexpr int in = Dim, out = Dim;
  template <int N>
  static void apply(const float* x, float* u) noexcept {
    for (int k = 0; k < Dim * N; ++k) u[k] = x[k];
  }
};

template <class Table>
struct Affine {
  static constexpr int in = Table::dim, out = Table::dim;
  template <int N>
  static void apply(const float* x, float* u) noexcept {
    for (int j = 0; j < in; ++j) {
      for (int l = 0; l < N; ++l) u[j * N + l] = (x[j * N + l] - Table::centre[j]) / Table::scale[j];
    }
  }
};

template <class Table>
struct Natural {
  static constexpr int in = Table::dim, out = Table::dim;
  template <int N>
  static void apply(const float* x, float* u) noexcept {
    for (int j = 0; j < in; ++j) {
      for (int l = 0; l < N; ++l) {
        u[j * N + l] = (coordinate(j, x[j * N + l]) - Table::centre[j]) / Table::scale[j];
      }
    }
  }

 private:
  static float larger(float value, float bound) noexcept { return value < bound ? bound : value; }
  static float coordinate(int j, float x) noexcept {
    float value = Table::linear[j] * x;
    if (Table::lower[j] > 0.0f || Table::lower[j] < 0.0f) {
      const float tiny = std::numeric_limits<float>::min();
      value += Table::lower[j] * std::log(larger(Table::sign[j] * x, tiny) + Table::offset[j]);
    }
    if (Table::upper[j] > 0.0f || Table::upper[j] < 0.0f) {
      const float below_one = std::numeric_limits<float>::epsilon() / 4.0f;
      value -= Table::upper[j] * std::log(larger(1.0f - x, below_one));
    }
    if (Table::curved[j] > 0.0f || Table::curved[j] < 0.0f) {
      value += Table::curved[j] * std::asinh((x - Table::middle[j]) / Table::spread[j]);
    }
    return value;
  }
};

// A monotone piecewise-linear map of each column: a sum of clipped segments.
template <class Table>
struct Quantile {
  static constexpr int in = Table::dim, out = Table::dim, segments = Table::segments;
  template <int N>
  static void apply(const float* x, float* u) noexcept {
    for (int j = 0; j < in; ++j) {
      float sum[N];
      for (int l = 0; l < N; ++l) sum[l] = 0.0f;
      for (int s = j * segments; s < (j + 1) * segments; ++s) {
        for (int l = 0; l < N; ++l) {
          float inside = x[j * N + l];
          inside = inside < Table::lower[s] ? Table::lower[s] : inside;
          inside = inside > Table::upper[s] ? Table::upper[s] : inside;
          sum[l] += Table::slope[s] * (inside - Table::origin[s]);
        }
      }
      for (int l = 0; l < N; ++l) u[j * N + l] = Table::begin[j] + sum[l];
    }
  }
};

template <class First, class Second>
struct Chained {
  static constexpr int in = First::in, out = Second::out;
  template <int N>
  static void apply(const float* x, float* u) noexcept {
    float between[First::out * N];
    First::template apply<N>(x, between);
    Second::template apply<N>(between, u);
  }
};

// Slots of particles, absent ones 0 and last, then ln(1 + their number) and the event's columns.
template <class Table, class Each, class Event>
struct PerParticle {
  static constexpr int particles = Table::particles, features = Table::features;
  static constexpr int mask = Table::mask, row = Each::out + 1;
  static constexpr int in = particles * features + Event::in - 1;
  static constexpr int out = particles * row + Event::out;
  template <int N>
  static void apply(const float* x, float* u) noexcept {
    float rows[particles * row * N];
    float event[Event::in * N] = {};
    for (int p = 0; p < particles; ++p) {
      const float* slot = x + p * features * N;
      float measured[Each::in * N];
      int column = 0;
      for (int j = 0; j < features; ++j) {
        if (j == mask) continue;
        for (int l = 0; l < N; ++l) measured[column * N + l] = slot[j * N + l];
        ++column;
      }
      float* to = rows + p * row * N;
      Each::template apply<N>(measured, to);
      for (int l = 0; l < N; ++l) {
        const bool there = is_present<N>(slot + l);
        for (int j = 0; j < Each::out; ++j) to[j * N + l] = there ? to[j * N + l] : 0.0f;
        to[Each::out * N + l] = there ? Table::presence : 0.0f;
        event[l] += there ? 1.0f : 0.0f;
      }
    }
    for (int l = 0; l < N; ++l) sort_slots<N>(rows + l, u + l);
    for (int l = 0; l < N; ++l) event[l] = std::log1p(event[l]);
    for (int k = N; k < Event::in * N; ++k) event[k] = x[particles * features * N + k - N];
    Event::template apply<N>(event, u + particles * row * N);
  }

 private:
  template <int N>
  static bool is_present(const float* slot) noexcept {
    if constexpr (mask >= 0) return !is_equal(slot[mask * N], 0.0f);
    for (int j = 0; j < features; ++j) {
      if (!is_equal(slot[j * N], Table::padding)) return true;
    }
    return false;
  }
  static bool is_equal(float a, float b) noexcept { return a <= b && a >= b; }
  // Descending by presence, then by the last feature, and so on: sums do not depend on the order.
  template <int N>
  static void sort_slots(const float* rows, float* u) noexcept {
    int order[particles];
    for (int p = 0; p < particles; ++p) {
      int place = p;
      while (place > 0 && precedes<N>(rows + p * row * N, rows + order[place - 1] * row * N)) {
        order[place] = order[place - 1];
        --place;
      }
      order[place] = p;
    }
    for (int p = 0; p < particles; ++p) {
      for (int j = 0; j < row; ++j) u[(p * row + j) * N] = rows[(order[p] * row + j) * N];
    }
  }
  template <int N>
  static bool precedes(const float* one, const float* other) noexcept {
    for (int j = row - 1; j >= 0; --j) {
      if (one[j * N] > other[j * N]) return true;
      if (one[j * N] < other[j * N]) return false;
    }
    return false;
  }
};

