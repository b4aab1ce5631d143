package preprocess

import (
	"fmt"
	"math"
)

// Interpolation is an interpolation of OpenCV.
type Interpolation int

// The interpolations of OpenCV (https://docs.opencv.org/4.x/da/d54/group__imgproc__transform.html).
const (
	InterLinear Interpolation = iota
	InterNearest
	InterCubic
	InterArea
)

// coefBits is the number of fractional bits of OpenCV's weights for bytes.
const coefBits = 11

// ResizeCV returns the image in another size as OpenCV's cv2.resize does: exactly with InterLinear
// and InterNearest, else within one step of 255. It does not smooth where an image shrinks, except
// with InterArea.
func (m *Image) ResizeCV(height, width int, f Interpolation) (*Image, error) {
	r, err := m.like(height, width)
	if err != nil {
		return nil, err
	}
	shrinks := height <= m.Height && width <= m.Width
	switch {
	case f == InterNearest:
		for y := range height {
			from := nearestCV(y, m.Height, height)
			for x := range width {
				copy(r.Pixels[(y*width+x)*m.Channels:][:m.Channels],
					m.Pixels[(from*m.Width+nearestCV(x, m.Width, width))*m.Channels:])
			}
		}
	case f == InterArea && shrinks, f == InterLinear && m.Height == 2*height && m.Width == 2*width:
		m.area(r)
	case f == InterLinear || f == InterArea:
		m.linear(r, linearTaps(m.Height, height, f == InterArea), linearTaps(m.Width, width, f == InterArea))
	case f == InterCubic:
		m.interpolate(r, cubicTaps(m.Height, height), cubicTaps(m.Width, width))
	default:
		return nil, fmt.Errorf("preprocess: unknown interpolation %d", f)
	}
	return r, nil
}

func nearestCV(i, in, out int) int {
	return min(int(math.Floor(float64(i)*(1/(float64(out)/float64(in))))), in-1)
}

// tapCV is a pixel that is read, clamped to the image, and its weight.
type tapCV struct {
	at     int
	weight int32
}

func tapsCV(in, first int, weights ...float32) []tapCV {
	r := make([]tapCV, len(weights))
	for i, w := range weights {
		r[i] = tapCV{min(max(first+i, 0), in-1), int32(math.RoundToEven(float64(w * (1 << coefBits))))}
	}
	return r
}

// linearTaps returns the taps of each pixel of an axis. With area, which InterArea uses if an axis
// grows, pixels of the image are constant up to their borders.
func linearTaps(in, out int, area bool) [][]tapCV {
	inverse := float64(out) / float64(in)
	scale := 1 / inverse
	r := make([][]tapCV, out)
	for i := range r {
		x := float32((float64(i)+0.5)*scale - 0.5)
		first := int(math.Floor(float64(x)))
		x -= float32(first)
		if area {
			first = int(math.Floor(float64(i) * scale))
			if x = float32(float64(i+1) - float64(first+1)*inverse); x <= 0 {
				x = 0
			} else {
				x -= float32(math.Floor(float64(x)))
			}
		}
		r[i] = tapsCV(in, first, 1-x, x)
	}
	return r
}

func cubicTaps(in, out int) [][]tapCV {
	scale := 1 / (float64(out) / float64(in))
	r := make([][]tapCV, out)
	for i := range r {
		x := float32((float64(i)+0.5)*scale - 0.5)
		first := int(math.Floor(float64(x)))
		x -= float32(first)
		const a = float32(-0.75)
		w0 := ((a*(x+1)-5*a)*(x+1)+8*a)*(x+1) - 4*a
		w1 := ((a+2)*x-(a+3))*x*x + 1
		w2 := ((a+2)*(1-x)-(a+3))*(1-x)*(1-x) + 1
		r[i] = tapsCV(in, first-1, w0, w1, w2, 1-w0-w1-w2)
	}
	return r
}

