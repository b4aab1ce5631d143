package ort

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// ortCustomOp is OrtCustomOp of version 17 (onnxruntime_c_api.h), followed by the Go
// fields that the callbacks use. Callbacks look it up by its address.
type ortCustomOp struct {
	version uint32

	createKernel, getName, getProvider                    uintptr
	inputType, inputCount, outputType, outputCount        uintptr
	compute, destroy                                      uintptr
	inputCharacteristic, outputCharacteristic             uintptr
	inputMemory                                           uintptr
	variadicInputMin, variadicInputSame                   uintptr
	variadicOutputMin, variadicOutputSame                 uintptr
	createKernelV2, computeV2                             uintptr
	inferShape, startVersion, endVersion                  uintptr
	mayInplace, releaseInplace, aliasMap, releaseAliasMap uintptr

	lib     *library
	kernel  driver.CustomKernel
	name    *byte
	in, out []uintptr // element types
}

// customDomains are the custom operators of one session.
type customDomains struct {
	domain uintptr // OrtCustomOpDomain
	ops    []*ortCustomOp
}

// domains orders the creation of sessions. ONNX Runtime keeps the domains of custom operators in a
// map of the process. Each session reads it, and the first session with a domain writes it, without
// a lock. Of two such sessions at the same time one fails.
type domains struct {
	sync.RWMutex
	known map[string]bool // sources of domains in the map
}

// create calls fn, which creates a session: alone if it is the first with operators of its
// source, else beside others.
func (d *domains) create(o *settings, custom *customDomains, fn func() error) error {
	source := o.common["custom_op_libraries"]
	if custom != nil {
		source += "\x00" + driver.CustomDomain
	}
	if o.ep == tensorRT || o.common[namedProvider] != "" {
		source += "\x00" + o.ep.name + o.common[namedProvider]
	}
	d.RLock()
	if source == "" || d.known[source] {
		defer d.RUnlock()
		return fn()
	}
	d.RUnlock()
	d.Lock()
	defer d.Unlock()
	err := fn()
	if err == nil {
		if d.known == nil {
			d.known = map[string]bool{}
		}
		d.known[source] = true
	}
	return err
}

// customOps holds the custom operators of all sessions by their address.
var customOps sync.Map // uintptr → *ortCustomOp

func customOpAt(op uintptr) *ortCustomOp {
	v, _ := customOps.Load(op)
	c, _ := v.(*ortCustomOp)
	return c
}

// The values of OrtCustomOpInputOutputCharacteristic.
const (
	required = 0
	optional = 1
)

// customTable returns the callbacks that all custom operators share. C callbacks to Go
// functions are never freed, so they are created once.
var customTable = sync.OnceValue(func() ortCustomOp {
	elem := func(list []uintptr, i uintptr) uintptr {
		if i < uintptr(len(list)) {
			return list[i]
		}
		return 0
	}
	kind := func(list []uintptr, i uintptr) uintptr {
		if elem(list, i) == 0 {
			return optional
		}
		return required
	}
	return ortCustomOp{
		version: 17,
		getName: dl.Callback(func(op uintptr) uintptr {
			return uintptr(unsafe.Pointer(customOpAt(op).name))
		}),
		getProvider:          dl.Callback(func(uintptr) uintptr { return 0 }), // null: the CPU execution provider
		inputType:            dl.Callback(func(op, i uintptr) uintptr { return elem(customOpAt(op).in, i) }),
		inputCount:           dl.Callback(func(op uintptr) uintptr { return uintptr(len(customOpAt(op).in)) }),
		outputType:           dl.Callback(func(op, i uintptr) uintptr { return elem(customOpAt(op).out, i) }),
		outputCount:          dl.Callback(func(op uintptr) uintptr { return uintptr(len(customOpAt(op).out)) }),
		inputCharacteristic:  dl.Callback(func(op, i uintptr) uintptr { return kind(customOpAt(op).in, i) }),
		outputCharacteristic: dl.Callback(func(op, i uintptr) uintptr { return kind(customOpAt(op).out, i) }),
		inputMemory:          dl.Callback(func(_, _ uintptr) uintptr { return 0 }),
		destroy:              dl.Callback(func(uintptr) uintptr { return 0 }),
		createKernelV2: dl.Callback(func(op, _, _, kernel uintptr) uintptr {
			*(*uintptr)(dl.Pointer(kernel)) = op // kernels have no state
			return 0
		}),
		computeV2: dl.Callback(func(kernel, call uintptr) uintptr {
			c := customOpAt(kernel)
			if err := c.run(call); err != nil {
				msg := dl.CString(fmt.Sprintf("custom operator of node %q: %v", c.kernel.Node, err))
				return dl.Call(c.lib.address(fnCreateStatus), uintptr(driver.CodeFail), uintptr(unsafe.Pointer(msg)))
			}
			return 0
		}),
	}
})

