package soundcodec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"
)

// TestMP3Oracle compares samples with those of libsndfile, which uses mpg123: of drawn streams, and
// of files that LAME encodes by libsndfile, and by its own command if there is one. Set
// ONWARD_MP3_STREAMS to the number of drawn streams of each kind.
func TestMP3Oracle(t *testing.T) {
	python := os.Getenv("ONWARD_MEDIA")
	if python == "" {
		t.Skip("ONWARD_MEDIA does not name a Python with soundfile; make test-pipelines installs it")
	}
	folder, streams := t.TempDir(), 3
	if v := os.Getenv("ONWARD_MP3_STREAMS"); v != "" {
		if _, err := fmt.Sscan(v, &streams); err != nil {
			t.Fatal(err)
		}
	}
	d := mp3Draw{Rand: rand.New(rand.NewPCG(1, 2)), words: mp3Words(), lines: 576}
	for i := range 3 * 3 * 4 * streams {
		d.version, d.rate, d.mode, d.crc = []int{3, 2, 0}[i%3], i/3%3, i/9%4, i%5 == 0
		name := fmt.Sprintf("drawn-%d-v%d-r%d-m%d.mp3", i, d.version, d.rate, d.mode)
		if err := os.WriteFile(filepath.Join(folder, name), d.stream(12), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(python, "testdata/oracle_mp3.py", folder).Output()
	if err != nil {
		if e, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w\n%s", err, e.Stderr)
		}
		t.Fatal(err)
	}
	n, worst := 0, 0.0
	for line := range bytes.Lines(out) {
		var want struct {
			File                   string
			Rate, Frames, Channels int
		}
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(folder, want.File))
		if err != nil {
			t.Fatal(err)
		}
		s, err := MP3(data, false, unlimited)
		if err != nil {
			t.Errorf("%s: %v", want.File, err)
			continue
		}
		raw, err := os.ReadFile(filepath.Join(folder, want.File+".raw"))
		if err != nil || len(raw) == 0 {
			t.Fatal(err, len(raw))
		}
		if s.Rate != want.Rate || len(s.Channels) != want.Channels || len(s.Channels[0]) != want.Frames {
			t.Errorf("%s: %d Hz, %d channels of %d, want %d, %d, %d", want.File, s.Rate, len(s.Channels),
				len(s.Channels[0]), want.Rate, want.Channels, want.Frames)
			continue
		}
		samples, most := unsafe.Slice((*float32)(unsafe.Pointer(&raw[0])), len(raw)/4), 0.0
		for i, v := range samples {
			got := s.Channels[i%want.Channels][i/want.Channels]
			most = max(most, math.Abs(float64(got-max(-1, min(1, v)))))
		}
		if most > 5e-6 {
			t.Errorf("%s: differs by %g", want.File, most)
		}
		n, worst = n+1, max(worst, most)
	}
	t.Logf("%d files, which differ by at most %.2g", n, worst)
	if n < 36*streams {
		t.Errorf("%d files, want at least %d", n, 36*streams)
	}
}
