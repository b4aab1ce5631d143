// Replaces what ONNX Runtime's operator tests include (test/providers/provider_test_utils.h
// and the headers of its runtime), so that they compile without ONNX Runtime: OpTester
// writes the case that a test describes instead of running it. record_ort_tests.py compiles
// each test file with it; see there.
#pragma once

#include "runtime.h"

namespace onnxruntime {
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

constexpr size_t kMostElements = 20000;

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
    if (n > kMostElements) skip_ = "too many elements";  // some tests have 10⁷
    Data d{Arg<T>(name, dims, params), {}, {}, n > kMostElements ? "null" : TensorJson<T>(dims, v, n), init};
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
template <typename T>
void CreateMLValue(AllocatorPtr, const std::vector<int64_t>&, const std::vector<T>&, OrtValue*) {}
struct DummyAllocator : IAllocator {};
struct ModelTestBuilder {
  template <typename T>
  NodeArg* MakeInput(const std::vector<int64_t>&, T, T) { return nullptr; }
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
struct InferenceSessionWrapper {
  Graph& GetGraph() {
    static Graph g;
    return g;
  }
};
inline std::map<std::string, int> CountOpsInGraph(const Graph&) { return {}; }
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
template <typename T>
std::vector<T> GetTypedArray(const std::vector<float>& f, T = T(0.f)) {
  std::vector<T> r;
  for (float v : f) r.push_back(T(v));
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
