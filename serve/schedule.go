package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
	"github.com/onward-ml/onward/tokenizer"
)

// A runner runs a model. It is a *onward.Session outside of tests.
type runner interface {
	Run(context.Context, onward.Values, *onward.RunOptions) (onward.Values, error)
	Close() error
}

// queuePolicy bounds the queue of one priority level.
type queuePolicy struct {
	timeout  time.Duration // longest time in the queue; 0: no limit
	override bool          // whether requests may set a shorter timeout
	delay    bool          // whether requests past the timeout run after all others, instead of being refused
	max      int           // largest number of waiting requests; 0: no limit
}

// schedulePolicy configures a scheduler.
type schedulePolicy struct {
	instances int           // runs at the same time, at least 1
	maxBatch  int           // largest cost of a batch; requests are not batched if it is below 2
	preferred []int         // sizes that run at once, ascending
	enough    int           // smallest size that runs without delay; 0: maxBatch
	delay     time.Duration // longest wait for more requests
	priority  int           // level of requests that set none, from 0
	levels    []queuePolicy // one for each priority level, highest priority first
}

// job is a request in the scheduler.
type job struct {
	ctx     context.Context
	feed    onward.Values
	outputs []string              // names of the wanted outputs
	texts   []*tokenizer.Encoding // of a model folder, in place of feed
	options textOptions
	results []textResult // in place of out
	size    int          // dimension 0 of the inputs, or texts; 1 if the model has no batch dimension
	cost    int          // what maxBatch bounds the sum of: the size, or tokens
	key     string       // equal for requests that can form a batch
	level   int
	timeout time.Duration // wanted by the request; 0: that of the policy

	queued, started, inputDone, inferDone, finished time.Time
	executions                                      int // runs of the model that this job has led
	batch                                           int // dimension 0 of the run that this job was part of
	taken                                           bool
	kept                                            []*outputs  // memory of out; of an ensemble, of all its steps
	settled                                         atomic.Bool // see settle
	done                                            chan struct{}
	out                                             onward.Values
	err                                             error
}

// scheduler queues the requests of a model version and runs them in batches.
//
// A request runs in the goroutine that submits it if an instance is free, because waking
// another goroutine can take longer than a small model.
type scheduler struct {
	policy  schedulePolicy
	run     runner
	texts   *textModel // nil: jobs have tensors
	server  *Server    // whose memory the outputs take; nil: none
	threads threads
	gate    *gate // shared by all models; nil: none
	share   share // of the gate

	mu     sync.Mutex
	free   int      // instances that run nothing
	queues [][]*job // by level; the last holds the jobs that are past a timeout with action DELAY
	timer  *time.Timer
}

func newScheduler(p schedulePolicy, run runner) *scheduler {
	s := &scheduler{policy: p, run: run, threads: threads{now: time.Now}, free: p.instances,
		queues: make([][]*job, len(p.levels)+1)}
	s.share.wake = s.wake
	return s
}

// wake starts the batches that the gate lets run.
func (s *scheduler) wake() {
	s.mu.Lock()
	for {
		batch := s.next()
		if batch == nil {
			break
		}
		go s.loop(batch)
	}
	s.mu.Unlock()
	s.gate.decline(&s.share)
}

// pending returns the number of requests in the queue.
func (s *scheduler) pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, q := range s.queues {
		n += len(q)
	}
	return n
}

// submit queues a job, waits for its results and stores them in the job.
func (s *scheduler) submit(j *job) error {
	policy := s.policy.levels[j.level]
	timeout := policy.timeout
	if policy.override && j.timeout > 0 && (timeout == 0 || j.timeout < timeout) {
		timeout = j.timeout
	}
	j.done = make(chan struct{})
	j.cost = cmp.Or(j.cost, j.size)
	j.queued = time.Now()
	s.mu.Lock()
	if n := len(s.queues[j.level]); policy.max > 0 && n >= policy.max {
		s.mu.Unlock()
		return errorf(Overloaded, "exceeds maximum queue size: %d requests are waiting", n)
	}
	s.queues[j.level] = append(s.queues[j.level], j)
	batch := s.next()
	s.mu.Unlock()
	switch {
	case slices.Contains(batch, j):
		s.timed(batch)
		s.release()
		return j.err
	case batch != nil:
		go s.loop(batch)
	}
	var expired <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	for {
		select {
		case <-j.done:
			return j.err
		case <-j.ctx.Done():
			if !s.remove(j) {
				j.settle()
			}
			return context.Cause(j.ctx)
		case <-expired:
			expired = nil
			if !s.remove(j) {
				continue
			}
			if !policy.delay {
				return errorf(Unavailable, "Request timeout expired: it waited %s in the queue", timeout)
			}
			s.mu.Lock()
			last := len(s.queues) - 1
			s.queues[last] = append(s.queues[last], j)
			if batch := s.next(); batch != nil {
				go s.loop(batch)
			}
			s.mu.Unlock()
		}
	}
}

