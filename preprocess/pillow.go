package preprocess

import (
	"fmt"
	"math"
)

// Filter is a resampling filter of Pillow.
type Filter int

// The filters of Pillow (https://pillow.readthedocs.io/en/stable/handbook/concepts.html#filters).
const (
	Bilinear Filter = iota
	Nearest
	Box
	Hamming
	Bicubic
	Lanczos
)

// kernel returns the support of a filter, in pixels to either side, and its weights.
func (f Filter) kernel() (float64, func(x float64) float64, error) {
	switch f {
	case Box:
		return 0.5, func(x float64) float64 {
			if x > -0.5 && x <= 0.5 {
				return 1
			}
			return 0
		}, nil
	case Bilinear:
		return 1, func(x float64) float64 { return max(0, 1-math.Abs(x)) }, nil
	case Hamming:
		return 1, func(x float64) float64 {
			switch x = math.Abs(x); {
			case x == 0:
				return 1
			case x >= 1:
				return 0
			}
			x *= math.Pi
			return math.Sin(x) / x * (0.54 + 0.46*math.Cos(x))
		}, nil
	case Bicubic:
		return 2, func(x float64) float64 {
			const a = -0.5
			switch x = math.Abs(x); {
			case x < 1:
				return ((a+2)*x-(a+3))*x*x + 1
			case x < 2:
				return (((x-5)*x+8)*x - 4) * a
			}
			return 0
		}, nil
	case Lanczos:
		sinc := func(x float64) float64 {
			if x == 0 {
				return 1
			}
			x *= math.Pi
			return math.Sin(x) / x
		}
		return 3, func(x float64) float64 {
			if x >= -3 && x < 3 {
				return sinc(x) * sinc(x/3)
			}
			return 0
		}, nil
	}
	return 0, nil, fmt.Errorf("preprocess: unknown filter %d", f)
}

// precision is the number of fractional bits of Pillow's weights.
const precision = 32 - 8 - 2

// taps are the pixels that one pixel of a result reads, and their weights.
type taps struct {
	first   int
	weights []int32
}

// pillowTaps returns the taps of each pixel of an axis. Where an axis shrinks, the filter is as
// wide as the step between pixels, which prevents aliasing.
func pillowTaps(in, out int, support float64, kernel func(float64) float64) []taps {
	scale := float64(in) / float64(out)
	wide := max(scale, 1)
	support *= wide
	r := make([]taps, out)
	for i := range r {
		center := (float64(i) + 0.5) * scale
		first, last := max(0, int(center-support+0.5)), min(in, int(center+support+0.5))
		w, sum := make([]float64, last-first), 0.0
		for k := range w {
			w[k] = kernel((float64(k+first) - center + 0.5) * (1 / wide))
			sum += w[k]
		}
		r[i] = taps{first, make([]int32, len(w))}
		for k, v := range w {
			if sum != 0 {
				v *= 1 / sum
			}
			v *= 1 << precision
			r[i].weights[k] = int32(v + math.Copysign(0.5, v))
		}
	}
	return r
}

// Resize returns the image in another size, with the bytes of Pillow 13's Image.resize: weights of
// 22 bits and bytes between the two axes. Rows come first if the height shrinks by more than twice
// what the width does, else columns. The four channels of RGBA are resized separately, where Pillow
// multiplies the colors by alpha first.
func (m *Image) Resize(height, width int, f Filter) (*Image, error) {
	r, err := m.like(height, width)
	if err != nil {
		return nil, err
	}
	if f == Nearest {
		m.nearest(r)
		return r, nil
	}
	support, kernel, err := f.kernel()
	if err != nil {
		return nil, err
	}
	columns := func(m *Image) (*Image, error) {
		if m.Width == width {
			return m, nil
		}
		r, err := m.like(m.Height, width)
		if err != nil {
			return nil, err
		}
		for x, t := range pillowTaps(m.Width, width, support, kernel) {
			for y := range m.Height {
				m.sum(r, t, (y*m.Width+t.first)*m.Channels, m.Channels, (y*width+x)*m.Channels)
			}
		}
		return r, nil
	}
	rows := func(m *Image) (*Image, error) {
		if m.Height == height {
			return m, nil
		}
		r, err := m.like(height, m.Width)
		if err != nil {
			return nil, err
		}
		for y, t := range pillowTaps(m.Height, height, support, kernel) {
			for x := range m.Width {
				m.sum(r, t, (t.first*m.Width+x)*m.Channels, m.Width*m.Channels, (y*m.Width+x)*m.Channels)
			}
		}
		return r, nil
	}
	first, second := columns, rows
	if m.Height > height && m.Height-height > 2*(m.Width-width) {
		first, second = rows, columns
	}
	if r, err = first(m); err == nil {
		r, err = second(r)
	}
	if r == m {
		return m.Crop(0, 0, height, width) // a copy
	}
	return r, err
}

// sum writes one pixel: the weighted sum of pixels from offset from on, in a distance of step.
func (m *Image) sum(to *Image, t taps, from, step, at int) {
	for c := range m.Channels {
		s := int32(1) << (precision - 1)
		for k, w := range t.weights {
			s += int32(m.Pixels[from+k*step+c]) * w
		}
		to.Pixels[at+c] = uint8(min(max(s>>precision, 0), 255))
	}
}

// nearest copies the pixels whose area holds the middles of the result's. Coordinates are added
// up, as Pillow does.
func (m *Image) nearest(to *Image) {
	steps := func(in, out int) []int {
		r, step := make([]int, out), float64(in)/float64(out)
		at := step * 0.5
		for i := range r {
			r[i] = min(int(at), in-1)
			at += step
		}
		return r
	}
	columns := steps(m.Width, to.Width)
	for y, from := range steps(m.Height, to.Height) {
		for x, column := range columns {
			copy(to.Pixels[(y*to.Width+x)*m.Channels:][:m.Channels], m.Pixels[(from*m.Width+column)*m.Channels:])
		}
	}
}
