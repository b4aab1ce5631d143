package pipeline

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/onward-ml/onward/preprocess"
)

// oracleMedia calls f with each line that a kind of testdata/oracle_media.py prints.
func oracleMedia(t *testing.T, kind string, f func(line []byte), args ...string) {
	t.Helper()
	runOracle(t, f, append([]string{"testdata/oracle_media.py", kind, t.TempDir()}, args...)...)
}

// runOracle calls f with each line that a script of Python prints.
func runOracle(t *testing.T, f func(line []byte), args ...string) {
	t.Helper()
	python := os.Getenv("ONWARD_MEDIA")
	if python == "" {
		t.Skip("ONWARD_MEDIA does not name a Python with the packages; make test-pipelines installs them")
	}
	cmd := exec.Command(python, args...)
	errs, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, n := bufio.NewScanner(out), 0
	for lines.Buffer(nil, 1<<26); lines.Scan(); n++ {
		f(lines.Bytes())
	}
	if err := cmd.Wait(); err != nil || lines.Err() != nil || n == 0 {
		text, _ := os.ReadFile(errs.Name())
		t.Fatalf("%s: %v, %v after %d lines\n%s", python, err, lines.Err(), n, text)
	}
}

// readJSON decodes a line of the oracle.
func readJSON(t *testing.T, line []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(line, to); err != nil {
		t.Fatal(err)
	}
}

// readFloats returns a file of float32 numbers.
func readFloats(t *testing.T, file string) []float32 {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), len(data)/4)
}

// voiceSettings are arguments of get_speech_timestamps.
type voiceSettings struct {
	Threshold float64 `json:"threshold"`
	Neg       float64 `json:"neg_threshold"`
	Silence   int     `json:"min_silence_duration_ms"`
	Speech    int     `json:"min_speech_duration_ms"`
	Pad       int     `json:"speech_pad_ms"`
	Longest   float64 `json:"max_speech_duration_s"`
}

// TestVoiceOracle compares segments with those of Python's silero_vad on generated speech, for all
// models of the package and, if ONWARD_WAKEWORDS names the folder of openWakeWord's models, for
// version 4.
func TestVoiceOracle(t *testing.T) {
	var args []string
	if dir := os.Getenv("ONWARD_WAKEWORDS"); dir != "" {
		args = append(args, dir+"/silero_vad.onnx")
	}
	n, segments, models := 0, 0, map[string]bool{}
	oracleMedia(t, "voice", func(line []byte) {
		var c struct {
			File     string
			Rate     int
			Model    string
			Options  voiceSettings
			Segments [][2]int
			Streamed [][2]any
		}
		readJSON(t, line, &c)
		v, err := OpenVoiceDetector(t.Context(), c.Model, &VoiceOptions{Threshold: c.Options.Threshold,
			NegThreshold: c.Options.Neg, MinSilence: time.Duration(c.Options.Silence) * time.Millisecond,
			MinSpeech: time.Duration(c.Options.Speech) * time.Millisecond,
			Pad:       time.Duration(c.Options.Pad) * time.Millisecond,
			MaxSpeech: time.Duration(c.Options.Longest * float64(time.Second))})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		x := readFloats(t, c.File)
		got, err := v.Detect(t.Context(), x, c.Rate)
		if err != nil {
			t.Fatal(err)
		}
		n++
		models[c.Model] = true
		segments += len(got)
		same := len(got) == len(c.Segments)
		for i := range min(len(got), len(c.Segments)) {
			same = same && got[i] == Segment{c.Segments[i][0], c.Segments[i][1]}
		}
		if !same {
			t.Errorf("%s %s %+v: got %v, want %v", c.Model, c.File, c.Options, got, c.Segments)
		}
		if c.Streamed == nil || c.Options != (voiceSettings{}) {
			return
		}
		s, err := v.Stream(c.Rate)
		if err != nil {
			t.Fatal(err)
		}
		var events []VoiceEvent
		for len(x) > 0 {
			part := x[:min(len(x), 700)]
			x = x[len(part):]
			e, err := s.Write(t.Context(), part)
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e...)
		}
		same = len(events) == len(c.Streamed)
		for i := range min(len(events), len(c.Streamed)) {
			same = same && events[i] == VoiceEvent{c.Streamed[i][0].(bool), int(c.Streamed[i][1].(float64))}
		}
		if !same {
			t.Errorf("%s %s: streamed %v, want %v", c.Model, c.File, events, c.Streamed)
		}
	}, args...)
	t.Logf("%d results of %d models with %d segments", n, len(models), segments)
}

