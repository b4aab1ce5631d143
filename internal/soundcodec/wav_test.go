package soundcodec

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
)

// wav returns a WAV file.
func wav(kind, channels, bits int, data []byte, extra ...byte) []byte {
	le := binary.LittleEndian
	b := append([]byte("RIFF\x00\x00\x00\x00WAVE"), extra...)
	b = append(b, "fmt \x10\x00\x00\x00"...)
	b = le.AppendUint16(b, uint16(kind))
	b = le.AppendUint16(b, uint16(channels))
	b = le.AppendUint32(b, 16000)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, uint16(bits))
	b = append(b, "data"...)
	return append(le.AppendUint32(b, uint32(len(data))), data...)
}

func TestWAV(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		b    []byte
		want [][]float32
	}{
		{wav(1, 1, 8, []byte{0, 128, 192}), [][]float32{{-1, 0, 0.5}}},
		{wav(1, 2, 16, []byte{0, 0x40, 0, 0x80, 0, 0, 0, 0x20}), [][]float32{{0.5, 0}, {-1, 0.25}}},
		{wav(1, 1, 24, []byte{0, 0, 0x40, 0, 0, 0x80}), [][]float32{{0.5, -1}}},
		{wav(1, 1, 32, []byte{0, 0, 0, 0x40, 1}), [][]float32{{0.5}}},
		{wav(3, 1, 32, le.AppendUint32(nil, math.Float32bits(0.125))), [][]float32{{0.125}}},
		{wav(3, 1, 64, le.AppendUint64(nil, math.Float64bits(-0.5)), []byte("LIST\x03\x00\x00\x00abc\x00")...), [][]float32{{-0.5}}},
	} {
		s, err := WAV(c.b, unlimited)
		if err != nil || s.Rate != 16000 || len(s.Channels) != len(c.want) {
			t.Errorf("got %v, %v", s, err)
			continue
		}
		for i := range c.want {
			if !slices.Equal(s.Channels[i], c.want[i]) {
				t.Errorf("channel %d is %v, want %v", i, s.Channels[i], c.want[i])
			}
		}
	}
	good := wav(1, 1, 16, []byte{1, 2})
	fast := slices.Clone(good)
	binary.LittleEndian.PutUint32(fast[24:], math.MaxUint32)
	for want, b := range map[string][]byte{"RIFF": []byte("RIFXaaaaWAVE"), "EOF": []byte("RI"),
		"samples is missing": good[:36], "not supported": wav(2, 1, 16, nil), "0 channels": wav(1, 0, 16, nil), "a rate of 4294967295": fast,
		"format is missing": append([]byte("RIFF\x00\x00\x00\x00WAVE"), "data\x00\x00\x00\x00"...), "want at least 16": append([]byte("RIFF\x00\x00\x00\x00WAVE"), "fmt \x00\x00\x00\x00data\x00\x00\x00\x00"...),
		`chunk "LIST"`: append([]byte("RIFF\x00\x00\x00\x00WAVE"), "LIST\xff\xff\xff\xff"...)} {
		if _, err := WAV(b, unlimited); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func FuzzWAV(f *testing.F) {
	f.Add(wav(1, 2, 16, []byte{0, 0x40, 0, 0x80, 0, 0, 0, 0x20}))
	f.Add(wav(0xfffe, 1, 24, []byte{1, 2, 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := WAV(b, unlimited); err == nil && len(s.Channels) == 0 {
			t.Error("no channels and no error")
		}
	})
}
