package soundcodec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// MP3 decodes layer III of MPEG-1 (ISO/IEC 11172-3), of MPEG-2 (ISO/IEC 13818-3), and of MPEG-2.5,
// which has rates of 8, 11.025 and 12 kHz. Bytes between frames are skipped. A frame whose data is
// damaged or missing is silent; checksums are not compared. Samples are limited to -1 and 1.
//
// Samples that the encoder added at both ends are removed if the file states their numbers, unless
// whole is true: then a first frame that only states them is decoded, too.
func MP3(data []byte, whole bool, grow func(samples int) error) (*Sound, error) {
	s := &mp3Stream{data: data, grow: grow}
	var frames []mp3Frame
	var info mp3Info
	for frame, ok := s.next(); ok; frame, ok = s.next() {
		if len(frames) == 0 && !info.found && !whole {
			if info = readMP3Info(s.format, frame.data); info.found {
				continue
			}
		}
		frames = append(frames, frame)
		if err := grow(s.format.samples() * s.format.channels()); err != nil {
			return nil, err
		}
	}
	switch {
	case s.err != nil:
		return nil, s.err
	case s.layer != 0:
		return nil, fmt.Errorf("the file is of layer %s, want layer III", [...]string{1: "I", 2: "II"}[s.layer])
	case !s.found:
		return nil, errors.New("the file has no frame of layer III that another frame or the end follows")
	}
	d := newMP3Decoder(s.format, len(frames))
	for _, frame := range frames {
		if err := grow(0); err != nil {
			return nil, err
		}
		d.frame(frame)
	}
	begin, end := info.sound(len(frames), s.format.samples())
	for c, x := range d.out {
		d.out[c] = x[begin:end]
	}
	return &Sound{Rate: s.format.rate, Channels: d.out}, nil
}

// mp3Header holds the fields of a frame's header.
type mp3Header struct {
	version   int // 0: MPEG-1, 1: MPEG-2, 2: MPEG-2.5
	layer     int
	crc       bool
	bitrate   int // in kbit/s, of layer III. 0: free format
	rate      int // in Hz
	padding   int // in bytes
	mono      bool
	ms        bool // stereo is of middle and side
	intensity bool // the upper part of stereo is of intensities
	row       int  // of the tables of bands
}

func (h *mp3Header) channels() int {
	if h.mono {
		return 1
	}
	return 2
}

// granules returns the number of granules in a frame.
func (h *mp3Header) granules() int {
	if h.version == 0 {
		return 2
	}
	return 1
}

// samples returns the number of samples in a frame.
func (h *mp3Header) samples() int { return 576 * h.granules() }

// sideSize returns the bytes of the side information.
func (h *mp3Header) sideSize() int {
	switch {
	case h.version == 0 && h.mono:
		return 17
	case h.version == 0:
		return 32
	case h.mono:
		return 9
	}
	return 17
}

// prefix returns the bytes before the main data.
func (h *mp3Header) prefix() int {
	if h.crc {
		return 6 + h.sideSize()
	}
	return 4 + h.sideSize()
}

// follows reports whether frames with the headers h and g can be of one stream.
func (h *mp3Header) follows(g *mp3Header) bool {
	return h.version == g.version && h.layer == g.layer && h.rate == g.rate && h.mono == g.mono &&
		(h.bitrate == 0) == (g.bitrate == 0)
}

