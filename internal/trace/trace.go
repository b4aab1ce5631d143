// Package trace records node executions and writes them as events for trace viewers.
package trace

import (
	"encoding/json"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/atomicfile"
	"github.com/onward-ml/onward/tensor"
)

// Profile records events and writes them in ONNX Runtime's form of the trace event
// format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU):
// one event of category "Node" for every node and some of category "Session". It is
// safe for concurrent use.
type Profile struct {
	provider string
	begin    time.Time

	mu      sync.Mutex
	events  []traceEvent
	dropped int
}

// maxTraceEvents bounds the memory of a profile. Further events are only counted. ONNX
// Runtime's bound is a million.
const maxTraceEvents = 1 << 20

// traceEvent is an event in the format of the file. Times are in microseconds.
type traceEvent struct {
	Cat  string         `json:"cat"`
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	Dur  float64        `json:"dur"`
	TS   float64        `json:"ts"`
	Ph   string         `json:"ph"`
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

// New returns a profile that starts now. provider is the name of the provider that runs
// the nodes.
func New(provider string) *Profile { return &Profile{provider: provider, begin: time.Now()} }

// SetProvider sets the provider of the nodes that are added from now on.
func (p *Profile) SetProvider(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.provider = name
}

// Start returns the time at which the profile started.
func (p *Profile) Start() time.Time { return p.begin }

// Dropped returns the number of events that exceeded the bound and were not kept.
func (p *Profile) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

func (p *Profile) add(cat, name string, start time.Time, d time.Duration, args map[string]any) {
	e := traceEvent{Cat: cat, PID: os.Getpid(), TID: 1, Dur: us(d), TS: us(start.Sub(p.begin)), Ph: "X",
		Name: name, Args: args}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.events) == maxTraceEvents {
		p.dropped++
		return
	}
	p.events = append(p.events, e)
}

// Node adds an event for the execution of a node. It can be used as
// [driver.RunOptions.Observe].
func (p *Profile) Node(n driver.NodeRun) {
	name := n.Name
	if name == "" {
		name = n.OpType + "_" + strconv.Itoa(n.Index)
	}
	p.mu.Lock()
	provider := p.provider
	p.mu.Unlock()
	p.add("Node", name+"_kernel_time", n.Start, n.Duration, map[string]any{
		"op_name": n.OpType, "domain": n.Domain, "provider": provider, "node_index": strconv.Itoa(n.Index),
		"input_type_shape": TypeShapes(n.In), "output_type_shape": TypeShapes(n.Out),
		"output_size": strconv.FormatInt(sizeOf(n.Out), 10), "inputs": n.InNames, "outputs": n.OutNames,
	})
}

// Session adds an event of category "Session", such as "model_run".
func (p *Profile) Session(name string, start time.Time, d time.Duration) {
	p.add("Session", name, start, d, map[string]any{})
}

// TypeShapes returns the types and shapes of values in ONNX Runtime's form:
// [{"float":[1,3,224,224]}]. It skips nil values.
func TypeShapes(values []tensor.Value) []map[string]any {
	r := make([]map[string]any, 0, len(values))
	for _, v := range values {
		switch v := v.(type) {
		case nil:
		case *tensor.Tensor:
			r = append(r, map[string]any{v.DType().String(): append([]int{}, v.Shape()...)})
		default:
			r = append(r, map[string]any{v.Type().String(): []int{}})
		}
	}
	return r
}

func sizeOf(values []tensor.Value) (n int64) {
	for _, v := range values {
		if v != nil {
			n += tensor.SizeOf(v)
		}
	}
	return n
}

// WriteTo writes the events as a JSON array, one event per line.
func (p *Profile) WriteTo(w io.Writer) (n int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	write := func(b []byte) {
		if err == nil {
			var k int
			k, err = w.Write(b)
			n += int64(k)
		}
	}
	write([]byte("[\n"))
	for i, e := range p.events {
		line, jerr := json.Marshal(e)
		if jerr != nil {
			return n, jerr
		}
		if i+1 < len(p.events) {
			line = append(line, ',')
		}
		write(append(line, '\n'))
	}
	write([]byte("]\n"))
	return n, err
}

// WriteFile writes the profile to a temporary file and renames it, so that path never
// holds an incomplete profile.
func (p *Profile) WriteFile(path string) error {
	return atomicfile.Write(path, 0o644, func(w io.Writer) error {
		_, err := p.WriteTo(w)
		return err
	})
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
