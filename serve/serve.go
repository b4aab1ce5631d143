// Package serve is a model server: it speaks the Open Inference Protocol v2 of KServe and Triton's
// extensions to it, over REST and gRPC.
//
//	s, err := serve.New(ctx, "models", nil) // models/NAME/VERSION/model.onnx
//	go http.ListenAndServe("127.0.0.1:8000", s.Handler())
//	g := grpc.NewServer(s.GRPCOptions()...)
//	s.Register(g)
//
// docs/serving.md describes the repository, its configuration files and the protocol.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/onward-ml/onward"
)

// Options configures a Server. The zero value and nil select the defaults.
type Options struct {
	// Name is the name in the server's metadata. Default: "onward".
	Name string
	// Models are served besides those of the repository.
	Models []Model
	// Session holds the options of the models' sessions. A configuration can change the
	// provider and the number of threads. Session.Limits.MaxMemory bounds every run: requests
	// that would take more are refused.
	Session onward.SessionOptions
	// MaxBatchSize turns on dynamic batching with this max_batch_size for models without
	// configuration whose inputs and outputs all have the same symbolic dimension 0.
	// Default: such models are not batched.
	MaxBatchSize int
	// MaxBatchTokens bounds the tokens of texts that run together on a model folder. A request with
	// more tokens has several runs, between which other requests have theirs. Default: 2048.
	MaxBatchTokens int
	// MaxQueue is the number of requests that may wait for a model, unless its configuration
	// sets one; more are refused. Default: 1024.
	MaxQueue int
	// TotalMemory bounds the memory of all requests and runs together, in bytes; requests that
	// would take more are refused until others have ended. Runs on native libraries do not
	// count, nor does memory that sessions keep between runs, except the data of the models.
	// Default: half of the machine's.
	TotalMemory int64
	// MaxRuns is the number of runs at the same time, over all models, which share it fairly by
	// time. Default: the number of CPUs that Go uses.
	MaxRuns int
	// Instances is the number of runs of a model at the same time without instance_group in its
	// configuration. Default: 1 for models with batches, and for others the number of CPUs.
	Instances int
	// MaxRequests is the number of inference requests in progress, over all models; more are
	// refused. It bounds the memory of requests, together with MaxBody. Default: 4096.
	MaxRequests int
	// MaxBody is the size of a request in bytes, after decompression. Default: 64 MiB.
	MaxBody int64
	// Timeout is the longest time of an inference request. Default: no limit.
	Timeout time.Duration
	// ReadTimeout is the longest time for a message of gRPC to arrive. HTTPServer has the one for
	// REST. Default: a minute.
	ReadTimeout time.Duration
	// AllowModelControl lets clients load and unload models of the repository, and change the
	// settings of logs and traces.
	AllowModelControl bool
	// AllowSharedMemory lets clients on the same machine put tensors in POSIX shared memory.
	// Clients can then read and write all objects of /dev/shm that the server may open.
	AllowSharedMemory bool
	// KeepGoing makes New succeed even if models fail to load. The server is not ready then.
	KeepGoing bool
	// Hosts are the names that the Host of a request over REST may have, besides localhost and IP
	// addresses; "*" stands for all. It protects a server on loopback from web pages that
	// resolve to it. Default: nil, any name.
	Hosts []string
	// MetricsHosts are the Hosts of MetricsHandler. Default: nil, any name.
	MetricsHosts []string
	// Tokens are the bearer tokens of which requests must carry one. Health requests need
	// none. Default: requests need no token.
	Tokens []string
	// Logger receives log records. Default: that of onward.DefaultLogger.
	Logger *slog.Logger
	// Metrics is where the Prometheus metrics are registered. Default: a registry of the server.
	Metrics *prometheus.Registry
	// Tracer makes a span for every inference request. Default: none.
	Tracer trace.TracerProvider
}

