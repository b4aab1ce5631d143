package pipeline

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onward-ml/onward/preprocess"
	"github.com/onward-ml/onward/tensor"
)

// TestSpeechOracle compares features, tokens, their times and texts with those of onnx-asr and
// sherpa-onnx, for models with random weights.
func TestSpeechOracle(t *testing.T) {
	features, tokens, worst := 0, map[string]int{}, 0.0
	open := map[string]*SpeechRecognizer{}
	runOracle(t, func(line []byte) {
		var c struct {
			Kind, Name, Sound, Output, Folder, Text string
			Shape                                   []int
			Frames                                  int
			Tokens                                  []string
			Starts                                  []float64
			Streams                                 bool
		}
		readJSON(t, line, &c)
		samples := readFloats(t, c.Sound)
		if c.Kind == "features" {
			var x *tensor.Tensor
			frames, err := 0, error(nil)
			switch c.Name {
			case "kaldi":
				if x, err = preprocess.KaldiFbank(samples, 80, false); err == nil {
					frames = x.Dim(0)
				}
			case "nemo80":
				x, frames, err = preprocess.NeMoFbank(samples, 80)
			case "nemo128":
				x, frames, err = preprocess.NeMoFbank(samples, 128)
			}
			if err != nil {
				t.Fatal(err)
			}
			if shape := x.Shape()[x.Rank()-2:]; !slices.Equal(shape, c.Shape) || frames != c.Frames {
				t.Fatalf("%s of %s: shape %v, %d frames, want %v, %d", c.Name, c.Sound, shape, frames, c.Shape,
					c.Frames)
			}
			features++
			for i, want := range readFloats(t, c.Output) {
				got := float64(tensor.MustData[float32](x)[i])
				worst = max(worst, math.Abs(got-float64(want)))
				if !near(got, float64(want), 1e-4) {
					t.Fatalf("%s of %s: number %d is %v, want %v", c.Name, c.Sound, i, got, want)
				}
			}
			return
		}
		r := open[c.Folder]
		if r == nil {
			var err error
			if r, err = OpenSpeechRecognizer(t.Context(), c.Folder, nil); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
		}
		got, err := r.Recognize(t.Context(), samples, 16000)
		if err != nil {
			t.Fatalf("%s: %v", c.Folder, err)
		}
		check := func(got []SpokenToken, text string) {
			same := len(got) == len(c.Tokens)
			for i := range min(len(got), len(c.Tokens)) {
				same = same && got[i].Text == c.Tokens[i] && math.Abs(got[i].Start.Seconds()-c.Starts[i]) < 1e-4
			}
			if !same || text != c.Text {
				t.Errorf("%s: %s: got %q %v, want %q %q %v", c.Folder, c.Sound, text, got, c.Text, c.Tokens, c.Starts)
			}
		}
		check(got.Tokens, got.Text)
		tokens[c.Folder[strings.LastIndexByte(c.Folder, '/')+1:]] += len(got.Tokens)
		s, err := r.Stream()
		if (err == nil) != c.Streams {
			t.Errorf("%s: stream %v, %v", c.Folder, s, err)
		}
		if err != nil {
			return
		}
		var streamed []SpokenToken
		for part := range slices.Chunk(samples, 777) {
			found, err := s.Write(t.Context(), part)
			if err != nil {
				t.Fatal(err)
			}
			streamed = append(streamed, found...)
		}
		found, err := s.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check(append(streamed, found...), s.Text())
	}, "testdata/oracle_speech.py", t.TempDir())
	for folder, n := range tokens {
		if n < 20 {
			t.Errorf("%s: %d tokens, want more to compare", folder, n)
		}
	}
	t.Logf("%d features, which differ by at most %.2g; tokens by model: %v", features, worst, tokens)
}