// TestVoiceWakeWordOracle compares scores with those of Python's openwakeword.
func TestVoiceWakeWordOracle(t *testing.T) {
	dir := os.Getenv("ONWARD_WAKEWORDS")
	if dir == "" {
		t.Skip("ONWARD_WAKEWORDS does not name the folder of openWakeWord's models")
	}
	w, err := OpenWakeWord(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	n, worst, top := 0, 0.0, 0.0
	oracleMedia(t, "wake", func(line []byte) {
		var c struct {
			File   string
			Scores []map[string]float64
		}
		readJSON(t, line, &c)
		s := w.Stream()
		var got []WakeScores
		for part := range slices.Chunk(readFloats(t, c.File), 1000) {
			scores, err := s.Write(t.Context(), part)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, scores...)
		}
		if len(got) != len(c.Scores) {
			t.Fatalf("%s: %d steps, want %d", c.File, len(got), len(c.Scores))
		}
		for i, want := range c.Scores {
			if len(want) != len(got[i].Scores) {
				t.Fatalf("step %d: got %v, want %v", i, got[i].Scores, want)
			}
			for word, v := range want {
				g, ok := got[i].Scores[word]
				d := math.Abs(float64(g) - v)
				n, worst, top = n+1, max(worst, d), max(top, v)
				if !ok || !(d <= 1e-4) {
					t.Errorf("%s step %d: score of %s is %v, want %v", c.File, i, word, g, v)
				}
			}
		}
	}, dir)
	if top < 0.5 {
		t.Errorf("the highest score is %v: no word was heard", top)
	}
	t.Logf("%d scores, which differ by at most %.2g; the highest is %.3f", n, worst, top)
}

// TestVoiceResampleOracle compares Resample with torchaudio's.
func TestVoiceResampleOracle(t *testing.T) {
	oracleMedia(t, "resample", func(line []byte) {
		var c struct {
			Input, Output string
			Rates         [2]int
			Width         int
			Rolloff, Beta float64
		}
		readJSON(t, line, &c)
		got, err := preprocess.Resample(readFloats(t, c.Input), c.Rates[0], c.Rates[1],
			preprocess.Resampling{Width: c.Width, Rolloff: c.Rolloff, Beta: c.Beta})
		if err != nil {
			t.Fatal(err)
		}
		want, worst := readFloats(t, c.Output), 0.0
		if len(got) != len(want) {
			t.Fatalf("%+v: %d samples, want %d", c, len(got), len(want))
		}
		for i, v := range want {
			worst = max(worst, math.Abs(float64(got[i]-v)))
		}
		if !(worst <= 1e-5) {
			t.Errorf("%v, width %d, beta %g: differs by %g", c.Rates, c.Width, c.Beta, worst)
		}
	})
}

