package msft

import (
	"math"
	"slices"
	"sort"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// moeAttrs holds the attributes that the mixture-of-experts operators of com.microsoft
// share.
type moeAttrs struct {
	K            int  // number of experts per token
	Normalize    bool // normalize the weights of a token's experts to sum 1
	Activation   string
	Alpha, Beta  float32 // parameters of SwiGLU
	Limit        float32 // SwiGLU clamps its inputs to this magnitude
	SwigluFusion int     // location of the halves of SwiGLU: 0 FC1 and FC3, 1 interleaved in FC1, 2 concatenated in FC1
}

func readMoE(a *kit.Attrs) moeAttrs {
	m := moeAttrs{
		K: a.Int("k", 1), Normalize: a.Bool("normalize_routing_weights", false),
		Activation: a.Enum("activation_type", "relu", "relu", "gelu", "silu", "swiglu", "identity"),
		Alpha:      a.Float("activation_alpha", 1), Beta: a.Float("activation_beta", 0),
		Limit: a.Float("swiglu_limit", float32(math.Inf(1))), SwigluFusion: a.Int("swiglu_fusion", 0),
	}
	if m.K < 1 {
		a.Errorf("attribute k is %d, want at least 1", m.K)
	}
	if m.SwigluFusion < 0 || m.SwigluFusion > 2 {
		a.Errorf("attribute swiglu_fusion is %d, want 0, 1 or 2", m.SwigluFusion)
	}
	if a.Bool("use_sparse_mixer", false) {
		a.Errorf("attribute use_sparse_mixer is not supported")
	}
	return m
}

// fused reports whether FC1 computes both halves of SwiGLU.
func (m *moeAttrs) fused() bool { return m.Activation == "swiglu" && m.SwigluFusion != 0 }

// moeLayer is one linear layer of all experts, from in to out features.
type moeLayer struct {
	in, out int
	weights func(expert int) ([]float32, error) // [out, in]
	bias    []float32                           // [experts, out] or nil
}

// moeRun is the state of one run of a mixture of experts.
type moeRun struct {
	moeAttrs
	experts, hidden int
	x               []float32 // [tokens, hidden]
	choice, mix     []float32 // [tokens, experts]: router logits; mix, if not nil, holds the weights of the experts
	fc1, fc2, fc3   *moeLayer // fc3 may be nil
}

// check returns an error if the shapes of the layers are inconsistent.
func (m *moeRun) check() error {
	inter := m.fc2.in
	width := inter
	if m.fused() {
		width = 2 * inter
	}
	switch {
	case m.K > m.experts:
		return fail.Errorf("attribute k is %d, want at most %d experts", m.K, m.experts)
	case m.fc1.in != m.hidden || m.fc2.out != m.hidden || m.fc1.out != width || inter > math.MaxInt/2:
		return fail.Errorf("FC1 has shape [%d %d] and FC2 [%d %d], want [%d %d] and [%[6]d %d]",
			m.fc1.out, m.fc1.in, m.fc2.out, m.fc2.in, width, m.hidden, inter)
	case m.fc3 != nil && (m.fc3.in != m.hidden || m.fc3.out != inter || m.fused()):
		return fail.Errorf("FC3 has shape [%d %d], want [%d %d] and no fused SwiGLU", m.fc3.out,
			m.fc3.in, inter, m.hidden)
	case m.fc3 == nil && m.Activation == "swiglu" && !m.fused():
		return fail.Errorf("SwiGLU requires FC3 if attribute swiglu_fusion is 0")
	}
	return nil
}

// moeRoute assigns a token to an expert.
type moeRoute struct {
	token, expert int
	weight        float32
}

// routes returns the assignments of tokens to experts, sorted by expert, then by token.
// Each token goes to the K experts with the greatest router logits; of equal ones, the
// last win.
func (m *moeRun) routes(c *ir.Call, tokens int) ([]moeRoute, error) {
	if tokens > math.MaxInt/m.K {
		return nil, fail.Errorf("%d tokens times %d experts overflow", tokens, m.K)
	}
	routes, err := ir.ScratchOf[moeRoute](c, tokens*m.K)
	if err != nil {
		return nil, err
	}
	order := make([]int, m.experts)
	probs := make([]float32, m.experts)
	for t := range tokens {
		if err := c.Err(); err != nil {
			return nil, err
		}
		row := m.choice[t*m.experts:][:m.experts]
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			switch {
			case row[a] > row[b]:
				return -1
			case row[a] < row[b]:
				return 1
			}
			return b - a
		})
		top, sum := row[order[0]], 0.0
		for i, v := range row {
			e := math.Exp(float64(v - top))
			probs[i] = float32(e)
			sum += e
		}
		chosen := float32(0)
		for j, e := range order[:m.K] {
			w := float32(float64(probs[e]) / sum)
			if m.mix != nil {
				w = m.mix[t*m.experts+e]
			}
			routes[t*m.K+j] = moeRoute{t, e, w}
			chosen += w
		}
		if m.Normalize && chosen != 0 {
			for j := range m.K {
				routes[t*m.K+j].weight /= chosen
			}
		}
	}
	sort.Slice(routes, func(i, k int) bool {
		a, b := &routes[i], &routes[k]
		return a.expert < b.expert || a.expert == b.expert && a.token < b.token
	})
	return routes, nil
}

