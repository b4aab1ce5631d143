package picture

import (
	"image"
	"image/color"
	"image/png"
	"io"
)

func readPNG(data []byte) (*Header, error) {
	cfg, err := png.DecodeConfig(newReader(data))
	if err != nil {
		return nil, err
	}
	h := &Header{Width: cfg.Width, Height: cfg.Height, Memory: 20 * int64(cfg.Width) * int64(cfg.Height)}
	h.decode = func(dst []uint8, stop func() error) error {
		img, err := png.Decode(&stoppable{newReader(data), stop})
		if err != nil {
			return err
		}
		plain(dst, img)
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

// stoppable is a reader that fails once stop does.
type stoppable struct {
	io.Reader
	stop func() error
}

// Read implements io.Reader.
func (r *stoppable) Read(b []byte) (int, error) {
	if err := r.stop(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
