package opfuzz

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// perturbed holds the results of a chain with perturbed values.
type perturbed struct {
	results []map[string]tensor.Value
	// large is set if there are numbers whose products overflow float32: the order of sums and
	// factors decides which of them become infinite.
	large bool
	// infinite is set if there are infinities, for which a fused operator may return a limit
	// and its parts NaN, or the reverse: x·sigmoid(x) of -∞ is NaN, Silu 0. The same holds for
	// NaN among the weights of a window, whose products with the padding may be omitted.
	infinite bool
	// shapesVary is set if shapes depend on the last bits of values.
	shapesVary bool
}

// moves lists the operators that add no rounding.
var moves = words(`Identity Constant Reshape Transpose Flatten Squeeze Unsqueeze Slice Gather Concat Split Expand Tile Pad Cast Relu Neg Abs Dropout Clip Max Min
	Where ReduceMax ReduceMin MaxPool GatherElements ScatterND DepthToSpace SpaceToDepth`)

// perturb runs a chain under a feed many times with its values perturbed.
func (c *Chain) perturb(feed int, loose bool) (*perturbed, error) {
	values, err := c.all(feed)
	if err != nil {
		return nil, err
	}
	m := *c.Model
	g := *m.Graph
	sized := map[string]bool{} // values that determine shapes
	for _, n := range g.Nodes {
		if n.OpType == "Resize" || n.OpType == "Range" || n.OpType == "Upsample" {
			for i, in := range n.Inputs {
				sized[in] = sized[in] || i > 0 || n.OpType == "Range"
			}
		}
	}
	noisy := func(name string) bool {
		t, ok := values[name].(*tensor.Tensor)
		if !ok || sized[name] {
			return false
		}
		_, ok = roundings[t.DType()]
		return ok
	}
	var names []string
	made, inner := map[string]bool{}, map[string]float64{} // by nodes
	var nodes []*onnx.Node
	// noise adds the product of a value and its noise, under the value's name.
	noise := func(name string) string {
		names = append(names, name)
		nodes = append(nodes, &onnx.Node{OpType: "Mul", Inputs: []string{name + "_exact", name + "_noise"},
			Outputs: []string{name + "_scaled"}},
			&onnx.Node{OpType: "Add", Inputs: []string{name + "_scaled", name + "_shift"}, Outputs: []string{name}})
		return name + "_exact"
	}
	g.Inputs, g.Initializers = nil, nil
	for _, in := range c.Model.Graph.Inputs {
		if noisy(in.Name) {
			in = &onnx.ValueInfo{Name: noise(in.Name), Type: in.Type}
		}
		g.Inputs = append(g.Inputs, in)
	}
	for _, t := range c.Model.Graph.Initializers {
		if noisy(t.Name) {
			r := *t
			r.Name = noise(t.Name)
			t = &r
		}
		g.Initializers = append(g.Initializers, t)
	}
	var others []other
	centres := map[string]*tensor.Tensor{} // added to the input of an operator that subtracts a mean
	for _, n := range c.Model.Graph.Nodes {
		if moves[n.OpType] {
			nodes = append(nodes, n)
			continue
		}
		r := *n
		r.Outputs = slices.Clone(n.Outputs)
		if centred[n.OpType] && noisy(n.Inputs[0]) {
			name := fmt.Sprintf("%s_centre%d", n.Inputs[0], len(centres))
			centres[name] = values[n.Inputs[0]].(*tensor.Tensor)
			for _, in := range n.Inputs { // the largest summand
				if t, ok := values[in].(*tensor.Tensor); ok && t.DType() == centres[name].DType() {
					inner[name] = max(inner[name], most(t))
				}
			}
			r.Inputs = slices.Clone(n.Inputs)
			r.Inputs[0] = name + "_moved"
			nodes = append(nodes,
				&onnx.Node{OpType: "Add", Inputs: []string{n.Inputs[0], name}, Outputs: []string{r.Inputs[0]}})
		}
		nodes = append(nodes, &r)
		for i, out := range n.Outputs {
			if out == "" {
				continue
			}
			isNoisy := noisy(out)
			if isNoisy {
				made[out] = true
				inner[out] = innerNumbers[n.OpType]
				if d := values[out].(*tensor.Tensor).DType(); coarsest(n) > roundings[d] {
					inner[out] *= coarsest(n) / roundings[d]
				}
				r.Outputs[i] = out + "_exact"
			}
			if o := otherResult(n, values); o != nil && i == 0 {
				o.name = out
				others = append(others, *o)
				nodes = append(nodes,
					&onnx.Node{OpType: "Where", Inputs: []string{out + "_where", out + "_other", out + "_plain"},
						Outputs: []string{r.Outputs[i]}})
				r.Outputs[i] = out + "_plain"
			}
			if isNoisy {
				noise(out)
			}
		}
	}
	g.Nodes = nodes
	m.Graph = &g
	feeds := []map[string]tensor.Value{{}}
	for _, name := range names {
		t := values[name].(*tensor.Tensor)
		g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: name + "_noise", Type: onnx.NewType(t.Type())},
			&onnx.ValueInfo{Name: name + "_shift", Type: onnx.NewType(t.Type())})
	}
	for name, t := range centres {
		g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: name, Type: onnx.NewType(t.Type())})
	}
	for _, o := range others {
		g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: o.name + "_where", Type: onnx.NewType(o.where.Type())},
			&onnx.ValueInfo{Name: o.name + "_other", Type: onnx.NewType(o.value.Type())})
	}
	s := &perturbed{}
	for _, v := range values {
		if t, ok := v.(*tensor.Tensor); ok && t.DType() == tensor.TypeFloat32 && most(t) > 1e15 {
			s.large = true
		}
		s.infinite = s.infinite || anyElement(v, func(v float64) bool { return math.IsInf(v, 0) })
	}
	for _, n := range g.Nodes {
		if strings.Contains(n.OpType, "Conv") && len(n.Inputs) > 1 {
			s.infinite = s.infinite || anyElement(values[n.Inputs[1]], math.IsNaN)
		}
	}
	g.Outputs = slices.Clone(g.Outputs)
	for _, name := range names {
		if made[name] { // noise of another shape may broadcast
			g.Outputs = append(g.Outputs, &onnx.ValueInfo{Name: name + "_exact"})
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 33 { // the first run is unperturbed and must succeed
		f := map[string]tensor.Value{}
		way := 0.0 // 1 or -1: all perturbations in one direction, for limits that are always a little off
		switch i % 8 {
		case 1:
			way = 1
		case 5:
			way = -1
		}
		for name, v := range c.Feeds[feed] {
			if noisy(name) {
				name += "_exact"
			}
			f[name] = v
		}
		for _, name := range names {
			t := values[name].(*tensor.Tensor)
			e, shift := roundings[t.DType()]*[]float64{0.25, 1}[i%2], 0.0
			if loose && made[name] {
				e *= 4
				shift = e / 10 * most(t)
			}
			shift = max(shift, e*inner[name]*max(1, most(t)))
			if i == 0 {
				e, shift = 0, 0
			}
			f[name+"_noise"], f[name+"_shift"] = around(rng, t, 1, e, way), around(rng, t, 0, shift, way)
		}
		for _, name := range slices.Sorted(maps.Keys(centres)) {
			t := centres[name]
			e := 0.0
			if i > 0 {
				e = roundings[t.DType()] * inner[name]
			}
			f[name] = around(rng, t, 0, e, 0)
		}
		for _, o := range others {
			if t, ok := f[o.name+"_shift"].(*tensor.Tensor); ok && i%4 == 2 {
				o.hold(t)
			}
			f[o.name+"_where"], f[o.name+"_other"] = tensor.Must(tensor.Zeros(tensor.TypeBool, o.where.Shape()...)),
				o.value
			if i%4 == 2 {
				f[o.name+"_where"] = o.where
			}
		}
		feeds[0] = f
		// Each run has a session of its own, because the noise may change shapes.
		switch out, err := runModel(&m, feeds, reference); {
		case err == nil:
			s.results = append(s.results, out[0])
			for name := range made {
				t, ok := out[0][name+"_exact"].(*tensor.Tensor)
				s.shapesVary = s.shapesVary || !ok || !slices.Equal(t.Shape(), values[name].(*tensor.Tensor).Shape())
			}
		case i == 0:
			return nil, err
		default:
			s.shapesVary = true
		}
	}
	return s, nil
}

// innerNumbers lists the operators with intermediate numbers that may cancel (gates, a sum
// whose logarithm is near 0, values of subgraphs), with the error of their results as a
// fraction of the rounding of 1.
var innerNumbers = map[string]float64{"RNN": 0.25, "GRU": 0.25, "LSTM": 0.25, "If": 0.5, "Loop": 0.5, "LogSoftmax": 0.1,
	"SoftmaxCrossEntropyLoss": 0.1}

// coarsest returns the rounding of the narrowest floating-point type to which the subgraphs
// of a node cast, 0 if they cast to none.
func coarsest(n *onnx.Node) (e float64) {
	for _, a := range n.Attributes {
		if a.G == nil {
			continue
		}
		for _, inner := range a.G.Nodes {
			if e = max(e, coarsest(inner)); inner.OpType == "Cast" {
				for _, to := range inner.Attributes {
					if to.Name == "to" {
						e = max(e, roundings[tensor.DType(to.I)])
					}
				}
			}
		}
	}
	return e
}

// centred lists the operators that subtract a mean from their first input, or from a sum with it.
// They may divide the difference by a number near 0. The mean of equal numbers is rounded, so the
// quotient may be large.
var centred = words(`GroupNorm SkipGroupNorm GroupNormalization InstanceNormalization LayerNormalization SkipLayerNormalization MeanVarianceNormalization`)

// other is an alternative result that kernels of a node may return.
type other struct {
	name  string
	where *tensor.Tensor // selects the elements
	value *tensor.Tensor // their alternative values
}

// hold clears the elements of a shift that the alternative result covers.
func (o *other) hold(shift *tensor.Tensor) {
	size := shift.DType().Size()
	for i, is := range tensor.MustData[bool](o.where) {
		if is {
			clear(shift.Bytes()[i*size:][:size])
		}
	}
}

// otherResult returns the alternative result of a node, nil if it has none:
//   - LogSoftmax may return 0 for results next to it. All others have operands that are not
//     finite.
//   - Convolutions may multiply any number of an image by zeros, which stand for weights of
//     other groups or come from a Winograd transform: one infinity or NaN may make every
//     result of its image NaN.
//   - x·f(x) with f(x) = 0 for an infinite x is NaN if computed in parts, 0 in one operator.
func otherResult(n *onnx.Node, values map[string]tensor.Value) *other {
	if n.OpType == "LogSoftmax" {
		return nextToZero(values[n.Outputs[0]])
	}
	if len(n.Inputs) < 2 || len(n.Outputs) == 0 {
		return nil
	}
	x, ok := values[n.Inputs[0]].(*tensor.Tensor)
	w, ok2 := values[n.Inputs[1]].(*tensor.Tensor)
	y, ok3 := values[n.Outputs[0]].(*tensor.Tensor)
	if !ok || !ok2 || !ok3 || y.DType() != tensor.TypeFloat32 || x.DType() != y.DType() || w.DType() != y.DType() {
		return nil
	}
	where := tensor.Must(tensor.Zeros(tensor.TypeBool, y.Shape()...))
	mask, xs, ws, ys := tensor.MustData[bool](where), tensor.MustData[float32](x), tensor.MustData[float32](w),
		tensor.MustData[float32](y)
	infinite := func(v float32) bool { return math.IsInf(float64(v), 0) }
	unsure := func(v float32) bool { return v-v != 0 } // NaN or infinite
	value := float32(math.NaN())
	switch {
	case strings.Contains(n.OpType, "Conv") && x.Rank() > 1 && y.Rank() > 1 && x.Dim(0) == y.Dim(0):
		for i := range x.Dim(0) {
			in, out := len(xs)/x.Dim(0), len(ys)/x.Dim(0)
			if slices.ContainsFunc(xs[i*in:][:in], unsure) || slices.ContainsFunc(ws, unsure) {
				for k := range out {
					mask[i*out+k] = true
				}
			}
		}
	case n.OpType == "Mul" && slices.Equal(x.Shape(), y.Shape()) && slices.Equal(w.Shape(), y.Shape()):
		value = 0
		for i, v := range ys {
			mask[i] = v != v && (infinite(xs[i]) && ws[i] == 0 || infinite(ws[i]) && xs[i] == 0)
		}
	}
	if !slices.Contains(mask, true) {
		return nil
	}
	return &other{where: where, value: tensor.Scalar(value)}
}

// roundings maps types to the relative error that one operator may add.
var roundings = map[tensor.DType]float64{tensor.TypeFloat32: 1e-6, tensor.TypeFloat64: 4e-15, tensor.TypeFloat16: 2e-3,
	tensor.TypeBFloat16: 1.6e-2}

// nextToZero selects the elements that are smaller than the rounding of a sum around 1.
func nextToZero(v tensor.Value) *other {
	y, ok := v.(*tensor.Tensor)
	if !ok {
		return nil
	}
	f, err := Floats(y)
	if err != nil {
		return nil
	}
	where := tensor.Must(tensor.Zeros(tensor.TypeBool, y.Shape()...))
	for i, v := range f {
		tensor.MustData[bool](where)[i] = math.Abs(v) < roundings[y.DType()]/10
	}
	if !slices.Contains(tensor.MustData[bool](where), true) {
		return nil
	}
	return &other{where: where, value: tensor.Must(tensor.Zeros(y.DType()))}
}

// around returns a tensor with the type and shape of t. Its numbers are x+e if way is 1, x−e if way
// is -1, else drawn within x±e.
func around(rng *rand.Rand, t *tensor.Tensor, x, e, way float64) *tensor.Tensor {
	r := tensor.Must(tensor.Zeros(t.DType(), t.Shape()...))
	v := make([]float64, t.Len())
	for i := range v {
		if v[i] = x + e*way; way == 0 {
			v[i] += e * (2*rng.Float64() - 1)
		}
	}
	if err := tensor.ConvertInto(r, tensor.Must(tensor.New(v, shapeOf(t.Shape(), len(v))...)),
		nil); err != nil {
		panic(err)
	}
	return r
}
