// Replaces what ONNX Runtime's operator tests include (test/providers/provider_test_utils.h
// and the headers of its runtime), so that they compile without ONNX Runtime: OpTester
// writes the case that a test describes instead of running it. record_ort_tests.py compiles
// each test file with it; see there.
#pragma once

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include <Eigen/Core>
#include <boost/mp11.hpp>
#include <gmock/gmock.h>
#include <gsl/gsl>
#include <gtest/gtest.h>

#define ONNX_NAMESPACE onnx
#include "onnx-ml.pb.h"

// Headers of ONNX Runtime that depend on no others.
#include "core/common/common.h"
#include "core/common/inlined_containers.h"
#include "core/common/narrow.h"
#include "core/common/span_utils.h"
#include "core/common/type_utils.h"
#include "core/framework/float16.h"
#include "core/framework/float8.h"
#include "core/framework/int4.h"
#include "core/framework/to_tensor_proto_element_type.h"

namespace onnx {
class OpSchema;
}

namespace onnxruntime {
template <typename T>
using optional = std::optional<T>;
using Status = common::Status;
using PathString = std::string;
using TensorShapeVector = InlinedVector<int64_t>;
using TensorShapeInlinedVector = TensorShapeVector;

constexpr const char* kOnnxDomain = "";
constexpr const char* kOnnxDomainAlias = "ai.onnx";
constexpr const char* kMLDomain = "ai.onnx.ml";
constexpr const char* kMSDomain = "com.microsoft";
constexpr const char* kMSNchwcDomain = "com.microsoft.nchwc";
constexpr const char* kMSInternalNHWCDomain = "com.ms.internal.nhwc";
constexpr const char* kMSExperimentalDomain = "com.microsoft.experimental";
constexpr const char* kPytorchAtenDomain = "org.pytorch.aten";

#define RECORDER_PROVIDER(name) constexpr const char* k##name##ExecutionProvider = #name;
RECORDER_PROVIDER(Cpu)
RECORDER_PROVIDER(Cuda)
RECORDER_PROVIDER(CudaNHWC)
RECORDER_PROVIDER(Dnnl)
RECORDER_PROVIDER(OpenVINO)
RECORDER_PROVIDER(VitisAI)
RECORDER_PROVIDER(Tensorrt)
RECORDER_PROVIDER(Nnapi)
RECORDER_PROVIDER(Rknpu)
RECORDER_PROVIDER(Dml)
RECORDER_PROVIDER(MIGraphX)
RECORDER_PROVIDER(Acl)
RECORDER_PROVIDER(ArmNN)
RECORDER_PROVIDER(Rocm)
RECORDER_PROVIDER(CoreML)
RECORDER_PROVIDER(JS)
RECORDER_PROVIDER(Snpe)
RECORDER_PROVIDER(Tvm)
RECORDER_PROVIDER(Xnnpack)
RECORDER_PROVIDER(WebNN)
RECORDER_PROVIDER(WebGpu)
RECORDER_PROVIDER(Cann)
RECORDER_PROVIDER(Azure)
RECORDER_PROVIDER(Qnn)
RECORDER_PROVIDER(VSINPU)

class TensorShape {
 public:
  TensorShape() = default;
  template <typename C, typename = decltype(std::declval<const C&>().begin())>
  TensorShape(const C& dims) : dims_(dims.begin(), dims.end()) {}
  TensorShape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  TensorShape(const int64_t* dims, size_t n) : dims_(dims, dims + n) {}
  static TensorShape FromExistingBuffer(gsl::span<const int64_t> dims) { return TensorShape(dims); }
  size_t NumDimensions() const { return dims_.size(); }
  int64_t operator[](size_t i) const { return dims_[i]; }
  int64_t& operator[](size_t i) { return dims_[i]; }
  gsl::span<const int64_t> GetDims() const { return {dims_.data(), dims_.size()}; }
  TensorShapeVector AsShapeVector() const { return {dims_.begin(), dims_.end()}; }
  int64_t SizeHelper(size_t from, size_t to) const {
    return std::accumulate(dims_.begin() + from, dims_.begin() + to, int64_t{1}, std::multiplies<int64_t>());
  }
  int64_t Size() const { return SizeHelper(0, dims_.size()); }
  int64_t SizeToDimension(size_t d) const { return SizeHelper(0, d); }
  int64_t SizeFromDimension(size_t d) const { return SizeHelper(d, dims_.size()); }
  TensorShape Slice(size_t from, size_t to) const { return TensorShape(dims_.data() + from, to - from); }
  TensorShape Slice(size_t from) const { return Slice(from, dims_.size()); }
  std::string ToString() const { return ::testing::PrintToString(dims_); }
  bool operator==(const TensorShape& o) const { return dims_ == o.dims_; }
  bool operator!=(const TensorShape& o) const { return dims_ != o.dims_; }

 private:
  std::vector<int64_t> dims_;
};

struct DataTypeImpl {
  int elem = 0;  // of a tensor, 0 for other values
  size_t size = 0;
  std::shared_ptr<void> (*make)(size_t) = nullptr;
  size_t Size() const { return size; }
  template <typename T>
  static const DataTypeImpl* GetType() {
    static const DataTypeImpl type{utils::ToTensorProtoElementType<T>(), sizeof(T), [](size_t n) -> std::shared_ptr<void> {
                                     return std::shared_ptr<T>(new T[n](), std::default_delete<T[]>());
                                   }};
    return &type;
  }
  template <typename T>
  static const DataTypeImpl* GetTensorType() { return GetType<T>(); }
};
using MLDataType = const DataTypeImpl*;

struct IAllocator {
  static bool CalcMemSizeForArray(size_t n, size_t size, size_t* out) {
    *out = n * size;
    return true;
  }
  template <typename T>
  static std::unique_ptr<T[]> MakeUniquePtr(std::shared_ptr<IAllocator>, size_t n) { return std::make_unique<T[]>(n); }
};
using AllocatorPtr = std::shared_ptr<IAllocator>;
struct CPUAllocator : IAllocator {};
}  // namespace onnxruntime

enum OrtAllocatorType { OrtInvalidAllocator = -1, OrtDeviceAllocator = 0, OrtArenaAllocator = 1 };
enum OrtMemType { OrtMemTypeCPUInput = -2, OrtMemTypeCPUOutput = -1, OrtMemTypeCPU = -1, OrtMemTypeDefault = 0 };
struct OrtDevice {};
struct OrtMemoryInfo {
  template <typename... A>
  OrtMemoryInfo(A&&...) {}
};
struct OrtCUDAProviderOptions { int use_tf32 = 1; };
struct OrtCUDAProviderOptionsV2 { int use_tf32 = 1, prefer_nhwc = 0; };
struct OrtTensorRTProviderOptions {};
struct OrtTensorRTProviderOptionsV2 {};
struct OrtROCMProviderOptions {};
struct OrtDnnlProviderOptions { int use_arena = 0; };
struct OrtMIGraphXProviderOptions {};
struct OrtOpenVINOProviderOptions {};
enum GraphOptimizationLevel { ORT_DISABLE_ALL, ORT_ENABLE_BASIC, ORT_ENABLE_EXTENDED, ORT_ENABLE_ALL = 99 };