// linear sums two taps of rows and columns, in OpenCV's precision of 16 bits.
func (m *Image) linear(to *Image, rows, columns [][]tapCV) {
	n, ch := to.Width*m.Channels, m.Channels
	var lines [2][]int32   // of the sums of two rows of the image
	held := [2]int{-1, -1} // the rows
	for i := range lines {
		lines[i] = make([]int32, n)
	}
	for y, row := range rows {
		if row[0].at == held[1] {
			lines[0], lines[1], held[0], held[1] = lines[1], lines[0], held[1], held[0]
		}
		for i, r := range row {
			if held[i] == r.at {
				continue
			}
			held[i] = r.at
			from, line := m.Pixels[r.at*m.Width*ch:(r.at+1)*m.Width*ch], lines[i]
			for x, c := range columns {
				a, b := from[c[0].at*ch:][:ch], from[c[1].at*ch:][:ch]
				w0, w1 := c[0].weight, c[1].weight
				if c[0].at == c[1].at { // beyond an edge
					w0, w1 = 1<<coefBits, 0
				}
				for k, v := range a {
					line[x*ch+k] = int32(v)*w0 + int32(b[k])*w1
				}
			}
		}
		w0, w1, upper, lower := row[0].weight, row[1].weight, lines[0], lines[1][:n]
		out := to.Pixels[y*n:][:n]
		for i := range out {
			out[i] = uint8(((upper[i]>>4)*w0>>16 + (lower[i]>>4)*w1>>16 + 2) >> 2)
		}
	}
}

// interpolate sums taps of rows and columns.
func (m *Image) interpolate(to *Image, rows, columns [][]tapCV) {
	line := make([]int64, to.Width*m.Channels)
	for y, row := range rows {
		clear(line)
		for _, r := range row {
			for x, column := range columns {
				for c := range m.Channels {
					s := int64(0)
					for _, t := range column {
						s += int64(m.Pixels[(r.at*m.Width+t.at)*m.Channels+c]) * int64(t.weight)
					}
					line[x*m.Channels+c] += s * int64(r.weight)
				}
			}
		}
		for i, s := range line {
			s = (s + 1<<(2*coefBits-1)) >> (2 * coefBits)
			to.Pixels[y*len(line)+i] = uint8(min(max(s, 0), 255))
		}
	}
}

// part is a source pixel within the area of a result pixel, and its weight.
type part struct {
	at    int
	share float32
}

func parts(in, out int) [][]part {
	scale := 1 / (float64(out) / float64(in))
	r := make([][]part, out)
	for i := range r {
		from, to := float64(i)*scale, min(float64(i)*scale+scale, float64(in))
		width := min(scale, float64(in)-float64(i)*scale)
		first, last := int(math.Ceil(from)), int(math.Floor(to))
		last = min(last, in-1)
		first = min(first, last)
		if float64(first)-from > 1e-3 {
			r[i] = append(r[i], part{first - 1, float32((float64(first) - from) / width)})
		}
		for at := first; at < last; at++ {
			r[i] = append(r[i], part{at, float32(1 / width)})
		}
		if to-float64(last) > 1e-3 {
			r[i] = append(r[i], part{last, float32(min(min(to-float64(last), 1), width) / width)})
		}
	}
	return r
}

// area averages the pixels of areas.
func (m *Image) area(to *Image) {
	columns := parts(m.Width, to.Width)
	line := make([]float32, to.Width*m.Channels)
	for y, row := range parts(m.Height, to.Height) {
		clear(line)
		for _, r := range row {
			for x, column := range columns {
				for c := range m.Channels {
					s := float32(0)
					for _, p := range column {
						s += float32(m.Pixels[(r.at*m.Width+p.at)*m.Channels+c]) * p.share
					}
					line[x*m.Channels+c] += s * r.share
				}
			}
		}
		for i, s := range line {
			v := math.RoundToEven(float64(s))
			if m.Height == 2*to.Height && m.Width == 2*to.Width {
				v = math.Floor(float64(s) + 0.5) // which OpenCV computes with integers
			}
			to.Pixels[y*len(line)+i] = uint8(min(max(v, 0), 255))
		}
	}
}
