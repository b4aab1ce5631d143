package backend

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// RunMap runs the model and returns the outputs by name.
func (r *Rep) RunMap(ctx context.Context, in Inputs) (onward.Values, error) {
	out, err := r.Run(ctx, in, nil)
	if err != nil {
		return nil, err
	}
	return out.Map(), nil
}

// NodeTime is the duration of one node of a run.
type NodeTime struct {
	I      int           `json:"i"` // position in the order of execution
	Name   string        `json:"name"`
	OpType string        `json:"op_type"`
	Time   time.Duration `json:"time"` // nanoseconds in JSON
}

// RunTimed runs the model and returns the outputs by name and the duration of each node in
// execution order. With a native library, the run is the first one of a new session that writes
// the library's profile; nodes have the library's names.
func (r *Rep) RunTimed(ctx context.Context, in Inputs) (onward.Values, []NodeTime, error) {
	var times []NodeTime
	if r.Session != nil && !r.reports() {
		out, events, err := r.timed(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		for i, e := range events {
			times = append(times, NodeTime{I: i, Name: e.Name, OpType: e.OpType, Time: e.Duration})
		}
		return out.Map(), times, nil
	}
	out, err := r.Run(ctx, in, &onward.RunOptions{Observe: func(n onward.NodeRun) {
		times = append(times, NodeTime{I: n.Index, Name: n.Name, OpType: n.OpType, Time: n.Duration})
	}})
	if err != nil {
		return nil, nil, err
	}
	return out.Map(), times, nil
}

// Map returns the outputs by name.
func (o *Outputs) Map() onward.Values {
	m := make(onward.Values, len(o.Names))
	for i, n := range o.Names {
		m[n] = o.Values[i]
	}
	return m
}

// NamedValue is a value with its name.
type NamedValue struct {
	Name  string
	Value tensor.Value
}

// Intermediate runs the model and returns all values in execution order: the inputs, then the
// results of each node, also of those in subgraphs and functions. A name occurs more than once
// if a loop computes it repeatedly. All values are in memory at the same time. [CPU] runs an
// optimized graph, in which constants are folded and nodes may be fused; [Reference] runs the
// nodes of the file. A native library returns the results of the main graph, as [Rep.Run] says.
func (r *Rep) Intermediate(ctx context.Context, in Inputs) ([]NamedValue, error) {
	feed, err := r.bind(in)
	if err != nil {
		return nil, err
	}
	var all []NamedValue
	for _, a := range append(r.Session.Inputs(), r.Session.OverridableInitializers()...) {
		if v := feed[a.Name]; v != nil {
			all = append(all, NamedValue{a.Name, v})
		}
	}
	for n, err := range r.Steps(ctx, in) {
		if err != nil {
			return nil, err
		}
		for i, v := range n.Out {
			if v != nil {
				all = append(all, NamedValue{n.OutNames[i], tensor.Clone(v)})
			}
		}
	}
	return all, nil
}

// Steps runs the model and yields each node after it has run. The values are valid until the
// next node runs; [tensor.Clone] copies them. Leaving the loop stops the run. If the run fails,
// the last pair is a zero NodeRun and the error. With a native library the nodes follow after the
// run, without times, as [Rep.Run] says.
func (r *Rep) Steps(ctx context.Context, in Inputs) iter.Seq2[onward.NodeRun, error] {
	return func(yield func(onward.NodeRun, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		left := false
		_, err := r.Run(ctx, in, &onward.RunOptions{Observe: func(n onward.NodeRun) {
			if !left && !yield(n, nil) {
				left = true
				cancel()
			}
		}})
		if err != nil && !left {
			yield(onward.NodeRun{}, err)
		}
	}
}

// The levels of [Rep.RunVerbose]. Each includes the lower ones.
const (
	VerboseNodes   = 1 // a line for each node: operator, inputs, outputs, duration
	VerboseResults = 2 // a line for each result: shape, element type, minimum, maximum
	VerboseInputs  = 3 // a line for each input of a node
)

// RunVerbose runs the model and describes each node with logf, such as log.Printf, at one of the
// levels of verbosity.
func (r *Rep) RunVerbose(ctx context.Context, in Inputs, level int,
	logf func(format string, args ...any)) (*Outputs, error) {
	if level <= 0 || logf == nil {
		return r.Run(ctx, in, nil)
	}
	feed, err := r.bind(in)
	if err != nil {
		return nil, err
	}
	for _, a := range r.Session.Inputs() {
		if v := feed[a.Name]; v != nil && level >= VerboseResults {
			logf("+input %q: %s", a.Name, Summary(v))
		}
	}
	return r.Run(ctx, in, &onward.RunOptions{Observe: func(n onward.NodeRun) {
		op := n.OpType
		if n.Domain != "" {
			op = n.Domain + "." + op
		}
		took := ", " + n.Duration.String()
		if n.Start.IsZero() {
			took = "" // of a native library
		}
		logf("#%d %s(%s) -> %s (name=%q%s)", n.Index, op, strings.Join(n.InNames, ", "), strings.Join(n.OutNames, ", "),
			n.Name, took)
		if level >= VerboseInputs {
			logValues(logf, "  -%q: %s", n.InNames, n.In)
		}
		if level >= VerboseResults {
			logValues(logf, "  +%q: %s", n.OutNames, n.Out)
		}
	}})
}

func logValues(logf func(format string, args ...any), format string, names []string, values []tensor.Value) {
	for i, v := range values {
		if v != nil && i < len(names) {
			logf(format, names[i], Summary(v))
		}
	}
}

// Summary describes a value in one line: its type, and for a tensor its shape, minimum and
// maximum, which are NaN if an element is NaN.
func Summary(v tensor.Value) string {
	switch v := v.(type) {
	case *tensor.Tensor:
		s := fmt.Sprintf("shape=%v dtype=%s", v.Shape(), v.DType())
		if lo, hi, ok := extremes(v); ok {
			s += fmt.Sprintf(" min=%v max=%v", lo, hi)
		}
		return s
	case *tensor.Sequence:
		return fmt.Sprintf("%s of %d items", v.Type(), len(v.Items))
	case *tensor.Map:
		return fmt.Sprintf("%s of %d keys", v.Type(), v.Len())
	case *tensor.Optional:
		if v.Value == nil {
			return v.Type().String() + ", empty"
		}
		return v.Type().String() + ", " + Summary(v.Value)
	case nil:
		return "none"
	}
	return v.Type().String()
}

func extremes(t *tensor.Tensor) (lo, hi float64, ok bool) {
	d := t.DType()
	if t.Len() == 0 || d == tensor.TypeString || d == tensor.TypeComplex64 || d == tensor.TypeComplex128 {
		return 0, 0, false
	}
	x, err := tensor.Float64s(t)
	if err != nil {
		return 0, 0, false
	}
	lo, hi = x[0], x[0]
	for _, v := range x {
		lo, hi = math.Min(lo, v), math.Max(hi, v)
	}
	return lo, hi, true
}