// remove takes a waiting job out of the queue. It reports false if the job has been taken to run.
func (s *scheduler) remove(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.taken {
		return false
	}
	for l, q := range s.queues {
		if i := slices.Index(q, j); i >= 0 {
			s.queues[l] = slices.Delete(q, i, i+1)
		}
	}
	// The next jobs may form a batch now that this one is not between them.
	if batch := s.next(); batch != nil {
		go s.loop(batch)
	}
	return true
}

// release gives an instance back and starts the next batch.
func (s *scheduler) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if batch := s.next(); batch != nil {
		go s.loop(batch)
	}
}

// loop runs batches while there are any.
func (s *scheduler) loop(batch []*job) {
	for batch != nil {
		s.timed(batch)
		s.mu.Lock()
		s.free++
		batch = s.next()
		s.mu.Unlock()
	}
}

// timed runs a batch and then frees its run at the gate.
func (s *scheduler) timed(batch []*job) {
	start := time.Now()
	s.execute(batch)
	s.gate.give(&s.share, time.Since(start))
}

// next takes the next batch from the queues, and an instance for it. It returns nil if no
// batch can run now. s.mu is held.
func (s *scheduler) next() []*job {
	if s.free == 0 {
		return nil
	}
	for l, q := range s.queues {
		if len(q) == 0 {
			continue
		}
		n, wait := s.cut(q)
		if n == 0 {
			if s.timer != nil {
				s.timer.Stop()
			}
			s.timer = time.AfterFunc(wait, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if batch := s.next(); batch != nil {
					go s.loop(batch)
				}
			})
			continue // a lower level may have a complete batch
		}
		if !s.gate.take(&s.share) {
			return nil
		}
		batch := slices.Clone(q[:n])
		s.queues[l] = slices.Delete(q, 0, n)
		for _, j := range batch {
			j.taken = true
		}
		s.free--
		return batch
	}
	return nil
}

// cut returns how many jobs of a queue run now as a batch, or 0 and how long to wait.
func (s *scheduler) cut(q []*job) (n int, wait time.Duration) {
	if s.policy.maxBatch < 2 {
		return 1, 0
	}
	total, complete := 0, false
	preferred := 0
	for i, j := range q {
		if i > 0 && (j.key != q[0].key || total+j.cost > s.policy.maxBatch) {
			complete = true
			break
		}
		total += j.cost
		n = i + 1
		if slices.Contains(s.policy.preferred, total) {
			preferred = n
		}
	}
	if preferred > 0 {
		return preferred, 0
	}
	if complete || total >= cmp.Or(s.policy.enough, s.policy.maxBatch) || s.policy.delay == 0 {
		return n, 0
	}
	if wait = s.policy.delay - time.Since(q[0].queued); wait <= 0 {
		return n, 0
	}
	return 0, wait
}

// execute runs a batch and completes its jobs. A panic fails the jobs and not the server.
func (s *scheduler) execute(batch []*job) {
	defer func() {
		for _, j := range batch {
			if j.finished.IsZero() {
				j.finished = time.Now()
			}
			j.settle()
			close(j.done)
		}
	}()
	start := time.Now()
	live := make([]*job, 0, len(batch))
	for _, j := range batch {
		j.started = start
		if j.err = context.Cause(j.ctx); j.err == nil {
			live = append(live, j)
		}
	}
	if len(live) > 1 && s.runBatch(live) {
		return
	}
	// A batch that fails runs again request by request, so that only the bad one fails.
	for _, j := range live {
		s.runOne(j)
	}
}

func (s *scheduler) runOne(j *job) {
	j.inputDone = time.Now()
	j.executions++
	j.batch = j.size
	if s.texts != nil {
		j.err = s.runTexts(j.ctx, []*job{j})
	} else {
		if j.out, j.err = s.guard(j.ctx, j.feed, j.outputs); j.err == nil {
			j.err = s.keep(j.out, j)
		}
	}
	j.inferDone = time.Now()
	j.finished = j.inferDone
}

func (s *scheduler) guard(ctx context.Context, feed onward.Values, outputs []string) (out onward.Values, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errorf(Internal, "the run panicked: %v", r)
		}
	}()
	err = s.threads.run(feed, func(serial bool) error {
		out, err = s.run.Run(ctx, feed, &onward.RunOptions{Outputs: outputs, OnlyPathToFetches: true, Serial: serial})
		return err
	})
	return out, err
}

