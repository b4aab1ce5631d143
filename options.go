package onward

import (
	"cmp"
	"log/slog"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

// SessionOptions configure a session. The zero value and nil select the defaults: the
// provider cpu of the Go engine on all cores, every optimization. The
// fields are those of ONNX Runtime's SessionOptions
// (https://onnxruntime.ai/docs/api/python/api_summary.html#sessionoptions); each says
// what it means to the providers cpu and reference. The providers of ONNX Runtime
// get all of them.
type SessionOptions struct {
	// Providers are tried in order; the first that can run the model does.
	// Default: cpu.
	Providers []ProviderConfig
	// DisableFallback makes the first provider's failure the session's: no other is
	// tried, and every provider must be available.
	DisableFallback bool

	// Threads is the number of threads that one run uses (intra_op_num_threads).
	// Default: all cores, with workers shared by all sessions of the process.
	Threads int
	// InterOpThreads is the number of nodes that run at the same time with
	// [Parallel] execution (inter_op_num_threads). cpu and reference run node after
	// node, each on all threads.
	InterOpThreads int
	// ExecutionMode says whether independent nodes may run at the same time. cpu
	// and reference are always sequential.
	ExecutionMode ExecutionMode
	// ExecutionOrder chooses among the orders in which nodes can run. cpu and
	// reference run them in the file's order where that is one.
	ExecutionOrder ExecutionOrder

	// OptimizationLevel says how far the graph may be rewritten. reference never
	// rewrites it.
	OptimizationLevel OptimizationLevel
	// DisabledPasses names optimizations to leave out, as [OptimizationPasses] lists
	// them for cpu; for ONNX Runtime they are its own names.
	DisabledPasses []string
	// OptimizedModelPath is where to write the optimized model, as ONNX. See
	// [OptimizeModel] for what cpu writes.
	OptimizedModelPath string

	// EnableProfiling records every node of every run until EndProfiling.
	EnableProfiling bool
	// ProfilePrefix begins the name of the profile, which a time and ".json" end.
	// Default: onnxruntime_profile_.
	ProfilePrefix string

	// FreeDimensions fixes symbolic dimensions of inputs by name: {"batch": 1}.
	// A name that no input has is ignored.
	FreeDimensions map[string]int64
	// FreeDimensionsByDenotation fixes dimensions of inputs by their denotation:
	// {"DATA_BATCH": 1}.
	FreeDimensionsByDenotation map[string]int64
	// Config holds ONNX Runtime's session configuration entries
	// (onnxruntime_session_options_config_keys.h). Unknown ones are ignored, as
	// there. cpu honours [ConfigDisabledPasses] and [ConfigAllowSpinning].
	Config map[string]string

	// Initializers replace initializers of the model by name. Type and shape must
	// be the initializer's. The values must not change while the session is open.
	Initializers Values
	// ExternalInitializers are Initializers for those whose data the model keeps
	// in other files; the files need not exist then.
	ExternalInitializers Values
	// PrepackedWeights lets sessions of one model on cpu have its weights in memory
	// once. Other providers ignore it.
	PrepackedWeights *PrepackedWeights
	// MapWeights keeps the model file and the files of its external data mapped while a session of
	// [Open] on cpu or reference is open. Tensors of 16 KiB and more that no operator packs, such as
	// embeddings, stay in there: they take memory as far as they have been read, and the system may take
	// that back. Replace such files, don't write to them: a run that reads a file which has become shorter
	// fails with [onnx.ErrMappedFile], other changes show in results. Close ends the mapping.
	// Windows keeps copying, and so does a session that names other providers too.
	MapWeights bool
	// CustomOperators are operators written in Go.
	CustomOperators []CustomOperator

	// LogID names the session in log records.
	LogID string
	// Logger takes the session's log records. Default: the one of
	// [SetDefaultLogger], which is slog.Default until then.
	Logger *slog.Logger
	// LogSeverity is the lowest severity that is logged. Default: that of
	// [SetDefaultLogSeverity], which is LogWarning until then.
	LogSeverity LogSeverity
	// LogVerbosity adds detail to LogVerbose: from 1 on a record for every node.
	LogVerbosity int

	// Deterministic makes results repeatable where that costs speed
	// (use_deterministic_compute). Results of cpu and reference always are.
	Deterministic bool
	// DisableMemoryArena makes ONNX Runtime allocate and free memory without an
	// arena (enable_cpu_mem_arena). cpu and reference have none that outlives a
	// session.
	DisableMemoryArena bool
	// DisableMemoryPattern keeps intermediate results out of one planned block
	// (enable_mem_pattern).
	DisableMemoryPattern bool
	// DisableMemoryReuse gives every intermediate result memory of its own
	// (enable_mem_reuse).
	DisableMemoryReuse bool

	// Limits bound what the model and its runs may cost.
	Limits Limits
	// StrictExternalData refuses external data behind symbolic links.
	StrictExternalData bool
}

// driver returns the provider's view of the options. Fields that are not in it are the
// session's own: TestOptionsReachProviders lists them.
func (o *SessionOptions) driver() *driver.Options {
	d := &driver.Options{
		Threads: o.Threads, InterOpThreads: o.InterOpThreads, ExecutionMode: o.ExecutionMode, ExecutionOrder: o.ExecutionOrder,
		OptimizationLevel: o.OptimizationLevel, DisabledPasses: o.DisabledPasses, OptimizedModelPath: o.OptimizedModelPath,
		EnableProfiling: o.EnableProfiling, ProfilePrefix: cmp.Or(o.ProfilePrefix, defaultProfilePrefix),
		FreeDimensions: o.FreeDimensions, FreeDimensionsByDenotation: o.FreeDimensionsByDenotation, Config: o.Config,
		Initializers: o.Initializers, ExternalInitializers: o.ExternalInitializers, PrepackedWeights: o.PrepackedWeights,
		CustomOperators: o.CustomOperators,
		Logger:          o.logger(), LogID: o.LogID, LogSeverity: o.severity(), LogVerbosity: o.LogVerbosity,
		Deterministic: o.Deterministic, DisableMemoryArena: o.DisableMemoryArena,
		DisableMemoryPattern: o.DisableMemoryPattern, DisableMemoryReuse: o.DisableMemoryReuse,
		Limits: o.Limits,
	}
	if len(o.CustomOperators) > 0 {
		d.CustomKernels = func(m *onnx.Model) (*onnx.Model, []driver.CustomKernel, error) {
			r, kernels, err := goengine.CustomKernels(m, d)
			return r, kernels, loadStatus(err)
		}
	}
	return d
}

// RunOptions configure one run. The zero value and nil select the defaults. The context of
// the run stops it.
type RunOptions struct {
	// Outputs names the results that are wanted. Default: all.
	Outputs []string
	// OnlyPathToFetches runs no node that the wanted results do not need
	// (only_execute_path_to_fetches).
	OnlyPathToFetches bool
	// Seed makes random operators without a seed of their own reproducible.
	// Default: that of [SetSeed].
	Seed uint64
	// Tag names the run in log records (logid).
	Tag string
	// LogSeverity is the lowest severity that is logged. Default: the session's.
	LogSeverity LogSeverity
	// LogVerbosity adds detail to LogVerbose. Default: the session's.
	LogVerbosity int
	// Config holds ONNX Runtime's run configuration entries
	// (onnxruntime_run_options_config_keys.h). cpu and reference ignore them.
	Config map[string]string
	// Observe is called after every node, with its inputs and results, which are
	// valid only during the call. Providers other than cpu and reference ignore it.
	Observe func(NodeRun)
}

// fill sets the provider's view of the options. Outputs is the session's own.
func (o *RunOptions) fill(d *driver.RunOptions) {
	*d = driver.RunOptions{OnlyPathToFetches: o.OnlyPathToFetches, Seed: cmp.Or(o.Seed, DefaultSeed()), Tag: o.Tag,
		LogSeverity: o.LogSeverity, LogVerbosity: o.LogVerbosity, Config: o.Config, Observe: o.Observe}
}
