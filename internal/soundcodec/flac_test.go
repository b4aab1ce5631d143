package soundcodec

import (
	"bytes"
	"crypto/md5"
	"math"
	"os"
	"testing"
)

// unlimited lets decoders allocate.
func unlimited(int) error { return nil }

// TestFLAC compares samples with the MD5 sums that the encoder wrote: of files with linear and
// fixed predictors, constants, plain samples, wasted bits, one channel and two.
func TestFLAC(t *testing.T) {
	for name, depth := range map[string]int{"stereo16": 16, "mono24": 24, "wasted8": 8, "mixed16": 16} {
		data, err := os.ReadFile("testdata/" + name + ".flac")
		if err != nil {
			t.Fatal(err)
		}
		s, err := FLAC(data, unlimited)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if sum := flacSum(s, depth); !bytes.Equal(sum, data[26:42]) || s.Rate != 16000 {
			t.Errorf("%s: rate %d, sum %x, want %x", name, s.Rate, sum, data[26:42])
		}
		frames := 4
		for last := false; !last; frames += 4 + int(data[frames+2])<<8 + int(data[frames+3]) {
			last = data[frames]&0x80 != 0
		}
		for i := frames; i < len(data); i += 13 {
			if _, err := FLAC(data[:i+5], unlimited); err == nil && i+5 < len(data) {
				t.Errorf("%s: the first %d bytes are read without error", name, i+5)
			}
			data[i] ^= 0x10
			if _, err := FLAC(data, unlimited); err == nil {
				t.Errorf("%s: byte %d is changed, and there is no error", name, i)
			}
			data[i] ^= 0x10
		}
	}
}

// flacSum returns the MD5 sum of samples as integers, interleaved and little-endian.
func flacSum(s *Sound, depth int) []byte {
	var raw []byte
	for i := range s.Channels[0] {
		for _, c := range s.Channels {
			v := int64(math.Round(float64(c[i]) * float64(int64(1)<<(depth-1))))
			for b := range depth / 8 {
				raw = append(raw, byte(v>>(8*b)))
			}
		}
	}
	sum := md5.Sum(raw)
	return sum[:]
}

func FuzzFLAC(f *testing.F) {
	for _, name := range []string{"stereo16", "wasted8", "mixed16"} {
		data, err := os.ReadFile("testdata/" + name + ".flac")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := FLAC(data, unlimited)
		if err != nil {
			return
		}
		for _, c := range s.Channels {
			if len(c) != len(s.Channels[0]) {
				t.Fatal("channels differ in length")
			}
		}
	})
}
