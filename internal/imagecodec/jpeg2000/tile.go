package jpeg2000

import (
	"math"
	"math/bits"
	"slices"

	"github.com/onward-ml/onward/internal/imagecodec"
)

// j2kBand is a subband of a resolution of a tile: its bounds and its coefficients.
type j2kBand struct {
	kind           int // bit 0: horizontal high-pass, bit 1: vertical high-pass
	x0, y0, x1, y1 int
	planes         int // bit planes of a coefficient
	step           float32
	coef           []int32 // fixed point with one fractional bit
}

// j2kBlock is a code block.
type j2kBlock struct {
	band           *j2kBand
	x0, y0, x1, y1 int
	included       bool
	zero           int // bit planes that are zero
	lblock         int
	passes         int
	data           []byte
}

// j2kPrecinct is a precinct: the part of a resolution that one packet per layer codes.
type j2kPrecinct struct {
	comp, res, index int
	x, y             int // its corner on the reference grid
	parts            []j2kPart
}

// j2kPart is the part of a precinct in one subband: a grid of code blocks.
type j2kPart struct {
	across, down   int
	blocks         []j2kBlock
	included, zero *tagTree
}

// j2kResolution is a resolution of a component of a tile.
type j2kResolution struct {
	x0, y0, x1, y1 int
	bands          []*j2kBand
}

// tile decodes a tile.
func (d *j2k) tile(index int, stop func() error) error {
	t := d.tiles[index]
	p := &t.params
	tx, ty := index%d.across, index/d.across
	x0, y0 := max(d.tx+tx*d.tw, d.x0), max(d.ty+ty*d.th, d.y0)
	x1, y1 := min(d.tx+(tx+1)*d.tw, d.x1), min(d.ty+(ty+1)*d.th, d.y1)
	res := make([][]j2kResolution, len(d.comps))
	var list []*j2kPrecinct
	for i := range d.comps {
		c := &d.comps[i]
		box := [4]int{ceilDiv(x0, c.dx), ceilDiv(y0, c.dy), ceilDiv(x1, c.dx), ceilDiv(y1, c.dy)}
		var err error
		if res[i], list, err = d.divide(list, i, p, box, x0, y0); err != nil {
			return err
		}
	}
	key := func(a *j2kPrecinct) [5]int {
		switch p.progression {
		case 2:
			return [5]int{a.res, a.y, a.x, a.comp, a.index}
		case 3:
			return [5]int{a.y, a.x, a.comp, a.res, a.index}
		case 4:
			return [5]int{a.comp, a.y, a.x, a.res, a.index}
		}
		return [5]int{a.res, a.comp, a.index}
	}
	slices.SortFunc(list, func(a, b *j2kPrecinct) int {
		k, l := key(a), key(b)
		return slices.Compare(k[:], l[:])
	})
	if err := readPackets(t, list, stop); err != nil {
		return err
	}
	for i := range list {
		for k := range list[i].parts {
			for b := range list[i].parts[k].blocks {
				if err := stop(); err != nil {
					return err
				}
				list[i].parts[k].blocks[b].decode(p.coding[list[i].comp].style)
			}
		}
	}
	return d.assemble(p, res, stop)
}

