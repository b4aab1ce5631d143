package picture

import "errors"

// vp8 is a key frame of VP8 (RFC 6386), the lossy picture of a WebP file.
type vp8 struct {
	w, h, mbw, mbh int
	first          boolReader
	parts          []boolReader

	segments, segmentMap bool
	absolute             bool
	segQuant, segLevel   [4]int
	segProb              [3]int
	simple               bool
	level, sharpness     int
	deltas               bool
	refDelta, modeDelta  [4]int
	quant                [4]vp8Quant
	skipProb             int // negative: no macroblock is marked as skipped
	tokens               [4][8][3][11]uint8

	y, u, v vp8Plane
	filters []vp8Filter // of all macroblocks
}

// vp8Quant holds the steps of a segment: of the first and of other
// coefficients.
type vp8Quant struct{ y1, y2, uv [2]int }

// vp8Plane is a plane with a border of one row above and one column to the left,
// which prediction reads, and of four more columns to the right.
type vp8Plane struct {
	pix    []uint8
	stride int
}

func newVP8Plane(w, h int) vp8Plane {
	p := vp8Plane{stride: w + 5, pix: make([]uint8, (w+5)*(h+1))}
	for i := range p.stride {
		p.pix[i] = 127
	}
	for y := 1; y <= h; y++ {
		p.pix[y*p.stride] = 129
	}
	return p
}

// at returns the place of a pixel.
func (p *vp8Plane) at(x, y int) int { return (y+1)*p.stride + x + 1 }

// boolReader decodes the bits of an arithmetic code (section 7).
type boolReader struct {
	data        []byte
	pos         int
	value, span uint32
	shifted     int
}

func newBoolReader(data []byte) boolReader {
	r := boolReader{data: data, span: 255}
	r.value = uint32(r.next())<<8 | uint32(r.next())
	return r
}

func (r *boolReader) next() byte {
	r.pos++
	if r.pos > len(r.data) {
		return 0
	}
	return r.data[r.pos-1]
}

// over reports that far more was read than there is.
func (r *boolReader) over() bool { return r.pos > len(r.data)+4 }

// bit reads a bit that is 0 with probability p/256.
func (r *boolReader) bit(p uint8) bool {
	split := 1 + (r.span-1)*uint32(p)>>8
	one := r.value >= split<<8
	if one {
		r.span -= split
		r.value -= split << 8
	} else {
		r.span = split
	}
	for r.span < 128 {
		r.value <<= 1
		r.span <<= 1
		if r.shifted++; r.shifted == 8 {
			r.shifted = 0
			r.value |= uint32(r.next())
		}
	}
	return one
}

func (r *boolReader) flag() bool { return r.bit(128) }

// uint reads a number of n bits, the highest first.
func (r *boolReader) uint(n int) int {
	v := 0
	for range n {
		v <<= 1
		if r.flag() {
			v |= 1
		}
	}
	return v
}

// signed reads a number of n bits and its sign.
func (r *boolReader) signed(n int) int {
	v := r.uint(n)
	if r.flag() {
		return -v
	}
	return v
}

// optional reads a flag and, if it is set, a signed number.
func (r *boolReader) optional(n int) int {
	if r.flag() {
		return r.signed(n)
	}
	return 0
}

var errVP8 = errors.New("picture: invalid lossy WebP")

func readVP8(data []byte) (*Header, error) {
	if len(data) < 10 {
		return nil, errShort
	}
	tag := int(data[0]) | int(data[1])<<8 | int(data[2])<<16
	if tag&1 != 0 || tag>>1&7 > 3 || data[3] != 0x9d || data[4] != 1 || data[5] != 0x2a {
		return nil, errVP8
	}
	d := &vp8{w: int(data[6]) | int(data[7]&63)<<8, h: int(data[8]) | int(data[9]&63)<<8}
	d.mbw, d.mbh = (d.w+15)/16, (d.h+15)/16
	size := tag >> 5
	if d.w < 1 || d.h < 1 {
		return nil, errVP8
	}
	if size > len(data)-10 {
		return nil, errShort
	}
	return &Header{Width: d.w, Height: d.h, Memory: 3 * int64(16*d.mbw+16) * int64(16*d.mbh+16), decode: func(dst []uint8, stop func() error) error {
		d := &vp8{w: d.w, h: d.h, mbw: d.mbw, mbh: d.mbh, first: newBoolReader(data[10 : 10+size])}
		if err := d.header(data[10+size:]); err != nil {
			return err
		}
		if err := d.blocks(stop); err != nil {
			return err
		}
		if err := d.filter(stop); err != nil {
			return err
		}
		d.colours(dst)
		return nil
	}}, nil
}

