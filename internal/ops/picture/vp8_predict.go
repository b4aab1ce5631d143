package picture

// The prediction modes: of whole macroblocks the first four, in the order of
// vp8SubModes.
const (
	vp8DCMode = iota
	vp8TMMode
	vp8VMode
	vp8HMode
	vp8RDMode
	vp8VRMode
	vp8LDMode
	vp8VLMode
	vp8HDMode
	vp8HUMode
)

// predict writes a macroblock: prediction from its neighbours (section 12) and
// what the coefficients add.
func (d *vp8) predict(mb *vp8Macroblock, x, y int) {
	p := &d.y
	if !mb.split {
		p.square(16*x, 16*y, 16, mb.mode)
		for i := range 16 {
			if mb.filled[i] {
				p.add(16*x+i%4*4, 16*y+i/4*4, &mb.coef[i])
			}
		}
	} else {
		// The pixels above and to the right of the macroblock serve all four rows of
		// blocks; at the right edge the last one above is repeated.
		right := p.at(16*x+16, 16*y-1)
		if y > 0 && x == d.mbw-1 {
			for i := range 4 {
				p.pix[right+i] = p.pix[right-1]
			}
		}
		for i := range 16 {
			bx, by := 16*x+i%4*4, 16*y+i/4*4
			var edge [8]uint8 // above, and above to the right
			copy(edge[:], p.pix[p.at(bx, by-1):])
			if i%4 == 3 {
				copy(edge[4:], p.pix[right:right+4])
			}
			p.small(bx, by, mb.modes[i], &edge)
			if mb.filled[i] {
				p.add(bx, by, &mb.coef[i])
			}
		}
	}
	for k, p := range []*vp8Plane{&d.u, &d.v} {
		p.square(8*x, 8*y, 8, mb.uvMode)
		for i := range 4 {
			if b := 16 + 4*k + i; mb.filled[b] {
				p.add(8*x+i%2*4, 8*y+i/2*4, &mb.coef[b])
			}
		}
	}
}

// square predicts a square of n×n pixels.
func (p *vp8Plane) square(x, y, n int, mode uint8) {
	at := p.at(x, y)
	above := p.pix[at-p.stride : at-p.stride+n]
	corner := int(p.pix[at-p.stride-1])
	dc := 128
	if mode == vp8DCMode {
		sum, count := 0, 0
		if y > 0 {
			for _, v := range above {
				sum += int(v)
			}
			count += n
		}
		if x > 0 {
			for i := range n {
				sum += int(p.pix[at+i*p.stride-1])
			}
			count += n
		}
		if count > 0 {
			dc = (sum + count/2) / count
		}
	}
	for i := range n {
		row := p.pix[at+i*p.stride : at+i*p.stride+n]
		left := int(p.pix[at+i*p.stride-1])
		switch mode {
		case vp8VMode:
			copy(row, above)
		case vp8TMMode:
			for k, v := range above {
				row[k] = clamp(left + int(v) - corner)
			}
		default:
			v := uint8(dc)
			if mode == vp8HMode {
				v = uint8(left)
			}
			for k := range row {
				row[k] = v
			}
		}
	}
}

// small predicts a block of 4×4 pixels.
func (p *vp8Plane) small(x, y int, mode uint8, above *[8]uint8) {
	at := p.at(x, y)
	// e is the edge from the lower left, around the corner, to the upper right:
	// left 3…0, corner, above 0…7.
	var e [13]int
	for i := range 4 {
		e[3-i] = int(p.pix[at+i*p.stride-1])
	}
	e[4] = int(p.pix[at-p.stride-1])
	for i, v := range above {
		e[5+i] = int(v)
	}
	set := func(x, y, v int) { p.pix[at+y*p.stride+x] = uint8(v) }
	two := func(i int) int { return (e[i] + e[i+1] + 1) >> 1 }
	three := func(i int) int { return (e[i-1] + 2*e[i] + e[i+1] + 2) >> 2 } // around e[i]
	switch mode {
	case vp8DCMode:
		sum := 4
		for i := range 4 {
			sum += e[i] + e[5+i]
		}
		for i := range 16 {
			set(i%4, i/4, sum>>3)
		}
	case vp8TMMode:
		for i := range 16 {
			set(i%4, i/4, int(clamp(e[3-i/4]+e[5+i%4]-e[4])))
		}
	case vp8VMode:
		for i := range 16 {
			set(i%4, i/4, three(5+i%4))
		}
	case vp8HMode:
		for i := range 16 {
			v := (e[1] + 3*e[0] + 2) >> 2
			if i < 12 {
				v = three(3 - i/4)
			}
			set(i%4, i/4, v)
		}
	case vp8RDMode:
		for i := range 16 {
			set(i%4, i/4, three(4+i%4-i/4))
		}
	case vp8LDMode:
		for i := range 16 {
			v := (e[11] + 3*e[12] + 2) >> 2
			if k := i%4 + i/4; k < 6 {
				v = three(6 + k)
			}
			set(i%4, i/4, v)
		}
	case vp8VRMode:
		for i := range 4 {
			set(i, 0, two(4+i))
			set(i, 1, three(4+i))
			if i > 0 {
				set(i, 2, two(3+i))
				set(i, 3, three(3+i))
			}
		}
		set(0, 2, three(3))
		set(0, 3, three(2))
	case vp8VLMode:
		for i := range 4 {
			set(i, 0, two(5+i))
			set(i, 1, three(6+i))
			if i < 3 {
				set(i, 2, two(6+i))
				set(i, 3, three(7+i))
			}
		}
		set(3, 2, three(10))
		set(3, 3, three(11))
	case vp8HDMode:
		for i := range 4 {
			set(0, i, two(3-i))
			set(1, i, three(4-i))
			if i > 0 {
				set(2, i, two(4-i))
				set(3, i, three(5-i))
			}
		}
		set(2, 0, three(5))
		set(3, 0, three(6))
	default: // vp8HUMode
		last := e[0]
		line := [10]int{two(2), three(2), two(1), three(1), two(0), (e[1] + 3*last + 2) >> 2, last, last, last, last}
		for i := range 16 {
			set(i%4, i/4, line[i%4+i/4*2])
		}
	}
}

// add adds the inverse transform of a block's coefficients (section 14.4).
func (p *vp8Plane) add(x, y int, in *[16]int16) {
	mul1 := func(v int) int { return v*20091>>16 + v }
	mul2 := func(v int) int { return v * 35468 >> 16 }
	var t [16]int
	for i := range 4 {
		a0, a1, a2, a3 := int(in[i]), int(in[4+i]), int(in[8+i]), int(in[12+i])
		a, b := a0+a2, a0-a2
		c, d := mul2(a1)-mul1(a3), mul1(a1)+mul2(a3)
		t[4*i], t[4*i+1], t[4*i+2], t[4*i+3] = a+d, b+c, b-c, a-d
	}
	for i := range 4 {
		dc := t[i] + 4
		a, b := dc+t[8+i], dc-t[8+i]
		c, d := mul2(t[4+i])-mul1(t[12+i]), mul1(t[4+i])+mul2(t[12+i])
		at := p.at(x, y+i)
		row := p.pix[at : at+4]
		for k, v := range [4]int{a + d, b + c, b - c, a - d} {
			row[k] = clamp(int(row[k]) + v>>3)
		}
	}
}
