package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/cputime"
	"github.com/onward-ml/onward/tensor"
)

// network is a model file with a batch, as the dimension "N" of the file, or 0 for the file's own.
type network struct {
	name, file string
	batch      int
}

// open opens a network and makes inputs.
func (n *network) open(ctx context.Context, threads int, limits onward.Limits) (*onward.Session, onward.Values, error) {
	o := &onward.SessionOptions{Threads: threads, Limits: limits}
	if n.batch > 0 {
		o.FreeDimensions = map[string]int64{"N": int64(n.batch)}
	}
	s, err := onward.Open(ctx, n.file, o)
	if err != nil {
		return nil, nil, err
	}
	feed, r := onward.Values{}, rand.New(rand.NewPCG(1, 2))
	for _, a := range s.Inputs() {
		var dims []int
		size := 1
		for _, d := range a.Shape {
			if d.Value < 1 {
				return nil, nil, fmt.Errorf("%s: input %q has a free dimension %q", n.file, a.Name, d)
			}
			dims = append(dims, int(d.Value))
			size *= int(d.Value)
		}
		x := make([]float32, size)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		if feed[a.Name], err = tensor.New(x, dims...); err != nil {
			return nil, nil, err
		}
	}
	return s, feed, nil
}

// openOn is open as on a machine with that many processors.
func (n *network) openOn(ctx context.Context, threads int, limits onward.Limits) (*onward.Session, onward.Values,
	error) {
	was := exec.Processors
	exec.Processors = func() int { return threads }
	defer func() { exec.Processors = was }()
	return n.open(ctx, threads, limits)
}

// parts returns into how many parts the engine divides runs on that many threads; 1 if it does not.
func (n *network) parts(ctx context.Context, threads int) (int, error) {
	s, feed, err := n.openOn(ctx, threads, onward.Limits{})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	parts := 1
	exec.Divided = func(n int) { parts = n }
	exec.Sections = func(_ int, _ ir.Operator, l ir.Launch, _ bool) { l.Kernel(0, l.N) }
	defer func() { exec.Divided, exec.Sections = nil, nil }()
	_, err = s.Run(ctx, feed, nil)
	return parts, err
}

// trace records the sections of a session with that many threads, which run in the caller: in each
// of several runs the same ones, of whose times it keeps the least. Other processes do not extend
// the times of chunks. The runs replay captured launches, as all runs with the same shapes do
// after the first ones.
//
// As many runs follow in which only the chunks of thread 0 run, with data of earlier runs where
// they read what others would write. They time the serial parts between the sections: the weights
// that only other threads read do not replace the session's code and data in the caches of its
// core.
func (n *network) trace(ctx context.Context, threads, runs int) ([]step, error) {
	s, feed, err := n.openOn(ctx, threads, onward.Limits{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r := &recorder{threads: threads, weights: map[int]float64{}}
	exec.Sections = r.section
	defer func() { exec.Sections = nil }()
	var steps []step
	made := map[any]bool{} // memory of inputs and results
	for _, v := range feed {
		made[address(v)] = true
	}
	_, err = s.Run(ctx, feed, &onward.RunOptions{Observe: func(node onward.NodeRun) {
		st := step{op: node.OpType}
		for _, v := range node.Out {
			made[address(v)] = true
		}
		for _, v := range slices.Concat(node.In, node.Out) {
			if t, ok := v.(*tensor.Tensor); ok {
				st.data = append(st.data, data{address(t), float64(len(t.Bytes())), !made[address(t)]})
			}
		}
		steps = append(steps, st)
	}})
	if err != nil {
		return nil, err
	}
	steps = append(steps, step{op: "end of the run", tail: math.Inf(1)})
	r.clock = timerCost()
	end := &steps[len(steps)-1]
	for run := range 2*runs + 3 { // the first ones plan and capture
		if r.alone = run >= runs+3; r.alone && threads == 1 {
			break
		}
		r.run, r.last = r.run[:0], time.Now()
		if _, err := s.Run(ctx, feed, nil); err != nil {
			if r.alone { // an index may be one of another run
				break
			}
			return nil, err
		}
		tail := float64(time.Since(r.last))
		if run < 3 {
			continue
		}
		if run == 3 {
			for _, x := range r.run {
				steps[x.step].sections = append(steps[x.step].sections, x)
			}
		} else if !least(steps, r.run) {
			return nil, fmt.Errorf("%s: the sections of run %d differ from those of the first", n.name, run)
		}
		end.tail = min(end.tail, tail)
	}
	for i, bytes := range r.weights {
		steps[i].data = append(steps[i].data, data{i, bytes, true})
	}
	return steps, nil
}

// address returns where the data of a tensor begin.
func address(v any) any {
	if t, ok := v.(*tensor.Tensor); ok {
		return unsafe.SliceData(t.Bytes())
	}
	return nil
}

// reachable returns the bytes of the slices that a value refers to, without those in seen: the
// weights that an operator has packed.
func reachable(v reflect.Value, seen map[unsafe.Pointer]bool) (n float64) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.UnsafePointer()] || v.Type() == reflect.TypeFor[*ir.Packs]() {
			return 0
		}
		seen[v.UnsafePointer()] = true
		return reachable(v.Elem(), seen)
	case reflect.Interface:
		return reachable(v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			n += reachable(v.Field(i), seen)
		}
	case reflect.Slice:
		if v.Len() == 0 || seen[v.UnsafePointer()] {
			return 0
		}
		seen[v.UnsafePointer()] = true
		n = float64(v.Len()) * float64(v.Type().Elem().Size())
		switch v.Type().Elem().Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Slice:
			for i := range v.Len() {
				n += reachable(v.Index(i), seen)
			}
		}
	}
	return n
}

