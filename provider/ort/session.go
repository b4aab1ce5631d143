package ort

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// session is a model on ONNX Runtime. ONNX Runtime lets any number of threads run
// one.
type session struct {
	lib     *library
	handle  uintptr
	in, out []onward.NodeArg
	inNames []*byte // for C
	outName []*byte
	states  sync.Pool // *state
}

func (r *library) newSession(path string, m *onnx.Model, o *settings) (*session, error) {
	d, err := onward.Describe(m)
	if err != nil {
		return nil, err
	}
	s := &session{lib: r, in: slices.Concat(d.Inputs, d.OverridableInitializers), out: d.Outputs}
	for _, a := range s.in {
		s.inNames = append(s.inNames, dl.CString(a.Name))
	}
	for _, a := range s.out {
		s.outName = append(s.outName, dl.CString(a.Name))
	}
	s.states.New = func() any { return new(state) }

	ext, err := r.external(path, m)
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
	if ext.file != "" {
		err = r.do(fnCreateSession, r.env, uintptr(pathArg(ext.file)), opts, uintptr(unsafe.Pointer(&s.handle)))
	} else {
		var data []byte
		if data, err = ext.model.Marshal(); err != nil {
			return nil, err
		}
		err = r.do(fnCreateSessionFromArray, r.env, uintptr(dl.Array(data)), uintptr(len(data)), opts, uintptr(unsafe.Pointer(&s.handle)))
	}
	runtime.KeepAlive(ext) // the initializers that it hands over
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *session) Close() error {
	s.lib.release(fnReleaseSession, s.handle)
	s.handle = 0
	return nil
}

// state is the scratch memory of one run. It lives on the heap, so that C may
// write into it.
type state struct {
	in, out   []uintptr // OrtValues
	inName    []*byte
	outName   []*byte
	index     []int // the output that each entry of out is
	direct    []bool
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
	st.in, st.out, st.inName, st.outName, st.index, st.direct = st.in[:0], st.out[:0], st.inName[:0], st.outName[:0], st.index[:0], st.direct[:0]
	s.states.Put(st)
}

// Run computes the wanted outputs. Input tensors are used where they are, output
// tensors of a fixed shape that are given are written where they are.
func (s *session) Run(ctx context.Context, req *onward.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := s.lib
	st := s.states.Get().(*state)
	defer s.put(st)
	for i, v := range req.In {
		if absent(v) {
			continue
		}
		h, err := r.value(st, v, s.in[i].ElementType())
		if err != nil {
			return fmt.Errorf("input %s: %w", s.in[i].Name, err)
		}
		st.in = append(st.in, h)
		st.inName = append(st.inName, s.inNames[i])
	}
	for i := range s.out {
		if req.Wanted != nil && !req.Wanted[i] {
			continue
		}
		var h uintptr
		t, direct := inPlace(req.Out[i], &s.out[i])
		if direct {
			var err error
			if h, err = r.value(st, t, t.Type()); err != nil {
				return fmt.Errorf("output %s: %w", s.out[i].Name, err)
			}
		}
		st.out = append(st.out, h)
		st.outName = append(st.outName, s.outName[i])
		st.index = append(st.index, i)
		st.direct = append(st.direct, direct)
	}
	err := s.run(ctx, st)
	runtime.KeepAlive(req) // the OrtValues point into its tensors
	if err != nil {
		return err
	}
	for k, i := range st.index {
		if st.direct[k] {
			continue
		}
		v, err := r.result(st, st.out[k], s.out[i].ElementType(), req.Out[i])
		if err != nil {
			return fmt.Errorf("output %s: %w", s.out[i].Name, err)
		}
		req.Out[i] = v
	}
	return nil
}

// run calls OrtApi::Run, which the context stops between nodes.
func (s *session) run(ctx context.Context, st *state) error {
	r := s.lib
	if ctx.Done() != nil {
		if err := r.do(fnCreateRunOptions, uintptr(unsafe.Pointer(&st.opts))); err != nil {
			return err
		}
		done := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			dl.Call(r.address(fnRunOptionsSetTerminate), st.opts)
			close(done)
		})
		defer func() {
			if !stop() {
				<-done // it uses the options that put releases
			}
		}()
	}
	err := r.do(fnRun, s.handle, st.opts,
		uintptr(dl.Array(st.inName)), uintptr(dl.Array(st.in)), uintptr(len(st.in)),
		uintptr(dl.Array(st.outName)), uintptr(len(st.out)), uintptr(dl.Array(st.out)))
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%v)", ctx.Err(), err)
	}
	return err
}

// absent reports whether an input is left out: an optional without value is, since
// ONNX Runtime reads through its null pointer otherwise.
func absent(v tensor.Value) bool {
	o, ok := v.(*tensor.Optional)
	return v == nil || ok && o.Value == nil
}

// inPlace reports whether ONNX Runtime may write an output into the tensor that
// the caller gave. It refuses a run whose output has another shape, so the shape
// must be known.
func inPlace(v tensor.Value, a *onward.NodeArg) (*tensor.Tensor, bool) {
	t, ok := v.(*tensor.Tensor)
	if !ok || t == nil || a.Shape == nil || t.DType() == tensor.TypeString || t.Len() == 0 || !t.Type().Equal(a.ElementType()) || t.Rank() != len(a.Shape) {
		return nil, false
	}
	for i, d := range a.Shape {
		if d.Value != int64(t.Dim(i)) {
			return nil, false
		}
	}
	return t, true
}