// header reads the frame header (section 9.2 on) and cuts the rest into
// partitions.
func (d *vp8) header(rest []byte) error {
	r := &d.first
	r.uint(2) // colour space and clamping
	if d.segments = r.flag(); d.segments {
		d.segmentMap = r.flag()
		if r.flag() {
			d.absolute = r.flag()
			for i := range d.segQuant {
				d.segQuant[i] = r.optional(7)
			}
			for i := range d.segLevel {
				d.segLevel[i] = r.optional(6)
			}
		}
		d.segProb = [3]int{255, 255, 255}
		if d.segmentMap {
			for i := range d.segProb {
				if r.flag() {
					d.segProb[i] = r.uint(8)
				}
			}
		}
	}
	d.simple = r.flag()
	d.level, d.sharpness = r.uint(6), r.uint(3)
	if d.deltas = r.flag(); d.deltas && r.flag() {
		for i := range d.refDelta {
			d.refDelta[i] = r.optional(6)
		}
		for i := range d.modeDelta {
			d.modeDelta[i] = r.optional(6)
		}
	}
	n := 1 << r.uint(2)
	if len(rest) < 3*(n-1) {
		return errShort
	}
	body := rest[3*(n-1):]
	for i := range n {
		size := len(body)
		if i < n-1 {
			size = min(size, int(rest[3*i])|int(rest[3*i+1])<<8|int(rest[3*i+2])<<16)
		}
		d.parts = append(d.parts, newBoolReader(body[:size]))
		body = body[size:]
	}
	base := r.uint(7)
	y1, y2dc, y2ac, uvdc, uvac := r.optional(4), r.optional(4), r.optional(4), r.optional(4), r.optional(4)
	for i := range d.quant {
		q := base
		if d.segments {
			if q = d.segQuant[i]; !d.absolute {
				q += base
			}
		}
		at := func(delta int) int { return min(max(q+delta, 0), 127) }
		s := &d.quant[i]
		s.y1 = [2]int{int(vp8DC[at(y1)]), int(vp8AC[at(0)])}
		s.y2 = [2]int{2 * int(vp8DC[at(y2dc)]), max(8, int(vp8AC[at(y2ac)])*155/100)}
		s.uv = [2]int{min(132, int(vp8DC[at(uvdc)])), int(vp8AC[at(uvac)])}
	}
	r.flag() // whether the probabilities are kept for other frames
	for i := range d.tokens {
		for j := range d.tokens[i] {
			for k := range d.tokens[i][j] {
				for l := range d.tokens[i][j][k] {
					d.tokens[i][j][k][l] = vp8Tokens[i][j][k][l]
					if r.bit(vp8TokenUpdate[i][j][k][l]) {
						d.tokens[i][j][k][l] = uint8(r.uint(8))
					}
				}
			}
		}
	}
	d.skipProb = -1
	if r.flag() {
		d.skipProb = r.uint(8)
	}
	if r.over() {
		return errShort
	}
	return nil
}

// vp8Context is what a macroblock's neighbours left: whether blocks have
// coefficients (4 of brightness, 2 and 2 of colour, and the second order block),
// and the modes of 4×4 blocks.
type vp8Context struct {
	nonzero [9]uint8
	modes   [4]uint8
}

