// Package png registers PNG with imagecodec. The standard library decodes it.
package png

import (
	"bytes"
	"image"
	"image/color"
	"image/png"

	"github.com/onward-ml/onward/internal/imagecodec"
)

func init() { imagecodec.RegisterFormat("\x89PNG\r\n\x1a\n", readPNG) }

func readPNG(data []byte) (*imagecodec.Header, error) {
	cfg, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	h := &imagecodec.Header{Width: cfg.Width, Height: cfg.Height, Memory: 20 * int64(cfg.Width) * int64(cfg.Height)}
	h.Pixels = func(dst []uint8, stop func() error) error {
		img, err := png.Decode(&imagecodec.StopReader{Reader: bytes.NewReader(data), Stop: stop})
		if err != nil {
			return err
		}
		return opaque(dst, img, stop)
	}
	return h, nil
}

// opaque writes the colours of an image without its transparency.
func opaque(dst []uint8, img image.Image, stop func() error) error {
	b := img.Bounds()
	w := b.Dx()
	switch m := img.(type) {
	case *image.Gray:
		for y := range b.Dy() {
			imagecodec.Gray(dst[3*w*y:], m.Pix[y*m.Stride:y*m.Stride+w])
		}
		return nil
	case *image.NRGBA:
		imagecodec.RGB(dst, m.Pix, m.Stride, w, b.Dy())
		return nil
	case *image.RGBA:
		if m.Opaque() {
			imagecodec.RGB(dst, m.Pix, m.Stride, w, b.Dy())
			return nil
		}
	}
	i := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		if err := stop(); err != nil {
			return err
		}
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			dst[i], dst[i+1], dst[i+2] = c.R, c.G, c.B
			i += 3
		}
	}
	return nil
}
