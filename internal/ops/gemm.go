package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// Gemm returns Alpha·A'·B' + Beta·C, where A' and B' are the matrices A and B or their transposes
// and C broadcasts to the shape of A'·B' (https://onnx.ai/onnx/operators/onnx__Gemm.html).
type Gemm struct {
	Alpha, Beta    float32
	TransA, TransB bool
}

var _ = kit.Register(&kit.Def{Name: "Gemm", Since: kit.Versions{1, 6, 7, 9, 11, 13}, In: "A:T, B:T, C:T?", Out: "Y:T",
	MACs:  kit.GemmMACs,
	Types: "T: @float int32 int64 uint32 uint64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset < 7 {
			// The shapes determine whether C is broadcast.
			a.Ignore("broadcast")
		}
		return &Gemm{Alpha: a.Float("alpha", 1), Beta: a.Float("beta", 1), TransA: a.Bool("transA", false),
			TransB: a.Bool("transB", false)}
	},
	Gradient: gradient.Rule(gemmGradient)})

// gemmGradient differentiates Y = α·A'·B' + β·C.
func gemmGradient(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
	if len(n.Inputs) < 2 {
		return nil, fail.Errorf("node has %d inputs, want 2 or 3", len(n.Inputs))
	}
	ta, tb := n.Attrs.Int("transA", 0) != 0, n.Attrs.Int("transB", 0) != 0
	x, w := n.Inputs[0], n.Inputs[1]
	mul := func(p, q string, tp, tq bool) string {
		flag := map[bool]int64{true: 1}
		attrs := gradient.Attrs{"transA": flag[tp], "transB": flag[tq], "alpha": n.Attrs.Float("alpha", 1)}
		return b.Node("Gemm", attrs, p, q)
	}
	r := make([]string, len(n.Inputs))
	if ta {
		r[0] = mul(w, g, tb, true)
	} else {
		r[0] = mul(g, w, false, !tb)
	}
	if tb {
		r[1] = mul(g, x, true, ta)
	} else {
		r[1] = mul(x, g, !ta, false)
	}
	if c := n.Input(2); c != "" {
		r[2] = b.Scaled(n.Attrs.Float("beta", 1), b.SumTo(g, c))
	}
	return r, nil
}

// Infer checks the inner dimensions.
func (g *Gemm) Infer(c *ir.InferContext) error {
	shape, err := g.Dims(c.Shape(0), c.Shape(1), c.Shape(2))
	kit.SetShape(c, 0, c.Elem(0), shape)
	return err
}

// Dims returns the shape of the output, as far as those of A, B and C are known.
func (g *Gemm) Dims(a, b, add []ir.Dim) ([]ir.Dim, error) {
	out := ir.UnknownDims(2)
	for i, s := range [][]ir.Dim{a, b} {
		if s != nil && len(s) != 2 {
			return out, fail.Errorf("%s has rank %d, want 2", []string{"A", "B"}[i], len(s))
		}
	}
	var ka, kb ir.Dim
	if a != nil {
		out[0], ka = a[0], a[1]
		if g.TransA {
			out[0], ka = a[1], a[0]
		}
	}
	if b != nil {
		kb, out[1] = b[0], b[1]
		if g.TransB {
			kb, out[1] = b[1], b[0]
		}
	}
	if ka.Differs(kb) {
		return out, fail.Errorf("inner dimensions are %s and %s, want equal ones", ka, kb)
	}
	if s := add; s != nil {
		if len(s) > 2 {
			return out, fail.Errorf("C has rank %d, want at most 2", len(s))
		}
		for i, d := range s {
			if o := out[2-len(s)+i]; !d.Is(1) && d.Differs(o) {
				return out, fail.Errorf("C with shape %v cannot be broadcast to %v", s, out)
			}
		}
	}
	return out, nil
}

// Shape returns M, N and K.
func (g *Gemm) Shape(a, b []int) (m, n, k int, err error) {
	if len(a) != 2 || len(b) != 2 {
		return 0, 0, 0, fail.Errorf("A and B have shapes %v and %v, want matrices", a, b)
	}
	m, k = a[0], a[1]
	if g.TransA {
		m, k = k, m
	}
	kb, n := b[0], b[1]
	if g.TransB {
		kb, n = n, kb
	}
	if k != kb {
		return 0, 0, 0, fail.Errorf("shapes %v and %v: inner dimensions are %d and %d, want equal ones", a, b, k, kb)
	}
	return m, n, k, nil
}

// Run computes in the type of the inputs, and float16 and bfloat16 in float32.
func (g *Gemm) Run(c *ir.Call) error {
	switch c.Tensor(0).DType() {
	case tensor.TypeInt32, tensor.TypeUint32: // multiplication and addition wrap around in any order
		return gemmDirect[int32](c, g)
	case tensor.TypeInt64, tensor.TypeUint64:
		return gemmDirect[int64](c, g)
	case tensor.TypeFloat64:
		return gemmDirect[float64](c, g)
	}
	return g.runFloat(c, nil, nil)
}

