package onward

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/trace"
)

// defaultProfilePrefix is the default of ONNX Runtime.
const defaultProfilePrefix = "onnxruntime_profile_"

// recorder holds the profile of a session until profiling ends.
type recorder struct {
	prefix string
	begin  time.Time

	mu   sync.Mutex
	p    *trace.Profile // nil once ended
	runs sync.WaitGroup // runs that p records
}

func newRecorder(prefix string) *recorder {
	p := trace.New("")
	return &recorder{prefix: prefix, begin: p.Start(), p: p}
}

// active sets the provider of the nodes that follow and returns the profile, for a run that
// ends with runs.Done. It returns nil if profiling is off or has ended.
func (r *recorder) active(provider string) *trace.Profile {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.p != nil {
		r.runs.Add(1)
		r.p.SetProvider(provider)
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

// EndProfiling ends the profiling that [SessionOptions.EnableProfiling] started, writes
// the profile and returns the name of its file: the prefix, the time and ".json". It
// returns "" if profiling is off or has ended.
func (s *Session) EndProfiling() (string, error) {
	c, err := s.use()
	if err != nil {
		return "", err
	}
	defer c.release()
	return s.endProfiling(c)
}

func (s *Session) endProfiling(c *compiled) (string, error) {
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
	r.runs.Wait()
	if e, ok := c.engine.(driver.Profiler); ok {
		return e.EndProfiling()
	}
	if n := p.Dropped(); n > 0 {
		s.log.Warn("the profile is incomplete", "events_dropped", n)
	}
	name := fmt.Sprintf("%s_%s_%03d.json", r.prefix, r.begin.Format("2006-01-02_15-04-05"),
		r.begin.Nanosecond()/int(time.Millisecond))
	if err := p.WriteFile(name); err != nil {
		return "", &StatusError{Code: CodeFail, Message: "the profile cannot be written: " + err.Error(), Err: err}
	}
	return name, nil
}

// ProfilingStart returns the time at which profiling started, in nanoseconds: since 1970
// for cpu and reference, and on ONNX Runtime's own clock for its providers. It returns 0
// if profiling is off.
func (s *Session) ProfilingStart() (int64, error) {
	c, err := s.use()
	if s.profile == nil || err != nil {
		return 0, nil
	}
	defer c.release()
	if e, ok := c.engine.(driver.Profiler); ok {
		return e.ProfilingStart()
	}
	return s.profile.begin.UnixNano(), nil
}

// watch sets up logging and profiling of a run. The caller calls the function that it
// returns with the error of the run; it is nil if the run is neither logged nor profiled.
func (c *compiled) watch(ctx context.Context, o *driver.RunOptions) func(error) {
	s := c.session
	prof := s.profile.active(c.provider.Name)
	if prof != nil {
		if _, own := c.engine.(driver.Profiler); own {
			prof = nil
			s.profile.runs.Done()
		}
	}
	severity := cmp.Or(o.LogSeverity, s.opts.severity(), LogWarning)
	if prof == nil && severity > LogVerbose {
		return nil
	}
	start := time.Now()
	var log *slog.Logger
	if severity == LogVerbose {
		log = severity.Filter(s.options.Logger)
		if o.Tag != "" {
			log = log.With("run", o.Tag)
		}
		if cmp.Or(o.LogVerbosity, s.opts.LogVerbosity) > 0 {
			o.Observe = both(o.Observe, func(n NodeRun) {
				log.Debug("node", "index", n.Index, "name", n.Name, "op", n.OpType, "out",
					fmt.Sprint(trace.TypeShapes(n.Out)), "duration", n.Duration)
			})
		}
		log.Debug("run begins")
	}
	if prof != nil {
		o.Observe = both(o.Observe, prof.Node)
	}
	return func(err error) {
		d := time.Since(start)
		if prof != nil {
			prof.Session("model_run", start, d)
			s.profile.runs.Done()
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

// both returns a function that calls a and b; a may be nil.
func both(a, b func(NodeRun)) func(NodeRun) {
	if a == nil {
		return b
	}
	return func(n NodeRun) {
		a(n)
		b(n)
	}
}
