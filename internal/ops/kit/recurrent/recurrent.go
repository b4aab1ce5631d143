// Package recurrent runs recurrent layers: their attributes and inputs, packed weights, and the
// steps over a sequence. RNN, GRU and LSTM of ai.onnx and the recurrent operators of com.microsoft
// import it.
package recurrent

import (
	"math"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// Activation is an activation function of a recurrent operator.
type Activation struct {
	Name        string // lower case
	Alpha, Beta float64
}

// ActivationDefaults holds the default alpha and beta of the functions that have them, and the
// number of their parameters.
var ActivationDefaults = map[string]struct {
	Alpha, Beta float64
	params      int
}{
	"relu": {}, "tanh": {}, "sigmoid": {}, "softsign": {}, "softplus": {},
	"affine":          {1, 0, 2},
	"leakyrelu":       {0.01, 0, 1},
	"thresholdedrelu": {1, 0, 1},
	"scaledtanh":      {1, 1, 2},
	"hardsigmoid":     {0.2, 0.5, 2},
	"elu":             {1, 0, 1},
}

// Layer holds the common attributes of RNN, GRU and LSTM.
type Layer struct {
	gates      int // per cell
	Reverse    []bool
	Act        [][]Activation // per direction
	Clip       float64        // 0: none
	hidden     int            // hidden_size; −1 if not set
	batchFirst bool           // layout 1
	More       int            // columns of W after those for the input
	threads    int            // of the plan; 0: not known
	Bytes      bool           // W and R are 8-bit integers, [directions rows gates·hidden]; see [Bytes]
}

// SetThreads implements [ir.Threaded].
func (r *Layer) SetThreads(n int) {
	if r.threads != n { // runs of other plans may read it
		r.threads = n
	}
}

// Build reads the common attributes. defaults are the activations of one direction.
func Build(a *kit.Attrs, opset, gates int, defaults ...string) Layer {
	r := Layer{gates: gates, hidden: a.Int("hidden_size", -1)}
	if a.Has("hidden_size") && r.hidden < 1 {
		a.Errorf("hidden_size must be positive, got %d", r.hidden)
	}
	switch a.Enum("direction", "forward", "forward", "reverse", "bidirectional") {
	case "reverse":
		r.Reverse = []bool{true}
	case "bidirectional":
		r.Reverse = []bool{false, true}
	default:
		r.Reverse = []bool{false}
	}
	if opset < 7 {
		a.Ignore("output_sequence") // determines only whether Y may be omitted
	}
	if opset >= 14 {
		switch l := a.Int("layout", 0); l {
		case 0, 1:
			r.batchFirst = l == 1
		default:
			a.Errorf("layout is %d, want 0 or 1", l)
		}
	}
	if a.Has("clip") {
		r.Clip = float64(a.Float("clip", 0))
		if !(r.Clip > 0) {
			a.Errorf("clip must be positive, got %v", r.Clip)
		}
	}
	names := a.Strings("activations")
	if names == nil {
		for range r.Reverse {
			names = append(names, defaults...)
		}
	}
	per := len(defaults)
	alpha, beta := a.Floats("activation_alpha"), a.Floats("activation_beta")
	if len(names) < per*len(r.Reverse) {
		a.Errorf("got %d activations, want %d for each of %d directions", len(names), per, len(r.Reverse))
		return r
	}
	// Each function consumes the next alpha and the next beta if it has such a parameter.
	next := func(list *[]float32, def float64) float64 {
		if len(*list) == 0 {
			return def
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return float64(v)
	}
	for d := range r.Reverse {
		var fs []Activation
		for _, n := range names[d*per:][:per] {
			f := Activation{Name: strings.ToLower(n)}
			def, ok := ActivationDefaults[f.Name]
			if !ok {
				a.Errorf("unknown activation %q", n)
			}
			if def.params > 0 {
				f.Alpha = next(&alpha, def.Alpha)
			}
			if def.params > 1 {
				f.Beta = next(&beta, def.Beta)
			}
			fs = append(fs, f)
		}
		r.Act = append(r.Act, fs)
	}
	return r
}

// ApplyCell applies the function to each element in place, after clipping.
func ApplyCell[T kit.RealFloat](c *ir.Call, f *Activation, clip float64, x []T) {
	if clip > 0 {
		for i, v := range x {
			x[i] = min(max(v, T(-clip)), T(clip))
		}
	}
	alpha, beta := f.Alpha, f.Beta
	if x, ok := any(x).([]float32); ok && !c.Generic {
		l := cpu.Active()
		switch f.Name {
		case "sigmoid":
			vec.SigmoidF32(l, x, x)
			return
		case "tanh":
			vec.TanhF32(l, x, x)
			return
		case "relu":
			vec.ReluF32(l, x, x)
			return
		case "leakyrelu":
			vec.LeakyReluF32(l, x, x, float32(alpha))
			return
		case "hardsigmoid":
			vec.HardSigmoidF32(l, x, x, float32(alpha), float32(beta))
			return
		case "elu":
			vec.EluF32(l, x, x, float32(alpha))
			return
		case "softplus":
			vec.SoftplusF32(l, x, x)
			return
		}
	}
	switch f.Name {
	case "sigmoid":
		for i, v := range x {
			x[i] = T(kit.Logistic(float64(v)))
		}
	case "tanh":
		for i, v := range x {
			x[i] = T(math.Tanh(float64(v)))
		}
	case "relu":
		for i, v := range x {
			x[i] = max(v, 0)
		}
	case "affine":
		for i, v := range x {
			x[i] = T(alpha*float64(v) + beta)
		}
	case "leakyrelu":
		for i, v := range x {
			if v < 0 {
				x[i] = T(alpha * float64(v))
			}
		}
	case "thresholdedrelu":
		for i, v := range x {
			if !(float64(v) >= alpha) {
				x[i] = 0
			}
		}
	case "scaledtanh":
		for i, v := range x {
			x[i] = T(alpha * math.Tanh(beta*float64(v)))
		}
	case "hardsigmoid":
		for i, v := range x {
			x[i] = T(min(max(alpha*float64(v)+beta, 0), 1))
		}
	case "elu":
		for i, v := range x {
			if v < 0 {
				x[i] = T(alpha * math.Expm1(float64(v)))
			}
		}
	case "softsign":
		for i, v := range x {
			x[i] = T(float64(v) / (1 + math.Abs(float64(v))))
		}
	case "softplus":
		for i, v := range x {
			x[i] = T(max(float64(v), 0) + math.Log1p(math.Exp(-math.Abs(float64(v)))))
		}
	}
}

// infer infers Y, and as many outputs as states of the shape of a final state.
func (r *Layer) InferWith(c *ir.InferContext, states int) error {
	for i, name := range []string{"X", "W", "R"} {
		if err := kit.CheckRank(c, i, 3, name); err != nil {
			return err
		}
	}
	seq, batch, hidden := ir.Unknown, ir.Unknown, ir.Unknown
	if x := c.Shape(0); x != nil {
		seq, batch = x[0], x[1]
		if r.batchFirst {
			seq, batch = batch, seq
		}
	}
	if s := c.Shape(2); s != nil {
		hidden = s[r.hiddenAxis()]
	}
	if r.hidden >= 0 && !hidden.IsKnown() {
		hidden = ir.Known(r.hidden)
	}
	dirs := ir.Known(len(r.Reverse))
	y, h := []ir.Dim{seq, dirs, batch, hidden}, []ir.Dim{dirs, batch, hidden}
	if r.batchFirst {
		y, h = []ir.Dim{batch, seq, dirs, hidden}, []ir.Dim{batch, dirs, hidden}
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), y...))
	for i := range states {
		c.SetOut(1+i, ir.TensorType(c.Elem(0), h...))
	}
	return nil
}

