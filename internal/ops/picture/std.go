package picture

import (
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
)

func readPNG(data []byte) (*Header, error) {
	cfg, err := png.DecodeConfig(newReader(data))
	if err != nil {
		return nil, err
	}
	h := &Header{Width: cfg.Width, Height: cfg.Height, Memory: 20 * int64(cfg.Width) * int64(cfg.Height)}
	h.decode = func(dst []uint8) error {
		img, err := png.Decode(newReader(data))
		if err != nil {
			return err
		}
		plain(dst, img)
		return nil
	}
	return h, nil
}

func readJPEG(data []byte) (*Header, error) {
	cfg, err := jpeg.DecodeConfig(newReader(data))
	if err != nil {
		return nil, err
	}
	// A progressive file keeps four 4-byte coefficients a pixel, on whole blocks.
	h := &Header{Width: cfg.Width, Height: cfg.Height, Memory: 24 * int64(cfg.Width+64) * int64(cfg.Height+64)}
	h.decode = func(dst []uint8) error {
		img, err := jpeg.Decode(newReader(data))
		if err != nil {
			return err
		}
		if y, ok := img.(*image.YCbCr); ok {
			fromYCbCr(dst, y)
		} else {
			plain(dst, img)
		}
		return nil
	}
	return h, nil
}

// plain writes the colours of an image without its transparency.
func plain(dst []uint8, img image.Image) {
	b := img.Bounds()
	w := b.Dx()
	switch m := img.(type) {
	case *image.Gray:
		for y := range b.Dy() {
			gray(dst[3*w*y:], m.Pix[y*m.Stride:y*m.Stride+w])
		}
		return
	case *image.NRGBA:
		fourToThree(dst, m.Pix, m.Stride, w, b.Dy())
		return
	case *image.RGBA:
		if m.Opaque() {
			fourToThree(dst, m.Pix, m.Stride, w, b.Dy())
			return
		}
	}
	i := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			dst[i], dst[i+1], dst[i+2] = c.R, c.G, c.B
			i += 3
		}
	}
}

func fourToThree(dst, pix []uint8, stride, w, h int) {
	for y := range h {
		row := pix[y*stride : y*stride+4*w]
		for x := range w {
			copy(dst[3*(y*w+x):3*(y*w+x)+3], row[4*x:])
		}
	}
}

// fromYCbCr converts as libjpeg does by default: colours of half resolution are
// interpolated linearly, rounding up and down in turn.
func fromYCbCr(dst []uint8, m *image.YCbCr) {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	half := func(n int) int { return (n + 1) / 2 }
	cb, cr := make([]uint8, w+2), make([]uint8, w+2)
	sums := make([]int, half(w))
	cw, ch := w, h
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		cw = half(w)
	case image.YCbCrSubsampleRatio420:
		cw, ch = half(w), half(h)
	case image.YCbCrSubsampleRatio440:
		ch = half(h)
	}
	chroma := func(out, plane []uint8, y int) {
		row := func(k int) []uint8 {
			k = min(max(k, 0), ch-1)
			return plane[k*m.CStride : k*m.CStride+cw]
		}
		near := y/2 - 1 + y%2*2 // the row above for even rows, below for odd ones
		switch m.SubsampleRatio {
		case image.YCbCrSubsampleRatio444:
			copy(out, row(y))
		case image.YCbCrSubsampleRatio422:
			widen(out, row(y))
		case image.YCbCrSubsampleRatio440:
			a, b := row(y/2), row(near)
			for i := range a {
				out[i] = uint8((3*int(a[i]) + int(b[i]) + 1 + y%2) >> 2)
			}
		case image.YCbCrSubsampleRatio420:
			a, b := row(y/2), row(near)
			if cw <= 2 {
				for i := range w {
					out[i] = a[i/2]
				}
				return
			}
			for i := range a {
				sums[i] = 3*int(a[i]) + int(b[i])
			}
			for i, s := range sums {
				l, r := sums[max(i-1, 0)], sums[min(i+1, cw-1)]
				out[2*i] = uint8((3*s + l + 8) >> 4)
				out[2*i+1] = uint8((3*s + r + 7) >> 4)
			}
		default:
			for x := range w {
				out[x] = plane[m.COffset(m.Rect.Min.X+x, m.Rect.Min.Y+y)]
			}
		}
	}
	for y := range h {
		chroma(cb, m.Cb, y)
		chroma(cr, m.Cr, y)
		luma := m.Y[y*m.YStride : y*m.YStride+w]
		for x, v := range luma {
			rgb(dst[3*(y*w+x):], int(v), int(cb[x])-128, int(cr[x])-128)
		}
	}
}

// widen doubles a row of chroma samples.
func widen(out, in []uint8) {
	n := len(in)
	if n <= 2 {
		for i, v := range in {
			out[2*i], out[2*i+1] = v, v
		}
		return
	}
	for i, v := range in {
		l, r := in[max(i-1, 0)], in[min(i+1, n-1)]
		out[2*i] = uint8((3*int(v) + int(l) + 1) >> 2)
		out[2*i+1] = uint8((3*int(v) + int(r) + 2) >> 2)
	}
}

// rgb converts by ITU-R BT.601 with full range, in 16-bit fixed point.
func rgb(dst []uint8, y, cb, cr int) {
	const half = 1 << 15
	dst = dst[:3]
	dst[0] = clamp(y + (91881*cr+half)>>16)
	dst[1] = clamp(y + (-22554*cb-46802*cr+half)>>16)
	dst[2] = clamp(y + (116130*cb+half)>>16)
}

func clamp(v int) uint8 { return uint8(min(max(v, 0), 255)) }
