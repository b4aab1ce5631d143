package onward

import (
	"cmp"
	"log/slog"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// SessionOptions configures a session. The zero value and nil select the defaults: the
// provider cpu on all cores with all optimizations.
//
// The fields correspond to ONNX Runtime's SessionOptions
// (https://onnxruntime.ai/docs/api/python/api_summary.html#sessionoptions). Each comment
// says what the providers cpu and reference do with the field. The providers of ONNX
// Runtime receive all of them.
type SessionOptions struct {
	// Providers are tried in order. The first that can run the model runs it.
	// Default: cpu.
	Providers []ProviderConfig
	// DisableFallback makes opening fail if the first provider cannot run the model
	// or if any provider is not available.
	DisableFallback bool
	// FallbackOnFailure makes [Session.Run] continue on the next of Providers if a run
	// ends with the status EP_FAIL: the session changes to that provider, as
	// [Session.SetProviders] does, and the run is repeated. Bindings must be created again.
	FallbackOnFailure bool

	// Threads is the number of threads that one run uses (intra_op_num_threads).
	// Default: all cores, with worker threads shared by all sessions of the process.
	Threads int
	// InterOpThreads is the number of nodes that run at the same time with
	// [Parallel] execution (inter_op_num_threads). cpu and reference run one node at
	// a time, cpu on all threads.
	InterOpThreads int
	// ExecutionMode selects whether independent nodes may run at the same time. cpu
	// and reference are always sequential.
	ExecutionMode ExecutionMode
	// ExecutionOrder selects one of the topological orders of the nodes. cpu and
	// reference ignore it: they run the nodes in the order of the file if that is
	// topological.
	ExecutionOrder ExecutionOrder

	// OptimizationLevel selects the graph optimizations. reference applies none.
	OptimizationLevel OptimizationLevel
	// Precision says how matrix products and convolutions of float32 may round. With
	// [PrecisionBFloat16], cpu rounds the operands of attention and of matrix products with
	// constant weights to bfloat16 where that is faster: on AMD's processors from Zen 4 on and, on
	// Linux, on those with AMX. Convolutions round on AMD's. Other operators compute with
	// float32, and reference always does. ONNX Runtime rounds on arm64, OpenVINO on processors
	// with bfloat16. Default: float32; cpu rounds as with bfloat16 if the constant weights of the
	// model's products are bfloat16.
	Precision Precision
	// DisabledPasses names optimizations to skip: for cpu those that
	// [OptimizationPasses] lists, for ONNX Runtime its own.
	DisabledPasses []string
	// SpecializedShapes is the largest number of plans that cpu compiles for input shapes that
	// occur in runs, if the model has convolutions over free dimensions, or inputs of one integer
	// or bool that decide between the branches of an If. Such a plan is as fast as that of a model
	// with fixed dimensions, or without the If. It shares packed weights with the other plans. A
	// run compiles a plan, which takes about a millisecond, if that saves more time in the runs
	// with its shapes. The plan used longest ago makes room for a new one, and all take at most a
	// quarter of MaxMemory in [Limits]. Results of two plans differ in the last bits; with
	// Deterministic, all runs use specialized plans. Default: 8. Negative: none.
	SpecializedShapes int
	// OptimizedModelPath is the file to write the optimized model to, as ONNX.
	// [OptimizeModel] describes what cpu writes. Default: none is written.
	OptimizedModelPath string

	// EnableProfiling records every node of every run until [Session.EndProfiling]
	// or [Session.Close], which write the profile to a file.
	EnableProfiling bool
	// ProfilePrefix is the beginning of the profile's file name. The time and ".json"
	// follow it. Default: onnxruntime_profile_.
	ProfilePrefix string

	// FreeDimensions sets symbolic dimensions by name: {"batch": 1}. A name that the
	// inputs, outputs and value infos of the model do not use is an error.
	FreeDimensions map[string]int64
	// FreeDimensionsByDenotation sets dimensions by denotation: {"DATA_BATCH": 1}. An
	// unused denotation is an error.
	FreeDimensionsByDenotation map[string]int64
	// Config holds ONNX Runtime's session configuration entries
	// (onnxruntime_session_options_config_keys.h). Unknown entries are ignored, as in
	// ONNX Runtime. cpu reads those that this package has constants for, such as
	// [ConfigAllowSpinning] and [ConfigSplitFloat32].
	Config map[string]string

	// Initializers replaces initializers of the model by name. Types and shapes must
	// match. The values must not change while the session is open.
	Initializers Values
	// ExternalInitializers is like Initializers, for initializers with external data.
	// The files of the external data need not exist then.
	ExternalInitializers Values
	// PrepackedWeights lets sessions of one model on cpu share one copy of its
	// weights. Other providers ignore it.
	PrepackedWeights *PrepackedWeights
	// MapWeights keeps the model file and the files of its external data mapped until
	// the session of [Open] is closed. Tensors of at least 16 KiB that no operator packs,
	// such as embeddings, are not copied: only pages that have been read take memory,
	// and the operating system may reclaim it.
	//
	// Do not write to mapped files; replace them. A run fails with [onnx.ErrMappedFile]
	// if it reads a file that has become shorter. Other changes of the file change
	// results.
	//
	// MapWeights has no effect on Windows, or if a provider other than cpu and
	// reference is listed.
	MapWeights bool
	// CustomOperators adds operators written in Go, or replaces operators by them.
	CustomOperators []CustomOperator

	// LogID identifies the session in log records (logid).
	LogID string
	// Logger receives the session's log records. Default: the logger set by
	// [SetDefaultLogger], or else [slog.Default].
	Logger *slog.Logger
	// LogSeverity is the lowest severity that is logged. Default: the severity set by
	// [SetDefaultLogSeverity], or else [LogWarning].
	LogSeverity LogSeverity
	// LogVerbosity adds records at the severity [LogVerbose]: from 1 on, one per node.
	LogVerbosity int

	// Deterministic makes results reproducible even if that is slower (use_deterministic_compute).
	// Results of reference always are, and those of cpu but for the plans of SpecializedShapes, and
	// for batches that teams of 8 threads and more share: with Deterministic, every run waits for
	// the plan of its input shapes, and no batch is divided.
	Deterministic bool
	// DisableMemoryArena makes ONNX Runtime allocate and free memory without an
	// arena (enable_cpu_mem_arena). cpu and reference have no arena that outlives a
	// session.
	DisableMemoryArena bool
	// DisableMemoryPattern allocates intermediate results separately instead of in
	// one planned block (enable_mem_pattern).
	DisableMemoryPattern bool
	// DisableMemoryReuse gives every intermediate result its own memory
	// (enable_mem_reuse).
	DisableMemoryReuse bool

	// Limits bounds the memory, nodes, nesting and file size of the model.
	Limits Limits
	// StrictExternalData rejects external data that is reached through symbolic links.
	StrictExternalData bool
}

// check returns an error for values that no option has.
func (o *SessionOptions) check() error {
	for _, c := range []struct {
		name    string
		threads int
	}{{"Threads", o.Threads}, {"InterOpThreads", o.InterOpThreads}} {
		if c.threads < 0 {
			return statusf(CodeInvalidArgument, "%s is %d, want 0, for the default, or more", c.name, c.threads)
		}
	}
	if o.Precision != PrecisionFloat32 && o.Precision != PrecisionBFloat16 {
		return statusf(CodeInvalidArgument, "Precision is %s, want PrecisionFloat32 or PrecisionBFloat16", o.Precision)
	}
	return nil
}

// driver returns the options that providers receive. The session handles the other
// fields itself; TestOptionsReachProviders lists them.
func (o *SessionOptions) driver() *driver.Options {
	d := &driver.Options{
		Threads: o.Threads, InterOpThreads: o.InterOpThreads, ExecutionMode: o.ExecutionMode,
		ExecutionOrder:    o.ExecutionOrder,
		OptimizationLevel: o.OptimizationLevel, Precision: o.Precision, DisabledPasses: o.DisabledPasses,
		OptimizedModelPath: o.OptimizedModelPath, SpecializedShapes: o.SpecializedShapes,
		EnableProfiling: o.EnableProfiling, ProfilePrefix: cmp.Or(o.ProfilePrefix, defaultProfilePrefix),
		FreeDimensions: o.FreeDimensions, FreeDimensionsByDenotation: o.FreeDimensionsByDenotation, Config: o.Config,
		Initializers: o.Initializers, ExternalInitializers: o.ExternalInitializers,
		PrepackedWeights: o.PrepackedWeights,
		CustomOperators:  o.CustomOperators,
		Logger:           o.logger(), LogID: o.LogID, LogSeverity: o.severity(), LogVerbosity: o.LogVerbosity,
		Deterministic: o.Deterministic, DisableMemoryArena: o.DisableMemoryArena,
		DisableMemoryPattern: o.DisableMemoryPattern, DisableMemoryReuse: o.DisableMemoryReuse,
		Limits: o.Limits,
	}
	if len(o.CustomOperators)+len(driver.RegisteredOperators()) > 0 {
		d.CustomKernels = func(m *onnx.Model) (*onnx.Model, []driver.CustomKernel, error) {
			r, kernels, err := goengine.CustomKernels(m, d)
			return r, kernels, driver.LoadError(err)
		}
	}
	return d
}

// RunOptions configures one run. The zero value and nil select the defaults. To stop a
// run, cancel its context.
type RunOptions struct {
	// Outputs names the outputs to return. Nil stands for all, an empty list is an
	// error. Nodes that they do not depend on run too, and their errors fail the run, as
	// in ONNX Runtime; see OnlyPathToFetches.
	Outputs []string
	// Into holds tensors that receive the outputs of these names, in place of new ones, as ONNX
	// Runtime's Run does for outputs that it is given. Types and shapes must be those of the
	// outputs, and strings are not possible. The results hold these tensors. Nodes that no
	// wanted output depends on do not run. Into must be nil for a run with a binding; a [Binding]
	// is faster for memory that stays the same, because it is set up once.
	Into map[string]*tensor.Tensor
	// OnlyPathToFetches skips nodes that the wanted outputs do not depend on
	// (only_execute_path_to_fetches).
	OnlyPathToFetches bool
	// Adapters are the LoRA adapters of the run (run_options.add_active_adapter). Their
	// parameters are inputs of the run. They take precedence over values of the feed, and
	// earlier adapters over later ones. It must be nil for a run with a binding.
	Adapters []*Adapter
	// Seed is the seed of random operators that have no seed attribute. Default: the
	// seed set by [SetSeed].
	Seed uint64
	// Tag identifies the run in log records (logid).
	Tag string
	// LogSeverity is the lowest severity that is logged. Default: the session's.
	LogSeverity LogSeverity
	// LogVerbosity adds records at the severity [LogVerbose]. Default: the session's.
	LogVerbosity int
	// Config holds ONNX Runtime's run configuration entries
	// (onnxruntime_run_options_config_keys.h). cpu and reference ignore them.
	Config map[string]string
	// Serial runs the model in the caller's goroutine alone, whatever
	// [SessionOptions.Threads] is. A model that takes a few microseconds does not repay
	// waking other threads. Long runs let other goroutines run every millisecond. Native libraries
	// ignore it.
	Serial bool
	// Observe is called after every node with its inputs and outputs, which are valid
	// only during the call. With providers other than cpu and reference the run returns
	// NOT_IMPLEMENTED; a Rep of package backend observes these too.
	Observe func(NodeRun)
}

// fill sets d, which is zero, to the options that providers receive. The session handles Outputs,
// Into and Adapters itself.
func (o *RunOptions) fill(d *driver.RunOptions) {
	if o == &defaultRun {
		*d = driver.RunOptions{Seed: DefaultSeed()}
		return
	}
	*d = driver.RunOptions{OnlyPathToFetches: o.OnlyPathToFetches, Seed: cmp.Or(o.Seed, DefaultSeed()), Tag: o.Tag,
		LogSeverity: o.LogSeverity, LogVerbosity: o.LogVerbosity, Config: o.Config, Serial: o.Serial,
		Observe: o.Observe}
}
