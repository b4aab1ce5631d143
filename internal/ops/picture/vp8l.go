package picture

import (
	"errors"
	"fmt"
)

// vp8l is the lossless picture of a WebP file
// (https://developers.google.com/speed/webp/docs/webp_lossless_bitstream_specification).
// Pixels are 0xAARRGGBB.
type vp8l struct {
	data []byte
	pos  int // in bits
	stop func() error
	bad  error // the first error of a bit read past the end
}

var errVP8L = errors.New("picture: invalid lossless WebP")

func readVP8L(data []byte) (*Header, error) {
	d := &vp8l{data: data}
	if d.bits(8) != 0x2f {
		return nil, errVP8L
	}
	w, h := d.bits(14)+1, d.bits(14)+1
	d.bits(1) // whether there is transparency
	if d.bits(3) != 0 || d.bad != nil {
		return nil, errVP8L
	}
	// Pixels, those of transforms, and trees, whose codes take some bits each.
	memory := 12*int64(w+16)*int64(h+16) + 64*int64(len(data)) + 1<<16
	start := d.pos
	return &Header{Width: w, Height: h, Memory: memory, decode: func(dst []uint8, stop func() error) error {
		d := &vp8l{data: data, pos: start, stop: stop}
		px, err := d.picture(w, h)
		if err != nil {
			return err
		}
		for i, p := range px {
			o := dst[3*i : 3*i+3]
			o[0], o[1], o[2] = uint8(p>>16), uint8(p>>8), uint8(p)
		}
		return nil
	}}, nil
}

// bits reads n bits, the first into the lowest place.
func (d *vp8l) bits(n int) int {
	v := 0
	for k := 0; k < n; {
		i := d.pos >> 3
		if i >= len(d.data) {
			d.bad = errShort
			return 0
		}
		off := d.pos & 7
		take := min(8-off, n-k)
		v |= int(d.data[i]) >> off & (1<<take - 1) << k
		k += take
		d.pos += take
	}
	return v
}

// prefixTree decodes prefix codes: next[2·node+bit] is a node, or ^symbol.
type prefixTree struct {
	next   []int32
	single int // the only symbol, when there are no nodes
}

func (d *vp8l) symbol(t *prefixTree) int {
	if len(t.next) == 0 {
		return t.single
	}
	for n := int32(0); ; {
		i := d.pos >> 3
		if i >= len(d.data) {
			d.bad = errShort
			return 0
		}
		bit := int32(d.data[i] >> (d.pos & 7) & 1)
		d.pos++
		if n = t.next[2*n+bit]; n < 0 {
			return int(^n)
		}
	}
}

// newPrefixTree builds the tree of canonical codes of the given lengths.
func newPrefixTree(lengths []uint8) (*prefixTree, error) {
	var count [16]int
	used, last := 0, 0
	for s, l := range lengths {
		if l > 0 {
			count[l]++
			used++
			last = s
		}
	}
	t := &prefixTree{single: last}
	if used == 1 {
		return t, nil
	}
	code, room := 0, 1
	var next [16]int
	for l := 1; l < 16; l++ {
		next[l] = code
		code = (code + count[l]) << 1
		if room = room*2 - count[l]; room < 0 {
			return nil, errVP8L
		}
	}
	if room != 0 {
		return nil, errVP8L
	}
	t.next = make([]int32, 2, 2*used)
	for s, l := range lengths {
		if l == 0 {
			continue
		}
		c := next[l]
		next[l]++
		n := int32(0)
		for k := int(l) - 1; k >= 0; k-- {
			p := 2*n + int32(c>>k&1)
			if k == 0 {
				t.next[p] = ^int32(s)
				break
			}
			if t.next[p] == 0 {
				t.next[p] = int32(len(t.next) / 2)
				t.next = append(t.next, 0, 0)
			}
			n = t.next[p]
		}
	}
	return t, nil
}