// run writes the weighted sums of the experts' outputs to y.
func (m *moeRun) run(c *ir.Call, y []float32) error {
	ir.Clear(c, y)
	if len(y) == 0 {
		return nil
	}
	tokens := len(y) / m.hidden
	routes, err := m.routes(c, tokens)
	if err != nil {
		return err
	}
	most := 0
	for lo := 0; lo < len(routes); {
		hi := expertEnd(routes, lo)
		most, lo = max(most, hi-lo), hi
	}
	var buf [4][]float32 // tokens, FC1, FC3, FC2
	for i, width := range []int{m.hidden, m.fc1.out, m.fc2.in, m.hidden} {
		if width > 0 && most > math.MaxInt/width {
			return fail.Errorf("%d tokens of %d features are too many", most, width)
		}
		if buf[i], err = ir.ScratchOf[float32](c, most*width); err != nil {
			return err
		}
	}
	level := cpu.Active()
	if c.Generic {
		level = cpu.Generic
	}
	for lo := 0; lo < len(routes); {
		hi := expertEnd(routes, lo)
		part, n := routes[lo:hi], hi-lo
		e := part[0].expert
		x, h, l, z := buf[0][:n*m.hidden], buf[1][:n*m.fc1.out], buf[2][:n*m.fc2.in], buf[3][:n*m.hidden]
		grain := max(1, kit.GrainCheap/m.hidden)
		c.Parallel(n, grain, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				copy(x[i*m.hidden:][:m.hidden], m.x[part[i].token*m.hidden:])
			}
		})
		if err := m.fc1.apply(c, e, h, x); err != nil {
			return err
		}
		if m.fc3 != nil {
			if err := m.fc3.apply(c, e, l, x); err != nil {
				return err
			}
		}
		h = m.activate(c, h, l)
		if err := m.fc2.apply(c, e, z, h); err != nil {
			return err
		}
		c.Parallel(n, grain, func(lo, hi int) { // an expert gets each token once
			for i := lo; i < hi; i++ {
				r := part[i]
				dst := y[r.token*m.hidden:][:m.hidden]
				vec.AxpyF32(level, dst, z[i*m.hidden:][:m.hidden], r.weight)
			}
		})
		lo = hi
	}
	return nil
}

// expertEnd returns the end of the range of routes, from lo on, to one expert.
func expertEnd(routes []moeRoute, lo int) int {
	hi := lo
	for hi < len(routes) && routes[hi].expert == routes[lo].expert {
		hi++
	}
	return hi
}

