package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// sequenceCost is about what a sequence takes in memory besides its states.
const sequenceCost = 1 << 10

// maxCorrelationID is the largest length of a correlation ID in bytes, as in Triton.
const maxCorrelationID = 128

// sequences holds the sequences in progress of a stateful model (Triton's sequence batcher): their
// states, and the order of their requests. Requests of one sequence run one after another; those
// of different sequences can form batches.
type sequences struct {
	model    string
	controls []control
	states   []state
	idle     time.Duration // after which a sequence without requests ends

	server *Server       // whose memory the states take; nil: none
	memory *reservation  // of initial states
	slots  chan struct{} // holds an element for each sequence that is started, up to the limit

	mu     sync.Mutex
	live   map[any]*sequence // by correlation ID: uint64 or string
	closed bool
}

// control is an input of the model that the server sets.
type control struct {
	name     string
	kind     inference.ModelSequenceBatching_Control_Kind
	dtype    tensor.DType
	shape    []int
	off, set *tensor.Tensor // not for correlation IDs
}

// state is a value that an output of one request hands to an input of the next.
type state struct {
	input, output string
	initial       *tensor.Tensor
}

// sequence is one sequence. Only the request that holds turn may use state and started.
type sequence struct {
	turn    chan struct{}    // of capacity 1: full while a request runs
	state   []*tensor.Tensor // in the order of sequences.states
	memory  *reservation     // of state, except initial ones; nil has no limit
	started bool             // whether it has a slot

	// These are guarded by sequences.mu.
	users int // requests that run or wait
	ended bool
	last  time.Time // of the end of a request
	timer *time.Timer
}

// member identifies the sequence of a request, and whether the request starts or ends it.
type member struct {
	id         any // correlation ID: uint64 or string; nil if the request has none
	start, end bool
}

// memberOf reads the sequence parameters of a request.
func memberOf(params map[string]any) (m member, err error) {
	switch x := params["sequence_id"].(type) {
	case nil:
	case string:
		if len(x) > maxCorrelationID {
			return m, fmt.Errorf("parameter \"sequence_id\" has %d bytes, want at most %d", len(x), maxCorrelationID)
		}
		if x != "" {
			m.id = x
		}
	default:
		n, err := integer(params, "sequence_id")
		if err != nil {
			return m, err
		}
		if n != 0 {
			m.id = n
		}
	}
	for key, flag := range map[string]*bool{"sequence_start": &m.start, "sequence_end": &m.end} {
		switch x := params[key].(type) {
		case nil:
		case bool:
			*flag = x
		default:
			return m, fmt.Errorf("parameter %q is %s, want a bool", key, shown(x))
		}
	}
	return m, nil
}

// enter waits until it is the turn of a request and adds the control inputs and the states to
// its job. The caller calls the function that it returns with the error of the run.
func (s *sequences) enter(j *job, m member) (leave func(error) error, err error) {
	if m.id == nil {
		return nil, errorf(InvalidArgument,
			"inference request to model '%s' must specify a non-zero or non-empty correlation ID", s.model)
	}
	if j.size != 1 {
		return nil, errorf(InvalidArgument, "inference request to model '%s' must specify batch-size 1 due to "+
			"requirements of sequence batcher, got %d", s.model, j.size)
	}
	for _, c := range s.controls {
		t, err := c.value(m)
		if err != nil {
			return nil, errorf(InvalidArgument, "model '%s': %w", s.model, err)
		}
		j.feed[c.name] = t
	}
	q, err := s.take(j, m)
	if err != nil {
		return nil, err
	}
	if m.start { // also if the sequence has not ended: the client has begun anew
		q.state = make([]*tensor.Tensor, len(s.states))
		for i, x := range s.states {
			q.state[i] = x.initial
		}
		_ = q.memory.become(sequenceCost) // no error: it does not grow
	}
	sent := make(map[string]bool, len(j.outputs))
	for _, name := range j.outputs {
		sent[name] = true
	}
	var key strings.Builder
	key.WriteString(j.key)
	for i, x := range s.states {
		j.feed[x.input] = q.state[i]
		fmt.Fprintf(&key, "%q%v", x.input, q.state[i].Shape())
		if !sent[x.output] {
			j.outputs = append(j.outputs, x.output)
		}
	}
	j.key = key.String()
	return func(err error) error { return s.leave(q, m, j, err) }, nil
}

// take finds or starts a sequence and waits for the turn of the request, and for a slot.
func (s *sequences) take(j *job, m member) (*sequence, error) {
	var expired <-chan time.Time
	if j.timeout > 0 {
		t := time.NewTimer(j.timeout)
		defer t.Stop()
		expired = t.C
	}
	for {
		s.mu.Lock()
		q := s.live[m.id]
		if q == nil {
			if !m.start {
				s.mu.Unlock()
				return nil, s.notStarted(m)
			}
			q = &sequence{turn: make(chan struct{}, 1)}
			if s.server != nil {
				q.memory = &reservation{s: s.server}
				if err := q.memory.grow(sequenceCost); err != nil {
					s.mu.Unlock()
					return nil, err
				}
			}
			s.live[m.id] = q
		}
		q.users++
		s.mu.Unlock()
		select {
		case q.turn <- struct{}{}:
		case <-expired:
			s.idleAfter(q, m.id)
			return nil, errorf(Unavailable, "timeout of inference request has been reached: an earlier request of "+
				"sequence %v to model '%s' is in progress", m.id, s.model)
		case <-j.ctx.Done():
			s.idleAfter(q, m.id)
			return nil, context.Cause(j.ctx)
		}
		s.mu.Lock()
		ended := q.ended
		s.mu.Unlock()
		if ended { // while the request waited: this one is of the next sequence with the ID
			<-q.turn
			continue
		}
		if q.started {
			return q, nil
		}
		if !m.start { // the request that starts the sequence waits for its turn or was cancelled
			<-q.turn
			s.idleAfter(q, m.id)
			return nil, s.notStarted(m)
		}
		if err := s.slot(j, expired); err != nil {
			s.end(q, m.id)
			<-q.turn
			return nil, err
		}
		q.started = true
		return q, nil
	}
}