// hiddenAxis returns the axis of R whose size is the number of hidden units.
func (r *Layer) hiddenAxis() int {
	if r.Bytes {
		return 1
	}
	return 2
}

// recurrentSizes are the sizes of the inputs of a recurrent operator.
type recurrentSizes struct {
	seq, Batch, in, Hidden, steps int
	lens                          []int // per batch item
}

// Run is a run of a recurrent operator.
type Run[T kit.RealFloat] struct {
	*Layer
	recurrentSizes
	C          *ir.Call
	x, w, r, B []T
	y          kit.RealOutput[T]
	final      []kit.RealOutput[T] // Y_h, Y_c
	packed     *Weights            // replaces w and r
	initial    [][]T               // initial states in the order of final; nil for zeros
	Products   Products[T]         // replaces w and r, or nil
}

// Products multiplies rows of x by the matrix of direction d, which is R if state is
// set and W otherwise.
type Products[T kit.RealFloat] func(d int, state bool, rows int, x, out []T) error

// sizes checks the shapes of the inputs. states lists those with the initial states.
func (r *Layer) sizes(c *ir.Call, packed *Weights, states []int) (*recurrentSizes, error) {
	x := c.Tensor(0)
	var shapes [3][]int // of W and R
	if packed != nil {
		shapes[1], shapes[2] = packed.w, packed.r
	} else {
		shapes[1], shapes[2] = c.Tensor(1).Shape(), c.Tensor(2).Shape()
	}
	if x.Rank() != 3 || len(shapes[1]) != 3 || len(shapes[2]) != 3 {
		return nil, fail.Errorf("X, W and R have shapes %v, %v and %v, want rank 3", x.Shape(), shapes[1], shapes[2])
	}
	s := &recurrentSizes{seq: x.Dim(0), Batch: x.Dim(1), in: x.Dim(2), Hidden: shapes[2][r.hiddenAxis()]}
	if r.batchFirst {
		s.seq, s.Batch = s.Batch, s.seq
	}
	if r.hidden >= 0 && r.hidden != s.Hidden {
		return nil, fail.Errorf("hidden_size is %d, but R has shape %v, want equal sizes", r.hidden, shapes[2])
	}
	dirs, h := len(r.Reverse), s.Hidden
	if h > math.MaxInt32 {
		return nil, fail.Errorf("R has shape %v, want a hidden size of at most %d", shapes[2], math.MaxInt32)
	}
	check := func(i int, name string, want ...int) error {
		shape := []int(nil)
		if i < len(shapes) {
			shape = shapes[i]
		} else if t := c.Tensor(i); t != nil {
			shape = t.Shape()
		} else {
			return nil
		}
		if !slices.Equal(shape, want) {
			return fail.Errorf("%s has shape %v, want %v", name, shape, want)
		}
		return nil
	}
	w, u := []int{dirs, r.gates * h, s.in + r.More}, []int{dirs, r.gates * h, h}
	if r.Bytes {
		w, u = []int{dirs, s.in, r.gates * h}, []int{dirs, h, r.gates * h}
	}
	err := check(1, "W", w...)
	if err == nil {
		err = check(2, "R", u...)
	}
	if err == nil {
		err = check(3, "B", dirs, 2*r.gates*h)
	}
	if err == nil {
		err = check(4, "sequence_lens", s.Batch)
	}
	for k, i := range states {
		if err == nil {
			err = check(i, []string{"initial_h", "initial_c"}[k], r.stateShape(s)...)
		}
	}
	if err != nil {
		return nil, err
	}
	s.lens = kit.Ints(c.Tensor(4))
	if s.lens == nil {
		if s.lens, err = kit.MakeInts(c, s.Batch); err != nil {
			return nil, err
		}
		for i := range s.lens {
			s.lens[i] = s.seq
		}
	}
	for i, n := range s.lens {
		if n < 0 || n > s.seq {
			return nil, fail.Errorf("sequence_lens[%d] is %d, want 0 to %d", i, n, s.seq)
		}
		s.steps = max(s.steps, n)
	}
	return s, nil
}

