package move

import (
	"encoding/binary"
	"unsafe"
)

// CopyRows fills rows of the given width in bytes from src, where their stride is step bytes. If
// size is not 0, src has one element of that size for each row, which is repeated.
func CopyRows(dst, src []byte, width, step, size int) {
	if rows := len(dst) / width; size == 0 && width <= NarrowRow {
		_ = src[(rows-1)*step:][:width]
		narrowRows(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), rows, width, step, width)
		return
	}
	for at := 0; len(dst) > 0; at += step {
		row := dst[:width]
		dst = dst[width:]
		switch {
		case size == 0:
			copy(row, src[at:])
		case size <= 8 && width <= fewBytes:
			fillWords(row, elementWord(src[at:], size))
		default:
			RepeatElement(row, src[at:][:size])
		}
	}
}

// fillWords repeats a word, which consists of equal elements of which dst holds a whole number.
func fillWords(dst []byte, word uint64) {
	n := len(dst)
	if n < 8 {
		for i := range dst {
			dst[i] = byte(word >> (8 * i))
		}
		return
	}
	binary.LittleEndian.PutUint64(dst[n-8:], word)
	for len(dst) >= 32 {
		binary.LittleEndian.PutUint64(dst, word)
		binary.LittleEndian.PutUint64(dst[8:], word)
		binary.LittleEndian.PutUint64(dst[16:], word)
		binary.LittleEndian.PutUint64(dst[24:], word)
		dst = dst[32:]
	}
	for len(dst) > 8 {
		binary.LittleEndian.PutUint64(dst, word)
		dst = dst[8:]
	}
}

// fewBytes is the number of bytes from which copies of a part are faster than words.
const fewBytes = 256

// elementWord returns a word of copies of the first element of src, whose size divides 8.
func elementWord(src []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(src[0]) * 0x0101010101010101
	case 2:
		return uint64(binary.LittleEndian.Uint16(src)) * 0x0001000100010001
	case 4:
		return uint64(binary.LittleEndian.Uint32(src)) * 0x0000000100000001
	}
	return binary.LittleEndian.Uint64(src)
}

// RepeatElement fills dst with copies of one element.
func RepeatElement(dst, elem []byte) {
	if len(elem) > 8 {
		RepeatBytes(dst, copy(dst, elem))
		return
	}
	n := min(len(dst), fewBytes)
	fillWords(dst[:n], elementWord(elem, len(elem)))
	if n < len(dst) {
		RepeatBytes(dst, n)
	}
}

// RepeatBytes repeats the first n bytes of dst in all of it. Copies take vectors.
func RepeatBytes(dst []byte, n int) {
	most := max(1, 4096/max(n, 1)) * n // stays in the first-level cache
	for n < len(dst) {
		n += copy(dst[n:], dst[:min(n, most)])
	}
}
