// ---- Networks of one vector. Their weights follow each other: matrix, bias, matrix, bias, … ----

// What follows the activation of a hidden layer: a linear layer, and so on.
template <class Activation, int In, int Out, int... More>
struct Rest {
  static constexpr int size = (In + 1) * Out + Rest<Activation, Out, More...>::size;
  static constexpr int out = Rest<Activation, Out, More...>::out;
  template <class B>
  static void apply(const float* w, const float* z, float* result) noexcept {
    alignas(64) float a[In * B::rows];
    alignas(64) float next[Out * B::rows];
    activate<Activation, B, In>(z, a);
    start<B, Out>(w + In * Out, next);
    multiply<B, In, Out>(w, a, next);
    Rest<Activation, Out, More...>::template apply<B>(w + (In + 1) * Out, next, result);
  }
};

template <class Activation, int In, int Out>
struct Rest<Activation, In, Out> {
  static constexpr int size = (In + 1) * Out, out = Out;
  template <class B>
  static void apply(const float* w, const float* z, float* result) noexcept {
    alignas(64) float a[In * B::rows];
    activate<Activation, B, In>(z, a);
    start<B, Out>(w + In * Out, result);
    multiply<B, In, Out>(w, a, result);
  }
};

template <class Activation, int In, int First, int... More>
struct MLP {
  static constexpr int in = In, first = First, out = Rest<Activation, First, More...>::out;
  static constexpr int size = (In + 1) * First + Rest<Activation, First, More...>::size;
  template <class B>
  static void after_first(const float* w, const float* z, float* result) noexcept {
    Rest<Activation, First, More...>::template apply<B>(w, z, result);
  }
};

template <class Activation, int In, int Width, int Blocks, int Out>
struct Residual {
  static constexpr int in = In, first = Width, out = Out, square = (Width + 1) * Width;
  static constexpr int size = (In + 1) * Width + 2 * Blocks * square + (Width + 1) * Out;
  template <class B>
  static void after_first(const float* w, float* z, float* result) noexcept {
    alignas(64) float a[Width * B::rows];
    alignas(64) float between[Width * B::rows];
    for (int block = 0; block < Blocks; ++block) {
      activate<Activation, B, Width>(z, a);
      start<B, Width>(w + Width * Width, between);
      multiply<B, Width, Width>(w, a, between);
      w += square;
      activate<Activation, B, Width>(between, a);
      add_bias<B, Width>(w + Width * Width, z);
      multiply<B, Width, Width>(w, a, z);
      w += square;
    }
    activate<Activation, B, Width>(z, a);
    start<B, Out>(w + Width * Out, result);
    multiply<B, Width, Out>(w, a, result);
  }
};

// Network(a), of a block of inputs.
template <class Network, class B>
inline void apply(const float* w, const float* a, float* result) noexcept {
  constexpr int in = Network::in, first = Network::first;
  alignas(64) float z[first * B::rows];
  start<B, first>(w + in * first, z);
  multiply<B, in, first>(w, a, z);
  Network::template after_first<B>(w + (in + 1) * first, z, result);
}

// ---- Potentials: a part of θ, and how it is joined with x. ----

// A column of one event, for every lane of a block.
template <class B, int Units>
inline void spread(const float* one, float* block) noexcept {
  for (int c = 0; c < B::columns; ++c) {
    for (int u = 0; u < Units; ++u) {
      set_row<B::lanes>(block + B::at(u, c, Units), one[c * Units + u]);
    }
  }
}

// One network of x and θ: its first layer is a sum of a part of x and a part of θ.
template <class Network, int X>
struct Joint {
  static constexpr int size = Network::size, x_size = X, theta_size = Network::in - X;
  static constexpr int part = Network::first;
  template <class B>
  static void embed_theta(const float* w, const float* theta, float* z) noexcept {
    start<B, part>(w + Network::in * part, z);
    multiply<B, theta_size, part>(w + X * part, theta, z);
  }
  template <class B>
  static void join(const float* w, const float* x, float* z, float* result) noexcept {
    using One = Block<B::lanes, 1>;
    alignas(64) float of_x[part * B::lanes] = {};
    multiply<One, X, part>(w, x, of_x);
    if constexpr (B::lanes == 1) {
      add_row<part>(z, of_x);
    } else {
      for (int u = 0; u < part; ++u) add_row<B::lanes>(z + B::at(u, 0, part), of_x + u * B::lanes);
    }
    Network::template after_first<B>(w + (Network::in + 1) * part, z, result);
  }
};