// apply computes x·Wᵀ + bias for the rows of x.
func (l *moeLayer) apply(c *ir.Call, expert int, y, x []float32) error {
	if len(y) == 0 {
		return nil
	}
	w, err := l.weights(expert)
	if err != nil {
		return err
	}
	n := len(y) / l.out
	g := gemm.Args[float32]{M: n, N: l.out, K: l.in, A: x, LdA: l.in, B: w, LdB: l.in, TransB: true, C: y, LdC: l.out}
	if l.bias != nil && !c.Generic {
		g.BiasCol = l.bias[expert*l.out:][:l.out]
	}
	if err := matmul.One(c, &g); err != nil {
		return err
	}
	if l.bias != nil && c.Generic {
		for i := range n {
			elementwise.AddLoop(y[i*l.out:][:l.out], y[i*l.out:][:l.out], l.bias[expert*l.out:][:l.out])
		}
	}
	return nil
}

// activate combines the outputs of FC1 and FC3 into the input of FC2. The result may
// share memory with h.
func (m *moeRun) activate(c *ir.Call, h, l []float32) []float32 {
	if m.Activation == "swiglu" {
		return m.swiglu(c, h, l)
	}
	c.Parallel(len(h), kit.GrainCostly, func(lo, hi int) {
		h := h[lo:hi]
		level := cpu.Active()
		switch {
		case m.Activation == "relu" && c.Generic:
			for i, v := range h {
				h[i] = max(v, 0)
			}
		case m.Activation == "relu":
			vec.ReluF32(level, h, h)
		case m.Activation == "gelu" && c.Generic:
			kit.GeluTanhLoop(h, h)
		case m.Activation == "gelu":
			vec.GeluTanhF32(level, h, h)
		case m.Activation == "silu" && c.Generic:
			kit.SwishLoop(h, h, 1)
		case m.Activation == "silu":
			vec.SiluF32(level, h, h)
		}
		if m.fc3 != nil {
			elementwise.MulLoop(h, h, l[lo:hi])
		}
	})
	return h
}

// swiglu computes g·sigmoid(Alpha·g)·(l + Beta).
func (m *moeRun) swiglu(c *ir.Call, h, l []float32) []float32 {
	inter := m.fc2.in
	out := h
	if m.fused() {
		out = h[:len(h)/2]
	}
	limit := float64(m.Limit)
	// In order, since the result may overwrite rows that have been read.
	c.Serial(len(out), kit.GrainCostly, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			var g, v float64
			row, j := 0, 0
			if inter > 0 {
				row, j = i/inter, i%inter
			}
			switch m.SwigluFusion {
			case 0:
				g, v = float64(h[i]), float64(l[i])
			case 1:
				g, v = float64(h[2*i]), float64(h[2*i+1])
			default:
				// Both halves of a row are read before the elements that they share memory with are
				// written: row r of the result is in row r/2 of the input.
				g, v = float64(h[2*row*inter+j]), float64(h[(2*row+1)*inter+j])
			}
			g = min(g, limit)
			v = max(min(v, limit), -limit)
			out[i] = float32(g / (1 + math.Exp(-float64(m.Alpha)*g)) * (v + float64(m.Beta)))
		}
	})

	return out
}

// moeTokens returns the number of tokens and the hidden size of an input.
func moeTokens(x, router []int) (tokens, hidden int, err error) {
	r := len(x)
	if r != 2 && r != 3 {
		return 0, 0, fail.Errorf("input has shape %v, want [tokens hidden] or [batch length hidden]", x)
	}
	tokens, hidden = kit.Product(x[:r-1]), x[r-1]
	if len(router) != 2 || router[0] != tokens || router[1] < 1 {
		return 0, 0, fail.Errorf("router_probs has shape %v, want [%d experts]", router, tokens)
	}
	return tokens, hidden, nil
}

// inferMoE sets the output type and checks the known ranks of input and router_probs.
func inferMoE(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if s := c.Shape(0); s != nil && len(s) != 2 && len(s) != 3 {
		return fail.Errorf("input has rank %d, want 2 or 3", len(s))
	}
	return kit.CheckRank(c, 1, 2, "router_probs")
}

