package onward

import (
	"github.com/onward-ml/onward/driver"
)

// These types are shared with providers. Package driver documents their fields and
// methods.
type (
	// ProviderConfig names a provider and its options.
	ProviderConfig = driver.Config
	// Device identifies a device, such as "cuda:1". The zero Device is the CPU.
	Device = driver.Device
	// Dim is one dimension of a declared shape.
	Dim = driver.Dim
	// NodeRun describes one execution of a node, for [RunOptions.Observe].
	NodeRun = driver.NodeRun
	// MemoryBudget bounds the memory of the runs of several sessions together.
	MemoryBudget = driver.MemoryBudget
	// Limits bounds the resources that an untrusted model may use.
	Limits = driver.Limits
	// PrepackedWeights lets sessions of one model share its packed weights.
	PrepackedWeights = driver.PrepackedWeights
	// CustomOperator is an operator written in Go.
	CustomOperator = driver.CustomOperator
	// CustomShapes holds the input shapes and attributes for shape inference of a
	// custom operator.
	CustomShapes = driver.CustomShapes
	// CustomCall holds the inputs and attributes of one execution of a custom operator.
	CustomCall = driver.CustomCall
	// ExecutionMode selects whether independent nodes may run at the same time.
	ExecutionMode = driver.ExecutionMode
	// ExecutionOrder selects the order in which a session runs its nodes.
	ExecutionOrder = driver.ExecutionOrder
	// OptimizationLevel selects the graph optimizations of a session.
	OptimizationLevel = driver.OptimizationLevel
	// Precision selects how matrix products and convolutions of float32 may round.
	Precision = driver.Precision
	// LogSeverity is the severity of a log record.
	LogSeverity = driver.LogSeverity
	// Code is an error code of ONNX Runtime's API.
	Code = driver.Code
	// StatusError is an error with one of ONNX Runtime's status codes.
	StatusError = driver.StatusError
)

// The execution modes.
const (
	ExecutionSequential = driver.ExecutionSequential // one node at a time
	ExecutionParallel   = driver.ExecutionParallel   // independent nodes at the same time
)

// The execution orders. All are topological.
const (
	OrderDefault         = driver.OrderDefault         // the provider's own order
	OrderPriority        = driver.OrderPriority        // nodes with a priority first
	OrderMemoryEfficient = driver.OrderMemoryEfficient // for training: each node as late as possible
)

// The precisions.
const (
	PrecisionFloat32  = driver.PrecisionFloat32  // operands and sums are float32
	PrecisionBFloat16 = driver.PrecisionBFloat16 // operands may be rounded to bfloat16, sums are float32
)

// The optimization levels. The zero value selects all optimizations, as in ONNX Runtime.
const (
	OptimizeAll  = driver.OptimizeAll  // OptimizeExtended, and memory layouts
	OptimizeNone = driver.OptimizeNone // no optimization
	// constant folding, also into the weights of Conv, and removal of unneeded nodes
	OptimizeBasic    = driver.OptimizeBasic
	OptimizeExtended = driver.OptimizeExtended // OptimizeBasic, and operator fusion
)

// The severities of log records, as ONNX Runtime has them.
const (
	LogDefault = driver.LogDefault // the severity of the session, or else of the process
	LogVerbose = driver.LogVerbose // slog.LevelDebug
	LogInfo    = driver.LogInfo    // slog.LevelInfo
	LogWarning = driver.LogWarning // slog.LevelWarn
	LogError   = driver.LogError   // slog.LevelError
	LogFatal   = driver.LogFatal   // above slog.LevelError
)

// These entries of [SessionOptions.Config] apply to the provider cpu, too.
const (
	ConfigDisabledPasses = driver.ConfigDisabledPasses // names of optimizations to skip, separated by semicolons
	ConfigAllowSpinning  = driver.ConfigAllowSpinning  // "0": idle threads sleep at once
	// processors for each thread but the caller's: "1,2;3-8"
	ConfigThreadAffinities = driver.ConfigThreadAffinities
	ConfigSplitFloat32     = driver.ConfigSplitFloat32 // "0": float32 GEMM without bfloat16 instructions
	// name of a file for the weights of the optimized model, in its folder
	ConfigOptimizedExternalFile = driver.ConfigOptimizedExternalFile
	// least size in bytes of the weights in that file
	ConfigOptimizedExternalMinimum = driver.ConfigOptimizedExternalMinimum
)
