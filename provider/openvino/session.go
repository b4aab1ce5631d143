package openvino

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/internal/native"
	"github.com/onward-ml/onward/tensor"
)

// session is an ov_compiled_model_t with a queue of inference requests. Each run waits for
// a free request.
type session struct {
	lib      *library
	compiled uintptr
	in       []onward.NodeArg // inputs, then overridable initializers
	inputs   int              // number of inputs without the initializers
	out      []onward.NodeArg
	inPorts  []port
	outPorts []port
	inIndex  []int // input index of each port
	outIndex []int // output index of each port

	profiled bool // compiled to count the time of nodes

	queue chan *state // free requests
	made  int         // number of requests
}

// state is an ov_infer_request_t with the scratch memory of its run. It is on the heap
// because C writes to it.
type state struct {
	request uintptr
	dims    []int64
	shape   shape
	res     uintptr
	i32     int32

	// A request keeps its output tensors between runs. An output that the next run does not
	// want must not be written to the caller's tensor, so a spare tensor replaces it.
	given []bool           // the port has a tensor of the caller
	spare []*tensor.Tensor // nil until needed

	strings []uintptr // tensors of strings, which the request does not keep alive
}

func (st *state) setShape(dims []int) {
	st.dims = append(st.dims[:0], 0) // allocates: C needs an address even for a scalar
	st.dims = st.dims[:0]
	for _, d := range dims {
		st.dims = append(st.dims, int64(d))
	}
	st.shape = shape{rank: int64(len(dims)), dims: uintptr(unsafe.Pointer(unsafe.SliceData(st.dims)))}
}

func (r *library) newSession(path string, m *onnx.Model, o *settings) (_ *session, err error) {
	d, err := onward.Describe(m)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(onlyTensors("input", d.Inputs), onlyTensors("output", d.Outputs)); err != nil {
		return nil, err
	}
	r.loading.Lock()
	defer r.loading.Unlock()
	types, err := r.elements()
	if err != nil {
		return nil, err
	}
	s := &session{lib: r, profiled: o.properties[perfCount] == "YES",
		in: slices.Concat(d.Inputs, d.OverridableInitializers), inputs: len(d.Inputs), out: d.Outputs}
	model, err := r.read(path, m)
	if err != nil {
		return nil, err
	}
	defer r.free(fnModelFree, model)
	if s.inPorts, err = r.ports(fnModelInputs, fnModelInput, model); err != nil {
		return nil, err
	}
	if s.inIndex, err = types.match("input", s.inPorts, d.Inputs); err != nil {
		return nil, err
	}
	if len(o.fixed) > 0 {
		if err := r.reshape(model, s.inIndex, d.Inputs, o.fixed); err != nil {
			return nil, err
		}
		if s.inPorts, err = r.ports(fnModelInputs, fnModelInput, model); err != nil {
			return nil, err
		}
	}
	if s.outPorts, err = r.ports(fnModelOutputs, fnModelOutput, model); err != nil {
		return nil, err
	}
	if s.outIndex, err = types.match("output", s.outPorts, s.out); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(o.properties))
	values := make([]string, len(names))
	for i, n := range names {
		values[i] = o.properties[n]
	}
	if s.compiled, err = r.compile(model, o.device, names, values); err != nil {
		return nil, err
	}
	if err := s.separate(); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.createRequests(cmp.Or(o.requests, s.optimal())); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// createRequests creates the n requests that runs share. All are created before the first
// run: creating a request while another infers with dynamic shapes reads a graph that is
// being changed, and has crashed the process.
func (s *session) createRequests(n int) error {
	s.queue = make(chan *state, n)
	for range n {
		st := &state{given: make([]bool, len(s.outPorts)), spare: make([]*tensor.Tensor, len(s.outPorts))}
		if err := s.lib.do(fnCreateRequest, s.compiled, uintptr(unsafe.Pointer(&st.request))); err != nil {
			return fmt.Errorf("create inference request %d of %d: %w", s.made+1, n, err)
		}
		s.queue <- st
		s.made++
	}
	return nil
}

// separate marks the outputs that share a tensor with an input or another output to be
// copied, because binding one would replace the other. Ports that share a tensor have the
// same name in the compiled model.
func (s *session) separate() error {
	count := map[string]int{}
	names := make([]string, len(s.outPorts))
	for i := range s.inPorts {
		p, err := s.lib.port(fnCompiledInput, s.compiled, i)
		if err != nil {
			return err
		}
		count[p.name]++
	}
	for k := range s.outPorts {
		p, err := s.lib.port(fnCompiledOutput, s.compiled, k)
		if err != nil {
			return err
		}
		names[k] = p.name
		count[p.name]++
	}
	for k, name := range names {
		if count[name] > 1 {
			s.outPorts[k].shape = nil
		}
	}
	return nil
}