func (o *Options) setDefaults() error {
	for _, x := range []struct {
		name string
		n    int64
	}{{"MaxBatchSize", int64(o.MaxBatchSize)}, {"MaxBatchTokens", int64(o.MaxBatchTokens)},
		{"MaxQueue", int64(o.MaxQueue)}, {"TotalMemory", o.TotalMemory},
		{"MaxRuns", int64(o.MaxRuns)}, {"Instances", int64(o.Instances)}, {"MaxRequests", int64(o.MaxRequests)},
		{"MaxBody", o.MaxBody}, {"Timeout", int64(o.Timeout)}, {"ReadTimeout", int64(o.ReadTimeout)}} {
		if x.n < 0 {
			return fmt.Errorf("serve: option %s must be non-negative, got %d", x.name, x.n)
		}
	}
	o.Name = cmp.Or(o.Name, "onward")
	setDefault(&o.MaxBatchTokens, 2048)
	setDefault(&o.MaxQueue, 1024)
	setDefault(&o.MaxRuns, runtime.GOMAXPROCS(0))
	setDefault(&o.MaxRequests, 4096)
	setDefault(&o.MaxBody, 64<<20)
	setDefault(&o.ReadTimeout, time.Minute)
	if o.Instances > maxInstances {
		return fmt.Errorf("serve: option Instances is %d, want at most %d", o.Instances, maxInstances)
	}
	if o.Logger == nil {
		o.Logger = onward.DefaultLogger()
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if slices.Contains(o.Tokens, "") {
		return errors.New("serve: option Tokens holds an empty token")
	}
	seen := map[string]bool{}
	for _, m := range o.Models {
		if err := checkName(m.Name); err != nil {
			return fmt.Errorf("serve: model: %w", err)
		}
		if seen[m.Name] {
			return fmt.Errorf("serve: two models have the name %q", m.Name)
		}
		seen[m.Name] = true
		if (m.Path == "") == (m.Data == nil) {
			return fmt.Errorf("serve: model %q: want either Path or Data", m.Name)
		}
	}
	return nil
}

func setDefault[T ~int | ~int64](p *T, value T) {
	if *p == 0 {
		*p = value
	}
}

// Server serves the models of a repository. It is safe for concurrent use.
type Server struct {
	repo    string
	opts    Options
	log     *slog.Logger
	metrics *metrics
	tracer  trace.Tracer

	settings settings
	regions  regions
	gate     *gate
	memory   *onward.MemoryBudget
	idle     idleConns

	loading chan struct{}   // of capacity 1, full while models are loaded and unloaded
	closing context.Context // ends loads that clients want
	close   context.CancelFunc
	seen    map[string]string // signatures of the models at the last Poll
	tried   map[string]bool   // models that this Poll or load has tried to load
	stack   []string          // models that are being loaded: each is a step of the ensemble before it

	mu      sync.RWMutex
	models  map[string]*entry
	skipped map[string]bool // entries of the repository that cannot be models

	calls      atomic.Int64 // of gRPC, in progress
	inflated   sync.Map     // *byte, the first of a message whose memory decompressor has reserved
	garbage    atomic.Int64 // bytes that requests have given back since collect ran
	abandoned  atomic.Int64 // those of them that gRPC may still refer to
	pooled     atomic.Int64 // those of them that may be in gRPC's pool of buffers
	hurried    atomic.Int64 // bytes that small reservations have taken without waiting for collect
	collecting sync.Mutex
	active     atomic.Int64 // inference requests in progress
	draining   atomic.Bool
	describing sync.Mutex // held while a response that describes models is made
	listing    sync.Mutex // the same for the index, which reads the repository, maybe slowly
	scraping   sync.Mutex // held while metrics without memory are written
	errors     lastErrors
	retired    sync.WaitGroup // versions that are being closed
}

// New loads the models of a repository, a folder with a folder for each model, and those of
// opts.Models. repo may be "" if opts names models.
func New(ctx context.Context, repo string, opts *Options) (*Server, error) {
	s := &Server{repo: repo, models: map[string]*entry{}, seen: map[string]string{}, loading: make(chan struct{}, 1)}
	if opts != nil {
		s.opts = *opts
	}
	s.closing, s.close = context.WithCancel(context.Background())
	if err := s.opts.setDefaults(); err != nil {
		return nil, err
	}
	s.log = slog.New(newLeveled(s.opts.Logger.Handler(), &s.settings))
	var err error
	if s.metrics, err = newMetrics(s); err != nil {
		return nil, fmt.Errorf("serve: metrics: %w", err)
	}
	if s.opts.Tracer != nil {
		s.settings.tracer = true
		s.tracer = s.opts.Tracer.Tracer("github.com/onward-ml/onward/serve")
	}
	if s.memory = s.opts.Session.Limits.Budget; s.memory == nil {
		s.memory = onward.NewMemoryBudget(s.opts.TotalMemory)
		s.opts.Session.Limits.Budget = s.memory
	}
	s.gate = &gate{free: s.opts.MaxRuns}
	if s.opts.AllowSharedMemory {
		s.regions.folder = sharedMemoryFolder
	}
	found, err := s.list()
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	if len(found) == 0 {
		s.log.Warn("no models to serve: the repository has no MODEL/VERSION/model.onnx, MODEL/model.onnx or "+
			"MODEL.onnx; one that is added is "+
			"found by polling (--poll) "+
			"or when a client loads it (--model-control)", "repository", repo)
	}
	var errs []error
	s.tried = map[string]bool{}
	for _, name := range found {
		if s.tried[name] { // for an ensemble
			continue
		}
		s.changed(name)
		if err := s.loadLocked(ctx, name, nil); err != nil {
			errs = append(errs, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if err := errors.Join(errs...); err != nil && !s.opts.KeepGoing {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Memory returns the budget that TotalMemory bounds.
func (s *Server) Memory() *onward.MemoryBudget { return s.memory }

// Ready reports whether the server takes requests for all its models.
func (s *Server) Ready() bool {
	if s.draining.Load() {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.models {
		if e.wanted && len(e.versions) == 0 {
			return false
		}
	}
	return true
}

// Drain makes the server report that it is not ready, so that load balancers stop sending
// requests. Requests are still served.
func (s *Server) Drain() { s.draining.Store(true) }

// Close ends the loads in progress, waits for the requests in progress and closes the models. Stop
// the HTTP and gRPC servers before.
func (s *Server) Close() error {
	s.Drain()
	s.close()
	s.lock(context.Background()) // never done
	defer s.unlock()
	s.mu.Lock()
	models := s.models
	s.models = map[string]*entry{}
	s.mu.Unlock()
	for _, e := range models {
		for _, v := range e.versions {
			s.retire(v, true)
		}
	}
	s.retired.Wait()
	if s.regions.folder == "" {
		return nil
	}
	return s.regions.unregister("")
}

// admit counts an inference request, or refuses it if there are too many. The caller calls the
// function that it returns at the end of the request.
func (s *Server) admit() (func(), error) {
	if n := s.active.Add(1); n > int64(s.opts.MaxRequests) {
		s.active.Add(-1)
		s.metrics.refused.Inc()
		return nil, errorf(Overloaded, "the server has %d requests in progress, the most that it accepts", n-1)
	}
	return func() { s.active.Add(-1) }, nil
}

// reservation is the memory of one request: its body and what is decoded from it. nil has no limit.
type reservation struct {
	s    *Server
	n    int64
	conn *idleConn // of the connection whose memory this is; nil: of a request
}

// A reservation is small up to 1/smallShare of the memory of all requests. Only small ones take its
// last 1/spareShare, and they take as much between two collections without waiting for the
// collector. New connections and small requests are therefore served while large requests want more
// than there is.
const smallShare, spareShare = 256, 64

// grow reserves more bytes, or refuses the request.
func (r *reservation) grow(n int64) error {
	if r == nil || n == 0 {
		return nil
	}
	limit, small := r.s.memory.Limit(), false
	if limit > 0 {
		small = r.n+n <= limit/smallShare
		switch used := r.s.memory.Used(); {
		case r.n+n > limit:
			return errorf(TooLarge, "the request takes %d bytes or more, and the memory of all requests is %d", r.n+n,
				limit)
		case !small && n > limit-limit/spareShare-used:
			return errorf(Overloaded, "%w: cannot reserve %d bytes: %d of %d are in use, and the last %d are for "+
				"small requests", onward.ErrMemoryBudget, n, used, limit, limit/spareShare)
		}
	}
	if err := r.s.memory.Reserve(n); err != nil {
		return &Error{Overloaded, err}
	}
	if err := r.s.collect(r.conn, n, small); err != nil {
		r.s.memory.Release(n)
		return err
	}
	r.n += n
	return r.conn.count(n)
}

// collect runs the garbage collector if what is reserved fits only into memory that requests have
// given back. It returns an error if gRPC still refers to that memory, or if many others wait for
// the collector. The caller has reserved n bytes and not allocated them yet.
func (s *Server) collect(conn *idleConn, n int64, small bool) error {
	limit := s.memory.Limit()
	full := func(n *atomic.Int64) bool {
		return limit > 0 && s.memory.Used()+n.Load() > limit && n.Load() > limit/64
	}
	if !full(&s.garbage) {
		return nil
	}
	if small {
		for h := s.hurried.Load(); h+n <= limit/spareShare; h = s.hurried.Load() {
			if s.hurried.CompareAndSwap(h, h+n) { // what does not fit must not count for a moment
				return nil
			}
		}
	}
	waited := s.wait(conn)
	if waited == nil {
		return errorf(Overloaded, "the memory of all requests is in use")
	}
	defer waited()
	s.collecting.Lock()
	defer s.collecting.Unlock()
	for wait := time.Millisecond; full(&s.garbage); wait *= 2 {
		given, hurried := s.garbage.Load()-s.abandoned.Load(), s.hurried.Load()
		if s.pooled.Swap(0) > limit/64 {
			runtime.GC() // a sync.Pool keeps for one collection what it has
		}
		debug.FreeOSMemory() // after the collector, so that free memory of other sizes is not resident
		s.garbage.Add(-given)
		if !full(&s.abandoned) {
			s.hurried.Add(-hurried)
			break
		}
		if wait > 16*time.Millisecond {
			return errorf(Overloaded, "the memory of all requests is in use")
		}
		time.Sleep(wait) // for the goroutines of gRPC
	}
	return nil
}

// abandon gives back bytes that are garbage once nothing refers to the call.
func (r *reservation) abandon(c *callState, n int64) {
	s := r.s // not r, which would refer to the call
	s.abandoned.Add(n)
	runtime.AddCleanup(c, func(n int64) { s.abandoned.Add(-n) }, n)
	r.shrink(n)
}

// shrink gives bytes back.
func (r *reservation) shrink(n int64) {
	if r != nil {
		r.n -= n
		r.s.garbage.Add(n) // first, so that it is counted at all times
		r.s.memory.Release(n)
		_ = r.conn.count(-n) // no error: it takes less
	}
}

// become grows or shrinks the reservation to n bytes.
func (r *reservation) become(n int64) error {
	if r == nil {
		return nil
	}
	if n > r.n {
		return r.grow(n - r.n)
	}
	r.shrink(r.n - n)
	return nil
}

func (r *reservation) release() {
	if r != nil {
		r.shrink(r.n)
	}
}

// deadline bounds the time of a request.
func (s *Server) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.opts.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.opts.Timeout)
}
