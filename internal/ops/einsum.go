package ops

import (
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Einsum computes sums of products of its inputs in Einstein notation, as in numpy.einsum
// (https://numpy.org/doc/stable/reference/generated/numpy.einsum.html). Letters name dimensions,
// and an ellipsis is a list of leading dimensions that broadcast. A repeated letter in a term
// selects the diagonal. Letters that are not in the output are summed over. Without "->" the output
// has the ellipsis followed by the letters that occur once, in alphabetical order
// (https://onnx.ai/onnx/operators/onnx__Einsum.html).
type Einsum struct {
	Equation string
	in       [][]int // labels of each term: a letter, or einsumDots
	out      []int
}

// einsumDots is the label of an ellipsis. Its dimensions have labels from einsumDots+1 on, last
// dimension first.
const einsumDots = 256

// einsumLimit limits the length of an equation.
const einsumLimit = 4096

var _ = kit.Register(&kit.Def{Name: "Einsum", Since: kit.Versions{12, 28}, In: "Inputs:T+", Out: "Output:T",
	Types: "T: @number",
	Class: kit.ClassLinear,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("equation")
		e, err := parseEinsum(a.String("equation", ""))
		if err != nil {
			return a.Fail(fail.Errorf("attribute equation: %w", err))
		}
		if len(e.in) != a.NumIn {
			return a.Fail(fail.Errorf("attribute equation %q has %d terms, want %d, one per input", e.Equation,
				len(e.in), a.NumIn))
		}
		return e
	},
	Gradient: gradient.Rule(einsumGradient)})

// einsumGradient returns the product of the gradient and all inputs but one, with the indices of
// that one. Indices that only it has come from ones of its shape.
func einsumGradient(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
	terms, out := einsumTerms(n.Attrs.Text("equation"))
	if len(terms) != len(n.Inputs) {
		return nil, fail.Errorf("equation has %d terms, want %d, one per input", len(terms), len(n.Inputs))
	}
	einsum := func(equation string, in ...string) string {
		return b.Node("Einsum", gradient.Attrs{"equation": equation}, in...)
	}
	// If a term has an index twice, only that diagonal of the input has a gradient.
	inputs, diagonal := slices.Clone(n.Inputs), make([]string, len(terms))
	for k, t := range terms {
		once := einsumOnce(t)
		if once == t {
			continue
		}
		diagonal[k] = einsum(t+"->"+once, b.Positions(n.Inputs[k], 1))
		inputs[k] = b.GatherBack(inputs[k], diagonal[k])
		terms[k] = once
	}
	r := make([]string, len(inputs))
	for k, x := range inputs {
		in, from := []string{g}, []string{out}
		for i, other := range inputs {
			if i != k {
				in, from = append(in, other), append(from, terms[i])
			}
		}
		in, from = append(in, b.Filled(1, x)), append(from, terms[k])
		r[k] = b.SumTo(einsum(strings.Join(from, ",")+"->"+terms[k], in...), x)
		if diagonal[k] != "" {
			r[k] = b.ScatterBack(1, r[k], diagonal[k], n.Inputs[k])
		}
	}
	return r, nil
}

// einsumOnce removes repeated indices of a term.
func einsumOnce(term string) string {
	var r []rune
	for _, l := range term {
		if l == '.' || !slices.Contains(r, l) {
			r = append(r, l)
		}
	}
	return string(r)
}

// einsumTerms returns the indices of the inputs and of the output.
func einsumTerms(equation string) (terms []string, out string) {
	left, out, explicit := strings.Cut(strings.ReplaceAll(equation, " ", ""), "->")
	terms = strings.Split(left, ",")
	if explicit {
		return terms, out
	}
	var single []rune // indices that come once, in order
	all := strings.ReplaceAll(left, ",", "")
	for l := 'A'; l <= 'z'; l++ {
		if strings.Count(all, string(l)) == 1 {
			single = append(single, l)
		}
	}
	if strings.Contains(left, "...") {
		out = "..."
	}
	return terms, out + string(single)
}

