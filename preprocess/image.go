package preprocess

import (
	"errors"
	"fmt"
	"io"

	"github.com/onward-ml/onward/internal/imageinput"
	"github.com/onward-ml/onward/tensor"
)

// maxPixels is the most pixels of an image.
const maxPixels = 1 << 28

// Image holds pixels of 8 bits per channel: rows from the top, pixels from the left, and the
// channels of a pixel side by side.
type Image struct {
	Height, Width int
	Channels      int // 1 (gray), 3 (RGB) or 4 (RGBA)
	Pixels        []uint8
}

// NewImage returns a black image. It fails if a size is not positive, if there are more than 2²⁸
// pixels, or if channels is not 1, 3 or 4.
func NewImage(height, width, channels int) (*Image, error) {
	if height <= 0 || width <= 0 || width > maxPixels/height {
		return nil, fmt.Errorf("preprocess: image has %d×%d pixels, want 1 to %d", width, height, maxPixels)
	}
	if channels != 1 && channels != 3 && channels != 4 {
		return nil, fmt.Errorf("preprocess: image has %d channels, want 1, 3 or 4", channels)
	}
	return &Image{height, width, channels, make([]uint8, height*width*channels)}, nil
}

// Decode decodes a PNG, JPEG or GIF image, or one of another format that package image knows, to
// 1 (gray), 3 (RGB) or 4 (RGBA) channels. Transparent pixels keep their color. A JPEG image is
// turned upright as its Exif data say.
func Decode(r io.ReadSeeker, channels int) (*Image, error) {
	pixels, height, width, err := imageinput.Pixels(r, channels)
	if err != nil {
		return nil, fmt.Errorf("preprocess: %w", err)
	}
	return &Image{height, width, channels, pixels}, nil
}

// check returns an error if the fields do not fit each other.
func (m *Image) check() error {
	if m == nil {
		return errors.New("preprocess: the image is nil")
	}
	if m.Height <= 0 || m.Width <= 0 || m.Width > maxPixels/m.Height || m.Channels < 1 || m.Channels > 4 ||
		len(m.Pixels) != m.Height*m.Width*m.Channels {
		return fmt.Errorf("preprocess: image of %d×%d pixels with %d channels has %d bytes, want positive sizes, 1 "+
			"to 4 channels, and height·width·channels bytes", m.Width, m.Height, m.Channels, len(m.Pixels))
	}
	return nil
}

// At returns channel c of a pixel.
func (m *Image) At(y, x, c int) uint8 { return m.Pixels[(y*m.Width+x)*m.Channels+c] }

// like returns an image with as many channels.
func (m *Image) like(height, width int) (*Image, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	return NewImage(height, width, m.Channels)
}

// Crop returns the part of an image whose upper left pixel is at row y and column x.
func (m *Image) Crop(y, x, height, width int) (*Image, error) {
	r, err := m.like(height, width)
	if err != nil {
		return nil, err
	}
	if y < 0 || x < 0 || y > m.Height-height || x > m.Width-width {
		return nil, fmt.Errorf("preprocess: crop of %d×%d pixels at column %d, row %d leaves the image of %d×%d", width,
			height, x, y, m.Width, m.Height)
	}
	for row := range height {
		copy(r.Pixels[row*width*m.Channels:][:width*m.Channels], m.Pixels[((y+row)*m.Width+x)*m.Channels:])
	}
	return r, nil
}

// CenterCrop returns the middle of an image, as torchvision does: where the sides cannot be equal,
// the offset is rounded to the even number. It fails if the image is smaller.
func (m *Image) CenterCrop(height, width int) (*Image, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	half := func(n int) int { // round(n/2.0) of Python
		if n%4 == 3 {
			return n/2 + 1
		}
		return n / 2
	}
	return m.Crop(half(m.Height-height), half(m.Width-width), height, width)
}