// recorder records the sections of a run.
type recorder struct {
	threads int
	weights map[int]float64 // bytes that the operator of a step has packed
	clock   float64         // time between two readings of the clocks
	alone   bool            // only the chunks of thread 0 run, and are not timed
	last    time.Time
	run     []section
}

// section runs a section in the caller.
func (r *recorder) section(step int, op ir.Operator, l ir.Launch, joined bool) {
	before := float64(time.Since(r.last))
	if _, ok := r.weights[step]; !ok {
		r.weights[step] = reachable(reflect.ValueOf(op), map[unsafe.Pointer]bool{})
	}
	chunks, used := exec.Chunks(l.N, l.Grain, r.threads)
	if r.threads == 1 { // more are less disturbed
		chunks, _ = exec.Chunks(l.N, l.Grain, 8)
	}
	x := section{step: step, before: before, used: used, joined: joined, chunks: make([]float64, chunks)}
	for t := used - 1; t >= 0; t-- { // chunks of two threads do not follow each other
		for c := t * chunks / used; c < (t+1)*chunks/used; c++ {
			if r.alone {
				x.chunks[c] = math.Inf(1)
				if t == 0 {
					l.Kernel(exec.Cut(l.N, chunks, c), exec.Cut(l.N, chunks, c+1))
				}
				continue
			}
			at := cputime.Now()
			l.Kernel(exec.Cut(l.N, chunks, c), exec.Cut(l.N, chunks, c+1))
			x.chunks[c] = max(0, float64(at.Elapsed())-r.clock)
		}
	}
	if n := len(r.run); joined && n > 0 {
		r.run[n-1].goesOn = true
	}
	r.run = append(r.run, x)
	r.last = time.Now()
}

// least keeps the least of each time of the sections of several runs, and reports whether they are
// the same sections.
func least(steps []step, run []section) bool {
	for i := range steps {
		s := steps[i].sections
		if len(s) > len(run) {
			return false
		}
		for j := range s {
			a, b := &s[j], &run[j]
			if len(a.chunks) != len(b.chunks) {
				return false
			}
			a.before = min(a.before, b.before)
			for c := range a.chunks {
				a.chunks[c] = min(a.chunks[c], b.chunks[c])
			}
		}
		run = run[len(s):]
	}
	return len(run) == 0
}

// timerCost returns the time between two readings of the clocks.
func timerCost() float64 {
	least := math.Inf(1)
	for range 1000 {
		least = min(least, float64(cputime.Now().Elapsed()))
	}
	return least
}
