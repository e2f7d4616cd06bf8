// ---- From rows in memory, as NumPy has them, to blocks and back. ----

// Rows `0 … count - 1` as (column, lane), the last one repeated; a step of 0 repeats the first.
template <int N, int Dim, class T>
inline void load_rows(const T* rows, std::size_t step, int count, float* block) noexcept {
  for (int l = 0; l < N; ++l) {
    const T* row = rows + static_cast<std::size_t>(l < count ? l : count - 1) * step;
    for (int j = 0; j < Dim; ++j) block[j * N + l] = static_cast<float>(row[j]);
  }
}

inline std::size_t to_size(int lane) noexcept { return static_cast<std::size_t>(lane); }

// (column, lane) as rows.
template <int N, int Dim, class Out>
inline void write_rows(const float* block, int count, Out* out) noexcept {
  for (int l = 0; l < count; ++l) {
    for (int j = 0; j < Dim; ++j) *out++ = static_cast<Out>(block[j * N + l]);
  }
}

// θ as features, with B⁰ = ∂features/∂θ where there are derivatives; of two points, their middle
// and half their difference.
template <class Parts, class B>
inline void place_theta(const float* theta, float* t) noexcept {
  constexpr int dim = Parts::theta_dim, lanes = B::lanes;
  for (int j = 0; j < dim; ++j) {
    float* value = t + B::at(j, 0, dim);
    for (int l = 0; l < lanes; ++l) {
      value[l] = (theta[j * lanes + l] - Parts::theta_centre[j]) / Parts::theta_scale[j];
    }
    if constexpr (B::difference) {
      const float* other = theta + (dim + j) * lanes;
      float* half = t + B::at(j, 1, dim);
      for (int l = 0; l < lanes; ++l) {
        const float first = value[l];
        const float second = (other[l] - Parts::theta_centre[j]) / Parts::theta_scale[j];
        value[l] = 0.5f * (first + second);
        half[l] = 0.5f * (first - second);
      }
    } else {
      for (int c = 1; c < B::columns; ++c) {
        set_row<lanes>(t + B::at(j, c, dim), j == c - 1 ? 1.0f / Parts::theta_scale[j] : 0.0f);
      }
    }
  }
}

// Calls `evaluate(first, count, lanes)` for blocks of events, and one by one for what is left.
template <int N, class Evaluate>
inline void for_blocks(std::size_t n, const Evaluate& evaluate) noexcept {
  std::size_t first = 0;
  if constexpr (N > 1) {
    for (; n - first > 2; first += first + N < n ? N : n - first) {
      const std::size_t left = n - first;
      evaluate(first, left < N ? static_cast<int>(left) : N, std::integral_constant<int, N>());
    }
  }
  for (; first < n; ++first) evaluate(first, 1, std::integral_constant<int, 1>());
}

// ---- Potentials at one θ, or at one and with derivatives, or differences between two θ. ----

template <class Parts, int Points, int Columns>
struct Members {
  using Network = typename Parts::Network;
  static constexpr int dim = Parts::theta_dim, columns = Columns;
  static constexpr int part = Network::part * columns;
  // What the members make of one θ is kept for all events where it takes little memory.
  static constexpr bool keeps = Parts::members * part <= 16384;

  // θ of this evaluation, as (point, parameter, lane).
  template <int N, class T>
  static void load(const T* const (&theta)[Points], std::size_t step, int count,
                   float* raw) noexcept {
    for (int p = 0; p < Points; ++p) {
      load_rows<N, dim>(theta[p], step, count, raw + p * dim * N);
    }
  }

  static void embed(const float* raw, float* kept) noexcept {
    using B = Block<1, columns, Points == 2>;
    float t[dim * B::rows];
    place_theta<Parts, B>(raw, t);
    for (int m = 0; m < Parts::members; ++m) {
      Network::template embed_theta<B>(Parts::weights[m], t, kept + m * part);
    }
  }

  // The mean over members, as (column, lane).
  template <int N, class X>
  static void average(const X* x, int count, const float* raw, const float* kept,
                      float* total) noexcept {
    using B = Block<N, columns, Points == 2>;
    float observed[Parts::x_dim * N];
    alignas(64) float u[Parts::XFeatures::out * N];
    load_rows<N, Parts::x_dim>(x, Parts::x_dim, count, observed);
    Parts::XFeatures::template apply<N>(observed, u);
    float t[dim * B::rows];
    place_theta<Parts, B>(raw, t);
    for (int k = 0; k < B::rows; ++k) total[k] = 0.0f;
    for (int m = 0; m < Parts::members; ++m) {
      alignas(64) float z[Network::part * B::rows];
      float value[B::rows];
      const float* w = Parts::weights[m];
      if (kept == nullptr) {
        Network::template embed_theta<B>(w, t, z);
      } else {
        spread<B, Network::part>(kept + m * part, z);
      }
      Network::template join<B>(w, u, z, value);
      for (int k = 0; k < B::rows; ++k) total[k] += value[k];
    }
    for (int k = 0; k < B::rows; ++k) total[k] /= static_cast<float>(Parts::members);
  }