// MlasQuantizeLinear rounds ties to even and saturates.
template <typename T>
void MlasQuantizeLinear(const float* in, T* out, size_t n, float scale, T zero) {
  for (size_t i = 0; i < n; i++) {
    float v = std::nearbyintf(in[i] / scale) + float(zero);
    out[i] = T(std::min(std::max(v, float(std::numeric_limits<T>::min())), float(std::numeric_limits<T>::max())));
  }
}
template <typename T>
void MlasTranspose(const T* in, T* out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; i++) out[i % n * m + i / n] = in[i];
}

namespace onnxruntime {
constexpr const char* CPU = "Cpu";

class Tensor {
 public:
  Tensor() = default;
  Tensor(MLDataType type, const TensorShape& shape, const AllocatorPtr& = nullptr)
      : type_(type), shape_(shape), data_(type->make(std::max<int64_t>(shape.Size(), 0))) {}
  template <typename... A>
  static void InitOrtValue(A&&...) {}
  const TensorShape& Shape() const { return shape_; }
  MLDataType DataType() const { return type_; }
  int32_t GetElementType() const { return type_->elem; }
  template <typename T>
  bool IsDataType() const { return type_ == DataTypeImpl::GetType<T>(); }
  size_t SizeInBytes() const { return shape_.Size() * type_->size; }
  template <typename T>
  const T* Data() const { return static_cast<const T*>(data_.get()); }
  template <typename T>
  T* MutableData() { return static_cast<T*>(data_.get()); }
  const void* DataRaw() const { return data_.get(); }
  void* MutableDataRaw() { return data_.get(); }
  template <typename T>
  gsl::span<const T> DataAsSpan() const { return {Data<T>(), size_t(shape_.Size())}; }
  template <typename T>
  gsl::span<T> MutableDataAsSpan() { return {MutableData<T>(), size_t(shape_.Size())}; }

 private:
  MLDataType type_ = nullptr;
  TensorShape shape_;
  std::shared_ptr<void> data_;
};

class TensorSeq {
 public:
  TensorSeq() = default;
  explicit TensorSeq(MLDataType) {}
  size_t Size() const { return tensors.size(); }
  const Tensor& Get(size_t i) const { return tensors[i]; }
  void Add(Tensor&& t) { tensors.push_back(std::move(t)); }
  std::vector<Tensor> tensors;
};
}  // namespace onnxruntime

struct OrtValue {
  std::shared_ptr<onnxruntime::Tensor> tensor;
  std::shared_ptr<onnxruntime::TensorSeq> seq;
  template <typename T>
  const T& Get() const {
    if constexpr (std::is_same_v<T, onnxruntime::Tensor>) {
      return *tensor;
    } else if constexpr (std::is_same_v<T, onnxruntime::TensorSeq>) {
      return *seq;
    } else {
      throw std::runtime_error("the recorder holds only tensors");
    }
  }
  template <typename T>
  T* GetMutable() { return const_cast<T*>(&Get<T>()); }
  bool IsTensor() const { return tensor != nullptr; }
  bool IsAllocated() const { return tensor || seq; }
};

namespace onnxruntime {
struct IExecutionProvider {
  std::string type;
  const std::string& Type() const { return type; }
  std::vector<AllocatorPtr> CreatePreferredAllocators() { return {std::make_shared<CPUAllocator>()}; }
};
using ProviderOptions = std::unordered_map<std::string, std::string>;
enum class ExecutionMode { ORT_SEQUENTIAL, ORT_PARALLEL };
enum class TransformerLevel { Default, Level1, Level2, Level3, MaxLevel };

struct ConfigOptions {
  std::unordered_map<std::string, std::string> configurations;
  Status AddConfigEntry(const char* k, const char* v) {
    configurations[k] = v;
    return Status::OK();
  }
  std::string GetConfigOrDefault(const std::string& k, const std::string& d) const {
    auto it = configurations.find(k);
    return it == configurations.end() ? d : it->second;
  }
};
}  // namespace onnxruntime
struct OrtThreadPoolParams { int thread_pool_size = 0; };
namespace onnxruntime {
struct SessionOptions {
  ExecutionMode execution_mode = ExecutionMode::ORT_SEQUENTIAL;
  bool enable_mem_pattern = true, enable_mem_reuse = true, enable_cpu_mem_arena = true, use_deterministic_compute = false, use_per_session_threads = true;
  static constexpr bool DEFAULT_USE_PER_SESSION_THREADS = true;
  bool enable_profiling = false;
  int session_log_verbosity_level = 0;
  void* user_logging_param = nullptr;
  std::function<void(void*, int, const char*, const char*, const char*, const char*)> user_logging_function;
  std::string session_logid;
  TransformerLevel graph_optimization_level = TransformerLevel::Level1;
  ::OrtThreadPoolParams intra_op_param, inter_op_param;
  ConfigOptions config_options;
  Status AddInitializer(const char*, const OrtValue*) { throw std::runtime_error("shared initializers are not recorded"); }
};
struct OrtRunOptions {
  std::string run_tag;
  bool terminate = false;
  ConfigOptions config_options;
};
using RunOptions = OrtRunOptions;
constexpr const char* kOpTesterRunOptionsConfigTestTunableOp = "tunable";
constexpr const char* kOrtSessionOptionsConfigStrictShapeTypeInference = "strict";
constexpr const char* kOrtSessionOptionsMlasGemmFastMathArm64Bfloat16 = "fastmath";
constexpr const char* kOrtSessionOptionsConfigSetDenormalAsZero = "denormal";
constexpr const char* kOrtSessionOptionsConfigAllowIntraOpSpinning = "spinning";
constexpr const char* kOrtSessionOptionsQDQIsInt8Allowed = "int8";
constexpr const char* kOrtSessionOptionsDisableCPUEPFallback = "fallback";
struct CustomRegistry {};
struct InferenceSession {
  template <typename... A>
  explicit InferenceSession(A&&...) {}
  template <typename... A>
  Status Load(A&&...) { return Status::OK(); }
  Status Initialize() { return Status::OK(); }
  template <typename... A>
  Status Run(A&&...) { return Status(common::ONNXRUNTIME, common::FAIL, "not run"); }
  template <typename... A>
  Status RegisterExecutionProvider(A&&...) { return Status::OK(); }
};

namespace concurrency {
enum class ThreadPoolType { INTRA_OP, INTER_OP };
struct ThreadPool {
  template <typename F>
  static void TryParallelFor(ThreadPool*, std::ptrdiff_t n, double, const F& f) { f(0, n); }
  template <typename F>
  static void TryBatchParallelFor(ThreadPool*, std::ptrdiff_t n, const F& f, std::ptrdiff_t) {
    for (std::ptrdiff_t i = 0; i < n; i++) f(i);
  }
  static int DegreeOfParallelism(const ThreadPool*) { return 1; }
};
template <typename... A>
std::unique_ptr<ThreadPool> CreateThreadPool(A&&...) { return nullptr; }
}  // namespace concurrency

struct Env {
  static Env& Default() {
    static Env e;
    return e;
  }
  std::string GetEnvironmentVar(const std::string&) const { return ""; }
};

namespace logging {
struct Logger {};
struct LoggingManager {
  static const Logger& DefaultLogger() {
    static Logger l;
    return l;
  }
};
}  // namespace logging

#define ORT_TSTR(s) s
template <typename T>
using SafeInt = T;

#define LOGS_DEFAULT(level) std::cerr

inline int64_t HandleNegativeAxis(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }
constexpr const char* kLayerNormInputShapeMismatchError = "shape mismatch";
constexpr const char* kLayerNormInvalidSize = "invalid size";
namespace contrib::longformer {
constexpr const char* kUseCompactMemory = "";
}
namespace scan::detail {
// The output has the dimension of the iterations, which is the first one, at axis.
template <typename P, typename S>
void CalculateTransposedShapeForOutput(const TensorShape& shape, int64_t axis, P& permutations, S& transposed) {
  for (int64_t i = 1; i <= axis; i++) permutations.push_back(i);
  permutations.push_back(0);
  for (int64_t i = axis + 1; i < int64_t(shape.NumDimensions()); i++) permutations.push_back(i);
  for (auto i : permutations) transposed.push_back(shape[i]);
}
}  // namespace scan::detail

namespace math {
template <typename T>
bool is_a_ge_zero_and_a_lt_b(T a, T b) { return a >= 0 && a < b; }
inline uint16_t floatToHalf(float f) { return MLFloat16(f).val; }
inline float halfToFloat(uint16_t h) { return MLFloat16::FromBits(h).ToFloat(); }
template <typename T>
T roundUpPow2(T a) { return a; }
}  // namespace math
template <typename T>
using EigenVectorMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;
template <typename T>
using ConstEigenVectorMap = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>;
template <typename T>
using EigenMatrixMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>;
template <typename T>
using ConstEigenMatrixMap = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>;
template <typename T>
using EigenMatrixMapRowMajor = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <typename T>
using ConstEigenMatrixMapRowMajor = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

// Graphs, for the tests that build them.

class NodeArg {
 public:
  NodeArg(const std::string& name, const onnx::TypeProto* type) : name_(name) {
    if (type) type_ = *type;
  }
  const std::string& Name() const { return name_; }
  bool Exists() const { return !name_.empty(); }
  const onnx::TypeProto* TypeAsProto() const { return type_ ? &*type_ : nullptr; }
  const onnx::TensorShapeProto* Shape() const {
    return type_ && type_->has_tensor_type() && type_->tensor_type().has_shape() ? &type_->tensor_type().shape() : nullptr;
  }
  void SetShape(const onnx::TensorShapeProto& s) { *type_->mutable_tensor_type()->mutable_shape() = s; }
  onnx::ValueInfoProto Info() const {
    onnx::ValueInfoProto v;
    v.set_name(name_);
    if (type_) *v.mutable_type() = *type_;
    return v;
  }