// runFloat computes in float32. packed holds B, of shape b, if it is constant.
func (g *Gemm) runFloat(c *ir.Call, packed *matmul.PackedReals, b []int) error {
	a := c.Tensor(0)
	if packed == nil {
		b = c.Tensor(1).Shape()
	}
	m, n, k, err := g.Shape(a.Shape(), b)
	if err != nil {
		return err
	}
	x, err := kit.RealIn[float32](c, a)
	if err != nil {
		return err
	}
	add, err := kit.RealIn[float32](c, c.Tensor(2))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float32](c, 0, a.DType(), m, n)
	if err != nil {
		return err
	}
	args := gemm.Args[float32]{M: m, N: n, K: k, A: x, LdA: a.Dim(1), TransA: g.TransA, C: y.Data, LdC: n}
	if packed == nil {
		if args.B, err = kit.RealIn[float32](c, c.Tensor(1)); err != nil {
			return err
		}
		args.LdB, args.TransB = b[1], g.TransB
	} else {
		packed.In(&args)
	}
	if err := gemmRun(c, g, &args, add); err != nil {
		return err
	}
	y.Store()
	return nil
}

func gemmDirect[T gemm.Number](c *ir.Call, g *Gemm) error {
	a, b := c.Tensor(0), c.Tensor(1)
	m, n, k, err := g.Shape(a.Shape(), b.Shape())
	if err != nil {
		return err
	}
	y, err := c.Output(0, a.DType(), m, n)
	if err != nil {
		return err
	}
	var add []T
	if t := c.Tensor(2); t != nil {
		add = matmul.Data[T](t)
	}
	args := gemm.Args[T]{M: m, N: n, K: k, A: matmul.Data[T](a), LdA: a.Dim(1), TransA: g.TransA,
		B: matmul.Data[T](b), LdB: b.Dim(1), TransB: g.TransB, C: matmul.Data[T](y), LdC: n}
	return gemmRun(c, g, &args, add)
}

// gemmRun computes the product of args and adds Beta·add. Factors of integers are applied in
// float64, and the result is truncated.
func gemmRun[T gemm.Number](c *ir.Call, g *Gemm, args *gemm.Args[T], add []T) error {
	m, n := args.M, args.N
	rs, cs, err := matmul.GemmAddSteps(c.Tensor(2), m, n)
	if err != nil {
		return err
	}
	if len(args.C) == 0 {
		return nil
	}
	if f, ok := any(args).(*gemm.Args[float32]); ok && !c.Generic && g.Alpha != 0 {
		return g.fused(c, f, any(add).([]float32), rs, cs)
	}
	if err := matmul.One(c, args); err != nil {
		return err
	}
	matmul.GemmScale(args.C, g.Alpha, c.Tensor(0).DType())
	if add == nil || g.Beta == 0 {
		return nil
	}
	if doubles, ok := any(args.C).([]float64); ok && g.Beta == 1 && cs == 1 {
		addDoubles(doubles, any(add).([]float64), rs, n)
		return nil
	}
	for i := range m {
		for j, row := 0, args.C[i*n:][:n]; j < n; j++ {
			v := add[i*rs+j*cs]
			if g.Beta != 1 {
				v = matmul.GemmScaled(v, g.Beta, c.Tensor(0).DType())
			}
			row[j] += v
		}
	}
	return nil
}

// addDoubles adds to each row of n elements of c a row of add, in which rows are step elements
// apart.
func addDoubles(c, add []float64, step, n int) {
	for i := 0; i < len(c); i += n {
		vec.AddF64(cpu.Active(), c[i:][:n], c[i:][:n], add[i/n*step:][:n])
	}
}

// fused multiplies and adds in one pass. add has the steps rs and cs between rows and columns,
// which are 0 where it broadcasts.
func (g *Gemm) fused(c *ir.Call, f *gemm.Args[float32], add []float32, rs, cs int) error {
	f.Alpha = g.Alpha
	if add != nil && g.Beta != 0 {
		if n := len(add); g.Beta != 1 || n == 1 {
			if n == 1 {
				rs, n = 0, f.N // a row
			}
			scaled, err := ir.ScratchOf[float32](c, n)
			if err != nil {
				return err
			}
			if len(add) == 1 {
				kit.RepeatOf(scaled, g.Beta*add[0])
			} else {
				vec.MulScalarF32(cpu.Active(), scaled, add, g.Beta)
			}
			add = scaled
		}
		switch {
		case rs == 0:
			f.BiasCol = add
		case cs == 0:
			f.BiasRow = add
		default:
			f.Add, f.LdAdd = add, f.N
		}
	}
	if c.Capturing {
		if done, err := matmul.LaunchGemm(c, f); done || err != nil {
			return err
		}
	}
	return matmul.GemmParallel(c, f)
}

// gemmPacked is a Gemm of float32 with constant B.
type gemmPacked struct {
	Gemm
	b    []int
	data *matmul.PackedReals
}

// Prepare packs a constant B.
func (g *Gemm) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	b, ok := in[1].(*tensor.Tensor)
	if !ok || b.Rank() != 2 || !matmul.Packable(b) {
		return nil, nil, nil
	}
	data, err := matmul.PackMatrix(b, g.TransB, false)
	if err != nil {
		return nil, nil, err
	}
	return &gemmPacked{Gemm: *g, b: b.Shape(), data: data}, []int{1}, nil
}

// Rounded implements [ir.Rounder]. Only packed matrices are rounded.
func (*Gemm) Rounded() ir.Operator { return nil }

// Rounded implements [ir.Rounder].
func (g *gemmPacked) Rounded() ir.Operator {
	if data := g.data.Rounded(); data != nil {
		return &gemmPacked{g.Gemm, g.b, data}
	}
	return nil
}

// Run multiplies by the packed matrix.
func (g *gemmPacked) Run(c *ir.Call) error { return g.runFloat(c, g.data, g.b) }