var mp3Bitrates = [2][15]int{
	{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
	{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
}

// readMP3Header reads the header of a frame. ok is false if there is none.
func readMP3Header(b []byte) (h mp3Header, ok bool) {
	if len(b) < 4 || b[0] != 0xff || b[1]&0xe0 != 0xe0 {
		return h, false
	}
	version, layer, bitrate, rate := b[1]>>3&3, int(4-b[1]>>1&3), b[2]>>4, int(b[2]>>2&3)
	if version == 1 || layer == 4 || bitrate == 15 || rate == 3 {
		return h, false
	}
	h = mp3Header{version: []int{2, 0, 1, 0}[version], layer: layer}
	h.crc, h.padding = b[1]&1 == 0, int(b[2]>>1&1)
	h.bitrate = mp3Bitrates[min(h.version, 1)][bitrate]
	h.rate = []int{44100, 48000, 32000}[rate] >> h.version
	h.row = 3*h.version + rate
	mode := b[3] >> 6
	h.mono = mode == 3
	h.ms, h.intensity = mode == 1 && b[3]&0x20 != 0, mode == 1 && b[3]&0x10 != 0
	return h, true
}

// mp3Frame is a frame of layer III.
type mp3Frame struct {
	data []byte
	gap  bool // whether other bytes are before it
}

// mp3Stream finds frames.
type mp3Stream struct {
	data   []byte
	at     int
	found  bool
	format mp3Header // of the first frame
	free   int       // bytes of a frame of free format without padding
	layer  int       // 1 or 2, where the file begins with a frame of another layer
	grow   func(samples int) error
	err    error // of grow; next then returns no frame
}

// maxFreeMP3 is the most bytes of a frame of free format.
const maxFreeMP3 = 1 << 12

// next returns the next frame of layer III. ok is false at the end. The first frame is of any
// format, and the others are of the same. The first frame, and one after other bytes, is one only
// if another, a tag or the end follows.
func (s *mp3Stream) next() (f mp3Frame, ok bool) {
	for inOrder := true; s.at+4 <= len(s.data) && s.err == nil; {
		b := s.data[s.at:]
		if n := mp3Tag(b); inOrder && n > 0 {
			s.at += min(n, len(b))
			continue
		}
		h, ok := readMP3Header(b)
		switch {
		case ok && !s.found && h.layer != 3 && inOrder:
			s.layer = h.layer
			return f, false
		case ok && h.layer == 3 && (!s.found || h.follows(&s.format)):
			n := s.size(&h)
			if n < h.prefix() || n > len(b) || !(inOrder && s.found || s.another(s.at+n, &h)) {
				break
			}
			s.at += n
			if !s.found {
				s.found, s.format = true, h
			}
			return mp3Frame{b[:n], !inOrder}, true
		}
		inOrder = false
		skip := bytes.IndexByte(b[1:], 0xff)
		if skip < 0 {
			break
		}
		s.at += 1 + skip
	}
	s.at = len(s.data)
	return f, false
}

// another reports whether a frame that can follow h, a tag or the end is at an offset.
func (s *mp3Stream) another(at int, h *mp3Header) bool {
	if at >= len(s.data) {
		return at == len(s.data)
	}
	g, ok := readMP3Header(s.data[at:])
	return ok && g.follows(h) || mp3Tag(s.data[at:]) > 0
}

// size returns the bytes of the frame at s.at, or 0.
func (s *mp3Stream) size(h *mp3Header) int {
	if h.bitrate > 0 {
		return 72*h.granules()*h.bitrate*1000/h.rate + h.padding
	}
	if s.free == 0 && s.at < 1<<20 {
		if s.err = s.grow(0); s.err != nil {
			return 0
		}
		s.free = s.freeSize(h)
	}
	if s.free == 0 {
		return 0
	}
	return s.free + h.padding
}

// freeSize returns the bytes of frames of free format, without padding, by the distance of the
// first from the second. A third frame or the end must follow.
func (s *mp3Stream) freeSize(h *mp3Header) int {
	b := s.data[s.at:min(len(s.data), s.at+maxFreeMP3)]
	for n := h.prefix(); n < len(b); n++ {
		next := bytes.Index(b[n:], b[:2])
		if next < 0 {
			break
		}
		n += next
		size := n - h.padding
		if g, ok := readMP3Header(b[n:]); ok && g.follows(h) && s.another(s.at+n+size+g.padding, h) {
			return size
		}
	}
	return 0
}

// mp3Tag returns the bytes of a tag that b begins with, or 0: ID3v2, ID3v1 or APE.
func mp3Tag(b []byte) int {
	switch {
	case len(b) >= 10 && string(b[:3]) == "ID3" && (b[6]|b[7]|b[8]|b[9])&0x80 == 0:
		n := 10 + int(b[6])<<21 + int(b[7])<<14 + int(b[8])<<7 + int(b[9])
		if b[5]&0x10 != 0 {
			n += 10 // a copy of the header
		}
		return n
	case len(b) >= 128 && string(b[:3]) == "TAG":
		return 128
	case len(b) >= 32 && string(b[:8]) == "APETAGEX":
		return 32 + int(binary.LittleEndian.Uint32(b[12:]))
	}
	return 0
}

// mp3Info holds what a first frame without sound states.
type mp3Info struct {
	found          bool
	frames         int // 0: unknown
	delay, padding int // samples that the encoder added at both ends
}

// readMP3Info reads a first frame with the tag of Xing, which LAME extended, or of Fraunhofer's
// encoder (VBRI). It has no sound.
func readMP3Info(h mp3Header, frame []byte) (info mp3Info) {
	if len(frame) >= 40 && string(frame[36:40]) == "VBRI" {
		info.found = true
		return info
	}
	b := frame[4+h.sideSize():] // encoders leave no place for a checksum
	if len(b) < 8 || string(b[:4]) != "Xing" && string(b[:4]) != "Info" {
		return info
	}
	info.found = true
	flags := b[7]
	b = b[8:]
	for bit, size := range []int{4, 4, 100, 4} {
		if flags>>bit&1 == 0 {
			continue
		}
		if len(b) < size {
			return info
		}
		if bit == 0 {
			info.frames = int(min(binary.BigEndian.Uint32(b), 1<<20)) // more than a file can have
		}
		b = b[size:]
	}
	if len(b) >= 24 && b[0] != 0 {
		info.delay, info.padding = int(b[21])<<4|int(b[22])>>4, int(b[22]&15)<<8|int(b[23])
	}
	return info
}

// sound returns the samples of frames that the encoder did not add. As mpg123 does, it removes the
// delay of a decoder if the number of frames is stated.
func (i *mp3Info) sound(frames, samples int) (begin, end int) {
	const delay = 529
	if i.frames == 0 {
		return 0, frames * samples
	}
	frames = min(frames, i.frames)
	begin = min(i.delay+delay, frames*samples)
	return begin, max(begin, min(frames*samples, i.frames*samples-i.padding+delay))
}
