package conv

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/memory"
)

// PermutedPointwise is a 1×1 convolution over NCHW16c without padding that reads its input channels one by
// one, in any order. Groups whose channels do not fill blocks waste no work on channels of other
// groups, and a permutation of the channels before the convolution is free.
type PermutedPointwise struct {
	in, out          Layout
	strideH, strideW int
	data, bias       []float32
	panels           []permutedPanel
	each, outs       int // input and output channels of a group
}

// permutedPanel is one or two output blocks, with the input channels of their groups.
type permutedPanel struct {
	block, blocks int
	offset        int     // into data, [channel][outputs of the panel]
	first         int     // offset in elements from a pixel to the first channel
	deltas        []int64 // distance in bytes from each channel to the next
}

// NewPermutedPointwise packs w of shape (Cout, Cin/group) for images with layouts in and out. bias may be nil.
// order maps input channels of the convolution to channels of the image; nil is the identity.
func NewPermutedPointwise(w, bias []float32, group int, in, out Layout, strideH, strideW int, order []int) (*PermutedPointwise, error) {
	if group < 1 || in.C%group != 0 || out.C%group != 0 || len(w) != out.C*(in.C/group) || order != nil && len(order) != in.C {
		return nil, fail.Errorf("%d weights in %d groups do not take %d channels to %d", len(w), group, in.C, out.C)
	}
	if err := checkWindow(&in, &out, 1, 1, strideH, strideW, 1, 1, 0, 0); err != nil {
		return nil, err
	}
	d := &PermutedPointwise{in: in, out: out, strideH: strideH, strideW: strideW, bias: memory.Slice[float32](out.Blocks() * Lanes)}
	copy(d.bias, bias)
	cg, og := in.C/group, out.C/group
	d.each, d.outs = cg, og
	groups := func(block int) (first, last int) { return block * Lanes / og, (min(out.C, (block+1)*Lanes) - 1) / og }
	size := 0
	for b := 0; b < out.Blocks(); {
		first, last := groups(b)
		p := permutedPanel{block: b, blocks: 1, offset: size}
		if b+1 < out.Blocks() {
			if f, l := groups(b + 1); f == first && l == last {
				p.blocks = 2
			}
		}
		at := 0
		for c := first * cg; c < (last+1)*cg; c++ {
			k := c
			if order != nil {
				k = order[c]
			}
			here := in.At(k/Lanes, 0, 0) - in.At(0, 0, 0) + k%Lanes
			if len(p.deltas) == 0 {
				p.first = here
			} else {
				p.deltas[len(p.deltas)-1] = int64(here-at) * 4
			}
			at, p.deltas = here, append(p.deltas, 0)
		}
		size += len(p.deltas) * p.blocks * Lanes
		b += p.blocks
		d.panels = append(d.panels, p)
	}
	d.data = memory.Slice[float32](size)
	for _, p := range d.panels {
		width := p.blocks * Lanes
		first, _ := groups(p.block)
		for j := range min(width, out.C-p.block*Lanes) {
			o := p.block*Lanes + j
			skip := (o/og - first) * cg // channels of the panel's groups before this one
			for c, v := range w[o*cg:][:cg] {
				d.data[p.offset+(skip+c)*width+j] = v
			}
		}
	}
	return d, nil
}

// PermutedPointwisePays reports whether [PermutedPointwise] is faster than [Direct] for a 1×1 convolution, because it
// reads few of the channels in the blocks.
func PermutedPointwisePays(cin, cout, group int) bool {
	cg, og := cin/group, cout/group
	one, whole := 0, 0
	for b := 0; b*Lanes < cout; b++ {
		first, last := b*Lanes/og, (min(cout, (b+1)*Lanes)-1)/og
		one += (last - first + 1) * cg
		whole += (tiles((last+1)*cg, Lanes) - first*cg/Lanes) * Lanes
	}
	return one*20 <= whole*19
}

// To returns the convolution with another output layout of the same size.
func (d *PermutedPointwise) To(out Layout) *PermutedPointwise {
	c := *d
	c.out = out
	return &c
}

// Run computes one image. par is as in [Direct.Run].
func (d *PermutedPointwise) Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	d.in.check("input", x)
	d.out.check("output", y)
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	rows := newRows(&d.in, &d.out, ep, len(d.panels), d.strideH == 1 && d.strideW == 1)
	rows.panels(par, len(d.panels), func(p, g0, g1 int) { d.panel(level, y, x, ep, &d.panels[p], &rows, g0, g1) })
}

func (d *PermutedPointwise) panel(level cpu.Level, y, x []float32, ep *BlockedEpilogue, p *permutedPanel, rows *rows, g0, g1 int) {
	t := tileArgs{pixel: d.strideW * Lanes * 4, ldc: d.out.Block * 4, bStep: p.blocks * Lanes * 4}
	if ep.Add != nil {
		t.ldadd = ep.AddLayout.Block * 4
	}
	t.lo, t.hi = ep.bounds()
	first := p.first
	for k0 := 0; k0 < len(p.deltas); k0 += maxSteps {
		deltas := p.deltas[k0:min(k0+maxSteps, len(p.deltas))]
		last := k0+len(deltas) == len(p.deltas)
		t.cb, t.deltas = len(deltas), unsafe.Pointer(&deltas[0])
		t.b, t.bias = at(ptr(d.data), p.offset+k0*p.blocks*Lanes), at(ptr(d.bias), p.block*Lanes)
		if k0 > 0 {
			t.acc = 1
		}
		var finish *BlockedEpilogue
		if last {
			t.act, finish = uint64(ep.Act), ep
		}
		rows.tiles(level, g0, g1, tilePixels(level), func(row, a, b int) {
			t.a = at(ptr(x), d.in.At(0, row*d.strideH, a*d.strideW)+first)
			t.c = at(ptr(y), d.out.At(p.block, row, a))
			if ep.Add != nil && last {
				t.add = at(ptr(ep.Add), ep.AddLayout.At(p.block, row, a))
			}
			runPermuted(level, b-a, p.blocks, &t)
			if last && len(p.deltas) > d.each {
				t.mend(level, b-a, p.block, p.blocks, d.out.C, func(pixel, o int) float32 {
					return d.sum(x[d.in.At(0, row*d.strideH, (a+pixel)*d.strideW):], p, o)
				})
			}
		}, finish, &d.out, y, p.block, p.blocks)
		for _, m := range deltas {
			first += int(m) / 4
		}
	}
}

// sum returns the sum of output channel o, of a panel, with its bias: the products with its own group. x begins at the pixel.
func (d *PermutedPointwise) sum(x []float32, p *permutedPanel, o int) float32 {
	width, v, at := p.blocks*Lanes, d.bias[o], p.first
	first := (o/d.outs - p.block*Lanes/d.outs) * d.each
	for c, move := range p.deltas[:first+d.each] {
		if c >= first {
			v += x[at] * d.data[p.offset+c*width+o-p.block*Lanes]
		}
		at += int(move) / 4
	}
	return v
}
