package jpeg2000

// mqState is a row of table C.2: the probability of the less probable symbol, and the next
// row after each symbol.
type mqState struct {
	qe         uint32
	more, less uint8
	swap       uint8
}

var mqStates = [47]mqState{
	{0x5601, 1, 1, 1}, {0x3401, 2, 6, 0}, {0x1801, 3, 9, 0}, {0x0ac1, 4, 12, 0}, {0x0521, 5, 29, 0},
	{0x0221, 38, 33, 0},
	{0x5601, 7, 6, 1}, {0x5401, 8, 14, 0}, {0x4801, 9, 14, 0}, {0x3801, 10, 14, 0}, {0x3001, 11, 17, 0},
	{0x2401, 12, 18, 0},
	{0x1c01, 13, 20, 0}, {0x1601, 29, 21, 0}, {0x5601, 15, 14, 1}, {0x5401, 16, 14, 0}, {0x5101, 17, 15, 0},
	{0x4801, 18, 16, 0},
	{0x3801, 19, 17, 0}, {0x3401, 20, 18, 0}, {0x3001, 21, 19, 0}, {0x2801, 22, 19, 0}, {0x2401, 23, 20, 0},
	{0x2201, 24, 21, 0},
	{0x1c01, 25, 22, 0}, {0x1801, 26, 23, 0}, {0x1601, 27, 24, 0}, {0x1401, 28, 25, 0}, {0x1201, 29, 26, 0},
	{0x1101, 30, 27, 0},
	{0x0ac1, 31, 28, 0}, {0x09c1, 32, 29, 0}, {0x08a1, 33, 30, 0}, {0x0521, 34, 31, 0}, {0x0441, 35, 32, 0},
	{0x02a1, 36, 33, 0},
	{0x0221, 37, 34, 0}, {0x0141, 38, 35, 0}, {0x0111, 39, 36, 0}, {0x0085, 40, 37, 0}, {0x0049, 41, 38, 0},
	{0x0025, 42, 39, 0},
	{0x0015, 43, 40, 0}, {0x0009, 44, 41, 0}, {0x0005, 45, 42, 0}, {0x0001, 45, 43, 0}, {0x5601, 46, 46, 0},
}

// First contexts of sign coding, magnitude refinement, run length and uniform coding (table
// D.7). Zero coding uses the contexts from 0 on.
const (
	mqSign    = 9
	mqRefine  = 14
	mqRun     = 17
	mqUniform = 18
)

// mqDecoder is the arithmetic decoder (annex C).
type mqDecoder struct {
	data  []byte
	pos   int
	c, a  uint32
	count int
	state [19]uint8
	mps   [19]uint8
}

func (m *mqDecoder) resetContexts() {
	clear(m.state[:])
	clear(m.mps[:])
	m.state[0], m.state[mqRun], m.state[mqUniform] = 4, 3, 46
}

func (m *mqDecoder) at(i int) uint32 {
	if i < len(m.data) {
		return uint32(m.data[i])
	}
	return 0xff
}

func (m *mqDecoder) start(data []byte) {
	m.data, m.pos = data, 0
	m.c = m.at(0) << 16
	m.byteIn()
	m.c <<= 7
	m.count -= 7
	m.a = 0x8000
}

func (m *mqDecoder) byteIn() {
	if m.at(m.pos) == 0xff {
		if m.at(m.pos+1) > 0x8f {
			m.c += 0xff00
			m.count = 8
			return
		}
		m.pos++
		m.c += m.at(m.pos) << 9
		m.count = 7
		return
	}
	m.pos++
	m.c += m.at(m.pos) << 8
	m.count = 8
}

// bit decodes a bit in a context.
func (m *mqDecoder) bit(ctx int) int {
	s := &mqStates[m.state[ctx]]
	d := m.mps[ctx]
	m.a -= s.qe
	if m.c>>16 < s.qe {
		// The lower interval codes the less probable symbol, or the more probable one
		// if that has the smaller interval (conditional exchange).
		if m.a < s.qe {
			m.state[ctx] = s.more
		} else {
			d ^= 1
			m.mps[ctx] ^= s.swap
			m.state[ctx] = s.less
		}
		m.a = s.qe
	} else {
		m.c -= s.qe << 16
		if m.a&0x8000 != 0 {
			return int(d)
		}
		if m.a < s.qe {
			d ^= 1
			m.mps[ctx] ^= s.swap
			m.state[ctx] = s.less
		} else {
			m.state[ctx] = s.more
		}
	}
	for {
		if m.count == 0 {
			m.byteIn()
		}
		m.a <<= 1
		m.c <<= 1
		m.count--
		if m.a&0x8000 != 0 {
			return int(d)
		}
	}
}

// State bits of a coefficient.
const (
	j2kSignificant = 1 << iota
	j2kNegative
	j2kVisited
	j2kRefined
)

// blockDecoder decodes the bit planes of a code block (annex D).
type blockDecoder struct {
	mq     mqDecoder
	w, h   int
	kind   int
	causal bool // vertically causal contexts: a stripe ignores the stripe below
	marks  []uint8
	stride int
	out    []int32
	pitch  int
	one    int32 // the value of the bit plane, shifted left by one
}

