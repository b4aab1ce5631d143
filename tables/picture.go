package tables

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // picture formats
	_ "image/jpeg"
	_ "image/png"
	"io"
	"runtime"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

const maxPixels = 1 << 28 // of a picture

// A PictureLayout describes the pictures that an input [N,C,H,W], [N,H,W,C], or either
// without N takes.
type PictureLayout struct {
	Channels      int // 1 (gray), 3 (RGB) or 4 (RGBA)
	ChannelsFirst bool
	Height, Width onward.Dim
	Scale         float32 // of values from 0 to 255
}

// PicturesFor returns the layout of the pictures for an input. Values are 0 to 1 for
// floating-point inputs and 0 to 255 for integer inputs.
func PicturesFor(arg onward.NodeArg) (PictureLayout, error) {
	t := arg.ElementType()
	if t.Kind != tensor.KindTensor || len(arg.Shape) < 3 || len(arg.Shape) > 4 {
		return PictureLayout{}, fmt.Errorf("input is %s, want an image tensor [N,C,H,W] or [N,H,W,C]", arg)
	}
	dims := arg.Shape[len(arg.Shape)-3:]
	channelsOf := func(d onward.Dim) bool { return d.Value == 1 || d.Value == 3 || d.Value == 4 }
	l := PictureLayout{ChannelsFirst: channelsOf(dims[0]) || !channelsOf(dims[2]), Channels: 3, Scale: 1}
	channels := dims[2]
	l.Height, l.Width = dims[0], dims[1]
	if l.ChannelsFirst {
		channels, l.Height, l.Width = dims[0], dims[1], dims[2]
	}
	if channels.Value > 0 {
		l.Channels = int(channels.Value)
	}
	if l.Channels != 1 && l.Channels != 3 && l.Channels != 4 {
		return PictureLayout{}, fmt.Errorf("input has %d channels, want 1 (gray), 3 (RGB) or 4 (RGBA)", l.Channels)
	}
	if t.Elem.IsFloat() {
		l.Scale = 1.0 / 255
	}
	return l, nil
}

// Decode decodes a picture into values in the order of the layout, and returns its shape.
// The size in the header is checked before pixels are decoded.
func (l PictureLayout) Decode(r io.ReadSeeker) (data []float32, shape []int, err error) {
	conf, _, err := image.DecodeConfig(r)
	if err != nil {
		return nil, nil, err
	}
	w, h := conf.Width, conf.Height
	if w <= 0 || h <= 0 || w > maxPixels/h {
		return nil, nil, fmt.Errorf("picture has %d×%d pixels, want at most %d", w, h, maxPixels)
	}
	if l.Height.Value >= 0 && int(l.Height.Value) != h || l.Width.Value >= 0 && int(l.Width.Value) != w {
		return nil, nil, fmt.Errorf("picture has %d×%d pixels, want %s×%s", w, h, l.Width, l.Height)
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, nil, err
	}
	img, _, err := image.Decode(r)
	if err != nil {
		return nil, nil, err
	}
	b := img.Bounds()
	if b.Dx() != w || b.Dy() != h {
		return nil, nil, fmt.Errorf("picture has %d×%d pixels, and its header says %d×%d", b.Dx(), b.Dy(), w, h)
	}
	data = make([]float32, l.Channels*h*w)
	for y := range h {
		for x := range w {
			var px [4]uint8
			if l.Channels == 1 {
				px[0] = color.GrayModel.Convert(img.At(b.Min.X+x, b.Min.Y+y)).(color.Gray).Y
			} else {
				c := color.NRGBAModel.Convert(img.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA)
				px = [4]uint8{c.R, c.G, c.B, c.A}
			}
			for k := range l.Channels {
				i := (y*w+x)*l.Channels + k
				if l.ChannelsFirst {
					i = (k*h+y)*w + x
				}
				data[i] = float32(px[k]) * l.Scale
			}
		}
	}
	if l.ChannelsFirst {
		return data, []int{l.Channels, h, w}, nil
	}
	return data, []int{h, w, l.Channels}, nil
}

// readPictures decodes the pictures of a column, on all cores.
func (s *Scorer) readPictures(v *values, a arrow.Array, name string, bad reject) {
	n := a.Len()
	decoded, reasons := make([][]float32, n), make([]error, n)
	v.shapes, v.starts = make([][]int, n), make([]int, n)
	var wg sync.WaitGroup
	workers := min(n, runtime.GOMAXPROCS(0))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				decoded[i], v.shapes[i], reasons[i] = s.decode(v.in.layout, a, i)
			}
		})
	}
	wg.Wait()
	total := 0
	for i := range n {
		v.starts[i] = total
		total += len(decoded[i])
		if reasons[i] != nil {
			bad(i, "column "+name+": "+reasons[i].Error())
		}
	}
	data := make([]float32, 0, total)
	for _, d := range decoded {
		data = append(data, d...)
	}
	v.data = data
}

// decode decodes the picture of a row: its bytes, or the file that it names.
func (s *Scorer) decode(l PictureLayout, a arrow.Array, i int) (data []float32, shape []int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("picture cannot be decoded: %v", p)
		}
	}()
	if a.IsNull(i) {
		return nil, nil, errors.New("picture is null")
	}
	switch t := a.(type) {
	case interface{ Value(int) []byte }:
		return l.Decode(bytes.NewReader(t.Value(i)))
	case interface{ Value(int) string }:
		f, err := s.folder.Open(t.Value(i))
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		return l.Decode(f)
	}
	return nil, nil, fmt.Errorf("column has type %s, want bytes or the name of a file", a.DataType())
}
