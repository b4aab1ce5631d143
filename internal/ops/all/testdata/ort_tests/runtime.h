// The types and functions of ONNX Runtime that its operator tests use besides OpTester, with
// what the recording needs of them.
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
#include "core/common/type_list.h"
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
  friend std::ostream& operator<<(std::ostream& o, const TensorShape& s) { return o << s.ToString(); }
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
enum OrtLoggingLevel { ORT_LOGGING_LEVEL_VERBOSE, ORT_LOGGING_LEVEL_INFO, ORT_LOGGING_LEVEL_WARNING, ORT_LOGGING_LEVEL_ERROR, ORT_LOGGING_LEVEL_FATAL };
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
namespace Ort {
struct Api {
  void* (*CreateCUDAProviderOptions)(OrtCUDAProviderOptionsV2**) = [](OrtCUDAProviderOptionsV2**) -> void* { return nullptr; };
  void (*ReleaseCUDAProviderOptions)(OrtCUDAProviderOptionsV2*) = [](OrtCUDAProviderOptionsV2*) {};
  void* (*UpdateCUDAProviderOptions)(OrtCUDAProviderOptionsV2*, const char* const*, const char* const*, size_t) =
      [](OrtCUDAProviderOptionsV2*, const char* const*, const char* const*, size_t) -> void* { return nullptr; };
};
inline const Api& GetApi() {
  static Api a;
  return a;
}
}  // namespace Ort
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
  std::function<void(void*, OrtLoggingLevel, const char*, const char*, const char*, const char*)> user_logging_function;
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

template <typename T>
using is_quant_type = std::bool_constant<std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t>>;

#define ORT_TSTR(s) s
#define ORT_FORCEINLINE inline
#define ORTCHAR_T char
template <typename T>
using SafeInt = T;

#define LOGS_DEFAULT(level) std::cerr

inline int64_t HandleNegativeAxis(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }
constexpr const char* kLayerNormInputShapeMismatchError = "shape mismatch";
constexpr const char* kLayerNormInvalidSize = "invalid size";
namespace contrib::longformer {
constexpr const char* kUseCompactMemory = "";
}
template <typename... A>
bool IsTransposeReshape(A&&...) { return false; }
template <typename... A>
Status DoTransposeEltWise(A&&...) { return Status::OK(); }
enum class FastReduceKind { kNone, kK, kR, kKR, kRK, kKRK, kRKR, kEmpty };
template <typename... A>
FastReduceKind OptimizeShapeForFastReduce(A&&...) { return FastReduceKind::kNone; }
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
}  // namespace onnxruntime
