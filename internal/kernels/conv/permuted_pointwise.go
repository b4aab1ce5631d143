package conv

import (
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/memory"
)

// PermutedPointwise is a 1×1 convolution over NCHW16c without padding that reads its input channels
// one by one, in any order. Groups whose channels do not fill blocks waste no work on channels of
// other groups, and a permutation of the channels before the convolution is free.
type PermutedPointwise struct {
	in, out          Layout
	strideH, strideW int
	data, bias       []float32
	panels           []permutedPanel
	each, outs       int // input and output channels of a group
}

// PermutedWeights are the packed weights of [PermutedPointwise]: [channel][outputs of the panel]
// for each panel.
type PermutedWeights struct {
	cin, cout, group int
	data, bias       []float32
}

// Bytes returns the size of the packed weights; 0 if p is nil.
func (p *PermutedWeights) Bytes() int64 {
	if p == nil {
		return 0
	}
	return int64(len(p.data)+len(p.bias)) * 4
}

// permutedPanel is one or two output blocks, with the input channels of their groups.
type permutedPanel struct {
	block, blocks int
	offset        int     // into data, [channel][outputs of the panel]
	first         int     // offset in elements from a pixel to the first channel
	deltas        []int64 // distance in bytes from each channel to the next
}

// groups returns the first and the last group with output channels in a block.
func (p *PermutedWeights) groups(block int) (first, last int) {
	og := p.cout / p.group
	return block * Lanes / og, (min(p.cout, (block+1)*Lanes) - 1) / og
}

// panels returns the panels without deltas, and the number of elements of the packed weights.
func (p *PermutedWeights) panels() (panels []permutedPanel, size int) {
	for b, blocks := 0, tiles(p.cout, Lanes); b < blocks; {
		first, last := p.groups(b)
		n := permutedPanel{block: b, blocks: 1, offset: size}
		if b+1 < blocks {
			if f, l := p.groups(b + 1); f == first && l == last {
				n.blocks = 2
			}
		}
		size += (last - first + 1) * (p.cin / p.group) * n.blocks * Lanes
		b += n.blocks
		panels = append(panels, n)
	}
	return panels, size
}

// PackPermuted packs w of shape (cout, cin/group). bias may be nil.
func PackPermuted(w, bias []float32, cin, cout, group int) (*PermutedWeights, error) {
	if group < 1 || cin%group != 0 || cout%group != 0 || len(w) != cout*(cin/group) {
		return nil, fail.Errorf("%d weights in %d groups do not take %d channels to %d", len(w), group, cin, cout)
	}
	p := &PermutedWeights{cin: cin, cout: cout, group: group, bias: memory.Slice[float32](tiles(cout, Lanes) * Lanes)}
	copy(p.bias, bias)
	panels, size := p.panels()
	p.data = memory.Slice[float32](size)
	cg, og := cin/group, cout/group
	for _, n := range panels {
		width := n.blocks * Lanes
		first, _ := p.groups(n.block)
		for j := range min(width, cout-n.block*Lanes) {
			o := n.block*Lanes + j
			skip := (o/og - first) * cg // channels of the panel's groups before this one
			for c, v := range w[o*cg:][:cg] {
				p.data[n.offset+(skip+c)*width+j] = v
			}
		}
	}
	return p, nil
}

// Direct returns the convolution with weights for whole blocks of input channels in their order, or
// nil if it has groups.
func (d *PermutedPointwise) Direct() *Direct {
	var panels []panel
	for _, p := range d.panels {
		if len(p.deltas) != d.in.C {
			return nil
		}
		panels = append(panels, panel{block: p.block, blocks: p.blocks, offset: p.offset})
	}
	w := wholeBlocks(d.in.C, d.out.C, d.data, d.bias, panels, func(panel int) (channels []int) {
		at := d.panels[panel].first
		for _, move := range d.panels[panel].deltas {
			channels = append(channels, at/d.in.Block*Lanes+at%d.in.Block)
			at += int(move) / 4
		}
		return channels
	})
	return &Direct{In: d.in, Out: d.out, StrideH: d.strideH, StrideW: d.strideW, DilationH: 1, DilationW: 1, Weights: w}
}

// wholeBlocks packs the weights of a 1×1 convolution from cin to cout channels for [Direct].
// data has [channel][outputs of the panel] for each panel, and channels returns which they are.
func wholeBlocks(cin, cout int, data, bias []float32, panels []panel, channels func(panel int) []int) *Weights {
	w := &Weights{Cin: cin, Cout: cout, KH: 1, KW: 1, Bias: bias}
	in := Layout{C: cin}
	size := 0
	for _, p := range panels {
		w.panels = append(w.panels, panel{block: p.block, blocks: p.blocks, cbs: in.Blocks(), offset: size,
			idle: in.idleGroups()})
		size += in.Blocks() * Lanes * p.blocks * Lanes
	}
	w.Data = memory.Slice[float32](size)
	for i, p := range panels {
		width := p.blocks * Lanes
		for k, c := range channels(i) {
			copy(w.Data[w.panels[i].offset+c*width:][:width], data[p.offset+k*width:])
		}
	}
	return w
}

// NewPermutedPointwise returns the convolution of images with layouts in and out. order maps input
// channels of the convolution to channels of the image; nil is the identity.
func NewPermutedPointwise(w *PermutedWeights, in, out Layout, strideH, strideW int,
	order []int) (*PermutedPointwise, error) {
	if in.C != w.cin || out.C != w.cout || order != nil && len(order) != in.C {
		return nil, fail.Errorf("weights take %d channels to %d, not %d to %d, or an order of %d", w.cin, w.cout,
			in.C, out.C, len(order))
	}
	if err := checkWindow(&in, &out, 1, 1, strideH, strideW, 1, 1, 0, 0); err != nil {
		return nil, err
	}
	cg := in.C / w.group
	d := &PermutedPointwise{in: in, out: out, strideH: strideH, strideW: strideW, data: w.data, bias: w.bias, each: cg,
		outs: out.C / w.group}
	d.panels, _ = w.panels()
	for i := range d.panels {
		p := &d.panels[i]
		first, last := w.groups(p.block)
		p.deltas = make([]int64, 0, (last-first+1)*cg)
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
	}
	return d, nil
}

// PermutedPointwisePays reports whether [PermutedPointwise] is faster than [Direct] for a 1×1
// convolution, because it reads few of the channels in the blocks.
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
	rows := newRows(&d.in, &d.out, ep, len(d.panels), len(d.data), d.strideH == 1 && d.strideW == 1)
	rows.panels(par, len(d.panels), func(p, g0, g1 int) { d.panel(level, y, x, ep, &d.panels[p], &rows, g0, g1) })
}

func (d *PermutedPointwise) panel(level cpu.Level, y, x []float32, ep *BlockedEpilogue, p *permutedPanel,
	rows *rows, g0, g1 int) {
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

// sum returns the sum of output channel o, of a panel, with its bias, over the channels of its
// group. x begins at the pixel.
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
