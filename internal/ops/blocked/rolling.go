package blocked

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
)

// Rolling is a BlockedConv and the depthwise BlockedConv of its result, of which a few rows exist at a time. Input 1, if
// any, is added before the activation of the second.
type Rolling struct {
	First, Second *Conv
	kernel        *conv.Rolling
}

// NewRolling joins two convolutions; nil where they do not fit together, or where the result between them is as
// fast in memory.
func NewRolling(first, second *Conv) *Rolling {
	dw, ok := second.kernel.(*conv.Depthwise)
	if !ok || first.HasAdd || !conv.RollingPays(dw) {
		return nil
	}
	k, err := conv.NewRolling(first.kernel, dw)
	if err != nil { // another kind of kernel
		return nil
	}
	return &Rolling{First: first, Second: second, kernel: k}
}

// Infer gives the blocked type.
func (r *Rolling) Infer(c *ir.InferContext) error { return inferBlocked(c, &r.Second.out) }

// Run convolves image by image; the kernel splits an image over threads.
func (r *Rolling) Run(c *ir.Call) error {
	n, size, x, err := r.First.input(c)
	if err != nil {
		return err
	}
	add, err := r.Second.residual(c, n)
	if err != nil {
		return err
	}
	out := &r.Second.out
	y, err := blockedOut(c, n, out)
	if err != nil {
		return err
	}
	first, par := r.First.epilogue(), c.Launcher()
	for i := range n {
		ep := r.Second.epilogue() // each image's launch captures its own copy
		if add != nil {
			ep.Add = add[i*ep.AddLayout.Len():][:ep.AddLayout.Len()]
		}
		r.kernel.Run(cpu.Active(), par, y[i*out.Len():][:out.Len()], x[i*size:][:size], first, ep)
	}
	return nil
}
