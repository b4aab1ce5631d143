package soundcodec

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/tensor"
)

// mp3Files returns files of testdata by name without extension.
func mp3Files(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/*.mp3")
	if err != nil || len(names) != 7 {
		t.Fatalf("%d files, want 7 (%v)", len(names), err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(name), ".mp3")] = data
	}
	return files
}

// TestMP3 compares samples with those of libsndfile: of MPEG-1, MPEG-2 and MPEG-2.5, of joint
// stereo with middle and side and with intensities, of all types of blocks, of free format, and of
// constant and variable rates.
func TestMP3(t *testing.T) {
	z, err := tensor.ReadNPZFile("testdata/mp3.npz", 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range mp3Files(t) {
		s, err := MP3(data, false, unlimited)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, n := z.Arrays[name], tensor.MustData[int64](z.Arrays[name+"_n"])
		if s.Rate != int(n[1]) || len(s.Channels) != want.Dim(1) || len(s.Channels[0]) != int(n[0]) {
			t.Errorf("%s: %d Hz, %d channels of %d, want %v, %v", name, s.Rate, len(s.Channels), len(s.Channels[0]), n,
				want.Shape())
			continue
		}
		worst := 0.0
		for i, v := range tensor.MustData[float32](want) {
			channels := len(s.Channels)
			worst = max(worst, math.Abs(float64(s.Channels[i%channels][7*(i/channels)]-v)))
		}
		if worst > 3e-6 {
			t.Errorf("%s: differs by %g", name, worst)
		}
	}
}

// TestMP3Skipped reads the same samples if tags and other bytes are around the frames.
func TestMP3Skipped(t *testing.T) {
	files := mp3Files(t)
	noise := bytes.Repeat([]byte{0xff, 0xfb, 0x90, 0x40, 0x00, 0x12, 0xff}, 60)
	id3 := append([]byte("ID3\x04\x00\x10\x00\x00\x02\x02"), bytes.Repeat([]byte{0xff}, 258+10)...)
	ape := append([]byte("APETAGEX\xd0\x07\x00\x00\x40\x00\x00\x00"), make([]byte, 16+64)...)
	id3v1 := append([]byte("TAG"), make([]byte, 125)...)
	for _, name := range []string{"encoded-joint", "encoded-mono", "encoded-free", "drawn-24"} {
		data := files[name]
		want, err := MP3(data, false, unlimited)
		if err != nil {
			t.Fatal(err)
		}
		for kind, b := range map[string][]byte{
			"ID3v2": slices.Concat(id3, data),
			"tags":  slices.Concat(id3, id3, data, ape, id3v1),
			"noise": slices.Concat(make([]byte, 500), data, noise),
			"tag":   slices.Concat(data, id3v1, noise),
		} {
			got, err := MP3(b, false, unlimited)
			if err != nil {
				t.Errorf("%s, %s: %v", name, kind, err)
				continue
			}
			for c := range want.Channels {
				if !slices.Equal(got.Channels[c], want.Channels[c]) {
					t.Errorf("%s, %s: %d samples, want %d equal ones", name, kind, len(got.Channels[c]),
						len(want.Channels[c]))
				}
			}
		}
	}
}

// TestMP3Gaps removes, cuts and damages frames: the others stay where they are.
func TestMP3Gaps(t *testing.T) {
	data := mp3Files(t)["encoded-crc"] // 6 frames of 192 bytes, without a tag
	const size, frame = 192, 1152
	want, err := MP3(data, false, unlimited)
	if err != nil || len(want.Channels[0]) != 6*frame {
		t.Fatal(err)
	}
	noise := bytes.Repeat([]byte{0xff, 0xe0, 7}, 99)
	damaged := slices.Clone(data)
	for i := 3*size + 6; i < 3*size+23; i++ {
		damaged[i] = 0xff
	}
	for kind, c := range map[string]struct {
		data         []byte
		frames, same int // frames, and how many of them are as before
	}{
		"cut":     {data[:6*size-1], 5, 5},
		"noise":   {slices.Concat(data[:4*size], noise, data[4*size:]), 6, 4},
		"lost":    {slices.Concat(data[:3*size], noise, data[4*size:]), 5, 3},
		"damaged": {damaged, 6, 3},
		"changed": {slices.Concat(data, mp3Files(t)["encoded-mono"]), 6, 6}, // a stream of another rate follows
		"header":  {data[:5*size+3], 5, 5},
	} {
		got, err := MP3(c.data, false, unlimited)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if n := len(got.Channels[0]); n != c.frames*frame {
			t.Errorf("%s: %d samples, want %d", kind, n, c.frames*frame)
		} else if !slices.Equal(got.Channels[0][:c.same*frame], want.Channels[0][:c.same*frame]) {
			t.Errorf("%s: the first %d frames differ", kind, c.same)
		}
	}
	late, err := MP3(data[2*size:], false, unlimited) // data of frames before is missing
	if err != nil || len(late.Channels[0]) != 4*frame {
		t.Fatal(err)
	}
	if !slices.Equal(late.Channels[0][3*frame:], want.Channels[0][5*frame:]) {
		t.Error("the last frame differs if the first two are missing")
	}
}

// TestMP3Info reads tags without sound: of Xing without numbers of samples, and of Fraunhofer.
func TestMP3Info(t *testing.T) {
	data := mp3Files(t)["encoded-crc"]
	const size, frame = 192, 1152
	info := make([]byte, size)
	copy(info, data[:4])
	for kind, c := range map[string]struct {
		at   int
		text string
		n    int
	}{
		"Xing":  {21, "Xing\x00\x00\x00\x00", 6 * frame},
		"Info":  {21, "Info\x00\x00\x00\x01\x00\x00\x00\x06", 6*frame - 529},
		"LAME":  {21, "Info\x00\x00\x00\x01\x00\x00\x00\x06LAME3.100" + strings.Repeat("\x00", 12) + "\x24\x04\x00", 6*frame - 576 - 1024},
		"VBRI":  {36, "VBRI", 6 * frame},
		"short": {21, "Info\x00\x00\x00\x01\x00\x00\x00\x02LAME3.100" + strings.Repeat("\x00", 12) + "\x24\x00\x00", 2*frame - 576 - 529},
		"long":  {21, "Info\x00\x00\x00\x01\xff\xff\xff\xffLAME3.100" + strings.Repeat("\x00", 12) + "\xff\xf0\x00", 6*frame - 4095 - 529},
		"none":  {30, "Xing", 7 * frame},
	} {
		b := slices.Clone(info)
		copy(b[c.at:], c.text)
		s, err := MP3(append(b, data...), false, unlimited)
		if err != nil || len(s.Channels[0]) != c.n {
			t.Errorf("%s: %d samples, want %d (%v)", kind, len(s.Channels[0]), c.n, err)
		}
	}
}

func TestMP3Errors(t *testing.T) {
	data := mp3Files(t)["encoded-crc"]
	for want, b := range map[string][]byte{
		"no frame":                  []byte("no sound"),
		"no frame of layer III":     nil,
		"that another frame or the": data[:100],
		"is of layer II, want":      append([]byte{0xff, 0xfc, 0x90, 0xc0}, data[4:]...),
		"is of layer I, want":       append([]byte{0xff, 0xfe, 0x90, 0xc0}, data[4:]...),
	} {
		if _, err := MP3(b, false, unlimited); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestMP3Codes checks that each table has a word for every pair of values, and no other.
func TestMP3Codes(t *testing.T) {
	sizes := [34]int{0, 2, 3, 3, 0, 4, 4, 6, 6, 6, 8, 8, 8, 16, 0, 16, 16, 24: 16}
	for _, table := range mp3CodeTexts {
		var got, want []string
		for text := table.text; text != ""; text = text[3:] {
			got = append(got, text[:2])
		}
		n := sizes[table.table]
		for i := range max(n*n, 16*min(1, table.table/32)) {
			if n == 0 {
				n = 16
			}
			want = append(want, fmt.Sprintf("%x%x", i/n, i%n))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("table %d has words of %v, want %v", table.table, got, want)
		}
	}
}

func FuzzMP3(f *testing.F) {
	for _, data := range mp3Files(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := MP3(data, false, unlimited)
		if err != nil {
			return
		}
		for _, c := range s.Channels {
			if len(c) != len(s.Channels[0]) {
				t.Fatal("channels differ in length")
			}
			for i, v := range c {
				if !(v >= -1 && v <= 1) {
					t.Fatalf("sample %d is %g", i, v)
				}
			}
		}
	})
}
