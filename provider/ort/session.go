package ort

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/internal/native"
	"github.com/onward-ml/onward/tensor"
)

// session is an OrtSession. Any number of goroutines may run it at a time.
type session struct {
	lib     *library
	handle  uintptr
	graph   string        // option by which runs are captured and replayed as a graph, or ""
	turn    chan struct{} // the library's if the session may run on WebGPU, see do; otherwise nil
	in, out []onward.NodeArg
	inNames []*byte // for C
	outName []*byte
	fixed   [][]int   // declared shapes of numeric outputs with a fixed shape, nil for other outputs
	input   []int     // per output: index of the graph input that it is, or −1
	states  sync.Pool // *state

	// copies is set once a run has failed with preallocated outputs of the declared shapes.
	// Some models declare wrong shapes; ONNX Runtime rejects them only for preallocated
	// outputs.
	copies atomic.Bool

	opts   *driver.Options
	logID  string           // the session's ID in ONNX Runtime's log
	keep   []*tensor.Tensor // initializers that ONNX Runtime reads, kept alive
	values []uintptr        // OrtValues of keep
	custom *customDomains

	users      atomic.Int64 // reference count: the session, its bindings and its device tensors
	provider   provider
	config     driver.Config
	copy       sync.Mutex // guards the following
	copier     *session
	allocators map[driver.Device]*allocator
}

func (r *library) newSession(path string, m *onnx.Model, o *settings) (*session, error) {
	d, err := onward.Describe(m)
	if err != nil {
		return nil, err
	}
	s := &session{lib: r, opts: o.session, in: slices.Concat(d.Inputs, d.OverridableInitializers), out: d.Outputs}
	for _, a := range s.in {
		s.inNames = append(s.inNames, dl.CString(a.Name))
	}
	for _, a := range s.out {
		s.outName = append(s.outName, dl.CString(a.Name))
		s.fixed = append(s.fixed, fixedShape(&a))
		k := slices.IndexFunc(s.in, func(in onward.NodeArg) bool { return in.Name == a.Name })
		if s.input = append(s.input, k); k >= 0 {
			s.fixed[len(s.fixed)-1] = nil // ONNX Runtime returns the input and leaves other memory as it was
		}
	}
	s.states.New = func() any { return new(state) }
	s.users.Store(1)
	for _, name := range []string{"enable_cuda_graph", "trt_cuda_graph_enable", "enableGraphCapture"} {
		if v := o.own[name]; v == "True" || v == "1" {
			s.graph = name
		}
	}
	if r.usesWebGPU(o) {
		s.turn = r.turn
	}
	if o.ep == webGPU && o.own["dawnProcTable"] == "" {
		if err := findLoader(); err != nil {
			return nil, err
		}
	}

	if s.custom, m, err = r.customOperators(m, o.session); err != nil {
		return nil, err
	}
	if s.custom != nil {
		path = "" // the nodes in the file do not refer to the custom kernels
	}
	ok := false
	defer func() {
		if !ok {
			s.Close()
		}
	}()
	o.logID = register(o.session)
	s.logID = o.logID
	ext, err := r.external(path, m, o.session.ExternalInitializers)
	if err != nil {
		return nil, err
	}
	defer ext.release(r)
	if ext.folder != "" {
		o.entries[folderEntry] = ext.folder
	}
	opts, err := r.sessionOptions(o)
	if err != nil {
		return nil, err
	}
	defer r.release(fnReleaseSessionOptions, opts)
	if err := ext.add(r, opts); err != nil {
		return nil, err
	}
	if err := s.addInitializers(opts, o.session.Initializers); err != nil {
		return nil, err
	}
	if err := s.custom.add(r, opts); err != nil {
		return nil, err
	}
	create := func() error {
		return s.do(fnCreateSession, r.env, uintptr(pathArg(ext.file)), opts, uintptr(unsafe.Pointer(&s.handle)))
	}
	if ext.file == "" {
		data, err2 := ext.model.Marshal()
		if err2 != nil {
			return nil, err2
		}
		create = func() error {
			return s.do(fnCreateSessionFromArray, r.env, uintptr(dl.Array(data)), uintptr(len(data)), opts,
				uintptr(unsafe.Pointer(&s.handle)))
		}
	}
	if once := create; o.ep == openVINO || o.common[namedProvider] != "" {
		create = func() (err error) {
			dl.KeepSignalStack(func() { err = once() })
			return err
		}
	}
	err = r.domains.create(o, s.custom, create)
	runtime.KeepAlive(ext) // ONNX Runtime reads its initializers
	if err != nil {
		return nil, err
	}
	ok = true
	return s, nil
}

