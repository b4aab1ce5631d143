package soundcodec

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
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

// constantFLAC returns a file of frames of 65,536 samples, each in 13 bytes. Its header states the
// number of samples.
func constantFLAC(frames int, stated uint64) []byte {
	b := append([]byte("fLaC\x80\x00\x00\x22"), make([]byte, 10)...)
	b = binary.BigEndian.AppendUint64(b, 16000<<44|15<<36|stated) // one channel of 16 bits
	b = append(b, make([]byte, 16)...)
	for range frames {
		at := len(b)
		b = append(b, 0xff, 0xf8, 0x70, 8, 0, 0xff, 0xff, 0, 0, 0x12, 0x34)
		b = binary.BigEndian.AppendUint16(b, crc16(b[at:]))
	}
	return b
}

// TestFLACMemory checks that no more is allocated than grow is asked for, whatever number of
// samples the file states.
func TestFLACMemory(t *testing.T) {
	const frames = 100
	for _, stated := range []uint64{0, 1, frames << 16, frames << 15, 1<<36 - 1} {
		granted := 0
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := FLAC(constantFLAC(frames, stated), func(samples int) error {
			if granted += samples; granted > 4*frames<<16 {
				return errors.New("over the limit")
			}
			return nil
		})
		runtime.ReadMemStats(&after)
		allocated := int(after.TotalAlloc - before.TotalAlloc)
		if limit := 4*granted + 2<<20; stated <= frames<<16 && allocated > limit {
			t.Errorf("%d samples are stated: %d bytes are allocated, want at most %d", stated, allocated, limit)
		}
		switch {
		case stated > frames<<16:
			if err == nil || allocated > 2<<20 {
				t.Errorf("%d samples are stated: %v and %d bytes, want an error before the samples are allocated",
					stated, err, allocated)
			}
		case err != nil:
			t.Errorf("%d samples are stated: %v", stated, err)
		case len(s.Channels[0]) != frames<<16 || s.Channels[0][frames<<16-1] != 0x1234/32768.0:
			t.Errorf("%d samples are stated: got %d", stated, len(s.Channels[0]))
		}
	}
}

// TestFLACCutAtAFrame has no frame that is incomplete.
func TestFLACCutAtAFrame(t *testing.T) {
	data := constantFLAC(3, 3<<16)
	for cut := range 3 {
		_, err := FLAC(data[:len(data)-13*(cut+1)], unlimited)
		if want := fmt.Sprintf("ends after %d of 196608 samples", (2-cut)<<16); !errors.Is(err, io.ErrUnexpectedEOF) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%d frames are missing: got %v, want %q", cut+1, err, want)
		}
	}
}

// TestDecodersAsk checks that decoders ask whether to go on while they skip what is no sample, and
// within long files.
func TestDecodersAsk(t *testing.T) {
	// Headers of free format, and no frame.
	free := bytes.Repeat(append([]byte{0xff, 0xfb, 0, 0}, make([]byte, 12)...), 1000)
	for name, decode := range map[string]func(grow func(int) error) (*Sound, error){
		"WAV of empty chunks": func(grow func(int) error) (*Sound, error) {
			return WAV(wav(1, 1, 8, nil, bytes.Repeat([]byte("LIST\x00\x00\x00\x00"), 100)...), grow)
		},
		"WAV of 1024 channels": func(grow func(int) error) (*Sound, error) {
			return WAV(wav(1, 1024, 8, make([]byte, 1<<16)), grow)
		},
		"WAV of 2²⁰ samples": func(grow func(int) error) (*Sound, error) {
			return WAV(wav(1, 1, 8, make([]byte, 1<<20)), grow)
		},
		"FLAC":           func(grow func(int) error) (*Sound, error) { return FLAC(constantFLAC(20, 20<<16), grow) },
		"MP3 of headers": func(grow func(int) error) (*Sound, error) { return MP3(free, true, grow) },
	} {
		calls, end := 0, errors.New("the end")
		_, err := decode(func(int) error {
			if calls++; calls == 10 {
				return end
			}
			return nil
		})
		if err != end {
			t.Errorf("%s: %v after %d calls, want the error of the tenth", name, err, calls)
		}
	}
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
