// ---- Centring: what is subtracted from a potential, a function of θ alone. ----

struct NotCentred {
  template <int N>
  static void subtract(const float*, float*, float) noexcept {}
  template <int N>
  static void subtract_gradient(const float*, float*) noexcept {}
};

// B(θ) = Σ_k c_k Π_j P(n_kj, u_j): Legendre polynomials on a box, constant beyond it.
template <class Table>
struct Centred {
  static constexpr int dim = Table::dim, degree = Table::degree;
  template <int N>
  static void subtract(const float* theta, float* value, float sign) noexcept {
    float p[(degree + 1) * dim * N];
    float slope[(degree + 1) * dim * N];
    tabulate<N>(theta, p, slope);
    float sum[N] = {};
    for (int k = 0; k < Table::terms; ++k) {
      float product[N];
      for (int l = 0; l < N; ++l) product[l] = Table::coefficients[k];
      for (int j = 0; j < dim; ++j) {
        const float* lane = p + (Table::degrees[k * dim + j] * dim + j) * N;
        for (int l = 0; l < N; ++l) product[l] *= lane[l];
      }
      for (int l = 0; l < N; ++l) sum[l] += product[l];
    }
    for (int l = 0; l < N; ++l) value[l] -= sign * sum[l];
  }
  template <int N>
  static void subtract_gradient(const float* theta, float* score) noexcept {
    float p[(degree + 1) * dim * N];
    float slope[(degree + 1) * dim * N];
    tabulate<N>(theta, p, slope);
    float sum[dim * N] = {};
    for (int k = 0; k < Table::terms; ++k) {
      for (int i = 0; i < dim; ++i) {
        if (Table::degrees[k * dim + i] == 0) continue;
        float product[N];
        for (int l = 0; l < N; ++l) product[l] = Table::coefficients[k];
        for (int j = 0; j < dim; ++j) {
          const float* lane = (i == j ? slope : p) + (Table::degrees[k * dim + j] * dim + j) * N;
          for (int l = 0; l < N; ++l) product[l] *= lane[l];
        }
        for (int l = 0; l < N; ++l) sum[i * N + l] += product[l];
      }
    }
    for (int k = 0; k < dim * N; ++k) score[k] -= sum[k];
  }

 private:
  // All polynomials of every parameter, and their derivatives by it.
  template <int N>
  static void tabulate(const float* theta, float* p, float* slope) noexcept {
    for (int j = 0; j < dim; ++j) {
      const float box = Table::high[j] - Table::low[j];
      for (int l = 0; l < N; ++l) {
        float u = 2.0f * (theta[j * N + l] - Table::low[j]) / box - 1.0f;
        float rise = u < -1.0f - Table::margin || u > 1.0f + Table::margin ? 0.0f : 2.0f / box;
        u = u < -1.0f - Table::margin ? -1.0f - Table::margin : u;
        u = u > 1.0f + Table::margin ? 1.0f + Table::margin : u;
        p[j * N + l] = 1.0f;
        slope[j * N + l] = 0.0f;
        if constexpr (degree > 0) {
          p[(dim + j) * N + l] = u;
          slope[(dim + j) * N + l] = rise;
        }
        for (int n = 1; n < degree; ++n) {
          const float a = static_cast<float>(2 * n + 1), b = static_cast<float>(n);
          const int here = (n * dim + j) * N + l, before = here - dim * N, after = here + dim * N;
          p[after] = (a * u * p[here] - b * p[before]) / (b + 1.0f);
          slope[after] =
              (a * (rise * p[here] + u * slope[here]) - b * slope[before]) / (b + 1.0f);
        }
      }
    }
  }
};