func (r *Layer) stateShape(s *recurrentSizes) []int {
	if r.batchFirst {
		return []int{s.Batch, len(r.Reverse), s.Hidden}
	}
	return []int{len(r.Reverse), s.Batch, s.Hidden}
}

func (r *Layer) outShape(s *recurrentSizes) []int {
	if r.batchFirst {
		return []int{s.Batch, s.seq, len(r.Reverse), s.Hidden}
	}
	return []int{s.seq, len(r.Reverse), s.Batch, s.Hidden}
}

// NewRun checks the shapes and allocates the outputs. packed holds the weights if they are
// constant; states lists the inputs with the initial states.
func NewRun[T kit.RealFloat](c *ir.Call, r *Layer, packed *Weights, states ...int) (*Run[T], error) {
	sizes, err := r.sizes(c, packed, states)
	if err != nil {
		return nil, err
	}
	run := &Run[T]{Layer: r, recurrentSizes: *sizes, C: c, packed: packed}
	for i, dst := range []*[]T{&run.x, &run.w, &run.r, &run.B} {
		if r.Bytes && (i == 1 || i == 2) {
			continue
		}
		if *dst, err = kit.RealIn[T](c, c.Tensor(i)); err != nil {
			return nil, err
		}
	}
	d := c.Tensor(0).DType()
	if c.Wants(0) {
		if run.y, err = kit.RealOut[T](c, 0, d, r.outShape(sizes)...); err != nil {
			return nil, err
		}
		ir.Clear(c, run.y.Data) // padding is 0
	}
	for k, i := range states {
		f, err := kit.RealMaybe[T](c, 1+k, d, r.stateShape(sizes)...)
		if err != nil {
			return nil, err
		}
		s, err := kit.RealIn[T](c, c.Tensor(i))
		if err != nil {
			return nil, err
		}
		run.final, run.initial = append(run.final, f), append(run.initial, s)
	}
	return run, nil
}

