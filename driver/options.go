package driver

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Options holds the session options that providers receive. The zero value selects the
// defaults. onward.SessionOptions documents the fields that are not documented here.
type Options struct {
	Threads        int // 0: all cores
	InterOpThreads int
	ExecutionMode  ExecutionMode
	ExecutionOrder ExecutionOrder

	OptimizationLevel  OptimizationLevel
	Precision          Precision
	DisabledPasses     []string
	OptimizedModelPath string
	SpecializedShapes  int // 0: the engine's default; negative: none

	EnableProfiling bool
	ProfilePrefix   string // not empty if EnableProfiling is set

	// FreeDimensions and FreeDimensionsByDenotation have been applied to the [Model],
	// but not to its file.
	FreeDimensions             map[string]int64
	FreeDimensionsByDenotation map[string]int64
	Config                     map[string]string

	// Initializers and ExternalInitializers have been checked: types and shapes are the
	// model's, and no name is in both.
	Initializers         map[string]tensor.Value
	ExternalInitializers map[string]tensor.Value
	PrepackedWeights     *PrepackedWeights
	CustomOperators      []CustomOperator
	// CustomKernels is for native libraries, which cannot pass attributes to Go. It
	// returns a model in which every node with a custom operator has its own operator
	// type in [CustomDomain], and the kernels of these types. It is nil if there are no
	// custom operators.
	CustomKernels func(m *onnx.Model) (*onnx.Model, []CustomKernel, error)

	// Logger receives the log records of the session and adds its LogID. It does not
	// filter by severity, as [Options.Log] does. Nil stands for [slog.Default].
	Logger       *slog.Logger
	LogID        string
	LogSeverity  LogSeverity // LogDefault if neither the session nor the process sets one
	LogVerbosity int

	Deterministic        bool
	DisableMemoryArena   bool
	DisableMemoryPattern bool
	DisableMemoryReuse   bool

	Limits Limits
}

// Log returns the logger of the session. It drops records below LogSeverity.
func (o *Options) Log() *slog.Logger {
	l := o.Logger
	if l == nil {
		l = slog.Default()
	}
	return o.LogSeverity.Filter(l)
}

// RunOptions holds the run options that providers receive.
type RunOptions struct {
	// OnlyPathToFetches skips nodes that the wanted outputs do not depend on.
	OnlyPathToFetches bool
	Seed              uint64
	Tag               string
	LogSeverity       LogSeverity // LogDefault: the session's
	LogVerbosity      int         // 0: the session's
	Config            map[string]string
	// Serial asks for a run in the caller's thread alone. Providers that cannot do so ignore it.
	Serial bool
	// Observe, unless nil, is called after every node by providers with
	// [Traits.Operators]. Other providers get it only if [Options.EnableProfiling] is set
	// and the engine is no [Profiler]; they may call it with names and times alone.
	Observe func(NodeRun)
}

// NodeRun describes one execution of a node.
type NodeRun struct {
	Index    int    // position in the order of execution, counted over all graphs of the run
	Name     string // as in the model, may be empty
	OpType   string
	Domain   string
	InNames  []string // "" for an omitted input or output
	OutNames []string
	In, Out  []tensor.Value // nil for an omitted input or output
	Start    time.Time
	Duration time.Duration
	// Plan is [GeneralPlan], or the input shapes of a specialized plan, with the contents of inputs
	// that decide between branches, as "images=1x3x320x320, rate=16000". It is empty if the engine
	// has one plan for all shapes.
	Plan string
}

// GeneralPlan is the Plan of a [NodeRun] that is not specialized to input shapes.
const GeneralPlan = "general"

// ExecutionMode selects whether independent nodes may run at the same time.
type ExecutionMode int

// The execution modes.
const (
	ExecutionSequential ExecutionMode = iota // one node at a time
	ExecutionParallel                        // independent nodes at the same time
)

// ExecutionOrder selects the order in which a session runs its nodes.
type ExecutionOrder int

// The execution orders. All are topological.
const (
	OrderDefault         ExecutionOrder = iota // the provider's own order
	OrderPriority                              // nodes with a priority first
	OrderMemoryEfficient                       // for training: each node as late as possible
)

// OptimizationLevel selects the graph optimizations. From none over basic and extended
// to all, every level includes the optimizations of the previous one.
type OptimizationLevel int

// The optimization levels. The zero value selects all optimizations, as in ONNX Runtime.
const (
	OptimizeAll      OptimizationLevel = iota // OptimizeExtended, and memory layouts
	OptimizeNone                              // no optimization
	OptimizeBasic                             // constant folding, and removal of unneeded nodes
	OptimizeExtended                          // OptimizeBasic, and operator fusion
)