  // `finish(total, raw, lanes, first, count)` makes results of the means over members.
  template <class X, class T, class Finish>
  static void for_rows(const X* x, const T* const (&theta)[Points], std::size_t n,
                       std::size_t step, const Finish& finish) noexcept {
    float kept[keeps ? Parts::members * part : 1];
    const bool keep = keeps && step == 0 && n > 1;
    if (keep) {
      float raw[Points * dim];
      load<1>(theta, 0, 1, raw);
      if constexpr (keeps) embed(raw, kept);
    }
    for_blocks<Parts::lanes>(n, [&](std::size_t first, int count, auto lanes) {
      constexpr int N = decltype(lanes)::value;
      const T* rows[Points];
      for (int p = 0; p < Points; ++p) rows[p] = theta[p] + first * step;
      float raw[Points * dim * N];
      float total[columns * N];
      load<N>(rows, step, count, raw);
      average<N>(x + first * Parts::x_dim, count, raw, keep ? kept : nullptr, total);
      finish(total, raw, lanes, first, count);
    });
  }
};

// ---- What is public: functions of one event, and of n events in rows. ----

template <class Parts>
struct PotentialFunctions {
  static constexpr std::size_t x_dim = Parts::x_dim, theta_dim = Parts::theta_dim;

  // φ(x, θ), which models ln p(x; θ) + c(x) with an arbitrary c.
  template <class X, class T>
  static float potential(const X* x, const T* theta) noexcept {
    float value;
    potential(x, theta, 1, &value);
    return value;
  }

  // The score, the derivatives of φ by every parameter.
  template <class X, class T>
  static std::array<float, theta_dim> score(const X* x, const T* theta) noexcept {
    std::array<float, theta_dim> value;
    score(x, theta, 1, value.data());
    return value;
  }

  // ln p(x; θ0) - ln p(x; θ1).
  template <class X, class T>
  static float log_ratio(const X* x, const T* theta0, const T* theta1) noexcept {
    float value;
    log_ratio(x, theta0, theta1, 1, &value);
    return value;
  }

  // The same for n rows of x and of θ; with theta_step = 0 one θ serves for all events.
  template <class X, class T, class Out>
  static void potential(const X* x, const T* theta, std::size_t n, Out* out,
                        std::size_t theta_step = theta_dim) noexcept {
    const T* const points[] = {theta};
    Members<Parts, 1, 1>::for_rows(
        x, points, n, theta_step,
        [&](float* total, const float* raw, auto lanes, std::size_t first, int count) {
          Parts::Centring::template subtract<decltype(lanes)::value>(raw, total, 1.0f);
          for (int l = 0; l < count; ++l) out[first + to_size(l)] = static_cast<Out>(total[l]);
        });
  }

  template <class X, class T, class Out>
  static void score(const X* x, const T* theta, std::size_t n, Out* out,
                    std::size_t theta_step = theta_dim) noexcept {
    const T* const points[] = {theta};
    Members<Parts, 1, 1 + Parts::theta_dim>::for_rows(
        x, points, n, theta_step,
        [&](float* total, const float* raw, auto lanes, std::size_t first, int count) {
          constexpr int N = decltype(lanes)::value;
          Parts::Centring::template subtract_gradient<N>(raw, total + N);
          write_rows<N, Parts::theta_dim>(total + N, count, out + first * theta_dim);
        });
  }

  template <class X, class T, class Out>
  static void log_ratio(const X* x, const T* theta0, const T* theta1, std::size_t n, Out* out,
                        std::size_t theta_step = theta_dim) noexcept {
    const T* const points[] = {theta0, theta1};
    Members<Parts, 2, 2>::for_rows(
        x, points, n, theta_step,
        [&](float* total, const float* raw, auto lanes, std::size_t first, int count) {
          constexpr int N = decltype(lanes)::value;
          float centring[N] = {};
          Parts::Centring::template subtract<N>(raw, centring, 1.0f);
          Parts::Centring::template subtract<N>(raw + Parts::theta_dim * N, centring, -1.0f);
          for (int l = 0; l < count; ++l) {
            out[first + to_size(l)] = static_cast<Out>(2.0f * total[N + l] + centring[l]);
          }
        });
  }
};

