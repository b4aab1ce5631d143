package contrib

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"

	"github.com/onward-ml/onward/tensor"
)

// EncodeImage returns a PNG or JPEG file of pixels of shape [height, width, 3] in the order of the
// attribute color_space. Compressed bytes are not those of ONNX Runtime Extensions. The pixels of a
// PNG file are, and those of a JPEG file, whose quality is 95, are close to them.
var _ = add(domainVision, "EncodeImage", "image:uint8", "file:uint8", func(n *node) (kernel, error) {
	bgr, err := bgrOrder(n)
	if err != nil {
		return nil, err
	}
	format := n.text("format", "")
	if format != "png" && format != "jpg" {
		return nil, fmt.Errorf("attribute format is %q, want png or jpg", format)
	}
	return func(c *call) ([]tensor.Value, error) {
		in := c.tensor(0)
		if in.Rank() != 3 || in.Dim(2) != 3 || in.Len() == 0 {
			return nil, fmt.Errorf("the image has shape %v, want [height, width, 3]", in.Shape())
		}
		if err := c.Reserve(4 * (int64(in.Len()) + 1<<10)); err != nil {
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
		if format == "jpg" {
			if err := c.Reserve(2 * (int64(in.Len()) + 1<<10)); err != nil {
				return nil, err
			}
			reduced, err := reduceColors(c, img)
			if err == nil {
				err = jpeg.Encode(&out, reduced, &jpeg.Options{Quality: 95})
			}
			if err != nil {
				return nil, err
			}
		} else if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, img); err != nil {
			return nil, err
		}
		return values(list(out.Bytes()))
	}, nil
})

// halve maps 16 samples to 8: the inverse of the cosine transform of 8 of the first 8 coefficients
// of that of 16. libjpeg 9 reduces colors so.
var halve = func() (f [8][16]float32) {
	for k := range f {
		for n := range f[k] {
			sum := 0.5
			for u := 1.0; u < 8; u++ {
				sum += math.Cos(float64(2*n+1)*u*math.Pi/32) * math.Cos(float64(2*k+1)*u*math.Pi/16)
			}
			f[k][n] = float32(sum / 8)
		}
	}
	return f
}()

// reduceColors returns an image with half of the color resolution in both directions.
func reduceColors(c *call, img *image.NRGBA) (*image.YCbCr, error) {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	const block = 16
	whole := image.Rect(0, 0, (w+block-1)/block*block, (h+block-1)/block*block)
	out := image.NewYCbCr(whole, image.YCbCrSubsampleRatio420)
	for top := 0; top < h; top += block {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		for left := 0; left < w; left += block {
			var colors [2][block][block]float32
			for y := range block {
				for x := range block {
					px := img.Pix[img.PixOffset(min(left+x, w-1), min(top+y, h-1)):]
					luma, cb, cr := color.RGBToYCbCr(px[0], px[1], px[2])
					out.Y[out.YOffset(left+x, top+y)] = luma
					colors[0][y][x], colors[1][y][x] = float32(cb), float32(cr)
				}
			}
			at := out.COffset(left, top)
			for i, plane := range [][]uint8{out.Cb, out.Cr} {
				var rows [block][block / 2]float32
				for y := range rows {
					for k := range rows[y] {
						for n, v := range colors[i][y] {
							rows[y][k] += halve[k][n] * v
						}
					}
				}
				for j := range block / 2 {
					for k := range block / 2 {
						sum := float32(0.5)
						for n := range rows {
							sum += halve[j][n] * rows[n][k]
						}
						plane[at+j*out.CStride+k] = uint8(min(max(sum, 0), 255))
					}
				}
			}
		}
	}
	out.Rect = img.Rect
	return out, nil
}