func parseEinsum(equation string) (*Einsum, error) {
	if len(equation) > einsumLimit {
		return nil, fail.Errorf("equation has %d characters, want at most %d", len(equation), einsumLimit)
	}
	e := &Einsum{Equation: equation}
	left, right, explicit := strings.Cut(strings.Join(strings.Fields(equation), ""), "->")
	count := map[int]int{}
	for term := range strings.SplitSeq(left, ",") {
		labels, err := einsumTerm(term)
		if err != nil {
			return nil, fail.Errorf("%q: %w", equation, err)
		}
		for _, l := range labels {
			count[l]++
		}
		e.in = append(e.in, labels)
	}
	if !explicit {
		if count[einsumDots] > 0 {
			e.out = append(e.out, einsumDots)
		}
		for l := range einsumDots {
			if count[l] == 1 {
				e.out = append(e.out, l)
			}
		}
		return e, nil
	}
	var err error
	if e.out, err = einsumTerm(right); err != nil {
		return nil, fail.Errorf("%q: %w", equation, err)
	}
	seen := map[int]bool{}
	for _, l := range e.out {
		if seen[l] {
			return nil, fail.Errorf("%q: %q occurs twice in the output", equation, rune(l))
		}
		if seen[l] = true; count[l] == 0 && l != einsumDots {
			return nil, fail.Errorf("%q: %q occurs in no input", equation, rune(l))
		}
	}
	return e, nil
}

// einsumTerm parses the labels of one term.
func einsumTerm(term string) ([]int, error) {
	labels := []int{}
	dots := false
	for i := 0; i < len(term); i++ {
		switch c := term[i]; {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			labels = append(labels, int(c))
		case strings.HasPrefix(term[i:], "...") && !dots:
			labels = append(labels, einsumDots)
			dots = true
			i += 2
		default:
			return nil, fail.Errorf("unexpected %q in term %q", c, term)
		}
	}
	return labels, nil
}

// expand replaces the ellipsis of each term by the labels of its dimensions, for inputs of the
// given ranks.
func (e *Einsum) expand(ranks []int) (in [][]int, out []int, err error) {
	most := 0
	for i, labels := range e.in {
		n := ranks[i] - len(labels)
		r := labels
		for k, l := range labels {
			if l != einsumDots {
				continue
			}
			if n++; n < 0 {
				break
			}
			r = append([]int{}, labels[:k]...)
			for d := n; d > 0; d-- {
				r = append(r, einsumDots+d)
			}
			r = append(r, labels[k+1:]...)
			most = max(most, n)
		}
		if len(r) != ranks[i] || n < 0 {
			return nil, nil, fail.Errorf("input %d has rank %d, its term in %q has %d labels", i, ranks[i],
				e.Equation, len(labels))
		}
		in = append(in, r)
	}
	found := false
	for _, l := range e.out {
		if l == einsumDots {
			found = true
			for d := most; d > 0; d-- {
				out = append(out, einsumDots+d)
			}
		} else {
			out = append(out, l)
		}
	}
	if !found && most > 0 {
		return nil, nil, fail.Errorf("%q drops the dimensions of the ellipsis", e.Equation)
	}
	if len(out) > tensor.MaxRank {
		return nil, nil, fail.Errorf("output has rank %d, want at most %d", len(out), tensor.MaxRank)
	}
	return in, out, nil
}

