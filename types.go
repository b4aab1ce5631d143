package onward

import (
	"github.com/onward-ml/onward/driver"
)

// Types that users and providers share. Package driver explains their fields and methods.
type (
	// ProviderConfig names a provider and its options.
	ProviderConfig = driver.Config
	// Device is a device, in ONNX Runtime's terms. The zero Device is the CPU.
	Device = driver.Device
	// Dim is one dimension of a declared shape.
	Dim = driver.Dim
	// NodeRun is one node that has run, for [RunOptions.Observe].
	NodeRun = driver.NodeRun
	// Limits bound what an untrusted model may cost.
	Limits = driver.Limits
	// PrepackedWeights lets sessions of one model share its packed weights.
	PrepackedWeights = driver.PrepackedWeights
	// CustomOperator is an operator written in Go.
	CustomOperator = driver.CustomOperator
	// CustomShapes is what is known of a node's inputs before it runs.
	CustomShapes = driver.CustomShapes
	// CustomCall is one run of a node with a custom operator.
	CustomCall = driver.CustomCall
	// ExecutionMode says how a session goes through its graph.
	ExecutionMode = driver.ExecutionMode
	// ExecutionOrder is the order of a session's nodes.
	ExecutionOrder = driver.ExecutionOrder
	// OptimizationLevel says how far a graph may be rewritten.
	OptimizationLevel = driver.OptimizationLevel
	// LogSeverity is how much a log record matters.
	LogSeverity = driver.LogSeverity
	// Code is a status code of ONNX Runtime's API.
	Code = driver.Code
	// StatusError is an error with one of ONNX Runtime's status codes.
	StatusError = driver.StatusError
)

// The execution modes.
const (
	Sequential = driver.Sequential // one node at a time
	Parallel   = driver.Parallel   // independent nodes at the same time
)

// The execution orders.
const (
	DefaultOrder         = driver.DefaultOrder         // topological
	PriorityBased        = driver.PriorityBased        // nodes with a priority first
	MemoryEfficientOrder = driver.MemoryEfficientOrder // for training: as late as possible
)

// The optimization levels. The zero value stands for all, as in ONNX Runtime.
const (
	OptimizeAll      = driver.OptimizeAll      // memory layouts too
	OptimizeNone     = driver.OptimizeNone     // the graph stays as it is
	OptimizeBasic    = driver.OptimizeBasic    // constants folded, what is not needed removed
	OptimizeExtended = driver.OptimizeExtended // operators fused
)

// The severities.
const (
	LogDefault = driver.LogDefault // that of the session, or of the process
	LogVerbose = driver.LogVerbose // slog.LevelDebug
	LogInfo    = driver.LogInfo    // slog.LevelInfo
	LogWarning = driver.LogWarning // slog.LevelWarn
	LogError   = driver.LogError   // slog.LevelError
	LogFatal   = driver.LogFatal   // above slog.LevelError
)

// The entries of [SessionOptions.Config] that cpu reads too.
const (
	ConfigDisabledPasses           = driver.ConfigDisabledPasses           // optimizations to leave out, separated by semicolons
	ConfigAllowSpinning            = driver.ConfigAllowSpinning            // "0": threads without work sleep at once
	ConfigOptimizedExternalFile    = driver.ConfigOptimizedExternalFile    // a file beside the optimized model for its weights
	ConfigOptimizedExternalMinimum = driver.ConfigOptimizedExternalMinimum // the least size in bytes of weights in there
)