// Pad returns an image with borders, all of whose channels have a value.
func (m *Image) Pad(top, bottom, left, right int, value uint8) (*Image, error) {
	if min(top, bottom, left, right) < 0 || max(top, bottom, left, right) > maxPixels {
		return nil, fmt.Errorf("preprocess: borders are %d, %d, %d, %d, want 0 to %d", top, bottom, left,
			right, maxPixels)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	r, err := NewImage(m.Height+top+bottom, m.Width+left+right, m.Channels)
	if err != nil {
		return nil, err
	}
	for i := range r.Pixels {
		r.Pixels[i] = value
	}
	row := m.Width * m.Channels
	for y := range m.Height {
		copy(r.Pixels[((top+y)*r.Width+left)*m.Channels:][:row], m.Pixels[y*row:])
	}
	return r, nil
}

// Placement says where Letterbox put an image: a point (x, y) of the original is at
// (x*Scale+Left, y*Scale+Top).
type Placement struct {
	Scale     float64
	Top, Left int
}

// Letterbox resizes an image to fit a size at its aspect ratio, and pads it to that size with a
// value. Detectors of the YOLO family use the value 114.
func (m *Image) Letterbox(height, width int, f Filter, value uint8) (*Image, Placement, error) {
	if _, err := m.like(height, width); err != nil {
		return nil, Placement{}, err
	}
	scale := min(float64(height)/float64(m.Height), float64(width)/float64(m.Width))
	h, w := max(1, min(height, int(float64(m.Height)*scale+0.5))), max(1, min(width, int(float64(m.Width)*scale+0.5)))
	small, err := m.Resize(h, w, f)
	if err != nil {
		return nil, Placement{}, err
	}
	p := Placement{scale, (height - h) / 2, (width - w) / 2}
	r, err := small.Pad(p.Top, height-h-p.Top, p.Left, width-w-p.Left, value)
	return r, p, err
}

// ResizeShorter resizes an image so that its shorter side has a size and the ratio of its sides
// stays, as torchvision's Resize with one number does.
func (m *Image) ResizeShorter(size int, f Filter) (*Image, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if size <= 0 || size > maxPixels {
		return nil, fmt.Errorf("preprocess: size is %d, want 1 to %d", size, maxPixels)
	}
	h, w := size, size
	if m.Height < m.Width {
		w = int(float64(size) * float64(m.Width) / float64(m.Height))
	} else {
		h = int(float64(size) * float64(m.Height) / float64(m.Width))
	}
	return m.Resize(h, w, f)
}

// Layout describes the tensor of an image: float32, (value*Scale - Mean[c]) / Std[c].
type Layout struct {
	ChannelsLast bool      // [1,H,W,C] instead of [1,C,H,W]
	BGR          bool      // swap the first and the third channel
	Scale        float32   // of values from 0 to 255. Default: 1/255
	Mean, Std    []float32 // per channel, or one for all. Default: 0 and 1
}

// ImageNet is the layout of models that were trained on ImageNet with torchvision.
var ImageNet = Layout{Mean: []float32{0.485, 0.456, 0.406}, Std: []float32{0.229, 0.224, 0.225}}

// Tensor returns the tensor of an image, of shape [1,C,H,W] or [1,H,W,C].
func (m *Image) Tensor(l Layout) (*tensor.Tensor, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	of := func(what string, list []float32, d float32) ([4]float32, error) {
		var r [4]float32
		if n := len(list); n > 1 && n != m.Channels {
			return r, fmt.Errorf("preprocess: %s has %d numbers, want one or %d", what, n, m.Channels)
		}
		for c := range r {
			switch {
			case len(list) == 0:
				r[c] = d
			case len(list) == 1:
				r[c] = list[0]
			case c < len(list):
				r[c] = list[c]
			}
		}
		return r, nil
	}
	mean, err := of("Mean", l.Mean, 0)
	if err != nil {
		return nil, err
	}
	std, err := of("Std", l.Std, 1)
	if err != nil {
		return nil, err
	}
	if l.Scale == 0 {
		l.Scale = 1.0 / 255
	}
	shape := []int{1, m.Channels, m.Height, m.Width}
	if l.ChannelsLast {
		shape = []int{1, m.Height, m.Width, m.Channels}
	}
	t, err := tensor.Zeros(tensor.TypeFloat32, shape...)
	if err != nil {
		return nil, err
	}
	data, plane := tensor.MustData[float32](t), m.Height*m.Width
	for c := range m.Channels {
		if std[c] == 0 {
			return nil, fmt.Errorf("preprocess: Std of channel %d is 0", c)
		}
		from := c
		if l.BGR && m.Channels >= 3 && c < 3 {
			from = 2 - c
		}
		at, step := c*plane, 1
		if l.ChannelsLast {
			at, step = c, m.Channels
		}
		for i := range plane {
			data[at+i*step] = (float32(m.Pixels[i*m.Channels+from])*l.Scale - mean[c]) / std[c]
		}
	}
	return t, nil
}