// SetDynamicOptions implements [driver.DynamicOptions].
func (s *session) SetDynamicOptions(options map[string]string) error {
	if s.lib.api < sinceDynamicOptions {
		return &driver.StatusError{Code: driver.CodeNotImplemented,
			Message: fmt.Sprintf("dynamic options need ONNX Runtime 1.%d or later, got %s",
				sinceDynamicOptions, s.lib.version)}
	}
	k, v := cOptions(options)
	return s.lib.do(fnSetEpDynamicOptions, s.handle, uintptr(dl.Array(k)), uintptr(dl.Array(v)), uintptr(len(options)))
}

// Close releases the session after its last binding and device tensor.
func (s *session) Close() error {
	s.drop()
	return nil
}

// drop decrements the reference count and frees the session at zero.
func (s *session) drop() {
	if s.users.Add(-1) == 0 {
		s.free()
	}
}

func (s *session) free() {
	for _, a := range s.allocators {
		a.drop(s)
	}
	if s.copier != nil {
		s.copier.Close()
	}
	s.release(fnReleaseSession, s.handle)
	s.handle = 0
	for _, v := range s.values {
		s.lib.release(fnReleaseValue, v)
	}
	s.values, s.keep = nil, nil
	s.custom.release(s.lib)
	s.custom = nil
	unregister(s.logID)
}

// state is the scratch memory of one run. It is on the heap because C writes to it.
type state struct {
	in, out   []uintptr // OrtValues
	inName    []*byte
	outName   []*byte
	index     []int            // output index of each entry of out
	direct    []*tensor.Tensor // preallocated outputs, nil for those that ONNX Runtime allocates
	dims      []int64
	res, res2 uintptr
	i32       int32
	opts      uintptr // OrtRunOptions
}

func (s *session) put(st *state) {
	for _, v := range st.in {
		s.lib.release(fnReleaseValue, v)
	}
	for _, v := range st.out {
		s.lib.release(fnReleaseValue, v)
	}
	s.lib.release(fnReleaseRunOptions, st.opts)
	st.opts = 0
	clear(st.direct)
	st.in, st.out, st.inName, st.outName, st.index, st.direct = st.in[:0], st.out[:0], st.inName[:0], st.outName[:0],
		st.index[:0], st.direct[:0]
	s.states.Put(st)
}

// Run computes the wanted outputs. Input tensors are not copied. ONNX Runtime writes
// outputs with a declared fixed shape directly to the result. Other outputs are copied
// from its memory, to the given tensor if type and shape match.
func (s *session) Run(ctx context.Context, req *driver.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.graph != "" {
		return s.needsDeviceMemory()
	}
	if s.copies.Load() {
		_, err := s.runOnce(ctx, req, false)
		return err
	}
	own, err := s.runOnce(ctx, req, true)
	if err == nil || !own || ctx.Err() != nil {
		return err
	}
	if _, err2 := s.runOnce(ctx, req, false); err2 != nil {
		return err // the declared shapes were not the cause
	}
	s.copies.Store(true)
	return nil
}

// needsDeviceMemory returns the error for memory that a replayed graph would not read or write.
func (s *session) needsDeviceMemory() error {
	return native.Invalid("a session with the option %s of provider %s needs a binding with all inputs and outputs "+
		"in memory of the device: a captured graph reads and writes the memory of its first run", s.graph,
		s.provider.name)
}

