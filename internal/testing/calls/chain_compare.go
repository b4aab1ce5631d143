package calls

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// runModel runs a model with several feeds, one after the other, on one session. Of
// results there are as many as succeed before the error. A panic is an error.
func runModel(m *onnx.Model, feeds []map[string]tensor.Value, opts *onward.SessionOptions) ([]map[string]tensor.Value, error) {
	return runWanted(m, feeds, make([][]string, len(feeds)), opts)
}

// runWanted is runModel for some of the outputs, another selection for each feed.
func runWanted(m *onnx.Model, feeds []map[string]tensor.Value, outputs [][]string, opts *onward.SessionOptions) (out []map[string]tensor.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("PANIC: %v\n%s", p, debug.Stack())
		}
	}()
	o := *opts
	o.Limits = onward.Limits{MaxMemory: 1 << 28}
	s, err := onward.OpenModel(m, &o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i, f := range feeds {
		r, err := s.Run(ctx, f, &onward.RunOptions{Outputs: outputs[i]})
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Run runs a chain with its feeds, and with the first one again, on one session. Of
// results there are as many as succeed before the error. A panic is an error.
func (c *Chain) Run(opts *onward.SessionOptions) ([]map[string]tensor.Value, error) {
	return c.RunModel(c.Model, opts)
}

// RunModel is Run for another form of the chain's model.
func (c *Chain) RunModel(m *onnx.Model, opts *onward.SessionOptions) ([]map[string]tensor.Value, error) {
	out, err := runModel(m, append(slices.Clone(c.Feeds), c.Feeds[0]), opts)
	if err == nil {
		last := len(out) - 1
		for name, v := range out[0] {
			if err := tensor.Equal(out[last][name], v); err != nil {
				return out, fmt.Errorf("output %s is another when the same feed runs again: %w", name, err)
			}
		}
		out = out[:last]
	}
	return out, err
}

// Turns are runs of a chain on one session.
type Turns struct {
	Feed    []int      // which of the feeds each run has
	Outputs [][]string // what each run wants, nil for all
}

// DrawTurns draws runs with some of the first n feeds: a feed is mostly followed by
// itself, for sessions learn what they repeat.
func (c *Chain) DrawTurns(t *rapid.T, n int) Turns {
	var r Turns
	for range rapid.IntRange(3, 6).Draw(t, "feeds") {
		feed := rapid.IntRange(0, n-1).Draw(t, "feed")
		var names []string
		if rapid.IntRange(0, 2).Draw(t, "some") == 0 {
			for _, o := range c.Model.Graph.Outputs {
				if rapid.Bool().Draw(t, "wanted") {
					names = append(names, o.Name)
				}
			}
		}
		for range rapid.IntRange(1, 5).Draw(t, "runs") {
			r.Feed, r.Outputs = append(r.Feed, feed), append(r.Outputs, names)
		}
	}
	return r
}

// RunTurns runs a chain in turns. Of results there are as many as succeed before the
// error. A panic is an error.
func (c *Chain) RunTurns(turns Turns, opts *onward.SessionOptions) ([]map[string]tensor.Value, error) {
	feeds := make([]map[string]tensor.Value, len(turns.Feed))
	for i, f := range turns.Feed {
		feeds[i] = c.Feeds[f]
	}
	return runWanted(c.Model, feeds, turns.Outputs, opts)
}

// Nodes returns the nodes of the main graph as calls, with the operands they have
// under a feed.
func (c *Chain) Nodes(feed int) ([]*Call, error) {
	values, err := c.all(feed)
	if err != nil {
		return nil, err
	}
	var r []*Call
	for _, n := range c.Model.Graph.Nodes {
		d := &Call{Domain: ops.NormalDomain(n.Domain), Op: n.OpType, Attrs: n.Attributes}
		for _, o := range c.Model.OpsetImports {
			if o.Domain == n.Domain {
				d.Opset = int(o.Version)
			}
		}
		for _, in := range n.Inputs {
			d.In = append(d.In, values[in])
		}
		for _, out := range n.Outputs {
			d.Out = append(d.Out, out != "")
		}
		r = append(r, d)
	}
	return r, nil
}

// all returns every value of the main graph under a feed.
func (c *Chain) all(feed int) (map[string]tensor.Value, error) {
	m := *c.Model
	g := *m.Graph
	g.Outputs = nil
	for _, n := range g.Nodes {
		for _, out := range n.Outputs {
			if out != "" {
				g.Outputs = append(g.Outputs, &onnx.ValueInfo{Name: out})
			}
		}
	}
	m.Graph = &g
	out, err := runModel(&m, c.Feeds[feed:feed+1], reference)
	if err != nil {
		return nil, err
	}
	values := out[0]
	maps.Copy(values, c.Feeds[feed])
	for _, t := range g.Initializers {
		v, err := t.Decode(nil)
		if err != nil {
			return nil, err
		}
		values[t.Name] = v
	}
	return values, nil
}

var reference = &onward.SessionOptions{Threads: 1, Providers: []onward.ProviderConfig{{Name: "reference"}}}

// Compare reports where the results for a feed differ by more than rounding may. It
// says with excused how many elements differ by more than rounding once, and no more
// than what becomes of roundings along the chain.
//
// What becomes of them is found by running the chain many times with every value
// changed a little; an element may differ by a multiple of the most that it changed.
// loose changes values more: ONNX Runtime approximates functions with an error that is
// a part of their range.
func (c *Chain) Compare(feed int, got, want map[string]tensor.Value, loose bool) (excused int, err error) {
	var s *samples
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w := want[name]
		rtol, atol := chainTolerance(w)
		first := tensor.AllClose(got[name], w, rtol, atol)
		if first == nil {
			continue
		}
		if s == nil {
			if s, err = c.perturb(feed, loose); err != nil {
				return excused, fmt.Errorf("output %s: %w; and no samples: %w", name, first, err)
			}
		}
		n, err := s.excuse(name, got[name], w)
		if err != nil {
			return excused, fmt.Errorf("output %s: %w: %w\n  got  %s\n  want %s", name, first, err, Show(got[name]), Show(w))
		}
		excused += n
	}
	return excused, nil
}

// chainTolerance is what a result may differ by without a look at what it is made of.
func chainTolerance(v tensor.Value) (rtol, atol float64) {
	t, ok := v.(*tensor.Tensor)
	if !ok || !t.DType().IsFloat() {
		return 0, 0
	}
	switch t.DType() {
	case tensor.TypeFloat64:
		rtol = 1e-12
	case tensor.TypeFloat32:
		rtol = 2e-5
	case tensor.TypeFloat16:
		rtol = 2e-3
	case tensor.TypeBFloat16:
		rtol = 1.6e-2
	default:
		return 0, 0
	}
	return rtol, rtol / 4 * most(t)
}

// anyElement reports whether a tensor of floats has an element like that.
func anyElement(v tensor.Value, like func(float64) bool) bool {
	t, ok := v.(*tensor.Tensor)
	if !ok || !t.DType().IsFloat() {
		return false
	}
	f, err := Floats(t)
	return err == nil && slices.ContainsFunc(f, like)
}

// most is the largest finite magnitude.
func most(t *tensor.Tensor) float64 {
	f, err := Floats(t)
	if err != nil {
		return 0
	}
	m := 0.0
	for _, v := range f {
		if v = math.Abs(v); v > m && !math.IsInf(v, 0) {
			m = v
		}
	}
	return m
}

// samples are results of a chain whose values were changed a little.
type samples struct {
	of []map[string]tensor.Value
	// vast says that there are numbers whose products leave float32: the order of sums
	// and factors decides which of them become infinite.
	vast bool
	// infinite says that there are infinities, of which fused operators make limits or
	// NaN where their parts make the other: x·sigmoid(x) of -∞ is NaN, Silu 0. So do NaN
	// among the weights of a window, whose products with the padding may be left out.
	infinite bool
	// unsized says that shapes depend on the last bits.
	unsized bool
}

// moves are operators whose results no rounding changes.
var moves = words(`Identity Constant Reshape Transpose Flatten Squeeze Unsqueeze Slice Gather Concat Split Expand Tile Pad Cast Relu Neg Abs Dropout Clip Max Min
	Where ReduceMax ReduceMin MaxPool GatherElements ScatterND DepthToSpace SpaceToDepth`)

// perturb samples a chain.
func (c *Chain) perturb(feed int, loose bool) (*samples, error) {
	values, err := c.all(feed)
	if err != nil {
		return nil, err
	}
	m := *c.Model
	g := *m.Graph
	sized := map[string]bool{} // numbers that decide about shapes
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
		nodes = append(nodes, &onnx.Node{OpType: "Mul", Inputs: []string{name + "_exact", name + "_noise"}, Outputs: []string{name + "_scaled"}},
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
	centres := map[string]*tensor.Tensor{} // what is added to an input of an operator that takes a mean away
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
			for _, in := range n.Inputs { // the largest of what is added up
				if t, ok := values[in].(*tensor.Tensor); ok && t.DType() == centres[name].DType() {
					inner[name] = max(inner[name], most(t))
				}
			}
			r.Inputs = slices.Clone(n.Inputs)
			r.Inputs[0] = name + "_moved"
			nodes = append(nodes, &onnx.Node{OpType: "Add", Inputs: []string{n.Inputs[0], name}, Outputs: []string{r.Inputs[0]}})
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
				nodes = append(nodes, &onnx.Node{OpType: "Where", Inputs: []string{out + "_where", out + "_other", out + "_plain"}, Outputs: []string{r.Outputs[i]}})
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
		g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: name + "_noise", Type: onnx.NewType(t.Type())}, &onnx.ValueInfo{Name: name + "_shift", Type: onnx.NewType(t.Type())})
	}
	for name, t := range centres {
		g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: name, Type: onnx.NewType(t.Type())})
	}
	for _, o := range others {
		g.Inputs = append(g.Inputs, &onnx.ValueInfo{Name: o.name + "_where", Type: onnx.NewType(o.where.Type())}, &onnx.ValueInfo{Name: o.name + "_other", Type: onnx.NewType(o.value.Type())})
	}
	s := &samples{}
	for _, v := range values {
		if t, ok := v.(*tensor.Tensor); ok && t.DType() == tensor.TypeFloat32 && most(t) > 1e15 {
			s.vast = true
		}
		s.infinite = s.infinite || anyElement(v, func(v float64) bool { return math.IsInf(v, 0) })
	}
	for _, n := range g.Nodes {
		if strings.Contains(n.OpType, "Conv") && len(n.Inputs) > 1 {
			s.infinite = s.infinite || anyElement(values[n.Inputs[1]], math.IsNaN)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 33 { // the first one changes nothing, and must succeed
		f := map[string]tensor.Value{}
		way := 0.0 // all numbers up or all down: what limits a function may always be a little less
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
			f[o.name+"_where"], f[o.name+"_other"] = tensor.Must(tensor.Zeros(tensor.TypeBool, o.where.Shape()...)), o.value
			if i%4 == 2 {
				f[o.name+"_where"] = o.where
			}
		}
		feeds[0] = f
		// A session for each: the noise may make shapes others.
		switch out, err := runModel(&m, feeds, reference); {
		case err == nil:
			s.of = append(s.of, out[0])
		case i == 0:
			return nil, err
		default:
			s.unsized = true
		}
	}
	return s, nil
}

