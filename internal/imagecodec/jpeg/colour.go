package jpeg

import "github.com/onward-ml/onward/internal/imagecodec"

// colours upsamples the components and converts them to pixels.
func (j *jpegFile) colours(dst []uint8) error {
	rows := make([][]uint8, len(j.comps))
	for i := range rows {
		rows[i] = make([]uint8, j.mcux*8*j.hmax+16)
	}
	sums := make([]int, j.mcux*8*j.hmax+16)
	// Three components are YCbCr unless a marker or the component ids declare RGB. The
	// first three of four components are YCbCr with Adobe's transform 2.
	ycc := len(j.comps) == 3
	if ycc && !j.jfif {
		if j.adobe {
			ycc = j.transform != 0
		} else {
			ycc = !(j.comps[0].id == 'R' && j.comps[1].id == 'G' && j.comps[2].id == 'B')
		}
	}
	if len(j.comps) == 4 {
		ycc = j.adobe && j.transform == 2
	}
	for y := range j.h {
		if err := j.stop(); err != nil {
			return err
		}
		for i, c := range j.comps {
			c.row(rows[i], sums, y, j.hmax, j.vmax)
		}
		out := dst[3*y*j.w : 3*(y+1)*j.w]
		if len(j.comps) == 1 {
			imagecodec.Gray(out, rows[0][:j.w])
			continue
		}
		for x := range j.w {
			d := out[3*x : 3*x+3]
			if ycc {
				imagecodec.YCbCr(d, int(rows[0][x]), int(rows[1][x])-128, int(rows[2][x])-128)
			} else {
				d[0], d[1], d[2] = rows[0][x], rows[1][x], rows[2][x]
			}
			if len(j.comps) == 4 {
				k := int(rows[3][x])
				if !j.adobe {
					k = 255 - k
				}
				for i, v := range d {
					// Adobe stores CMYK inverted, but YCbCr converts to inks that are not.
					if !j.adobe || ycc {
						v = 255 - v
					}
					d[i] = uint8((int(v)*k + 127) / 255)
				}
			}
		}
	}
	return nil
}

// row writes row y of a component at full resolution. It upsamples half resolution by linear
// interpolation, as libjpeg does, and other ratios by repetition.
func (c *jpegComp) row(dst []uint8, sums []int, y, hmax, vmax int) {
	stride := 8 * c.bw
	line := func(k int) []uint8 {
		k = min(max(k, 0), c.hgt-1)
		return c.plane[k*stride : k*stride+c.w]
	}
	near := y/2 - 1 + y%2*2 // the second nearest row: above for even rows, below for odd rows
	switch {
	case c.h == hmax && c.v == vmax:
		copy(dst, line(y))
	case 2*c.h == hmax && c.v == vmax && c.w > 2:
		upsample(dst, line(y))
	case c.h == hmax && 2*c.v == vmax:
		a, b := line(y/2), line(near)
		for i := range a {
			dst[i] = uint8((3*int(a[i]) + int(b[i]) + 1 + y%2) >> 2)
		}
	case 2*c.h == hmax && 2*c.v == vmax && c.w > 2:
		a, b := line(y/2), line(near)
		s := sums[:c.w]
		for i := range s {
			s[i] = 3*int(a[i]) + int(b[i])
		}
		for i, v := range s {
			l, r := s[max(i-1, 0)], s[min(i+1, c.w-1)]
			dst[2*i] = uint8((3*v + l + 8) >> 4)
			dst[2*i+1] = uint8((3*v + r + 7) >> 4)
		}
	default:
		in := line(y * c.v / vmax)
		for i := range dst {
			dst[i] = in[min(i*c.h/hmax, c.w-1)]
		}
	}
}

// upsample doubles a row of samples by linear interpolation. Rounding alternates down and up.
func upsample(out, in []uint8) {
	n := len(in)
	for i, v := range in {
		l, r := in[max(i-1, 0)], in[min(i+1, n-1)]
		out[2*i] = uint8((3*int(v) + int(l) + 1) >> 2)
		out[2*i+1] = uint8((3*int(v) + int(r) + 2) >> 2)
	}
}
