package pipeline

import (
	"math"

	"github.com/onward-ml/onward/preprocess"
)

// opaque returns an image as RGB. Transparent images are put on white if their mean luminance is
// below 128, else on black.
func opaque(m *preprocess.Image) *preprocess.Image {
	if m.Channels == 3 {
		return m
	}
	r := &preprocess.Image{Height: m.Height, Width: m.Width, Channels: 3, Pixels: make([]uint8, m.Height*m.Width*3)}
	background := float32(255)
	if m.Channels == 4 {
		sum, n := 0.0, 0
		for i := 0; i < len(m.Pixels); i += 4 {
			if p := m.Pixels[i : i+4]; p[3] > 0 {
				sum += 0.299*float64(p[0]) + 0.587*float64(p[1]) + 0.114*float64(p[2])
				n++
			}
		}
		if n > 0 && sum/float64(n) >= 128 {
			background = 0
		}
	}
	for i := range m.Height * m.Width {
		p := m.Pixels[i*m.Channels:][:m.Channels]
		for c := range 3 {
			if m.Channels == 1 {
				r.Pixels[i*3+c] = p[0]
				continue
			}
			a := float32(p[3]) / 255
			r.Pixels[i*3+c] = uint8(float32(p[c])*a + background*(1-a))
		}
	}
	return r
}

// levels returns f for each value of a byte.
func levels(f func(v float32) float32) *[256]float32 {
	var r [256]float32
	for v := range r {
		r[v] = f(float32(v))
	}
	return &r
}

// planes writes an image as blue, green and red planes, in rows of a length.
func planes(to []float32, m *preprocess.Image, width int, level *[256]float32) {
	size := m.Height * width
	for y := range m.Height {
		row := m.Pixels[y*m.Width*3 : (y+1)*m.Width*3]
		b, g, r := to[y*width:][:m.Width], to[size+y*width:][:m.Width], to[2*size+y*width:][:m.Width]
		for x := range b {
			b[x], g[x], r[x] = level[row[3*x+2]], level[row[3*x+1]], level[row[3*x]]
		}
	}
}

// cropBox returns the part of an RGB image within a quadrilateral as an upright image, by cubic
// interpolation. One that is 1.5 times as high as wide is turned by 90° counterclockwise.
func cropBox(m *preprocess.Image, box [4]Point) (*preprocess.Image, error) {
	width := int(max(distance(box[0], box[1]), distance(box[2], box[3])))
	height := int(max(distance(box[0], box[3]), distance(box[1], box[2])))
	r, err := preprocess.NewImage(height, width, 3)
	if err != nil {
		return nil, err
	}
	h := perspective(box, float64(width), float64(height))
	at := 0
	for y := range height {
		for x := range width {
			fx, fy := float64(x), float64(y)
			w := h[6]*fx + h[7]*fy + 1
			cubic(r.Pixels[at:at+3], m, (h[0]*fx+h[1]*fy+h[2])/w, (h[3]*fx+h[4]*fy+h[5])/w)
			at += 3
		}
	}
	if float64(height)/float64(width) < 1.5 {
		return r, nil
	}
	turned := &preprocess.Image{Height: width, Width: height, Channels: 3, Pixels: make([]uint8, len(r.Pixels))}
	for y := range height {
		for x := range width {
			copy(turned.Pixels[((width-1-x)*height+y)*3:][:3], r.Pixels[(y*width+x)*3:])
		}
	}
	return turned, nil
}

// perspective returns the mapping of the rectangle (0, 0) to (width, height) to a quadrilateral:
// x = (h0·u + h1·v + h2) / (h6·u + h7·v + 1), y likewise (Heckbert, Fundamentals of texture
// mapping and image warping, 1989).
func perspective(q [4]Point, width, height float64) (h [8]float64) {
	x0, y0 := float64(q[0].X), float64(q[0].Y)
	x1, y1 := float64(q[1].X), float64(q[1].Y)
	x2, y2 := float64(q[2].X), float64(q[2].Y)
	x3, y3 := float64(q[3].X), float64(q[3].Y)
	dx1, dx2, sx := x1-x2, x3-x2, x0-x1+x2-x3
	dy1, dy2, sy := y1-y2, y3-y2, y0-y1+y2-y3
	g, k := 0.0, 0.0
	if det := dx1*dy2 - dx2*dy1; det != 0 {
		g, k = (sx*dy2-dx2*sy)/det, (dx1*sy-sx*dy1)/det
	}
	return [8]float64{(x1 - x0 + g*x1) / width, (x3 - x0 + k*x3) / height, x0,
		(y1 - y0 + g*y1) / width, (y3 - y0 + k*y3) / height, y0, g / width, k / height}
}

// cubic writes the pixel of an RGB image at a position, by cubic interpolation with a = -0.75. The
// image continues with the pixels of its edges.
func cubic(to []uint8, m *preprocess.Image, x, y float64) {
	const whole = 1e-6
	left, top := math.Floor(x), math.Floor(y)
	if rx, ry := math.Round(x), math.Round(y); math.Abs(x-rx) < whole && math.Abs(y-ry) < whole {
		cx, cy := min(max(int(rx), 0), m.Width-1), min(max(int(ry), 0), m.Height-1)
		copy(to, m.Pixels[(cy*m.Width+cx)*3:][:3])
		return
	}
	wx, wy := cubicWeights(float32(x-left)), cubicWeights(float32(y-top))
	var columns [4]int
	for i := range columns {
		columns[i] = min(max(int(left)-1+i, 0), m.Width-1) * 3
	}
	var sum [3]float32
	for i, wy := range wy {
		row := m.Pixels[min(max(int(top)-1+i, 0), m.Height-1)*m.Width*3:]
		var s [3]float32
		for j, w := range wx {
			p := row[columns[j]:][:3]
			s[0] += w * float32(p[0])
			s[1] += w * float32(p[1])
			s[2] += w * float32(p[2])
		}
		sum[0] += wy * s[0]
		sum[1] += wy * s[1]
		sum[2] += wy * s[2]
	}
	for c, v := range sum {
		to[c] = uint8(min(max(math.RoundToEven(float64(v)), 0), 255))
	}
}

func cubicWeights(x float32) [4]float32 {
	const a = -0.75
	w0 := ((a*(x+1)-5*a)*(x+1)+8*a)*(x+1) - 4*a
	w1 := ((a+2)*x-(a+3))*x*x + 1
	w2 := ((a+2)*(1-x)-(a+3))*(1-x)*(1-x) + 1
	return [4]float32{w0, w1, w2, 1 - w0 - w1 - w2}
}
