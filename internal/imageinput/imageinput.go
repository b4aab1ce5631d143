// Package imageinput decodes images into the values of image inputs.
package imageinput

import (
	"context"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // image formats
	_ "image/jpeg"
	_ "image/png"
	"io"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

const maxPixels = 1 << 28 // of an image

// Layout describes the images that an input [N,C,H,W], [N,H,W,C], or either
// without N takes.
type Layout struct {
	Channels      int // 1 (gray), 3 (RGB) or 4 (RGBA)
	ChannelsFirst bool
	Height, Width onward.Dim
	Scale         float32 // of values from 0 to 255
	MaxValues     int     // of an image; 0 for no limit but that of decoding
}

// For returns the layout of the images for an input. Values are 0 to 1 for
// floating-point inputs and 0 to 255 for integer inputs.
func For(arg onward.NodeArg) (Layout, error) {
	t := arg.ElementType()
	if t.Kind != tensor.KindTensor || len(arg.Shape) < 3 || len(arg.Shape) > 4 {
		return Layout{}, fmt.Errorf("input is %s, want an image tensor [N,C,H,W] or [N,H,W,C]", arg)
	}
	dims := arg.Shape[len(arg.Shape)-3:]
	channelsOf := func(d onward.Dim) bool { return d.Value == 1 || d.Value == 3 || d.Value == 4 }
	l := Layout{ChannelsFirst: channelsOf(dims[0]) || !channelsOf(dims[2]), Channels: 3, Scale: 1}
	channels := dims[2]
	l.Height, l.Width = dims[0], dims[1]
	if l.ChannelsFirst {
		channels, l.Height, l.Width = dims[0], dims[1], dims[2]
	}
	if channels.Value > 0 {
		l.Channels = int(channels.Value)
	}
	if l.Channels != 1 && l.Channels != 3 && l.Channels != 4 {
		return Layout{}, fmt.Errorf("input has %d channels, want 1 (gray), 3 (RGB) or 4 (RGBA)", l.Channels)
	}
	if t.Elem.IsFloat() {
		l.Scale = 1.0 / 255
	}
	return l, nil
}

// Check returns an error if an image of a size does not fit.
func (l Layout) Check(height, width int) error {
	if l.Height.Value >= 0 && int(l.Height.Value) != height || l.Width.Value >= 0 && int(l.Width.Value) != width {
		return fmt.Errorf("image has %d×%d pixels, want %s×%s", width, height, l.Width, l.Height)
	}
	if l.MaxValues > 0 && int64(height)*int64(width) > int64(l.MaxValues/l.Channels) {
		return fmt.Errorf("image has %d×%d pixels with %d values each, want at most %d values", width, height,
			l.Channels, l.MaxValues)
	}
	return nil
}

// Values returns the number of values of an image by the size in its header.
func (l Layout) Values(r io.Reader) (int64, error) {
	conf, _, err := image.DecodeConfig(r)
	return int64(conf.Width) * int64(conf.Height) * int64(l.Channels), err
}

// Decode decodes an image into values in the order of the layout, and returns its shape.
// The size in the header is checked before pixels are decoded. Decode fails when the context ends.
func (l Layout) Decode(ctx context.Context, r io.ReadSeeker) (data []float32, shape []int, err error) {
	pixels, h, w, err := decode(ctx, r, l.Channels, l.Check)
	if err != nil {
		return nil, nil, err
	}
	data = make([]float32, len(pixels))
	for i := range h * w {
		for k := range l.Channels {
			at := i*l.Channels + k
			if l.ChannelsFirst {
				at = k*h*w + i
			}
			data[at] = float32(pixels[i*l.Channels+k]) * l.Scale
		}
	}
	if l.ChannelsFirst {
		return data, []int{l.Channels, h, w}, nil
	}
	return data, []int{h, w, l.Channels}, nil
}

// Pixels decodes an image to bytes: rows of pixels of 1 (gray), 3 (RGB) or 4 (RGBA) channels.
func Pixels(r io.ReadSeeker, channels int) (pixels []uint8, height, width int, err error) {
	if channels != 1 && channels != 3 && channels != 4 {
		return nil, 0, 0, fmt.Errorf("got %d channels, want 1 (gray), 3 (RGB) or 4 (RGBA)", channels)
	}
	return decode(context.Background(), r, channels, func(int, int) error { return nil })
}

// decode decodes an image, whose size check accepts. A JPEG image is turned as its Exif data say.
func decode(ctx context.Context, r io.ReadSeeker, channels int, check func(h, w int) error) (pixels []uint8,
	h, w int, err error) {
	conf, _, err := image.DecodeConfig(r)
	if err != nil {
		return nil, 0, 0, err
	}
	if w, h = conf.Width, conf.Height; w <= 0 || h <= 0 || w > maxPixels/h {
		return nil, 0, 0, fmt.Errorf("image has %d×%d pixels, want at most %d", w, h, maxPixels)
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, 0, 0, err
	}
	turn, width, height := orientation(r), w, h // of the stored image
	if turn >= transposed {
		w, h = h, w
	}
	if err := check(h, w); err != nil {
		return nil, 0, 0, err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, 0, 0, err
	}
	img, _, err := image.Decode(r)
	if err != nil {
		return nil, 0, 0, err
	}
	b := img.Bounds()
	if b.Dx() != width || b.Dy() != height {
		return nil, 0, 0, fmt.Errorf("image has %d×%d pixels, and its header says %d×%d", b.Dx(), b.Dy(), width, height)
	}
	pixels = make([]uint8, 0, channels*h*w)
	for y := range h {
		if ctx.Err() != nil {
			return nil, 0, 0, context.Cause(ctx)
		}
		for x := range w {
			fromX, fromY := stored(turn, x, y, width, height)
			c := color.NRGBAModel.Convert(img.At(b.Min.X+fromX, b.Min.Y+fromY)).(color.NRGBA)
			if channels == 1 { // luma of ITU-R 601, rounded as Pillow does
				c.R = uint8((19595*uint32(c.R) + 38470*uint32(c.G) + 7471*uint32(c.B) + 1<<15) >> 16)
			}
			pixels = append(pixels, []uint8{c.R, c.G, c.B, c.A}[:channels]...)
		}
	}
	return pixels, h, w, nil
}
