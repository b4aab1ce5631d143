package pipeline

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/onward-ml/onward/preprocess"
)

// TestVoiceSegments checks segments for probabilities of windows of 32 ms; those of
// get_speech_timestamps_from_probs in silero_vad 6.2.3.
func TestVoiceSegments(t *testing.T) {
	probs := func(runs ...float32) (p []float32) { // pairs of a number of windows and a probability
		for i := 0; i < len(runs); i += 2 {
			p = append(p, slices.Repeat([]float32{runs[i+1]}, int(runs[i]))...)
		}
		return p
	}
	for _, c := range []struct {
		name  string
		probs []float32
		opts  VoiceOptions
		want  []Segment
	}{
		{"silence", probs(40, 0.1), VoiceOptions{}, nil},
		{"too short", probs(10, 0.1, 7, 0.9, 20, 0.1), VoiceOptions{}, nil},
		{"speech", probs(10, 0.1, 9, 0.9, 20, 0.1), VoiceOptions{}, []Segment{{4640, 10208}}},
		{"a pause below 100 ms", probs(10, 0.1, 9, 0.9, 3, 0.1, 9, 0.9, 20, 0.1), VoiceOptions{}, []Segment{{4640, 16352}}},
		{"two", probs(10, 0.1, 9, 0.9, 5, 0.1, 9, 0.9, 20, 0.1), VoiceOptions{}, []Segment{{4640, 10208}, {11808, 17376}}},
		{"to the end", probs(2, 0.1, 30, 0.9), VoiceOptions{}, []Segment{{544, 16384}}},
		{"uncertain silence", probs(2, 0.1, 20, 0.9, 10, 0.4, 20, 0.9), VoiceOptions{}, []Segment{{544, 26624}}},
		{"cut at the length", probs(50, 0.9), VoiceOptions{MaxSpeech: time.Second}, []Segment{{0, 15104}, {15104, 25600}}},
		{"cut at a pause", probs(15, 0.9, 4, 0.2, 30, 0.9), VoiceOptions{MaxSpeech: time.Second,
			MinSilence: 500 * time.Millisecond}, []Segment{{0, 8160}, {9248, 25056}}},
	} {
		o := c.opts
		o.Threshold, o.NegThreshold = 0.5, 0.35
		o.MinSpeech, o.Pad = 250*time.Millisecond, 30*time.Millisecond
		if o.MinSilence == 0 {
			o.MinSilence = 100 * time.Millisecond
		}
		v := &VoiceDetector{opts: o}
		if got := v.segments(c.probs, 512*len(c.probs), 16000); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestOCRBoxes checks the box of a rotated rectangle in a probability map.
func TestOCRBoxes(t *testing.T) {
	const w, h = 160, 120
	probs := make([]float32, w*h)
	sin, cos := math.Sincos(math.Pi / 12)
	for y := range h {
		for x := range w {
			u, v := float64(x-80)*cos+float64(y-60)*sin, float64(y-60)*cos-float64(x-80)*sin
			if math.Abs(u) <= 40 && math.Abs(v) <= 8 {
				probs[y*w+x] = 0.9
			}
		}
	}
	d := detection{threshold: 0.3, score: 0.5, unclip: 1.6, most: 1000}
	boxes := d.boxes(probs, h, w, 2*h, 2*w)
	if len(boxes) != 1 {
		t.Fatalf("%d boxes, want 1: %v", len(boxes), boxes)
	}
	b := boxes[0]
	long, short := float64(distance(b[0], b[1])), float64(distance(b[0], b[3]))
	angle := math.Atan2(float64(b[1].Y-b[0].Y), float64(b[1].X-b[0].X)) * 180 / math.Pi
	// 81×17 grow by area·1.6/perimeter = 11.2 on every side, in a map of half the size
	if math.Abs(long-207) > 3 || math.Abs(short-79) > 3 || math.Abs(angle-15) > 1 {
		t.Errorf("box of %.1f×%.1f at %.1f°, want about 207×79 at 15°", long, short, angle)
	}
	if boxes := d.boxes(make([]float32, w*h), h, w, h, w); len(boxes) != 0 {
		t.Errorf("an empty map has %v", boxes)
	}
}

// TestOCRCropTurnsHighBoxes checks that a box becomes an upright image, and a high one lies down.
func TestOCRCropTurnsHighBoxes(t *testing.T) {
	m, _ := preprocess.NewImage(40, 40, 3)
	for i := range m.Pixels {
		m.Pixels[i] = uint8(i)
	}
	r, err := cropBox(m, [4]Point{{5, 6}, {25, 6}, {25, 16}, {5, 16}})
	if err != nil || r.Width != 20 || r.Height != 10 || r.At(0, 0, 0) != m.At(6, 5, 0) ||
		r.At(9, 19, 2) != m.At(15, 24, 2) {
		t.Errorf("crop %v, %v", r, err)
	}
	r, err = cropBox(m, [4]Point{{5, 6}, {15, 6}, {15, 26}, {5, 26}})
	if err != nil || r.Width != 20 || r.Height != 10 || r.At(0, 0, 1) != m.At(6, 14, 1) ||
		r.At(9, 0, 0) != m.At(6, 5, 0) {
		t.Errorf("high crop %v, %v", r, err)
	}
}

// TestImageTargets compares the sizes to which images are resized with those of transformers.
func TestImageTargets(t *testing.T) {
	for _, c := range []struct {
		config string
		want   [2]int // for 111 rows of 150 pixels
	}{
		{`{"image_processor_type": "LevitImageProcessor", "size": {"shortest_edge": 64}}`, [2]int{73, 98}},
		{`{"feature_extractor_type": "LevitFeatureExtractor", "size": 224}`, [2]int{256, 345}},
		{`{"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 64}}`, [2]int{64, 86}},
		{`{"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 224}}`, [2]int{256, 345}},
	} {
		o := &object{name: "preprocessor_config.json"}
		if err := json.Unmarshal([]byte(c.config), &o.fields); err != nil {
			t.Fatal(err)
		}
		p, err := newImageProcessor(o)
		if err != nil {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		if h, w := p.target(111, 150); h != c.want[0] || w != c.want[1] {
			t.Errorf("%s: %d×%d, want %v", c.config, h, w, c.want)
		}
	}
}

func TestImageSuppress(t *testing.T) {
	list := []candidate{{[4]float32{0, 0, 10, 10}, 1, 0.9}, {[4]float32{1, 0, 11, 10}, 1, 0.8},
		{[4]float32{1, 0, 11, 10}, 2, 0.7}, {[4]float32{8, 8, 18, 18}, 1, 0.6}}
	got := suppress(list, 0.45)
	if len(got) != 3 || got[1].class != 2 || got[2].score != 0.6 {
		t.Errorf("kept %v", got)
	}
	if names := yoloNames(`{0: 'person', 1: "driver's cab", 3: 'bus'}`); !slices.Equal(names,
		[]string{"person", "driver's cab", "", "bus"}) {
		t.Errorf("names %q", names)
	}
}

// FuzzImageProcessor checks that no preprocessor_config.json makes a pipeline panic.
func FuzzImageProcessor(f *testing.F) {
	for _, s := range []string{`{"image_processor_type": "CLIPImageProcessor", "size": 30, "crop_size": 20}`,
		`{"feature_extractor_type": "ConvNextFeatureExtractor", "size": {"shortest_edge": 9}, "crop_pct": 0.5}`,
		`{"image_processor_type": "DPTImageProcessor", "keep_aspect_ratio": true, "ensure_multiple_of": 7}`,
		`{"image_processor_type": "DetrImageProcessorFast", "size": {"shortest_edge": 9, "longest_edge": 12}}`} {
		f.Add(s, uint8(5), uint8(40))
	}
	f.Fuzz(func(t *testing.T, config string, h, w uint8) {
		o := &object{name: "preprocessor_config.json"}
		if json.Unmarshal([]byte(config), &o.fields) != nil {
			return
		}
		p, err := newImageProcessor(o)
		if err != nil || slices.Max([]int{p.size.Height, p.size.Width, p.size.Shortest, p.cropSize.Height,
			p.cropSize.Width, p.pad.Height, p.pad.Width}) > 500 {
			return
		}
		m, err := preprocess.NewImage(int(h)+1, int(w)+1, 3)
		if err != nil {
			t.Fatal(err)
		}
		x, shape, err := p.tensor(m)
		if err == nil && (len(shape) != 4 || len(x) != 3*shape[2]*shape[3]) {
			t.Errorf("%d numbers, shape %v", len(x), shape)
		}
	})
}