// runOnce runs the session once. If direct is set, it preallocates outputs with declared
// fixed shapes; own reports whether it preallocated any.
func (s *session) runOnce(ctx context.Context, req *driver.Request, direct bool) (own bool, err error) {
	r := s.lib
	st := s.states.Get().(*state)
	defer s.put(st)
	for i, v := range req.In {
		if absent(v) {
			continue
		}
		h, err := r.value(st, v, s.in[i].ElementType())
		if err != nil {
			return own, fmt.Errorf("input %s: %w", s.in[i].Name, err)
		}
		st.in = append(st.in, h)
		st.inName = append(st.inName, s.inNames[i])
	}
	for i := range s.out {
		if req.Wanted != nil && !req.Wanted[i] {
			continue
		}
		var h uintptr
		t := s.inPlace(req.Out[i], i)
		if t == nil && direct && req.Out[i] == nil && s.fixed[i] != nil {
			if t, err = tensor.Zeros(s.out[i].ElementType().Elem, s.fixed[i]...); err != nil {
				return own, fmt.Errorf("output %s: %w", s.out[i].Name, err)
			}
			own = true
		}
		if t != nil {
			if h, err = r.value(st, t, t.Type()); err != nil {
				return own, fmt.Errorf("output %s: %w", s.out[i].Name, err)
			}
		}
		st.out = append(st.out, h)
		st.outName = append(st.outName, s.outName[i])
		st.index = append(st.index, i)
		st.direct = append(st.direct, t)
	}
	if err := s.runOptions(st, req.Options); err != nil {
		return own, err
	}
	err = s.run(ctx, st)
	runtime.KeepAlive(req) // the OrtValues point to its tensors
	if err != nil {
		return own, err
	}
	for k, i := range st.index {
		if t := st.direct[k]; t != nil {
			req.Out[i] = t
			continue
		}
		v, err := r.result(st, st.out[k], s.out[i].ElementType(), req.Out[i])
		if err != nil {
			return own, fmt.Errorf("output %s: %w", s.out[i].Name, err)
		}
		req.Out[i] = v
	}
	return own, nil
}

// run calls OrtApi::Run.
func (s *session) run(ctx context.Context, st *state) error {
	return s.watched(ctx, st, func() error {
		return s.lib.do(fnRun, s.handle, st.opts,
			uintptr(dl.Array(st.inName)), uintptr(dl.Array(st.in)), uintptr(len(st.in)),
			uintptr(dl.Array(st.outName)), uintptr(len(st.out)), uintptr(dl.Array(st.out)))
	})
}

// watched calls a function that runs with the run options of st. If ctx ends, the run
// terminates before its next node.
func (s *session) watched(ctx context.Context, st *state, call func() error) error {
	r := s.lib
	if ctx.Done() != nil {
		if err := s.makeRunOptions(st); err != nil {
			return err
		}
		defer native.Watch(ctx, func() { dl.Call(r.address(fnRunOptionsSetTerminate), st.opts) })()
	}
	err := s.inTurn(ctx, call)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%v)", ctx.Err(), err)
	}
	return err
}

// absent reports whether an input is omitted. An optional without value is omitted too,
// because ONNX Runtime would dereference its null pointer.
func absent(v tensor.Value) bool {
	o, ok := v.(*tensor.Optional)
	return v == nil || ok && o.Value == nil
}

// inPlace returns the caller's tensor for output i if ONNX Runtime can write to it, nil
// otherwise. ONNX Runtime fails if the output has another shape, so the declared shape
// must be fixed.
func (s *session) inPlace(v tensor.Value, i int) *tensor.Tensor {
	t, ok := v.(*tensor.Tensor)
	if !ok || t == nil || s.fixed[i] == nil || t.DType() != s.out[i].ElementType().Elem ||
		!slices.Equal(t.Shape(), s.fixed[i]) {
		return nil
	}
	return t
}

// fixedShape returns the declared shape of a numeric output if it is fixed and not empty,
// nil otherwise.
func fixedShape(a *onward.NodeArg) []int {
	t := a.ElementType()
	if a.Shape == nil || t.Kind != tensor.KindTensor || t.Elem == tensor.TypeString {
		return nil
	}
	shape := make([]int, len(a.Shape))
	for i, d := range a.Shape {
		if d.Value <= 0 || d.Value > 1<<31 {
			return nil
		}
		shape[i] = int(d.Value)
	}
	// A model may declare any size, so larger outputs are left to ONNX Runtime, which
	// allocates what it computes. So are outputs of one element: ONNX Runtime does not reject
	// the shape [1] for a scalar.
	n, err := tensor.ByteLen(t.Elem, shape)
	if one, _ := tensor.Elements(shape); err != nil || n > maxDeclared || one == 1 {
		return nil
	}
	return shape
}

// maxDeclared is the largest size in bytes of an output that is preallocated from its
// declared shape.
const maxDeclared = 1 << 28