// runBatch runs jobs as one batch. It reports false if the jobs must run one by one.
func (s *scheduler) runBatch(jobs []*job) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	waiting := len(jobs)
	total := 0
	var outputs []string
	seen := map[string]bool{}
	for _, j := range jobs {
		// The run stops when the last client has gone.
		stop := context.AfterFunc(j.ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if waiting--; waiting == 0 {
				cancel()
			}
		})
		defer stop()
		total += j.size
		for _, o := range j.outputs {
			if !seen[o] {
				seen[o] = true
				outputs = append(outputs, o)
			}
		}
	}
	inputDone, inferDone := time.Now(), time.Time{}
	var err error
	if s.texts != nil {
		err = s.runTexts(ctx, jobs)
		inferDone = time.Now()
	} else {
		inputDone, inferDone, err = s.runTensors(ctx, jobs, outputs, total)
	}
	if errors.Is(err, context.Canceled) {
		for _, j := range jobs {
			j.err = context.Cause(j.ctx)
		}
		return true
	}
	if err != nil {
		return false
	}
	jobs[0].executions++
	for _, j := range jobs {
		j.batch = total
		j.inputDone, j.inferDone, j.finished = inputDone, inferDone, time.Now()
	}
	return true
}

// runTensors runs jobs as one batch of total items. It returns when the inputs were joined, and
// when the run ended.
func (s *scheduler) runTensors(ctx context.Context, jobs []*job, outputs []string,
	total int) (inputDone, inferDone time.Time, err error) {
	var memory reservation
	if s.server != nil {
		memory.s = s.server
		defer memory.release()
	}
	feed := onward.Values{}
	for name := range jobs[0].feed {
		if s.server != nil {
			for _, j := range jobs {
				if t, ok := j.feed[name].(*tensor.Tensor); ok {
					if err := memory.grow(tensorSize(t)); err != nil {
						return inputDone, inferDone, err
					}
				}
			}
		}
		t, err := concat(jobs, name)
		if err != nil {
			return inputDone, inferDone, err
		}
		feed[name] = t
	}
	inputDone = time.Now()
	out, err := s.guard(ctx, feed, outputs)
	inferDone = time.Now()
	if err != nil {
		return inputDone, inferDone, err
	}
	start := 0
	for _, j := range jobs {
		j.out = onward.Values{}
		for _, name := range j.outputs {
			t, ok := out[name].(*tensor.Tensor)
			if !ok || t.Rank() == 0 || t.Dim(0) != total {
				return inputDone, inferDone, fmt.Errorf("output %s has no batch dimension", quote(name))
			}
			part, err := rows(t, start, j.size)
			if err != nil {
				return inputDone, inferDone, err
			}
			j.out[name] = part
		}
		start += j.size
	}
	return inputDone, inferDone, s.keep(out, jobs...)
}

// runTexts runs the texts of jobs together.
func (s *scheduler) runTexts(ctx context.Context, jobs []*job) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errorf(Internal, "the run panicked: %v", r)
		}
	}()
	all := jobs[0].texts
	for _, j := range jobs[1:] {
		all = append(all[:len(all):len(all)], j.texts...)
	}
	results, err := s.texts.run(ctx, all, jobs[0].options)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		j.results, results = results[:len(j.texts)], results[len(j.texts):]
	}
	return nil
}

// concat joins an input of several jobs along dimension 0.
func concat(jobs []*job, name string) (*tensor.Tensor, error) {
	first, ok := jobs[0].feed[name].(*tensor.Tensor)
	if !ok {
		return nil, fmt.Errorf("input %q is no tensor", name)
	}
	shape := slices.Clone(first.Shape())
	shape[0] = 0
	size := 0
	for _, j := range jobs {
		t, ok := j.feed[name].(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("input %q is missing", name)
		}
		shape[0] += t.Dim(0)
		if size > math.MaxInt-len(t.Bytes()) {
			return nil, fmt.Errorf("input %q is too large", name)
		}
		size += len(t.Bytes())
	}
	if first.DType() == tensor.TypeString {
		var all []string
		for _, j := range jobs {
			all = append(all, tensor.MustData[string](j.feed[name].(*tensor.Tensor))...)
		}
		return tensor.New(all, shape...)
	}
	b := alignedBytes(size)
	at := 0
	for _, j := range jobs {
		at += copy(b[at:], j.feed[name].(*tensor.Tensor).Bytes())
	}
	return tensor.FromBytes(first.DType(), b, shape...)
}

// rows returns n items of dimension 0, which alias the tensor.
func rows(t *tensor.Tensor, start, n int) (*tensor.Tensor, error) {
	shape := slices.Clone(t.Shape())
	row := 0
	if shape[0] > 0 {
		row = t.Len() / shape[0]
	}
	shape[0] = n
	if t.DType() == tensor.TypeString {
		return tensor.New(tensor.MustData[string](t)[start*row:(start+n)*row], shape...)
	}
	width := row * t.DType().Size()
	return tensor.FromBytes(t.DType(), t.Bytes()[start*width:(start+n)*width], shape...)
}