 private:
  std::string name_;
  std::optional<onnx::TypeProto> type_;
};

using NodeAttributes = std::unordered_map<std::string, onnx::AttributeProto>;

class Node {
 public:
  onnx::NodeProto proto;
  void AddAttributeProto(const onnx::AttributeProto& a) { *proto.add_attribute() = a; }
  template <typename T>
  void AddAttribute(const std::string& name, const T& value) {
    onnx::AttributeProto a;
    a.set_name(name);
    if constexpr (std::is_same_v<T, onnx::TensorProto>) {
      a.set_type(onnx::AttributeProto::TENSOR);
      *a.mutable_t() = value;
    } else if constexpr (std::is_same_v<T, onnx::GraphProto>) {
      a.set_type(onnx::AttributeProto::GRAPH);
      *a.mutable_g() = value;
    } else if constexpr (std::is_same_v<T, onnx::TypeProto>) {
      a.set_type(onnx::AttributeProto::TYPE_PROTO);
      *a.mutable_tp() = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      a.set_type(onnx::AttributeProto::FLOAT);
      a.set_f(value);
    } else if constexpr (std::is_integral_v<T>) {
      a.set_type(onnx::AttributeProto::INT);
      a.set_i(value);
    } else if constexpr (std::is_convertible_v<T, std::string>) {
      a.set_type(onnx::AttributeProto::STRING);
      a.set_s(value);
    } else {
      using E = std::remove_cv_t<std::remove_reference_t<decltype(*value.begin())>>;
      for (const auto& e : value) {
        if constexpr (std::is_floating_point_v<E>) {
          a.add_floats(e);
        } else if constexpr (std::is_convertible_v<E, std::string>) {
          a.add_strings(e);
        } else {
          a.add_ints(e);
        }
      }
      a.set_type(std::is_floating_point_v<E>                ? onnx::AttributeProto::FLOATS
                 : std::is_convertible_v<E, std::string> ? onnx::AttributeProto::STRINGS
                                                         : onnx::AttributeProto::INTS);
    }
    AddAttributeProto(a);
  }
};

class Graph {
 public:
  struct ResolveOptions {
    bool override_types = false;
    bool traverse_function_body = false;
  };
  Node& AddNode(const std::string& name, const std::string& op, const std::string&, gsl::span<NodeArg* const> in,
                gsl::span<NodeArg* const> out, const NodeAttributes* attrs = nullptr, const std::string& domain = "") {
    auto n = std::make_unique<Node>();
    n->proto.set_name(name);
    n->proto.set_op_type(op);
    n->proto.set_domain(domain);
    for (auto* a : in) {
      n->proto.add_input(a->Name());
      Keep(*a);
    }
    for (auto* a : out) {
      n->proto.add_output(a->Name());
      Keep(*a);
    }
    if (attrs) {
      for (const auto& a : *attrs) n->AddAttributeProto(a.second);
    }
    nodes_.push_back(std::move(n));
    return *nodes_.back();
  }
  Node& AddNode(const std::string& name, const std::string& op, const std::string& doc, std::initializer_list<NodeArg*> in,
                std::initializer_list<NodeArg*> out, const NodeAttributes* attrs = nullptr, const std::string& domain = "") {
    return AddNode(name, op, doc, std::vector<NodeArg*>(in), std::vector<NodeArg*>(out), attrs, domain);
  }
  Node& AddNode(const std::string& name, const std::string& op, const std::string& doc, std::initializer_list<NodeArg*> in,
                gsl::span<NodeArg* const> out, const NodeAttributes* attrs = nullptr, const std::string& domain = "") {
    return AddNode(name, op, doc, gsl::span<NodeArg* const>(std::vector<NodeArg*>(in)), out, attrs, domain);
  }
  NodeArg& GetOrCreateNodeArg(const std::string& name, const onnx::TypeProto* type) {
    auto it = args_.find(name);
    if (it == args_.end()) it = args_.emplace(name, std::make_unique<NodeArg>(name, type)).first;
    return *it->second;
  }
  NodeArg* GetNodeArg(const std::string& name) {
    auto it = args_.find(name);
    return it == args_.end() ? nullptr : it->second.get();
  }
  void AddOuterScopeNodeArg(const std::string& name) { outer_.insert(name); }
  void AddInitializedTensor(const onnx::TensorProto& t) { *proto_.add_initializer() = t; }
  void SetInputs(gsl::span<const NodeArg* const> v) { inputs_.emplace(v.begin(), v.end()); }
  void SetOutputs(gsl::span<const NodeArg* const> v) { outputs_.emplace(v.begin(), v.end()); }
  void SetInputs(std::initializer_list<const NodeArg*> v) { inputs_.emplace(v.begin(), v.end()); }
  void SetOutputs(std::initializer_list<const NodeArg*> v) { outputs_.emplace(v.begin(), v.end()); }
  Status Resolve() { return Status::OK(); }
  Status Resolve(const ResolveOptions&) { return Status::OK(); }
  const std::vector<std::unique_ptr<Node>>& Nodes() const { return nodes_; }
  // ToGraphProto takes as inputs what nodes read and nothing defines, and as outputs what no
  // node reads, unless the test has set them.
  const onnx::GraphProto& ToGraphProto() {
    proto_.set_name("graph");
    proto_.clear_node();
    proto_.clear_input();
    proto_.clear_output();
    std::set<std::string> known(outer_), read;
    std::vector<std::string> ins, outs;
    for (const auto& t : proto_.initializer()) known.insert(t.name());
    for (const auto& n : nodes_) {
      for (const auto& o : n->proto.output()) known.insert(o);
    }
    for (const auto& n : nodes_) {
      *proto_.add_node() = n->proto;
      for (const auto& i : n->proto.input()) {
        read.insert(i);
        if (!i.empty() && known.insert(i).second) ins.push_back(i);
      }
    }
    for (const auto& n : nodes_) {
      for (const auto& o : n->proto.output()) {
        if (!o.empty() && !read.count(o)) outs.push_back(o);
      }
    }
    if (inputs_) {
      ins.clear();
      for (auto* a : *inputs_) ins.push_back(a->Name());
    }
    if (outputs_) {
      outs.clear();
      for (auto* a : *outputs_) outs.push_back(a->Name());
    }
    for (const auto& i : ins) *proto_.add_input() = args_.at(i)->Info();
    for (const auto& o : outs) *proto_.add_output() = args_.at(o)->Info();
    return proto_;
  }