func (s *sequences) notStarted(m member) error {
	return errorf(InvalidArgument, "inference request for sequence %v to model '%s' must specify the START flag on "+
		"the first request of the sequence", m.id, s.model)
}

// slot waits until fewer sequences than the limit are in progress.
func (s *sequences) slot(j *job, expired <-chan time.Time) error {
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-expired:
		return errorf(Unavailable,
			"timeout of inference request has been reached: %d sequences are in progress, the most of model '%s'",
			cap(s.slots), s.model)
	case <-j.ctx.Done():
		return context.Cause(j.ctx)
	}
}

// leave stores the states of a run, which ended with err, and gives the turn to the next request.
// It returns an error if there is no memory for the states.
func (s *sequences) leave(q *sequence, m member, j *job, err error) error {
	if err == nil && !m.end {
		err = s.store(q, j)
	}
	if m.end {
		s.end(q, m.id)
	}
	s.idleAfter(q, m.id)
	<-q.turn
	return err
}

// store stores the states of a run. If it fails, the sequence goes on with the states before.
func (s *sequences) store(q *sequence, j *job) error {
	state := slices.Clone(q.state)
	n := int64(0)
	for i, x := range s.states {
		if t, ok := j.out[x.output].(*tensor.Tensor); ok {
			state[i] = t
		}
		if state[i] != x.initial {
			n += tensorSize(state[i]) + tensorCost
		}
	}
	if err := q.memory.become(sequenceCost + n); err != nil {
		return err
	}
	for i := range state {
		if state[i] != q.state[i] && j.batch != j.size { // a row must not keep its batch in memory
			state[i] = state[i].Clone()
		}
	}
	q.state = state
	return nil
}

// end removes a sequence from the table and frees its slot.
func (s *sequences) end(q *sequence, id any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(q, id)
}

func (s *sequences) endLocked(q *sequence, id any) {
	if q.ended {
		return
	}
	q.ended = true
	if q.timer != nil {
		q.timer.Stop()
	}
	delete(s.live, id)
	q.memory.release()
	if q.started {
		<-s.slots
	}
}

// idleAfter records that a request has ended, and ends its sequence if no other
// request arrives within s.idle.
func (s *sequences) idleAfter(q *sequence, id any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.users--
	q.last = time.Now()
	switch {
	case q.ended || q.users > 0:
	case s.closed:
		s.endLocked(q, id)
	case q.timer != nil:
		q.timer.Reset(s.idle)
	default:
		q.timer = time.AfterFunc(s.idle, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if q.users == 0 && time.Since(q.last) >= s.idle {
				s.endLocked(q, id)
			}
		})
	}
}

// close ends all sequences. No request may be in progress.
func (s *sequences) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for id, q := range s.live {
		s.endLocked(q, id)
	}
	s.memory.release()
}

// active returns the number of sequences in progress, including those that wait for a slot.
func (s *sequences) active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

// value returns the tensor of a control input for a request.
func (c *control) value(m member) (*tensor.Tensor, error) {
	set := true // READY: every row of a batch belongs to a request
	switch c.kind {
	case inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID:
		return c.correlation(m.id)
	case inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_START:
		set = m.start
	case inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_END:
		set = m.end
	}
	if set {
		return c.set, nil
	}
	return c.off, nil
}

// correlation returns a correlation ID as a tensor.
func (c *control) correlation(id any) (*tensor.Tensor, error) {
	if text, ok := id.(string); ok {
		if c.dtype != tensor.TypeString {
			return nil, fmt.Errorf("correlation ID is the string %.64q, but input %q of the model takes %s", text,
				c.name, datatypeName(c.dtype))
		}
		return tensor.New([]string{text}, c.shape...)
	}
	n := id.(uint64)
	fits := true
	var t *tensor.Tensor
	var err error
	switch c.dtype {
	case tensor.TypeUint64:
		t, err = tensor.New([]uint64{n}, c.shape...)
	case tensor.TypeInt64:
		fits = int64(n) >= 0
		t, err = tensor.New([]int64{int64(n)}, c.shape...)
	case tensor.TypeUint32:
		fits = uint64(uint32(n)) == n
		t, err = tensor.New([]uint32{uint32(n)}, c.shape...)
	case tensor.TypeInt32:
		fits = n>>31 == 0
		t, err = tensor.New([]int32{int32(n)}, c.shape...)
	default:
		return nil, fmt.Errorf("correlation ID is the number %d, but input %q of the model takes strings", n, c.name)
	}
	if !fits {
		return nil, fmt.Errorf("correlation ID %d does not fit %s, the type of input %q of the model", n,
			datatypeName(c.dtype), c.name)
	}
	return t, err
}
