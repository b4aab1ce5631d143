package soundcodec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// WAV decodes a WAV file of integers of 8, 16, 24 or 32 bits, or of floats of 32 or 64 bits.
func WAV(data []byte, grow func(samples int) error) (*Sound, error) {
	if len(data) < 12 {
		return nil, io.ErrUnexpectedEOF
	}
	if string(data[:4]) != "RIFF" || string(data[8:12]) != "WAVE" {
		return nil, errors.New("the file does not begin with RIFF and WAVE")
	}
	var format []byte
	for data = data[12:]; len(data) >= 8; {
		if err := grow(0); err != nil {
			return nil, err
		}
		name, size := string(data[:4]), int64(binary.LittleEndian.Uint32(data[4:]))
		data = data[8:]
		switch {
		case name == "data" && format == nil:
			return nil, errors.New("the format is missing before the samples")
		case name == "data": // a stream may state more bytes than it has
			return parseWAV(format, data[:min(size, int64(len(data)))], grow)
		case int64(len(data)) < size:
			return nil, fmt.Errorf("chunk %q has %d of %d bytes", name, len(data), size)
		case name == "fmt ":
			format = data[:size]
		}
		data = data[min(size+size%2, int64(len(data))):] // chunks begin at even offsets
	}
	return nil, errors.New("the chunk of samples is missing")
}

func parseWAV(format, data []byte, grow func(samples int) error) (*Sound, error) {
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
	if err := grow(n * channels); err != nil {
		return nil, err
	}
	for c := range s.Channels {
		samples := make([]float32, n)
		for i := range samples {
			if i&0xffff == 0 {
				if err := grow(0); err != nil {
					return nil, err
				}
			}
			samples[i] = sample(data[(i*channels+c)*width:])
		}
		s.Channels[c] = samples
	}
	return s, nil
}