 private:
  void Keep(const NodeArg& a) { GetOrCreateNodeArg(a.Name(), a.TypeAsProto()); }
  std::map<std::string, std::unique_ptr<NodeArg>> args_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::optional<std::vector<const NodeArg*>> inputs_, outputs_;
  std::set<std::string> outer_;
  onnx::GraphProto proto_;
};

struct ModelOptions {};
struct ModelMetaData {};
using IOnnxRuntimeOpSchemaRegistryList = std::list<int>;
class Model {
 public:
  Model(const std::string&, bool, const logging::Logger&) {}
  Model(const std::string&, bool, const ModelMetaData&, const PathString&, const IOnnxRuntimeOpSchemaRegistryList&,
        const std::unordered_map<std::string, int>&, const std::vector<onnx::FunctionProto>&, const logging::Logger&) {}
  Graph& MainGraph() { return graph_; }

 private:
  Graph graph_;
};

namespace test {
inline const logging::LoggingManager& DefaultLoggingManager() {
  static logging::LoggingManager m;
  return m;
}
struct AllocatorManager {
  static AllocatorManager& Instance() {
    static AllocatorManager m;
    return m;
  }
  AllocatorPtr GetAllocator(const char*) { return std::make_shared<CPUAllocator>(); }
};
inline IExecutionProvider* TestCPUExecutionProvider() {
  static IExecutionProvider p{kCpuExecutionProvider};
  return &p;
}
inline std::unique_ptr<IExecutionProvider> DefaultCpuExecutionProvider(bool = true) {
  return std::make_unique<IExecutionProvider>(IExecutionProvider{kCpuExecutionProvider});
}
#define RECORDER_NO_PROVIDER(name) \
  template <typename... A>         \
  std::unique_ptr<IExecutionProvider> name(A&&...) { return nullptr; }
RECORDER_NO_PROVIDER(DefaultCudaExecutionProvider)
RECORDER_NO_PROVIDER(DefaultCudaNHWCExecutionProvider)
RECORDER_NO_PROVIDER(CudaExecutionProviderWithOptions)
RECORDER_NO_PROVIDER(DefaultDnnlExecutionProvider)
RECORDER_NO_PROVIDER(DnnlExecutionProviderWithOptions)
RECORDER_NO_PROVIDER(DefaultTensorrtExecutionProvider)
RECORDER_NO_PROVIDER(TensorrtExecutionProviderWithOptions)
RECORDER_NO_PROVIDER(DefaultMIGraphXExecutionProvider)
RECORDER_NO_PROVIDER(DefaultOpenVINOExecutionProvider)
RECORDER_NO_PROVIDER(OpenVINOExecutionProviderWithOptions)
RECORDER_NO_PROVIDER(DefaultNnapiExecutionProvider)
RECORDER_NO_PROVIDER(DefaultVSINPUExecutionProvider)
RECORDER_NO_PROVIDER(DefaultRknpuExecutionProvider)
RECORDER_NO_PROVIDER(DefaultAclExecutionProvider)
RECORDER_NO_PROVIDER(DefaultArmNNExecutionProvider)
RECORDER_NO_PROVIDER(DefaultRocmExecutionProvider)
RECORDER_NO_PROVIDER(DefaultCoreMLExecutionProvider)
RECORDER_NO_PROVIDER(DefaultSnpeExecutionProvider)
RECORDER_NO_PROVIDER(DefaultQnnExecutionProvider)
RECORDER_NO_PROVIDER(QnnExecutionProviderWithOptions)
RECORDER_NO_PROVIDER(DefaultXnnpackExecutionProvider)
RECORDER_NO_PROVIDER(DefaultWebGpuExecutionProvider)
RECORDER_NO_PROVIDER(DefaultCannExecutionProvider)
RECORDER_NO_PROVIDER(DefaultDmlExecutionProvider)

inline bool HasCudaEnvironment(int) { return false; }
inline bool NeedSkipIfCudaArchLowerThan(int) { return false; }
inline bool NeedSkipIfCudaArchGreaterEqualThan(int) { return false; }
inline int GetCudaArchitecture() { return 0; }
inline std::unordered_set<std::string> ExcludeTrtOnA100() { return {}; }
inline const std::unordered_set<std::string>& ExcludeTrtOnA100(std::unordered_set<std::string>& e) { return e; }
template <typename... A>
bool SkipTestsOnDnnl(A&&...) { return false; }
inline bool DnnlHasBF16Support() { return false; }
inline bool CheckDnnlHasFP16Support() { return false; }
using RandomSeedType = uint32_t;
inline RandomSeedType GetTestRandomSeed() { return 2345; }
inline RandomSeedType LoadRandomSeed(RandomSeedType s) { return s; }
using EnvVarMap = std::unordered_map<std::string, optional<std::string>>;
struct ScopedEnvironmentVariables {
  explicit ScopedEnvironmentVariables(const EnvVarMap&) {}
};
inline std::string CurrentTestName() {
  auto* t = ::testing::UnitTest::GetInstance()->current_test_info();
  return t ? std::string(t->test_suite_name()) + "." + t->name() : "";
}

struct ValidateOutputParams {
  optional<float> relative_error, absolute_error;
  bool sort_output = false;
};

template <typename T>
struct TTypeProto {
  explicit TTypeProto(const std::vector<int64_t>* shape = nullptr) {
    auto* t = proto.mutable_tensor_type();
    t->set_elem_type(utils::ToTensorProtoElementType<T>());
    if (shape) t->mutable_shape();
    for (size_t i = 0; shape && i < shape->size(); i++) {
      auto* d = t->mutable_shape()->add_dim();
      if ((*shape)[i] >= 0) d->set_dim_value((*shape)[i]);
    }
  }
  onnx::TypeProto proto;
};

template <typename T>
struct SeqTensors {
  template <typename U>
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<U> data;
  };
  void AddTensor(const std::vector<int64_t>& shape, const std::vector<T>& data) { tensors.push_back({shape, data}); }
  std::vector<Tensor<T>> tensors;
};

// Writing of the records: one JSON object per line, in the form of internal/testing/recorded.

inline std::string Base64(const std::string& s) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string r;
  for (size_t i = 0; i < s.size(); i += 3) {
    uint32_t n = 0;
    for (size_t k = 0; k < 3; k++) n = n << 8 | (i + k < s.size() ? uint8_t(s[i + k]) : 0);
    for (size_t k = 0; k < 4; k++) r += i + k <= s.size() ? digits[n >> (18 - 6 * k) & 63] : '=';
  }
  return r;
}

