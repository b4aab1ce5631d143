package onward

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/onward-ml/onward/tensor"
)

// Profile collects what runs do and writes it in ONNX Runtime's form of the trace
// event format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU),
// which trace viewers read: one event of category "Node" for every node and some of
// category "Session". It is safe for concurrent use.
type Profile struct {
	provider string
	begin    time.Time

	mu      sync.Mutex
	events  []traceEvent
	dropped int
}

// maxTraceEvents bounds the memory of a profile; further events are only counted.
// ONNX Runtime's bound is a million.
const maxTraceEvents = 1 << 20

// traceEvent is an event as the file has it. Times are in microseconds.
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

// NewProfile begins a profile now. provider is the name of the engine that runs the
// nodes.
func NewProfile(provider string) *Profile { return &Profile{provider: provider, begin: time.Now()} }

// Start returns when the profile began.
func (p *Profile) Start() time.Time { return p.begin }

// Dropped returns how many events were too many to be kept.
func (p *Profile) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

func (p *Profile) add(cat, name string, start time.Time, d time.Duration, args map[string]any) {
	e := traceEvent{Cat: cat, PID: os.Getpid(), TID: 1, Dur: us(d), TS: us(start.Sub(p.begin)), Ph: "X", Name: name, Args: args}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.events) == maxTraceEvents {
		p.dropped++
		return
	}
	p.events = append(p.events, e)
}

// Node adds a node that has run. It serves as [RunOptions.Observe].
func (p *Profile) Node(n NodeRun) {
	name := n.Name
	if name == "" {
		name = n.OpType + "_" + strconv.Itoa(n.Index)
	}
	p.add("Node", name+"_kernel_time", n.Start, n.Duration, map[string]any{
		"op_name": n.OpType, "domain": n.Domain, "provider": p.provider, "node_index": strconv.Itoa(n.Index),
		"input_type_shape": typeShapes(n.In), "output_type_shape": typeShapes(n.Out),
		"output_size": strconv.FormatInt(sizeOf(n.Out), 10), "inputs": n.InNames, "outputs": n.OutNames,
	})
}

// Session adds an event of the session: "model_run", with its beginning and length.
func (p *Profile) Session(name string, start time.Time, d time.Duration) {
	p.add("Session", name, start, d, map[string]any{})
}

// typeShapes writes values as ONNX Runtime does: [{"float":[1,3,224,224]}].
func typeShapes(values []tensor.Value) []map[string]any {
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

// WriteTo writes the events as a JSON array, one a line.
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

// WriteFile writes the profile to a file, beside it first.
func (p *Profile) WriteFile(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err = p.WriteTo(f); err != nil {
		return err
	}
	const mode = 0o644
	if err = f.Chmod(mode); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// recorder is the profile of a session, until it is ended.
type recorder struct {
	prefix string
	begin  time.Time

	mu sync.Mutex
	p  *Profile // nil once ended
}

func newRecorder(prefix string) *recorder {
	if prefix == "" {
		prefix = "onnxruntime_profile_"
	}
	p := NewProfile("")
	return &recorder{prefix: prefix, begin: p.begin, p: p}
}

// active returns the profile unless it has ended.
func (r *recorder) active(provider string) *Profile {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.p != nil && r.p.provider != provider {
		r.p.mu.Lock()
		r.p.provider = provider
		r.p.mu.Unlock()
	}
	return r.p
}

func (r *recorder) session(name string, start time.Time, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.p != nil {
		r.p.Session(name, start, d)
	}
}

// profiler is an engine that profiles itself.
type profiler interface {
	EndProfiling() (string, error)
	ProfilingStart() (int64, error)
}

// EndProfiling ends what [SessionOptions.EnableProfiling] began and returns the name
// of the file: the prefix, the time, and ".json". It returns "" when the session is
// not profiled, or not any more.
func (s *Session) EndProfiling() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", &StatusError{Code: Fail, Message: "the session is closed"}
	}
	return s.endProfiling()
}

func (s *Session) endProfiling() (string, error) {
	r := s.profile
	if r == nil {
		return "", nil
	}
	r.mu.Lock()
	p := r.p
	r.p = nil
	r.mu.Unlock()
	if p == nil {
		return "", nil
	}
	if e, ok := s.engine.(profiler); ok {
		return e.EndProfiling()
	}
	if n := p.Dropped(); n > 0 {
		s.log.Warn("the profile is not complete", "events_dropped", n)
	}
	name := fmt.Sprintf("%s_%s_%03d.json", r.prefix, r.begin.Format("2006-01-02_15-04-05"), r.begin.Nanosecond()/int(time.Millisecond))
	if err := p.WriteFile(name); err != nil {
		return "", &StatusError{Code: Fail, Message: "the profile cannot be written: " + err.Error(), Err: err}
	}
	return name, nil
}

// ProfilingStart returns when profiling began, in nanoseconds since 1970 for cpu and
// reference, and of a clock of its own for ONNX Runtime; 0 without profiling.
func (s *Session) ProfilingStart() (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.profile == nil || s.closed {
		return 0, nil
	}
	if e, ok := s.engine.(profiler); ok {
		return e.ProfilingStart()
	}
	return s.profile.begin.UnixNano(), nil
}

// watch adds to a run what the session logs and profiles. The function that it
// returns, nil for none, is called when the run has ended.
func (s *Session) watch(ctx context.Context, opts *RunOptions) (*RunOptions, func(error)) {
	prof := s.profile.active(s.provider.Name)
	if _, own := s.engine.(profiler); own {
		prof = nil
	}
	severity := opts.LogSeverity
	if severity == LogDefault {
		severity = s.opts.Severity()
	}
	if prof == nil && severity > LogVerbose {
		return opts, nil
	}
	o := *opts
	start := time.Now()
	var log *slog.Logger
	if severity == LogVerbose {
		so := s.opts
		so.LogSeverity = severity
		log = so.Log()
		if o.Tag != "" {
			log = log.With("run", o.Tag)
		}
		verbosity := o.LogVerbosity
		if verbosity == 0 {
			verbosity = s.opts.LogVerbosity
		}
		if verbosity > 0 {
			o.Observe = both(o.Observe, func(n NodeRun) {
				log.Debug("node", "index", n.Index, "name", n.Name, "op", n.OpType, "out", fmt.Sprint(typeShapes(n.Out)), "duration", n.Duration)
			})
		}
		log.Debug("run begins")
	}
	if prof != nil {
		o.Observe = both(o.Observe, prof.Node)
	}
	return &o, func(err error) {
		d := time.Since(start)
		if prof != nil {
			prof.Session("model_run", start, d)
		}
		switch {
		case log == nil:
		case err != nil:
			log.Debug("run failed", "duration", d, "error", err.Error())
		default:
			log.Debug("run ends", "duration", d)
		}
	}
}

func both(a, b func(NodeRun)) func(NodeRun) {
	if a == nil {
		return b
	}
	return func(n NodeRun) {
		a(n)
		b(n)
	}
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