// The mean over members of a network of features of x and of one or two θ.
template <class Parts, int Points, int N, class X, class T>
inline void apply_direct(const X* x, const T* const (&theta)[Points], std::size_t step, int count,
                         float* total) noexcept {
  using Network = typename Parts::Network;
  using B = Block<N, 1>;
  constexpr int dim = Parts::theta_dim, features = Parts::XFeatures::out;
  float observed[Parts::x_dim * N];
  alignas(64) float inputs[Network::in * N];
  load_rows<N, Parts::x_dim>(x, Parts::x_dim, count, observed);
  Parts::XFeatures::template apply<N>(observed, inputs);
  for (int p = 0; p < Points; ++p) {
    float raw[dim * N];
    load_rows<N, dim>(theta[p], step, count, raw);
    place_theta<Parts, B>(raw, inputs + (features + p * dim) * N);
  }
  for (int k = 0; k < Network::out * N; ++k) total[k] = 0.0f;
  for (int m = 0; m < Parts::members; ++m) {
    float value[Network::out * N];
    apply<Network, B>(Parts::weights[m], inputs, value);
    for (int k = 0; k < Network::out * N; ++k) total[k] += value[k];
  }
  for (int k = 0; k < Network::out * N; ++k) total[k] /= static_cast<float>(Parts::members);
}

template <class Parts>
struct ScoreFunctions {
  static constexpr std::size_t x_dim = Parts::x_dim, theta_dim = Parts::theta_dim;

  // The score.
  template <class X, class T>
  static std::array<float, theta_dim> score(const X* x, const T* theta) noexcept {
    std::array<float, theta_dim> value;
    score(x, theta, 1, value.data());
    return value;
  }

  // The same for n rows of x and of θ; with theta_step = 0 one θ serves for all events.
  template <class X, class T, class Out>
  static void score(const X* x, const T* theta, std::size_t n, Out* out,
                    std::size_t theta_step = theta_dim) noexcept {
    for_blocks<Parts::lanes>(n, [&](std::size_t first, int count, auto lanes) {
      constexpr int N = decltype(lanes)::value, dim = Parts::theta_dim;
      const T* const points[] = {theta + first * theta_step};
      float total[dim * N];
      apply_direct<Parts, 1, N>(x + first * x_dim, points, theta_step, count, total);
      for (int j = 0; j < dim; ++j) {
        for (int l = 0; l < N; ++l) total[j * N + l] /= Parts::theta_scale[j];
      }
      write_rows<N, dim>(total, count, out + first * theta_dim);
    });
  }
};

template <class Parts>
struct RatioFunctions {
  static constexpr std::size_t x_dim = Parts::x_dim, theta_dim = Parts::theta_dim;

  // ln p(x; θ0) - ln p(x; θ1).
  template <class X, class T>
  static float log_ratio(const X* x, const T* theta0, const T* theta1) noexcept {
    float value;
    log_ratio(x, theta0, theta1, 1, &value);
    return value;
  }

  // The same for n rows of x and of θ; with theta_step = 0 one θ serves for all events.
  template <class X, class T, class Out>
  static void log_ratio(const X* x, const T* theta0, const T* theta1, std::size_t n, Out* out,
                        std::size_t theta_step = theta_dim) noexcept {
    for_blocks<Parts::lanes>(n, [&](std::size_t first, int count, auto lanes) {
      constexpr int N = decltype(lanes)::value;
      const T* const points[] = {theta0 + first * theta_step, theta1 + first * theta_step};
      float zeta[2 * N];
      apply_direct<Parts, 2, N>(x + first * x_dim, points, theta_step, count, zeta);
      for (int l = 0; l < count; ++l) {
        out[first + to_size(l)] = static_cast<Out>(zeta[l] - zeta[N + l]);
      }
    });
  }
};

// Whether every value lies between its edges, to the rounding of float32; NaN does not.
template <std::size_t Dim, class T>
inline bool lies_within(const T* values, const std::array<double, Dim>& low,
                        const std::array<double, Dim>& high) noexcept {
  for (std::size_t j = 0; j < Dim; ++j) {
    const double largest = std::numeric_limits<double>::max();
    const double below = low[j] < -largest ? 0.0 : std::fabs(low[j]);
    const double above = high[j] > largest ? 0.0 : std::fabs(high[j]);
    const double slack = 1e-6 * (below + above), value = static_cast<double>(values[j]);
    if (!(value >= low[j] - slack && value <= high[j] + slack)) return false;
  }
  return true;
}
