package soundcodec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// WAV reads a WAV file of integers of 8, 16, 24 or 32 bits, or of floats of 32 or 64 bits. It reads
// at most MaxBytes.
func WAV(r io.Reader) (*Sound, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return nil, errors.New("the file does not begin with RIFF and WAVE")
	}
	var format []byte
	for {
		var chunk [8]byte
		if _, err := io.ReadFull(r, chunk[:]); err != nil {
			return nil, fmt.Errorf("the chunk of samples is missing: %w", err)
		}
		size := int64(binary.LittleEndian.Uint32(chunk[4:]))
		name := string(chunk[:4])
		if size > MaxBytes && name != "data" {
			return nil, fmt.Errorf("chunk %q has %d bytes, want at most %d", name, size, MaxBytes)
		}
		data, err := io.ReadAll(io.LimitReader(r, min(size, MaxBytes+1)))
		switch {
		case err != nil:
			return nil, err
		case len(data) > MaxBytes:
			return nil, fmt.Errorf("the samples have more than %d bytes", MaxBytes)
		case name == "data" && format == nil:
			return nil, errors.New("the format is missing before the samples")
		case name == "data": // a stream may state more bytes than it has
			return parseWAV(format, data)
		case int64(len(data)) < size:
			return nil, fmt.Errorf("chunk %q: %w", name, io.ErrUnexpectedEOF)
		case name == "fmt ":
			format = data
		}
		if size%2 == 1 { // chunks begin at even offsets
			if _, err := io.ReadFull(r, chunk[:1]); err != nil {
				return nil, err
			}
		}
	}
}

func parseWAV(format, data []byte) (*Sound, error) {
	if len(format) < 16 {
		return nil, fmt.Errorf("the format has %d bytes, want at least 16", len(format))
	}
	le := binary.LittleEndian
	kind, channels, rate, bits := le.Uint16(format), int(le.Uint16(format[2:])), le.Uint32(format[4:]),
		int(le.Uint16(format[14:]))
	if kind == 0xfffe && len(format) >= 26 { // WAVE_FORMAT_EXTENSIBLE
		kind = le.Uint16(format[24:])
	}
	var sample func(b []byte) float32
	switch {
	case kind == 1 && bits == 8:
		sample = func(b []byte) float32 { return float32(int(b[0])-128) / (1 << 7) }
	case kind == 1 && bits == 16:
		sample = func(b []byte) float32 { return float32(int16(le.Uint16(b))) / (1 << 15) }
	case kind == 1 && bits == 24:
		sample = func(b []byte) float32 { return float32(int32(b[0])<<8|int32(b[1])<<16|int32(b[2])<<24) / (1 << 31) }
	case kind == 1 && bits == 32:
		sample = func(b []byte) float32 { return float32(int32(le.Uint32(b))) / (1 << 31) }
	case kind == 3 && bits == 32:
		sample = func(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) }
	case kind == 3 && bits == 64:
		sample = func(b []byte) float32 { return float32(math.Float64frombits(le.Uint64(b))) }
	default:
		return nil, fmt.Errorf("format %d with %d bits is not supported: want PCM (1) or float (3)", kind, bits)
	}
	if channels == 0 || channels > 1024 || rate == 0 || rate > math.MaxInt32 {
		return nil, fmt.Errorf(
			"the file has %d channels and a rate of %d, want 1 to 1024 channels and a rate of 1 to %d", channels,
			rate, math.MaxInt32)
	}
	width := bits / 8
	n := len(data) / (width * channels)
	s := &Sound{Rate: int(rate), Channels: make([][]float32, channels)}
	for c := range s.Channels {
		s.Channels[c] = make([]float32, n)
		for i := range n {
			s.Channels[c][i] = sample(data[(i*channels+c)*width:])
		}
	}
	return s, nil
}
