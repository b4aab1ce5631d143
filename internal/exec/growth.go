package exec

import (
	"weak"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// planGrowth finds the sequences that the body of a loop carries and that only one step uses, which
// returns them with another item for the next iteration. From the second iteration on, nothing else
// has their memory, so that such a step can append in place.
func (p *Plan) planGrowth(loop ir.Carrying) {
	var uses []int
	for i := range p.steps {
		st := &p.steps[i]
		if _, ok := st.op.(ir.Growing); !ok || len(st.in) == 0 || st.in[0] == ir.None {
			continue
		}
		if uses == nil {
			uses = p.graph.Uses()
		}
		for k, out := range p.outputs {
			in := loop.CarriedTo(k)
			if out != st.out[0] || uses[out] != 1 || in < 0 || in >= len(p.inputs) || p.inputs[in] != st.in[0] ||
				uses[st.in[0]] != 1 {
				continue
			}
			if p.grown == nil {
				p.grown = make([]bool, len(p.inputs))
			}
			st.grows, p.grown[in] = true, true
		}
	}
}

// sizes computes sizes of values. It remembers those of the last long sequences, so that loops that
// append to one take linear time.
type sizes struct {
	last []knownSize
	next int // of last to replace
}

// knownSize is the size of a sequence without the unused part of the memory of its items.
type knownSize struct {
	items weak.Pointer[tensor.Value] // to the first one
	n     int                        // number of items
	bytes int64
}

const (
	longSequence = 32 // items of the shortest sequence whose size is remembered
	keptSizes    = 16
	slotSize     = 16 // of an item in the memory of a sequence
)

// clear forgets the sequences of an earlier run, whose items the caller may have changed.
func (z *sizes) clear() { z.last, z.next = z.last[:0], 0 }

// of returns the size of a value in bytes.
func (z *sizes) of(v tensor.Value) int64 {
	s, ok := v.(*tensor.Sequence)
	if !ok || len(s.Items) < longSequence {
		return tensor.SizeOf(v)
	}
	unused := int64(cap(s.Items)-len(s.Items)) * slotSize
	r := knownSize{items: weak.Make(&s.Items[0])}
	for i := range z.last { // results of appending begin with the same items at the same address
		if k := &z.last[i]; k.items == r.items && k.n <= len(s.Items) && k.n > r.n {
			r = *k
		}
	}
	if r.n == len(s.Items) {
		return r.bytes + unused
	}
	rest := *s
	if r.n > 0 {
		r.bytes -= tensor.SizeOf(&tensor.Sequence{})
		rest.Items = s.Items[r.n:]
	}
	r.bytes += tensor.SizeOf(&rest)
	r.n = len(s.Items)
	if len(z.last) < keptSizes {
		z.last = append(z.last, r)
	} else {
		z.last[z.next] = r
		z.next = (z.next + 1) % keptSizes
	}
	return r.bytes + unused
}
