package soundcodec

// mp3Channel holds what the synthesis of a channel keeps between granules.
type mp3Channel struct {
	overlap [32][18]float32
	ring    [16][64]float32 // the last vectors of the filter bank
	newest  int
}

// granule appends the samples of the lines of a granule to out. Lines from used on are 0.
func (c *mp3Channel) granule(t *mp3Tables, g *mp3Granule, x *[576]float32, used int, out []float32) []float32 {
	long := 32 // subbands with long blocks
	if g.block == 2 {
		long = 0
		if g.mixed {
			long = 2
		}
	}
	for border := 18; border < min(18*long, 576); border += 18 {
		for i, w := range t.alias {
			a, b := x[border-1-i], x[border+i]
			x[border-1-i], x[border+i] = a*w[0]-b*w[1], b*w[0]+a*w[1]
		}
	}
	if used > 0 {
		used += 17 // aliases
	}
	var y [18][32]float32
	for band := range c.overlap {
		old := &c.overlap[band]
		if 18*band >= used {
			for i, v := range old {
				y[i][band] = v
			}
			*old = [18]float32{}
		} else {
			var z [36]float32
			in := (*[18]float32)(x[18*band:])
			switch {
			case band >= long:
				t.imdct12(in, &z)
			case g.mixed && band < 2:
				t.imdct36(in, &t.blocks[0], &z)
			default:
				t.imdct36(in, &t.blocks[g.block], &z)
			}
			for i := range old {
				y[i][band] = z[i] + old[i]
				old[i] = z[18+i]
			}
		}
		if band%2 == 1 {
			for i := 1; i < 18; i += 2 {
				y[i][band] = -y[i][band]
			}
		}
	}
	for i := range y {
		out = c.filter(t, &y[i], out)
	}
	return out
}

// imdct36 writes the inverse MDCT of a long block, times a window: by a DCT-IV of 18 elements.
func (t *mp3Tables) imdct36(x *[18]float32, window, z *[36]float32) {
	var even, odd [9]float32
	for k := range 9 {
		a, b := x[k]*t.twice18[k], x[17-k]*t.twice18[17-k]
		even[k], odd[k] = a+b, (a-b)*t.twice9[k]
	}
	t.dct9(&even)
	t.dct9(&odd)
	var y [18]float32
	y[0] = even[0] / 2
	o := odd[0] / 2
	y[1] = o - y[0]
	for k := 1; k < 9; k++ {
		o = odd[k] - o
		y[2*k] = even[k] - y[2*k-1]
		y[2*k+1] = o - y[2*k]
	}
	for i := range 9 {
		z[i] = y[9+i] * window[i]
		z[9+i] = -y[17-i] * window[9+i]
		z[18+i] = -y[8-i] * window[18+i]
		z[27+i] = -y[i] * window[27+i]
	}
}

// dct9 computes Σ x[k]·cos(πn(2k+1)/18).
func (t *mp3Tables) dct9(x *[9]float32) {
	var sum, difference [4]float32
	for k := range 4 {
		sum[k], difference[k] = x[k]+x[8-k], x[k]-x[8-k]
	}
	middle := x[4]
	for n := 0; n < 9; n++ {
		w := &t.cos9[n]
		if n%2 == 0 {
			x[n] = sum[0]*w[0] + sum[1]*w[1] + sum[2]*w[2] + sum[3]*w[3] + middle*w[4]
		} else {
			x[n] = difference[0]*w[0] + difference[1]*w[1] + difference[2]*w[2] + difference[3]*w[3]
		}
	}
}

// imdct12 writes the inverse MDCTs of three short blocks, whose lines alternate, times a window.
func (t *mp3Tables) imdct12(x *[18]float32, z *[36]float32) {
	for w := range 3 {
		var y [6]float32
		for n := range y {
			for k, c := range t.cos6[n] {
				y[n] += x[3*k+w] * c
			}
		}
		to, window := z[6+6*w:], &t.blocks[2]
		for i := range 3 {
			to[i] += y[3+i] * window[i]
			to[3+i] -= y[5-i] * window[3+i]
			to[6+i] -= y[2-i] * window[6+i]
			to[9+i] -= y[i] * window[9+i]
		}
	}
}

// filter appends the 32 samples of a value of each subband.
func (c *mp3Channel) filter(t *mp3Tables, x *[32]float32, out []float32) []float32 {
	t.dct32(x)
	c.newest = (c.newest + 15) % 16
	v := &c.ring[c.newest]
	for i := range 16 {
		v[i], v[48+i] = x[16+i], -x[i]
	}
	v[16] = 0
	for i := 17; i < 48; i++ {
		v[i] = -x[48-i]
	}
	var sum [32]float32
	for i := 0; i < 16; i += 2 {
		a := (*[32]float32)(c.ring[(c.newest+i)%16][:])
		b := (*[32]float32)(c.ring[(c.newest+i+1)%16][32:])
		w := (*[64]float32)(t.window[32*i:])
		for j := range sum {
			sum[j] += a[j]*w[j] + b[j]*w[32+j]
		}
	}
	for i, v := range sum {
		sum[i] = max(-1, min(1, v))
	}
	return append(out, sum[:]...)
}

// dct32 computes Σ x[k]·cos(πn(2k+1)/64) (B. G. Lee, "A new algorithm to compute the discrete
// cosine transform", 1984).
func (t *mp3Tables) dct32(x *[32]float32) {
	var y [32]float32
	for half := 16; half >= 1; half /= 2 {
		w := t.halves[half : 2*half]
		for at := 0; at < 32; at += 2 * half {
			for i := range half {
				a, b := x[at+i], x[at+2*half-1-i]
				y[at+i], y[at+half+i] = a+b, (a-b)*w[i]
			}
		}
		*x = y
	}
	for half := 2; half <= 16; half *= 2 {
		for at := 0; at < 32; at += 2 * half {
			for i := range half {
				y[at+2*i] = x[at+i]
				y[at+2*i+1] = x[at+half+i]
				if i+1 < half {
					y[at+2*i+1] += x[at+half+i+1]
				}
			}
		}
		*x = y
	}
}