// optimal returns the number of concurrent requests that OpenVINO recommends, 1 if unknown.
func (s *session) optimal() int {
	var p uintptr
	key := []byte("OPTIMAL_NUMBER_OF_INFER_REQUESTS\x00")
	if err := s.lib.do(fnCompiledGetProperty, s.compiled, uintptr(unsafe.Pointer(&key[0])),
		uintptr(unsafe.Pointer(&p))); err != nil {
		return 1
	}
	n, err := strconv.Atoi(s.lib.text(p))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// Close frees the requests and the compiled model. No Run may be active.
func (s *session) Close() error {
	for range s.made {
		st := <-s.queue
		s.lib.free(fnRequestFree, st.request)
		s.lib.freeAll(fnTensorFree, st.strings)
	}
	s.made = 0
	s.lib.free(fnCompiledFree, s.compiled)
	s.compiled = 0
	return nil
}

// Run computes the outputs. Input tensors are not copied. OpenVINO writes outputs with a
// fixed shape directly to the result. Other outputs are copied from its memory, to the
// given tensor if type and shape match.
func (s *session) Run(ctx context.Context, req *driver.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := s.inputs; i < len(req.In); i++ {
		if req.In[i] != nil {
			return notImplemented("initializer %s cannot be overridden: OpenVINO makes constants of initializers",
				s.in[i].Name)
		}
	}
	var st *state
	select {
	case st = <-s.queue:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.queue <- st }()
	if err := s.bind(st, req); err != nil {
		return err
	}
	start := time.Now()
	err := s.infer(ctx, st)
	runtime.KeepAlive(req) // OpenVINO's tensors share their memory
	if err == nil && s.profiled && req.Options.Observe != nil {
		err = s.observe(st, start, req.Options.Observe)
	}
	if err != nil {
		return err
	}
	for k, i := range s.outIndex {
		if req.Wanted != nil && !req.Wanted[i] || st.given[k] {
			continue
		}
		var h uintptr
		if err := s.lib.do(fnGetOutput, st.request, uintptr(k), uintptr(unsafe.Pointer(&h))); err != nil {
			return fmt.Errorf("output %s: %w", s.out[i].Name, err)
		}
		given, _ := req.Out[i].(*tensor.Tensor)
		t, err := s.lib.result(st, h, given)
		s.lib.free(fnTensorFree, h)
		if err != nil {
			return fmt.Errorf("output %s: %w", s.out[i].Name, err)
		}
		req.Out[i] = t
	}
	return nil
}

// bind sets the request's inputs and its outputs with a fixed shape.
func (s *session) bind(st *state, req *driver.Request) error {
	defer func(old []uintptr) { s.lib.freeAll(fnTensorFree, old) }(st.strings)
	st.strings = nil
	for k, i := range s.inIndex {
		t, ok := req.In[i].(*tensor.Tensor)
		if !ok {
			return native.Invalid("input %s is missing: OpenVINO has no optional inputs", s.in[i].Name)
		}
		if err := s.set(st, fnSetInput, k, t, s.inPorts[k].elem); err != nil {
			return fmt.Errorf("input %s: %w", s.in[i].Name, err)
		}
	}
	types, err := s.lib.elements()
	if err != nil {
		return err
	}
	for k, i := range s.outIndex {
		p := &s.outPorts[k]
		d, known := types.dtype[p.elem]
		if !known || p.shape == nil {
			continue
		}
		t := st.spare[k]
		if req.Wanted == nil || req.Wanted[i] {
			if t, _ = req.Out[i].(*tensor.Tensor); t == nil || t.DType() != d || !slices.Equal(t.Shape(), p.shape) {
				if t, err = tensor.Zeros(d, p.shape...); err != nil {
					return fmt.Errorf("output %s: %w", s.out[i].Name, err)
				}
			}
			req.Out[i] = t
		} else if !st.given[k] {
			continue // the port has OpenVINO's tensor or the spare one
		} else if t == nil {
			if t, err = tensor.Zeros(d, p.shape...); err != nil {
				return fmt.Errorf("output %s: %w", s.out[i].Name, err)
			}
			st.spare[k] = t
		}
		if err := s.set(st, fnSetOutput, k, t, p.elem); err != nil {
			return fmt.Errorf("output %s: %w", s.out[i].Name, err)
		}
		st.given[k] = t != st.spare[k]
	}
	return nil
}

func (s *session) set(st *state, f fn, port int, t *tensor.Tensor, elem int32) error {
	h, err := s.lib.hostTensor(st, t, elem)
	if err != nil {
		return err
	}
	err = s.lib.do(f, st.request, uintptr(port), h)
	if t.DType() == tensor.TypeString {
		st.strings = append(st.strings, h)
		return err
	}
	s.lib.free(fnTensorFree, h) // the request holds a reference of its own
	return err
}

// infer runs the request, cancels it if ctx ends, and returns after it has stopped.
func (s *session) infer(ctx context.Context, st *state) error {
	cancel := func() { s.lib.do(fnCancel, st.request) }
	defer native.Watch(ctx, cancel)()
	if err := s.lib.do(fnStart, st.request); err != nil {
		return err
	}
	if ctx.Err() != nil {
		cancel() // a cancel before the start has no effect
	}
	err := s.lib.do(fnWait, st.request)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%v)", ctx.Err(), err)
	}
	return err
}
