// Score and log ratio of events in a file, by a header of ist.export.cpp.
//
//   python make_model.py                                # writes model.h and events.csv
//   c++ -std=c++17 -O3 -march=native events.cpp -o events
//   ./events events.csv 1.5,3,4 2,2,2                   # the file, theta0, theta1
//
// One event is evaluated at a time, as in the loop of an analysis; the sum at the end is the log
// likelihood ratio of all events, which is made in rows, faster, and must agree.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "model.h"

using Model = model::Model;

std::vector<double> read_numbers(const std::string& line) {
  std::vector<double> numbers;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) numbers.push_back(std::stod(cell));
  return numbers;
}

std::vector<double> read_theta(const std::string& text) {
  std::vector<double> theta = read_numbers(text);
  if (theta.size() != Model::theta_dim) {
    throw std::runtime_error("theta must have " + std::to_string(Model::theta_dim) +
                             " numbers, separated by commas; got " + text);
  }
  if (!Model::contains_theta(theta.data())) {
    std::cerr << "theta " << text << " lies outside the trained region: extrapolated\n";
  }
  return theta;
}

// The columns must be those the model was trained with, in their order.
void check_columns(const std::string& line) {
  std::istringstream stream(line);
  std::string cell;
  for (const char* name : Model::x_names) {
    if (!std::getline(stream, cell, ',') || cell != name) {
      throw std::runtime_error(std::string("expected the column ") + name + ", got " + cell);
    }
  }
}

int run(const char* path, const std::string& text0, const std::string& text1) {
  const std::vector<double> theta0 = read_theta(text0), theta1 = read_theta(text1);
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw std::runtime_error(std::string("cannot read ") + path);
  check_columns(line);

  std::vector<double> all;
  double sum = 0;
  std::size_t count = 0, outside = 0;
  while (std::getline(file, line)) {
    const std::vector<double> x = read_numbers(line);
    if (x.size() != Model::x_dim) throw std::runtime_error("a row has another number of columns");
    outside += Model::contains_x(x.data()) ? 0 : 1;
    const auto score = Model::score(x.data(), theta0.data());
    const float log_ratio = Model::log_ratio(x.data(), theta0.data(), theta1.data());
    std::printf("%zu", count);
    for (const float s : score) std::printf(" %.5f", static_cast<double>(s));
    std::printf(" %.5f\n", static_cast<double>(log_ratio));
    sum += static_cast<double>(log_ratio);
    all.insert(all.end(), x.begin(), x.end());
    ++count;
  }

  std::vector<float> ratios(count);
  Model::log_ratio(all.data(), theta0.data(), theta1.data(), count, ratios.data(), 0);
  double in_rows = 0;
  for (const float ratio : ratios) in_rows += static_cast<double>(ratio);
  std::printf("sum %.4f in rows %.4f, %zu of %zu events outside the range of training\n", sum,
              in_rows, outside, count);
  return std::fabs(sum - in_rows) < 1e-3 * (1 + std::fabs(sum)) ? 0 : 1;
}

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "usage: events events.csv theta0 theta1, such as events.csv 1.5,3,4 2,2,2\n";
    return 2;
  }
  try {
    return run(arguments[1], arguments[2], arguments[3]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