// decode decodes all passes of a block into the coefficients of its subband.
func (b *j2kBlock) decode(style int) {
	w, h := b.x1-b.x0, b.y1-b.y0
	plane := b.band.planes - b.zero
	if b.passes == 0 || plane < 1 {
		return
	}
	pitch := b.band.x1 - b.band.x0
	d := &blockDecoder{w: w, h: h, kind: b.band.kind, causal: style&8 != 0, stride: w + 2,
		marks: make([]uint8, (w+2)*(h+2)),
		out:   b.band.coef[(b.y0-b.band.y0)*pitch+b.x0-b.band.x0:], pitch: pitch}
	d.mq.resetContexts()
	d.mq.start(b.data)
	kind := 2 // the first pass is a cleanup pass
	for range b.passes {
		if plane < 1 {
			return
		}
		d.one = 1 << plane
		switch kind {
		case 0:
			d.significance()
		case 1:
			d.refinement()
		default:
			d.cleanup()
			if style&0x20 != 0 {
				for range 4 {
					d.mq.bit(mqUniform)
				}
			}
		}
		if style&2 != 0 {
			d.mq.resetContexts()
		}
		if kind++; kind == 3 {
			kind = 0
			plane--
		}
	}
}

// each calls fn for all coefficients: by stripes of four rows, then by columns.
func (d *blockDecoder) each(fn func(x, y, at int)) {
	for top := 0; top < d.h; top += 4 {
		for x := range d.w {
			for y := top; y < min(top+4, d.h); y++ {
				fn(x, y, (y+1)*d.stride+x+1)
			}
		}
	}
}

// around counts the significant neighbours: horizontal, vertical and diagonal.
func (d *blockDecoder) around(y, at int) (h, v, g int) {
	m, s := d.marks, d.stride
	h = int(m[at-1]&1 + m[at+1]&1)
	v = int(m[at-s] & 1)
	g = int(m[at-s-1]&1 + m[at-s+1]&1)
	if !d.causal || y&3 != 3 {
		v += int(m[at+s] & 1)
		g += int(m[at+s-1]&1 + m[at+s+1]&1)
	}
	return h, v, g
}

// zeroContext is the context of zero coding (table D.1).
func (d *blockDecoder) zeroContext(h, v, g int) int {
	switch d.kind {
	case 1:
		h, v = v, h
	case 3:
		n := h + v
		switch {
		case g >= 3:
			return 8
		case g == 2:
			return 6 + min(n, 1)
		case g == 1:
			return 3 + min(n, 2)
		}
		return min(n, 2)
	}
	switch {
	case h == 2:
		return 8
	case h == 1 && v >= 1:
		return 7
	case h == 1:
		return 5 + min(g, 1)
	case v > 0:
		return 2 + v
	}
	return min(g, 2)
}

// sign decodes the sign of a coefficient that becomes significant.
func (d *blockDecoder) sign(x, y, at int) {
	m := d.marks
	one := func(i int) int {
		switch m[i] & 3 {
		case 1:
			return 1
		case 3:
			return -1
		}
		return 0
	}
	h := min(max(one(at-1)+one(at+1), -1), 1)
	v := one(at - d.stride)
	if !d.causal || y&3 != 3 {
		v += one(at + d.stride)
	}
	v = min(max(v, -1), 1)
	flip := 0
	if h < 0 || h == 0 && v < 0 {
		h, v, flip = -h, -v, 1
	}
	val := d.one | d.one>>1
	m[at] |= j2kSignificant
	if d.mq.bit(mqSign+3*h+v)^flip != 0 {
		m[at] |= j2kNegative
		val = -val
	}
	d.out[y*d.pitch+x] = val
}

func (d *blockDecoder) significance() {
	d.each(func(x, y, at int) {
		if d.marks[at]&j2kSignificant != 0 {
			return
		}
		h, v, g := d.around(y, at)
		if h+v+g == 0 {
			return
		}
		d.marks[at] |= j2kVisited
		if d.mq.bit(d.zeroContext(h, v, g)) != 0 {
			d.sign(x, y, at)
		}
	})
}

func (d *blockDecoder) refinement() {
	half := d.one >> 1
	d.each(func(x, y, at int) {
		if d.marks[at]&(j2kSignificant|j2kVisited) != j2kSignificant {
			return
		}
		ctx := mqRefine + 2
		if d.marks[at]&j2kRefined == 0 {
			ctx = mqRefine
			if h, v, g := d.around(y, at); h+v+g > 0 {
				ctx++
			}
		}
		d.marks[at] |= j2kRefined
		p := &d.out[y*d.pitch+x]
		if up := d.mq.bit(ctx) != 0; up != (*p < 0) {
			*p += half
		} else {
			*p -= half
		}
	})
}

func (d *blockDecoder) cleanup() {
	for top := 0; top < d.h; top += 4 {
		for x := range d.w {
			y := top
			first := (top+1)*d.stride + x + 1
			if top+4 <= d.h && d.quiet(top, first) {
				if d.mq.bit(mqRun) == 0 {
					continue
				}
				y += d.mq.bit(mqUniform)<<1 | d.mq.bit(mqUniform)
				d.sign(x, y, first+(y-top)*d.stride)
				y++
			}
			for ; y < min(top+4, d.h); y++ {
				at := (y+1)*d.stride + x + 1
				if d.marks[at]&(j2kSignificant|j2kVisited) == 0 {
					if d.mq.bit(d.zeroContext(d.around(y, at))) != 0 {
						d.sign(x, y, at)
					}
				}
			}
		}
	}
	for i := range d.marks {
		d.marks[i] &^= j2kVisited
	}
}

// quiet reports whether none of the four coefficients of a column is significant,
// visited, or has a significant neighbour.
func (d *blockDecoder) quiet(top, at int) bool {
	for k := range 4 {
		if d.marks[at]&(j2kSignificant|j2kVisited) != 0 {
			return false
		}
		if h, v, g := d.around(top+k, at); h+v+g != 0 {
			return false
		}
		at += d.stride
	}
	return true
}
