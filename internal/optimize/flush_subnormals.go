package optimize

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/tensor"
)

const (
	exponentBits = 0x7f800000
	leastNormal  = 0x00800000 // bits of 2⁻¹²⁶
	// flushFrom is the least magnitude, 2⁻⁶⁰, of the largest element of constants whose subnormal
	// elements are set to zero. Beside it they are below 2⁻⁶⁶.
	flushFrom = (127 - 60) << 23
)

// flushSubnormals sets subnormal elements of constant weights and biases to zero. Training with
// weight decay leaves many, and Intel's processors take over a hundred cycles for each multiply-add
// that reads one.
func flushSubnormals(o *Options, g *ir.Graph) (int, error) {
	if o.portable() || o.Packs.Forked() { // a plan for one shape has the constants of the general plan
		return 0, nil
	}
	edits, flushed := 0, map[ir.ValueID]ir.ValueID{}
	for _, n := range g.Nodes {
		if !readsWeights(n) {
			continue
		}
		cloned := false
		for i, id := range n.In {
			if id == ir.None || !isFloat(g, id) || constTensor(g, n, i) == nil {
				continue
			}
			to, seen := flushed[id]
			if !seen {
				to = id
				t, err := o.withoutSubnormals(constTensor(g, n, i))
				if err != nil {
					return edits, err
				}
				if t != nil {
					to = g.NewConst(g.Values[id].Name, t)
					g.Values[to].Owned = true
					edits++
				}
				flushed[id] = to
			}
			if to != id {
				if !cloned {
					n.In, cloned = slices.Clone(n.In), true
				}
				n.In[i] = to
			}
		}
	}
	return edits, nil
}

// readsWeights reports whether the operator multiplies by constants and adds. A Mul or an Add alone
// is exact: a huge number times a subnormal one is no small part of a sum there, but the result.
func readsWeights(n *ir.Node) bool {
	switch n.Op.(type) {
	case *ops.FusedConv, *ops.BatchNormalization, *ops.Affine:
		return true
	}
	return multiplies(n)
}

// withoutSubnormals returns a copy of t with zeros for subnormal elements, or nil if there are
// none, if all elements are small, or if the copy exceeds the memory for constants. Weights may be
// mapped from a file of any size, so the context is checked for each part of them.
func (o *Options) withoutSubnormals(t *tensor.Tensor) (*tensor.Tensor, error) {
	const part = 1 << 20
	all := memory.FromRaw[uint32](t.Bytes())
	if tensor.SizeOf(t) > o.MaxFolded+o.constants-o.folded {
		return nil, nil
	}
	subnormal := false
	for bits := range slices.Chunk(all, part) {
		if err := o.ctx.Err(); err != nil {
			return nil, err
		}
		subnormal = subnormal || hasSubnormal(bits)
	}
	if !subnormal {
		return nil, nil
	}
	largest := uint32(0)
	for _, b := range all {
		largest = max(largest, b&math.MaxInt32)
	}
	if largest < flushFrom {
		return nil, nil
	}
	r := t.Clone()
	o.folded += tensor.SizeOf(r)
	bits := memory.FromRaw[uint32](r.Bytes())
	for i, b := range bits {
		if b&exponentBits == 0 {
			bits[i] = b &^ (leastNormal - 1)
		}
	}
	return r, nil
}

// hasSubnormal reports whether bits has a subnormal float32. It passes over blocks without an
// exponent of zero.
func hasSubnormal(bits []uint32) bool {
	for len(bits) > 0 {
		n := min(len(bits), 16)
		if n == 16 {
			b := (*[64]byte)(memory.AsBytes(bits[:16]))
			both := normal(b[0:]) & normal(b[8:]) & normal(b[16:]) & normal(b[24:]) &
				normal(b[32:]) & normal(b[40:]) & normal(b[48:]) & normal(b[56:])
			if both&(both<<32)>>63 != 0 {
				bits = bits[16:]
				continue
			}
		}
		for _, b := range bits[:n] {
			if b&exponentBits == 0 && b&(leastNormal-1) != 0 {
				return true
			}
		}
		bits = bits[n:]
	}
	return false
}

// normal returns a number whose bits 31 and 63 say whether the exponents of the two float32 at the
// beginning of b are not 0.
func normal(b []byte) uint64 {
	const exponents = exponentBits<<32 | exponentBits
	return binary.NativeEndian.Uint64(b)&exponents + exponents
}
