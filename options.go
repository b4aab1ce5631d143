package onward

import (
	"time"

	"github.com/onward-ml/onward/tensor"
)

// SessionOptions say how a session runs its model. The zero value and nil stand
// for the defaults: the pure Go engine "cpu" on all cores.
type SessionOptions struct {
	// Providers are tried in order; the first that can run the model does.
	// Default: cpu.
	Providers []ProviderConfig
	// Threads is the number of threads that one run uses. Default: all cores,
	// with workers shared by all sessions of the process.
	Threads int
	// Limits bound what the model and its runs may cost.
	Limits Limits
	// StrictExternalData refuses external data behind symbolic links.
	StrictExternalData bool
	// DisableOptimizations keeps the cpu engine from changing the graph.
	DisableOptimizations bool
}

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

func (l Limits) memory() int64 {
	if l.MaxMemory > 0 {
		return l.MaxMemory
	}
	return defaultMemory()
}

// RunOptions say how one run goes. The zero value and nil stand for the
// defaults.
type RunOptions struct {
	// Outputs names the results that are wanted. Default: all.
	Outputs []string
	// Seed makes random operators without a seed of their own reproducible.
	Seed uint64
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
