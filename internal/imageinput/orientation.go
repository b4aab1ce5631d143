package imageinput

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
)

// Values of the tag Orientation: how a stored image becomes upright.
const (
	upright    = 1
	transposed = 5 // this one and those above exchange rows and columns
	last       = 8
)

// orientation returns the orientation that the Exif data of a JPEG file states, upright if it has
// none (CIPA DC-008, Exchangeable image file format for digital still cameras).
func orientation(r io.Reader) int {
	const (
		start, application1 = 0xffd8, 0xffe1
		firstMarker         = 0xffc0
		scan, end           = 0xffda, 0xffd9
	)
	b := bufio.NewReader(r)
	var head [4]byte
	if _, err := io.ReadFull(b, head[:2]); err != nil || binary.BigEndian.Uint16(head[:]) != start {
		return upright
	}
	for {
		if _, err := io.ReadFull(b, head[:]); err != nil {
			return upright
		}
		marker, size := binary.BigEndian.Uint16(head[:]), int(binary.BigEndian.Uint16(head[2:]))-2
		if marker < firstMarker || marker == scan || marker == end || size < 0 {
			return upright
		}
		if marker != application1 {
			if _, err := b.Discard(size); err != nil {
				return upright
			}
			continue
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(b, data); err != nil {
			return upright
		}
		if tiff, ok := bytes.CutPrefix(data, []byte("Exif\x00\x00")); ok {
			return tiffOrientation(tiff)
		}
	}
}

// tiffOrientation returns the orientation in the first directory of a TIFF header.
func tiffOrientation(data []byte) int {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case len(data) < 8:
		return upright
	case data[0] == 'M':
		order = binary.BigEndian
	}
	at := int64(order.Uint32(data[4:]))
	if at+2 > int64(len(data)) {
		return upright
	}
	const tag, short, entry = 0x0112, 3, 12
	n := order.Uint16(data[at:])
	for data = data[at+2:]; n > 0 && len(data) >= entry; n, data = n-1, data[entry:] {
		if order.Uint16(data) != tag {
			continue
		}
		if v := int(order.Uint16(data[8:])); order.Uint16(data[2:]) == short && v > upright && v <= last {
			return v
		}
		break
	}
	return upright
}

// stored returns the coordinates, in a stored image of w×h pixels, of a pixel of the upright image.
func stored(o, x, y, w, h int) (int, int) {
	if o >= transposed {
		x, y = y, x
	}
	switch o {
	case 2, 8:
		x = w - 1 - x
	case 3, 7:
		x, y = w-1-x, h-1-y
	case 4, 6:
		y = h - 1 - y
	}
	return x, y
}
