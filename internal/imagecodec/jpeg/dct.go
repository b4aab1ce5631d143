package jpeg

// transform dequantizes all blocks and transforms them to samples.
func (c *jpegComp) transform(quant *[64]uint16) {
	var q [64]int32
	for i, k := range zigzag {
		q[k] = int32(quant[i])
	}
	stride := 8 * c.bw
	c.plane = make([]uint8, stride*8*c.bh)
	var in [64]int32
	for y := range c.bh {
		for x := range c.bw {
			b := c.coef[64*(y*c.bw+x):]
			b = b[:64]
			for i := range in {
				in[i] = int32(b[i]) * q[i]
			}
			inverseDCT(c.plane[8*y*stride+8*x:], stride, &in)
		}
	}
}

// inverseDCT is libjpeg's accurate integer transform: the factorization by Loeffler,
// Ligtenberg and Moschytz (1989) with 13-bit constants. It transforms columns, which keep
// two extra bits, and then rows.
func inverseDCT(dst []uint8, stride int, in *[64]int32) {
	for i := range 8 {
		v := inverse8(in[i], in[8+i], in[16+i], in[24+i], in[32+i], in[40+i], in[48+i], in[56+i])
		for k, x := range v {
			in[8*k+i] = (x + 1<<10) >> 11
		}
	}
	for y := range 8 {
		r := in[8*y : 8*y+8]
		v := inverse8(r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7])
		row := dst[y*stride : y*stride+8]
		for k, x := range v {
			row[k] = uint8(min(max((x+1<<17)>>18+128, 0), 255))
		}
	}
}

// inverse8 transforms 8 values. The results are scaled by 2^13.
func inverse8(x0, x1, x2, x3, x4, x5, x6, x7 int32) [8]int32 {
	z1 := (x2 + x6) * 4433 // 0.541196100
	e2 := z1 - x6*15137    // 1.847759065
	e3 := z1 + x2*6270     // 0.765366865
	e0, e1 := (x0+x4)<<13, (x0-x4)<<13
	a0, a3, a1, a2 := e0+e3, e0-e3, e1+e2, e1-e2

	z5 := (x7 + x3 + x5 + x1) * 9633 // 1.175875602
	z3 := z5 - (x7+x3)*16069         // 1.961570560
	z4 := z5 - (x5+x1)*3196          // 0.390180644
	w1 := -(x7 + x1) * 7373          // 0.899976223
	w2 := -(x5 + x3) * 20995         // 2.562915447
	o0 := x7*2446 + w1 + z3          // 0.298631336
	o1 := x5*16819 + w2 + z4         // 2.053119869
	o2 := x3*25172 + w2 + z3         // 3.072711026
	o3 := x1*12299 + w1 + z4         // 1.501321110
	return [8]int32{a0 + o3, a1 + o2, a2 + o1, a3 + o0, a3 - o0, a2 - o1, a1 - o2, a0 - o3}
}