// readImage decodes an image file to RGB.
func readImage(t *testing.T, file string) *preprocess.Image {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := preprocess.Decode(f, 3)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestImageProcessorOracle compares inputs of models with those of transformers' processors.
func TestImageProcessorOracle(t *testing.T) {
	n, differ := 0, 0
	oracleMedia(t, "processor", func(line []byte) {
		var c struct {
			Image, Folder, Name, Options string
			Shape                        []int
		}
		readJSON(t, line, &c)
		f, err := openFolder(c.Folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		p, err := f.imageProcessor()
		if err != nil {
			t.Fatalf("%s %s: %v", c.Name, c.Options, err)
		}
		x, shape, err := p.tensor(readImage(t, c.Image))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(shape, c.Shape) {
			t.Errorf("%s %s: shape %v, want %v", c.Name, c.Options, shape, c.Shape)
			return
		}
		n++
		bad, worst := 0, float32(0)
		for i, v := range readFloats(t, c.Folder+"/x.f32") {
			if x[i] != v {
				bad++
				worst = max(worst, x[i]-v, v-x[i])
			}
		}
		if bad > 0 {
			differ++
			t.Errorf("%s %s: %d of %d numbers differ, by at most %g", c.Name, c.Options, bad, len(x), worst)
		}
	})
	t.Logf("%d inputs, of which %d differ", n, differ)
}

// within reports whether the box of o is that of the corners.
func (o *Object) within(corners [4]float64) bool {
	for i, v := range []float32{o.Min.X, o.Min.Y, o.Max.X, o.Max.Y} {
		if !near(float64(v), corners[i], 1e-3) {
			return false
		}
	}
	return true
}

// TestImageModelsOracle compares answers with those of transformers for models with random weights.
func TestImageModelsOracle(t *testing.T) {
	found, counts := 0, map[string]int{}
	runOracle(t, func(line []byte) {
		var c struct {
			Kind, Folder, Image, Text, Sound string
			Labels                           []string
			Scores, Values                   []float64
			Boxes                            [][4]float64
			Classes                          []int32
		}
		readJSON(t, line, &c)
		counts[c.Kind]++
		ctx := t.Context()
		var m *preprocess.Image
		if c.Image != "" {
			m = readImage(t, c.Image)
		}
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", c.Folder, err)
			}
		}
		compare := func(got []float32, step int) {
			t.Helper()
			for i, want := range c.Values {
				if !near(float64(got[i*step]), want, 1e-4) {
					t.Fatalf("%s: number %d is %v, want %v", c.Folder, i, got[i*step], want)
				}
			}
		}
		switch c.Kind {
		case "classify":
			p, err := OpenImageClassifier(ctx, c.Folder, nil)
			check(err)
			got, err := p.Classify(ctx, m, 0)
			check(err)
			for i, l := range got {
				if l.Name != c.Labels[i] || !near(float64(l.Score), c.Scores[i], 1e-4) {
					t.Errorf("%s: class %d is %v, want %s %v", c.Folder, i, l, c.Labels[i], c.Scores[i])
				}
			}
			check(p.Close())
		case "segment":
			p, err := OpenSegmenter(ctx, c.Folder, nil)
			check(err)
			got, err := p.Segment(ctx, m)
			check(err)
			differ := 0
			for i, v := range c.Classes {
				if got.Classes[i] != v {
					differ++
				}
			}
			if len(got.Classes) != len(c.Classes) || differ*10000 > len(c.Classes) {
				t.Errorf("%s: %d of %d pixels differ", c.Folder, differ, len(c.Classes))
			}
			check(p.Close())
		case "depth":
			p, err := OpenDepthEstimator(ctx, c.Folder, nil)
			check(err)
			got, err := p.Estimate(ctx, m)
			check(err)
			compare(got.Values, 97)
			check(p.Close())
		case "detect":
			p, err := OpenObjectDetector(ctx, c.Folder, &ObjectDetectorOptions{Threshold: 0.05})
			check(err)
			got, err := p.Detect(ctx, m)
			check(err)
			found += len(got)
			if len(got) != len(c.Scores) {
				t.Fatalf("%s: %d objects, want %d", c.Folder, len(got), len(c.Scores))
			}
			for i, b := range c.Boxes { // the order of scores that differ by a rounding is open
				k := slices.IndexFunc(got, func(o Object) bool {
					return o.Label == c.Labels[i] && near(float64(o.Score), c.Scores[i], 1e-4) && o.within(b)
				})
				if k < 0 || !near(float64(got[i].Score), c.Scores[i], 1e-4) {
					t.Fatalf("%s: object %d is %v, want %s %v %v", c.Folder, i, got[i], c.Labels[i], c.Scores[i], b)
				}
				got[k].Label = "" // found
			}
			check(p.Close())
		case "embed":
			p, err := OpenImageEmbedder(ctx, c.Folder, nil)
			check(err)
			var v []float32
			if m != nil {
				v, err = p.EmbedImage(ctx, m)
			} else {
				v, err = p.EmbedText(ctx, c.Text)
			}
			check(err)
			compare(v, 1)
			check(p.Close())
		case "speech":
			p, err := OpenSpeechRecognizer(ctx, c.Folder, nil)
			check(err)
			text, err := p.Transcribe(ctx, readFloats(t, c.Sound), 16000)
			check(err)
			if text != c.Text || len(text) < 10 {
				t.Errorf("%s: transcribed %q, want %q", c.Sound, text, c.Text)
			}
			check(p.Close())
		}
	}, "testdata/export_media.py", t.TempDir())
	if found == 0 {
		t.Error("no object was found")
	}
	t.Logf("images and texts: %v; %d objects", counts, found)
}