var levelNames = [...]string{"all", "none", "basic", "extended"}

// String returns the name of the level: "all", "none", "basic" or "extended".
func (l OptimizationLevel) String() string {
	if l >= 0 && int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("OptimizationLevel(%d)", int(l))
}

// MarshalText returns the text of [OptimizationLevel.String].
func (l OptimizationLevel) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText is the inverse of MarshalText. The empty text is the default, all.
func (l *OptimizationLevel) UnmarshalText(text []byte) error {
	i := slices.Index(levelNames[:], string(text))
	if i < 0 && len(text) > 0 {
		return Errorf(CodeInvalidArgument, "unknown optimization level %q, want none, basic, extended or all", text)
	}
	*l = OptimizationLevel(max(i, 0))
	return nil
}

// Precision selects how matrix products and convolutions of float32 may round.
type Precision int

// The precisions.
const (
	PrecisionFloat32  Precision = iota // operands and sums are float32
	PrecisionBFloat16                  // operands may be rounded to bfloat16, sums are float32
)

var precisionNames = [...]string{"float32", "bfloat16"}

// String returns the name of the precision: "float32" or "bfloat16".
func (p Precision) String() string {
	if p >= 0 && int(p) < len(precisionNames) {
		return precisionNames[p]
	}
	return fmt.Sprintf("Precision(%d)", int(p))
}

// MarshalText returns the text of [Precision.String].
func (p Precision) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is the inverse of MarshalText. The empty text is the default, float32.
func (p *Precision) UnmarshalText(text []byte) error {
	i := slices.Index(precisionNames[:], string(text))
	if i < 0 && len(text) > 0 {
		return Errorf(CodeInvalidArgument, "unknown precision %q, want float32 or bfloat16", text)
	}
	*p = Precision(max(i, 0))
	return nil
}

// These entries of [Options.Config] apply to the provider cpu, too.
const (
	// ConfigDisabledPasses names optimizations to skip, separated by semicolons.
	ConfigDisabledPasses = "optimization.disable_specified_optimizers"
	// ConfigAllowSpinning set to "0" lets idle threads sleep at once. By default they
	// spin during a run and shortly after it (on cpu 0.2 ms), so that the next run need
	// not wake them. On cpu, they do so on processors that would be idle otherwise, and
	// under a CPU quota of a container only if the entry is "1".
	ConfigAllowSpinning = "session.intra_op.allow_spinning"
	// ConfigThreadAffinities binds threads to processors, on Linux: "1,2;3-8" binds the second
	// thread of a run to processors 1 and 2 and the third one to 3 to 8. It names processors, from
	// 1, for all threads but the caller's. On machines with several sockets or caches, a session
	// keeps to those that it names. Teams of threads that share a batch are adjacent: with 64
	// threads for 8 cores per last-level cache, "2;3;4;…;64", or "1-8" for the first seven threads,
	// "9-16" for the next eight and so on, keeps a team of 8 in one cache, if the processors are
	// numbered in the order of the caches.
	ConfigThreadAffinities = "session.intra_op_thread_affinities"
	// ConfigSplitFloat32 set to "0" makes cpu multiply matrices of float32 by float32
	// instructions alone. By default it does so by the bfloat16 instructions of AMX where that
	// is faster: on sums of three bfloat16 numbers, which are as accurate.
	ConfigSplitFloat32 = "onward.split_float32"
	// ConfigOptimizedExternalFile names a file for the weights of the optimized model, in
	// its folder.
	ConfigOptimizedExternalFile = "session.optimized_model_external_initializers_file_name"
	// ConfigOptimizedExternalMinimum is the least size in bytes of the weights in that
	// file.
	ConfigOptimizedExternalMinimum = "session.optimized_model_external_initializers_min_size_in_bytes"
)

// Limits bounds the resources that an untrusted model may use. Zero fields select the
// defaults.
type Limits struct {
	// MaxMemory is the largest total size, in bytes, of the intermediate results and
	// outputs of one run, and of the data that is read from the model's files. Mapped files
	// do not count. Default: half of the memory that the machine has, or that the control group
	// of the process is limited to.
	MaxMemory int64
	// Budget bounds the memory of this session's runs and of its model's data together with
	// that of other sessions that have the same budget. Runs of the Go engine count. Default:
	// none.
	Budget *MemoryBudget
	// MaxNodes is the largest number of nodes that inlining functions may add.
	// Default: 250,000 plus four times the number of nodes in the file.
	MaxNodes int
	// MaxDepth is the largest nesting depth of subgraphs and functions. Default: 100.
	MaxDepth int
	// MaxFileSize is the largest size of a model file and of each file of its external data,
	// in bytes. Default: no limit.
	MaxFileSize int64
}
