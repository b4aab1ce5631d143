// Package webp registers WebP with imagecodec. golang.org/x/image decodes its two
// bitstreams, lossy VP8 and lossless VP8L; the upsampling of chroma and the conversion
// of colours are those of libwebp, whose pixels x/image/webp does not give.
package webp

import (
	"bytes"
	"errors"
	"image"

	"golang.org/x/image/vp8"
	"golang.org/x/image/vp8l"

	"github.com/onward-ml/onward/internal/imagecodec"
)

func init() { imagecodec.RegisterFormat("RIFF????WEBP", readWebP) }

// readWebP reads the container: RIFF chunks, of which one holds the image, lossy as
// "VP8 " or lossless as "VP8L"
// (https://developers.google.com/speed/webp/docs/riff_container). The chunk with the
// transparency is skipped.
func readWebP(data []byte) (*imagecodec.Header, error) {
	for r := (&imagecodec.Reader{Data: data[12:]}); ; {
		name := string(r.Take(4))
		n := r.Uint(4)
		if r.Short || n > len(r.Data) {
			return nil, imagecodec.ErrTruncated
		}
		body := r.Take(n)
		if n%2 == 1 && len(r.Data) > 0 {
			r.Take(1)
		}
		switch name {
		case "VP8 ":
			return readLossy(body)
		case "VP8L":
			return readLossless(body)
		case "ANMF":
			return nil, errors.New("webp: animations are not supported")
		}
	}
}

// readLossy reads a key frame of VP8 (RFC 6386).
func readLossy(data []byte) (*imagecodec.Header, error) {
	open := func() (*vp8.Decoder, vp8.FrameHeader, error) {
		d := vp8.NewDecoder()
		d.Init(bytes.NewReader(data), len(data))
		f, err := d.DecodeFrameHeader()
		return d, f, err
	}
	_, f, err := open()
	if err != nil {
		return nil, err
	}
	if !f.KeyFrame || f.VersionNumber > 3 {
		return nil, errors.New("webp: VP8 frame is not a key frame of version 0 to 3")
	}
	if int64(f.FirstPartitionLen) > int64(len(data)-10) {
		return nil, imagecodec.ErrTruncated
	}
	// The estimate: Y, Cb and Cr planes in whole macroblocks, state per macroblock, and the data.
	blocks := int64(f.Width/16+1) * int64(f.Height/16+1)
	h := &imagecodec.Header{Width: f.Width, Height: f.Height,
		Memory: 400*blocks + 2*int64(f.Width) + int64(len(data)) + 1<<14}
	h.Pixels = func(dst []uint8, stop func() error) error {
		d, _, err := open()
		if err != nil {
			return err
		}
		img, err := d.DecodeFrame()
		if err != nil {
			return err
		}
		return writeYCbCr(dst, img, stop)
	}
	return h, nil
}

// readLossless reads an image of VP8L
// (https://developers.google.com/speed/webp/docs/webp_lossless_bitstream_specification).
func readLossless(data []byte) (*imagecodec.Header, error) {
	cfg, err := vp8l.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	// x/image keeps at most 2600 groups of five code trees with tables of 536 bytes, one
	// group for each 4×4 pixels at most. The nodes of a tree take under 256 bytes for each
	// byte of data. Pixels have 4 bytes; the image, a transformed one, a row of tiles and
	// the images that hold transforms come together.
	w, h := int64(cfg.Width), int64(cfg.Height)
	groups := min(2600, (w/4+1)*(h/4+1)+1)
	head := &imagecodec.Header{Width: cfg.Width, Height: cfg.Height,
		Memory: 16*(w+16)*(h+16) + 5*536*groups + 256*int64(len(data)) + 1<<16}
	head.Pixels = func(dst []uint8, stop func() error) error {
		img, err := vp8l.Decode(&imagecodec.StopReader{Reader: bytes.NewReader(data), Stop: stop})
		if err != nil {
			return err
		}
		m, ok := img.(*image.NRGBA)
		if !ok {
			return errors.New("webp: lossless image is not NRGBA")
		}
		imagecodec.RGB(dst, m.Pix, m.Stride, cfg.Width, cfg.Height)
		return nil
	}
	return head, nil
}

// writeYCbCr converts a frame to pixels. The chroma planes have half the resolution and
// are interpolated with weights 9, 3, 3 and 1, as libwebp does by default.
func writeYCbCr(dst []uint8, m *image.YCbCr, stop func() error) error {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	cw, ch := (w+1)/2, (h+1)/2
	row := func(p []uint8, y int) []uint8 {
		y = min(max(y, 0), ch-1)
		return p[y*m.CStride : y*m.CStride+cw]
	}
	u, v := make([]uint8, w), make([]uint8, w)
	for y := range h {
		if err := stop(); err != nil {
			return err
		}
		near, far := y/2, y/2-1+y%2*2 // the nearest chroma row, and the second nearest
		upsample(u, row(m.Cb, near), row(m.Cb, far))
		upsample(v, row(m.Cr, near), row(m.Cr, far))
		for x, l := range m.Y[y*m.YStride : y*m.YStride+w] {
			o := dst[3*(y*w+x):]
			o = o[:3]
			// BT.601 in studio range, in 14-bit fixed point.
			a, b, c := int(l)*19077>>8, int(u[x]), int(v[x])
			o[0] = imagecodec.Clamp((a + c*26149>>8 - 14234) >> 6)
			o[1] = imagecodec.Clamp((a - b*6419>>8 - c*13320>>8 + 8708) >> 6)
			o[2] = imagecodec.Clamp((a + b*33050>>8 - 17685) >> 6)
		}
	}
	return nil
}

// upsample writes a row of double width: each sample is 9/16 of the nearest one, 3/16 of
// the next ones along and across, 1/16 of the diagonal one, rounded in two steps.
func upsample(dst, near, far []uint8) {
	last := len(near) - 1
	for x := range dst {
		k := x / 2
		m := k - 1 + x%2*2 // the neighbour along the row
		if m < 0 || m > last {
			dst[x] = uint8((3*int(near[k]) + int(far[k]) + 2) >> 2)
			continue
		}
		a, b, c, e := int(near[k]), int(near[m]), int(far[k]), int(far[m])
		dst[x] = uint8(((a+b+c+e+8+2*(b+c))>>3 + a) >> 1)
	}
}
