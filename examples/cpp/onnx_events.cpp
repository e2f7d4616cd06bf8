// Scores of events in a file, by onnxruntime's C++ API and a file of ist.export.onnx.
//
//   python make_model.py --onnx                         # writes model-score.onnx and events.csv
//   c++ -std=c++17 -O2 onnx_events.cpp -I$ORT/include -L$ORT/lib -lonnxruntime -o onnx_events
//   ./onnx_events model-score.onnx events.csv 1.5,3,4   # the model, the events, theta
//
// $ORT is the folder of a release of onnxruntime (headers and library), from its page on GitHub.

#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

std::vector<float> read_numbers(const std::string& line) {
  std::vector<float> numbers;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) numbers.push_back(std::stof(cell));
  return numbers;
}

int run(const char* model, const char* path, const std::string& theta_text) {
  Ort::Env environment(ORT_LOGGING_LEVEL_WARNING, "events");
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1);
  Ort::Session session(environment, model, options);

  // What the file says of itself; lists are JSON.
  Ort::AllocatorWithDefaultOptions allocator;
  const Ort::ModelMetadata metadata = session.GetModelMetadata();
  for (const char* key : {"x_names", "theta_names", "theta_low", "theta_high", "model_hash"}) {
    const auto value = metadata.LookupCustomMetadataMapAllocated(key, allocator);
    std::cerr << key << ": " << (value ? value.get() : "missing") << "\n";
  }
  const std::size_t x_dim = static_cast<std::size_t>(
      session.GetInputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape().at(1));

  const std::vector<float> one_theta = read_numbers(theta_text);
  std::vector<float> x, theta;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // names
  std::int64_t count = 0;
  for (; std::getline(file, line); ++count) {
    const std::vector<float> row = read_numbers(line);
    if (row.size() != x_dim) throw std::runtime_error("a row has another number of columns");
    x.insert(x.end(), row.begin(), row.end());
    theta.insert(theta.end(), one_theta.begin(), one_theta.end());
  }

  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const std::int64_t x_shape[] = {count, static_cast<std::int64_t>(x_dim)};
  const std::int64_t theta_shape[] = {count, static_cast<std::int64_t>(one_theta.size())};
  const Ort::Value inputs[] = {
      Ort::Value::CreateTensor<float>(memory, x.data(), x.size(), x_shape, 2),
      Ort::Value::CreateTensor<float>(memory, theta.data(), theta.size(), theta_shape, 2)};
  const char* input_names[] = {"x", "theta"};
  const char* output_names[] = {"score"};
  const auto outputs =
      session.Run(Ort::RunOptions{nullptr}, input_names, inputs, 2, output_names, 1);
  const float* score = outputs[0].GetTensorData<float>();

  for (std::int64_t i = 0; i < count; ++i) {
    std::printf("%lld", static_cast<long long>(i));
    for (std::size_t j = 0; j < one_theta.size(); ++j) {
      std::printf(" %.5f", static_cast<double>(*score++));
    }
    std::printf("\n");
  }
  return 0;
}

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "usage: onnx_events model-score.onnx events.csv theta, such as 1.5,3,4\n";
    return 2;
  }
  try {
    return run(arguments[1], arguments[2], arguments[3]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
