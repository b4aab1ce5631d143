package picture

import "errors"

// readWebP reads the container of a WebP file: RIFF chunks, of which one holds
// the picture, lossy as "VP8 " or lossless as "VP8L"
// (https://developers.google.com/speed/webp/docs/riff_container). Transparency
// is not needed; of an animation the first frame is no picture on its own.
func readWebP(data []byte) (*Header, error) {
	for r := (&reader{data: data[12:]}); ; {
		name := string(r.take(4))
		n := r.uint(4)
		if r.short || n > len(r.data) {
			return nil, errShort
		}
		body := r.take(n)
		if n%2 == 1 && len(r.data) > 0 {
			r.take(1)
		}
		switch name {
		case "VP8 ":
			return readVP8(body)
		case "VP8L":
			return readVP8L(body)
		case "ANMF":
			return nil, errors.New("picture: animated WebP is not supported")
		}
	}
}
