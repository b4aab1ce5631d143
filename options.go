package onward

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/onward-ml/onward/internal/frontend"
	"github.com/onward-ml/onward/tensor"
)

// SessionOptions say how a session runs its model. The zero value and nil stand
// for the defaults: the pure Go engine "cpu" on all cores, every optimization. The
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

	modelHash string // of the model's bytes, for PrepackedWeights
}

// ExecutionMode says how a session goes through its graph.
type ExecutionMode int

// The execution modes.
const (
	Sequential ExecutionMode = iota // one node at a time
	Parallel                        // independent nodes at the same time
)

// ExecutionOrder is the order of a session's nodes.
type ExecutionOrder int

// The execution orders.
const (
	DefaultOrder         ExecutionOrder = iota // topological
	PriorityBased                              // nodes with a priority first
	MemoryEfficientOrder                       // for training: as late as possible
)

// OptimizationLevel says how far a graph may be rewritten. Every level has the
// optimizations of those before it.
type OptimizationLevel int

// The optimization levels. The zero value stands for all, as in ONNX Runtime.
const (
	OptimizeAll      OptimizationLevel = iota // memory layouts too
	OptimizeNone                              // the graph stays as it is
	OptimizeBasic                             // constants folded, what is not needed removed
	OptimizeExtended                          // operators fused
)

var levelNames = [...]string{"all", "none", "basic", "extended"}

// String returns all, none, basic or extended.
func (l OptimizationLevel) String() string {
	if l >= 0 && int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("OptimizationLevel(%d)", int(l))
}

// MarshalText is [OptimizationLevel.String].
func (l OptimizationLevel) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText is [ParseOptimizationLevel].
func (l *OptimizationLevel) UnmarshalText(text []byte) (err error) {
	*l, err = ParseOptimizationLevel(string(text))
	return err
}

// ParseOptimizationLevel is the inverse of [OptimizationLevel.String]; the empty
// string is the default.
func ParseOptimizationLevel(s string) (OptimizationLevel, error) {
	if i := slices.Index(levelNames[:], s); i >= 0 {
		return OptimizationLevel(i), nil
	}
	if s == "" {
		return OptimizeAll, nil
	}
	return 0, statusf(InvalidArgument, "optimization level %q is none of none, basic, extended, all", s)
}

// ConfigDisabledPasses is the entry of [SessionOptions.Config] that names
// optimizations to leave out, separated by semicolons.
const ConfigDisabledPasses = "optimization.disable_specified_optimizers"

// ConfigAllowSpinning is the entry of [SessionOptions.Config] that says, with "0", that threads
// without work sleep at once. By default they look for work while a run lasts and a little
// longer: on cpu 0.2 ms, which keeps the next run from waking them.
const ConfigAllowSpinning = "session.intra_op.allow_spinning"

// Limits bound what an untrusted model may cost. Zero fields stand for the
// defaults.
type Limits struct {
	// MaxMemory is how many bytes the intermediate and final results of one run
	// may take. Default: half of the machine's memory.
	MaxMemory int64
	// MaxNodes is how many nodes the inlining of functions may add. Default:
	// 250,000 and four times those in the file.
	MaxNodes int
	// MaxDepth is how deep subgraphs and functions may nest. Default: 100.
	MaxDepth int
	// MaxFileSize is the largest model file that is opened, in bytes. Default: no
	// limit.
	MaxFileSize int64
}

func (l Limits) frontend() frontend.Limits {
	return frontend.Limits{MaxNodes: l.MaxNodes, MaxDepth: l.MaxDepth}
}

func (l Limits) memory() int64 {
	if l.MaxMemory > 0 {
		return l.MaxMemory
	}
	return defaultMemory()
}

// RunOptions say how one run goes. The zero value and nil stand for the
// defaults. What stops a run is its context.
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

// NodeRun is one node that has run.
type NodeRun struct {
	Index    int    // position in the order of execution, over all graphs of the run
	Name     string // as in the model, may be empty
	OpType   string
	Domain   string
	InNames  []string // empty for omitted ones
	OutNames []string
	In, Out  []tensor.Value // nil for omitted ones
	Start    time.Time
	Duration time.Duration
}