// divide splits a component of a tile into resolutions, subbands, precincts and code blocks
// (annex B).
func (d *j2k) divide(list []*j2kPrecinct, comp int, p *j2kParams, box [4]int, tx0,
	ty0 int) ([]j2kResolution, []*j2kPrecinct, error) {
	c, co, q := &d.comps[comp], &p.coding[comp], &p.quant[comp]
	area := (box[2] - box[0]) * (box[3] - box[1])
	room := area/16 + 4096 // largest number of parts, so that memory is bounded by the area
	var all []j2kResolution
	for r := range co.levels + 1 {
		n := co.levels - r
		rs := j2kResolution{ceilShift(box[0], n), ceilShift(box[1], n), ceilShift(box[2], n), ceilShift(box[3], n), nil}
		kinds := []int{1, 2, 3}
		if n++; r == 0 {
			kinds, n = []int{0}, n-1
		}
		for _, kind := range kinds {
			b := &j2kBand{kind: kind}
			at := func(v, high int) int {
				if n == 0 {
					return v
				}
				return ceilShift(v-high<<(n-1), n)
			}
			b.x0, b.x1 = at(box[0], kind&1), at(box[2], kind&1)
			b.y0, b.y1 = at(box[1], kind>>1), at(box[3], kind>>1)
			step := q.steps[0]
			if r > 0 {
				step = q.steps[3*(r-1)+kind]
			}
			b.planes = q.guard + step[0] - 1
			if b.planes > 30 {
				return nil, nil, errJ2K
			}
			// A high-pass direction adds one bit to the dynamic range of a subband.
			gain := c.depth + kind&1 + kind>>1
			b.step = float32((1 + float64(step[1])/2048) * math.Pow(2, float64(gain-step[0])))
			if b.x1 > b.x0 && b.y1 > b.y0 {
				b.coef = make([]int32, (b.x1-b.x0)*(b.y1-b.y0))
			}
			rs.bands = append(rs.bands, b)
		}
		all = append(all, rs)
		if rs.x1 <= rs.x0 || rs.y1 <= rs.y0 {
			continue
		}
		px, py := int(co.precincts[r][0]), int(co.precincts[r][1])
		firstX, firstY := rs.x0>>px, rs.y0>>py
		wide, high := ceilShift(rs.x1, px)-firstX, ceilShift(rs.y1, py)-firstY
		if wide > room || high > room || wide*high > room {
			return nil, nil, errJ2K
		}
		room -= wide * high
		for i := range wide * high {
			x, y := firstX+i%wide, firstY+i/wide
			pr := &j2kPrecinct{comp: comp, res: r, index: i, x: tx0, y: ty0}
			if x<<px > rs.x0 {
				pr.x = x << px << (co.levels - r) * c.dx
			}
			if y<<py > rs.y0 {
				pr.y = y << py << (co.levels - r) * c.dy
			}
			half := min(r, 1) // subbands of higher resolutions have half the size
			for _, b := range rs.bands {
				part := j2kPart{}
				bx, by := px-half, py-half
				x0, x1 := max(x<<bx, b.x0), min((x+1)<<bx, b.x1)
				y0, y1 := max(y<<by, b.y0), min((y+1)<<by, b.y1)
				if x1 > x0 && y1 > y0 {
					cw, ch := min(co.xcb, bx), min(co.ycb, by)
					part.across, part.down = ceilShift(x1, cw)-x0>>cw, ceilShift(y1, ch)-y0>>ch
					count := part.across * part.down
					if room -= count; room < 0 {
						return nil, nil, errJ2K
					}
					part.blocks = make([]j2kBlock, count)
					for k := range part.blocks {
						kx, ky := x0>>cw+k%part.across, y0>>ch+k/part.across
						part.blocks[k] = j2kBlock{band: b, lblock: 3,
							x0: max(kx<<cw, x0), y0: max(ky<<ch, y0), x1: min((kx+1)<<cw, x1), y1: min((ky+1)<<ch, y1)}
					}
					part.included, part.zero = newTagTree(part.across, part.down), newTagTree(part.across, part.down)
				}
				pr.parts = append(pr.parts, part)
			}
			list = append(list, pr)
		}
	}
	return all, list, nil
}

// tagTree decodes a grid of numbers from the minima of squares of increasing size (B.10.2).
type tagTree struct {
	wide  []int // of each level, the leaves first
	start []int
	value []int32
	low   []int32
}

func newTagTree(w, h int) *tagTree {
	t := &tagTree{}
	n := 0
	for {
		t.wide = append(t.wide, w)
		t.start = append(t.start, n)
		if n += w * h; w*h == 1 {
			break
		}
		w, h = (w+1)/2, (h+1)/2
	}
	t.value, t.low = make([]int32, n), make([]int32, n)
	for i := range t.value {
		t.value[i] = math.MaxInt32
	}
	return t
}

// below reads bits until it is decided whether the number at (x, y) is below limit.
func (t *tagTree) below(r *packetReader, x, y int, limit int32) bool {
	low := int32(0)
	for l := len(t.wide) - 1; ; l-- {
		i := t.start[l] + y>>l*t.wide[l] + x>>l
		low = max(low, t.low[i])
		for low < limit && low < t.value[i] {
			if r.bit() == 1 {
				t.value[i] = low
			} else {
				low++
			}
		}
		t.low[i] = low
		if l == 0 {
			return t.value[i] < limit
		}
	}
}

// packetReader reads the bits of a packet header. The byte after 0xff has only seven bits.
type packetReader struct {
	data []byte
	cur  byte
	left int
	end  bool
}

func (r *packetReader) bit() int {
	if r.left == 0 {
		r.left = 8
		if r.cur == 0xff {
			r.left = 7
		}
		if len(r.data) == 0 {
			r.end, r.cur = true, 0
			return 0
		}
		r.cur, r.data = r.data[0], r.data[1:]
	}
	r.left--
	return int(r.cur >> r.left & 1)
}

func (r *packetReader) bits(n int) int {
	v := 0
	for range n {
		v = v<<1 | r.bit()
	}
	return v
}

// align skips to the byte boundary at the end of a header.
func (r *packetReader) align() {
	if r.cur == 0xff && len(r.data) > 0 {
		r.data = r.data[1:]
	}
	r.cur, r.left = 0, 0
}

// marker skips a marker segment of n bytes if it is next.
func (r *packetReader) marker(low byte, n int) {
	if len(r.data) >= n && r.data[0] == 0xff && r.data[1] == low {
		r.data = r.data[n:]
	}
}

