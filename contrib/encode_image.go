package contrib

import (
	"bytes"
	"fmt"
	"image"
	"image/png"

	"github.com/onward-ml/onward/tensor"
)

// EncodeImage returns a PNG file of pixels of shape [height, width, 3] in the order of the
// attribute color_space. The pixels are those of ONNX Runtime Extensions, the compressed bytes
// are not. The format jpg is not supported.
var _ = add(domainVision, "EncodeImage", "image:uint8", "file:uint8", func(n *node) (kernel, error) {
	bgr, err := bgrOrder(n)
	if err != nil {
		return nil, err
	}
	if format := n.text("format", ""); format != "png" {
		return nil, fmt.Errorf("attribute format is %q, want png", format)
	}
	return func(c *call) ([]tensor.Value, error) {
		in := c.tensor(0)
		if in.Rank() != 3 || in.Dim(2) != 3 || in.Len() == 0 {
			return nil, fmt.Errorf("the image has shape %v, want [height, width, 3]", in.Shape())
		}
		if err := c.Reserve(4 * int64(in.Len())); err != nil {
			return nil, err
		}
		img := image.NewNRGBA(image.Rect(0, 0, in.Dim(1), in.Dim(0)))
		for i, px := 0, in.Bytes(); 3*i < len(px); i++ {
			r, g, b := px[3*i], px[3*i+1], px[3*i+2]
			if bgr {
				r, b = b, r
			}
			copy(img.Pix[4*i:], []uint8{r, g, b, 255})
		}
		var out bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, img); err != nil {
			return nil, err
		}
		return values(list(out.Bytes()))
	}, nil
})