inline std::string Quote(const std::string& s) {
  std::string r = "\"";
  for (unsigned char c : s) {
    char b[8];
    if (c < 32 || c == '"' || c == '\\') {
      snprintf(b, sizeof b, "\\u%04x", c);
      r += b;
    } else {
      r += char(c);
    }
  }
  return r + "\"";
}

inline std::string Number(double v, int digits) {
  if (std::isnan(v)) return "\"nan\"";
  if (std::isinf(v)) return v > 0 ? "\"inf\"" : "\"-inf\"";
  char b[40];
  for (int d = 1; d <= digits; d++) {  // the shortest form that reads back
    snprintf(b, sizeof b, "%.*g", d, v);
    if (digits == 9 ? strtof(b, nullptr) == float(v) : strtod(b, nullptr) == v) break;
  }
  return b;
}

template <typename T>
void Element(std::string& out, const T& v) {
  if constexpr (std::is_same_v<T, std::string>) {
    out += Quote(v);
  } else if constexpr (std::is_same_v<T, double>) {
    out += Number(v, 17);
  } else if constexpr (std::is_same_v<T, float>) {
    out += Number(v, 9);
  } else if constexpr (std::is_integral_v<T>) {
    out += std::to_string(+v);
  } else {
    out += Number(v.ToFloat(), 9);
  }
}

inline std::string TypeName(int elem) {
  std::string s = onnx::TensorProto_DataType_Name(onnx::TensorProto_DataType(elem));
  std::transform(s.begin(), s.end(), s.begin(), ::tolower);
  return s;
}

template <typename C>
std::string Ints(const C& v) {
  std::string r;
  for (auto n : v) r += (r.empty() ? "" : ",") + std::to_string(n);
  return "[" + r + "]";
}

template <typename T>
std::string TensorJson(gsl::span<const int64_t> dims, const T* values, size_t n) {
  std::string r = "{\"T\":\"" + TypeName(utils::ToTensorProtoElementType<T>()) + "\",\"S\":" + Ints(dims) + ",\"D\":[";
  size_t elements = n;
  if constexpr (std::is_same_v<T, Int4x2> || std::is_same_v<T, UInt4x2>) elements = TensorShape(dims).Size();
  for (size_t i = 0; i < elements; i++) {
    if (i > 0) r += ",";
    if constexpr (std::is_same_v<T, Int4x2> || std::is_same_v<T, UInt4x2>) {
      r += std::to_string(int(values[i / 2].GetElem(i % 2)));
    } else {
      Element(r, values[i]);
    }
  }
  return r + "]}";
}

inline std::string TensorJson(const onnx::TensorProto& t) {
  std::vector<int64_t> dims(t.dims().begin(), t.dims().end());
  size_t n = TensorShape(dims).Size();
  auto typed = [&](auto zero, const auto& field) {
    using T = decltype(zero);
    std::unique_ptr<T[]> v(new T[n]());
    if (t.has_raw_data()) {
      if constexpr (!std::is_same_v<T, std::string>) memcpy(static_cast<void*>(v.get()), t.raw_data().data(), t.raw_data().size());
    } else {
      for (size_t i = 0; i < n && i < size_t(field.size()); i++) v[i] = T(field[i]);
    }
    return TensorJson<T>(dims, v.get(), n);
  };
  switch (t.data_type()) {
    case onnx::TensorProto::FLOAT: return typed(float{}, t.float_data());
    case onnx::TensorProto::DOUBLE: return typed(double{}, t.double_data());
    case onnx::TensorProto::INT64: return typed(int64_t{}, t.int64_data());
    case onnx::TensorProto::INT32: return typed(int32_t{}, t.int32_data());
    case onnx::TensorProto::INT16: return typed(int16_t{}, t.int32_data());
    case onnx::TensorProto::INT8: return typed(int8_t{}, t.int32_data());
    case onnx::TensorProto::UINT8: return typed(uint8_t{}, t.int32_data());
    case onnx::TensorProto::BOOL: return typed(bool{}, t.int32_data());
    case onnx::TensorProto::STRING: return typed(std::string{}, t.string_data());
  }
  throw std::runtime_error("attribute of type " + TypeName(t.data_type()));
}

template <typename T>
struct IsMap : std::false_type {};
template <typename K, typename V>
struct IsMap<std::map<K, V>> : std::true_type {};

template <typename T>
std::string OtherJson(const T& v) {
  std::string r;
  if constexpr (IsMap<T>::value) {
    using K = typename T::key_type;
    using V = typename T::mapped_type;
    std::vector<K> keys;
    std::vector<V> values;
    for (const auto& p : v) {
      keys.push_back(p.first);
      values.push_back(p.second);
    }
    std::vector<int64_t> dims{int64_t(v.size())};
    return "{\"Map\":[" + TensorJson<K>(dims, keys.data(), keys.size()) + "," + TensorJson<V>(dims, values.data(), values.size()) + "]}";
  } else {
    for (const auto& e : v) r += (r.empty() ? "" : ",") + OtherJson(e);
    return "{\"Seq\":[" + r + "]}";
  }
}

inline std::string AttributeJson(const onnx::AttributeProto& a) {
  std::string list;
  auto add = [&](const std::string& s) { list += (list.empty() ? "" : ",") + s; };
  switch (a.type()) {
    case onnx::AttributeProto::INT: return "{\"Int\":" + std::to_string(a.i()) + "}";
    case onnx::AttributeProto::FLOAT: return "{\"Float\":" + Number(a.f(), 9) + "}";
    case onnx::AttributeProto::STRING: return "{\"String\":" + Quote(a.s()) + "}";
    case onnx::AttributeProto::INTS: return "{\"Ints\":" + Ints(a.ints()) + "}";
    case onnx::AttributeProto::FLOATS:
      for (float f : a.floats()) add(Number(f, 9));
      return "{\"Floats\":[" + list + "]}";
    case onnx::AttributeProto::STRINGS:
      for (const auto& s : a.strings()) add(Quote(s));
      return "{\"Strings\":[" + list + "]}";
    case onnx::AttributeProto::TENSOR: return "{\"Tensor\":" + TensorJson(a.t()) + "}";
    case onnx::AttributeProto::GRAPH: return "{\"Graph\":\"" + Base64(a.g().SerializeAsString()) + "\"}";
    case onnx::AttributeProto::TYPE_PROTO: return "{\"Type\":\"" + Base64(a.tp().SerializeAsString()) + "\"}";
    default: throw std::runtime_error("attribute " + a.name() + " of type " + std::to_string(a.type()));
  }
}

class BaseTester {
 public:
  using DimsVariant = std::variant<std::vector<int64_t>, TensorShapeVector>;
  enum class ExpectResult { kExpectSuccess, kExpectFailure };
  using CustomOutputVerifierFn = std::function<void(const std::vector<OrtValue>&, const std::string&)>;

