package msft

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Sampling generates text: every next token is drawn from the most probable tokens, whose
// probabilities add up to TopP
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Sampling).
// With a seed it draws the same tokens as ONNX Runtime's build for Linux.
type Sampling struct {
	generation
	Temperature, TopP, Filter, PresencePenalty float32
	Keep                                       int // minimum number of tokens to draw from
	Custom                                     bool
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Sampling", Since: kit.Versions{1},
	In:    generationInputsOf + ", presence_mask:I?, seed:I?",
	Class: kit.ClassControl,
	Out:   "sequences:I, filtered_logits:T?", Types: "T: float; I: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &Sampling{generation: readGeneration(a, decoderOnly, generationIndices),
			Temperature: a.Float("temperature", 1), TopP: a.Float("top_p", 0),
			Filter: a.Float("filter_value", -1e20), PresencePenalty: a.Float("presence_penalty", 0),
			Keep: a.Int("min_tokens_to_keep", 0), Custom: a.Int("custom", 0) == 1}
		if op.Keep < 0 {
			a.Errorf("min_tokens_to_keep is %d, want at least 0", op.Keep)
		}
		return op
	}})

// Nondeterministic implements [ir.Nondeterministic].
func (*Sampling) Nondeterministic() {}

// Infer implements [ir.Operator].
func (op *Sampling) Infer(c *ir.InferContext) error {
	if c.Wants(1) {
		batch := ir.Unknown
		if s := c.Shape(0); len(s) > 0 {
			batch = s[0]
		}
		c.SetOut(1, ir.TensorType(tensor.TypeFloat32, batch, ir.Unknown))
	}
	return op.generation.Infer(c)
}

// Run implements [ir.Operator].
func (op *Sampling) Run(c *ir.Call) error {
	r, err := op.newRun(c, 1)
	if err != nil {
		return err
	}
	if op.Temperature > 0 {
		r.temperature = op.Temperature
	}
	r.presence, r.presencePenalty = c.Tensor(7), op.PresencePenalty
	source := newMinimalStandard(uint32(c.Seed()))
	if t := c.Tensor(8); t != nil {
		seed, err := kit.ScalarInt(t, "seed")
		if err != nil {
			return err
		}
		source = newMinimalStandard(uint32(seed))
	}
	var filtered []float32
	var order []int
	var sums []float64
	for more := true; more; {
		rows, err := r.scores(c)
		if err != nil {
			return err
		}
		if c.Wants(1) && filtered == nil {
			y, err := c.Output(1, tensor.TypeFloat32, r.batch, r.words)
			if err != nil {
				return err
			}
			filtered = tensor.MustData[float32](y)
		}
		if order == nil {
			if err := c.Reserve(16 * int64(r.words)); err != nil {
				return err
			}
			order, sums = make([]int, r.words), make([]float64, r.words)
		}
		next := make([]int32, r.batch)
		for b, row := range rows {
			r.process(b, row)
			op.filter(&r.meter, row, order, sums)
			if next[b], err = source.draw(&r.meter, row, sums); err != nil {
				return fail.Errorf("step %d, batch entry %d: %w", r.step, b, err)
			}
		}
		copy(filtered, r.rows)
		if more, err = r.add(c, next); err != nil {
			return err
		}
	}
	return r.finish(c)
}

// filter sets the scores of the tokens outside the top-p set to Filter. Custom sampling
// accumulates the probabilities from the most probable token down, other sampling from
// the least probable one up. It overwrites order and p, which are as long as row.
func (op *Sampling) filter(meter *ir.Meter, row []float32, order []int, p []float64) {
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		meter.Check(8)
		larger := cmp.Compare(row[i], row[j])
		if op.Custom {
			larger = -larger
		}
		return cmp.Or(larger, i-j)
	})
	top := slices.Max(row)
	sum := 0.0
	for k, i := range order {
		meter.Check(4)
		p[k] = math.Exp(float64(row[i] - top))
		sum += p[k]
	}
	total := float32(0)
	add := func(k int) float32 {
		meter.Check(1)
		total += float32(p[k] / sum)
		return total
	}
	if op.Custom {
		for k := range len(row) - 1 {
			if add(k) > op.TopP {
				row[order[k+1]] = op.Filter
			}
		}
		return
	}
	for k := range max(len(row)-op.Keep, 1) {
		if add(k) <= 1-op.TopP {
			row[order[k]] = op.Filter
		}
	}
}

// minimalStandard is the linear congruential generator "minimal standard" of Park and
// Miller (CACM 31(10), 1988), which GCC's library uses as std::default_random_engine.
type minimalStandard struct{ state uint64 }

const minimalModulus = 1<<31 - 1

func newMinimalStandard(seed uint32) *minimalStandard {
	s := uint64(seed) % minimalModulus
	if s == 0 {
		s = 1
	}
	return &minimalStandard{s}
}

// uniform returns a number in [0, 1) from two steps of the generator, as
// std::generate_canonical does.
func (m *minimalStandard) uniform() float64 {
	const width = minimalModulus - 1
	sum, scale := 0.0, 1.0
	for range 2 {
		m.state = m.state * 16807 % minimalModulus
		sum += float64(m.state-1) * scale
		scale *= width
	}
	return min(sum/scale, math.Nextafter(1, 0))
}

// draw returns a random token; row holds unnormalized log probabilities. It overwrites sums, which
// are as long as row.
func (m *minimalStandard) draw(meter *ir.Meter, row []float32, sums []float64) (int32, error) {
	top, total := math.Inf(-1), 0.0
	finite := func(v float32) bool { return v-v == 0 }
	for _, v := range row {
		if finite(v) {
			top = max(top, float64(v))
		}
	}
	for i, v := range row {
		meter.Check(4)
		if finite(v) {
			total += math.Exp(float64(v) - top)
		}
		sums[i] = total
	}
	if !(total > 0) {
		return 0, fail.Errorf("no token has a finite score")
	}
	u := m.uniform() * total
	return int32(min(sort.Search(len(sums), func(k int) bool { return sums[k] > u }), len(row)-1)), nil
}