// Direction computes one Direction. split is the first gate whose recurrent bias is not added to
// the product of the input. cell is called with the states of one step, [batch, hidden], and
// updates row i of each unfinished batch item from row xw of the product of the input.
func (r *Run[T]) Direction(d, split int, step func(state [][]T, each func(func(i int, xw []T))) error) error {
	h, g := r.Hidden, r.gates*r.Hidden
	xw, err := ir.ScratchOf[T](r.C, r.seq*r.Batch*g)
	if err != nil {
		return err
	}
	if r.Products != nil {
		if err := r.Products(d, false, r.steps*r.Batch, r.x, xw); err != nil {
			return err
		}
	} else {
		bias, err := r.Bias(d, split)
		if err != nil {
			return err
		}
		wide := r.in + r.More
		matmul.MulTransposed(r.C, r.seq*r.Batch, g, r.in, r.x, r.in, r.w[d*g*wide:][:g*wide], wide, bias, xw, g)
	}

	dirs := len(r.Reverse)
	row := func(i int) int { // index in the tensors of states
		if r.batchFirst {
			return (i*dirs + d) * h
		}
		return (d*r.Batch + i) * h
	}
	state := make([][]T, len(r.final))
	for k := range state {
		if state[k], err = ir.ScratchOf[T](r.C, r.Batch*h); err != nil {
			return err
		}
		if r.initial[k] == nil {
			clear(state[k])
			continue
		}
		for i := range r.Batch {
			copy(state[k][i*h:][:h], r.initial[k][row(i):])
		}
	}
	for s := range r.steps {
		if err := r.C.Err(); err != nil {
			return err
		}
		for i, n := range r.lens {
			if r.Products != nil && r.dropped(s, n) {
				clear(state[0][i*h:][:h])
			}
		}
		err := step(state, func(update func(i int, xw []T)) {
			for i, n := range r.lens {
				if s >= n {
					continue
				}
				t := s
				if r.Reverse[d] {
					t = n - 1 - s
				}
				p, q := t*r.Batch+i, ((t*dirs+d)*r.Batch+i)*h
				if r.batchFirst {
					p, q = i*r.seq+t, ((i*r.seq+t)*dirs+d)*h
				}
				update(i, xw[p*g:][:g])
				if r.y.Data != nil {
					copy(r.y.Data[q:][:h], state[0][i*h:])
				}
				for k, f := range r.final {
					if s == n-1 {
						copy(f.Data[row(i):][:h], state[k][i*h:])
					}
				}
			}
		})
		if err != nil {
			return err
		}
	}
	for _, f := range r.final {
		for i, n := range r.lens {
			if n == 0 {
				// as in ONNX Runtime: the specification says nothing of a sequence of no steps
				clear(f.Data[row(i):][:h])
			}
		}
	}
	return nil
}

// dropped reports whether the hidden state of an item of n steps becomes 0 before a step, if 8-bit
// states of all items share a scale. ONNX Runtime reads the states from Y, which is 0 after the
// last step of an item. Without Y, the last state stays.
func (r *Run[T]) dropped(step, n int) bool {
	return step > 0 && step == max(n, 1) && (n == 0 || r.y.Data != nil)
}

// Bias returns the sums of the biases of direction d, or nil if there are none. From gate split on,
// they do not include the recurrent bias.
func (r *Run[T]) Bias(d, split int) ([]T, error) {
	if r.B == nil {
		return nil, nil
	}
	h, g := r.Hidden, r.gates*r.Hidden
	bias, err := ir.ScratchOf[T](r.C, g)
	if err != nil {
		return nil, err
	}
	b := r.B[d*2*g:][:2*g]
	for i := range bias {
		bias[i] = b[i]
		if i < split*h {
			bias[i] += b[g+i]
		}
	}
	return bias, nil
}

// Recurrence multiplies rows of states by the matrices of gates [from, to) of direction d.
func (r *Run[T]) Recurrence(d, from, to int, state, bias, out []T) {
	h := r.Hidden
	w := r.r[(d*r.gates+from)*h*h:][:(to-from)*h*h]
	matmul.MulTransposed(r.C, r.Batch, (to-from)*h, h, state, h, w, h, bias, out, (to-from)*h)
}

// Store converts the results to the types of the outputs.
func (r *Run[T]) Store() {
	for _, o := range append(r.final, r.y) {
		if o.T != nil {
			o.Store()
		}
	}
}

// RunAs calls f32 or f64, for the type in which the operator computes.
func RunAs(c *ir.Call, f32 func() error, f64 func() error) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return f64()
	}
	return f32()
}

// Inputs are the inputs that RNN, GRU and LSTM share.
const Inputs = "X:T, W:T, R:T, B:T?, sequence_lens:int32?, initial_h:T?"