// vp8Macroblock is the macroblock that is being decoded.
type vp8Macroblock struct {
	segment      int
	skip         bool
	split        bool // brightness is predicted by 4×4 blocks
	mode, uvMode uint8
	modes        [16]uint8
	coef         [25][16]int16
	filled       [25]bool // the block has coefficients
}

// blocks decodes and predicts all macroblocks.
func (d *vp8) blocks(stop func() error) error {
	d.y, d.u, d.v = newVP8Plane(16*d.mbw, 16*d.mbh), newVP8Plane(8*d.mbw, 8*d.mbh), newVP8Plane(8*d.mbw, 8*d.mbh)
	d.filters = make([]vp8Filter, d.mbw*d.mbh)
	above := make([]vp8Context, d.mbw)
	var mb vp8Macroblock
	for y := range d.mbh {
		if err := stop(); err != nil {
			return err
		}
		part := &d.parts[y%len(d.parts)]
		var left vp8Context
		for x := range d.mbw {
			d.modes(&mb, &left, &above[x])
			d.coefficients(part, &mb, &left, &above[x])
			d.predict(&mb, x, y)
			d.filters[y*d.mbw+x] = d.filterOf(&mb)
		}
		if d.first.over() || part.over() {
			return errShort
		}
	}
	return nil
}

// modes reads the modes of a macroblock (sections 9.3 and 11).
func (d *vp8) modes(mb *vp8Macroblock, left, above *vp8Context) {
	r := &d.first
	mb.segment = 0
	if d.segmentMap {
		if !r.bit(uint8(d.segProb[0])) {
			if r.bit(uint8(d.segProb[1])) {
				mb.segment = 1
			}
		} else if mb.segment = 2; r.bit(uint8(d.segProb[2])) {
			mb.segment = 3
		}
	}
	mb.skip = d.skipProb >= 0 && r.bit(uint8(d.skipProb))
	if mb.split = !r.bit(145); !mb.split {
		switch {
		case !r.bit(156):
			if mb.mode = vp8DCMode; r.bit(163) {
				mb.mode = vp8VMode
			}
		case r.bit(128):
			mb.mode = vp8TMMode
		default:
			mb.mode = vp8HMode
		}
		for i := range 4 {
			left.modes[i], above.modes[i] = mb.mode, mb.mode
		}
	} else {
		for i := range mb.modes {
			a, l := &above.modes[i%4], &left.modes[i/4]
			m := subMode(r, &vp8SubModes[*a][*l])
			mb.modes[i], *a, *l = m, m, m
		}
	}
	switch {
	case !r.bit(142):
		mb.uvMode = vp8DCMode
	case !r.bit(114):
		mb.uvMode = vp8VMode
	case r.bit(183):
		mb.uvMode = vp8TMMode
	default:
		mb.uvMode = vp8HMode
	}
}

// subMode reads the mode of a 4×4 block.
func subMode(r *boolReader, p *[9]uint8) uint8 {
	switch {
	case !r.bit(p[0]):
		return vp8DCMode
	case !r.bit(p[1]):
		return vp8TMMode
	case !r.bit(p[2]):
		return vp8VMode
	case !r.bit(p[3]):
		switch {
		case !r.bit(p[4]):
			return vp8HMode
		case !r.bit(p[5]):
			return vp8RDMode
		}
		return vp8VRMode
	case !r.bit(p[6]):
		return vp8LDMode
	case !r.bit(p[7]):
		return vp8VLMode
	case !r.bit(p[8]):
		return vp8HDMode
	}
	return vp8HUMode
}

var (
	vp8Bands  = [17]uint8{0, 1, 2, 3, 6, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 7, 0}
	vp8Zigzag = [16]uint8{0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15}
	vp8Large  = [4][]uint8{{173, 148, 140}, {176, 155, 140, 135}, {180, 157, 141, 134, 130}, {254, 254, 243, 230, 196, 177, 153, 140, 133, 130, 129}}
)

