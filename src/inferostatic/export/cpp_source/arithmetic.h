// ---- Small arithmetic: vectors of floats, or single ones where a compiler has none. ----

#if defined(__GNUC__) && !defined(INFEROSTATIC_NO_VECTORS)
#if defined(__AVX__)
inline constexpr int width = 8;
typedef float Lanes __attribute__((vector_size(32)));
typedef std::int32_t Masks __attribute__((vector_size(32)));
#else
inline constexpr int width = 4;
typedef float Lanes __attribute__((vector_size(16)));
typedef std::int32_t Masks __attribute__((vector_size(16)));
#endif
inline Lanes fill(float value) noexcept { return Lanes{} + value; }
inline Lanes choose(Masks mask, Lanes a, Lanes b) noexcept {
  return reinterpret_cast<Lanes>((mask & reinterpret_cast<Masks>(a)) |
                                 (~mask & reinterpret_cast<Masks>(b)));
}
inline Masks truncate(Lanes value) noexcept { return __builtin_convertvector(value, Masks); }
inline Lanes as_float(Masks value) noexcept { return __builtin_convertvector(value, Lanes); }
inline Lanes with_bits(Masks bits) noexcept { return reinterpret_cast<Lanes>(bits); }
inline Lanes logarithm_of_one_plus(Lanes value) noexcept {
  for (int k = 0; k < width; ++k) value[k] = std::log1p(value[k]);
  return value;
}
#else
inline constexpr int width = 1;
typedef float Lanes;
inline float fill(float value) noexcept { return value; }
inline float choose(bool mask, float a, float b) noexcept { return mask ? a : b; }
inline std::int32_t truncate(float value) noexcept {
  return value >= 0.0f ? static_cast<std::int32_t>(value) : 0;  // NaN stays one by other terms
}
inline float as_float(std::int32_t value) noexcept { return static_cast<float>(value); }
inline float with_bits(std::int32_t bits) noexcept {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline float logarithm_of_one_plus(float value) noexcept { return std::log1p(value); }
#endif

#if defined(__GNUC__)
#define INFEROSTATIC_RESTRICT __restrict__
#elif defined(_MSC_VER)
#define INFEROSTATIC_RESTRICT __restrict
#else
#define INFEROSTATIC_RESTRICT
#endif

inline Lanes load(const float* from) noexcept {
  Lanes value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline void store(float* to, Lanes value) noexcept { std::memcpy(to, &value, sizeof value); }

// e^z - 1 and e^z to the last digit of a float: z = n ln 2 + r, and a polynomial of r.
struct Exponential {
  Lanes minus_one, value;
};

inline Exponential exponential(Lanes z) noexcept {
  z = choose(z < -87.0f, fill(-87.0f), z);
  z = choose(z > 88.0f, fill(88.0f), z);
  const auto exponent = truncate(z * 1.44269504f + 127.5f);  // n + 127, which is positive
  const Lanes n = as_float(exponent) - 127.0f;
  const Lanes r = (z - n * 0.693359375f) + n * 2.12194440e-4f;
  Lanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r;
  const Lanes power = with_bits(exponent << 23);
  return {power * p + (power - 1.0f), power * p + power};
}

// ---- Activations: value and slope at z. ----

struct Point {
  Lanes value, slope;
};

inline Lanes logistic(Lanes z) noexcept { return 1.0f / (1.0f + exponential(-z).value); }

inline Lanes hyperbolic_tangent(Lanes z) noexcept {
  const Lanes e = exponential(choose(z < 0.0f, 2.0f * z, -2.0f * z)).minus_one;
  const Lanes t = e / (e + 2.0f);
  return choose(z < 0.0f, t, -t);
}

struct Silu {
  static Point at(Lanes z) noexcept {
    const Lanes s = logistic(z);
    return {z * s, s * (1.0f + z * (1.0f - s))};
  }
};

struct Selu {
  static Point at(Lanes z) noexcept {
    constexpr float scale = 1.0507009873554805f, alpha = 1.6732632423543772f;
    const Exponential e = exponential(z);
    const Lanes value = choose(z > 0.0f, z, alpha * e.minus_one);
    const Lanes slope = choose(z > 0.0f, fill(1.0f), alpha * e.value);
    return {scale * value, scale * slope};
  }
};

// CELU with its default α is the same function.
struct Elu {
  static Point at(Lanes z) noexcept {
    const Exponential e = exponential(z);
    return {choose(z > 0.0f, z, e.minus_one), choose(z > 0.0f, fill(1.0f), e.value)};
  }
};

struct Relu {
  static Point at(Lanes z) noexcept {
    const Lanes none = z * 0.0f;  // 0, and NaN of NaN
    return {choose(z > 0.0f, z, none), choose(z > 0.0f, fill(1.0f), none)};
  }
};

struct Softplus {
  static Point at(Lanes z) noexcept {
    const Lanes tail = logarithm_of_one_plus(exponential(choose(z < 0.0f, z, -z)).value);
    return {choose(z > 0.0f, z, fill(0.0f)) + tail, logistic(z)};
  }
};

// The approximation by a hyperbolic tangent, which is JAX's default.
struct Gelu {
  static Point at(Lanes z) noexcept {
    constexpr float k = 0.7978845608028654f, c = 0.044715f;
    const Lanes t = hyperbolic_tangent(k * (z + c * z * z * z));
    const Lanes rise = k * (1.0f + 3.0f * c * z * z);
    return {0.5f * z * (1.0f + t), 0.5f * (1.0f + t) + 0.5f * z * (1.0f - t * t) * rise};
  }
};

struct Sigmoid {
  static Point at(Lanes z) noexcept {
    const Lanes s = logistic(z);
    return {s, s * (1.0f - s)};
  }
};

struct Tanh {
  static Point at(Lanes z) noexcept {
    const Lanes t = hyperbolic_tangent(z);
    return {t, 1.0f - t * t};
  }
};

// z tanh ln(1 + e^z), where the two functions cancel to a fraction.
struct Mish {
  static Point at(Lanes z) noexcept {
    const Lanes e = exponential(choose(z > 20.0f, fill(20.0f), z)).value;
    const Lanes w = e * (e + 2.0f);
    const Lanes t = w / (w + 2.0f);
    return {z * t, t + z * logistic(z) * (2.0f / (w + 2.0f)) * (1.0f + t)};
  }
};