// innerNumbers are operators that compute numbers of their own, gates, a sum whose
// logarithm is near 0, or what a subgraph has, which may cancel: the part of a rounding
// of 1 that their results may have.
var innerNumbers = map[string]float64{"RNN": 0.25, "GRU": 0.25, "LSTM": 0.25, "If": 0.5, "Loop": 0.5, "LogSoftmax": 0.1, "SoftmaxCrossEntropyLoss": 0.1}

// coarsest returns the rounding of the narrowest type of floats that the subgraphs of a
// node cast to, 0 for none.
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

// centred are operators that take a mean away from their first input, or from its sum
// with others, and may divide what is left by next to nothing: the mean of equal numbers
// is rounded too.
var centred = words(`GroupNorm SkipGroupNorm GroupNormalization InstanceNormalization LayerNormalization SkipLayerNormalization MeanVarianceNormalization`)

// other is what a node may give instead of its result by the nature of its kernels.
type other struct {
	name  string
	where *tensor.Tensor // the elements
	value *tensor.Tensor // what they may be
}

// otherResult returns the other result of a node under operands that are not finite, nil
// for none. Convolutions may multiply any of an image's numbers by zeros, which stand for
// weights of other groups or come of a Winograd transform: one that is not finite may make
// every result of its image NaN. And x·f(x) with f(x) = 0 for an infinite x is NaN in
// parts, 0 in one operator.
func otherResult(n *onnx.Node, values map[string]tensor.Value) *other {
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
	mask, xs, ws, ys := tensor.Of[bool](where), tensor.Of[float32](x), tensor.Of[float32](w), tensor.Of[float32](y)
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

// roundings are the relative changes for which an operator of a type is good.
var roundings = map[tensor.DType]float64{tensor.TypeFloat32: 1e-6, tensor.TypeFloat64: 4e-15, tensor.TypeFloat16: 2e-3, tensor.TypeBFloat16: 1.6e-2}

// around makes a tensor like t of numbers that differ by up to e from x; by e upwards or
// downwards where way is 1 or -1.
func around(rng *rand.Rand, t *tensor.Tensor, x, e, way float64) *tensor.Tensor {
	r := tensor.Must(tensor.Zeros(t.DType(), t.Shape()...))
	v := make([]float64, t.Len())
	for i := range v {
		if v[i] = x + e*way; way == 0 {
			v[i] += e * (2*rng.Float64() - 1)
		}
	}
	if err := tensor.ConvertInto(r, tensor.Must(tensor.New(v, shapeOf(t.Shape(), len(v))...)), tensor.ConvertOptions{}); err != nil {
		panic(err)
	}
	return r
}

// excuse compares an output with what the samples allow, and counts the elements that
// need it.
func (s *samples) excuse(name string, got, want tensor.Value) (int, error) {
	w, ok := want.(*tensor.Tensor)
	g, ok2 := got.(*tensor.Tensor)
	if !ok || !ok2 || w.DType() == tensor.TypeString {
		for _, o := range s.of {
			if tensor.Equal(o[name], want) != nil {
				return 1, nil
			}
		}
		return 0, fmt.Errorf("no change of the values changes it")
	}
	for _, o := range s.of {
		if t, ok := o[name].(*tensor.Tensor); !ok || !slices.Equal(t.Shape(), w.Shape()) {
			return w.Len(), nil // its shape depends on the last bits
		}
	}
	if g.DType() != w.DType() || !slices.Equal(g.Shape(), w.Shape()) {
		return 0, fmt.Errorf("another type or shape")
	}
	gf, err := Floats(g)
	if err != nil {
		return 0, err
	}
	wf, err := Floats(w)
	if err != nil {
		return 0, err
	}
	spread := make([]float64, len(wf))
	for _, o := range s.of {
		f, err := Floats(o[name].(*tensor.Tensor))
		if err != nil {
			return 0, err
		}
		for i, v := range f {
			switch d := math.Abs(v - wf[i]); {
			case v == wf[i] || v != v && wf[i] != wf[i]:
			case d == d:
				spread[i] = max(spread[i], d)
			default:
				spread[i] = math.Inf(1)
			}
		}
	}
	if s.vast || s.unsized {
		return w.Len(), nil
	}
	rtol, atol := chainTolerance(w)
	n := 0
	for i, v := range gf {
		if v == wf[i] || v != v && wf[i] != wf[i] {
			continue
		}
		d := math.Abs(v - wf[i])
		if d <= atol+rtol*math.Abs(wf[i]) {
			continue
		}
		n++
		switch {
		case math.IsInf(spread[i], 1), s.infinite && (v != v) != (wf[i] != wf[i]):
		case !w.DType().IsFloat() && spread[i] > 0:
		case !(d <= 8*spread[i]+atol+rtol*math.Abs(wf[i])):
			return 0, fmt.Errorf("element %d is %v, want %v, which changes by %.3g at most", i, v, wf[i], spread[i])
		}
	}
	return n, nil
}
