package opfuzz

import (
	"math/rand/v2"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// Scale returns the case with larger inputs: random sizes, equal ones alike, are doubled until the
// inputs have about the given number of elements. Inputs that look like axes, shapes or pads stay.
func (c *Case) Scale(seed uint64, elements int) *Case {
	r := c.clone()
	g := &gen{rng: rand.New(rand.NewPCG(seed, 2))}
	shapes := make([][]int, len(c.In))
	var sizes []int // different ones
	for i := range c.In {
		t := c.Tensor(i)
		if t == nil || i > 0 && t.Rank() <= 1 && !t.DType().IsFloat() && t.Len() <= 8 {
			continue
		}
		shapes[i] = slices.Clone(t.Shape())
		for _, d := range shapes[i] {
			if d > 0 && !slices.Contains(sizes, d) {
				sizes = append(sizes, d)
			}
		}
	}
	total := func() int {
		n := 0
		for _, s := range shapes {
			if e, err := tensor.Elements(s); s != nil && err == nil {
				n += e
			}
		}
		return n
	}
	if len(sizes) == 0 {
		return r
	}
	if g.rng.IntN(2) == 0 { // few sizes grow far
		g.rng.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
		sizes = sizes[:1+g.rng.IntN(len(sizes))]
	}
	to := map[int]int{}
	for _, d := range sizes {
		to[d] = d
	}
	for range 200 {
		if total() >= elements {
			break
		}
		d := sizes[g.rng.IntN(len(sizes))]
		grown := 2 * to[d]
		for i, s := range shapes {
			for k, x := range c.shapeOf(i) {
				if s != nil && x == d {
					s[k] = grown
				}
			}
		}
		to[d] = grown
		if total() > 2*elements {
			for i, s := range shapes {
				for k, x := range c.shapeOf(i) {
					if s != nil && x == d {
						s[k] = grown / 2
					}
				}
			}
			to[d] = grown / 2
		}
	}
	for i, s := range shapes {
		if s == nil {
			continue
		}
		if n, err := tensor.Elements(s); err == nil && n <= 4*elements+64 {
			r.In[i] = g.like(c.Tensor(i), c.Tensor(i).DType(), s)
		}
	}
	return r
}

func (c *Case) shapeOf(i int) []int {
	if t := c.Tensor(i); t != nil {
		return t.Shape()
	}
	return nil
}