// customOperators creates an OrtCustomOp for each custom kernel of the session, and
// returns them with the model whose nodes refer to them.
func (r *library) customOperators(m *onnx.Model, o *driver.Options) (*customDomains, *onnx.Model, error) {
	if o.CustomKernels == nil {
		return nil, m, nil
	}
	m, list, err := o.CustomKernels(m)
	if err != nil || len(list) == 0 {
		return nil, m, err
	}
	d := &customDomains{}
	for _, op := range list {
		c := new(ortCustomOp)
		*c = customTable()
		c.lib, c.kernel, c.name = r, op, dl.CString(op.Name)
		if c.in, err = r.elementTypes(op.In); err == nil {
			c.out, err = r.elementTypes(op.Out)
		}
		if err != nil {
			return nil, nil,
				&driver.StatusError{Code: driver.CodeNotImplemented,
					Message: fmt.Sprintf("custom operator of node %q: %v", op.Node, err)}
		}
		d.ops = append(d.ops, c)
	}
	return d, m, nil
}

// elementTypes returns the values of ONNXTensorElementDataType, 0 for an omitted value.
func (r *library) elementTypes(types []tensor.Type) ([]uintptr, error) {
	list := make([]uintptr, len(types))
	for i, t := range types {
		switch t.Kind {
		case tensor.KindInvalid:
		case tensor.KindTensor:
			var err error
			if list[i], err = r.elementType(t.Elem); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("ONNX Runtime's custom operators take tensors only, got %s", t)
		}
	}
	return list, nil
}

// add registers the operators with session options.
func (d *customDomains) add(r *library, opts uintptr) error {
	if d == nil {
		return nil
	}
	domain := new(uintptr)
	if err := r.do(fnCreateCustomOpDomain, uintptr(unsafe.Pointer(dl.CString(driver.CustomDomain))),
		uintptr(unsafe.Pointer(domain))); err != nil {
		return err
	}
	d.domain = *domain
	for _, c := range d.ops {
		at := uintptr(unsafe.Pointer(c))
		customOps.Store(at, c)
		if err := r.do(fnCustomOpDomainAdd, d.domain, at); err != nil {
			return err
		}
	}
	return r.do(fnAddCustomOpDomain, opts, d.domain)
}

// release frees the operators. The session that uses them must be released before.
func (d *customDomains) release(r *library) {
	if d == nil {
		return
	}
	r.release(fnReleaseCustomOpDomain, d.domain)
	for _, c := range d.ops {
		customOps.Delete(uintptr(unsafe.Pointer(c)))
	}
}

// run computes the custom kernel for one OrtKernelContext.
func (c *ortCustomOp) run(call uintptr) error {
	r, st := c.lib, new(state)
	in := make([]tensor.Value, len(c.in))
	for i := range in {
		st.res = 0
		if !c.kernel.Given[i] {
			continue
		}
		if err := r.do(fnKernelContextGetInput, call, uintptr(i), uintptr(unsafe.Pointer(&st.res))); err != nil {
			return err
		}
		if st.res == 0 {
			continue
		}
		v, err := r.result(st, st.res, c.kernel.In[i], nil)
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		in[i] = v
	}
	out, err := c.kernel.Run(context.Background(), in)
	if err != nil {
		return err
	}
	for i, v := range out {
		t, ok := v.(*tensor.Tensor)
		if !ok {
			continue
		}
		if err := c.put(st, call, i, t); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

// put copies a result into output i of an OrtKernelContext.
func (c *ortCustomOp) put(st *state, call uintptr, i int, t *tensor.Tensor) error {
	r := c.lib
	dims := slices.Clone(st.shape(t.Shape()))
	st.res = 0
	if err := r.do(fnKernelContextGetOutput, call, uintptr(i), uintptr(dl.Array(dims)), uintptr(len(dims)),
		uintptr(unsafe.Pointer(&st.res))); err != nil || st.res == 0 {
		return err
	}
	h := st.res
	if t.DType() == tensor.TypeString {
		return r.fillStrings(st, h, t)
	}
	if err := r.do(fnGetTensorMutableData, h, uintptr(unsafe.Pointer(&st.res))); err != nil {
		return err
	}
	copy(dl.Bytes(st.res, len(t.Bytes())), t.Bytes())
	return nil
}