// coefficients reads the coefficients of all blocks of a macroblock.
func (d *vp8) coefficients(r *boolReader, mb *vp8Macroblock, left, above *vp8Context) {
	clear(mb.coef[:])
	clear(mb.filled[:])
	if mb.skip {
		n := 8
		if !mb.split {
			n = 9
		}
		clear(left.nonzero[:n])
		clear(above.nonzero[:n])
		return
	}
	q := &d.quant[mb.segment]
	read := func(i, plane, first int, l, a *uint8, steps *[2]int) {
		n := d.block(r, &mb.coef[i], plane, first, int(*l+*a), steps)
		*l, *a = 0, 0
		if n > first {
			*l, *a = 1, 1
		}
		mb.filled[i] = n > first
	}
	plane, first := 3, 0
	if !mb.split {
		read(24, 1, 0, &left.nonzero[8], &above.nonzero[8], &q.y2)
		dc := inverseWHT(&mb.coef[24])
		for i, v := range dc {
			mb.coef[i][0] = v
		}
		plane, first = 0, 1
	}
	for i := range 16 {
		read(i, plane, first, &left.nonzero[i/4], &above.nonzero[i%4], &q.y1)
	}
	for i := range 8 {
		k := i / 4 * 2 // the plane: U, V
		read(16+i, 2, 0, &left.nonzero[4+k+i%4/2], &above.nonzero[4+k+i%2], &q.uv)
	}
	mb.skip = true
	for i := range mb.coef[:24] {
		mb.filled[i] = mb.filled[i] || mb.coef[i][0] != 0
		mb.skip = mb.skip && !mb.filled[i]
	}
}

// block reads the tokens of a block (section 13) and returns the position behind
// the last one.
func (d *vp8) block(r *boolReader, out *[16]int16, plane, n, ctx int, steps *[2]int) int {
	p := &d.tokens[plane][vp8Bands[n]][ctx]
	for n < 16 {
		if !r.bit(p[0]) {
			return n
		}
		for !r.bit(p[1]) {
			if n++; n == 16 {
				return 16
			}
			p = &d.tokens[plane][vp8Bands[n]][0]
		}
		v := 1
		ctx = 1
		if r.bit(p[2]) {
			v, ctx = largeToken(r, p), 2
		}
		if r.flag() {
			v = -v
		}
		out[vp8Zigzag[n]] = int16(v * steps[min(n, 1)])
		n++
		p = &d.tokens[plane][vp8Bands[n]][ctx]
	}
	return 16
}

// largeToken reads a value of at least 2.
func largeToken(r *boolReader, p *[11]uint8) int {
	add := func(v int, probs ...uint8) int {
		x := 0
		for _, q := range probs {
			x <<= 1
			if r.bit(q) {
				x |= 1
			}
		}
		return v + x
	}
	if !r.bit(p[3]) {
		if !r.bit(p[4]) {
			return 2
		}
		return add(3, p[5])
	}
	if !r.bit(p[6]) {
		if !r.bit(p[7]) {
			return add(5, 159)
		}
		return add(7, 165, 145)
	}
	k := 0
	if r.bit(p[8]) {
		k = 2
	}
	if r.bit(p[9+k/2]) {
		k++
	}
	return add(3+(8<<k), vp8Large[k]...)
}

// inverseWHT gives the first coefficients of 16 blocks (section 14.3).
func inverseWHT(in *[16]int16) (out [16]int16) {
	var t [16]int
	for i := range 4 {
		a0, a1 := int(in[i])+int(in[12+i]), int(in[4+i])+int(in[8+i])
		a2, a3 := int(in[4+i])-int(in[8+i]), int(in[i])-int(in[12+i])
		t[i], t[4+i], t[8+i], t[12+i] = a0+a1, a3+a2, a0-a1, a3-a2
	}
	for i := 0; i < 16; i += 4 {
		dc := t[i] + 3
		a0, a1, a2, a3 := dc+t[i+3], t[i+1]+t[i+2], t[i+1]-t[i+2], dc-t[i+3]
		out[i], out[i+1], out[i+2], out[i+3] = int16((a0+a1)>>3), int16((a3+a2)>>3), int16((a0-a1)>>3), int16((a3-a2)>>3)
	}
	return out
}