  struct Data {
    NodeArg def;
    OrtValue data;
    ValidateOutputParams validation_params;
    std::string json;
    bool initializer = false;
  };

  BaseTester(std::string_view op, int opset, std::string_view domain, bool verify = true)
      : op_(op), domain_(domain), opset_(opset < 0 ? 22 : opset), verify_(verify) {}
  virtual ~BaseTester() = default;

#define RECORDER_ADD(Dims, convert)                                                                                             \
  template <typename T>                                                                                                         \
  void AddInput(const char* name, Dims dims, std::initializer_list<T> v, bool init = false,                                     \
                const std::vector<std::string>* params = nullptr) { AddData(in_, name, convert, v.begin(), v.size(), init, params); } \
  template <typename T>                                                                                                         \
  void AddInput(const char* name, Dims dims, const std::vector<T>& v, bool init = false,                                        \
                const std::vector<std::string>* params = nullptr) { AddData(in_, name, convert, v.data(), v.size(), init, params); }  \
  template <typename T>                                                                                                         \
  void AddInput(const char* name, Dims dims, const T* v, size_t n, bool init = false,                                           \
                const std::vector<std::string>* params = nullptr) { AddData(in_, name, convert, v, n, init, params); }          \
  template <typename T>                                                                                                         \
  void AddOutput(const char* name, Dims dims, std::initializer_list<T> v, bool sort = false, float rel = 0, float abs = 0) {    \
    AddData(out_, name, convert, v.begin(), v.size(), false, nullptr, sort, rel, abs);                                          \
  }                                                                                                                             \
  template <typename T>                                                                                                         \
  void AddOutput(const char* name, Dims dims, const std::vector<T>& v, bool sort = false, float rel = 0, float abs = 0) {       \
    AddData(out_, name, convert, v.data(), v.size(), false, nullptr, sort, rel, abs);                                           \
  }                                                                                                                             \
  template <typename T>                                                                                                         \
  void AddOutput(const char* name, Dims dims, const T* v, size_t n, bool sort = false, float rel = 0, float abs = 0) {          \
    AddData(out_, name, convert, v, n, false, nullptr, sort, rel, abs);                                                         \
  }                                                                                                                             \
  template <typename T>                                                                                                         \
  void AddOptionalTypeTensorInput(const char* name, Dims dims, const std::initializer_list<T>* v = nullptr, bool = false,       \
                                  const std::vector<std::string>* params = nullptr) { AddOptional(in_, name, convert, v, params); } \
  template <typename T>                                                                                                         \
  void AddOptionalTypeTensorOutput(const char* name, Dims dims, const std::initializer_list<T>* v = nullptr, bool = false,      \
                                   float = 0, float = 0) { AddOptional(out_, name, convert, v, nullptr); }
  RECORDER_ADD(std::initializer_list<int64_t>, std::vector<int64_t>(dims))
  RECORDER_ADD(const DimsVariant&, AsVector(dims))
#undef RECORDER_ADD
  template <typename T>
  void AddInput(const char* name, std::initializer_list<int64_t> dims, gsl::span<const T> v, bool init = false,
                const std::vector<std::string>* params = nullptr) { AddData(in_, name, std::vector<int64_t>(dims), v.data(), v.size(), init, params); }
  template <typename K, typename V>
  void AddInput(const char* name, const std::map<K, V>& v) { in_.push_back({NodeArg(name, nullptr), {}, {}, OtherJson(v)}); }
  template <typename K, typename V>
  void AddOutput(const char* name, const std::vector<std::map<K, V>>& v) { out_.push_back({NodeArg(name, nullptr), {}, {}, OtherJson(v)}); }
  template <typename T>
  void AddInput(const char* name, const T& v) { in_.push_back({NodeArg(name, nullptr), {}, {}, OtherJson(v)}); }
  template <typename T>
  void AddOutput(const char* name, const T& v) { out_.push_back({NodeArg(name, nullptr), {}, {}, OtherJson(v)}); }

  template <typename T>
  void AddSeqInput(const char* name, const SeqTensors<T>& v) { AddSeq(in_, name, &v, false, 0, 0); }
  template <typename T>
  void AddSeqOutput(const char* name, const SeqTensors<T>& v, float rel = 0, float abs = 0) { AddSeq(out_, name, &v, false, rel, abs); }
  template <typename T>
  void AddOptionalTypeSeqInput(const char* name, const SeqTensors<T>* v) { AddSeq(in_, name, v, true, 0, 0); }
  template <typename T>
  void AddOptionalTypeSeqOutput(const char* name, const SeqTensors<T>* v, float rel = 0, float abs = 0) { AddSeq(out_, name, v, true, rel, abs); }
  template <typename T>
  void AddOptionalInputEdge() { in_.push_back({NodeArg("", &TTypeProto<T>().proto), {}, {}, "null"}); }
  template <typename T>
  void AddOptionalOutputEdge() { out_.push_back({NodeArg("", &TTypeProto<T>().proto), {}, {}, "null"}); }

  template <typename... A>
  void AddSparseCooInput(A&&...) { skip_ = "sparse tensor"; }
  template <typename... A>
  void AddSparseCsrInput(A&&...) { skip_ = "sparse tensor"; }
  template <typename... A>
  void AddReferenceOutputs(A&&...) { skip_ = "outputs of a model file"; }
  template <typename... A>
  void AddCustomOpRegistry(A&&...) { skip_ = "custom operator"; }

  void SetOutputAbsErr(const char* name, float v) {
    for (auto& d : out_) {
      if (d.def.Name() == name) d.validation_params.absolute_error = v;
    }
  }
  void SetOutputRelErr(const char* name, float v) {
    for (auto& d : out_) {
      if (d.def.Name() == name) d.validation_params.relative_error = v;
    }
  }
  void SetOutputTolerance(float abs, float rel = -1) {
    for (auto& d : out_) {
      if (abs >= 0) d.validation_params.absolute_error = abs;
      if (rel >= 0) d.validation_params.relative_error = rel;
    }
  }
  void SetNumRunCalls(int) {}
  void SetCustomOutputVerifier(CustomOutputVerifierFn) { skip_ = "custom check of outputs"; }
  void SetDeterminism(bool) {}
  void SetAllowUnreleasedOnnxOpset() {}
  void EnableSharingOfPrePackedWeightsAcrossSessions() {}
  size_t GetNumPrePackedWeightsShared() const { return 0; }

