package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// LpNormalization divides the elements along Axis by their P-norm. Vectors of norm 0 become 0
// (https://onnx.ai/onnx/operators/onnx__LpNormalization.html).
type LpNormalization struct{ Axis, P int }

var _ = kit.Register(&kit.Def{Name: "LpNormalization", Since: kit.Versions{1, 22}, In: "input:T", Out: "output:T",
	Types: "T: @float",
	Work:  3,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		n := &LpNormalization{Axis: a.Int("axis", -1), P: a.Int("p", 2)}
		if n.P != 1 && n.P != 2 {
			a.Errorf("attribute p is %d, want 1 or 2", n.P)
		}
		return n
	},
	Gradient: gradient.Decomposition(func(b *gradient.Builder, n *gradient.Node) (string, error) {
		if err := b.Need(13); err != nil {
			return "", err
		}
		x := n.Inputs[0]
		if n.Attrs.Int("p", 2) == 1 {
			return b.Op("Div", x, b.SumAlong(n, b.Op("Abs", x))), nil
		}
		return b.Op("Div", x, b.Op("Sqrt", b.SumAlong(n, b.Op("Mul", x, x)))), nil
	})})

// Infer keeps the shape.
func (n *LpNormalization) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if s := c.Shape(0); s != nil {
		_, err := kit.NormalAxis(n.Axis, len(s))
		return err
	}
	return nil
}

// Run adds in float64.
func (n *LpNormalization) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return lpNorm[float64](c, n)
	}
	return lpNorm[float32](c, n)
}

func lpNorm[T kit.RealFloat](c *ir.Call, n *LpNormalization) error {
	t := c.Tensor(0)
	s := t.Shape()
	axis, err := kit.NormalAxis(n.Axis, len(s))
	if err != nil {
		return err
	}
	x, err := kit.RealIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), s...)
	if err != nil || len(x) == 0 {
		return err
	}
	length, step := s[axis], kit.Product(s[axis+1:])
	if f, ok := any(x).([]float32); ok && step == 1 && n.P == 2 && !c.Generic && length >= kit.ShortRow {
		out := any(y.Data).([]float32)
		c.Parallel(len(x)/length, kit.GrainFor(length), func(lo, hi int) {
			for v := lo; v < hi && c.Err() == nil; v++ {
				row, to := f[v*length:][:length], out[v*length:][:length]
				sum := vec.SumSquaresF32(cpu.Active(), row, 0)
				if !squaresAreSafe(sum) {
					if norm := window.NormOf(row, 2); norm != 0 {
						for i, e := range row {
							to[i] = float32(float64(e) / norm)
						}
						continue
					}
					clear(to)
					continue
				}
				vec.DivScalarF32(cpu.Active(), to, row, float32(math.Sqrt(float64(sum))))
			}
		})
		y.Store()
		return c.Err()
	}
	if step > 1 && !c.Generic { // adjacent lines together, so that memory is read in order
		span := kit.SpanOf(s, axis)
		level := cpu.Active()
		singles, wide := any(x).([]float32)
		wide = wide && (level == cpu.AVX512 || level == cpu.AVX2) // which have the kernels for float64
		err := span.EachLine(c, func(base, m int) {
			var sums, row [kit.ColumnBlock]float64
			meter := ir.Meter{C: c}
			for i := range length {
				meter.Check(m)
				if wide {
					vec.F32ToF64(level, row[:m], singles[base+i*step:])
					if n.P == 1 {
						vec.AbsF64(level, row[:m], row[:m])
					} else {
						vec.MulF64(level, row[:m], row[:m], row[:m])
					}
					vec.AddF64(level, sums[:m], sums[:m], row[:m])
					continue
				}
				for j, v := range x[base+i*step:][:m] {
					if f := float64(v); n.P == 1 {
						sums[j] += math.Abs(f)
					} else {
						sums[j] += f * f
					}
				}
			}
			for j, v := range sums[:m] {
				if n.P == 2 {
					v = math.Sqrt(v)
				}
				if sums[j] = v; v == 0 {
					sums[j] = 1 // of zeros
				}
			}
			product := tensor.DTypeOf[T]() == tensor.TypeFloat32 // by a reciprocal in float64, which is exact enough
			for j, v := range sums[:m] {
				if product {
					sums[j] = 1 / v
				}
			}
			for i := range length {
				meter.Check(m)
				to := y.Data[base+i*step:][:m]
				if wide {
					vec.F32ToF64(level, row[:m], singles[base+i*step:])
					vec.MulF64(level, row[:m], row[:m], sums[:m])
					vec.F64ToF32(level, any(to).([]float32), row[:m])
					continue
				}
				if !product {
					for j, v := range x[base+i*step:][:m] {
						to[j] = T(float64(v) / sums[j])
					}
					continue
				}
				for j, v := range x[base+i*step:][:m] {
					to[j] = T(float64(v) * sums[j])
				}
			}
		})
		y.Store()
		return err
	}
	c.Parallel(len(x)/length, kit.GrainFor(3*length), func(lo, hi int) {
		for v := lo; v < hi && c.Err() == nil; v++ {
			first := v/step*length*step + v%step
			sum := 0.0
			for i := range length {
				f := float64(x[first+i*step])
				if n.P == 1 {
					sum += math.Abs(f)
				} else {
					sum += f * f
				}
			}
			if n.P == 2 {
				sum = math.Sqrt(sum)
			}
			for i := range length {
				var r T
				if sum != 0 {
					r = T(float64(x[first+i*step]) / sum)
				}
				y.Data[first+i*step] = r
			}
		}
	})
	y.Store()
	return c.Err()
}
