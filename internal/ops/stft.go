package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/fourier"
	"github.com/onward-ml/onward/tensor"
)

// STFT is the short-time Fourier transform of a signal [batch, length, 1 or 2], or [batch, length]
// as PyTorch's exporter writes it: the transforms of windowed frames that start frame_step apart.
// The length of the transform is frame_length, or that of the window, or that of the signal. If
// Onesided is set, the first ⌊n/2⌋+1 frequencies are returned. Incomplete frames at the end are
// dropped (https://onnx.ai/onnx/operators/onnx__STFT.html).
type STFT struct{ Onesided bool }

var _ = kit.Register(&kit.Def{Name: "STFT", Since: kit.Versions{17},
	In: "signal:T1, frame_step:T2, window:T1?, frame_length:T2?", Out: "output:T1",
	Class: kit.ClassOther,
	Types: "T1: @float; T2: int32 int64", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &STFT{a.Bool("onesided", true)}
	}})

// Infer sets the output to [batch, frames, frequencies, 2].
func (op *STFT) Infer(c *ir.InferContext) error {
	batch, length, n := ir.Unknown, ir.Unknown, ir.Unknown
	if s := c.Shape(0); s != nil {
		if len(s) != 2 && len(s) != 3 {
			return fail.Errorf("signal has rank %d, want 2 or 3", len(s))
		}
		batch, length = s[0], s[1]
		n = length
	}
	if c.Has(2) {
		n = ir.Unknown
		if w := c.Shape(2); len(w) == 1 {
			n = w[0]
		}
	}
	if c.Has(3) {
		n = ir.Unknown
		if d := c.Contents(3); len(d) == 1 {
			n = d[0]
		}
	}
	frames := ir.Unknown
	if d := c.Contents(1); len(d) == 1 {
		if v, ok := length.Sub(n).Value(); ok && v < 0 {
			frames = ir.Known(0)
		} else {
			frames = length.Sub(n).Div(d[0]).Add(ir.Known(1))
		}
		if v, ok := d[0].Value(); ok && v <= 0 {
			return fail.Errorf("frame_step is %d, want at least 1", v)
		}
	}
	bins := n
	if op.Onesided {
		bins = n.Div(ir.Known(2)).Add(ir.Known(1))
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), batch, frames, bins, ir.Known(2)))
	return nil
}

// Run transforms frame by frame, in float64.
func (op *STFT) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return runSTFT[float64](op, c)
	}
	return runSTFT[float32](op, c)
}

func runSTFT[T kit.RealFloat](op *STFT, c *ir.Call) error {
	s := c.Tensor(0).Shape()
	parts := 1
	if len(s) == 3 {
		parts = s[2]
	}
	if len(s) != 2 && len(s) != 3 || parts != 1 && parts != 2 {
		return fail.Errorf("signal has shape %v, want [batch, length] or [batch, length, 1 or 2]", s)
	}
	batch, length := s[0], s[1]
	if op.Onesided && parts == 2 {
		return fail.Errorf("signal has shape %v, want a last dimension of 1 for a one-sided transform", s)
	}
	step, err := kit.ScalarInt(c.Tensor(1), "frame_step")
	if err != nil {
		return err
	}
	if step < 1 {
		return fail.Errorf("frame_step is %d, want at least 1", step)
	}
	n := length
	window, err := kit.RealIn[T](c, c.Tensor(2))
	if err != nil {
		return err
	}
	if w := c.Tensor(2); w != nil {
		if w.Rank() != 1 {
			return fail.Errorf("window has shape %v, want rank 1", w.Shape())
		}
		n = w.Len()
	}
	if c.Has(3) {
		if n, err = kit.ScalarInt(c.Tensor(3), "frame_length"); err != nil {
			return err
		}
	}
	if n < 1 {
		return fail.Errorf("frame length is %d, want at least 1", n)
	}
	frames := 0
	if n <= length {
		frames = 1 + (length-n)/step
	}
	bins := n
	if op.Onesided {
		bins = n/2 + 1
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), batch, frames, bins, 2)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	x, err := kit.RealIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	if err := c.Reserve(fourier.Bytes(n)); err != nil {
		return err
	}
	p := fourier.NewPlan(c, n)
	items := batch * frames
	per := 2*n + p.ScratchLen()
	scratch, err := ir.ScratchOf[complex128](c, kit.WorkspaceCount(c, items)*per)
	if err != nil {
		return err
	}
	used := n
	if window != nil {
		used = min(n, len(window))
	}
	err = kit.InWorkspaces(c, items, func(ws, i int) error {
		buf := scratch[ws*per:][:per]
		src, dst, rest := buf[:n], buf[n:2*n], buf[2*n:]
		frame := x[(i/frames*length+i%frames*step)*parts:]
		for t := range used {
			w := 1.0
			if window != nil {
				w = float64(window[t])
			}
			if parts == 2 {
				src[t] = complex(w*float64(frame[2*t]), w*float64(frame[2*t+1]))
			} else {
				src[t] = complex(w*float64(frame[t]), 0)
			}
		}
		clear(src[used:])
		p.Forward(dst, src, rest)
		out := y.Data[i*bins*2:][:bins*2]
		for t := range bins {
			out[2*t], out[2*t+1] = T(real(dst[t])), T(imag(dst[t]))
		}
		return nil
	})
	if err != nil {
		return err
	}
	y.Store()
	return nil
}