  BaseTester& Config(const SessionOptions&) { return *this; }
  BaseTester& Config(ExpectResult expect, const std::string& text) {
    expect_ = expect;
    text_ = text;
    return *this;
  }
  BaseTester& ConfigExcludeEps(const std::unordered_set<std::string>& e) {
    excluded_ = e;
    return *this;
  }
  BaseTester& Config(const RunOptions*) { return *this; }
  BaseTester& ConfigEps(std::vector<std::unique_ptr<IExecutionProvider>>&& eps) {
    providers_ = std::move(eps);
    specified_ = true;
    return *this;
  }
  BaseTester& ConfigEp(std::unique_ptr<IExecutionProvider>&& ep) {
    std::vector<std::unique_ptr<IExecutionProvider>> eps;
    eps.push_back(std::move(ep));
    return ConfigEps(std::move(eps));
  }
  BaseTester& Config(const Graph::ResolveOptions&) { return *this; }
  void RunWithConfig(size_t* = nullptr, size_t* = nullptr) { Record(); }
  void Run(ExpectResult expect = ExpectResult::kExpectSuccess, const std::string& text = "", const std::unordered_set<std::string>& excluded = {},
           const RunOptions* = nullptr, std::vector<std::unique_ptr<IExecutionProvider>>* eps = nullptr,
           ExecutionMode = ExecutionMode::ORT_SEQUENTIAL, const Graph::ResolveOptions& = {}) {
    Config(expect, text).ConfigExcludeEps(excluded);
    if (eps) ConfigEps(std::move(*eps));
    Record();
  }
  void Run(SessionOptions, ExpectResult expect = ExpectResult::kExpectSuccess, const std::string& text = "",
           const std::unordered_set<std::string>& excluded = {}, const RunOptions* = nullptr,
           std::vector<std::unique_ptr<IExecutionProvider>>* eps = nullptr, const Graph::ResolveOptions& = {}, size_t* = nullptr, size_t* = nullptr) {
    Run(expect, text, excluded, nullptr, eps);
  }
  // GetFetches returns the expected outputs.
  std::vector<OrtValue> GetFetches() {
    std::vector<OrtValue> r;
    for (const auto& d : out_) r.push_back(d.data);
    return r;
  }

 protected:
  const std::string& Domain() const { return domain_; }
  int Opset() const { return opset_; }
  void SetAddShapeToTensorData(bool b) { shapes_ = b; }
  void SetAddSymbolicDimToTensorData(int d) { symbolic_ = d; }
  bool GetAddShapeToTensorData() const { return shapes_; }
  void SetTestFunctionCalled() {}
  std::vector<Data>& GetInputData() { return in_; }
  std::vector<Data>& GetOutputData() { return out_; }
  virtual void FillGraph(Graph& graph, std::vector<NodeArg*>& in, std::vector<NodeArg*>& out) = 0;

 private:
  static std::vector<int64_t> AsVector(const DimsVariant& v) {
    return std::visit([](const auto& d) { return std::vector<int64_t>(d.begin(), d.end()); }, v);
  }
  template <typename T>
  NodeArg Arg(const char* name, std::vector<int64_t> dims, const std::vector<std::string>* params, bool optional_type = false) {
    if (symbolic_ >= 0 && size_t(symbolic_) < dims.size()) dims[symbolic_] = -1;
    for (size_t i = 0; params && i < params->size() && i < dims.size(); i++) {
      if ((*params)[i] == "batch" || (*params)[i] == "seq") dims[i] = -1;
    }
    dynamic_ = dynamic_ || !shapes_ || std::count(dims.begin(), dims.end(), -1) > 0;
    TTypeProto<T> type(shapes_ ? &dims : nullptr);
    if (!optional_type) return NodeArg(name, &type.proto);
    onnx::TypeProto o;
    *o.mutable_optional_type()->mutable_elem_type() = type.proto;
    return NodeArg(name, &o);
  }
  template <typename T>
  void AddData(std::vector<Data>& list, const char* name, const std::vector<int64_t>& dims, const T* v, size_t n, bool init = false,
               const std::vector<std::string>* params = nullptr, bool sort = false, float rel = 0, float abs = 0) {
    TensorShape shape(dims);
    size_t want = shape.Size();
    if constexpr (std::is_same_v<T, Int4x2> || std::is_same_v<T, UInt4x2>) want = T::CalcNumInt4Pairs(want);
    ORT_ENFORCE(n == want, n, " values for shape ", shape.ToString());
    Data d{Arg<T>(name, dims, params), {}, {}, TensorJson<T>(dims, v, n), init};
    d.data.tensor = std::make_shared<Tensor>(DataTypeImpl::GetType<T>(), shape);
    std::copy(v, v + n, d.data.tensor->template MutableData<T>());
    if (rel != 0) d.validation_params.relative_error = rel;
    if (abs != 0) d.validation_params.absolute_error = abs;
    d.validation_params.sort_output = sort;
    list.push_back(std::move(d));
  }
  template <typename T>
  void AddOptional(std::vector<Data>& list, const char* name, const std::vector<int64_t>& dims, const std::initializer_list<T>* v,
                   const std::vector<std::string>* params) {
    std::string r = "{\"Of\":\"" + Base64(TTypeProto<T>().proto.SerializeAsString()) + "\"";
    if (v) r += ",\"Opt\":[" + TensorJson<T>(dims, v->begin(), v->size()) + "]";
    list.push_back({Arg<T>(name, dims, params, true), {}, {}, r + "}"});
  }
  template <typename T>
  void AddSeq(std::vector<Data>& list, const char* name, const SeqTensors<T>* v, bool optional_type, float rel, float abs) {
    onnx::TypeProto type, o;
    *type.mutable_sequence_type()->mutable_elem_type() = TTypeProto<T>().proto;
    std::string items;
    Data d{NodeArg(name, &type), {}, {}, ""};
    d.data.seq = std::make_shared<TensorSeq>();
    if (v) {
      for (const auto& t : v->tensors) {
        std::unique_ptr<T[]> p(new T[t.data.size()]());
        std::copy(t.data.begin(), t.data.end(), p.get());
        items += (items.empty() ? "" : ",") + TensorJson<T>(t.shape, p.get(), t.data.size());
        Tensor x(DataTypeImpl::GetType<T>(), t.shape);
        std::copy(t.data.begin(), t.data.end(), x.MutableData<T>());
        d.data.seq->Add(std::move(x));
      }
    }
    d.json = "{\"Seq\":[" + items + "],\"Elem\":\"" + TypeName(utils::ToTensorProtoElementType<T>()) + "\"}";
    if (optional_type) {
      *o.mutable_optional_type()->mutable_elem_type() = type;
      d.def = NodeArg(name, &o);
      d.json = "{\"Of\":\"" + Base64(type.SerializeAsString()) + "\"" + (v ? ",\"Opt\":[" + d.json + "]" : "") + "}";
    }
    if (rel != 0) d.validation_params.relative_error = rel;
    if (abs != 0) d.validation_params.absolute_error = abs;
    list.push_back(std::move(d));
  }