// moeBias reads a bias [experts, out], or returns nil if it is missing.
func moeBias(c *ir.Call, i, experts, out int) ([]float32, error) {
	t := c.Tensor(i)
	if t == nil {
		return nil, nil
	}
	if !slices.Equal(t.Shape(), []int{experts, out}) {
		return nil, fail.Errorf("bias, input %d, has shape %v, want [%d %d]", i, t.Shape(), experts, out)
	}
	return kit.RealIn[float32](c, t)
}

// moeDense reads the layer whose weights, [experts, out, in], and bias are inputs i and
// i+1. It returns nil if there are no weights.
func moeDense(c *ir.Call, i, experts int) (*moeLayer, error) {
	t := c.Tensor(i)
	if t == nil {
		return nil, nil
	}
	s := t.Shape()
	if len(s) != 3 || s[0] != experts {
		return nil, fail.Errorf("weights, input %d, have shape %v, want [%d out in]", i, s, experts)
	}
	l := &moeLayer{in: s[2], out: s[1]}
	var err error
	if l.bias, err = moeBias(c, i+1, experts, l.out); err != nil {
		return nil, err
	}
	size := l.in * l.out
	if t.DType() == tensor.TypeFloat32 {
		all := tensor.MustData[float32](t)
		l.weights = func(e int) ([]float32, error) { return all[e*size:][:size], nil }
		return l, nil
	}
	// 16-bit types are converted to float32 one expert at a time.
	wide, err := kit.ScratchTensor(c, tensor.TypeFloat32, s[1:])
	if err != nil {
		return nil, err
	}
	l.weights = func(e int) ([]float32, error) {
		var one tensor.Tensor
		one.Reset(t.DType(), t.Bytes()[2*e*size:2*(e+1)*size], s[1:])
		return tensor.MustData[float32](wide), kit.ConvertInto(c, wide, &one, tensor.ConvertOptions{})
	}
	return l, nil
}

// MoE is a mixture of experts. For every token it selects the K experts with the greatest
// softmax of router_probs and returns the sum of their outputs,
// FC2(activation(FC1(x))·FC3(x)), weighted by the softmax. FC3 is optional
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MoE).
type MoE struct{ moeAttrs }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MoE", Since: kit.Versions{1},
	Class: kit.ClassLinear,
	In: "input:T, router_probs:T, fc1_experts_weights:T, fc1_experts_bias:T?, fc2_experts_weights:T, " +
		"fc2_experts_bias:T?, " +
		"fc3_experts_weights:T?, fc3_experts_bias:T?",
	Out: "output:T", Types: "T: float float16 bfloat16",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &MoE{readMoE(a)} }})

// Infer keeps the shape.
func (*MoE) Infer(c *ir.InferContext) error { return inferMoE(c) }

// Run computes 16-bit types in float32.
func (op *MoE) Run(c *ir.Call) error {
	x, router := c.Tensor(0), c.Tensor(1)
	_, hidden, err := moeTokens(x.Shape(), router.Shape())
	if err != nil {
		return err
	}
	m := &moeRun{moeAttrs: op.moeAttrs, experts: router.Dim(1), hidden: hidden}
	for i, l := range []**moeLayer{&m.fc1, &m.fc2, &m.fc3} {
		if *l, err = moeDense(c, 2+2*i, m.experts); err != nil {
			return err
		}
	}
	return m.finish(c)
}

// finish reads the tokens and runs the experts.
func (m *moeRun) finish(c *ir.Call) error {
	if err := m.check(); err != nil {
		return err
	}
	x := c.Tensor(0)
	var err error
	if m.x, err = kit.RealIn[float32](c, x); err != nil {
		return err
	}
	if m.choice, err = kit.RealIn[float32](c, c.Tensor(1)); err != nil {
		return err
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	if err := m.run(c, y.Data); err != nil {
		return err
	}
	y.Store()
	return nil
}