// Σ f(x) g(θ)/√size + h(θ).
template <class XTower, class ThetaTower>
struct TwoTower {
  static constexpr int size = XTower::size + ThetaTower::size, x_size = XTower::in;
  static constexpr int part = ThetaTower::out, products = XTower::out;
  static_assert(part == products + 1, "g has a value for every product, and h is one more");
  template <class B>
  static void embed_theta(const float* w, const float* theta, float* g) noexcept {
    apply<ThetaTower, B>(w + XTower::size, theta, g);
  }
  template <class B>
  static void join(const float* w, const float* x, float* g, float* result) noexcept {
    using One = Block<B::lanes, 1>;
    alignas(64) float f[products * B::lanes];
    apply<XTower, One>(w, x, f);
    const float root = std::sqrt(static_cast<float>(products));
    for (int k = 0; k < products * B::lanes; ++k) f[k] /= root;
    for (int c = 0; c < B::columns; ++c) {
      float* sum = result + c * B::lanes;
      std::memcpy(sum, g + B::at(products, c, part), B::lanes * sizeof(float));
      for (int k = 0; k < products; ++k) {
        add_product<B::lanes>(sum, f + k * B::lanes, g + B::at(k, c, part));
      }
    }
  }
};

// A deep set: sum, mean and maximum over the particles, and the event's own columns, with θ.
template <class Each, class Join, int Particles>
struct ParticleSet {
  static constexpr int size = Each::size + Join::size, part = Join::part, pooled = Each::out;
  static constexpr int row = Each::in + 1, summary = Join::x_size, event = summary - 3 * pooled;
  static constexpr int x_size = Particles * row + event;
  template <class B>
  static void embed_theta(const float* w, const float* theta, float* z) noexcept {
    Join::template embed_theta<B>(w + Each::size, theta, z);
  }
  template <class B>
  static void join(const float* w, const float* x, float* z, float* result) noexcept {
    constexpr int lanes = B::lanes;
    using One = Block<lanes, 1>;
    alignas(64) float s[summary * lanes] = {};
    alignas(64) float embedded[pooled * lanes];
    float number[lanes] = {};
    for (int p = 0; p < Particles; ++p) {
      const float* slot = x + p * row * lanes;
      const float* presence = slot + Each::in * lanes;
      bool some = false;
      for (int l = 0; l < lanes; ++l) some = some || !(presence[l] <= 0.0f);
      if (!some) continue;
      apply<Each, One>(w, slot, embedded);
      for (int k = 0; k < pooled; ++k) {
        float* total = s + k * lanes;
        float* largest = s + (2 * pooled + k) * lanes;
        for (int l = 0; l < lanes; ++l) {
          const float value = embedded[k * lanes + l];
          const bool present = !(presence[l] <= 0.0f);
          total[l] += present ? value * presence[l] : 0.0f;
          const bool larger = number[l] <= 0.0f || !(value <= largest[l]);
          largest[l] = present && larger ? value : largest[l];
        }
      }
      for (int l = 0; l < lanes; ++l) number[l] += presence[l];
    }
    for (int k = 0; k < pooled; ++k) {
      for (int l = 0; l < lanes; ++l) {
        s[(pooled + k) * lanes + l] = s[k * lanes + l] / (number[l] <= 0.0f ? 1.0f : number[l]);
      }
    }
    for (int k = 0; k < event * lanes; ++k) {
      s[3 * pooled * lanes + k] = x[Particles * row * lanes + k];
    }
    Join::template join<B>(w + Each::size, s, z, result);
  }
};