  void Record() {
    static std::ofstream out(getenv("RECORD_TO") ? getenv("RECORD_TO") : "/dev/stdout", std::ios::app);
    static std::map<std::string, int> runs;
    bool cpu = !specified_;
    for (const auto& p : providers_) cpu = cpu || (p && p->type == kCpuExecutionProvider);
    std::string skip = skip_;
    if (!verify_) skip = "outputs are not checked";
    if (!cpu || excluded_.count(kCpuExecutionProvider)) skip = "not for the CPU";
    std::string name = CurrentTestName();
    int run = runs[name]++;
    if (run > 0) name += "/" + std::to_string(run);
    if (!skip.empty()) {
      out << "{\"Op\":" << Quote(op_) << ",\"Skip\":" << Quote(skip) << ",\"Note\":" << Quote(name) << "}" << std::endl;
      return;
    }
    Graph graph;
    std::vector<NodeArg*> ins, outs;
    for (auto& d : in_) ins.push_back(&d.def);
    for (auto& d : out_) outs.push_back(&d.def);
    FillGraph(graph, ins, outs);
    bool plain = graph.Nodes().size() == 1;
    std::string consts, tols, sorted, shapes, values[2];
    for (size_t i = 0; i < in_.size(); i++) {
      if (in_[i].initializer) consts += (consts.empty() ? "" : ",") + std::to_string(i);
      auto* t = in_[i].def.TypeAsProto();
      shapes += std::string(i == 0 ? "" : ",") + (t && in_[i].def.Exists() ? "\"" + Base64(t->SerializeAsString()) + "\"" : "\"\"");
      values[0] += (i == 0 ? "" : ",") + (in_[i].def.Exists() ? in_[i].json : "null");
    }
    for (size_t i = 0; i < out_.size(); i++) {
      const auto& p = out_[i].validation_params;
      values[1] += (i == 0 ? "" : ",") + (out_[i].def.Exists() ? out_[i].json : "null");
      if (p.sort_output) sorted += (sorted.empty() ? "" : ",") + std::to_string(i);
      tols += std::string(i == 0 ? "" : ",") + "[" + (p.absolute_error ? Number(*p.absolute_error, 9) : "null") + "," +
              (p.relative_error ? Number(*p.relative_error, 9) : "null") + "]";
    }
    std::string r = "{\"Op\":" + Quote(domain_.empty() ? op_ : domain_ + "." + op_) + ",\"Opset\":" + std::to_string(opset_);
    if (plain) {
      std::string attrs;
      for (const auto& a : graph.Nodes()[0]->proto.attribute()) attrs += (attrs.empty() ? "" : ",") + Quote(a.name()) + ":" + AttributeJson(a);
      r += ",\"Attrs\":{" + attrs + "}";
    } else {
      onnx::GraphProto g = graph.ToGraphProto();
      g.clear_input();
      g.clear_output();
      for (auto* a : ins) *g.add_input() = a->Info();
      for (auto* a : outs) *g.add_output() = a->Info();
      r += ",\"Graph\":\"" + Base64(g.SerializeAsString()) + "\"";
    }
    r += ",\"In\":[" + values[0] + "],\"Out\":[" + values[1] + "]";
    if (!consts.empty()) r += ",\"Const\":[" + consts + "]";
    if (!sorted.empty()) r += ",\"Sorted\":[" + sorted + "]";
    r += ",\"Tols\":[" + tols + "]";
    if (dynamic_) r += ",\"Types\":[" + shapes + "]";
    if (expect_ == ExpectResult::kExpectFailure) r += ",\"Fails\":" + Quote(text_.empty() ? "fails" : text_);
    out << r << ",\"Note\":" << Quote(name) << "}" << std::endl;
  }

  std::string op_, domain_;
  int opset_;
  bool verify_;
  std::string skip_;
  std::vector<Data> in_, out_;
  bool shapes_ = true, dynamic_ = false;
  int symbolic_ = -1;
  ExpectResult expect_ = ExpectResult::kExpectSuccess;
  std::string text_;
  std::unordered_set<std::string> excluded_;
  std::vector<std::unique_ptr<IExecutionProvider>> providers_;
  bool specified_ = false;
};

class OpTester : public BaseTester {
 public:
  explicit OpTester(std::string_view op, int opset = 7, std::string_view domain = kOnnxDomain, bool verify = true)
      : BaseTester(op, opset, domain, verify), name_(op) {}
  using ExpectResult = BaseTester::ExpectResult;
  OpTester& AddShapeToTensorData(bool enable = true, int symbolic = -1) {
    SetAddShapeToTensorData(enable);
    SetAddSymbolicDimToTensorData(symbolic);
    return *this;
  }
  void AddAttributeProto(onnx::AttributeProto a) {
    attributes_.push_back([a](Node& n) { n.AddAttributeProto(a); });
  }
  template <typename T>
  void AddAttribute(std::string name, T value) {
    attributes_.push_back([name, value](Node& n) { n.AddAttribute(name, value); });
  }
  virtual void AddNodes(Graph& graph, std::vector<NodeArg*>& in, std::vector<NodeArg*>& out, std::vector<std::function<void(Node& node)>>& attributes) {
    Node& n = graph.AddNode("node1", name_, name_, in, out, nullptr, Domain());
    for (auto& f : attributes) f(n);
  }

 protected:
  const std::string& Op() const { return name_; }
  void FillGraph(Graph& graph, std::vector<NodeArg*>& in, std::vector<NodeArg*>& out) override { AddNodes(graph, in, out, attributes_); }

 private:
  std::string name_;
  std::vector<std::function<void(Node& node)>> attributes_;
};

// ModelTester runs a model file, which the source package does not have.
class ModelTester : public OpTester {
 public:
  ModelTester(std::string_view name, const PathString&, int = -1) : OpTester(name) { AddReferenceOutputs(); }
};

// For tests of sessions and of optimizations, which do not run.
using NameMLValMap = std::unordered_map<std::string, OrtValue>;
inline const int& GetEnvironment() {
  static int e;
  return e;
}
template <typename T, typename... A>
void CreateMLValue(A&&...) {}
struct ModelTestBuilder {
  template <typename T, typename... A>
  NodeArg* MakeInput(A&&...) { return nullptr; }
  template <typename T, typename... A>
  NodeArg* MakeInitializer(A&&...) { return nullptr; }
  template <typename T, typename... A>
  NodeArg* MakeScalarInitializer(A&&...) { return nullptr; }
  template <typename... A>
  NodeArg* MakeOutput(A&&...) { return nullptr; }
  NodeArg* MakeIntermediate() { return nullptr; }
  Node& AddNode(const std::string&, const std::vector<NodeArg*>&, const std::vector<NodeArg*>&, const std::string& = "") {
    static Node n;
    return n;
  }
};
template <typename... A>
void TransformerTester(A&&...) {}

// CompareOpTester compares other providers with that for the CPU.
class CompareOpTester : public OpTester {
 public:
  using OpTester::OpTester;
  template <typename... A>
  void CompareWithCPU(A&&...) {}
};

inline void ConvertFloatToMLFloat16(const float* f, MLFloat16* h, size_t n) {
  for (size_t i = 0; i < n; i++) h[i] = MLFloat16(f[i]);
}
inline void ConvertMLFloat16ToFloat(const MLFloat16* h, float* f, size_t n) {
  for (size_t i = 0; i < n; i++) f[i] = h[i].ToFloat();
}
inline void ConvertFloatToUint8_t(const float* f, uint8_t* u, size_t n) {
  for (size_t i = 0; i < n; i++) u[i] = uint8_t(f[i]);
}
inline std::vector<MLFloat16> FloatsToMLFloat16s(const std::vector<float>& f) {
  std::vector<MLFloat16> r;
  for (float v : f) r.push_back(MLFloat16(v));
  return r;
}
inline std::vector<BFloat16> FloatsToBFloat16s(const std::vector<float>& f) {
  std::vector<BFloat16> r;
  for (float v : f) r.push_back(BFloat16(v));
  return r;
}
inline std::vector<BFloat16> MakeBFloat16(const std::initializer_list<float>& f) { return FloatsToBFloat16s(f); }

#define ASSERT_STATUS_OK(f) ASSERT_TRUE((f).IsOK())
#define EXPECT_STATUS_OK(f) EXPECT_TRUE((f).IsOK())
#define ASSERT_STATUS_NOT_OK(f) (void)(f)
#define EXPECT_STATUS_NOT_OK(f) (void)(f)
#define ASSERT_STATUS_NOT_OK_AND_HAS_SUBSTR(f, s) (void)(f)
#define EXPECT_STATUS_NOT_OK_AND_HAS_SUBSTR(f, s) (void)(f)
}  // namespace test
}  // namespace onnxruntime