var codeLengthOrder = [19]uint8{17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// tree reads a prefix code over n symbols.
func (d *vp8l) tree(n int) (*prefixTree, error) {
	if d.bits(1) == 1 { // one or two symbols
		two, wide := d.bits(1), d.bits(1)
		a := d.bits(1 + 7*wide)
		if two == 0 {
			if a >= n {
				return nil, errVP8L
			}
			return &prefixTree{single: a}, d.bad
		}
		b := d.bits(8)
		if a >= n || b >= n {
			return nil, errVP8L
		}
		return &prefixTree{next: []int32{^int32(a), ^int32(b)}}, d.bad
	}
	var order [19]uint8
	for _, k := range codeLengthOrder[:4+d.bits(4)] {
		order[k] = uint8(d.bits(3))
	}
	code, err := newPrefixTree(order[:])
	if err != nil {
		return nil, err
	}
	most := n
	if d.bits(1) == 1 {
		if most = 2 + d.bits(2+2*d.bits(3)); most > n {
			return nil, errVP8L
		}
	}
	lengths := make([]uint8, n)
	prev := uint8(8)
	for i := 0; i < n && most > 0; most-- {
		v := d.symbol(code)
		if d.bad != nil {
			return nil, d.bad
		}
		if v < 16 {
			lengths[i] = uint8(v)
			i++
			if v > 0 {
				prev = uint8(v)
			}
			continue
		}
		rep, val := 0, uint8(0)
		switch v {
		case 16:
			rep, val = 3+d.bits(2), prev
		case 17:
			rep = 3 + d.bits(3)
		default:
			rep = 11 + d.bits(7)
		}
		if rep > n-i {
			return nil, errVP8L
		}
		for range rep {
			lengths[i] = val
			i++
		}
	}
	if d.bad != nil {
		return nil, d.bad
	}
	return newPrefixTree(lengths)
}

// pixels decodes an image. Only the picture itself may have several groups of
// codes, chosen by an image of their numbers.
func (d *vp8l) pixels(w, h int, main bool) ([]uint32, error) {
	cacheBits, cacheSize := 0, 0
	if d.bits(1) == 1 {
		if cacheBits = d.bits(4); cacheBits < 1 || cacheBits > 11 {
			return nil, errVP8L
		}
		cacheSize = 1 << cacheBits
	}
	groups, groupBits, gw := 1, 0, 0
	var groupOf []uint32
	if main && d.bits(1) == 1 {
		groupBits = d.bits(3) + 2
		gw = blocksOf(w, groupBits)
		var err error
		if groupOf, err = d.pixels(gw, blocksOf(h, groupBits), false); err != nil {
			return nil, err
		}
		for i, p := range groupOf {
			groupOf[i] = p >> 8 & 0xffff
			groups = max(groups, int(groupOf[i])+1)
		}
	}
	if 8*len(d.data)-d.pos < 20*(groups-1) { // a group takes at least five codes of 4 bits
		return nil, errShort
	}
	trees := make([][5]*prefixTree, groups)
	for g := range trees {
		for k, n := range [5]int{256 + 24 + cacheSize, 256, 256, 256, 40} {
			var err error
			if trees[g][k], err = d.tree(n); err != nil {
				return nil, err
			}
		}
	}
	px := make([]uint32, w*h)
	cache := make([]uint32, cacheSize)
	cached := 0 // pixels that have been put into the cache
	t := &trees[0]
	for i := 0; i < len(px); {
		if i&0xfff == 0 {
			if err := d.stop(); err != nil {
				return nil, err
			}
		}
		if d.bad != nil {
			return nil, d.bad
		}
		if groupOf != nil {
			t = &trees[groupOf[i/w>>groupBits*gw+i%w>>groupBits]]
		}
		switch v := d.symbol(t[0]); {
		case v < 256:
			r := d.symbol(t[1])
			b := d.symbol(t[2])
			a := d.symbol(t[3])
			px[i] = uint32(a)<<24 | uint32(r)<<16 | uint32(v)<<8 | uint32(b)
			i++
		case v < 256+24:
			n := d.extra(v - 256)
			dist := d.extra(d.symbol(t[4]))
			if dist > len(vp8lNear) {
				dist -= len(vp8lNear)
			} else {
				near := vp8lNear[dist-1]
				dist = max(1, int(near[0])+int(near[1])*w)
			}
			if dist > i || n > len(px)-i {
				return nil, errVP8L
			}
			for range n {
				px[i] = px[i-dist]
				i++
			}
		default:
			for ; cached < i; cached++ {
				cache[px[cached]*0x1e35a7bd>>(32-cacheBits)] = px[cached]
			}
			px[i] = cache[v-256-24]
			i++
		}
	}
	return px, d.bad
}

// extra reads the rest of a length or distance whose first part is a code.
func (d *vp8l) extra(code int) int {
	if code < 4 {
		return code + 1
	}
	n := (code - 2) >> 1
	return (2+code&1)<<n + d.bits(n) + 1
}

func blocksOf(n, bits int) int { return (n + 1<<bits - 1) >> bits }

// transform is one of the reversible changes of a picture.
type vp8lTransform struct {
	kind, bits, w int
	data          []uint32
}

// picture decodes the transforms and the pixels, and undoes the transforms.
func (d *vp8l) picture(w, h int) ([]uint32, error) {
	var list []vp8lTransform
	seen := [4]bool{}
	width := w // of the coded picture
	for d.bits(1) == 1 {
		t := vp8lTransform{kind: d.bits(2), w: width}
		if seen[t.kind] {
			return nil, errVP8L
		}
		seen[t.kind] = true
		var err error
		switch t.kind {
		case 0, 1:
			t.bits = d.bits(3) + 2
			t.data, err = d.pixels(blocksOf(width, t.bits), blocksOf(h, t.bits), false)
		case 3:
			n := d.bits(8) + 1
			if t.data, err = d.pixels(n, 1, false); err != nil {
				return nil, err
			}
			for i := 1; i < n; i++ {
				t.data[i] = addPixels(t.data[i], t.data[i-1])
			}
			switch {
			case n <= 2:
				t.bits = 3
			case n <= 4:
				t.bits = 2
			case n <= 16:
				t.bits = 1
			}
			width = blocksOf(width, t.bits)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	px, err := d.pixels(width, h, true)
	if err != nil {
		return nil, fmt.Errorf("%w: %d×%d pixels", err, width, h)
	}
	for i := len(list) - 1; i >= 0; i-- {
		if err := d.stop(); err != nil {
			return nil, err
		}
		px = list[i].undo(px, h)
	}
	return px, nil
}

// undo undoes a transform.
func (t *vp8lTransform) undo(px []uint32, h int) []uint32 {
	w := t.w
	switch t.kind {
	case 0:
		bw := blocksOf(w, t.bits)
		for i := range px {
			x, y := i%w, i/w
			var p uint32
			switch {
			case i == 0:
				p = 0xff000000
			case y == 0:
				p = px[i-1]
			case x == 0:
				p = px[i-w]
			default:
				p = predictPixel(t.data[y>>t.bits*bw+x>>t.bits]>>8&15, px, i, w)
			}
			px[i] = addPixels(px[i], p)
		}
	case 1:
		bw := blocksOf(w, t.bits)
		delta := func(m, c uint32) uint32 { return uint32(int(int8(m)) * int(int8(c)) >> 5) }
		for i, p := range px {
			m := t.data[i/w>>t.bits*bw+i%w>>t.bits]
			g := p >> 8
			r := p>>16 + delta(m, g)
			b := p + delta(m>>8, g) + delta(m>>16, r)
			px[i] = p&0xff00ff00 | r&255<<16 | b&255
		}
	case 2:
		for i, p := range px {
			g := p >> 8 & 255
			px[i] = p&0xff00ff00 | (p>>16+g)&255<<16 | (p+g)&255
		}
	case 3:
		out := make([]uint32, w*h)
		per, depth := 1<<t.bits, 8>>t.bits
		pw := blocksOf(w, t.bits)
		for i := range out {
			x, y := i%w, i/w
			v := px[y*pw+x/per] >> 8 & 255 >> (x % per * depth) & (1<<depth - 1)
			if int(v) < len(t.data) {
				out[i] = t.data[v]
			}
		}
		return out
	}
	return px
}

// addPixels adds two pixels channel by channel.
func addPixels(a, b uint32) uint32 {
	return (a&0xff00ff00+b&0xff00ff00)&0xff00ff00 | (a&0x00ff00ff+b&0x00ff00ff)&0x00ff00ff
}

// averagePixels is half of the sum, rounded down, channel by channel.
func averagePixels(a, b uint32) uint32 { return a&b + (a^b)&0xfefefefe>>1 }

// predictPixel predicts a pixel that is in neither the first row nor the first
// column from its neighbours.
func predictPixel(mode uint32, px []uint32, i, w int) uint32 {
	l, t, tl, tr := px[i-1], px[i-w], px[i-w-1], px[i-w+1]
	switch mode {
	case 1:
		return l
	case 2:
		return t
	case 3:
		return tr
	case 4:
		return tl
	case 5:
		return averagePixels(averagePixels(l, tr), t)
	case 6:
		return averagePixels(l, tl)
	case 7:
		return averagePixels(l, t)
	case 8:
		return averagePixels(tl, t)
	case 9:
		return averagePixels(t, tr)
	case 10:
		return averagePixels(averagePixels(l, tl), averagePixels(t, tr))
	case 11:
		dl, dt := 0, 0
		for s := 0; s < 32; s += 8 {
			a, b, c := int(l>>s&255), int(t>>s&255), int(tl>>s&255)
			dl += abs(b - c)
			dt += abs(a - c)
		}
		if dl < dt {
			return l
		}
		return t
	case 12, 13:
		p := uint32(0)
		for s := 0; s < 32; s += 8 {
			a, b, c := int(l>>s&255), int(t>>s&255), int(tl>>s&255)
			v := a + b - c
			if mode == 13 {
				m := (a + b) >> 1
				v = m + (m-c)/2
			}
			p |= uint32(clamp(v)) << s
		}
		return p
	}
	return 0xff000000
}

func abs(v int) int { return max(v, -v) }
