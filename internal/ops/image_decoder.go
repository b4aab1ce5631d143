package ops

import (
	"errors"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/imagecodec"
	_ "github.com/onward-ml/onward/internal/imagecodec/bmp" // formats that every program decodes
	_ "github.com/onward-ml/onward/internal/imagecodec/jpeg"
	_ "github.com/onward-ml/onward/internal/imagecodec/png"
	_ "github.com/onward-ml/onward/internal/imagecodec/pnm"
	_ "github.com/onward-ml/onward/internal/imagecodec/tiff"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ImageDecoder decodes an image file into pixels [height, width, channels] of type
// uint8: red, green and blue, the same in reverse, or gray. Data that cannot be
// decoded gives an empty tensor; a format whose codec is not linked gives an error
// (https://onnx.ai/onnx/operators/onnx__ImageDecoder.html).
type ImageDecoder struct {
	PixelFormat string // RGB, BGR or Grayscale
}

var _ = kit.Register(&kit.Def{Name: "ImageDecoder", Since: kit.Versions{20},
	Class: kit.ClassOther,
	In:    "encoded_stream:uint8", Out: "image:uint8",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ImageDecoder{PixelFormat: a.Enum("pixel_format", "RGB", "RGB", "BGR", "Grayscale")}
	}})

func (op *ImageDecoder) channels() int {
	if op.PixelFormat == "Grayscale" {
		return 1
	}
	return 3
}

// Infer implements ir.Operator.
func (op *ImageDecoder) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 1, "encoded_stream"); err != nil {
		return err
	}
	kit.SetShape(c, 0, tensor.TypeUint8, []ir.Dim{ir.Unknown, ir.Unknown, ir.Known(op.channels())})
	return nil
}

// Run implements ir.Operator.
func (op *ImageDecoder) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 1 {
		return fail.Errorf("encoded_stream has rank %d, want 1", x.Rank())
	}
	empty := func() error {
		_, err := c.Output(0, tensor.TypeUint8, 0, 0, op.channels())
		return err
	}
	if err := c.Reserve(8 * int64(x.Len())); err != nil { // the most that reading a header allocates
		return err
	}
	h, err := imagecodec.ReadHeader(x.Bytes())
	var missing *imagecodec.NotLinkedError
	if errors.As(err, &missing) {
		return missing
	}
	if err != nil {
		return empty()
	}
	size := h.Width * h.Height * 3
	if err := c.Reserve(h.Memory + int64(size)); err != nil {
		return fail.Errorf("image of %d×%d pixels: %w", h.Width, h.Height, err)
	}
	rgb := make([]uint8, size)
	if err := h.Decode(rgb, c.Err); err != nil {
		if c.Err() != nil {
			return err
		}
		return empty()
	}
	t, err := c.Output(0, tensor.TypeUint8, h.Height, h.Width, op.channels())
	if err != nil {
		return err
	}
	out := tensor.MustData[uint8](t)
	switch op.PixelFormat {
	case "RGB":
		copy(out, rgb)
	case "BGR":
		for i := 0; i < size; i += 3 {
			out[i], out[i+1], out[i+2] = rgb[i+2], rgb[i+1], rgb[i]
		}
	default:
		// The weights of ITU-R BT.601 in 16-bit fixed point.
		for i := range out {
			p := rgb[3*i : 3*i+3]
			out[i] = uint8((19595*int(p[0]) + 38470*int(p[1]) + 7471*int(p[2]) + 1<<15) >> 16)
		}
	}
	return nil
}
