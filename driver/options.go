package driver

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Options are the provider's view of the options of a session. The zero value selects the
// defaults. onward.SessionOptions explains the fields that are not explained here.
type Options struct {
	Threads        int // 0: all cores
	InterOpThreads int
	ExecutionMode  ExecutionMode
	ExecutionOrder ExecutionOrder

	OptimizationLevel  OptimizationLevel
	DisabledPasses     []string
	OptimizedModelPath string

	EnableProfiling bool
	ProfilePrefix   string // not empty if EnableProfiling is set

	// FreeDimensions and FreeDimensionsByDenotation have been applied to the [Model], but
	// not to its file.
	FreeDimensions             map[string]int64
	FreeDimensionsByDenotation map[string]int64
	Config                     map[string]string

	// Initializers and ExternalInitializers fit the model's, and no name is in both.
	Initializers         map[string]tensor.Value
	ExternalInitializers map[string]tensor.Value
	PrepackedWeights     *PrepackedWeights
	CustomOperators      []CustomOperator
	// CustomKernels serves libraries that know neither Go types nor attributes. It
	// returns a model in which every node with a custom operator has an operator type of
	// its own in [CustomDomain], and these operators. It is nil without custom operators.
	CustomKernels func(m *onnx.Model) (*onnx.Model, []CustomKernel, error)

	// Logger takes records of the session and has its name. It drops nothing by severity;
	// [Options.Log] does. Nil stands for slog.Default.
	Logger       *slog.Logger
	LogID        string
	LogSeverity  LogSeverity // LogDefault: neither the session nor the process sets one
	LogVerbosity int

	Deterministic        bool
	DisableMemoryArena   bool
	DisableMemoryPattern bool
	DisableMemoryReuse   bool

	Limits Limits
}

// Log returns the logger of the session without records below its severity.
func (o *Options) Log() *slog.Logger {
	l := o.Logger
	if l == nil {
		l = slog.Default()
	}
	return o.LogSeverity.Filter(l)
}

// RunOptions are the provider's view of the options of a run.
type RunOptions struct {
	// OnlyPathToFetches runs no node that the wanted outputs do not need.
	OnlyPathToFetches bool
	Seed              uint64
	Tag               string
	LogSeverity       LogSeverity // LogDefault: the session's
	LogVerbosity      int         // 0: the session's
	Config            map[string]string
	// Observe is called after every node if it is not nil and the provider has
	// [Traits.Operators].
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

// UnmarshalText is the inverse of MarshalText; the empty text is the default.
func (l *OptimizationLevel) UnmarshalText(text []byte) error {
	i := slices.Index(levelNames[:], string(text))
	if i < 0 && len(text) > 0 {
		return Errorf(InvalidArgument, "unknown optimization level %q, want none, basic, extended or all", text)
	}
	*l = OptimizationLevel(max(i, 0))
	return nil
}

// The entries of [Options.Config] that the Go engine reads too.
const (
	// ConfigDisabledPasses names optimizations to leave out, separated by semicolons.
	ConfigDisabledPasses = "optimization.disable_specified_optimizers"
	// ConfigAllowSpinning set to "0" lets threads without work sleep at once. By default
	// they look for work while a run lasts and a little longer: on cpu 0.2 ms, which
	// keeps the next run from waking them.
	ConfigAllowSpinning = "session.intra_op.allow_spinning"
	// ConfigOptimizedExternalFile names a file beside the optimized model for its weights.
	ConfigOptimizedExternalFile = "session.optimized_model_external_initializers_file_name"
	// ConfigOptimizedExternalMinimum is the least size in bytes of weights in that file.
	ConfigOptimizedExternalMinimum = "session.optimized_model_external_initializers_min_size_in_bytes"
)

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