// Infer determines the size of every label of the output.
func (e *Einsum) Infer(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	defer func() { c.SetOut(0, t) }()
	ranks := make([]int, len(e.in))
	for i := range ranks {
		s := c.Shape(i)
		if s == nil {
			return nil
		}
		ranks[i] = len(s)
	}
	in, out, err := e.expand(ranks)
	if err != nil {
		return err
	}
	size := map[int]ir.Dim{}
	for i, labels := range in {
		for k, l := range labels {
			d := c.Shape(i)[k]
			old, ok := size[l]
			if !ok {
				size[l] = d
				continue
			}
			both, err := kit.BroadcastDims([]ir.Dim{old}, []ir.Dim{d})
			if err != nil {
				return fail.Errorf("%q: label sizes differ: %w", e.Equation, err)
			}
			size[l] = both[0]
		}
	}
	t.Shape = make([]ir.Dim, len(out))
	for i, l := range out {
		t.Shape[i] = size[l]
	}
	return nil
}

// Run contracts two inputs at a time, from the left, with matrix products. Generic kernels loop
// over all indices.
func (e *Einsum) Run(c *ir.Call) error {
	p := &einsumPlan{e: e, size: map[int]int{}}
	ranks := make([]int, len(e.in))
	for i := range ranks {
		if !c.Has(i) {
			return fail.Errorf("input %d is absent, want %d inputs for %q", i, len(e.in), e.Equation)
		}
		ranks[i] = c.Tensor(i).Rank()
	}
	var err error
	if p.in, p.out, err = e.expand(ranks); err != nil {
		return err
	}
	for i, labels := range p.in {
		for k, l := range labels {
			d := c.Tensor(i).Dim(k)
			if old, ok := p.size[l]; ok && d != old && d != 1 && old != 1 {
				return fail.Errorf("%q: a label has sizes %d and %d", e.Equation, old, d)
			} else if !ok || old == 1 {
				p.size[l] = d
			}
		}
	}
	d, shape := c.Tensor(0).DType(), p.sizes(p.out)
	switch d {
	case tensor.TypeInt8, tensor.TypeUint8, tensor.TypeInt16, tensor.TypeUint16:
		// multiplication and addition wrap around in any order
		d = tensor.TypeInt32
	case tensor.TypeFloat16, tensor.TypeBFloat16:
		d = tensor.TypeFloat32
	}
	ops := make([]einsumOperand, len(p.in))
	for i := range ops {
		if ops[i].t, err = kit.ToScratch(c, c.Tensor(i), d); err != nil {
			return err
		}
		ops[i].labels = p.in[i]
	}
	out, err := c.Output(0, c.Tensor(0).DType(), shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	y := out
	if out.DType() != d {
		if y, err = kit.ScratchTensor(c, d, shape); err != nil {
			return err
		}
	}
	if c.Generic {
		err = einsumPlain(c, p, ops, y)
	} else {
		err = einsumPairs(c, p, ops, y)
	}
	if err != nil || y == out {
		return err
	}
	return kit.ConvertInto(c, out, y, tensor.ConvertOptions{})
}

// einsumPlan is an equation with expanded labels and their sizes.
type einsumPlan struct {
	e    *Einsum
	in   [][]int
	out  []int
	size map[int]int
}

func (p *einsumPlan) sizes(labels []int) []int {
	r := make([]int, len(labels))
	for i, l := range labels {
		r[i] = p.size[l]
	}
	return r
}

// einsumOperand is an input or an intermediate product.
type einsumOperand struct {
	labels []int
	t      *tensor.Tensor
}

// steps returns the stride of each label in the operand: a sum of strides for a diagonal, 0 for a
// broadcast.
func (o *einsumOperand) steps(labels []int) []int {
	r := make([]int, len(labels))
	shape := o.t.Shape()
	st := kit.Strides(shape)
	for k, l := range o.labels {
		if shape[k] == 1 {
			continue
		}
		for i, m := range labels {
			if l == m {
				r[i] += st[k]
			}
		}
	}
	return r
}

// einsumPlain computes the sums of products of ops in y by their definition.
func einsumPlain(c *ir.Call, p *einsumPlan, ops []einsumOperand, y *tensor.Tensor) error {
	switch y.DType() {
	case tensor.TypeFloat32:
		return einsumLoops[float32](c, p, ops, y)
	case tensor.TypeFloat64:
		return einsumLoops[float64](c, p, ops, y)
	case tensor.TypeInt32, tensor.TypeUint32:
		return einsumLoops[int32](c, p, ops, y)
	}
	return einsumLoops[int64](c, p, ops, y)
}

func einsumLoops[T gemm.Number](c *ir.Call, p *einsumPlan, ops []einsumOperand, y *tensor.Tensor) error {
	labels, data, sums := make([][]int, len(ops)), make([][]T, len(ops)), matmul.Data[T](y)
	for i := range ops {
		labels[i], data[i] = ops[i].labels, matmul.Data[T](ops[i].t)
	}
	all := p.walk(labels, func(i int, l []int) []int { return ops[i].steps(l) }, p.out)
	c.Parallel(len(sums), kit.GrainFor(int(min(all.terms, 1<<20))*len(ops)), func(lo, hi int) {
		m, t := &ir.Meter{C: c}, all.start()
		for i := lo; i < hi; i++ {
			var total T
			for more := t.first(i); more; more = t.next() {
				product := T(1)
				for o := range data {
					product *= data[o][t.at[o]]
				}
				total += product
				if !m.Spend(len(ops) * (len(t.index) + len(t.inner))) {
					return
				}
			}
			sums[i] = total
		}
	})
	return c.Err()
}

func einsumHas(labels []int, l int) bool {
	for _, m := range labels {
		if l == m {
			return true
		}
	}
	return false
}

// einsumPairs contracts operands from the left until one remains, and writes it to y.
func einsumPairs(c *ir.Call, p *einsumPlan, ops []einsumOperand, y *tensor.Tensor) error {
	for len(ops) > 1 {
		a, b := ops[0], ops[1]
		needed := append([]int{}, p.out...)
		for _, o := range ops[2:] {
			needed = append(needed, o.labels...)
		}
		r, err := einsumPair(c, p, a, b, needed, len(ops) == 2, y)
		if err != nil {
			return err
		}
		ops = append([]einsumOperand{r}, ops[2:]...)
	}
	if ops[0].t == y {
		return nil
	}
	return einsumSingle(c, p, ops[0], p.out, y)
}

// einsumPair contracts a and b and keeps the labels that are needed. The product of the last pair
// is written directly to y if its labels have the order of the output.
func einsumPair(c *ir.Call, p *einsumPlan, a, b einsumOperand, needed []int, last bool,
	y *tensor.Tensor) (einsumOperand, error) {
	m, err := p.product(a.labels, b.labels, needed)
	if err != nil {
		return einsumOperand{}, err
	}
	r := einsumOperand{m.labels, y}
	x, err := einsumOrder(c, p, a, m.left)
	if err != nil {
		return r, err
	}
	w, err := einsumOrder(c, p, b, m.right)
	if err != nil {
		return r, err
	}
	if !last || !slices.Equal(r.labels, p.out) {
		if r.t, err = kit.ScratchTensor(c, y.DType(), m.shape); err != nil {
			return r, err
		}
	}
	const fewRows = 4 // products of a row and a column that are worth a call each
	if m.M != 1 || m.N != 1 || m.K == 0 || m.K > 1 && m.Batch[0] < fewRows {
		return r, matmul.Tensors(c, &m.Shape, r.t, x, w)
	}
	z, terms := r.t, m.shape
	if m.K > 1 {
		terms = []int{m.Batch[0], m.K}
		if z, err = kit.ScratchTensor(c, y.DType(), terms); err != nil {
			return r, err
		}
	}
	if err := elementwise.RunLoopInto(c, mulLoops[y.DType()], kit.GrainCheap, z, []*tensor.Tensor{x, w},
		[][]int{terms, terms}); err != nil || z == r.t {
		return r, err
	}
	return r, reduceSumTable.Reduce(c, []int{1}, r.t, z)
}

// einsumProduct is a contraction as a GEMM.
type einsumProduct struct {
	left, right   []int // labels of the operands, in order
	labels, shape []int // of the result
	matmul.Shape
}

// product returns the contraction of operands with labels a and b that keeps the labels that are
// needed.
func (p *einsumPlan) product(a, b, needed []int) (*einsumProduct, error) {
	batch, rows, cols, sum := einsumRoles(a, b, needed)
	m := &einsumProduct{left: slices.Concat(batch, rows, sum), right: slices.Concat(batch, sum, cols),
		labels: slices.Concat(batch, rows, cols)}
	m.shape = p.sizes(m.labels)
	size := func(labels []int) int { return kit.Product(p.sizes(labels)) }
	m.Shape = matmul.Shape{M: size(rows), K: size(sum), N: size(cols), Batch: []int{size(batch)},
		AStep: []int{1}, BStep: []int{1}}
	_, err := tensor.Elements(m.shape)
	return m, err
}

// einsumRoles returns the labels of a GEMM: those of both operands a and b that are needed, those
// of a alone, those of b alone, and those to sum over.
func einsumRoles(a, b, needed []int) (batch, rows, cols, sum []int) {
	for _, l := range a {
		switch inB, keep := einsumHas(b, l), einsumHas(needed, l); {
		case inB && keep:
			batch = einsumAdd(batch, l)
		case inB:
			sum = einsumAdd(sum, l)
		case keep:
			rows = einsumAdd(rows, l)
		}
	}
	for _, l := range b {
		if !einsumHas(a, l) && einsumHas(needed, l) {
			cols = einsumAdd(cols, l)
		}
	}
	return batch, rows, cols, sum
}

func einsumAdd(labels []int, l int) []int {
	if einsumHas(labels, l) {
		return labels
	}
	return append(labels, l)
}

// einsumOrder returns an operand in the given order of labels, with full sizes. It sums over labels
// that are not listed.
func einsumOrder(c *ir.Call, p *einsumPlan, o einsumOperand, labels []int) (*tensor.Tensor, error) {
	shape := p.sizes(labels)
	if slices.Equal(labels, o.labels) && slices.Equal(shape, o.t.Shape()) {
		return o.t, nil
	}
	y, err := kit.ScratchTensor(c, o.t.DType(), shape)
	if err != nil || y.Len() == 0 {
		return y, err
	}
	return y, einsumSingle(c, p, o, labels, y)
}

// einsumSingle writes the sums of one operand in the given order of labels. Without labels to sum
// over it only moves elements.
func einsumSingle(c *ir.Call, p *einsumPlan, o einsumOperand, labels []int, y *tensor.Tensor) error {
	var kept, dropped, axes []int // axes are those of the labels to sum over
	for k, l := range o.labels {
		if einsumHas(labels, l) {
			kept = einsumAdd(kept, l)
		} else {
			dropped, axes = einsumAdd(dropped, l), append(axes, k)
		}
	}
	if len(axes) > 0 {
		order := slices.Concat(kept, dropped)
		if len(order) < len(o.labels) || !slices.Equal(o.t.Shape(), p.sizes(o.labels)) {
			// a diagonal, or sizes of 1 that repeat
			all, err := einsumOrder(c, p, o, order)
			if err != nil {
				return err
			}
			return einsumSingle(c, p, einsumOperand{order, all}, labels, y)
		}
		sums := y
		if !slices.Equal(kept, labels) {
			var err error
			if sums, err = kit.ScratchTensor(c, y.DType(), p.sizes(kept)); err != nil {
				return err
			}
		}
		if err := reduceSumTable.Reduce(c, axes, sums, o.t); err != nil || sums == y {
			return err
		}
		o = einsumOperand{kept, sums}
	}
	width, shape := y.DType().Size(), p.sizes(labels)
	move.Strided(c, move.Buf{Width: width, Raw: y.Bytes()}, move.Buf{Width: width, Raw: o.t.Bytes()}, shape,
		kit.Strides(shape), 0, o.steps(labels), 0)
	return c.Err()
}
