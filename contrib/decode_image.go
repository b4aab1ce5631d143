package contrib

import (
	"fmt"
	"strings"

	"github.com/onward-ml/onward/internal/imagecodec"
	_ "github.com/onward-ml/onward/internal/imagecodec/jpeg" // the formats of DecodeImage
	_ "github.com/onward-ml/onward/internal/imagecodec/png"
	"github.com/onward-ml/onward/tensor"
)

// DecodeImage returns the pixels of a PNG or JPEG file, of shape [height, width, 3], as the
// attribute color_space says: bgr or rgb. Transparency is dropped. JPEG files with reduced color
// resolution are decoded as libjpeg-turbo does: on Linux, ONNX Runtime Extensions links another
// library, whose pixels differ by 2 of 255 on average.
var _ = add(domainVision, "DecodeImage", "raw_input_image:uint8", "decoded_image:uint8",
	func(n *node) (kernel, error) {
		bgr, err := bgrOrder(n)
		if err != nil {
			return nil, err
		}
		return func(c *call) ([]tensor.Value, error) {
			in := c.tensor(0)
			if in.Rank() != 1 {
				return nil, fmt.Errorf("the image has rank %d, want the bytes of a file", in.Rank())
			}
			pixels, height, width, err := decodeImage(c, in.Bytes())
			if err != nil {
				return nil, err
			}
			if bgr {
				swapRedBlue(pixels)
			}
			return values(shaped(pixels, height, width, 3))
		}, nil
	})

// bgrOrder returns whether the attribute color_space is bgr, its default.
func bgrOrder(n *node) (bool, error) {
	space := n.text("color_space", "bgr")
	if n.err == nil && space != "bgr" && space != "rgb" && space != "" {
		return false, fmt.Errorf("attribute color_space is %q, want bgr or rgb", space)
	}
	return space != "rgb", n.err
}

func swapRedBlue(pixels []uint8) {
	for i := 0; i+2 < len(pixels); i += 3 {
		pixels[i], pixels[i+2] = pixels[i+2], pixels[i]
	}
}

// decodeImage returns the pixels of a file in red, green and blue.
func decodeImage(c *call, data []byte) (pixels []uint8, height, width int, err error) {
	if magic := string(data[:min(len(data), 4)]); magic != "\x89PNG" && !strings.HasPrefix(magic, "\xff\xd8") {
		return nil, 0, 0, fmt.Errorf("the image is neither a PNG nor a JPEG file")
	}
	if err := c.Reserve(8 * int64(len(data))); err != nil { // the most that reading a header allocates
		return nil, 0, 0, err
	}
	h, err := imagecodec.ReadHeader(data)
	if err != nil {
		return nil, 0, 0, err
	}
	size, err := product(1, h.Height, h.Width, 3)
	if err == nil {
		err = c.Reserve(h.Memory + int64(size))
	}
	if err != nil {
		return nil, 0, 0, fmt.Errorf("image of %d×%d pixels: %w", h.Width, h.Height, err)
	}
	pixels = make([]uint8, size)
	return pixels, h.Height, h.Width, h.Decode(pixels, c.ctx.Err)
}