// readPackets reads the packets of a tile. Missing packets at the end are accepted.
func readPackets(t *j2kTile, list []*j2kPrecinct, stop func() error) error {
	r := &packetReader{data: t.data}
	order := func(layer int, p *j2kPrecinct) error {
		if err := stop(); err != nil {
			return err
		}
		return r.packet(p, layer)
	}
	if t.params.progression == 0 {
		for layer := range t.params.layers {
			for i := range list {
				if len(r.data) == 0 {
					return nil
				}
				if err := order(layer, list[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	// In the other orders the layers of a precinct are consecutive, except in order
	// RLCP: it loops over layers outside of components.
	for i := 0; i < len(list); {
		n := 1
		for t.params.progression == 1 && i+n < len(list) && list[i+n].res == list[i].res {
			n++
		}
		for layer := range t.params.layers {
			for k := range n {
				if len(r.data) == 0 {
					return nil
				}
				if err := order(layer, list[i+k]); err != nil {
					return err
				}
			}
		}
		i += n
	}
	return nil
}

// packet reads one packet: the contribution of a layer to a precinct (B.10).
func (r *packetReader) packet(p *j2kPrecinct, layer int) error {
	r.marker(0x91, 6)
	type piece struct {
		block *j2kBlock
		n     int
	}
	var pieces []piece
	if r.bit() == 1 {
		for i := range p.parts {
			part := &p.parts[i]
			for k := range part.blocks {
				b := &part.blocks[k]
				x, y := k%part.across, k/part.across
				if b.included {
					if r.bit() == 0 {
						continue
					}
				} else {
					if !part.included.below(r, x, y, int32(layer+1)) {
						continue
					}
					b.included = true
					for !part.zero.below(r, x, y, int32(b.zero+1)) {
						if b.zero++; b.zero > 64 || r.end {
							return imagecodec.ErrTruncated
						}
					}
				}
				passes := r.passes()
				for r.bit() == 1 {
					b.lblock++
				}
				width := b.lblock + bits.Len(uint(passes)) - 1
				if r.end || width > 31 {
					return imagecodec.ErrTruncated
				}
				b.passes += passes
				pieces = append(pieces, piece{b, r.bits(width)})
			}
		}
	}
	r.align()
	r.marker(0x92, 2)
	for _, q := range pieces {
		n := min(q.n, len(r.data))
		q.block.data = append(q.block.data, r.data[:n]...)
		r.data = r.data[n:]
	}
	return nil
}

// passes reads the number of coding passes (table B.4).
func (r *packetReader) passes() int {
	if r.bit() == 0 {
		return 1
	}
	if r.bit() == 0 {
		return 2
	}
	if v := r.bits(2); v < 3 {
		return 3 + v
	}
	if v := r.bits(5); v < 31 {
		return 6 + v
	}
	return 37 + r.bits(7)
}

// assemble applies the inverse wavelet transform and writes the samples of a tile.
func (d *j2k) assemble(p *j2kParams, res [][]j2kResolution, stop func() error) error {
	planes := make([][]float32, len(d.comps))
	whole := make([][]int32, len(d.comps))
	for i := range d.comps {
		if err := stop(); err != nil {
			return err
		}
		if p.coding[i].reversible {
			whole[i] = inverseWavelet(res[i], func(b *j2kBand, v int32) int32 { return v / 2 }, lift53)
		} else {
			planes[i] = inverseWavelet(res[i], func(b *j2kBand, v int32) float32 {
				return float32(v) * 0.5 * b.step
			}, lift97)
		}
	}
	if p.mct && len(d.comps) >= 3 {
		if a, b, c := whole[0], whole[1], whole[2]; a != nil && len(a) == len(b) && len(a) == len(c) {
			for i := range a {
				g := a[i] - (b[i]+c[i])>>2
				a[i], b[i], c[i] = c[i]+g, g, b[i]+g
			}
		} else if a, b, c := planes[0], planes[1], planes[2]; a != nil && len(a) == len(b) && len(a) == len(c) {
			for i := range a {
				y, u, v := a[i], b[i], c[i]
				a[i], b[i], c[i] = y+1.402*v, y-0.34413*u-0.71414*v, y+1.772*u
			}
		} else {
			return errJ2K
		}
	}
	for i := range d.comps {
		c := &d.comps[i]
		top := &res[i][len(res[i])-1]
		w := top.x1 - top.x0
		shift := int32(0)
		if !c.signed {
			shift = 1 << (c.depth - 1)
		}
		for y := top.y0; y < top.y1; y++ {
			for x := top.x0; x < top.x1; x++ {
				k := (y-top.y0)*w + x - top.x0
				v := int32(0)
				if whole[i] != nil {
					v = whole[i][k]
				} else {
					v = int32(math.RoundToEven(float64(min(max(planes[i][k], -1<<20), 1<<20))))
				}
				c.out[(y-c.y0)*c.w+x-c.x0] = v + shift
			}
		}
	}
	return nil
}
