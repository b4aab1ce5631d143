package picture

// vp8Filter is how strongly the edges of a macroblock are smoothed.
type vp8Filter struct {
	limit, inside, hev int // limit 0: not at all
	inner              bool
}

// filterOf returns the filter of a macroblock (section 9.6 and 15.2 on).
func (d *vp8) filterOf(mb *vp8Macroblock) vp8Filter {
	level := d.level
	if d.segments {
		if level = d.segLevel[mb.segment]; !d.absolute {
			level += d.level
		}
	}
	if d.deltas {
		level += d.refDelta[0]
		if mb.split {
			level += d.modeDelta[0]
		}
	}
	level = min(max(level, 0), 63)
	if level == 0 || d.level == 0 {
		return vp8Filter{}
	}
	inside := level
	if d.sharpness > 0 {
		if inside >>= 1; d.sharpness > 4 {
			inside >>= 1
		}
		inside = min(inside, 9-d.sharpness)
	}
	inside = max(inside, 1)
	f := vp8Filter{limit: 2*level + inside, inside: inside, inner: mb.split || !mb.skip}
	switch {
	case level >= 40:
		f.hev = 2
	case level >= 15:
		f.hev = 1
	}
	return f
}

// filter smooths the edges of blocks, macroblock by macroblock.
func (d *vp8) filter(stop func() error) error {
	for y := range d.mbh {
		if err := stop(); err != nil {
			return err
		}
		for x := range d.mbw {
			f := &d.filters[y*d.mbw+x]
			if f.limit == 0 {
				continue
			}
			d.y.edges(f, 16*x, 16*y, 16, d.simple)
			if !d.simple {
				d.u.edges(f, 8*x, 8*y, 8, false)
				d.v.edges(f, 8*x, 8*y, 8, false)
			}
		}
	}
	return nil
}

// edges filters the edges of one macroblock of n×n pixels: its left one, those
// inside it across, its upper one, those inside it downwards.
func (p *vp8Plane) edges(f *vp8Filter, x, y, n int, simple bool) {
	at := p.at(x, y)
	if x > 0 {
		p.edge(f, at, 1, p.stride, n, f.limit+4, true, simple)
	}
	for i := 4; f.inner && i < n; i += 4 {
		p.edge(f, at+i, 1, p.stride, n, f.limit, false, simple)
	}
	if y > 0 {
		p.edge(f, at, p.stride, 1, n, f.limit+4, true, simple)
	}
	for i := 4; f.inner && i < n; i += 4 {
		p.edge(f, at+i*p.stride, p.stride, 1, n, f.limit, false, simple)
	}
}

// edge filters n places along an edge; across steps over it, along goes along
// it.
func (p *vp8Plane) edge(f *vp8Filter, at, across, along, n, limit int, outer, simple bool) {
	limit = 2*limit + 1
	for ; n > 0; n, at = n-1, at+along {
		px := func(i int) int { return int(p.pix[at+i*across]) }
		set := func(i, v int) { p.pix[at+i*across] = clamp(v) }
		p1, p0, q0, q1 := px(-2), px(-1), px(0), px(1)
		if 4*abs(p0-q0)+abs(p1-q1) > limit {
			continue
		}
		if !simple {
			p3, p2, q2, q3 := px(-4), px(-3), px(2), px(3)
			if t := f.inside; abs(p3-p2) > t || abs(p2-p1) > t || abs(p1-p0) > t || abs(q3-q2) > t || abs(q2-q1) > t || abs(q1-q0) > t {
				continue
			}
			if abs(p1-p0) <= f.hev && abs(q1-q0) <= f.hev {
				if outer {
					a := clampTo(3*(q0-p0)+clampTo(p1-q1, 128), 128)
					a1, a2, a3 := (27*a+63)>>7, (18*a+63)>>7, (9*a+63)>>7
					set(-3, p2+a3)
					set(-2, p1+a2)
					set(-1, p0+a1)
					set(0, q0-a1)
					set(1, q1-a2)
					set(2, q2-a3)
				} else {
					a := 3 * (q0 - p0)
					a1, a2 := clampTo((a+4)>>3, 16), clampTo((a+3)>>3, 16)
					a3 := (a1 + 1) >> 1
					set(-2, p1+a3)
					set(-1, p0+a2)
					set(0, q0-a1)
					set(1, q1-a3)
				}
				continue
			}
		}
		a := 3*(q0-p0) + clampTo(p1-q1, 128)
		set(-1, p0+clampTo((a+3)>>3, 16))
		set(0, q0-clampTo((a+4)>>3, 16))
	}
}

// clampTo limits v to [−n, n−1].
func clampTo(v, n int) int { return min(max(v, -n), n-1) }

// colours converts to pixels. The colour planes have half the resolution and are
// interpolated with weights 9, 3, 3 and 1, as libwebp does by default.
func (d *vp8) colours(dst []uint8) {
	cw := (d.w + 1) / 2
	ch := (d.h + 1) / 2
	row := func(p *vp8Plane, y int) []uint8 {
		at := p.at(0, min(max(y, 0), ch-1))
		return p.pix[at : at+cw]
	}
	u, v := make([]uint8, d.w), make([]uint8, d.w)
	for y := range d.h {
		// The nearer colour row and the one on the other side.
		near, far := y/2, y/2-1+y%2*2
		vp8Widen(u, row(&d.u, near), row(&d.u, far))
		vp8Widen(v, row(&d.v, near), row(&d.v, far))
		at := d.y.at(0, y)
		for x, l := range d.y.pix[at : at+d.w] {
			o := dst[3*(y*d.w+x):]
			o = o[:3]
			// BT.601 in studio range, in 14-bit fixed point.
			a, b, c := int(l)*19077>>8, int(u[x]), int(v[x])
			o[0] = clamp((a + c*26149>>8 - 14234) >> 6)
			o[1] = clamp((a - b*6419>>8 - c*13320>>8 + 8708) >> 6)
			o[2] = clamp((a + b*33050>>8 - 17685) >> 6)
		}
	}
}

// vp8Widen writes a row of double width: each sample is 9/16 of the nearest one,
// 3/16 of the next ones along and across, 1/16 of the diagonal one, rounded in
// two steps.
func vp8Widen(dst, near, far []uint8) {
	last := len(near) - 1
	for x := range dst {
		k := x / 2
		m := k - 1 + x%2*2 // the neighbour along the row
		if m < 0 || m > last {
			dst[x] = uint8((3*int(near[k]) + int(far[k]) + 2) >> 2)
			continue
		}
		a, b, c, e := int(near[k]), int(near[m]), int(far[k]), int(far[m])
		dst[x] = uint8(((a+b+c+e+8+2*(b+c))>>3 + a) >> 1)
	}
}
